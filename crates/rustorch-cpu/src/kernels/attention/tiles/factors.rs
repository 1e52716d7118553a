//! Operands of the products of attention: how they are packed and multiplied.

use super::super::Load;
use super::KEYS;
#[cfg(doc)]
use super::TALLEST;
use crate::Isa;
#[cfg(target_arch = "x86_64")]
use crate::kernels::matmul::{Bf16Tiles, Entered, Words};
use crate::kernels::matmul::{HIGHEST, Pitched, Same, Scalar, Tiles, pack_columns, pack_rows};
use crate::kernels::strided::Matrix;
#[cfg(target_arch = "x86_64")]
use crate::simd::LANES;
use rustorch_core::DType;
#[cfg(target_arch = "x86_64")]
use rustorch_core::bf16;
use std::marker::PhantomData;
use std::ops::Range;

/// Values of rows that are packed at once, where tiles do not read them where they stand.
const PACKED: usize = 64;

/// How numbers are multiplied. Words have 32 bits; right operands are panels of so many columns, `[words of a column][columns]`.
pub(in super::super) trait Factors: Sync {
    /// Elements of queries, keys and values.
    type X: Load;
    /// What a thread holds while it multiplies.
    type Entered;

    /// Prepares a thread, on which nobody else enters meanwhile.
    fn enter(&self) -> Self::Entered;

    /// Columns of a panel: a multiple of sixteen that divides [`KEYS`].
    fn columns(&self) -> usize;

    /// Words of a row or column of so many values.
    fn words(&self, values: usize) -> usize;

    /// Values of the first of two sums that a score is made of: all of them where one chain of multiply-adds is short enough beside what operands
    /// are rounded by.
    fn half(&self, values: usize) -> usize;

    /// Words of a row of so many values that is staged.
    fn staged(&self, values: usize) -> usize;

    /// Rows of the next product of so many rows, at most [`TALLEST`].
    fn height(&self, rows: usize) -> usize;

    /// A row of values as left operand.
    ///
    /// # Safety
    /// There is room for its [`words`](Self::words), as in all that follows.
    unsafe fn row(&self, from: &[Self::X], to: *mut f32);

    /// The first `width` weights of rows of [`KEYS`] as left operand, which may be written to `to`.
    ///
    /// # Safety
    /// There is room for as many rows.
    unsafe fn weights(&self, rows: &[f32], width: usize, to: *mut f32) -> Pitched<*const f32>;

    /// Rows of a matrix as columns of a right operand, in panels one behind the other.
    ///
    /// # Safety
    /// As above; `stage` has room for as many staged rows.
    unsafe fn keys(&self, k: Matrix<'_, Self::X>, rows: Range<usize>, stage: *mut f32, to: *mut f32);

    /// Rows of a matrix as rows of a right operand of `columns`, in panels that are as far apart as those of [`KEYS`] rows.
    ///
    /// # Safety
    /// As [`keys`](Self::keys).
    unsafe fn values(
        &self,
        v: Matrix<'_, Self::X>,
        rows: Range<usize>,
        columns: usize,
        stage: *mut f32,
        to: *mut f32,
    );

    /// Products of rows, as many as [`height`](Self::height) says, with a panel, along so many values; up to [`TALLEST`] rows are read and written.
    ///
    /// # Safety
    /// All of them are there.
    unsafe fn product(
        &self,
        rows: usize,
        values: usize,
        left: Pitched<*const f32>,
        panel: *const f32,
        to: Pitched<*mut f32>,
    );
}

/// Copies rows of a matrix, as `f32`, to rows of so many numbers, and zeros behind them.
///
/// # Safety
/// There is room for them.
unsafe fn stage<T: Load>(from: Matrix<'_, T>, rows: Range<usize>, pitch: usize, to: *mut f32) {
    for (i, row) in rows.enumerate() {
        let row = from.row(row);
        // SAFETY: this function's contract.
        let to = unsafe { std::slice::from_raw_parts_mut(to.add(i * pitch), pitch) };
        T::widen(row, &mut to[..row.len()]);
        to[row.len()..].fill(0.0);
    }
}

/// Numbers as `f32`.
pub(in super::super) struct Singles<T> {
    isa: Isa,
    tiles: &'static Tiles<f32>,
    of: PhantomData<T>,
}

impl<T> Singles<T> {
    /// Those of this CPU.
    pub(in super::super) fn new() -> Singles<T> {
        let isa = Isa::detect();
        Singles { isa, tiles: f32::tiles(isa), of: PhantomData }
    }
}

impl<T: Load> Factors for Singles<T> {
    type X = T;
    type Entered = ();

