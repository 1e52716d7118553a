//! Operations without arguments: fill, arange.

use super::{OpType, Operation, expect_args, one};
use crate::{DType, Error, Outputs, Result, Scalar, Shape, TensorMeta};

/// A tensor of one value.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct Fill {
    /// The shape.
    pub shape: Shape,
    /// The dtype; not a block type.
    pub dtype: DType,
    /// The value, converted as casting does.
    pub value: Scalar,
}

impl Fill {
    /// The operation's name.
    pub const NAME: &'static str = "fill";
}

impl Operation for Fill {
    const CLASS: OpType = OpType::Creation;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        expect_args(Self::NAME, args, 0..=0)?;
        if self.dtype.is_quant() {
            return Err(Error::dtype(
                Self::NAME,
                "a block-quantized tensor is made by casting",
                [self.dtype],
            ));
        }
        one(self.dtype, self.shape.clone())
    }

    fn dtype_parameter(&self) -> Option<DType> {
        Some(self.dtype)
    }
}

/// `start`, `start + step`, … : `len` numbers in one dimension.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct Arange {
    /// The first number.
    pub start: Scalar,
    /// The difference.
    pub step: Scalar,
    /// How many.
    pub len: usize,
    /// The dtype: integer or floating-point. Element `i` is `start + i·step`, computed in `i64` or `f64`, then cast.
    pub dtype: DType,
}

impl Arange {
    /// The operation's name.
    pub const NAME: &'static str = "arange";
}

impl Operation for Arange {
    const CLASS: OpType = OpType::Creation;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        expect_args(Self::NAME, args, 0..=0)?;
        if !self.dtype.is_int() && !self.dtype.is_float() {
            return Err(Error::dtype(Self::NAME, "needs an integer or floating-point dtype", [self.dtype]));
        }
        one(self.dtype, Shape::new([self.len].as_slice())?)
    }

    fn dtype_parameter(&self) -> Option<DType> {
        Some(self.dtype)
    }
}
