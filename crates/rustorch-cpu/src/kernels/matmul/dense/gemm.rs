//! A dense GEMM, strided and packed: division into tiles and tasks.

use super::kernel::{HIGHEST, Pitched, Scalar, Tiles};
use super::pack::{pack_columns, pack_rows};
use super::{Arithmetic, few_rows, many_rows};
use crate::kernels::matmul::rows::{GroupedGemm, Parts, StridedRows};
use crate::kernels::matmul::tasks::{MOST_ROWS, Task, Tasks};
use crate::{Isa, ThreadPool};
use std::cell::Cell;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::thread::LocalKey;

/// The right operand: element `(p, j)` of `[k, n]` is `p * k_stride + j * n_stride` from its first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Strided {
    pub(super) n: usize,
    pub(super) k: usize,
    pub(super) k_stride: usize,
    pub(super) n_stride: usize,
}

/// Inner values that are packed together: a panel of columns stays in the first-level cache.
pub(super) const DEPTH: usize = 256;

/// A right operand that can be packed chunk by chunk.
pub(super) trait Columns<E>: Sync {
    /// Its columns and its inner dimension.
    fn size(&self) -> (usize, usize);

    /// Values of columns of the matrix at `w`, in the order of [`pack_columns`]: those from the first of `values` (a
    /// multiple of [`DEPTH`]) on, as many as the second says; of a range of columns likewise.
    ///
    /// # Safety
    /// The CPU has `isa`; the matrix has those values, and `depth * columns` elements of `out` can be written.
    unsafe fn pack(
        &self,
        isa: Isa,
        w: *const u8,
        values: (usize, usize),
        range: (usize, usize),
        columns: usize,
        out: *mut E,
    );
}

/// Elements in memory, converted by the arithmetic.
struct InMemory<A>(Strided, PhantomData<A>);

// SAFETY: holds numbers only.
unsafe impl<A> Sync for InMemory<A> {}

impl<A: Arithmetic> Columns<A::E> for InMemory<A> {
    fn size(&self) -> (usize, usize) {
        (self.0.n, self.0.k)
    }

    #[inline(always)]
    unsafe fn pack(
        &self,
        isa: Isa,
        w: *const u8,
        (p, depth): (usize, usize),
        (j, n): (usize, usize),
        columns: usize,
        out: *mut A::E,
    ) {
        let Strided { k_stride, n_stride, .. } = self.0;
        // SAFETY: this function's contract.
        unsafe {
            let from = w.cast::<A::W>().add(p * k_stride + j * n_stride);
            pack_columns::<A>(isa, from, (depth, n), (k_stride, n_stride), columns, out);
        }
    }
}

/// Runs GEMMs with matrices in memory, one after the other or at once.
///
/// # Safety
/// The CPU has `isa`. Every matrix has the elements that `w` describes; the outputs have a row for each row of the left
/// operands, `w.n` columns each, and nobody else uses them. Where the arithmetic adds to what stands there, they were
/// written.
pub(super) unsafe fn run<A: Arithmetic>(
    pool: &ThreadPool,
    isa: Isa,
    w: Strided,
    gemms: &[GroupedGemm<'_, StridedRows<'_, A::X>, A::X>],
) {
    // SAFETY: this function's contract.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        if super::dots::run::<A>(pool, isa, w, gemms) {
            return;
        }
        if let [gemm] = gemms
            && gemm.x.count * w.n * w.k > SMALL
            && (few_rows::run::<A>(pool, isa, w, gemm) || few_rows::run_exchanged::<A>(pool, isa, w, gemm))
        {
            return;
        }
        run_packing::<A, _>(pool, isa, &InMemory::<A>(w, PhantomData), gemms)
    }
}

