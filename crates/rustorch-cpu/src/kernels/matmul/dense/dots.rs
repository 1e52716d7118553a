//! Rows of `f32` times a matrix of 16-bit numbers whose columns are contiguous, as activations meet the weights of a language model: dot products
//! along columns that are read where they stand, and converted on the way.
//!
//! A result has sixteen lanes, to which values are added in order, value `p` to lane `p % 16`; and the lanes are added as a tree. Where the
//! CPU has instructions for pairs of `bf16`, a lane takes pairs of values instead. Either way a result depends on its own row and column
//! only.

use super::Arithmetic;
use super::gemm::{Strided, with_packed};
use crate::kernels::matmul::rows::{GroupedGemm, Parts, StridedRows};
use crate::kernels::matmul::tasks::WORTH;
use crate::simd::prefetch_bytes;
use crate::{Isa, ThreadPool};
use rustorch_core::{DType, Element, bf16};
use std::arch::x86_64::*;

/// Columns of a tile.
const COLUMNS: usize = 4;
/// Rows of the highest tile.
const HEIGHT: usize = 6;
/// Values that are multiplied at a time, at most.
const MOST: usize = 32;
/// Bytes of rows that stay in the second-level cache while columns pass.
const BLOCK: usize = 384 << 10;
/// Elements of rows for a thread to convert at least.
const CONVERTED: usize = 16 << 10;
/// Bytes from what is multiplied to what is fetched from memory, where the matrix is read once: further than the CPU itself fetches.
const AHEAD: usize = 64 << 10;

/// Runs GEMMs of `f32` with a matrix of 16 bits whose columns are contiguous; else returns `false` and does nothing.
///
/// # Safety
/// As [`run`](super::gemm::run).
pub(super) unsafe fn run<A: Arithmetic>(
    pool: &ThreadPool,
    isa: Isa,
    w: Strided,
    gemms: &[GroupedGemm<'_, StridedRows<'_, A::X>, A::X>],
) -> bool {
    // Constants as conditions: what follows is not compiled for other arithmetics.
    if const { !matches!((A::X::DTYPE, A::W::DTYPE), (DType::F32, DType::F16 | DType::BF16)) } {
        return false;
    }
    if isa < Isa::Avx2 || w.k_stride != 1 || w.k == 0 || w.n == 0 {
        return false;
    }
    let mut run_by = if isa == Isa::Avx512 { run_one::<A, Lanes512> } else { run_one::<A, Lanes256> };
    if const { A::ROUNDS_ROWS && matches!(A::W::DTYPE, DType::BF16) }
        && isa == Isa::Avx512
        && is_x86_feature_detected!("avx512bf16")
    {
        run_by = run_one::<A, Pairs>;
    }
    for gemm in gemms.iter().filter(|gemm| gemm.x.count > 0) {
        // SAFETY: this function's contract, and what was asked above.
        unsafe { run_by(pool, w, gemm) };
    }
    true
}

/// How values are multiplied and summed.
trait Lanes {
    /// Values of rows, converted.
    type Row: Copy + Default + Send;
    /// Sixteen sums.
    type Sums: Sums;
    /// [`STEP`](Self::STEP) values.
    type Values: Copy;
    /// Values that are multiplied at a time.
    const STEP: usize;
    /// Columns that a tile of several rows has at once, for as many registers as there are.
    const TOGETHER: usize;

    fn row(x: f32) -> Self::Row;
    /// # Safety
    /// Of this function as of all others: the CPU has the instructions, and what is read can be.
    unsafe fn load_row(from: *const Self::Row) -> Self::Values;
    unsafe fn load<W: Element>(from: *const W) -> Self::Values;
    unsafe fn multiply_add(sums: Self::Sums, x: Self::Values, w: Self::Values) -> Self::Sums;
    /// [`multiply`] for the instruction set.
    unsafe fn multiply<W: Element>(rows: &Rows<Self::Row>, columns: [*const W; COLUMNS], to: &mut Tile);
}

/// Sixteen sums, in one register or two.
trait Sums: Copy {
    /// # Safety
    /// Of this function and the other: the CPU has the instructions.
    unsafe fn zero() -> Self;
    /// Lane `l` of the lower half plus lane `l + 8`.
    unsafe fn fold(self) -> __m256;
}

impl Sums for [__m256; 2] {
    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: this function's contract.
        [unsafe { _mm256_setzero_ps() }; 2]
    }

    #[inline(always)]
    unsafe fn fold(self) -> __m256 {
        // SAFETY: this function's contract.
        unsafe { _mm256_add_ps(self[0], self[1]) }
    }
}

