//! Sort, top-k.

use super::{OpType, Operation, axis_in, axis_len, in_elements, same_dense};
use crate::{DType, Error, OutputMeta, Outputs, Result, TensorMeta};
use smallvec::smallvec;

/// A stable sort along an axis. NaN counts as larger than everything, as in PyTorch.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct Sort {
    /// The axis.
    pub axis: usize,
    /// Whether the largest comes first.
    pub descending: bool,
}

impl Sort {
    /// The operation's name.
    pub const NAME: &'static str = "sort";
}

impl Operation for Sort {
    const CLASS: OpType = OpType::Sorting;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        ordered(Self::NAME, self.axis, args)
    }

    fn flops(&self, args: &[TensorMeta<'_>], _: &[OutputMeta]) -> u64 {
        comparisons(args)
    }
}

/// The `k` largest or smallest along an axis, in order; the earlier of equals first.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct TopK {
    /// How many.
    pub k: usize,
    /// The axis.
    pub axis: usize,
    /// Whether the largest are wanted.
    pub largest: bool,
}

impl TopK {
    /// The operation's name.
    pub const NAME: &'static str = "topk";
}

impl Operation for TopK {
    const CLASS: OpType = OpType::Sorting;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        let mut outs = ordered(Self::NAME, self.axis, args)?;
        let shape = args[0].shape();
        let len = axis_len(shape, self.axis);
        if self.k > len {
            return Err(Error::argument(
                Self::NAME,
                format!("k is {}, but dimension {} has {len} elements", self.k, self.axis),
            ));
        }
        if shape.ndim() != 0 {
            for out in &mut outs {
                out.shape = shape.with_dim(self.axis, self.k)?;
            }
        } else if self.k == 0 {
            return Err(Error::argument(Self::NAME, "a scalar has one element; k must be 1"));
        }
        Ok(outs)
    }

    fn flops(&self, args: &[TensorMeta<'_>], _: &[OutputMeta]) -> u64 {
        comparisons(args)
    }
}

/// Comparisons of a sort of all elements.
fn comparisons(args: &[TensorMeta<'_>]) -> u64 {
    let elements = in_elements(args);
    elements * u64::from(elements.max(2).ilog2())
}

/// Values and indices of the argument's shape, for dtypes that have an order.
fn ordered(name: &'static str, axis: usize, args: &[TensorMeta<'_>]) -> Result<Outputs> {
    let dtype = same_dense(name, args, 1..=1)?;
    if dtype.is_complex() {
        return Err(Error::dtype(name, "complex numbers have no order", [dtype]));
    }
    let shape = args[0].shape();
    axis_in(name, axis, shape)?;
    Ok(smallvec![
        OutputMeta { dtype, shape: shape.clone() },
        OutputMeta { dtype: DType::I64, shape: shape.clone() }
    ])
}
