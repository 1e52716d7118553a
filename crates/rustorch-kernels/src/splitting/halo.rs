//! Halos: the elements of an argument that positions of a result need beyond their own share.

use crate::library::taps;
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
    /// The inputs of an output, and some more at either end: devices may round differently.
    fn of(&self, output: usize) -> Range<usize> {
        let (first, count) = taps::first(&self.op, self.scale, self.inputs, output, self.dtype);
        let inside = |place: i64| place.clamp(0, self.inputs as i64 - 1) as usize;
        let more = taps::margin(&self.op, inside(first), self.dtype) as i64;
        inside(first - more)..inside(first + count as i64 - 1 + more) + 1
    }
}

impl Halo {
    /// The elements that `len` positions from `start` on need, as far as there are such. It may be none.
    pub(crate) fn range(&self, start: usize, len: usize) -> Range<usize> {
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
    pub(crate) fn units(&self, elements: usize) -> usize {
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

#[cfg(test)]
mod tests {
    use super::*;
    use rustorch_core::{Dims, InterpolateMode};

    /// The first tap of an output, step by step as kernels find it, in singles.
    fn single(op: &Interpolate, scale: f32, inputs: usize, output: usize) -> i64 {
        let o = output as f32;
        let at = match op.mode {
            InterpolateMode::Nearest => scale * o,
            InterpolateMode::NearestExact => scale.mul_add(o + 0.5, -0.5).max(0.0) + 0.5,
            _ if op.align_corners => scale * o,
            InterpolateMode::Linear => (scale * (o + 0.5) - 0.5).max(0.0),
            InterpolateMode::Cubic => scale * (o + 0.5) - 0.5,
        };
        if op.mode.taps() == 1 { at as i64 } else { at.floor().min((inputs - 1) as f32) as i64 }
    }

    /// The same in doubles.
    fn double(op: &Interpolate, scale: f64, inputs: usize, output: usize) -> i64 {
        let o = output as f64;
        let at = match op.mode {
            InterpolateMode::Nearest => f64::from((scale * o) as f32),
            InterpolateMode::NearestExact => f64::from(((scale * (o + 0.5) - 0.5).max(0.0) + 0.5) as f32),
            _ if op.align_corners => scale * o,
            InterpolateMode::Linear => (scale * (o + 0.5) - 0.5).max(0.0),
            InterpolateMode::Cubic => scale * (o + 0.5) - 0.5,
        };
        if op.mode.taps() == 1 { at as i64 } else { at.floor().min((inputs - 1) as f64) as i64 }
    }

    #[test]
    fn taps_are_where_kernels_find_them() {
        for inputs in [1000, (1 << 24) + 3, (1 << 25) + 1, (1 << 27) + 5, 2_000_000_011] {
            for outputs in [7, 2803, inputs / 2 * 3] {
                for (mode, align_corners) in [
                    (InterpolateMode::Nearest, false),
                    (InterpolateMode::NearestExact, false),
                    (InterpolateMode::Linear, false),
                    (InterpolateMode::Linear, true),
                    (InterpolateMode::Cubic, false),
                    (InterpolateMode::Cubic, true),
                ] {
                    for dtype in [DType::F32, DType::F64] {
                        let (size, factors) = (Dims::from_slice(&[outputs]), [None].into_iter().collect());
                        let op = Interpolate { mode, size, factors, align_corners };
                        let scale = taps::scale(&op, None, inputs, outputs, dtype);
                        let taps = Taps { op: op.clone(), scale, inputs, dtype };
                        for output in (0..outputs).step_by(outputs / 500 + 1).chain([outputs - 1]) {
                            let found = match dtype {
                                DType::F64 => double(&op, scale, inputs, output),
                                _ => single(&op, scale as f32, inputs, output),
                            };
                            let (before, count) = (i64::from(mode.taps() == 4), mode.taps() as i64);
                            let own = taps.of(output);
                            for place in found - before..found - before + count {
                                let place = place.clamp(0, inputs as i64 - 1) as usize;
                                assert!(own.contains(&place), "{place} of {op:?} {dtype} {output}: {own:?}");
                            }
                            assert!(own.len() < 16 + 8 * (inputs >> 20), "{own:?} of {op:?}");
                        }
                    }
                }
            }
        }
    }
}