impl Sums for __m512 {
    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: this function's contract.
        unsafe { _mm512_setzero_ps() }
    }

    #[inline(always)]
    unsafe fn fold(self) -> __m256 {
        // SAFETY: this function's contract.
        unsafe { _mm256_add_ps(_mm512_castps512_ps256(self), _mm512_extractf32x8_ps::<1>(self)) }
    }
}

/// Results of a tile.
type Tile = [[f32; COLUMNS]; HEIGHT];

/// Converted rows of a tile, zero beyond the `k` values.
struct Rows<T> {
    first: *const T,
    pitch: usize,
    count: usize,
    k: usize,
    /// Whether there are no other rows, so that the columns are read from memory.
    all: bool,
}

/// # Safety
/// As [`run`], which says `true`; the CPU has the instructions of the lanes.
unsafe fn run_one<A: Arithmetic, L: Lanes>(
    pool: &ThreadPool,
    w: Strided,
    GroupedGemm { w: matrix, x, out }: &GroupedGemm<'_, StridedRows<'_, A::X>, A::X>,
) {
    let (m, k) = (x.count, w.k);
    // Rows begin in different sets of the first-level cache.
    let pitch = k.next_multiple_of(MOST) + MOST;
    let matrix = Parts::new(matrix.cast::<A::W>().cast_mut());
    with_packed(m * pitch, |packed: *mut A::E| {
        let packed = Parts::new(packed.cast::<L::Row>());
        pool.ranges(m, CONVERTED / k + 1, |rows| {
            for i in rows {
                // SAFETY: there is room for the rows, each of which belongs to one range; `E` is `f32`, as `W` is a weight.
                unsafe { convert::<A, L>(x, i, packed.address(i * pitch), pitch) };
            }
        });
        // Read at 20 bytes, or multiplied at 60 values a nanosecond.
        let group = (COLUMNS * k) as f64;
        let group_ns = (group * size_of::<A::W>() as f64 / 20.0).max(group * m as f64 / 60.0);
        pool.ranges(w.n.div_ceil(COLUMNS), (WORTH / group_ns).ceil() as usize, |groups| {
            let columns = groups.start * COLUMNS..w.n.min(groups.end * COLUMNS);
            let block = (BLOCK / (pitch * size_of::<L::Row>()) / HEIGHT).max(1) * HEIGHT;
            for first in (0..m).step_by(block) {
                let rows = first..m.min(first + block);
                for j in columns.clone().step_by(COLUMNS) {
                    // Columns past the end are computed as the last one again, and dropped.
                    let n = COLUMNS.min(columns.end - j);
                    for i in rows.clone().step_by(HEIGHT) {
                        let count = HEIGHT.min(rows.end - i);
                        let mut sums = [[0.0; COLUMNS]; HEIGHT];
                        // SAFETY: this function's contract; the rows are packed, and results of these columns are one thread's.
                        unsafe {
                            let start =
                                |c: usize| matrix.address((j + c.min(n - 1)) * w.n_stride).cast_const();
                            let starts = [start(0), start(1), start(2), start(3)];
                            let rows = Rows {
                                first: packed.address(i * pitch).cast_const(),
                                pitch,
                                count,
                                k,
                                all: count == m,
                            };
                            L::multiply::<A::W>(&rows, starts, &mut sums);
                            for (row, sums) in (i..).zip(&sums[..count]) {
                                let sums = std::slice::from_raw_parts(sums.as_ptr().cast::<A::E>(), n);
                                out.store(row, j, sums, A::out);
                            }
                        }
                    }
                }
                // SAFETY: they are stored.
                unsafe { out.activate(rows, columns.clone()) };
            }
        });
    });
}

/// Writes row `i`, converted, and zeros up to `pitch` values.
///
/// # Safety
/// The row exists; there is room for `pitch` values; `E` is `f32`.
unsafe fn convert<A: Arithmetic, L: Lanes>(
    x: &StridedRows<'_, A::X>,
    i: usize,
    to: *mut L::Row,
    pitch: usize,
) {
    let (from, stride) = (x.address(i), x.stride());
    // SAFETY: this function's contract.
    unsafe {
        for p in 0..x.len() {
            let value = A::x(*from.add(p * stride));
            to.add(p).write(L::row((&raw const value).cast::<f32>().read()));
        }
        for p in x.len()..pitch {
            to.add(p).write(L::Row::default());
        }
    }
}

/// The products of the rows and columns of a tile.
///
/// # Safety
/// The CPU has the instructions of the lanes; the columns have `k` values.
#[inline(always)]
unsafe fn multiply<W: Element, L: Lanes>(rows: &Rows<L::Row>, columns: [*const W; COLUMNS], to: &mut Tile) {
    // SAFETY: this function's contract.
    unsafe {
        match rows.count {
            1 => multiply_rows::<W, L, 1>(rows, columns, to),
            2 => multiply_rows::<W, L, 2>(rows, columns, to),
            3 => multiply_rows::<W, L, 3>(rows, columns, to),
            4 => multiply_rows::<W, L, 4>(rows, columns, to),
            5 => multiply_rows::<W, L, 5>(rows, columns, to),
            _ => multiply_rows::<W, L, HEIGHT>(rows, columns, to),
        }
    }
}

