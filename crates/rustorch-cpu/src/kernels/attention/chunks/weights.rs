//! Scores of a chunk of queries and a chunk of keys, on the way to weights and gradients of scores.

use super::{KEYS, Lines, QUERIES, Spans, Work, fill, zero};
use crate::kernels::attention::backward::Sum;
use crate::simd::{self, Level, Task};
use std::ops::Range;

/// Scores of some queries and keys.
pub(in crate::kernels::attention) struct Weights<'a, E: Sum> {
    pub(super) work: &'a Work<'a, E>,
    pub(super) lines: &'a Lines<'a, E>,
    /// The queries, counted from the first of `lines`, and the keys, from the first that are packed.
    pub(super) rows: Range<usize>,
    pub(super) keys: Range<usize>,
}

impl<E: Sum> Weights<'_, E> {
    /// Whether gradients of scores are needed.
    fn with_gradients(&self) -> bool {
        self.work.spans.wanted.q || self.work.spans.wanted.k
    }

    /// The panels: where each begins, and its keys.
    fn panels(&self) -> impl Iterator<Item = (usize, Range<usize>)> + use<E> {
        let (c, keys) = (self.work.tiles.columns, self.keys.len());
        (0..keys).step_by(c).enumerate().map(move |(i, key)| (i * QUERIES * c, key..keys.min(key + c)))
    }

    /// One row of a panel of weights, of gradients of scores, and of slopes, with as many elements as it has keys.
    fn row(&mut self, at: usize, row: usize, len: usize) -> [&mut [E]; 3] {
        let c = self.work.tiles.columns;
        assert!(row < self.rows.len() && len <= c && at + QUERIES * c <= QUERIES * KEYS, "no such row");
        let Work { weights, of_scores, slopes, .. } = *self.work;
        // SAFETY: inside three arrays of `QUERIES * KEYS`, which nobody else uses while `self` is borrowed; all were written
        // before: what was never computed is zero or from an earlier chunk.
        [weights, of_scores, slopes]
            .map(|part| unsafe { std::slice::from_raw_parts_mut(part.add(at + row * c), len) })
    }

    /// Computes scores without their factor, and the gradients of weights less Σ grad · out; with dropout [`drop_gradients`](Self::drop_gradients)
    /// subtracts it.
    pub(in crate::kernels::attention) fn compute(&mut self, dropout: bool) {
        let work = self.work;
        let Spans { d, e, .. } = *work.spans;
        let (c, rows) = (work.tiles.columns, self.rows.clone());
        for (at, keys) in self.panels() {
            let key = self.keys.start + keys.start;
            // SAFETY: `rows` and `keys` are packed, and the arrays have room for as many.
            unsafe {
                let scores = work.weights.add(at);
                fill(scores, rows.len() * c, zero());
                let left = work.q_rows.add(rows.start * d);
                work.multiply(rows.len(), d, left, work.k_panels.add(key * d), scores);
                if self.with_gradients() {
                    let grads = work.of_scores.add(at);
                    for (row, &delta) in self.lines.delta[rows.clone()].iter().enumerate() {
                        fill(grads.add(row * c), c, if dropout { zero() } else { -delta });
                    }
                    let left = work.grad_rows.add(rows.start * e);
                    work.multiply(rows.len(), e, left, work.v_panels.add(key * e), grads);
                }
            }
        }
    }

    /// Multiplies the gradients of a query's weights with the masks of dropout, and subtracts Σ grad · out.
    pub(in crate::kernels::attention) fn drop_gradients(&mut self, row: usize, masks: &[E]) {
        let delta = self.lines.delta[self.rows.start + row];
        for (at, keys) in self.panels() {
            let [_, grads, _] = self.row(at, row, keys.len());
            for (grad, &mask) in grads.iter_mut().zip(&masks[keys]) {
                *grad = *grad * mask - delta;
            }
        }
    }

    /// Multiplies the weights of a query with the masks of dropout.
    pub(in crate::kernels::attention) fn drop_weights(&mut self, row: usize, masks: &[E]) {
        for (at, keys) in self.panels() {
            let [weights, ..] = self.row(at, row, keys.len());
            for (weight, &mask) in weights.iter_mut().zip(&masks[keys]) {
                *weight = *weight * mask;
            }
        }
    }

    /// Scales scores and caps them.
    pub(in crate::kernels::attention) fn cap(&mut self, scale: E, cap: E) {
        for (at, _) in self.panels() {
            for row in 0..self.rows.len() {
                let [scores, _, slopes] = self.row(at, row, self.work.tiles.columns);
                simd::run(Cap { scores, slopes, scale, cap });
            }
        }
    }

    /// Scales the scores of a query and adds its mask.
    pub(in crate::kernels::attention) fn add(&mut self, row: usize, scale: E, mask: &[E]) {
        for (at, keys) in self.panels() {
            let [scores, ..] = self.row(at, row, keys.len());
            for (score, &mask) in scores.iter_mut().zip(&mask[keys]) {
                *score = *score * scale + mask;
            }
        }
    }

    /// Turns scores, times `scale`, into weights, and the gradients of weights into those of scores.
    pub(in crate::kernels::attention) fn exponentiate(&mut self, scale: E, capped: bool) {
        let c = self.work.tiles.columns;
        let with_gradients = self.with_gradients();
        for (at, _) in self.panels() {
            let len = self.rows.len() * c;
            let Work { weights, of_scores, slopes, .. } = *self.work;
            // SAFETY: as in `row`.
            let [weights, of_scores, slopes] = [weights, of_scores, slopes]
                .map(|part| unsafe { std::slice::from_raw_parts_mut(part.add(at), len) });
            let lse = &self.lines.lse[self.rows.clone()];
            let slopes = capped.then_some(&*slopes);
            let of_scores = with_gradients.then_some(of_scores);
            let rows = Exponentiate { weights, of_scores, slopes, lse, scale };
            match c {
                32 => simd::run(Columns::<E, 32>(rows)),
                16 => simd::run(Columns::<E, 16>(rows)),
                _ => simd::run(Columns::<E, 8>(rows)),
            }
        }
    }

    /// Hides the keys outside of a range from a query.
    pub(in crate::kernels::attention) fn keep(&mut self, row: usize, seen: Range<usize>) {
        for (at, keys) in self.panels() {
            let start = seen.start.clamp(keys.start, keys.end) - keys.start;
            let end = (seen.end.clamp(keys.start, keys.end) - keys.start).max(start);
            for part in self.row(at, row, keys.len()) {
                part[..start].fill(zero());
                part[end..].fill(zero());
            }
        }
    }

    /// Hides the keys that a mask of booleans does not let take part from a query.
    pub(in crate::kernels::attention) fn hide(&mut self, row: usize, mask: &[bool]) {
        for (at, keys) in self.panels() {
            for part in self.row(at, row, keys.len()) {
                for (x, &keep) in part.iter_mut().zip(&mask[keys.clone()]) {
                    if !keep {
                        *x = zero();
                    }
                }
            }
        }
    }
}

