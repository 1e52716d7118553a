//! Operations on many tensors at once: their norm as one vector, and their product with one factor.

use super::{OpType, Operation, float, one};
use crate::{DType, Error, OutputMeta, Outputs, Result, Shape, TensorMeta};

/// The dtype in which floats of a dtype are computed.
fn computed(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::BF16 => DType::F32,
        dtype => dtype,
    }
}

/// Checks that tensors are floats of one dtype, and that there is one; which dtype.
fn one_float(name: &'static str, tensors: &[TensorMeta<'_>]) -> Result<DType> {
    let Some(first) = tensors.first() else {
        return Err(Error::argument(name, "needs at least one tensor"));
    };
    float(name, first.dtype)?;
    match tensors.iter().find(|x| x.dtype != first.dtype) {
        None => Ok(first.dtype),
        Some(x) => Err(Error::dtype(name, "tensors must have one dtype", [first.dtype, x.dtype])),
    }
}

/// The norm of the elements of all tensors as one vector, as `torch.nn.utils.get_total_norm`: `(Σ |x|^ord)^(1/ord)`, or the largest
/// magnitude where `ord` is infinite. NaN if any element is.
///
/// The tensors are floats of one dtype; the result has no dimensions, and is `F32` of 16-bit floats.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct TotalNorm {
    /// The order of the norm, above 0.
    #[cfg_attr(feature = "serde", serde(with = "crate::serial::float"))]
    pub ord: f64,
}

impl TotalNorm {
    /// The operation's name.
    pub const NAME: &'static str = "total_norm";
}

impl Operation for TotalNorm {
    const CLASS: OpType = OpType::Reduction;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        if self.ord.is_nan() || self.ord <= 0.0 {
            return Err(Error::argument(
                Self::NAME,
                format!("the order must be above 0, and is {}", self.ord),
            ));
        }
        one(computed(one_float(Self::NAME, args)?), Shape::scalar())
    }

    fn flops(&self, args: &[TensorMeta<'_>], _: &[OutputMeta]) -> u64 {
        2 * args.iter().map(|x| x.layout.numel() as u64).sum::<u64>()
    }
}

/// The product of each tensor with one factor, as `torch._foreach_mul`; also whether any element of the tensors was not finite, as
/// `torch._amp_foreach_non_finite_check_and_unscale_`.
///
/// The arguments are the factor, a tensor of no dimensions that may change where the operation does not, and the tensors: floats of one
/// dtype. The factor has that, and is `F32` for 16-bit floats. The results are the products, which may be written over the tensors,
/// and, where asked for, an `F32` of no dimensions: 1 if there was a NaN or an infinity, else 0.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct ForeachMul {
    /// Whether to say if an element was not finite.
    pub found_inf: bool,
}

impl ForeachMul {
    /// The operation's name.
    pub const NAME: &'static str = "foreach_mul";
}

impl Operation for ForeachMul {
    const CLASS: OpType = OpType::Elementwise;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        let dtype = one_float(Self::NAME, args.get(1..).unwrap_or_default())?;
        let factor = &args[0];
        if factor.dtype != computed(dtype) || factor.layout.ndim() != 0 {
            let message = format!(
                "the factor must be {} of no dimensions, and is {}{}",
                computed(dtype),
                factor.dtype,
                factor.shape()
            );
            return Err(Error::argument(Self::NAME, message));
        }
        let products = args[1..].iter().map(|x| OutputMeta { dtype, shape: x.shape().clone() });
        let found_inf = self.found_inf.then(|| OutputMeta { dtype: DType::F32, shape: Shape::scalar() });
        Ok(products.chain(found_inf).collect())
    }

    fn may_overwrite(&self, arg: usize, out: usize) -> bool {
        arg == out + 1
    }

    fn leading_argument(&self) -> usize {
        1
    }

    fn flops(&self, args: &[TensorMeta<'_>], _: &[OutputMeta]) -> u64 {
        args.iter().map(|x| x.layout.numel() as u64).sum()
    }
}