/// [`multiply`] of so many rows.
///
/// # Safety
/// As there.
#[inline(always)]
unsafe fn multiply_rows<W: Element, L: Lanes, const R: usize>(
    rows: &Rows<L::Row>,
    [a, b, c, d]: [*const W; COLUMNS],
    to: &mut Tile,
) {
    // SAFETY: this function's contract.
    unsafe {
        let mut sums = [[L::Sums::zero(); COLUMNS]; R];
        if R == 1 {
            // One after the other, in the order of memory, from which they come: CPUs fetch that best.
            for (c, column) in [a, b, c, d].into_iter().enumerate() {
                sums[0][c] = sum::<W, L, 1, 1>(rows, 0, [column])[0][0];
            }
        } else if L::TOGETHER == COLUMNS {
            sums = sum::<W, L, R, COLUMNS>(rows, 0, [a, b, c, d]);
        } else {
            // Half of the rows and half of the columns at a time.
            for half in 0..2 {
                let columns = if half == 0 { [a, b] } else { [c, d] };
                for first in (0..R).step_by(3) {
                    let mut part = [[L::Sums::zero(); 2]; 3];
                    match R - first {
                        1 => part[..1].copy_from_slice(&sum::<W, L, 1, 2>(rows, first, columns)),
                        2 => part[..2].copy_from_slice(&sum::<W, L, 2, 2>(rows, first, columns)),
                        _ => part = sum::<W, L, 3, 2>(rows, first, columns),
                    }
                    for i in first..R.min(first + 3) {
                        sums[i][2 * half] = part[i - first][0];
                        sums[i][2 * half + 1] = part[i - first][1];
                    }
                }
            }
        }
        for i in 0..R {
            to[i] = add_lanes::<L>(sums[i]);
        }
    }
}

/// The lanes of the products of `R` rows from `first` on with `C` columns.
///
/// # Safety
/// As [`multiply`]; there are so many rows.
#[inline(always)]
unsafe fn sum<W: Element, L: Lanes, const R: usize, const C: usize>(
    rows: &Rows<L::Row>,
    first: usize,
    columns: [*const W; C],
) -> [[L::Sums; C]; R] {
    // SAFETY: this function's contract.
    unsafe {
        let x = rows.first.add(first * rows.pitch);
        let mut sums = [[L::Sums::zero(); C]; R];
        let whole = rows.k / L::STEP * L::STEP;
        for p in (0..whole).step_by(L::STEP) {
            let mut values = [L::load(columns[0].add(p)); C];
            for c in 1..C {
                values[c] = L::load(columns[c].add(p));
            }
            if rows.all {
                // In the order of memory, in which columns follow each other.
                let ahead = columns[0].wrapping_add(C * p).cast::<i8>().wrapping_add(AHEAD);
                prefetch_bytes(ahead, C * L::STEP * size_of::<W>());
            }
            for i in 0..R {
                let x = L::load_row(x.add(i * rows.pitch + p));
                for c in 0..C {
                    sums[i][c] = L::multiply_add(sums[i][c], x, values[c]);
                }
            }
        }
        if whole < rows.k {
            for c in 0..C {
                let mut rest = [0u16; MOST];
                let from = columns[c].add(whole).cast::<u16>();
                std::ptr::copy_nonoverlapping(from, rest.as_mut_ptr(), rows.k - whole);
                let values = L::load(rest.as_ptr().cast::<W>());
                for i in 0..R {
                    let x = L::load_row(x.add(i * rows.pitch + whole));
                    sums[i][c] = L::multiply_add(sums[i][c], x, values);
                }
            }
        }
        sums
    }
}

/// The lanes of each of four, added as a tree.
///
/// # Safety
/// The CPU has the instructions of the lanes.
#[inline(always)]
unsafe fn add_lanes<L: Lanes>(sums: [L::Sums; COLUMNS]) -> [f32; COLUMNS] {
    // SAFETY: this function's contract.
    unsafe {
        let mut quarters = [_mm_setzero_ps(); COLUMNS];
        for c in 0..COLUMNS {
            let half = sums[c].fold();
            quarters[c] = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps::<1>(half));
        }
        let [mut a, mut b, mut c, mut d] = quarters;
        _MM_TRANSPOSE4_PS(&mut a, &mut b, &mut c, &mut d);
        let all = _mm_add_ps(_mm_add_ps(a, c), _mm_add_ps(b, d));
        let mut out = [0.0; COLUMNS];
        _mm_storeu_ps(out.as_mut_ptr(), all);
        out
    }
}

