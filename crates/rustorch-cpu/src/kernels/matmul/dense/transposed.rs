//! One or two rows times a matrix whose columns are contiguous, as tokens meet the 16-bit weights of a language model: the matrix is
//! read once, and transposed in registers instead of being packed, which would take longer than to multiply it.

use super::Arithmetic;
use super::gemm::{Strided, with_packed};
use super::pack::pack_rows;
use crate::kernels::matmul::rows::{GroupedGemm, Parts, StridedRows};
use crate::kernels::matmul::tasks::WORTH;
use crate::{Isa, ThreadPool};
use std::arch::x86_64::*;

/// Rows up to which this takes less time than to pack the matrix.
const MOST_ROWS: usize = 2;
/// Registers of results: chains of multiply-adds of which none waits for another.
const CHAINS: usize = 4;
/// Results of a register.
const LANES: usize = 8;
/// Values of a column that are transposed at once.
pub(super) const VALUES: usize = 16;
/// For each value of a column, a register of eight columns.
pub(super) type Transposed = [__m256; VALUES];
/// Columns that are computed at once.
const COLUMNS: usize = CHAINS * LANES;

/// Runs GEMMs of few rows whose matrix's columns are contiguous, of a type that is converted to `f32`; else returns `false` and does
/// nothing.
///
/// Results are the bits of other ways: the same chain of multiply-adds.
///
/// # Safety
/// As [`run`](super::gemm::run).
pub(super) unsafe fn run<A: Arithmetic>(
    pool: &ThreadPool,
    isa: Isa,
    w: Strided,
    gemms: &[GroupedGemm<'_, StridedRows<'_, A::X>, A::X>],
) -> bool {
    let is_transposed = size_of::<A::E>() == 4 && !A::IS_PLAIN && !A::ADDS && isa > Isa::Portable;
    if !is_transposed || w.k_stride != 1 || w.k < VALUES || w.n == 0 {
        return false;
    }
    // SAFETY: this function's contract; a column has as many values.
    let can = |gemm: &GroupedGemm<'_, _, _>| unsafe { has_transpose::<A>(gemm.w.cast()) };
    if gemms.iter().any(|gemm| gemm.x.count > MOST_ROWS) || !gemms.first().is_some_and(can) {
        return false;
    }
    for gemm in gemms.iter().filter(|gemm| gemm.x.count > 0) {
        // SAFETY: this function's contract, and what was asked above.
        unsafe { run_one::<A>(pool, isa, w, gemm) };
    }
    true
}

/// # Safety
/// As [`run`], which says `true`.
unsafe fn run_one<A: Arithmetic>(
    pool: &ThreadPool,
    isa: Isa,
    w: Strided,
    GroupedGemm { w: matrix, x, out }: &GroupedGemm<'_, StridedRows<'_, A::X>, A::X>,
) {
    let multiply = match isa {
        Isa::Avx512 => multiply_avx512::<A>,
        _ => multiply_avx2::<A>,
    };
    let matrix = Parts::new(matrix.cast::<A::W>().cast_mut());
    with_packed(x.count * w.k, |packed: *mut A::E| {
        for i in 0..x.count {
            // SAFETY: this function's contract; there is room for every row.
            unsafe { pack_rows::<A>(&[x.address(i)], w.k, x.stride(), packed.add(i * w.k)) };
        }
        let packed = Parts::new(packed);
        // At 20 bytes a nanosecond.
        let block_ns = (COLUMNS * w.k * size_of::<A::W>() * x.count) as f64 / 20.0;
        pool.ranges(w.n.div_ceil(COLUMNS), (WORTH / block_ns).ceil() as usize, |blocks| {
            // SAFETY: this function's contract.
            let begin = unsafe { matrix.address(blocks.start * COLUMNS * w.n_stride) };
            let mut prefetch = Prefetch::new::<A::W>(begin, w);
            prefetch.fetch(COLUMNS * prefetch.lines);
            for block in blocks.clone() {
                let first = block * COLUMNS;
                let n = COLUMNS.min(w.n - first);
                // What comes next, unless another thread reads it.
                prefetch.left = if block + 1 < blocks.end { prefetch.lines } else { 0 };
                for row in 0..x.count {
                    if row > 0 {
                        prefetch.left = 0;
                    }
                    let mut sums = [0.0f32; COLUMNS];
                    // SAFETY: this function's contract; the rows are packed as `f32`, which `E` is, and a block of results is one
                    // thread's. The CPU has AVX2, by `isa`.
                    unsafe {
                        let columns = matrix.address(first * w.n_stride).cast_const();
                        let row_of_x = packed.address(row * w.k).cast_const().cast();
                        multiply(columns, (w.k, n), w.n_stride, row_of_x, &mut prefetch, &mut sums);
                        let sums = std::slice::from_raw_parts(sums.as_ptr().cast::<A::E>(), n);
                        out.store(row, first, sums, A::out);
                    }
                }
                // SAFETY: they are stored.
                unsafe { out.activate(0..x.count, first..first + n) };
            }
        });
    });
}

/// Whether the type has [`transpose`](Arithmetic::transpose).
///
/// # Safety
/// The CPU has AVX2 and F16C; [`VALUES`] elements can be read.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn has_transpose<A: Arithmetic>(w: *const A::W) -> bool {
    // SAFETY: this function's contract.
    unsafe { A::transpose(w, 0).is_some() }
}

