//! What stands in the list of an index, and the macro that writes it.

use crate::Tensor;
use rustorch_core::{Error, Result};
use std::convert::Infallible;
use std::ops::{Bound, Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

/// One item of the list that [`i!`](crate::i) makes; [`Tensor::i`] says what each means.
#[derive(Clone, Debug)]
pub enum TensorIndex {
    /// One element of a dimension, which may count from the end.
    Integer(i64),
    /// A part of a dimension.
    Slice(Slice),
    /// All dimensions that nothing else stands for.
    Ellipsis,
    /// A new dimension of length 1.
    NewAxis,
    /// A new dimension of length 1 or 0.
    Boolean(bool),
    /// Indices of a dimension, or a mask of one or several.
    Tensor(Tensor),
}

/// Every `step`th element of a range of a dimension. Bounds count from the end if negative, and are clamped to the dimension.
///
/// ```
/// # use rustorch_tensor::{Slice, Tensor, i};
/// let x = Tensor::arange(0, 10, 1)?;
/// let odd = Slice::from(1..).step(2);
/// assert_eq!(x.i(i![odd])?.to_vec::<i64>()?, [1, 3, 5, 7, 9]);
/// assert_eq!(x.i(i![1..; 2])?.to_vec::<i64>()?, [1, 3, 5, 7, 9]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    start: Option<i64>,
    end: Option<i64>,
    step: i64,
}

/// Where a range starts and ends.
type Bounds = (Bound<isize>, Bound<isize>);

impl Slice {
    /// With every `step`th element only. Indexing with a step below 1 is an error; [`flip`](Tensor::flip) reverses a dimension.
    #[must_use]
    pub fn step(self, step: i64) -> Slice {
        Slice { step, ..self }
    }

    /// The range as [`Tensor::slice`] takes it, and the step.
    pub(super) fn bounds(self, op: &'static str) -> Result<(Bounds, usize)> {
        let step = usize::try_from(self.step).ok().filter(|&step| step > 0).ok_or_else(|| {
            Error::argument(
                op,
                format!("the step {} must be at least 1; flip reverses a dimension", self.step),
            )
        })?;
        let clamped = |at: i64| at.clamp(isize::MIN as i64, isize::MAX as i64) as isize;
        let start = self.start.map_or(Bound::Unbounded, |at| Bound::Included(clamped(at)));
        let end = self.end.map_or(Bound::Unbounded, |at| Bound::Excluded(clamped(at)));
        Ok(((start, end), step))
    }
}

impl From<RangeFull> for Slice {
    fn from(_: RangeFull) -> Slice {
        Slice { start: None, end: None, step: 1 }
    }
}

/// A bound as a number; what has no place among them lies behind every dimension.
trait AsBound: Copy {
    fn as_bound(self) -> i64;
}

macro_rules! integers {
    ($($ty:ty),*) => {$(
        impl AsBound for $ty {
            fn as_bound(self) -> i64 {
                i64::try_from(self).unwrap_or(i64::MAX)
            }
        }

        impl From<$ty> for TensorIndex {
            fn from(index: $ty) -> TensorIndex {
                TensorIndex::Integer(index.as_bound())
            }
        }

        ranges! { $ty:
            Range<$ty>, r => (Some(r.start), Some(r.end.as_bound()));
            RangeFrom<$ty>, r => (Some(r.start), None);
            RangeTo<$ty>, r => (None::<$ty>, Some(r.end.as_bound()));
            RangeInclusive<$ty>, r => (Some(*r.start()), behind(*r.end()));
            RangeToInclusive<$ty>, r => (None::<$ty>, behind(r.end));
        }
    )*};
}

macro_rules! ranges {
    ($ty:ty: $($range:ty, $r:ident => $bounds:expr;)*) => {$(
        impl From<$range> for Slice {
            fn from($r: $range) -> Slice {
                let (start, end) = $bounds;
                Slice { start: start.map(AsBound::as_bound), end, step: 1 }
            }
        }

        impl From<$range> for TensorIndex {
            fn from(range: $range) -> TensorIndex {
                TensorIndex::Slice(range.into())
            }
        }
    )*};
}

/// The bound behind the last element of a range that includes it: none behind −1.
fn behind(last: impl AsBound) -> Option<i64> {
    last.as_bound().checked_add(1).filter(|&end| end != 0)
}

integers!(i32, i64, isize, usize);

impl From<RangeFull> for TensorIndex {
    fn from(_: RangeFull) -> TensorIndex {
        TensorIndex::Ellipsis
    }
}

impl From<Slice> for TensorIndex {
    fn from(slice: Slice) -> TensorIndex {
        TensorIndex::Slice(slice)
    }
}

/// `None`, which is the only value.
impl From<Option<Infallible>> for TensorIndex {
    fn from(_: Option<Infallible>) -> TensorIndex {
        TensorIndex::NewAxis
    }
}

impl From<bool> for TensorIndex {
    fn from(holds: bool) -> TensorIndex {
        TensorIndex::Boolean(holds)
    }
}

impl From<&Tensor> for TensorIndex {
    fn from(index: &Tensor) -> TensorIndex {
        TensorIndex::Tensor(index.clone())
    }
}

impl From<Tensor> for TensorIndex {
    fn from(index: Tensor) -> TensorIndex {
        TensorIndex::Tensor(index)
    }
}

/// An index: a list of integers, ranges (`1..3; 2` with a step), `..`, `None`, and tensors of integers or booleans, by references or
/// values. [`Tensor::i`] reads and [`Tensor::set`] writes there, and says what each means.
///
/// ```
/// # use rustorch_tensor::{Tensor, i};
/// let x = Tensor::arange(0, 24, 1)?.reshape([2, 3, 4])?;
/// let mask = Tensor::new([true, false, true, false])?;
/// assert_eq!(x.i(i![.., 1..3, -1])?.dims(), [2, 2]);
/// assert_eq!(x.i(i![0, ..; 2, None, &mask])?.dims(), [2, 2, 1]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[macro_export]
macro_rules! i {
    (@item $item:expr) => {
        $crate::TensorIndex::from($item)
    };
    (@item $item:expr; $step:expr) => {
        $crate::TensorIndex::from($crate::Slice::from($item).step($step))
    };
    ($($item:expr $(; $step:expr)?),* $(,)?) => {{
        #[allow(clippy::reversed_empty_ranges, reason = "bounds below 0 count from the end")]
        let index: [$crate::TensorIndex; _] = [$($crate::i!(@item $item $(; $step)?)),*];
        index
    }};
}
