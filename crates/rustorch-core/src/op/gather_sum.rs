//! Weighted sums of elements chosen by indices, and their gradients.

use super::{OpType, Operation, axis_len, expect_args, index_dtype, same_dense};
use crate::{DType, Error, OutputMeta, Outputs, Result, Shape, TensorMeta};
use smallvec::smallvec;

/// Weighted sums of elements: `x: [batch, channels, n], index: [batch, terms, points], weight: [batch, terms, points]` give
/// `[batch, channels, points]`,
///
/// `out[b, c, p] = Σₜ weight[b, t, p] · x[b, c, index[b, t, p]]`,
///
/// in the order of the terms. A term whose index is −1 has no element and adds nothing, whatever its weight. `x` and `weight` are of one
/// dtype, `F32` or `F64`; rows of `x` have less than 2³¹ elements.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct GatherSum;

impl GatherSum {
    /// The operation's name.
    pub const NAME: &'static str = "gather_sum";
}

/// The gradients of [`GatherSum`], from that of its result and its arguments: `grad: [batch, channels, points], x, index, weight` give
/// those of `x` and of `weight` that are wanted, in this order.
///
/// What is added to an element of `x` comes in an order that depends on the shapes alone. The weights of terms without an element have a
/// gradient of zero.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct GatherSumBackward {
    /// Whether the gradient of `x` is wanted.
    pub x: bool,
    /// Whether that of `weight` is.
    pub weight: bool,
}

impl GatherSumBackward {
    /// The operation's name.
    pub const NAME: &'static str = "gather_sum_backward";
}

/// The result of [`GatherSum`].
fn summed(name: &'static str, args: [&TensorMeta<'_>; 3]) -> Result<OutputMeta> {
    let [x, index, weight] = args;
    let dtype = same_dense(name, &[*x, *weight], 2..=2)?;
    if !matches!(dtype, DType::F32 | DType::F64) {
        return Err(Error::dtype(name, "takes f32 and f64; cast the operands", [dtype]));
    }
    index_dtype(name, index)?;
    let (&[batch, channels, n], &[own, _, points]) = (x.dims(), index.dims()) else {
        let message = "takes x of [batch, channels, n], and index and weight of [batch, terms, points]";
        return Err(Error::shape(name, message, [x.shape(), index.shape()]));
    };
    if index.shape() != weight.shape() {
        return Err(Error::shape(
            name,
            "index and weight must have one shape",
            [index.shape(), weight.shape()],
        ));
    }
    if own != batch {
        return Err(Error::shape(name, "x and index must have one batch size", [x.shape(), index.shape()]));
    }
    if i32::try_from(n).is_err() {
        return Err(Error::shape(name, "rows of x must have less than 2³¹ elements", [x.shape()]));
    }
    Ok(OutputMeta { dtype, shape: Shape::new(&[batch, channels, points][..])? })
}

impl Operation for GatherSum {
    const CLASS: OpType = OpType::Indexing;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        expect_args(Self::NAME, args, 3..=3)?;
        Ok(smallvec![summed(Self::NAME, [&args[0], &args[1], &args[2]])?])
    }

    fn fails_on_values(&self) -> bool {
        true
    }

    fn flops(&self, args: &[TensorMeta<'_>], outs: &[OutputMeta]) -> u64 {
        2 * axis_len(args[1].shape(), 1) as u64 * outs[0].shape.numel() as u64
    }
}

impl Operation for GatherSumBackward {
    const CLASS: OpType = OpType::Indexing;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        expect_args(Self::NAME, args, 4..=4)?;
        let [grad, x, index, weight] = [&args[0], &args[1], &args[2], &args[3]];
        let result = summed(Self::NAME, [x, index, weight])?;
        if *grad.shape() != result.shape {
            let message = "the gradient must have the shape of the sums";
            return Err(Error::shape(Self::NAME, message, [grad.shape(), &result.shape]));
        }
        same_dense(Self::NAME, &[*grad, *x], 2..=2)?;
        if !(self.x || self.weight) {
            return Err(Error::argument(Self::NAME, "at least one of the gradients must be wanted"));
        }
        let wanted = [(self.x, x), (self.weight, weight)].into_iter().filter(|(wanted, _)| *wanted);
        Ok(wanted.map(|(_, x)| OutputMeta { dtype: x.dtype, shape: x.shape().clone() }).collect())
    }

    fn fails_on_values(&self) -> bool {
        true
    }

    fn flops(&self, args: &[TensorMeta<'_>], _: &[OutputMeta]) -> u64 {
        let each = 2 * (u64::from(self.x) + u64::from(self.weight));
        each * axis_len(args[2].shape(), 1) as u64 * args[0].shape().numel() as u64
    }
}
