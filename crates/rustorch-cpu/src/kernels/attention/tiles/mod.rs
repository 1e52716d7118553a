//! Attention of many queries: scores, and weighted sums of values, are products of small matrices.
//!
//! A task keeps its queries while blocks of keys and values, packed once for all of them, pass by (Dao: *FlashAttention-2*, 2023). Blocks are
//! counted from key 0, and a query's sums do not depend on the others; but that it comes here does depend on their number.

mod factors;
mod rows;

#[cfg(target_arch = "x86_64")]
pub(super) use factors::Pairs;
pub(super) use factors::{Factors, Singles};

use super::{Mask, Sizes, mask_scores};
use crate::ThreadPool;
use crate::kernels::matmul::{Pitched, with_scratch};
use crate::kernels::strided::Matrices;
use crate::simd::{self, LANES};
use rows::{Add, Scale, Weigh};
use rustorch_core::Attention;
use std::ops::Range;

/// Keys of a block.
const KEYS: usize = 256;
/// Queries of a task, at most.
const QUERIES: usize = 384;
/// Rows of a product, at most.
const TALLEST: usize = 32;
/// Queries and keys from which on packing pays.
const FEWEST: usize = 16;

/// Whether attention is computed here, if it is in `f32` and queries, keys and values have one dtype.
pub(super) fn fits(attention: &Attention, sizes: &Sizes) -> bool {
    let is_large = sizes.rows() >= FEWEST && sizes.n >= FEWEST && sizes.d > 0 && sizes.e > 0;
    is_large && !attention.batch_invariant && attention.dropout.is_none()
}

/// The operands of attention and what it is.
pub(super) struct AttentionArgs<'a, F: Factors> {
    pub(super) factors: F,
    pub(super) attention: &'a Attention,
    pub(super) sizes: Sizes,
    pub(super) q: Matrices<'a, F::X>,
    pub(super) k: Matrices<'a, F::X>,
    pub(super) v: Matrices<'a, F::X>,
    pub(super) mask: Option<Mask<'a, F::X>>,
}

/// What is known of some queries so far.
struct Totals {
    /// The largest score of each.
    largest: Vec<f32>,
    /// The sum of each one's weights relative to its largest.
    weights: Vec<f32>,
}

/// Parts of a task's memory.
struct Memory {
    /// Queries as left operands.
    q: *mut f32,
    /// Keys and values as right operands.
    k: *mut f32,
    v: *mut f32,
    /// Rows on their way there.
    stage: *mut f32,
    /// Scores, then weights, of a product's rows, [`KEYS`] each.
    s: *mut f32,
    /// The second halves of sums of scores, or the weights as left operand, where they have to be converted.
    p: *mut f32,
    /// Weighted sums of the values of a block, and of all.
    block: *mut f32,
    sums: *mut f32,
}

