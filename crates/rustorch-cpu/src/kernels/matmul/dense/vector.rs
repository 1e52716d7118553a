//! Matmuls of a vector: inner products, a matrix times a vector, a vector times a matrix. They read memory once, at its speed if vectors
//! and threads share what is one sum: sums have an order of their own.
//!
//! The inner dimension is cut into chunks of [`CHUNK`] values. In a chunk, each of [`LANES`] sums is a chain of fused multiply-adds of
//! every [`LANES`]th value; these are added as a tree, those half as many apart first, and the sums of the chunks one after the other. The
//! order depends on the inner dimension alone: strides, threads and instruction sets do not change a bit.

use super::Arithmetic;
use super::gemm::{with_packed, with_scratch};
use super::scaled_rows::{add_scaled, add_scaled_ahead};
use super::strips::{self, Strips};
use crate::ThreadPool;
use crate::kernels::lanes::total;
use crate::kernels::matmul::gemm_args::{GemmArgs, Target};
use crate::kernels::matmul::rows::Parts;
use crate::math::Real;
use crate::simd::{self, LANES, Level, Task, from_bf16};
use rustorch_core::{bf16, f16};
use std::ops::Range;

/// Values whose sums are added before those of the next ones.
const CHUNK: usize = 1024;
/// The least inner dimension for which lanes are worth adding.
const LEAST: usize = LANES;
/// Sums that are computed at once, so that none waits for another.
pub(super) const TOGETHER: usize = 4;
/// Bytes of a row of sums, where results are contiguous in the matrix: as much of its rows is read at once. [`LANES`] of them stay in the
/// second-level cache.
const SEGMENT: usize = 4 << 10;
/// The same where there are few, for threads to share.
const LEAST_SEGMENT: usize = 1 << 10;
/// Rows that are added to sums in memory at once, where there are registers and so many for each lane, and elsewhere.
const MANY: usize = 8;
const FEW: usize = 4;
/// Parts of long rows for each thread, at most.
const PARTS: usize = 8;
/// Values of a row that are asked for ahead of those that are multiplied.
const ROW_AHEAD: usize = 512;
/// Bytes of the matrix for a thread to read at least.
pub(super) const GRAIN: usize = 1 << 16;

/// An element that is read as a vector of what is summed.
pub(super) trait Values<E>: Copy + Sync {
    /// The next [`LANES`] elements, converted.
    ///
    /// # Safety
    /// They can be read.
    unsafe fn load<L: Level>(l: L, from: *const Self) -> [E; LANES];

    /// The sums of a chunk in registers, or `false` where there is no such way for this type or it is slower.
    ///
    /// # Safety
    /// As [`strips::run`].
    #[inline(always)]
    unsafe fn strips<L: Level>(_l: L, _strips: &Strips<Self, E>) -> bool {
        false
    }
}

macro_rules! values {
    ($($ty:ty, $e:ty $(, $strips:path)?: |$l:ident, $x:ident| $convert:expr;)*) => {$(
        impl Values<$e> for $ty {
            #[inline(always)]
            unsafe fn load<L: Level>($l: L, from: *const $ty) -> [$e; LANES] {
                // SAFETY: this function's contract.
                let $x = unsafe { from.cast::<[$ty; LANES]>().read_unaligned() };
                $convert
            }

            $(
                #[inline(always)]
                unsafe fn strips<L: Level>(l: L, strips: &Strips<$ty, $e>) -> bool {
                    // SAFETY: this function's contract.
                    unsafe { $strips(l, strips) }
                }
            )?
        }
    )*};
}

values! {
    f32, f32, strips::run: |_l, x| x;
    f64, f64: |_l, x| x;
    bf16, f32, strips::run: |_l, x| x.map(from_bf16);
    f16, f32, strips::run: |l, x| {
        let mut wide = [0.0; LANES];
        l.widen16(&x, &mut wide);
        wide
    };
}

/// Whether a matmul, or each of a batch, is one of a vector. Those of short sums have chains as others.
pub(super) fn fits(gemm: &GemmArgs) -> bool {
    (gemm.m == 1 || gemm.n == 1) && gemm.k >= LEAST
}

/// The matrix. Its rows, one for each result, are columns of the right operand or rows of the left one.
#[derive(Clone, Copy)]
struct Matrix {
    rows: usize,
    k: usize,
    /// Elements from a row to the next, and from a value of a row to the next.
    strides: [usize; 2],
}

