//! Sums of a plane by a kernel of 3 × 3 without stride: several lines of results share what they load.

use crate::simd::{LANES, Level, Task};

/// Taps of an axis.
const TAPS: usize = 3;
/// Lines of results that are computed together.
const LINES: usize = 4;
/// Lines of results for a call, at most.
pub(super) const SPAN: usize = 4 * LINES;
/// Results of a line from which on this is faster than to compute several lines as one.
const LEAST: usize = 4;

/// Some lines of results of one plane. What they see is in memory, with its padding.
pub(super) struct Plane<E> {
    /// What the first result sees first.
    pub(super) from: *const E,
    /// Elements from a line of the source to the next.
    pub(super) pitch: usize,
    /// One weight for each tap, line by line.
    pub(super) weights: *const E,
    pub(super) lines: usize,
    pub(super) columns: usize,
    /// Where the results go, and how many elements after those of a line those of the next.
    pub(super) to: *mut E,
    pub(super) to_pitch: usize,
}

/// Whether channels and taps at these offsets are a square of one plane, and lines are long enough.
pub(super) fn suits(offsets: &[usize], pitch: usize, columns: usize) -> bool {
    let is_square = || offsets.iter().enumerate().all(|(i, &at)| at == i / TAPS * pitch + i % TAPS);
    columns >= LEAST && offsets.len() == TAPS * TAPS && is_square()
}

/// A plane for vectors of `f32`.
pub(super) struct Sums<'a>(&'a Plane<f32>);

impl<'a> Sums<'a> {
    /// # Safety
    /// Weights, results and what they see exist, and so do [`LANES`] elements after any of the source.
    pub(super) unsafe fn new(plane: &'a Plane<f32>) -> Sums<'a> {
        Sums(plane)
    }
}

impl Task for Sums<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, l: L) {
        let mut line = 0;
        while line < self.0.lines {
            if self.0.lines >= LINES {
                // The last lines overlap those before them.
                self.lines::<L, LINES>(l, line.min(self.0.lines - LINES));
                line += LINES;
            } else {
                self.lines::<L, 1>(l, line);
                line += 1;
            }
        }
    }
}

impl Sums<'_> {
    /// All columns of `R` lines.
    #[inline(always)]
    fn lines<L: Level, const R: usize>(&self, l: L, line: usize) {
        let columns = self.0.columns;
        let mut column = 0;
        while L::WIDE && column + 2 * LANES <= columns {
            self.vectors::<L, R, 2>(l, line, column, 2 * LANES);
            column += 2 * LANES;
        }
        while column < columns {
            // The last vector overlaps those before it.
            let first = if columns >= LANES { column.min(columns - LANES) } else { column };
            self.vectors::<L, R, 1>(l, line, first, LANES.min(columns - first));
            column += LANES;
        }
    }

    /// `n` columns of `R` lines, in `V` vectors.
    #[inline(always)]
    fn vectors<L: Level, const R: usize, const V: usize>(&self, l: L, line: usize, column: usize, n: usize) {
        let Plane { from, pitch, weights, to, to_pitch, .. } = *self.0;
        let mut sums = [[l.splat(0.0); V]; R];
        // SAFETY: the contract of `new`.
        unsafe {
            let weights = &*weights.cast::<[[f32; TAPS]; TAPS]>();
            let from = from.add(line * pitch + column);
            for i in 0..R + TAPS - 1 {
                for tap in 0..TAPS {
                    let mut x = [l.splat(0.0); V];
                    for v in 0..V {
                        x[v] = l.load(&*from.add(i * pitch + tap + v * LANES).cast());
                    }
                    for r in 0..R {
                        if i >= r && i - r < TAPS {
                            let weight = l.splat(weights[i - r][tap]);
                            for v in 0..V {
                                sums[r][v] = l.mul_add(x[v], weight, sums[r][v]);
                            }
                        }
                    }
                }
            }
            for r in 0..R {
                for v in 0..V {
                    let to = to.add((line + r) * to_pitch + column + v * LANES);
                    if n == V * LANES {
                        l.store(sums[r][v], &mut *to.cast());
                    } else {
                        let mut some = [0.0; LANES];
                        l.store(sums[r][v], &mut some);
                        to.copy_from_nonoverlapping(some.as_ptr(), n);
                    }
                }
            }
        }
    }
}
