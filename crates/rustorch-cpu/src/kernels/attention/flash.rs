//! Inner loops of flash attention: scores of a block of keys, online softmax, weighted sum of values.

use super::half;
use crate::math::Real;
use crate::simd::{self, LANES, Level, Lines, Task};
use rustorch_core::Attention;

/// Keys of a block: two vectors.
pub(super) const KEYS: usize = 2 * LANES;
/// Query rows that share one pass over the keys at most.
pub(super) const MOST_ROWS: usize = 64;

/// Some query rows on their way over the keys, and the block of keys and values that they meet.
///
/// Rows of queries, keys and values are padded with zeros to whole vectors.
pub(super) struct Rows {
    rows: usize,
    /// Padded widths of queries and keys, and of values.
    d: usize,
    e: usize,
    /// Widths of a query and of a result.
    widths: (usize, usize),
    q: Lines,
    k: Lines,
    v: Lines,
    /// Scores, then weights: `KEYS` of each row.
    s: Lines,
    /// Weighted sums of values.
    acc: Lines,
    /// The largest score so far of each row.
    largest: Vec<f32>,
    /// The sum of each row's weights relative to its largest.
    total: Vec<f32>,
    /// What weights are multiplied with behind that sum, where there is dropout: `KEYS` of each row.
    masks: Option<Vec<f32>>,
    /// Whether queries and sums are kept in half precision.
    half: bool,
}

impl Rows {
    /// Up to [`MOST_ROWS`] rows.
    pub(super) fn new(rows: usize, d: usize, e: usize, half: bool, dropout: bool) -> Rows {
        assert!(rows <= MOST_ROWS, "too many rows for one pass");
        let widths = (d, e);
        let (d, e) = (d.next_multiple_of(LANES), e.next_multiple_of(LANES));
        Rows {
            rows,
            d,
            e,
            widths,
            q: Lines::zeros(rows * d),
            k: Lines::zeros(KEYS * d),
            v: Lines::zeros(KEYS * e),
            s: Lines::zeros(rows * KEYS),
            acc: Lines::zeros(rows * e),
            largest: vec![f32::NEG_INFINITY; rows],
            total: vec![0.0; rows],
            masks: dropout.then(|| vec![0.0; rows * KEYS]),
            half,
        }
    }

    /// The place of query `slot`, and the distance of rows.
    pub(super) fn query(&mut self, slot: usize) -> (&mut [f32], usize) {
        (&mut self.q[slot * self.d..][..self.d], self.d.max(1))
    }

    /// To be called when all queries are in place: rounds them where half precision is asked for.
    pub(super) fn settle_queries(&mut self) {
        if self.half {
            simd::run(half::RoundAll(&mut self.q));
        }
    }

    /// The places of the block's keys, and their distance.
    pub(super) fn keys(&mut self) -> (&mut [f32], usize) {
        (&mut self.k, self.d.max(1))
    }

    /// The places of the block's values, and their distance.
    pub(super) fn values(&mut self) -> (&mut [f32], usize) {
        (&mut self.v, self.e.max(1))
    }

    /// The scores of query `slot` against the block.
    pub(super) fn row_scores(&mut self, slot: usize) -> &mut [f32] {
        &mut self.s[slot * KEYS..][..KEYS]
    }

    /// The masks of query `slot` for the block, where there is dropout.
    pub(super) fn row_masks(&mut self, slot: usize) -> Option<&mut [f32]> {
        self.masks.as_mut().map(|masks| &mut masks[slot * KEYS..][..KEYS])
    }

    /// The sums of query `slot`: its result after [`finish`](Self::finish).
    pub(super) fn result(&self, slot: usize) -> &[f32] {
        &self.acc[slot * self.e..][..self.widths.1]
    }

    /// Whether so many keys may stay where they are, if there is nothing between them: four are read at a time.
    pub(super) fn takes_keys(&self, count: usize) -> bool {
        !self.half && self.widths.0 == self.d && count.is_multiple_of(4)
    }

    /// Whether values may stay where they are, if there is nothing between them.
    pub(super) fn takes_values(&self) -> bool {
        !self.half && self.widths.1 == self.e
    }

    /// Computes the scores against the first `count` keys, scaled and capped: those in their [place](Self::keys), or others that it
    /// [takes](Self::takes_keys).
    pub(super) fn scores(&mut self, keys: Option<&[f32]>, count: usize, attention: &Attention) {
        simd::run(Scores { work: self, keys, count, attention });
    }

    /// Takes the block into the running sums; scores that do not count are −∞. Values are in their [place](Self::values), or others that it
    /// [takes](Self::takes_values).
    pub(super) fn absorb(&mut self, values: Option<&[f32]>, count: usize) {
        simd::run(Absorb { work: self, values, count });
    }

