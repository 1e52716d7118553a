//! A vector times a matrix that caches hold: its rows are read in short pieces, so that sums stay in registers.
//!
//! Sums have the order of [`vector`](super::vector), bit for bit.

use super::vector::Values;
use crate::simd::{LANES, Level, prefetch_l2};

/// Bytes of a matrix that is read so, at most; and from one of its rows to the next: what is prefetched of those farther apart would
/// displace itself.
const MOST: usize = 2 << 20;
const MOST_STEP: usize = 4 << 10;
/// Bytes of a matrix in the first-level cache.
const NEAR: usize = 32 << 10;

/// Lanes of the sums that are in registers at once: those that are added to each other first.
const QUARTER: usize = LANES / 4;

/// A chunk of a matrix, of which a vector of memory has one value of [`LANES`] rows, and of a vector.
pub(super) struct Strips<X, E> {
    /// The first row's first value.
    pub(super) first: *const X,
    /// Elements from a value of a row to the next.
    pub(super) step: usize,
    pub(super) rows: usize,
    pub(super) vector: *const E,
    /// How many values each row has, and the vector.
    pub(super) values: usize,
    /// Where each row's sum goes.
    pub(super) sums: *mut E,
}

/// Writes the sums, or returns `false` where it is faster to keep them in memory.
///
/// # Safety
/// Values and sums exist as described; if the rows are not whole vectors, as many can be read that end with the last one.
#[inline(always)]
pub(super) unsafe fn run<L: Level, X: Values<f32>>(l: L, strips: &Strips<X, f32>) -> bool {
    let step = strips.step * size_of::<X>();
    // SAFETY: this function's contract.
    unsafe {
        match strips.values * step {
            ..=NEAR => write_sums::<L, X, false>(l, strips),
            ..=MOST if L::WIDE && step <= MOST_STEP => write_sums::<L, X, true>(l, strips),
            _ => return false,
        }
    }
    true
}

/// [`run`]; asks for what the next vectors of rows have, `AHEAD`.
///
/// # Safety
/// As there.
#[inline(always)]
unsafe fn write_sums<L: Level, X: Values<f32>, const AHEAD: bool>(l: L, strips: &Strips<X, f32>) {
    let rows = strips.rows;
    let mut j = 0;
    // SAFETY: this function's contract.
    unsafe {
        // Vectors for which there are registers, one of them for the factor.
        while L::WIDE && j + 4 * LANES <= rows {
            write(l, strips, j, sums::<L, X, AHEAD, 4>(l, strips, j as isize));
            j += 4 * LANES;
        }
        while j + LANES <= rows {
            write(l, strips, j, sums::<L, X, AHEAD, 1>(l, strips, j as isize));
            j += LANES;
        }
        if j < rows {
            let mut last = [0.0; LANES];
            let [sums] = sums::<L, X, AHEAD, 1>(l, strips, rows as isize - LANES as isize);
            l.store(sums, &mut last);
            for (i, sum) in (j..rows).zip(&last[LANES - (rows - j)..]) {
                strips.sums.add(i).write(*sum);
            }
        }
    }
}

/// Writes sums of rows from `j` on.
///
/// # Safety
/// There are so many.
#[inline(always)]
unsafe fn write<L: Level, X, const V: usize>(l: L, strips: &Strips<X, f32>, j: usize, sums: [L::F; V]) {
    for v in 0..V {
        // SAFETY: this function's contract.
        let to = unsafe { &mut *strips.sums.add(j + v * LANES).cast::<[f32; LANES]>() };
        l.store(sums[v], to);
    }
}

/// The sums of `V` vectors of rows, which begin `j` rows behind the first one.
///
/// # Safety
/// Their values can be read.
#[inline(always)]
unsafe fn sums<L: Level, X: Values<f32>, const AHEAD: bool, const V: usize>(
    l: L,
    strips: &Strips<X, f32>,
    j: isize,
) -> [L::F; V] {
    let mut whole = [l.splat(0.0); V];
    for half in 0..2 {
        let mut sum = [l.splat(0.0); V];
        for quarter in 0..2 {
            // SAFETY: this function's contract.
            let sums = unsafe { quarter_sums::<L, X, AHEAD, V>(l, strips, j, half + 2 * quarter) };
            for v in 0..V {
                sum[v] = if quarter == 0 { sums[v] } else { l.add(sum[v], sums[v]) };
            }
        }
        for v in 0..V {
            whole[v] = if half == 0 { sum[v] } else { l.add(whole[v], sum[v]) };
        }
    }
    whole
}

/// The sums of every [`QUARTER`]th lane from `first` on.
///
/// # Safety
/// As [`sums`].
#[inline(always)]
unsafe fn quarter_sums<L: Level, X: Values<f32>, const AHEAD: bool, const V: usize>(
    l: L,
    strips: &Strips<X, f32>,
    j: isize,
    first: usize,
) -> [L::F; V] {
    let mut lanes = [[l.splat(0.0); V]; 4];
    let mut factor = strips.vector.wrapping_add(first);
    let mut row = strips.first.wrapping_offset(j).wrapping_add(first * strips.step);
    let piece = QUARTER * strips.step;
    // SAFETY: this function's contract.
    unsafe {
        for _ in 0..strips.values / LANES {
            for i in 0..4 {
                lanes[i] = plus_scaled::<L, X, AHEAD, V>(l, *factor, row, lanes[i]);
                (factor, row) = (factor.wrapping_add(QUARTER), row.wrapping_add(piece));
            }
        }
        for i in 0..4 {
            if first + i * QUARTER < strips.values % LANES {
                lanes[i] = plus_scaled::<L, X, AHEAD, V>(l, *factor, row, lanes[i]);
                (factor, row) = (factor.wrapping_add(QUARTER), row.wrapping_add(piece));
            }
        }
    }
    let [mut sums, b, c, d] = lanes;
    for v in 0..V {
        sums[v] = l.add(l.add(sums[v], c[v]), l.add(b[v], d[v]));
    }
    sums
}

/// Sums plus a row, scaled; asks for what follows in that row, `AHEAD`.
///
/// # Safety
/// The row has as many values.
#[inline(always)]
unsafe fn plus_scaled<L: Level, X: Values<f32>, const AHEAD: bool, const V: usize>(
    l: L,
    factor: f32,
    row: *const X,
    mut sums: [L::F; V],
) -> [L::F; V] {
    let factor = l.splat(factor);
    for v in 0..V {
        if AHEAD {
            prefetch_l2(row.wrapping_add((V + v) * LANES));
        }
        // SAFETY: this function's contract.
        let row = unsafe { X::load(l, row.add(v * LANES)) };
        sums[v] = l.mul_add(factor, l.load(&row), sums[v]);
    }
    sums
}
