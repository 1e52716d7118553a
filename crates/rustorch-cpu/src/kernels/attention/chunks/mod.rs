//! The arithmetic of the gradients of attention: packed operands, and the matmuls of a chunk of queries with a chunk of keys.
//!
//! Scores come as panels `[queries][columns]`, which are right operands of the matmuls for keys' gradients as they are. All
//! gradients are summed transposed, `[width][columns]` for as many queries or keys as a panel has columns: so the other
//! factor, packed in strips of a tile's rows, is a copy of rows as they lie.

mod weights;

pub(super) use weights::Weights;

use super::backward::Sum;
use crate::Isa;
use crate::kernels::lanes::dot;
use crate::kernels::matmul::{HIGHEST, Tiles, pack_columns, pack_rows, with_scratch};
use crate::kernels::strided::Matrix;
use crate::math::Real;
use crate::simd::{self, Level, Task};
use std::ops::Range;

/// Queries of a chunk: whole panels and whole stacks of tiles on every instruction set.
pub(super) const QUERIES: usize = 96;
/// Keys of a chunk.
pub(super) const KEYS: usize = 64;
/// Queries that are packed at once.
pub(super) const STAGE: usize = 4 * QUERIES;

/// Which gradients are computed.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    pub(super) q: bool,
    pub(super) k: bool,
    pub(super) v: bool,
}

/// The keys of a task.
#[derive(Clone)]
pub(super) struct Spans {
    /// The width of queries and keys.
    pub(super) d: usize,
    /// That of values.
    pub(super) e: usize,
    /// Which keys: from the beginning of a chunk on.
    pub(super) keys: Range<usize>,
    pub(super) wanted: Wanted,
}

/// Queries, at most [`STAGE`].
pub(super) struct Lines<'a, E> {
    pub(super) q: Matrix<'a, E>,
    pub(super) grad: Matrix<'a, E>,
    /// Σ grad · out of each.
    pub(super) delta: &'a [E],
    pub(super) lse: &'a [E],
}

/// Packed keys and values, room for queries, and sums.
///
/// Addresses are those of disjoint parts of one piece of memory, which lives as long as this.
pub(super) struct Work<'a, E: Sum> {
    spans: &'a Spans,
    isa: Isa,
    tiles: &'static Tiles<E>,
    /// Keys and values as right operands, `[panel][width][columns]`.
    k_panels: *mut E,
    v_panels: *mut E,
    /// Keys as left operands of the queries' gradients: chunks of keys, in strips.
    k_strips: *mut E,
    /// Queries and gradients of results as left operands of scores, and of the keys' gradients.
    q_rows: *mut E,
    q_strips: *mut E,
    grad_rows: *mut E,
    grad_strips: *mut E,
    /// Sums, `[panel][width][columns]`.
    dq: *mut E,
    dk: *mut E,
    dv: *mut E,
    /// Weights, gradients of scores, and derivatives of the soft cap: `[panel][QUERIES][columns]`.
    weights: *mut E,
    of_scores: *mut E,
    slopes: *mut E,
    /// Gradients of scores, turned: `[keys][columns]` for a panel of queries.
    turned: *mut E,
    /// A panel of sums, turned.
    rows: *mut E,
}

