//! What positions of a result need of an argument's dimension, where that is more than their share of it.

use crate::family::pooling::taps;
use rustorch_core::{DType, Interpolate};
use std::ops::Range;

/// What a run of positions along an axis needs of a dimension with `size` elements.
#[derive(Clone, Debug)]
pub(crate) struct Halo {
    pub(crate) size: usize,
    pub(crate) reach: Reach,
}

/// How far positions reach.
#[derive(Clone, Debug)]
pub(crate) enum Reach {
    /// Position `p` needs `span` elements from `p · stride − before` on.
    Window { stride: usize, before: usize, span: usize },
    /// Position `p` needs all elements whose window it lies in.
    Windows { stride: usize, before: usize, span: usize },
    /// Of `len` positions, `p` needs the elements from `⌊p · size / len⌋` to below `⌈(p + 1) · size / len⌉`.
    Share { len: usize },
    /// Position `p` needs the taps of output `p` of an interpolation.
    Taps(Taps),
    /// Position `p` needs all outputs of an interpolation of which it is a tap.
    TapOf(Taps),
}

/// The taps of an interpolation along a dimension.
#[derive(Clone, Debug)]
pub(crate) struct Taps {
    pub(crate) op: Interpolate,
    pub(crate) scale: f64,
    /// The length of its input.
    pub(crate) inputs: usize,
    /// The dtype of its elements.
    pub(crate) dtype: DType,
}

impl Taps {
    /// The inputs of an output, and one more at either end: kernels may round differently.
    fn of(&self, output: usize) -> Range<usize> {
        let (first, count) = taps::first(&self.op, self.scale, self.inputs, output, self.dtype);
        let last = self.inputs as i64 - 1;
        let low = (first - 1).clamp(0, last) as usize;
        low..(first + count as i64).clamp(0, last) as usize + 1
    }
}

impl Halo {
    /// The elements that `len` positions from `start` on need, as far as there are such. It may be none.
    pub(super) fn range(&self, start: usize, len: usize) -> Range<usize> {
        let (size, end) = (self.size, start + len);
        match &self.reach {
            &Reach::Window { stride, before, span } => {
                (start * stride).saturating_sub(before)..((end - 1) * stride + span).saturating_sub(before)
            }
            &Reach::Windows { stride, before, span } => {
                (start + before + 1).saturating_sub(span).div_ceil(stride)..(end - 1 + before) / stride + 1
            }
            &Reach::Share { len } => start * size / len..(end * size).div_ceil(len),
            Reach::Taps(taps) => taps.of(start).start..taps.of(end - 1).end,
            // Taps grow with outputs.
            Reach::TapOf(taps) => {
                let first = |reached: &dyn Fn(usize) -> bool| {
                    let (mut low, mut high) = (0, size);
                    while low < high {
                        let middle = low + (high - low) / 2;
                        if reached(middle) { high = middle } else { low = middle + 1 }
                    }
                    low
                };
                first(&|output| taps.of(output).end > start)..first(&|output| taps.of(output).start >= end)
            }
        }
    }

    /// About how many positions need so many elements.
    pub(super) fn units(&self, elements: usize) -> usize {
        let scaled = |margin: usize, factor: f64| (elements.saturating_sub(margin) as f64 * factor) as usize;
        match &self.reach {
            &Reach::Window { stride, span, .. } => {
                elements.checked_sub(span).map_or(0, |rest| rest / stride + 1)
            }
            &Reach::Windows { stride, span, .. } => {
                (elements.saturating_sub(1) * stride + 2).saturating_sub(span)
            }
            &Reach::Share { len } => elements.saturating_sub(2).saturating_mul(len) / self.size.max(1),
            Reach::Taps(taps) => scaled(8, 1.0 / taps.scale),
            Reach::TapOf(taps) => scaled(8, taps.scale).saturating_sub(8),
        }
    }
}