impl Matrix {
    /// How many chunks each row has.
    fn chunks(&self) -> usize {
        self.k.div_ceil(CHUNK)
    }

    /// The values of a chunk.
    fn values(&self, chunk: usize) -> Range<usize> {
        chunk * CHUNK..self.k.min((chunk + 1) * CHUNK)
    }

    /// Whether a vector of memory has values of as many rows.
    fn is_transposed(&self) -> bool {
        self.strides[0] == 1 && self.strides[1] != 1 && self.rows >= LANES
    }

    /// Elements of memory: chunks of the vector, and gathered rows or the lanes' sums of a block.
    fn memory(&self, block: usize) -> usize {
        TOGETHER * CHUNK + if self.is_transposed() { LANES * block } else { TOGETHER * CHUNK }
    }

    /// Rows that are computed at a time.
    fn block(&self, size: usize) -> usize {
        match self.is_transposed() {
            true => (self.rows / 4).clamp(LEAST_SEGMENT / size, SEGMENT / size),
            false => (GRAIN / (self.k * size)).next_multiple_of(TOGETHER).max(TOGETHER),
        }
    }
}

/// Runs a matmul that [`fits`].
///
/// # Safety
/// The operands have the elements that `gemm` describes, from `a` and `b` on; nobody else uses those of the target.
pub(super) unsafe fn run<A>(
    pool: &ThreadPool,
    gemm: &GemmArgs,
    [a, b]: [*const A::X; 2],
    target: &Target<A::X>,
) where
    A: Arithmetic,
    A::X: Values<A::E>,
    A::E: Real,
{
    let is_row = gemm.m == 1;
    let (rows, strides, vector_stride) = match is_row {
        true => (gemm.n, [gemm.b_strides[1], gemm.b_strides[0]], gemm.a_strides[1]),
        false => (gemm.m, gemm.a_strides, gemm.b_strides[0]),
    };
    let matrix = Matrix { rows, k: gemm.k, strides };
    let (chunks, batches, block) = (matrix.chunks(), gemm.batches(), matrix.block(size_of::<A::X>()));
    let blocks = rows.div_ceil(block);
    // Few blocks of long rows are divided along these, too.
    let parts = if batches * blocks < 4 * pool.threads() { PARTS * pool.threads() } else { 1 };
    let group_len = chunks.div_ceil(TOGETHER).div_ceil(parts) * TOGETHER;
    let groups = chunks.div_ceil(group_len);
    let bytes = block.min(rows) * matrix.k * size_of::<A::X>() / groups;
    let (a, b) = (Parts::new(a.cast_mut()), Parts::new(b.cast_mut()));
    // The sums of some chunks of some rows; those of a chunk begin `pitch` elements after those of the one before.
    let sum = |batch: usize,
               rows: Range<usize>,
               chunks: Range<usize>,
               memory,
               (sums, pitch): (*mut A::E, usize)| {
        let [a_start, b_start, _] = gemm.batch_starts(batch);
        // SAFETY: this function's contract: where the operands of a batch begin.
        let (a, b) = unsafe { (a.address(a_start).cast_const(), b.address(b_start).cast_const()) };
        let (vector, first) = if is_row { (a, b) } else { (b, a) };
        simd::run(Sums::<A> { matrix, first, vector, vector_stride, rows, chunks, memory, sums, pitch });
    };
    let shared = if groups > 1 { batches * chunks * rows } else { 0 };
    with_packed(shared, |shared: *mut A::E| {
        let shared = Parts::new(shared);
        // Batches of one block follow each other: they may be vectors with the same matrix.
        pool.ranges(batches * blocks * groups, (GRAIN / bytes.max(1)).max(1), |range| {
            let own = if groups > 1 { 0 } else { chunks * block.min(rows) };
            with_scratch(own + matrix.memory(block), |scratch: *mut A::E| {
                for i in range {
                    let (batch, i) = (i % batches, i / batches);
                    let (group, first) = (i % groups, i / groups * block);
                    let part = first..rows.min(first + block);
                    // SAFETY: this function's contract; there is room for all sums, and they and these results are one task's.
                    unsafe {
                        let memory = scratch.add(own);
                        if groups > 1 {
                            let group = group * group_len..chunks.min((group + 1) * group_len);
                            let sums = shared.address((batch * chunks + group.start) * rows + first);
                            sum(batch, part, group, memory, (sums, rows));
                        } else {
                            let pitch = part.len();
                            sum(batch, part.clone(), 0..chunks, memory, (scratch, pitch));
                            store::<A>(gemm, target, batch, part, scratch, [chunks, pitch]);
                        }
                    }
                }
            });
        });
        for batch in 0..if groups > 1 { batches } else { 0 } {
            // SAFETY: this function's contract; all sums were written.
            unsafe {
                let sums = shared.address(batch * chunks * rows);
                store::<A>(gemm, target, batch, 0..rows, sums, [chunks, rows]);
            }
        }
    });
}

