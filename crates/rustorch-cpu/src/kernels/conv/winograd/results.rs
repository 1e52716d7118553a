//! Results from their transformed sums.

use super::super::gemm::ConvOutput;
use super::super::geometry::Geometry;
use super::super::number::Number;
use super::block::Block;
use super::{load, store};
use crate::simd::{LANES, Level, Task};
use std::ops::Range;

/// Transforms a block's sums to results and writes them; returns whether all are finite. Made only by [`multiply_all`](super::multiply_all), whose contract it relies on.
pub(super) struct Results<'a, 'b, T: Number> {
    pub(super) geometry: &'a Geometry,
    pub(super) block: &'a mut Block,
    pub(super) columns: usize,
    /// For each point and panel `[rows][columns]`.
    pub(super) from: *const f32,
    /// From point to point.
    pub(super) pitch: usize,
    pub(super) group: usize,
    pub(super) rows: Range<usize>,
    pub(super) results: &'a ConvOutput<'b, T>,
    pub(super) rounded: &'a mut [T],
}

impl<T: Number> Task for Results<'_, '_, T> {
    type Output = bool;

    #[inline(always)]
    fn run<L: Level>(self, l: L) -> bool {
        let Results { geometry, block, columns, from, pitch, group, rows, results, rounded } = self;
        let Block { runs, segments, sums, .. } = block;
        let zero = l.splat(0.0);
        // Stays zero but for what is infinite or NaN.
        let mut zeros = zero;
        let (first, height) = (rows.start, rows.len());
        for row in rows {
            for run in runs.iter() {
                let from = from.wrapping_add((run.panel * height + row - first) * columns + run.lane);
                for v in (0..run.len).step_by(LANES) {
                    // SAFETY: what vectors read behind the run's tiles are sums of others, or zeros; the lines have room for whole
                    // vectors.
                    unsafe {
                        let mut down = [[zero; 4]; 2];
                        for j in 0..4 {
                            let from = from.add(j * pitch + v);
                            let (m0, m1) = (load(l, from), load(l, from.add(4 * pitch)));
                            let (m2, m3) = (load(l, from.add(8 * pitch)), load(l, from.add(12 * pitch)));
                            down[0][j] = l.add(l.add(m0, m1), m2);
                            down[1][j] = l.sub(l.sub(m1, m2), m3);
                        }
                        for (&line, [s0, s1, s2, s3]) in run.lines.iter().zip(down) {
                            let left = l.add(l.add(s0, s1), s2);
                            let right = l.sub(l.sub(s1, s2), s3);
                            zeros = l.add(zeros, l.add(l.sub(left, left), l.sub(right, right)));
                            let (first, second) = l.interleave(left, right);
                            let to = sums.as_mut_ptr().add(line + 2 * v);
                            store(l, first, to);
                            store(l, second, to.add(LANES));
                        }
                    }
                }
            }
            // SAFETY: sums are `f32`; and by the contract of `multiply_all`.
            unsafe {
                let sums = std::slice::from_raw_parts_mut(sums.as_mut_ptr().cast::<T::Sum>(), sums.len());
                results.put(geometry, (group, row), segments, sums, rounded);
            }
        }
        let mut lanes = [0.0; LANES];
        l.store(zeros, &mut lanes);
        lanes == [0.0; LANES]
    }
}