    fn enter(&self) {}

    fn columns(&self) -> usize {
        self.tiles.columns
    }

    fn words(&self, values: usize) -> usize {
        values
    }

    fn half(&self, values: usize) -> usize {
        if T::DTYPE == DType::F32 { values.div_ceil(2) } else { values }
    }

    fn staged(&self, values: usize) -> usize {
        values
    }

    fn height(&self, rows: usize) -> usize {
        self.tiles.at_most(rows).0
    }

    unsafe fn row(&self, from: &[T], to: *mut f32) {
        // SAFETY: this function's contract.
        T::widen(from, unsafe { std::slice::from_raw_parts_mut(to, from.len()) });
    }

    unsafe fn weights(&self, rows: &[f32], _width: usize, _to: *mut f32) -> Pitched<*const f32> {
        Pitched { first: rows.as_ptr(), pitch: KEYS }
    }

    unsafe fn keys(&self, k: Matrix<'_, T>, rows: Range<usize>, staged: *mut f32, to: *mut f32) {
        let (d, c, n) = (k.cols(), self.tiles.columns, rows.len());
        // SAFETY: this function's contract.
        unsafe {
            stage(k, rows, d, staged);
            for j in (0..n).step_by(c) {
                let size = (d, c.min(n - j));
                pack_columns::<Same<f32>>(self.isa, staged.add(j * d), size, (1, d), c, to.add(j * d));
            }
        }
    }

    unsafe fn values(
        &self,
        v: Matrix<'_, T>,
        rows: Range<usize>,
        columns: usize,
        staged: *mut f32,
        to: *mut f32,
    ) {
        let (c, n) = (self.tiles.columns, rows.len());
        // SAFETY: this function's contract.
        unsafe {
            stage(v, rows, columns, staged);
            for j in (0..columns).step_by(c) {
                pack_columns::<Same<f32>>(self.isa, staged.add(j), (n, c), (columns, 1), c, to.add(j * KEYS));
            }
        }
    }

    unsafe fn product(
        &self,
        rows: usize,
        values: usize,
        left: Pitched<*const f32>,
        panel: *const f32,
        to: Pitched<*mut f32>,
    ) {
        let strided = match self.tiles.strided.is_empty() {
            true => None,
            false => self.tiles.strided_over(0..rows).next(),
        };
        // SAFETY: this function's contract; as many rows are a tile's.
        unsafe {
            if let Some((_, tile)) = strided {
                return tile(values, left, panel, None, to);
            }
            let (c, tile) = (self.tiles.columns, self.tiles.at_most(rows).1);
            for first in (0..values).step_by(PACKED) {
                let (depth, mut packed) = (PACKED.min(values - first), [0.0; PACKED * HIGHEST]);
                let starts: [*const f32; HIGHEST] =
                    std::array::from_fn(|i| left.first.wrapping_add(i.min(rows - 1) * left.pitch + first));
                pack_rows::<Same<f32>>(&starts[..rows], depth, 1, packed.as_mut_ptr());
                let from = (first > 0).then_some(to.to_read());
                tile(depth, packed.as_ptr(), panel.add(first * c), from, to);
            }
        }
    }
}

/// Numbers as pairs of `bf16`, weights rounded to them.
#[cfg(target_arch = "x86_64")]
pub(in super::super) struct Pairs(pub(in super::super) Bf16Tiles);

#[cfg(target_arch = "x86_64")]
impl Factors for Pairs {
    type X = bf16;
    type Entered = Entered;

    fn enter(&self) -> Entered {
        self.0.enter()
    }

    fn columns(&self) -> usize {
        Bf16Tiles::COLUMNS
    }

    fn words(&self, values: usize) -> usize {
        values.div_ceil(2).next_multiple_of(self.0.depth)
    }

    fn half(&self, values: usize) -> usize {
        values
    }

    fn staged(&self, values: usize) -> usize {
        self.words(values)
    }

    fn height(&self, rows: usize) -> usize {
        self.0.at_most(rows).0
    }

