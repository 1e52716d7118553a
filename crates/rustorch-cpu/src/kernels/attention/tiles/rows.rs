//! What happens to rows of scores and sums between products.

use super::KEYS;
use crate::math::Real;
use crate::simd::{LANES, Level, Task};

/// Scales the first `width` scores of each row, whole vectors, and caps them.
pub(super) struct Scale<'a> {
    pub(super) scores: &'a mut [f32],
    pub(super) width: usize,
    pub(super) scale: f32,
    pub(super) softcap: Option<f32>,
}

impl Task for Scale<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, l: L) {
        let Scale { scores, width, scale, softcap } = self;
        for row in scores.as_chunks_mut::<KEYS>().0 {
            for vector in row[..width].as_chunks_mut::<LANES>().0 {
                for score in vector.iter_mut() {
                    *score *= scale;
                }
                if let Some(cap) = softcap {
                    for score in vector.iter_mut() {
                        *score = Real::tanh(*score / cap, l) * cap;
                    }
                }
            }
        }
    }
}

/// Turns the first `width` scores of each row, whole vectors, into weights relative to the largest score so far.
pub(super) struct Weigh<'a> {
    pub(super) scores: &'a mut [f32],
    pub(super) width: usize,
    /// A positive factor of the scores.
    pub(super) scale: f32,
    pub(super) largest: &'a mut [f32],
    pub(super) total: &'a mut [f32],
    /// Gets what earlier sums have to be multiplied with.
    pub(super) shrinks: &'a mut [f32],
}

impl Task for Weigh<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, l: L) {
        let Weigh { scores, width, scale, largest, total, shrinks } = self;
        let (rows, count) = (scores.as_chunks_mut::<KEYS>().0, largest.len());
        for first in (0..count).step_by(4) {
            let group = first..count.min(first + 4);
            let mut most = [l.splat(f32::NEG_INFINITY); 4];
            for row in group.clone() {
                for vector in rows[row][..width].as_chunks::<LANES>().0 {
                    most[row - first] = l.max(l.load(vector), most[row - first]);
                }
            }
            let most = l.max4(most);
            let mut sums = [l.splat(0.0); 4];
            for row in group.clone() {
                let before = largest[row];
                let here = most[row - first] * scale;
                let most = if before > here { before } else { here };
                largest[row] = most;
                // A query that has seen nothing yet has nothing to shrink.
                shrinks[row] =
                    if before == f32::NEG_INFINITY { 1.0 } else { Real::exp_normal(before - most, l) };
                // Scores of −∞ alone have no largest to relate to; a NaN among them stays.
                let most = if most == f32::NEG_INFINITY { 0.0 } else { most };
                for vector in rows[row][..width].as_chunks_mut::<LANES>().0 {
                    for score in vector.iter_mut() {
                        *score = Real::exp_normal(l.fma(*score, scale, -most), l);
                    }
                    sums[row - first] = l.add(l.load(vector), sums[row - first]);
                }
            }
            let sums = l.sum4(sums);
            for row in group {
                total[row] = total[row] * shrinks[row] + sums[row - first];
            }
        }
    }
}

/// Adds the sums of a block to those of rows, which shrink before.
pub(super) struct Add<'a> {
    pub(super) block: &'a [f32],
    pub(super) sums: &'a mut [f32],
    pub(super) shrinks: &'a [f32],
}

impl Task for Add<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, l: L) {
        let Add { block, sums, shrinks } = self;
        let width = sums.len() / shrinks.len();
        let rows = sums.chunks_exact_mut(width).zip(block.chunks_exact(width));
        for ((sums, block), &shrink) in rows.zip(shrinks) {
            let shrink = l.splat(shrink);
            for (sums, block) in sums.as_chunks_mut::<LANES>().0.iter_mut().zip(block.as_chunks::<LANES>().0)
            {
                l.store(l.mul_add(l.load(sums), shrink, l.load(block)), sums);
            }
        }
    }
}
