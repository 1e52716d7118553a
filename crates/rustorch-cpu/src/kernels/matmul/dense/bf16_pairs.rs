//! Matmuls of `bf16` by instructions that multiply and add pairs (`vdpbf16ps`), which have twice the rate of those for `f32`. Both products
//! of a pair are added to the `f32` sum by one instruction, which takes subnormal numbers for zeros: results are not the bits of other
//! ways, so that only matmuls whose order of sums is free go this way.
//!
//! A block of the right operand is packed by all threads and stays in the second-level cache; stacks of rows are packed by the thread that
//! multiplies them, as in [`many_rows`](super::many_rows). Values of a pair are the halves of a word.

use super::gemm::{with_packed, with_scratch};
use super::pack::{pack_columns, pack_rows};
use super::{Arithmetic, Half, Same};
use crate::kernels::matmul::gemm_args::{GemmArgs, Target};
use crate::kernels::matmul::rows::{GemmOutput, Parts};
use crate::{Isa, ThreadPool};
use rustorch_core::bf16;
use std::arch::x86_64::*;
use std::ops::Range;

/// Rows and columns from which on it pays to pack both operands.
const FEWEST_ROWS: usize = 24;
const FEWEST_COLUMNS: usize = 32;
/// Columns of a tile: two registers.
const COLUMNS: usize = 32;
/// Rows of a tile.
const HEIGHT: usize = 12;
/// Words of a packed block of the right operand: half of the second-level cache of a server's core.
const BLOCK: usize = 1 << 18;
/// Nanoseconds of work worth claiming for a thread, and those that a multiplication of tiles takes for each pair.
const WORTH: usize = 10_000;
const PAIR_NS: usize = 8;

/// Whether the CPU has the instructions, and a matmul is large enough for them.
pub(super) fn fits(gemm: &GemmArgs) -> bool {
    gemm.m >= FEWEST_ROWS
        && gemm.n >= FEWEST_COLUMNS
        && gemm.k >= 2
        && Isa::detect() == Isa::Avx512
        && is_x86_feature_detected!("avx512bf16")
}

/// Runs a matmul that [`fits`].
///
/// # Safety
/// The operands have the elements that `gemm` describes, from `a` and `b` on; nobody else uses those of the target.
pub(super) unsafe fn run(
    pool: &ThreadPool,
    gemm: &GemmArgs,
    [a, b]: [*const bf16; 2],
    target: &Target<bf16>,
) {
    let pairs = gemm.k.div_ceil(2);
    let width = (BLOCK / pairs / COLUMNS * COLUMNS).max(COLUMNS);
    for batch in 0..gemm.batches() {
        let [a_start, b_start, _] = gemm.batch_starts(batch);
        let left = Operand { first: a.wrapping_add(a_start), strides: gemm.a_strides, k: gemm.k };
        let [value, column] = gemm.b_strides;
        let right = Operand { first: b.wrapping_add(b_start), strides: [column, value], k: gemm.k };
        let out = gemm.output(target, &gemm.batch(batch));
        for first in (0..gemm.n).step_by(width) {
            let columns = first..gemm.n.min(first + width);
            let panels = columns.len().div_ceil(COLUMNS);
            with_packed(panels * COLUMNS * pairs, |packed: *mut f32| {
                let packed = Parts::new(packed);
                pool.ranges(panels, WORTH / (PAIR_NS * pairs), |range| {
                    for panel in range {
                        let j = columns.start + panel * COLUMNS;
                        let n = COLUMNS.min(columns.end - j);
                        // SAFETY: this function's contract; each panel is one thread's.
                        unsafe { right.pack_columns(j, n, packed.address(panel * COLUMNS * pairs)) };
                    }
                });
                let stacks = gemm.m.div_ceil(HEIGHT);
                pool.ranges(stacks, WORTH / (PAIR_NS * pairs * panels), |range| {
                    let rows = range.start * HEIGHT..gemm.m.min(range.end * HEIGHT);
                    // SAFETY: this function's contract; the panels are packed; each row of the result is one thread's.
                    unsafe { multiply(&left, rows, &packed, columns.clone(), &out) };
                });
            });
        }
    }
}

/// Results of some rows, and of the columns that are packed.
///
/// # Safety
/// As [`run`]; nobody else uses these results.
unsafe fn multiply(
    left: &Operand,
    rows: Range<usize>,
    packed: &Parts<f32>,
    columns: Range<usize>,
    out: &GemmOutput<'_, bf16>,
) {
    let pairs = left.k.div_ceil(2);
    let len = (HEIGHT * pairs).next_multiple_of(COLUMNS);
    with_scratch(len + HEIGHT * COLUMNS, |stack: *mut f32| {
        for first in rows.clone().step_by(HEIGHT) {
            let height = HEIGHT.min(rows.end - first);
            // SAFETY: this function's contract; there is room for a stack and the sums of a tile, which has as many rows.
            unsafe {
                let sums = stack.add(len);
                let (tile, tall): (Tile, usize) = match height {
                    9.. => (tile::<12>, 12),
                    5..=8 => (tile::<8>, 8),
                    _ => (tile::<4>, 4),
                };
                left.pack_rows(first, height, tall, stack);
                for (panel, j) in columns.clone().step_by(COLUMNS).enumerate() {
                    tile(pairs, stack, packed.address(panel * COLUMNS * pairs), sums);
                    let n = COLUMNS.min(columns.end - j);
                    for i in 0..height {
                        let sums = std::slice::from_raw_parts(sums.add(i * COLUMNS), n);
                        out.store(first + i, j, sums, Half::<bf16>::out);
                    }
                }
            }
        }
        // SAFETY: this function's contract; they are stored.
        unsafe { out.activate(rows, columns) };
    });
}

