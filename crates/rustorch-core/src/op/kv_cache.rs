//! Operations on caches of keys and values, where how far a cache is filled is data: one graph decodes at every position.

use super::{Attention, OpType, Operation, bytes_written, expect_args, index_dtype, one, same_dense};
use crate::{Error, OutputMeta, Outputs, Result, TensorMeta};

/// `(x, update, start: integer []) →` `x` with `update` in place of as many elements along an axis, from `start` on, as XLA's
/// `DynamicUpdateSlice`: where the update would not fit, `start` is moved so that it does, and nothing fails.
///
/// `update` has the shape of `x` but along the axis, where it is no longer. Where both are floats, it is rounded to the dtype of `x`, as by
/// [`Cast`](super::Cast); else it has that dtype. Over `x` itself, no other element is touched.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct SliceUpdate {
    /// The axis.
    pub axis: usize,
}

impl SliceUpdate {
    /// The operation's name.
    pub const NAME: &'static str = "slice_update";
}

impl Operation for SliceUpdate {
    const CLASS: OpType = OpType::Indexing;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        expect_args(Self::NAME, args, 3..=3)?;
        let dtype = match (args[0].dtype, args[1].dtype) {
            (to, from) if to.is_float() && from.is_float() => to,
            _ => same_dense(Self::NAME, &args[..2], 2..=2)?,
        };
        let (x, update) = (args[0].shape(), args[1].shape());
        expect_scalar(Self::NAME, "start", &args[2])?;
        if self.axis >= x.ndim() {
            return Err(Error::Axis { op: Self::NAME, axis: self.axis as isize, ndim: x.ndim() });
        }
        let fits = update.ndim() == x.ndim()
            && (0..x.ndim()).all(|i| if i == self.axis { update[i] <= x[i] } else { update[i] == x[i] });
        if !fits {
            return Err(Error::shape(
                Self::NAME,
                format!(
                    "the update must have the tensor's shape, but along axis {} it may be shorter",
                    self.axis
                ),
                [x, update],
            ));
        }
        one(dtype, x.clone())
    }

    fn may_overwrite(&self, arg: usize, _: usize) -> bool {
        arg == 0
    }

    fn bytes_read(&self, args: &[TensorMeta<'_>], outs: &[OutputMeta]) -> usize {
        args[1].packed_bytes() + bytes_written(outs)
    }
}

/// `(q, k, v, position: integer []) →` [`Attention`] over the first keys of a cache: query `i` sees key `j` only where
/// `j ≤ i + position`, and so do windows count from there. Keys behind those that some query sees may be anything. A negative
/// position counts as 0.
///
/// Shapes and results are those of the attention, whose [`causal`](Attention::causal) is not looked at.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct CachedAttention {
    /// The attention.
    pub attention: Attention,
}

impl CachedAttention {
    /// The operation's name.
    pub const NAME: &'static str = "cached_attention";

    /// The attention where the first query is at this position.
    pub fn at(&self, position: i64) -> Attention {
        let position = usize::try_from(position.max(0)).unwrap_or(usize::MAX);
        Attention { causal: Some(position), ..self.attention.clone() }
    }
}

impl Operation for CachedAttention {
    const CLASS: OpType = OpType::Attention;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        expect_args(Self::NAME, args, 4..=4)?;
        expect_scalar(Self::NAME, "position", &args[3])?;
        if self.attention.dropout.is_some() {
            return Err(Error::argument(Self::NAME, "has no dropout"));
        }
        self.attention.infer(&args[..3])
    }

    fn flops(&self, args: &[TensorMeta<'_>], outs: &[OutputMeta]) -> u64 {
        self.attention.flops(&args[..3], outs)
    }
}

fn expect_scalar(op: &'static str, what: &str, x: &TensorMeta<'_>) -> Result<()> {
    index_dtype(op, x)?;
    match x.layout.ndim() {
        0 => Ok(()),
        _ => Err(Error::shape(op, format!("the {what} must have no dimensions"), [x.shape()])),
    }
}