    /// The logarithms of the sums of exponentiated scores; −∞ for a query that saw no key.
    pub(super) fn lse(&self, out: &mut [f32]) {
        for ((out, &largest), &total) in out.iter_mut().zip(&self.largest).zip(&self.total) {
            *out = if total == 0.0 { f32::NEG_INFINITY } else { largest + total.ln() };
        }
    }

    /// Divides by the sums of weights.
    pub(super) fn finish(&mut self) {
        for (acc, &total) in self.acc.chunks_exact_mut(self.e.max(1)).zip(&self.total) {
            // A query that saw no key has sums of zero.
            let factor = if total == 0.0 { 0.0 } else { 1.0 / total };
            for x in acc {
                *x *= factor;
            }
        }
    }
}

struct Scores<'a> {
    work: &'a mut Rows,
    keys: Option<&'a [f32]>,
    count: usize,
    attention: &'a Attention,
}

impl Task for Scores<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, l: L) {
        let Scores { work, keys, count, attention } = self;
        let (rows, d) = (work.rows, work.d);
        let mut row = if work.half { rows } else { 0 };
        for row in 0..row {
            let (q, s) = (&work.q[row * d..][..d], &mut work.s[row * KEYS..][..count.next_multiple_of(4)]);
            half::scores(l, q, &work.k, work.widths.0, s);
        }
        let k = keys.unwrap_or(&work.k);
        while row < rows {
            let (q, s) = (&work.q[row * d..], &mut work.s[row * KEYS..]);
            let step = match rows - row {
                4.. if L::WIDE => {
                    score_rows::<L, 4>(l, q, k, s, d, count);
                    4
                }
                2.. => {
                    score_rows::<L, 2>(l, q, k, s, d, count);
                    2
                }
                _ => {
                    score_rows::<L, 1>(l, q, k, s, d, count);
                    1
                }
            };
            row += step;
        }
        let scale = attention.scale;
        for s in work.s.as_chunks_mut::<KEYS>().0 {
            for score in s.iter_mut() {
                *score *= scale;
            }
            if let Some(cap) = attention.softcap {
                for score in s.iter_mut() {
                    *score = Real::tanh(*score / cap, l) * cap;
                }
            }
        }
    }
}

/// Scores of `ROWS` queries against the block, four keys at a time. Every score is summed in the same order, whatever
/// `ROWS` is.
#[inline(always)]
fn score_rows<L: Level, const ROWS: usize>(
    l: L,
    q: &[f32],
    k: &[f32],
    s: &mut [f32],
    d: usize,
    count: usize,
) {
    let q: [&[[f32; LANES]]; ROWS] = std::array::from_fn(|r| q[r * d..][..d].as_chunks().0);
    for key in (0..count).step_by(4) {
        let k: [&[[f32; LANES]]; 4] = std::array::from_fn(|i| k[(key + i) * d..][..d].as_chunks().0);
        let mut acc = [[l.splat(0.0); 4]; ROWS];
        for i in 0..d / LANES {
            // Loops, not closures: what is inlined into a closure is compiled without the instruction set.
            let mut keys = [l.splat(0.0); 4];
            for j in 0..4 {
                keys[j] = l.load(&k[j][i]);
            }
            for r in 0..ROWS {
                let q = l.load(&q[r][i]);
                for j in 0..4 {
                    acc[r][j] = l.mul_add(q, keys[j], acc[r][j]);
                }
            }
        }
        for r in 0..ROWS {
            s[r * KEYS + key..][..4].copy_from_slice(&l.sum4(acc[r]));
        }
    }
}

struct Absorb<'a> {
    work: &'a mut Rows,
    values: Option<&'a [f32]>,
    count: usize,
}