/// [`run`] with right operands of any kind.
///
/// # Safety
/// As there.
pub(super) unsafe fn run_packing<A: Arithmetic, C: Columns<A::E>>(
    pool: &ThreadPool,
    isa: Isa,
    source: &C,
    mut gemms: &[GroupedGemm<'_, StridedRows<'_, A::X>, A::X>],
) {
    let (n, k) = source.size();
    if let [gemm] = gemms
        && gemm.x.count * n * k > SMALL
        // SAFETY: this function's contract.
        && unsafe { many_rows::run::<A, C>(pool, isa, source, A::E::tiles(isa), gemm) }
    {
        return;
    }
    // As many at once as the pack buffer may hold.
    while let Some(first) = gemms.first() {
        let mut rows = first.x.count;
        let more = gemms[1..].iter().take_while(|gemm| {
            rows += gemm.x.count;
            rows * k <= MOST_PACKED
        });
        let (now, later) = gemms.split_at(1 + more.count());
        // SAFETY: this function's contract.
        unsafe { run_at_once::<A, C>(pool, isa, source, now) };
        gemms = later;
    }
}

/// Elements of the left operands of several GEMMs that are packed at once.
const MOST_PACKED: usize = 4 << 20;

/// # Safety
/// As [`run`].
unsafe fn run_at_once<A: Arithmetic, C: Columns<A::E>>(
    pool: &ThreadPool,
    isa: Isa,
    source: &C,
    gemms: &[GroupedGemm<'_, StridedRows<'_, A::X>, A::X>],
) {
    let (n, k) = source.size();
    let tiles = A::E::tiles(isa);
    let (columns, most) = (tiles.columns, tiles.most_rows());
    if let [gemm] = gemms
        && gemm.x.count * n * k <= SMALL
        && (packed_len(k, gemm.x.count, columns) + scratch_len(k, gemm.x.count, columns)) * size_of::<A::E>()
            <= SMALL_BYTES
    {
        // SAFETY: this function's contract.
        return unsafe { run_small::<A, C>(isa, source, tiles, gemm) };
    }
    let rows = gemms.iter().map(|gemm| gemm.x.count);
    let tasks = Tasks::new(pool.threads(), n, rows.clone(), (columns, most), |m| multiply_ns::<A::E>(k, m));
    with_packed(rows.clone().sum::<usize>() * k, |packed: *mut A::E| {
        let packed = Parts::new(packed);
        let stacks = rows.map(|m| m.div_ceil(most)).sum();
        pool.ranges(stacks, (PACK_GRAIN / (k * most).max(1)).max(1), |range| {
            // SAFETY: each stack of rows is packed by one thread, to its own part.
            unsafe { pack_stacks::<A>(gemms, tiles, range, &packed) }
        });
        pool.run(tasks.len(), |i| {
            let Task { gemm, rows_before, columns: range, rows } = tasks.get(i);
            let gemm = &gemms[gemm];
            // As much for every task, so that a thread allocates it once.
            let len = scratch_len(DEPTH, rows.len().max(MOST_ROWS), columns);
            with_scratch::<A::E>(len, |scratch| {
                // SAFETY: this function's contract. The rows were packed, and nobody writes there any more; tasks are disjoint in
                // results.
                unsafe {
                    let packed = packed.address(rows_before * k);
                    multiply::<A, C>(isa, source, tiles, gemm, packed, (rows, range), scratch);
                }
            });
        });
    });
}

/// Nanoseconds in which `k` values of a column, or of a row, are read, packed, and multiplied with so many of the other operand.
pub(super) fn multiply_ns<E>(k: usize, others: usize) -> f64 {
    k as f64 * size_of::<E>() as f64 * (0.1 + others as f64 * 0.003)
}

/// Multiply-adds up to which a GEMM is not divided into tasks, which would take longer than to compute it.
pub(super) const SMALL: usize = 32 << 10;

/// Bytes of the operands of such a GEMM, packed, and of its sums, which are on the stack.
const SMALL_BYTES: usize = 16 << 10;

