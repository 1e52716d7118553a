//! Attention with running sums in `f16`, key by key: ggml's arithmetic over an `f16` cache.

use super::flash::KEYS;
use crate::math::glibc::exp_of_negative;
use crate::simd::{LANES, Level, Task};

/// What the keys of a block add to the sums of one query.
struct Steps {
    /// How many keys count.
    count: usize,
    keys: [usize; KEYS],
    weights: [f32; KEYS],
    /// What the sums shrink by before, where a score is the largest so far.
    shrinks: [Option<f32>; KEYS],
}

impl Steps {
    /// The steps by the scores of a block, of which those of −∞ do not count.
    ///
    /// `largest` is the largest score so far, `total` the sum of weights relative to it.
    #[inline(always)]
    fn new<L: Level>(l: L, scores: &[f32], largest: &mut f32, total: &mut f32) -> Steps {
        let mut steps = Steps { count: 0, keys: [0; KEYS], weights: [1.0; KEYS], shrinks: [None; KEYS] };
        let (mut grows, mut powers) = ([false; KEYS], [0.0; KEYS]);
        let mut plain = 0;
        for &score in scores {
            plain += usize::from(score > f32::NEG_INFINITY && score <= *largest);
        }
        if let (KEYS, Ok(scores)) = (plain, <&[f32; KEYS]>::try_from(scores)) {
            // All count and none is the largest so far, as in most blocks.
            for step in 0..KEYS {
                steps.keys[step] = step;
                powers[step] = scores[step] - *largest;
            }
            steps.count = KEYS;
        } else {
            for (key, &score) in scores.iter().enumerate() {
                if score == f32::NEG_INFINITY {
                    continue;
                }
                let step = steps.count;
                grows[step] = score > *largest;
                powers[step] = if grows[step] { *largest - score } else { score - *largest };
                *largest = score.max(*largest);
                steps.keys[step] = key;
                steps.count += 1;
            }
        }
        // All of them, so that this is vector code.
        for power in &mut powers {
            *power = exp_of_negative(*power);
        }
        for step in 0..steps.count {
            if grows[step] {
                steps.shrinks[step] = Some(powers[step]);
                *total = l.fma(*total, powers[step], 1.0);
            } else {
                steps.weights[step] = powers[step];
                *total = l.fma(*total, 1.0, powers[step]);
            }
        }
        steps
    }

    fn keys(&self) -> &[usize] {
        &self.keys[..self.count]
    }
}

/// Takes the values of a block into the sums of one or two queries, which have scores, largest scores and totals.
///
/// Two together where the same keys count for both: each waits for its roundings.
#[inline(always)]
pub(super) fn absorb<L: Level>(
    l: L,
    scores: &[&[f32]],
    values: &[f32],
    sums: &mut [f32],
    (largest, totals): (&mut [f32], &mut [f32]),
) {
    let (first, second) = sums.split_at_mut(sums.len() / scores.len());
    let steps = Steps::new(l, scores[0], &mut largest[0], &mut totals[0]);
    if scores.len() == 1 {
        return add_steps(l, [&steps], values, [first]);
    }
    let others = Steps::new(l, scores[1], &mut largest[1], &mut totals[1]);
    if steps.keys() == others.keys() {
        add_steps(l, [&steps, &others], values, [first, second]);
    } else {
        add_steps(l, [&steps], values, [first]);
        add_steps(l, [&others], values, [second]);
    }
}

/// Takes values into sums, by steps of the same keys.
#[inline(always)]
fn add_steps<L: Level, const ROWS: usize>(
    l: L,
    steps: [&Steps; ROWS],
    values: &[f32],
    mut sums: [&mut [f32]; ROWS],
) {
    let (mut at, width) = (0, sums[0].len());
    while at < width {
        if width - at >= 4 * LANES && L::WIDE {
            add_columns::<L, ROWS, 4>(l, steps, values, &mut sums, at);
            at += 4 * LANES;
        } else if width - at >= 2 * LANES {
            add_columns::<L, ROWS, 2>(l, steps, values, &mut sums, at);
            at += 2 * LANES;
        } else {
            add_columns::<L, ROWS, 1>(l, steps, values, &mut sums, at);
            at += LANES;
        }
    }
}