impl<F: Factors> AttentionArgs<'_, F> {
    /// Columns of values, in whole panels.
    fn columns(&self) -> usize {
        self.sizes.e.next_multiple_of(self.factors.columns())
    }

    /// Calls `put` with the place of each query among those of all heads that share keys, its result, and the logarithm of the sum of its
    /// exponentiated scores; on threads of the pool.
    pub(super) fn run(&self, pool: &ThreadPool, put: &(impl Fn(usize, &[f32], f32) + Sync)) {
        let rows = self.sizes.rows();
        let most = (self.sizes.kv_heads * rows).div_ceil(2 * pool.threads()).clamp(TALLEST, QUERIES);
        let chunks = rows.div_ceil(most);
        let share = rows.div_ceil(chunks).next_multiple_of(TALLEST);
        let chunks = rows.div_ceil(share);
        pool.run(self.sizes.kv_heads * chunks, |task| {
            let (head, first) = (task / chunks, task % chunks * share);
            self.attend(head, first..rows.min(first + share), put);
        });
    }

    /// The keys that query `row` of a key/value head sees, the mask aside.
    fn visible(&self, row: usize) -> Range<usize> {
        self.sizes.visible(self.attention, row % self.sizes.m)
    }

    /// Queries `range` of a key/value head.
    fn attend(&self, head: usize, range: Range<usize>, put: &impl Fn(usize, &[f32], f32)) {
        let Sizes { d, m, group, .. } = self.sizes;
        let (f, count, e) = (&self.factors, range.len(), self.columns());
        let (q_row, key_row) = (f.words(d), f.words(KEYS));
        let tall = count.next_multiple_of(TALLEST);
        let parts = [
            tall * q_row,
            KEYS * q_row,
            e * key_row,
            KEYS * f.staged(d.max(e)),
            TALLEST * KEYS,
            TALLEST * KEYS,
            TALLEST * e,
            tall * e,
        ];
        let parts = parts.map(|len| len.next_multiple_of(LANES));
        with_scratch(parts.iter().sum(), |memory: *mut f32| {
            let mut next = memory;
            let [q, k, v, stage, s, p, block, sums] = parts.map(|len| {
                let part = next;
                next = next.wrapping_add(len);
                part
            });
            // SAFETY: parts have their lengths. Zeros where something is read that may not have been written: rows beyond the last query, and sums.
            unsafe {
                q.add(count * q_row).write_bytes(0, (tall - count) * q_row);
                s.write_bytes(0, TALLEST * KEYS);
                p.write_bytes(0, TALLEST * KEYS);
                sums.write_bytes(0, tall * e);
            }
            let memory = Memory { q, k, v, stage, s, p, block, sums };
            let _entered = f.enter();
            for (slot, row) in range.clone().enumerate() {
                let query = self.q.matrix(head * group + row / m);
                // SAFETY: there is room for the words of as many queries.
                unsafe { f.row(query.row(row % m), memory.q.add(slot * q_row)) };
            }
            let mut totals = Totals { largest: vec![f32::NEG_INFINITY; count], weights: vec![0.0; count] };
            let seen = range.clone().map(|row| self.visible(row)).filter(|keys| !keys.is_empty());
            let (first, end) =
                seen.fold((usize::MAX, 0), |(a, b), keys| (a.min(keys.start), b.max(keys.end)));
            for start in (first / KEYS * KEYS..end).step_by(KEYS) {
                let keys = start..end.min(start + KEYS);
                // SAFETY: there is room for a block of keys and values.
                unsafe {
                    f.keys(self.k.matrix(head), keys.clone(), memory.stage, memory.k);
                    f.values(self.v.matrix(head), keys.clone(), e, memory.stage, memory.v);
                }
                let mut slot = 0;
                while slot < count {
                    let rows = f.height(count - slot);
                    // SAFETY: the block is packed, as these queries are.
                    unsafe {
                        self.absorb(head, range.start, slot..slot + rows, keys.clone(), &memory, &mut totals)
                    };
                    slot += rows;
                }
            }
            for slot in 0..count {
                // SAFETY: the sums of a query, which nobody else uses.
                let sums = unsafe { std::slice::from_raw_parts_mut(memory.sums.add(slot * e), self.sizes.e) };
                let (largest, total) = (totals.largest[slot], totals.weights[slot]);
                // A query that saw no key has sums of zero.
                let factor = if total == 0.0 { 0.0 } else { 1.0 / total };
                sums.iter_mut().for_each(|x| *x *= factor);
                let lse = if total == 0.0 { f32::NEG_INFINITY } else { largest + total.ln() };
                put(head * self.sizes.rows() + range.start + slot, sums, lse);
            }
        });
    }

    /// Takes a block of keys into the sums of the queries in `slots`, of which slot 0 is row `first` of the head.
    ///
    /// # Safety
    /// Queries and block are packed in `memory`; there are as many slots as a product has rows.
    unsafe fn absorb(
        &self,
        head: usize,
        first: usize,
        slots: Range<usize>,
        keys: Range<usize>,
        memory: &Memory,
        totals: &mut Totals,
    ) {
        let Sizes { d, m, group, .. } = self.sizes;
        let (f, rows, c, e) = (&self.factors, slots.len(), self.factors.columns(), self.columns());
        let end = slots.clone().map(|slot| self.visible(first + slot)).filter(|seen| seen.start < keys.end);
        let end = end.map(|seen| seen.end).max().unwrap_or(0).min(keys.end);
        let Some(count @ 1..) = end.checked_sub(keys.start) else { return };
        let width = count.next_multiple_of(c);
        let (q_row, key_row) = (f.words(d), f.words(KEYS));
        // SAFETY: this function's contract; whole panels of scores fit into rows of `KEYS`. All parts are apart from each other.
        let (scores, block, sums) = unsafe {
            let q = memory.q.add(slots.start * q_row).cast_const();
            let half = f.half(d);
            for (values, scores) in [(0..half, memory.s), (half..d, memory.p)] {
                let left = Pitched { first: q.add(values.start), pitch: q_row };
                for j in (0..width).step_by(c).take_while(|_| !values.is_empty()) {
                    let panel = memory.k.add(j * q_row + values.start * c);
                    f.product(rows, values.len(), left, panel, Pitched { first: scores.add(j), pitch: KEYS });
                }
            }
            let scores = std::slice::from_raw_parts_mut(memory.s, rows * KEYS);
            if half < d {
                let others = std::slice::from_raw_parts(memory.p, rows * KEYS);
                simd::run(Add { block: others, sums: scores, shrinks: &[1.0; TALLEST][..rows] });
            }
            (
                scores,
                std::slice::from_raw_parts_mut(memory.block, rows * e),
                std::slice::from_raw_parts_mut(memory.sums.add(slots.start * e), rows * e),
            )
        };
        let Attention { scale, softcap, .. } = *self.attention;
        // Weights can be made of scores that are not scaled yet where nothing is added to them.
        let scale = match (&self.mask, softcap) {
            (None | Some(Mask::Keep(_)), None) if scale > 0.0 => scale,
            _ => {
                simd::run(Scale { scores, width, scale, softcap });
                1.0
            }
        };
        for (scores, row) in scores.chunks_exact_mut(KEYS).zip(first + slots.start..) {
            let mask = self.mask.as_ref().map(|mask| mask.row(head * group + row / m, row % m));
            mask_scores(&mut scores[..width], keys.start..keys.start + count, self.visible(row), mask);
        }
        let mut shrinks = [0.0; TALLEST];
        let shrinks = &mut shrinks[..rows];
        let (largest, total) = (&mut totals.largest[slots.clone()], &mut totals.weights[slots]);
        simd::run(Weigh { scores, width, scale, largest, total, shrinks });
        // SAFETY: as above.
        unsafe {
            let left = f.weights(scores, width, memory.p);
            for j in (0..e).step_by(c) {
                f.product(
                    rows,
                    count,
                    left,
                    memory.v.add(j * key_row),
                    Pitched { first: memory.block.add(j), pitch: e },
                );
            }
        }
        simd::run(Add { block, sums, shrinks });
    }
}