/// Adds the sums of chunks and writes them as results `rows` of a batch. Those of a chunk are contiguous, and begin `pitch` elements after
/// those of the one before.
///
/// # Safety
/// The sums were written and are nobody else's; as [`run`] of the target.
unsafe fn store<A: Arithmetic>(
    gemm: &GemmArgs,
    target: &Target<A::X>,
    batch: usize,
    rows: Range<usize>,
    sums: *mut A::E,
    [chunks, pitch]: [usize; 2],
) where
    A::E: Real,
{
    let out = gemm.output(target, &gemm.batch(batch));
    // SAFETY: this function's contract.
    unsafe {
        let all = std::slice::from_raw_parts_mut(sums, (chunks - 1) * pitch + rows.len());
        let (total, others) = all.split_at_mut(rows.len());
        for chunk in 1..chunks {
            let sums = &others[chunk * pitch - rows.len()..][..rows.len()];
            total.iter_mut().zip(sums).for_each(|(total, &sum)| *total = *total + sum);
        }
        if gemm.m == 1 {
            out.store(0, rows.start, total, A::out);
            out.activate(0..1, rows);
        } else {
            for (i, sum) in rows.clone().zip(total) {
                out.store(i, 0, std::slice::from_ref(sum), A::out);
            }
            out.activate(rows, 0..1);
        }
    }
}

/// The sums of some chunks of some rows.
struct Sums<A: Arithmetic> {
    matrix: Matrix,
    /// The matrix's first element.
    first: *const A::X,
    vector: *const A::X,
    vector_stride: usize,
    rows: Range<usize>,
    chunks: Range<usize>,
    /// As much as [`Matrix::memory`] says.
    memory: *mut A::E,
    /// Where the sums of the first chunk go, and how many elements after them those of the next.
    sums: *mut A::E,
    pitch: usize,
}

impl<A> Task for Sums<A>
where
    A: Arithmetic,
    A::X: Values<A::E>,
    A::E: Real,
{
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, l: L) {
        for first in self.chunks.clone().step_by(TOGETHER) {
            let chunks = first..self.chunks.end.min(first + TOGETHER);
            // SAFETY: the contract of `super::run`, and memory for the values of as many chunks.
            unsafe {
                let vector = self.vector(l, chunks.clone());
                if self.matrix.is_transposed() {
                    // No closures in these loops: one that is not inlined is compiled without the instruction set.
                    for (i, chunk) in chunks.enumerate() {
                        let vector = vector.add(i * CHUNK);
                        if A::X::strips(l, &self.strips(chunk, vector)) {
                            continue;
                        }
                        match L::WIDE && self.matrix.values(chunk).len() >= MANY * LANES {
                            true => self.columns::<L, MANY>(l, chunk, vector),
                            false => self.columns::<L, FEW>(l, chunk, vector),
                        }
                    }
                } else {
                    self.dots(l, chunks, vector);
                }
            }
        }
    }
}