    unsafe fn row(&self, from: &[bf16], to: *mut f32) {
        // SAFETY: this function's contract.
        unsafe { copy(from, self.words(from.len()), to) };
    }

    unsafe fn weights(&self, rows: &[f32], width: usize, to: *mut f32) -> Pitched<*const f32> {
        for (i, row) in rows.as_chunks::<KEYS>().0.iter().enumerate() {
            // SAFETY: this function's contract; two fit into a word.
            let to = unsafe { std::slice::from_raw_parts_mut(to.add(i * KEYS / 2).cast::<bf16>(), width) };
            // SAFETY: who has the tiles has AVX-512 with `bf16`.
            unsafe { narrow(&row[..width], to) };
        }
        Pitched { first: to, pitch: KEYS / 2 }
    }

    unsafe fn keys(&self, k: Matrix<'_, bf16>, rows: Range<usize>, staged: *mut f32, to: *mut f32) {
        let (words, c, n) = (self.words(k.cols()), Bf16Tiles::COLUMNS, rows.len());
        // SAFETY: this function's contract; who has the tiles has AVX-512.
        unsafe {
            for (i, row) in rows.enumerate() {
                copy(k.row(row), words, staged.add(i * words));
            }
            for j in (0..n).step_by(c) {
                let (from, size) = (staged.add(j * words), (words, c.min(n - j)));
                pack_columns::<Same<f32>>(Isa::Avx512, from, size, (1, words), c, to.add(j * words));
            }
        }
    }

    unsafe fn values(
        &self,
        v: Matrix<'_, bf16>,
        rows: Range<usize>,
        columns: usize,
        staged: *mut f32,
        to: *mut f32,
    ) {
        let (pairs, pitch) = (self.words(rows.len()), columns / 2);
        // SAFETY: this function's contract; a pair of rows that is not there is zero.
        unsafe {
            staged.add(rows.len() * pitch).write_bytes(0, (2 * pairs - rows.len()) * pitch);
            for (i, row) in rows.enumerate() {
                copy(v.row(row), pitch, staged.add(i * pitch));
            }
            let staged = staged.cast::<bf16>().cast_const();
            for j in (0..columns).step_by(Bf16Tiles::COLUMNS) {
                let panel = to.add(j * self.words(KEYS)).cast::<u32>();
                for pair in 0..pairs {
                    let from = staged.add(2 * pair * columns + j);
                    (self.0.join)(from, columns, panel.add(pair * Bf16Tiles::COLUMNS));
                }
            }
        }
    }

    unsafe fn product(
        &self,
        rows: usize,
        values: usize,
        left: Pitched<*const f32>,
        panel: *const f32,
        to: Pitched<*mut f32>,
    ) {
        static ZEROS: [f32; Bf16Tiles::COLUMNS] = [0.0; Bf16Tiles::COLUMNS];
        let left = Words { first: left.first.cast(), row: left.pitch, step: self.0.depth };
        // SAFETY: this function's contract.
        unsafe { (self.0.at_most(rows).1)(self.words(values), left, panel.cast(), ZEROS.as_ptr(), to) };
    }
}

/// Rounds weights, whole vectors of them, to `bf16`; to zero where they are subnormal.
///
/// # Safety
/// The CPU has AVX-512 F and BF16.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bf16")]
unsafe fn narrow(from: &[f32], to: &mut [bf16]) {
    use std::arch::x86_64::*;
    for (from, to) in from.as_chunks::<LANES>().0.iter().zip(to.as_chunks_mut::<LANES>().0) {
        // SAFETY: sixteen numbers of 32 bits, and room for as many of 16; registers of one size are made of each other.
        unsafe {
            let halves = _mm512_cvtneps_pbh(_mm512_loadu_ps(from.as_ptr()));
            _mm256_storeu_si256(to.as_mut_ptr().cast(), std::mem::transmute::<__m256bh, __m256i>(halves));
        }
    }
}

/// Copies a row to so many words, and zeros behind it.
///
/// # Safety
/// There is room for them, and the row fits.
#[cfg(target_arch = "x86_64")]
unsafe fn copy(from: &[bf16], words: usize, to: *mut f32) {
    // SAFETY: this function's contract.
    let to = unsafe { std::slice::from_raw_parts_mut(to.cast::<bf16>(), 2 * words) };
    to[..from.len()].copy_from_slice(from);
    to[from.len()..].fill(bf16::ZERO);
}