/// [`run`] of a small GEMM, without tasks and without memory of the thread.
///
/// # Safety
/// As there; what is packed and summed fits in [`SMALL_BYTES`].
unsafe fn run_small<A: Arithmetic, C: Columns<A::E>>(
    isa: Isa,
    source: &C,
    tiles: &Tiles<A::E>,
    gemm: &GroupedGemm<'_, StridedRows<'_, A::X>, A::X>,
) {
    let mut memory = [const { MaybeUninit::<Line>::uninit() }; SMALL_BYTES / size_of::<Line>()];
    let (n, k) = source.size();
    let (rows, packed) = (gemm.x.count, memory.as_mut_ptr().cast::<A::E>());
    // SAFETY: this function's contract.
    unsafe {
        pack_stacks::<A>(
            std::slice::from_ref(gemm),
            tiles,
            0..rows.div_ceil(tiles.most_rows()),
            &Parts::new(packed),
        );
        let scratch = packed.add(packed_len(k, rows, tiles.columns));
        multiply::<A, C>(isa, source, tiles, gemm, packed, (0..rows, 0..n), scratch);
    }
}

/// Elements of packed rows, before panels of columns that begin with a cache line.
fn packed_len(k: usize, rows: usize, columns: usize) -> usize {
    (rows * k).next_multiple_of(columns)
}

/// Elements that [`multiply`] needs for `k` inner values of a panel of columns and the sums of so many rows.
fn scratch_len(k: usize, rows: usize, columns: usize) -> usize {
    (DEPTH.min(k) + rows) * columns
}

/// Results of some rows and columns of a GEMM.
///
/// # Safety
/// As [`run`]; the rows are packed at `packed`, that of the GEMM's first row; there is room for [`scratch_len`] elements.
#[inline(always)]
unsafe fn multiply<A: Arithmetic, C: Columns<A::E>>(
    isa: Isa,
    source: &C,
    tiles: &Tiles<A::E>,
    GroupedGemm { w, out, .. }: &GroupedGemm<'_, StridedRows<'_, A::X>, A::X>,
    packed: *const A::E,
    (rows, range): (Range<usize>, Range<usize>),
    scratch: *mut A::E,
) {
    let (_, k) = source.size();
    let columns = tiles.columns;
    // SAFETY: this function's contract.
    unsafe {
        let sums = scratch.add(DEPTH.min(k) * columns);
        for j in range.clone().step_by(columns) {
            let n = columns.min(range.end - j);
            let sums_of =
                |row: usize| Pitched { first: sums.add((row - rows.start) * columns), pitch: columns };
            // Sums of all values are written to where results go, if they are results, and begin with what stands there.
            let are_results = A::SUMS_ARE_RESULTS && n == columns && k > 0 && out.bias.is_none();
            let in_place = if are_results { out.pitched(j) } else { None };
            let result_of = |row: usize| match in_place {
                Some(Pitched { first, pitch }) => Pitched { first: first.add(row * pitch).cast(), pitch },
                None => sums_of(row),
            };
            if A::ADDS && in_place.is_none() {
                for row in rows.clone() {
                    let sums = std::slice::from_raw_parts_mut(sums_of(row).first, n);
                    out.load(row, j, sums, A::start);
                }
            } else if k == 0 {
                for at in 0..rows.len() * columns {
                    sums.add(at).write(A::E::ZERO);
                }
            }
            for p in (0..k).step_by(DEPTH) {
                let depth = DEPTH.min(k - p);
                source.pack(isa, *w, (p, depth), (j, n), columns, scratch);
                let is_last = p + depth == k;
                for (row, height, tile) in tiles.over(rows.clone()) {
                    let from = match p {
                        0 => A::ADDS.then(|| result_of(row).to_read()),
                        _ => Some(sums_of(row).to_read()),
                    };
                    let to = if is_last { result_of(row) } else { sums_of(row) };
                    tile(depth, packed.add(row * k + p * height), scratch, from, to);
                }
            }
            if in_place.is_none() {
                for row in rows.clone() {
                    let sums = std::slice::from_raw_parts(sums_of(row).first, n);
                    out.store(row, j, sums, A::out);
                }
            }
        }
        // They are stored.
        out.activate(rows, range);
    }
}