/// Packs the keys and values of a task, and runs it with room for everything else.
pub(super) fn with_keys<E: Sum>(
    spans: &Spans,
    k: Matrix<'_, E>,
    v: Matrix<'_, E>,
    run: impl FnOnce(&mut Work<'_, E>),
) {
    let isa = Isa::detect();
    let tiles = E::tiles(isa);
    let (c, Spans { d, e, keys, wanted }) = (tiles.columns, spans);
    let (d, e) = (*d, *e);
    assert!(k.holds(keys.len(), d) && v.holds(keys.len(), e), "keys or values of other sizes");
    let keys = keys.len().next_multiple_of(c);
    let if_wanted = |wanted: bool, len: usize| if wanted { len } else { 0 };
    let of_scores = wanted.q || wanted.k;
    let lens = [
        keys * d,
        if_wanted(of_scores, keys * e),
        if_wanted(wanted.q, keys * d),
        STAGE * d,
        if_wanted(wanted.k, STAGE * d),
        if_wanted(of_scores, STAGE * e),
        if_wanted(wanted.v, STAGE * e),
        if_wanted(wanted.q, STAGE * d),
        if_wanted(wanted.k, keys * d),
        if_wanted(wanted.v, keys * e),
        QUERIES * KEYS,
        QUERIES * KEYS,
        QUERIES * KEYS,
        KEYS * c,
        c * d.max(e).next_multiple_of(8),
    ]
    // Each part at the beginning of a cache line.
    .map(|len| len.next_multiple_of(64 / size_of::<E>()));
    with_scratch::<E>(lens.iter().sum(), |mut next| {
        let [
            k_panels,
            v_panels,
            k_strips,
            q_rows,
            q_strips,
            grad_rows,
            grad_strips,
            dq,
            dk,
            dv,
            weights,
            of_scores,
            slopes,
            turned,
            rows,
        ] = lens.map(|len| {
            let part = next;
            next = next.wrapping_add(len);
            part
        });
        let mut work = Work {
            spans,
            isa,
            tiles,
            k_panels,
            v_panels,
            k_strips,
            q_rows,
            q_strips,
            grad_rows,
            grad_strips,
            dq,
            dk,
            dv,
            weights,
            of_scores,
            slopes,
            turned,
            rows,
        };
        // SAFETY: the parts have the lengths above.
        unsafe {
            work.pack_keys(k, v, [lens[8], lens[9]]);
            for part in [weights, of_scores, slopes] {
                fill(part, QUERIES * KEYS, zero());
            }
        }
        run(&mut work);
    });
}

impl<E: Sum> Work<'_, E> {
    /// # Safety
    /// The parts have room for the keys' and values' rows, and for sums of these lengths.
    unsafe fn pack_keys(&mut self, k: Matrix<'_, E>, v: Matrix<'_, E>, [dk, dv]: [usize; 2]) {
        let Spans { d, e, keys, wanted } = self.spans;
        let (c, n) = (self.tiles.columns, keys.len());
        // SAFETY: this function's contract; matrices have `n` rows of these widths.
        unsafe {
            for key in (0..n).step_by(c) {
                let count = c.min(n - key);
                self.pack_panel(k, key, count, *d, self.k_panels.add(key * d));
                if wanted.q || wanted.k {
                    self.pack_panel(v, key, count, *e, self.v_panels.add(key * e));
                }
            }
            if wanted.q {
                for key in (0..n).step_by(KEYS) {
                    let count = KEYS.min(n - key);
                    self.pack_strips(k, key, count, *d, self.k_strips.add(key * d));
                }
            }
            for (sums, len) in [(self.dk, dk), (self.dv, dv)] {
                fill(sums, len, zero());
            }
        }
    }

    /// Rows of a matrix as columns of a right operand.
    ///
    /// # Safety
    /// There is room for `width` times the columns of a panel; the matrix has these rows.
    unsafe fn pack_panel(&self, x: Matrix<'_, E>, row: usize, count: usize, width: usize, to: *mut E) {
        let (base, stride) = x.address();
        // SAFETY: this function's contract.
        unsafe {
            let from = base.wrapping_add(row * stride);
            let c = self.tiles.columns;
            pack_columns::<E::Packing>(self.isa, from, (width, count), (1, stride), c, to);
        }
    }

    /// Rows of a matrix as the inner dimension of a left operand, whose rows its columns are.
    ///
    /// # Safety
    /// There is room for `count * width` elements; the matrix has these rows.
    unsafe fn pack_strips(&self, x: Matrix<'_, E>, row: usize, count: usize, width: usize, to: *mut E) {
        let (base, stride) = x.address();
        for (column, height, _) in self.tiles.over(0..width) {
            // SAFETY: this function's contract.
            unsafe {
                let (from, to) = (base.wrapping_add(row * stride + column), to.add(column * count));
                match height {
                    12 => strip::<E, 12>(from, stride, count, to),
                    8 => strip::<E, 8>(from, stride, count, to),
                    6 => strip::<E, 6>(from, stride, count, to),
                    4 => strip::<E, 4>(from, stride, count, to),
                    _ => {
                        for i in 0..count {
                            for j in 0..height {
                                *to.add(i * height + j) = *from.wrapping_add(i * stride + j);
                            }
                        }
                    }
                }
            }
        }
    }

    /// Rows of a matrix as rows of a left operand.
    ///
    /// # Safety
    /// There is room for `count * width` elements; the matrix has these rows.
    unsafe fn pack_rows(&self, x: Matrix<'_, E>, count: usize, width: usize, to: *mut E) {
        let (base, stride) = x.address();
        for (row, height, _) in self.tiles.over(0..count) {
            let mut rows = [std::ptr::null(); HIGHEST];
            for (i, address) in rows[..height].iter_mut().enumerate() {
                *address = base.wrapping_add((row + i) * stride);
            }
            // SAFETY: this function's contract.
            unsafe { pack_rows::<E::Packing>(&rows[..height], width, 1, to.add(row * width)) };
        }
    }

    /// `acc += left · right`: `rows` of a left operand, which has been packed in tiles, times a panel.
    ///
    /// # Safety
    /// The operands have `depth` inner values; `acc` has `rows` times the columns of a panel.
    #[inline]
    unsafe fn multiply(&self, rows: usize, depth: usize, left: *const E, right: *const E, acc: *mut E) {
        for (row, _, tile) in self.tiles.over(0..rows) {
            // SAFETY: this function's contract.
            unsafe {
                let acc = acc.add(row * self.tiles.columns);
                self.tiles.accumulate(tile, depth, left.add(row * depth), right, acc);
            }
        }
    }

    /// Adds what some queries contribute to all sums. `weigh` turns their scores with a chunk of keys into weights and gradients
    /// of scores; `false` where no query sees a key, and nothing is computed. It is given the queries counted from the first of
    /// these, and the keys.
    pub(super) fn queries(
        &mut self,
        lines: Lines<'_, E>,
        mut weigh: impl FnMut(Range<usize>, Range<usize>, &mut Weights<'_, E>) -> bool,
    ) {
        let Spans { d, e, ref keys, wanted } = *self.spans;
        let count = lines.delta.len();
        assert!(count <= STAGE && lines.lse.len() == count, "more queries than there is room for");
        assert!(lines.q.holds(count, d) && lines.grad.holds(count, e), "queries or gradients of other sizes");
        // SAFETY: there is room for `STAGE` queries; matrices have `count` rows of these widths.
        unsafe {
            self.pack_rows(lines.q, count, d, self.q_rows);
            if wanted.q || wanted.k {
                self.pack_rows(lines.grad, count, e, self.grad_rows);
            }
            for row in (0..count).step_by(QUERIES) {
                let rows = QUERIES.min(count - row);
                if wanted.k {
                    self.pack_strips(lines.q, row, rows, d, self.q_strips.add(row * d));
                }
                if wanted.v {
                    self.pack_strips(lines.grad, row, rows, e, self.grad_strips.add(row * e));
                }
            }
            if wanted.q {
                fill(self.dq, count.next_multiple_of(self.tiles.columns) * d, zero());
            }
        }
        for key in (0..keys.len()).step_by(KEYS) {
            let at = key..keys.len().min(key + KEYS);
            for row in (0..count).step_by(QUERIES) {
                let rows = row..count.min(row + QUERIES);
                let (rows_now, keys_now) = (rows.clone(), at.clone());
                let mut weights = Weights { work: self, lines: &lines, rows: rows_now, keys: keys_now };
                if weigh(rows.clone(), keys.start + at.start..keys.start + at.end, &mut weights) {
                    // SAFETY: `queries` packed these rows, `pack_keys` these keys, and `weigh` made the weights.
                    unsafe { self.add(rows, at.clone()) };
                }
            }
        }
    }

    /// Adds the products of weights and of gradients of scores to all sums.
    ///
    /// # Safety
    /// They are those of these rows and keys, which are packed.
    unsafe fn add(&mut self, rows: Range<usize>, keys: Range<usize>) {
        let Spans { d, e, wanted, .. } = *self.spans;
        let (c, count) = (self.tiles.columns, rows.len());
        // SAFETY: this function's contract.
        unsafe {
            for (panel, key) in keys.clone().step_by(c).enumerate() {
                let at = panel * QUERIES * c;
                if wanted.v {
                    let left = self.grad_strips.add(rows.start * e);
                    self.multiply(e, count, left, self.weights.add(at), self.dv.add(key * e));
                }
                if wanted.k {
                    let left = self.q_strips.add(rows.start * d);
                    self.multiply(d, count, left, self.of_scores.add(at), self.dk.add(key * d));
                }
            }
            if !wanted.q {
                return;
            }
            for row in (0..count).step_by(c) {
                let n = c.min(count - row);
                for (panel, key) in (0..keys.len()).step_by(c).enumerate() {
                    let depth = c.min(keys.len() - key);
                    let from = self.of_scores.add((panel * QUERIES + row) * c);
                    let to = self.turned.add(key * c);
                    pack_columns::<E::Packing>(self.isa, from, (depth, n), (1, c), c, to);
                }
                let left = self.k_strips.add(keys.start * d);
                self.multiply(d, keys.len(), left, self.turned, self.dq.add((rows.start + row) * d));
            }
        }
    }

    /// Calls `put` with the gradient of each of the last queries.
    pub(super) fn query_gradients(&mut self, count: usize, put: impl FnMut(usize, &[E])) {
        assert!(self.spans.wanted.q && count <= STAGE, "there are no such gradients");
        // SAFETY: these sums exist.
        unsafe { self.rows_of(self.dq, self.spans.d, count, put) }
    }

    /// Calls `put` with the gradient of each key, or of each value.
    pub(super) fn key_gradients(&mut self, is_key: bool, put: impl FnMut(usize, &[E])) {
        let Spans { d, e, ref keys, wanted } = *self.spans;
        assert!(if is_key { wanted.k } else { wanted.v }, "there are no such gradients");
        let (sums, width) = if is_key { (self.dk, d) } else { (self.dv, e) };
        // SAFETY: these sums exist.
        unsafe { self.rows_of(sums, width, keys.len(), put) }
    }

    /// # Safety
    /// `sums` are panels of `width` for `count` rows.
    unsafe fn rows_of(
        &mut self,
        sums: *const E,
        width: usize,
        count: usize,
        mut put: impl FnMut(usize, &[E]),
    ) {
        if width == 0 {
            return;
        }
        let (c, stride) = (self.tiles.columns, width.next_multiple_of(8));
        for first in (0..count).step_by(c) {
            let rows = c.min(count - first);
            // SAFETY: this function's contract; there is room for a panel.
            unsafe {
                let from = sums.add(first * width);
                pack_columns::<E::Packing>(self.isa, from, (rows, width), (1, c), stride, self.rows);
                for row in 0..rows {
                    put(first + row, std::slice::from_raw_parts(self.rows.add(row * stride), width));
                }
            }
        }
    }
}

/// Zero, of which the traits of sums have two.
pub(super) fn zero<E: Real>() -> E {
    E::ZERO
}

/// # Safety
/// `len` elements can be written.
unsafe fn fill<E: Copy>(to: *mut E, len: usize, value: E) {
    for i in 0..len {
        // SAFETY: this function's contract.
        unsafe { to.add(i).write(value) };
    }
}

/// # Safety
/// `count` rows of `H` elements can be read, and as many written.
unsafe fn strip<E: Copy, const H: usize>(from: *const E, stride: usize, count: usize, to: *mut E) {
    for i in 0..count {
        // SAFETY: this function's contract.
        unsafe {
            for j in 0..H {
                *to.add(i * H + j) = *from.wrapping_add(i * stride + j);
            }
        }
    }
}

/// The sum of the products of two rows.
pub(super) fn row_dot<E: Sum>(x: &[E], y: &[E]) -> E {
    simd::run(Dot(x, y))
}

struct Dot<'a, E>(&'a [E], &'a [E]);

impl<E: Sum> Task for Dot<'_, E> {
    type Output = E;
    #[inline(always)]
    fn run<L: Level>(self, _: L) -> E {
        dot(self.0, self.1)
    }
}
