//! Mean and variance for normalisation.

use super::lanes::{deviations, sum};
use crate::math::Real;
use crate::simd::{Level, Task};

/// Elements summed in their own precision; sums of more are sums of such sums in `f64`.
const BLOCK: usize = 4096;

/// Mean and variance (divided by n).
#[derive(Clone, Copy)]
pub(super) struct Moments<T> {
    /// The mean but for a rest, which counts beside the deviations where the mean is large.
    pub(super) centre: T,
    pub(super) rest: T,
    pub(super) variance: T,
}

impl<T: Real> Moments<T> {
    /// From the sums of `n` deviations from `centre` and of their squares.
    pub(super) fn new(centre: T, deviations: f64, squares: f64, n: usize) -> Moments<T> {
        let rest = deviations / n as f64;
        let variance = squares / n as f64 - rest * rest;
        // Of equal elements, rounding could leave less than nothing. NaN stays.
        let variance = if variance < 0.0 { 0.0 } else { variance };
        Moments { centre, rest: T::of(rest), variance: T::of(variance) }
    }
}

/// The moments of some elements, by a fixed order of additions.
pub(super) struct Measure<'a, T>(pub(super) &'a [T]);

impl<T: Real> Task for Measure<'_, T> {
    type Output = Moments<T>;
    #[inline(always)]
    fn run<L: Level>(self, _: L) -> Moments<T> {
        self.prefetching(std::ptr::null())
    }
}

impl<T: Real> Measure<'_, T> {
    /// The moments, while as many elements from an address on, unless it is null, are read into the first-level cache.
    #[inline(always)]
    pub(super) fn prefetching(self, ahead: *const T) -> Moments<T> {
        let Measure(x) = self;
        let n = x.len() as f64;
        let mut total = 0.0;
        for block in x.chunks(BLOCK) {
            total += sum(block).to_f64();
        }
        let centre = T::of(total / n);
        let (mut rest, mut squares) = (0.0, 0.0);
        for (i, block) in x.chunks(BLOCK).enumerate() {
            let ahead = if ahead.is_null() { ahead } else { ahead.wrapping_add(i * BLOCK) };
            let (sum, sum_of_squares) = deviations(block, centre, ahead);
            rest += sum.to_f64();
            squares += sum_of_squares.to_f64();
        }
        Moments::new(centre, rest, squares, x.len())
    }
}