/// Lines of so many values: rows of the left operand, columns of the right one.
struct Operand {
    first: *const bf16,
    /// Elements from a line to the next, and from a value to the next.
    strides: [usize; 2],
    k: usize,
}

// SAFETY: an address of a view that outlives it, which is only read.
unsafe impl Sync for Operand {}

impl Operand {
    /// Where words of pairs begin and how many of them are from line to line, if pairs are aligned words of memory.
    fn words(&self, line: usize) -> Option<(*const f32, usize)> {
        let from = self.first.wrapping_add(line * self.strides[0]).cast::<f32>();
        let fits = self.strides[1] == 1 && self.strides[0].is_multiple_of(2) && from.is_aligned();
        fits.then_some((from, self.strides[0] / 2))
    }

    /// The values of a pair of a line, of which the last one may have no second.
    ///
    /// # Safety
    /// The line has them.
    #[inline(always)]
    unsafe fn pair(&self, line: usize, pair: usize) -> f32 {
        let [row, value] = self.strides;
        // SAFETY: this function's contract.
        unsafe {
            let from = self.first.add(line * row + 2 * pair * value);
            let second = if 2 * pair + 1 < self.k { (*from.add(value)).to_bits() } else { 0 };
            f32::from_bits(u32::from((*from).to_bits()) | u32::from(second) << 16)
        }
    }

    /// Pairs of `n` lines as `[pairs][COLUMNS]`, zero beyond them.
    ///
    /// # Safety
    /// The lines exist; there is room.
    unsafe fn pack_columns(&self, line: usize, n: usize, to: *mut f32) {
        let (pairs, whole) = (self.k.div_ceil(2), self.k / 2);
        // SAFETY: this function's contract; the CPU has AVX-512.
        unsafe {
            let done = if let Some((from, step)) = self.words(line) {
                pack_columns::<Same<f32>>(Isa::Avx512, from, (whole, n), (1, step), COLUMNS, to);
                whole
            } else if self.strides[0] == 1 && n == COLUMNS {
                for p in 0..whole {
                    let from = self.first.add(line + 2 * p * self.strides[1]);
                    join(from, from.add(self.strides[1]), to.add(p * COLUMNS));
                }
                whole
            } else {
                0
            };
            for p in done..pairs {
                for j in 0..COLUMNS {
                    *to.add(p * COLUMNS + j) = if j < n { self.pair(line + j, p) } else { 0.0 };
                }
            }
        }
    }

    /// Pairs of `n` lines as `[pairs][height]`; those beyond `n` are the last one once more.
    ///
    /// # Safety
    /// The lines exist; there is room; `n` is at most the height.
    unsafe fn pack_rows(&self, line: usize, n: usize, height: usize, to: *mut f32) {
        let (pairs, whole) = (self.k.div_ceil(2), self.k / 2);
        // SAFETY: this function's contract.
        unsafe {
            let mut done = 0;
            if let Some((from, step)) = self.words(line) {
                let rows: [*const f32; HEIGHT] =
                    std::array::from_fn(|i| from.wrapping_add(i.min(n - 1) * step));
                pack_rows::<Same<f32>>(&rows[..height], whole, 1, to);
                done = whole;
            }
            for p in done..pairs {
                for i in 0..height {
                    *to.add(p * height + i) = self.pair(line + i.min(n - 1), p);
                }
            }
        }
    }
}

/// Pairs of corresponding values.
///
/// # Safety
/// Each has [`COLUMNS`] values; there is room for as many words; the CPU has AVX-512 F and BW.
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn join(first: *const bf16, second: *const bf16, to: *mut f32) {
    for half in 0..2 {
        // SAFETY: this function's contract; sixteen values at a time.
        unsafe {
            let low = _mm512_cvtepu16_epi32(_mm256_loadu_si256(first.add(16 * half).cast()));
            let high = _mm512_cvtepu16_epi32(_mm256_loadu_si256(second.add(16 * half).cast()));
            let words = _mm512_or_si512(low, _mm512_slli_epi32::<16>(high));
            _mm512_storeu_si512(to.add(16 * half).cast(), words);
        }
    }
}

/// Writes `H` rows of [`COLUMNS`] sums: `to[i][j] = Σ x[p][i] · w[p][j]` over pairs `p`, in order, from zero.
type Tile = unsafe fn(pairs: usize, x: *const f32, w: *const f32, to: *mut f32);

/// # Safety
/// `x` is `[pairs][H]`, `w` is `[pairs][COLUMNS]`, and there is room for the sums; the CPU has AVX-512 F and BF16.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
unsafe fn tile<const H: usize>(pairs: usize, x: *const f32, w: *const f32, to: *mut f32) {
    // SAFETY: this function's contract; registers of one size are made of each other.
    unsafe {
        let halves = |words: __m512i| std::mem::transmute::<__m512i, __m512bh>(words);
        let mut sums = [[_mm512_setzero_ps(); 2]; H];
        for p in 0..pairs {
            let right = [
                halves(_mm512_loadu_si512(w.add(p * COLUMNS).cast())),
                halves(_mm512_loadu_si512(w.add(p * COLUMNS + 16).cast())),
            ];
            for i in 0..H {
                let left = halves(_mm512_set1_epi32(x.add(p * H + i).cast::<i32>().read()));
                for v in 0..2 {
                    sums[i][v] = _mm512_dpbf16_ps(sums[i][v], left, right[v]);
                }
            }
        }
        for i in 0..H {
            for v in 0..2 {
                _mm512_storeu_ps(to.add(i * COLUMNS + v * 16), sums[i][v]);
            }
        }
    }
}