/// Takes the columns `at..` of the values, as many as fit so many vectors, into the sums.
#[inline(always)]
fn add_columns<L: Level, const ROWS: usize, const VECTORS: usize>(
    l: L,
    steps: [&Steps; ROWS],
    values: &[f32],
    to: &mut [&mut [f32]; ROWS],
    at: usize,
) {
    let width = to[0].len();
    let mut sums = [[l.splat(0.0); VECTORS]; ROWS];
    for r in 0..ROWS {
        let from = to[r][at..][..VECTORS * LANES].as_chunks().0;
        for c in 0..VECTORS {
            sums[r][c] = l.load(&from[c]);
        }
    }
    for (step, &key) in steps[0].keys().iter().enumerate() {
        let value = values[key * width + at..][..VECTORS * LANES].as_chunks().0;
        for r in 0..ROWS {
            if let Some(shrink) = steps[r].shrinks[step] {
                for sum in &mut sums[r] {
                    *sum = l.round16(l.mul_add(*sum, l.splat(shrink), l.splat(0.0)));
                }
            }
        }
        for r in 0..ROWS {
            let weight = l.splat(steps[r].weights[step]);
            for c in 0..VECTORS {
                sums[r][c] = l.round16(l.mul_add(l.load(&value[c]), weight, sums[r][c]));
            }
        }
    }
    for r in 0..ROWS {
        let to = to[r][at..][..VECTORS * LANES].as_chunks_mut().0;
        for c in 0..VECTORS {
            l.store(sums[r][c], &mut to[c]);
        }
    }
}

/// The products of a query and keys, all of half-precision numbers, padded with zeros to whole vectors of `width`; there are
/// keys for a multiple of four scores.
///
/// Whole runs of 64 are summed in four vectors, which are added crosswise; the rest one by one in `f64`.
#[inline(always)]
pub(super) fn scores<L: Level>(l: L, query: &[f32], keys: &[f32], width: usize, scores: &mut [f32]) {
    let runs = width / 64;
    let (q, d) = (query.as_chunks::<LANES>().0, query.len());
    if d == 0 {
        return scores.fill(0.0);
    }
    let one = l.splat(1.0);
    for (fours, scores) in keys.chunks_exact(4 * d).zip(scores.as_chunks_mut::<4>().0) {
        let mut totals = [l.splat(0.0); 4];
        for j in 0..4 {
            let k = fours[j * d..][..d].as_chunks::<LANES>().0;
            let mut sums = [l.splat(0.0); 4];
            for run in 0..runs {
                for i in 0..4 {
                    sums[i] = l.mul_add(l.load(&q[4 * run + i]), l.load(&k[4 * run + i]), sums[i]);
                }
            }
            let even = l.mul_add(sums[2], one, sums[0]);
            let odd = l.mul_add(sums[3], one, sums[1]);
            totals[j] = l.mul_add(odd, one, even);
        }
        *scores = l.sum4(totals);
        if 64 * runs < width {
            for j in 0..4 {
                let key = &fours[j * d..][..d];
                let mut sum = f64::from(scores[j]);
                for i in 64 * runs..width {
                    sum += f64::from(query[i] * key[i]);
                }
                scores[j] = sum as f32;
            }
        }
    }
}

/// Rounds every number of whole vectors to half precision.
pub(super) struct RoundAll<'a>(pub(super) &'a mut [f32]);

impl Task for RoundAll<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, l: L) {
        for x in self.0.as_chunks_mut::<LANES>().0 {
            l.store(l.round16(l.load(x)), x);
        }
    }
}