/// Prefetches the next block of columns into the second-level cache, in the order of memory: its kernel reads a line of each column in turn,
/// which is slow from memory.
struct Prefetch {
    next: *const i8,
    /// Cache lines of a column.
    lines: usize,
    /// Those that are left of the column that `next` is in; 0 to prefetch nothing.
    left: usize,
    /// Bytes from the last line of a column to the next column.
    gap: usize,
}

impl Prefetch {
    /// From this element on.
    fn new<W>(first: *const W, w: Strided) -> Prefetch {
        let lines = (w.k * size_of::<W>()).div_ceil(LINE);
        let gap = (w.n_stride * size_of::<W>()).wrapping_sub(lines * LINE);
        Prefetch { next: first.cast(), lines, left: lines, gap }
    }

    /// Prefetches the next lines, which need not exist.
    #[inline(always)]
    fn fetch(&mut self, lines: usize) {
        if self.left == 0 {
            return;
        }
        for _ in 0..lines {
            // SAFETY: nothing is read; any address will do.
            unsafe { _mm_prefetch(self.next, _MM_HINT_T1) };
            self.next = self.next.wrapping_add(LINE);
            self.left -= 1;
            if self.left == 0 {
                self.next = self.next.wrapping_add(self.gap);
                self.left = self.lines;
            }
        }
    }
}

/// A cache line of each column. Columns whose pitch is a power of two are in the same few sets of the first-level cache, which would lose
/// lines before all of their values are used.
#[repr(align(64))]
struct Lines([[u8; LINE]; COLUMNS]);

/// Bytes of a cache line.
const LINE: usize = 64;

/// [`multiply`] for an instruction set: with AVX-512 for its 32 registers.
macro_rules! multiply_for {
    ($($features:literal: $name:ident;)*) => {$(
        /// # Safety
        /// As [`multiply`], on a CPU with these features.
        #[target_feature(enable = $features)]
        unsafe fn $name<A: Arithmetic>(
            w: *const A::W,
            size: (usize, usize),
            pitch: usize,
            x: *const f32,
            prefetch: &mut Prefetch,
            sums: &mut [f32; COLUMNS],
        ) {
            // SAFETY: the contract is passed on.
            unsafe { multiply::<A>(w, size, pitch, x, prefetch, sums) }
        }
    )*};
}

multiply_for! {
    "avx2,fma,f16c,avx512f,avx512vl": multiply_avx512;
    "avx2,fma,f16c": multiply_avx2;
}

/// The sums of a row with `n` columns of `k` values, `pitch` elements apart.
///
/// # Safety
/// The CPU has AVX2, FMA and F16C; the type [has it](has_transpose). The row and the columns have `k` values, and `E` is `f32`.
#[inline(always)]
unsafe fn multiply<A: Arithmetic>(
    w: *const A::W,
    (k, n): (usize, usize),
    pitch: usize,
    x: *const f32,
    prefetch: &mut Prefetch,
    sums: &mut [f32; COLUMNS],
) {
    // Columns past the end are computed as the last one again, and dropped.
    let mut starts = [w; COLUMNS];
    for (j, start) in starts.iter_mut().enumerate() {
        *start = w.wrapping_add(j.min(n - 1) * pitch);
    }
    let line = LINE / size_of::<A::W>();
    let mut lines = Lines([[0; LINE]; COLUMNS]);
    // SAFETY: this function's contract.
    unsafe {
        let mut acc = [_mm256_setzero_ps(); CHAINS];
        for p in (0..k / line * line).step_by(line) {
            prefetch.fetch(COLUMNS);
            for j in 0..COLUMNS {
                let (from, to) =
                    (starts[j].add(p).cast::<__m256i>(), lines.0[j].as_mut_ptr().cast::<__m256i>());
                _mm256_store_si256(to, _mm256_loadu_si256(from));
                _mm256_store_si256(to.add(1), _mm256_loadu_si256(from.add(1)));
            }
            let first = lines.0.as_ptr().cast::<A::W>();
            for q in (0..line).step_by(VALUES) {
                add::<A>(&mut acc, first.add(q), line, x.add(p + q));
            }
        }
        for g in 0..CHAINS {
            _mm256_storeu_ps(sums.as_mut_ptr().add(g * LANES), acc[g]);
        }
        for p in k / line * line..k {
            for j in 0..n {
                let value = A::w(*starts[j].add(p));
                let value = (&raw const value).cast::<f32>().read();
                sums[j] = (*x.add(p)).mul_add(value, sums[j]);
            }
        }
    }
}

/// Adds the products of [`VALUES`] values of all columns, `pitch` elements apart.
///
/// # Safety
/// As [`multiply`].
#[inline(always)]
unsafe fn add<A: Arithmetic>(acc: &mut [__m256; CHAINS], w: *const A::W, pitch: usize, x: *const f32) {
    // SAFETY: this function's contract.
    unsafe {
        for g in 0..CHAINS {
            let values = A::transpose(w.add(g * LANES * pitch), pitch).unwrap_unchecked();
            for i in 0..VALUES {
                acc[g] = _mm256_fmadd_ps(_mm256_broadcast_ss(&*x.add(i)), values[i], acc[g]);
            }
        }
    }
}
