//! Attention with running sums in `f16`, key by key: ggml's arithmetic over an `f16` cache.

use crate::simd::{LANES, Level, Task};
use rustorch_core::f16;

/// Takes the values of a block into the sums of one query. Scores of −∞ do not count.
///
/// `state` is the largest score so far and the sum of weights relative to it.
#[inline(always)]
pub(super) fn absorb<L: Level>(
    l: L,
    scores: &[f32],
    values: &[f32],
    sums: &mut [f32],
    state: &mut (f32, f32),
) {
    let width = sums.len();
    let sums = sums.as_chunks_mut::<LANES>().0;
    for (&score, value) in scores.iter().zip(values.chunks_exact(width.max(1))) {
        if score == f32::NEG_INFINITY {
            continue;
        }
        let (largest, total) = *state;
        let (shrink, weight) =
            if score > largest { ((largest - score).exp(), 1.0) } else { (1.0, (score - largest).exp()) };
        *state = (score.max(largest), l.fma(total, shrink, weight));
        if score > largest {
            for sum in sums.iter_mut() {
                let shrunk = l.mul_add(l.load(sum), l.splat(shrink), l.splat(0.0));
                l.store(shrunk, sum);
                round(l, sum);
            }
        }
        let weight = l.splat(weight);
        for (sum, value) in sums.iter_mut().zip(value.as_chunks::<LANES>().0) {
            l.store(l.mul_add(l.load(value), weight, l.load(sum)), sum);
            round(l, sum);
        }
    }
}

/// The product of a query and a key, both of half-precision numbers, padded with zeros to whole vectors of `width`.
///
/// Whole runs of 64 are summed in four vectors, which are added crosswise; the rest one by one in `f64`.
#[inline(always)]
pub(super) fn score<L: Level>(l: L, query: &[f32], key: &[f32], width: usize) -> f32 {
    let runs = width / 64;
    let (q, k) = (query.as_chunks::<LANES>().0, key.as_chunks::<LANES>().0);
    let mut sums = [l.splat(0.0); 4];
    for (q, k) in q.chunks_exact(4).zip(k.chunks_exact(4)).take(runs) {
        for i in 0..4 {
            sums[i] = l.mul_add(l.load(&q[i]), l.load(&k[i]), sums[i]);
        }
    }
    let one = l.splat(1.0);
    let even = l.mul_add(sums[2], one, sums[0]);
    let odd = l.mul_add(sums[3], one, sums[1]);
    let total = l.mul_add(odd, one, even);
    let mut sum = f64::from(l.sum4([total; 4])[0]);
    for i in 64 * runs..width {
        sum += f64::from(query[i] * key[i]);
    }
    sum as f32
}

/// Rounds to the nearest half-precision numbers.
#[inline(always)]
fn round<L: Level>(l: L, x: &mut [f32; LANES]) {
    let mut half = [f16::ZERO; LANES];
    l.narrow16(x, &mut half);
    l.widen16(&half, x);
}

/// Rounds every number of whole vectors to half precision.
pub(super) struct RoundAll<'a>(pub(super) &'a mut [f32]);

impl Task for RoundAll<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, l: L) {
        for x in self.0.as_chunks_mut::<LANES>().0 {
            round(l, x);
        }
    }
}