/// Eight values, converted.
///
/// # Safety
/// The CPU has AVX2 and F16C; the values are of 16 bits and can be read.
#[inline(always)]
unsafe fn load8<W: Element>(from: *const W) -> __m256 {
    // SAFETY: this function's contract.
    unsafe {
        match W::DTYPE {
            DType::F16 => super::x86::load_f16(from.cast()),
            _ => super::x86::load_bf16(from.cast()),
        }
    }
}

/// Sixteen `f32` in two registers.
struct Lanes256;
/// Sixteen `f32` in one register.
struct Lanes512;
/// Pairs of `bf16`.
struct Pairs;

impl Lanes for Lanes256 {
    type Row = f32;
    type Sums = [__m256; 2];
    type Values = [__m256; 2];
    const STEP: usize = 16;
    const TOGETHER: usize = 2;

    #[inline(always)]
    fn row(x: f32) -> f32 {
        x
    }

    #[inline(always)]
    unsafe fn load_row(from: *const f32) -> [__m256; 2] {
        // SAFETY: this function's contract.
        unsafe { [_mm256_loadu_ps(from), _mm256_loadu_ps(from.add(8))] }
    }

    #[inline(always)]
    unsafe fn load<W: Element>(from: *const W) -> [__m256; 2] {
        // SAFETY: this function's contract.
        unsafe { [load8(from), load8(from.add(8))] }
    }

    #[inline(always)]
    unsafe fn multiply_add(sums: [__m256; 2], x: [__m256; 2], w: [__m256; 2]) -> [__m256; 2] {
        // SAFETY: this function's contract.
        unsafe { [_mm256_fmadd_ps(x[0], w[0], sums[0]), _mm256_fmadd_ps(x[1], w[1], sums[1])] }
    }

    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn multiply<W: Element>(rows: &Rows<f32>, columns: [*const W; COLUMNS], to: &mut Tile) {
        // SAFETY: this function's contract.
        unsafe { multiply::<W, Self>(rows, columns, to) }
    }
}

impl Lanes for Lanes512 {
    type Row = f32;
    type Sums = __m512;
    type Values = __m512;
    const STEP: usize = 16;
    const TOGETHER: usize = COLUMNS;

    #[inline(always)]
    fn row(x: f32) -> f32 {
        x
    }

    #[inline(always)]
    unsafe fn load_row(from: *const f32) -> __m512 {
        // SAFETY: this function's contract.
        unsafe { _mm512_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn load<W: Element>(from: *const W) -> __m512 {
        // SAFETY: this function's contract.
        unsafe {
            let halves = _mm256_loadu_si256(from.cast());
            match W::DTYPE {
                DType::F16 => _mm512_cvtph_ps(halves),
                _ => _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(halves))),
            }
        }
    }

    #[inline(always)]
    unsafe fn multiply_add(sums: __m512, x: __m512, w: __m512) -> __m512 {
        // SAFETY: this function's contract.
        unsafe { _mm512_fmadd_ps(x, w, sums) }
    }

    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512dq,avx512vl")]
    unsafe fn multiply<W: Element>(rows: &Rows<f32>, columns: [*const W; COLUMNS], to: &mut Tile) {
        // SAFETY: this function's contract.
        unsafe { multiply::<W, Self>(rows, columns, to) }
    }
}

impl Lanes for Pairs {
    type Row = u16;
    type Sums = __m512;
    type Values = __m512i;
    const STEP: usize = 32;
    const TOGETHER: usize = COLUMNS;

    /// Of a number that is a `bf16`.
    #[inline(always)]
    fn row(x: f32) -> u16 {
        bf16::from_f32(x).to_bits()
    }

    #[inline(always)]
    unsafe fn load_row(from: *const u16) -> __m512i {
        // SAFETY: this function's contract.
        unsafe { _mm512_loadu_si512(from.cast()) }
    }

    #[inline(always)]
    unsafe fn load<W: Element>(from: *const W) -> __m512i {
        // SAFETY: this function's contract.
        unsafe { _mm512_loadu_si512(from.cast()) }
    }

    #[inline(always)]
    unsafe fn multiply_add(sums: __m512, x: __m512i, w: __m512i) -> __m512 {
        // SAFETY: this function's contract; registers of one size are made of each other.
        unsafe {
            let halves = |words: __m512i| std::mem::transmute::<__m512i, __m512bh>(words);
            _mm512_dpbf16_ps(sums, halves(x), halves(w))
        }
    }

    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512dq,avx512vl,avx512bf16")]
    unsafe fn multiply<W: Element>(rows: &Rows<u16>, columns: [*const W; COLUMNS], to: &mut Tile) {
        // SAFETY: this function's contract.
        unsafe { multiply::<W, Self>(rows, columns, to) }
    }
}