impl<A> Sums<A>
where
    A: Arithmetic,
    A::X: Values<A::E>,
    A::E: Real,
{
    /// The vector's values of chunks, where they are or converted.
    ///
    /// # Safety
    /// As [`run`]; nobody else uses the memory.
    #[inline(always)]
    unsafe fn vector<L: Level>(&self, l: L, chunks: Range<usize>) -> *const A::E {
        let first = chunks.start * CHUNK;
        let from = self.vector.wrapping_add(first * self.vector_stride);
        if A::IS_PLAIN && self.vector_stride == 1 {
            return from.cast();
        }
        let len = self.matrix.k.min(chunks.end * CHUNK) - first;
        let in_vectors = if self.vector_stride == 1 { len - len % LANES } else { 0 };
        for p in (0..in_vectors).step_by(LANES) {
            // SAFETY: this function's contract.
            unsafe {
                let values = A::X::load(l, from.add(p));
                self.memory.add(p).cast::<[A::E; LANES]>().write_unaligned(values);
            }
        }
        for p in in_vectors..len {
            // SAFETY: this function's contract.
            unsafe { self.memory.add(p).write(A::x(*from.add(p * self.vector_stride))) };
        }
        self.memory
    }

    /// Sums of rows whose values are vectors of memory, or are gathered as such.
    ///
    /// # Safety
    /// As [`run`]; `vector` has the values of these chunks.
    #[inline(always)]
    unsafe fn dots<L: Level>(&self, l: L, chunks: Range<usize>, vector: *const A::E) {
        let part = |chunk: usize| vector.wrapping_add((chunk - chunks.start) * CHUNK);
        // SAFETY: this function's contract.
        unsafe {
            for chunk in chunks.clone() {
                let len = self.matrix.values(chunk).len();
                let mut j = self.rows.start;
                while j + TOGETHER <= self.rows.end {
                    let rows = std::array::from_fn(|i| self.row(j + i, chunk, i));
                    let x = [part(chunk); TOGETHER];
                    let sums = match len == CHUNK {
                        true => dots::<L, A, TOGETHER, ROW_AHEAD, 0>(l, x, rows, len),
                        false => dots::<L, A, TOGETHER, 0, 0>(l, x, rows, len),
                    };
                    self.write(chunk, j, sums);
                    j += TOGETHER;
                }
            }
            for j in self.rows.end - self.rows.len() % TOGETHER..self.rows.end {
                let mut chunk = chunks.start;
                while chunk < chunks.end {
                    let (len, row) = (self.matrix.values(chunk).len(), self.row(j, chunk, 0));
                    // Two: more would be more streams than CPUs prefetch.
                    if chunk + 2 <= chunks.end && self.matrix.values(chunk + 1).len() == CHUNK {
                        let rows = [row, self.row(j, chunk + 1, 1)];
                        let sums =
                            dots::<L, A, 2, 0, { 2 * CHUNK }>(l, [part(chunk), part(chunk + 1)], rows, CHUNK);
                        self.write(chunk, j, [sums[0]]);
                        self.write(chunk + 1, j, [sums[1]]);
                        chunk += 2;
                    } else {
                        self.write(chunk, j, dots::<L, A, 1, 0, 0>(l, [part(chunk)], [row], len));
                        chunk += 1;
                    }
                }
            }
        }
    }

    /// The values of a chunk of a row: where they are, or gathered in the place of the memory that has this number.
    ///
    /// # Safety
    /// As [`run`]; nobody else uses the memory.
    #[inline(always)]
    unsafe fn row(&self, j: usize, chunk: usize, place: usize) -> *const A::X {
        let ([row, value], values) = (self.matrix.strides, self.matrix.values(chunk));
        let from = self.first.wrapping_add(j * row + values.start * value);
        if value == 1 {
            return from;
        }
        // SAFETY: this function's contract; elements are no larger than what is summed.
        unsafe {
            let to = self.memory.add((TOGETHER + place) * CHUNK).cast::<A::X>();
            (0..values.len()).for_each(|p| to.add(p).write(*from.add(p * value)));
            to
        }
    }

    /// Writes sums of a chunk of consecutive rows.
    ///
    /// # Safety
    /// The rows and the chunk are of these sums.
    #[inline(always)]
    unsafe fn write<const N: usize>(&self, chunk: usize, j: usize, sums: [A::E; N]) {
        let at = (chunk - self.chunks.start) * self.pitch + j - self.rows.start;
        // SAFETY: this function's contract.
        unsafe { self.sums.add(at).cast::<[A::E; N]>().write_unaligned(sums) };
    }

    /// What [`Values::strips`] is given.
    #[inline(always)]
    fn strips(&self, chunk: usize, vector: *const A::E) -> Strips<A::X, A::E> {
        let (values, step) = (self.matrix.values(chunk), self.matrix.strides[1]);
        Strips {
            first: self.first.wrapping_add(self.rows.start + values.start * step),
            step,
            rows: self.rows.len(),
            vector,
            values: values.len(),
            sums: self.sums.wrapping_add((chunk - self.chunks.start) * self.pitch),
        }
    }

    /// Sums of rows of which vectors of memory have one value each, in memory. `N` of these are added at once.
    ///
    /// # Safety
    /// As [`run`]; `vector` has the values of this chunk.
    #[inline(always)]
    unsafe fn columns<L: Level, const N: usize>(&self, l: L, chunk: usize, vector: *const A::E) {
        let (values, n, step) = (self.matrix.values(chunk), self.rows.len(), self.matrix.strides[1]);
        let first = self.first.wrapping_add(self.rows.start + values.start * step);
        // SAFETY: this function's contract; the memory has as many rows of sums.
        unsafe {
            let sums = self.memory.add(TOGETHER * CHUNK);
            // Whole blocks write the sums that they begin.
            let is_whole = values.len() >= N * LANES;
            for i in 0..if is_whole { 0 } else { LANES * n } {
                sums.add(i).write(<A::E as Real>::ZERO);
            }
            for from in (0..values.len()).step_by(N * LANES) {
                for lane in 0..LANES {
                    let (p, to) = (from + lane, sums.add(lane * n));
                    let row = first.wrapping_add(p * step);
                    if p + (N - 1) * LANES < values.len() {
                        let mut factors = [<A::E as Real>::ZERO; N];
                        let mut rows = [row; N];
                        for i in 0..N {
                            factors[i] = *vector.add(p + i * LANES);
                            rows[i] = row.wrapping_add(i * LANES * step);
                        }
                        match from {
                            0 => add_scaled_ahead::<L, A, N, true>(l, factors, rows, step, to, n),
                            _ => add_scaled_ahead::<L, A, N, false>(l, factors, rows, step, to, n),
                        }
                        continue;
                    }
                    for i in 0..(values.len() - p.min(values.len())).div_ceil(LANES) {
                        let (factor, row) = (*vector.add(p + i * LANES), row.wrapping_add(i * LANES * step));
                        add_scaled::<L, A, 1>(l, [factor], [row], to, n);
                    }
                }
            }
            let mut lanes = LANES / 2;
            while lanes != 0 {
                for i in 0..lanes * n {
                    *sums.add(i) = *sums.add(i) + *sums.add(lanes * n + i);
                }
                lanes /= 2;
            }
            let to = self.sums.add((chunk - self.chunks.start) * self.pitch);
            to.copy_from_nonoverlapping(sums, n);
        }
    }
}