/// Packs stacks of rows, as many as the highest tile has, of all GEMMs.
///
/// # Safety
/// `packed` has room for all rows, and nobody else uses the parts of these stacks.
unsafe fn pack_stacks<A: Arithmetic>(
    gemms: &[GroupedGemm<'_, StridedRows<'_, A::X>, A::X>],
    tiles: &Tiles<A::E>,
    range: Range<usize>,
    packed: &Parts<A::E>,
) {
    let most = tiles.most_rows();
    let (mut stacks_before, mut rows_before) = (0, 0);
    for GroupedGemm { x, .. } in gemms {
        let stacks = x.count.div_ceil(most);
        let first = range.start.clamp(stacks_before, stacks_before + stacks) - stacks_before;
        let end = range.end.clamp(stacks_before, stacks_before + stacks) - stacks_before;
        // Where a row's elements lie apart, a cache line has those of several stacks, which are packed while it is at hand.
        let depth = if x.stride() == 1 { x.len().max(1) } else { SPREAD };
        for p in (0..x.len()).step_by(depth) {
            let depth = depth.min(x.len() - p);
            for (row, height, _) in tiles.over(first * most..(end * most).min(x.count)) {
                let mut rows = [std::ptr::null(); HIGHEST];
                for (i, address) in rows[..height].iter_mut().enumerate() {
                    *address = x.address(row + i).wrapping_add(p * x.stride());
                }
                // SAFETY: this function's contract.
                unsafe {
                    let to = packed.address((rows_before + row) * x.len() + p * height);
                    pack_rows::<A>(&rows[..height], depth, x.stride(), to);
                }
            }
        }
        stacks_before += stacks;
        rows_before += x.count;
    }
}

/// Values of rows that are packed before the next stack's, where they lie apart.
pub(super) const SPREAD: usize = 64;

/// Elements for a thread to pack at least.
pub(super) const PACK_GRAIN: usize = 16 << 10;

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line(#[allow(dead_code)] [u8; 64]);

/// Memory that a thread keeps from call to call; empty, with capacity.
type Memory = LocalKey<Cell<Vec<Line>>>;

thread_local! {
    /// Of tasks.
    static SCRATCH: Cell<Vec<Line>> = const { Cell::new(Vec::new()) };
    /// Of packed operands, while tasks run.
    static PACKED: Cell<Vec<Line>> = const { Cell::new(Vec::new()) };
}

/// Bytes beyond which memory is not kept.
const MOST_KEPT: usize = 64 << 20;

/// Calls `run` with memory for `len` elements, of unspecified contents.
pub(crate) fn with_scratch<E: Scalar>(len: usize, run: impl FnOnce(*mut E)) {
    with_memory(&SCRATCH, len, run)
}

/// As [`with_scratch`], for the packed operand of a GEMM, while tasks run.
pub(crate) fn with_packed<E: Scalar>(len: usize, run: impl FnOnce(*mut E)) {
    with_memory(&PACKED, len, run)
}

fn with_memory<E: Scalar>(memory: &'static Memory, len: usize, run: impl FnOnce(*mut E)) {
    let mut lines = take_memory(memory, len * size_of::<E>());
    run(lines.as_mut_ptr().cast());
    keep_memory(memory, lines);
}

/// Memory for so many bytes.
fn take_memory(memory: &'static Memory, bytes: usize) -> Vec<Line> {
    let mut lines = memory.take();
    lines.reserve(bytes.div_ceil(size_of::<Line>()));
    lines
}

fn keep_memory(memory: &'static Memory, lines: Vec<Line>) {
    if lines.capacity() * size_of::<Line>() <= MOST_KEPT {
        memory.set(lines);
    }
}