impl Task for Absorb<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, l: L) {
        let Absorb { work, values, count } = self;
        let (rows, e) = (work.rows, work.e);
        if work.half {
            for row in (0..rows).step_by(2) {
                let pair = 2.min(rows - row);
                let last = row + pair - 1;
                let scores = [&work.s[row * KEYS..][..count], &work.s[last * KEYS..][..count]];
                let sums = &mut work.acc[row * e..][..pair * e];
                let state = (&mut work.largest[row..][..pair], &mut work.total[row..][..pair]);
                half::absorb(l, &scores[..pair], &work.v, sums, state);
            }
            return;
        }
        let blocks = work.s.as_chunks_mut::<KEYS>().0;
        // What the sums so far shrink by where a larger score appears.
        let mut shrink = [0.0; MOST_ROWS];
        for first in (0..rows).step_by(4) {
            let group = first..rows.min(first + 4);
            let mut halves = [l.splat(f32::NEG_INFINITY); 4];
            for row in group.clone() {
                let s = blocks[row].as_chunks().0;
                halves[row - first] = l.max(l.load(&s[0]), l.load(&s[1]));
            }
            let most = l.max4(halves);
            for row in group {
                let most =
                    if work.largest[row] > most[row - first] { work.largest[row] } else { most[row - first] };
                shrink[row] = work.largest[row] - most;
                work.largest[row] = most;
            }
        }
        for (shrink, largest) in shrink.iter_mut().zip(&work.largest) {
            // A query that has seen nothing yet has nothing to shrink.
            *shrink = if *largest == f32::NEG_INFINITY { 1.0 } else { Real::exp_normal(*shrink, l) };
        }
        for first in (0..rows).step_by(4) {
            let group = first..rows.min(first + 4);
            let mut halves = [l.splat(0.0); 4];
            for row in group.clone() {
                let s = &mut blocks[row];
                // Scores of −∞ alone have no largest to relate to; a NaN among them stays.
                let most = work.largest[row];
                let most = if most == f32::NEG_INFINITY { 0.0 } else { most };
                for score in s.iter_mut() {
                    *score = Real::exp_normal(*score - most, l);
                }
                let s = s.as_chunks().0;
                halves[row - first] = l.add(l.load(&s[0]), l.load(&s[1]));
            }
            let sums = l.sum4(halves);
            for row in group {
                work.total[row] = work.total[row] * shrink[row] + sums[row - first];
                if shrink[row] != 1.0 {
                    let factor = shrink[row];
                    for x in &mut work.acc[row * e..][..e] {
                        *x *= factor;
                    }
                }
            }
        }
        if let Some(masks) = &work.masks {
            for (weight, mask) in work.s.iter_mut().zip(masks) {
                *weight *= mask;
            }
        }
        let v = values.unwrap_or(&work.v);
        let mut row = 0;
        while row < rows {
            let (s, acc) = (&work.s[row * KEYS..], &mut work.acc[row * e..]);
            let step = match rows - row {
                4.. if L::WIDE => {
                    add_values::<L, 4>(l, s, v, acc, e, count);
                    4
                }
                2.. => {
                    add_values::<L, 2>(l, s, v, acc, e, count);
                    2
                }
                _ => {
                    add_values::<L, 1>(l, s, v, acc, e, count);
                    1
                }
            };
            row += step;
        }
    }
}

/// Adds the weighted values of the block to the sums of `ROWS` queries, keys in ascending order.
#[inline(always)]
fn add_values<L: Level, const ROWS: usize>(
    l: L,
    s: &[f32],
    v: &[f32],
    acc: &mut [f32],
    e: usize,
    count: usize,
) {
    let mut at = 0;
    while at < e {
        if e - at >= 4 * LANES && L::WIDE {
            add_columns::<L, ROWS, 4>(l, s, v, acc, (e, at), count);
            at += 4 * LANES;
        } else if e - at >= 2 * LANES {
            add_columns::<L, ROWS, 2>(l, s, v, acc, (e, at), count);
            at += 2 * LANES;
        } else {
            add_columns::<L, ROWS, 1>(l, s, v, acc, (e, at), count);
            at += LANES;
        }
    }
}

#[inline(always)]
fn add_columns<L: Level, const ROWS: usize, const VECTORS: usize>(
    l: L,
    s: &[f32],
    v: &[f32],
    acc: &mut [f32],
    (e, at): (usize, usize),
    count: usize,
) {
    let s: [&[f32]; ROWS] = std::array::from_fn(|r| &s[r * KEYS..][..count]);
    let mut sums = [[l.splat(0.0); VECTORS]; ROWS];
    for r in 0..ROWS {
        let acc = acc[r * e + at..][..VECTORS * LANES].as_chunks().0;
        for c in 0..VECTORS {
            sums[r][c] = l.load(&acc[c]);
        }
    }
    for (key, v) in v.chunks_exact(e).take(count).enumerate() {
        let v = v[at..][..VECTORS * LANES].as_chunks().0;
        let mut values = [l.splat(0.0); VECTORS];
        for c in 0..VECTORS {
            values[c] = l.load(&v[c]);
        }
        for r in 0..ROWS {
            let weight = l.splat(s[r][key]);
            for c in 0..VECTORS {
                sums[r][c] = l.mul_add(weight, values[c], sums[r][c]);
            }
        }
    }
    for r in 0..ROWS {
        let acc = acc[r * e + at..][..VECTORS * LANES].as_chunks_mut().0;
        for c in 0..VECTORS {
            l.store(sums[r][c], &mut acc[c]);
        }
    }
}