/// The sums of the products of corresponding values, several at once. What is `ROWS` values later in the rows is prefetched, and what is
/// `BOTH` values later in both operands; nothing, where that is 0.
///
/// # Safety
/// Each has `len` values.
#[inline(always)]
unsafe fn dots<L: Level, A: Arithmetic, const N: usize, const ROWS: usize, const BOTH: usize>(
    l: L,
    x: [*const A::E; N],
    w: [*const A::X; N],
    len: usize,
) -> [A::E; N]
where
    A::X: Values<A::E>,
    A::E: Real,
{
    let mut whole = [[<A::E as Real>::ZERO; LANES]; N];
    // SAFETY: this function's contract.
    unsafe {
        for p in (0..len - len % LANES).step_by(LANES) {
            for i in 0..N {
                // Vectors of 16-bit numbers are half a line.
                let bytes = LANES * size_of::<A::X>();
                if ROWS != 0 && bytes >= 64 {
                    simd::prefetch_bytes(w[i].wrapping_add(p + ROWS), bytes);
                }
                if BOTH != 0 {
                    simd::prefetch(x[i].wrapping_add(p + BOTH));
                    simd::prefetch(w[i].wrapping_add(p + BOTH));
                }
                let (x, w) =
                    (x[i].add(p).cast::<[A::E; LANES]>().read_unaligned(), A::X::load(l, w[i].add(p)));
                for j in 0..LANES {
                    whole[i][j] = x[j].fma(l, w[j], whole[i][j]);
                }
            }
        }
        // Lanes that are indexed by a number that is not known before would be kept in memory, not in registers: these are others.
        let mut lanes = whole;
        for j in 0..len % LANES {
            for i in 0..N {
                let p = len - len % LANES + j;
                lanes[i][j] = (*x[i].add(p)).fma(l, A::x(*w[i].add(p)), lanes[i][j]);
            }
        }
        lanes.map(total)
    }
}