/// Scores, scaled and capped, and the derivative of the cap.
struct Cap<'a, E> {
    scores: &'a mut [E],
    slopes: &'a mut [E],
    scale: E,
    cap: E,
}

impl<E: Sum> Task for Cap<'_, E> {
    type Output = ();
    #[inline(always)]
    fn run<L: Level>(self, l: L) {
        let Cap { scores, slopes, scale, cap } = self;
        for (score, slope) in scores.iter_mut().zip(slopes) {
            let t = (*score * scale / cap).tanh(l);
            *score = t * cap;
            *slope = E::ONE - t * t;
        }
    }
}

/// Rows of scores to weights.
struct Exponentiate<'a, E> {
    weights: &'a mut [E],
    of_scores: Option<&'a mut [E]>,
    slopes: Option<&'a [E]>,
    lse: &'a [E],
    scale: E,
}

/// Rows of `N` elements.
struct Columns<'a, E, const N: usize>(Exponentiate<'a, E>);

impl<E: Sum, const N: usize> Task for Columns<'_, E, N> {
    type Output = ();
    #[inline(always)]
    fn run<L: Level>(self, l: L) {
        let Exponentiate { weights, of_scores, slopes, lse, scale } = self.0;
        let rows = weights.as_chunks_mut::<N>().0;
        for (row, &lse) in rows.iter_mut().zip(lse) {
            // Where no key takes part all weights are zero.
            let lse = if lse == E::NEG_INFINITY { E::INFINITY } else { lse };
            for score in row.iter_mut() {
                *score = (*score * scale - lse).exp_normal(l);
            }
        }
        let Some(of_scores) = of_scores else { return };
        let of_scores = of_scores.as_chunks_mut::<N>().0;
        for (row, weights) in of_scores.iter_mut().zip(&*rows) {
            for j in 0..N {
                row[j] = row[j] * weights[j];
            }
        }
        let Some(slopes) = slopes else { return };
        for (row, slopes) in of_scores.iter_mut().zip(slopes.as_chunks::<N>().0) {
            for j in 0..N {
                row[j] = row[j] * slopes[j];
            }
        }
    }
}
