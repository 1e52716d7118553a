//! A GEMM whose left operand has many rows: a block of the right operand is packed by all threads, for all of them, and stays in the
//! second-level cache, while each stack of rows is packed by the thread that multiplies it, into its first-level cache.
//!
//! Goto, van de Geijn: *Anatomy of High-Performance Matrix Multiplication*, 2008, with the operands exchanged.

use super::Arithmetic;
use super::gemm::{Columns, DEPTH, PACK_GRAIN, SPREAD, multiply_ns, with_packed, with_scratch};
use super::kernel::{HIGHEST, Pitched, Tiles};
use super::pack::pack_rows;
use crate::kernels::matmul::rows::{GroupedGemm, Parts, StridedRows};
use crate::kernels::matmul::tasks::WORTH;
use crate::{Isa, ThreadPool};
use smallvec::{SmallVec, smallvec};
use std::ops::Range;

/// Bytes of a block: half of the second-level cache of a server's core.
const BLOCK: usize = 1 << 20;
/// Stacks of rows with which packing the right operand block by block is worth it, and how many each thread must have.
const FEWEST: usize = 24;
const FEWEST_OF_THREAD: usize = 8;

/// Columns for which rows are packed, at least.
const LEAST_COLUMNS: usize = 256;
/// Stacks that are packed at once where a row's elements lie apart: of four with twelve rows, whole cache lines.
const GROUP: usize = 4;

/// Inner values that are packed together: panels of large elements would not stay in the first-level cache otherwise.
const fn depth<E>() -> usize {
    if size_of::<E>() > size_of::<f32>() { DEPTH / 2 } else { DEPTH }
}

/// Columns of the right operand, and some of its values.
struct Block {
    columns: Range<usize>,
    values: Range<usize>,
}

/// Cuts `n` columns of `k` values into blocks of whole panels. Values are cut, at multiples of [`DEPTH`], in whole panels and where
/// `may_cut` says so: sums then stand in the result between blocks.
fn blocks(n: usize, k: usize, panel: usize, size: usize, may_cut: bool) -> Option<SmallVec<[Block; 1]>> {
    let most = BLOCK / size;
    let wide = |depth: usize| most / depth / panel * panel;
    if n.next_multiple_of(panel) * k <= most {
        return Some(smallvec![Block { columns: 0..n, values: 0..k }]);
    }
    let whole = if may_cut { n / panel * panel } else { 0 };
    let mut all = SmallVec::new();
    let width = wide(2 * DEPTH).min(whole);
    for j in (0..whole).step_by(width.max(1)) {
        let columns = j..(j + width).min(whole);
        let depth = (most / columns.len() / DEPTH * DEPTH).max(DEPTH);
        all.extend(
            (0..k).step_by(depth).map(|p| Block { columns: columns.clone(), values: p..(p + depth).min(k) }),
        );
    }
    // Each column of these has all values. For each block, rows are packed anew.
    let width = wide(k);
    if whole < n && width < if may_cut { panel } else { LEAST_COLUMNS } {
        return None;
    }
    all.extend(
        (whole..n).step_by(width.max(1)).map(|j| Block { columns: j..(j + width).min(n), values: 0..k }),
    );
    Some(all)
}

/// Runs a GEMM, if it has rows for all threads, and blocks of it fit; else returns `false` and does nothing.
///
/// # Safety
/// As [`run`](super::gemm::run).
pub(super) unsafe fn run<A: Arithmetic, C: Columns<A::E>>(
    pool: &ThreadPool,
    isa: Isa,
    source: &C,
    tiles: &Tiles<A::E>,
    gemm: &GroupedGemm<'_, StridedRows<'_, A::X>, A::X>,
) -> bool {
    let (n, k) = source.size();
    let (rows, most) = (gemm.x.count, tiles.most_rows());
    let stacks = rows.div_ceil(most);
    if A::ADDS || n == 0 || k == 0 || stacks < FEWEST.max(FEWEST_OF_THREAD * pool.threads()) {
        return false;
    }
    let in_place = if A::IS_PLAIN { gemm.out.pitched(0) } else { None };
    let Some(blocks) = blocks(n, k, tiles.columns, size_of::<A::E>(), in_place.is_some()) else {
        return false;
    };
    let result =
        in_place.map(|rows| Pitched { first: Parts::new(rows.first.cast::<A::E>()), pitch: rows.pitch });
    // Where a row's elements lie apart, a cache line has those of several stacks.
    let together = most * if gemm.x.stride() == 1 { 1 } else { GROUP };
    for block in blocks {
        let panels = block.columns.len().div_ceil(tiles.columns);
        with_packed(panels * tiles.columns * block.values.len(), |packed: *mut A::E| {
            let packed = Parts::new(packed);
            let work = Work::<A, C> {
                isa,
                source,
                tiles,
                gemm,
                block: &block,
                packed: &packed,
                result: result.as_ref(),
            };
            // SAFETY: this function's contract; each panel is packed by one thread, and read when all are; each stack's results are
            // written by one thread.
            unsafe {
                let grain = PACK_GRAIN / (tiles.columns * block.values.len());
                pool.ranges(panels, grain, |panels| work.pack(panels));
                let group_ns = together as f64 * multiply_ns::<A::E>(block.values.len(), block.columns.len());
                pool.ranges(rows.div_ceil(together), (WORTH / group_ns).ceil() as usize, |groups| {
                    work.multiply(groups.start * together..rows.min(groups.end * together), together);
                });
            }
        });
    }
    true
}

struct Work<'a, A: Arithmetic, C> {
    isa: Isa,
    source: &'a C,
    tiles: &'a Tiles<A::E>,
    gemm: &'a GroupedGemm<'a, StridedRows<'a, A::X>, A::X>,
    block: &'a Block,
    /// Panel after panel.
    packed: &'a Parts<A::E>,
    /// The result, where sums may stand in it.
    result: Option<&'a Pitched<Parts<A::E>>>,
}

impl<A: Arithmetic, C: Columns<A::E>> Work<'_, A, C> {
    /// Packs panels of the right operand.
    ///
    /// # Safety
    /// As [`run`]; nobody else uses them.
    unsafe fn pack(&self, panels: Range<usize>) {
        let (columns, Block { columns: all, values }) = (self.tiles.columns, self.block);
        for panel in panels {
            let j = all.start + panel * columns;
            for p in values.clone().step_by(depth::<A::E>()) {
                let (depth, n) = (depth::<A::E>().min(values.end - p), columns.min(all.end - j));
                // SAFETY: this function's contract.
                unsafe {
                    let to = self.packed.address((panel * values.len() + p - values.start) * columns);
                    self.source.pack(self.isa, self.gemm.w, (p, depth), (j, n), columns, to);
                }
            }
        }
    }

    /// Results of rows, of which so many are packed at once.
    ///
    /// # Safety
    /// As [`run`]; the panels are packed, and nobody else uses these results.
    unsafe fn multiply(&self, rows: Range<usize>, together: usize) {
        let GroupedGemm { x, out, .. } = self.gemm;
        let (columns, Block { columns: all, values }) = (self.tiles.columns, self.block);
        let left = (depth::<A::E>().min(values.len()) * together).next_multiple_of(columns);
        let panels = all.len().div_ceil(columns);
        with_scratch::<A::E>(left + together * panels * columns, |scratch| {
            // SAFETY: this function's contract.
            unsafe {
                let memory = scratch.add(left);
                for first in rows.clone().step_by(together) {
                    let group = first..(first + together).min(rows.end);
                    for p in values.clone().step_by(depth::<A::E>()) {
                        let depth = depth::<A::E>().min(values.end - p);
                        pack_group::<A>(x, self.tiles, group.clone(), (p, depth), scratch);
                        for panel in 0..panels {
                            let right =
                                self.packed.address((panel * values.len() + p - values.start) * columns);
                            for (row, _, tile) in self.tiles.over(group.clone()) {
                                let to = self.sums((first, row), panel, memory);
                                let from = (p > 0).then(|| to.to_read());
                                tile(depth, scratch.add((row - first) * depth), right, from, to);
                            }
                        }
                    }
                    let is_last = values.end == x.len();
                    for panel in 0..panels {
                        let j = all.start + panel * columns;
                        let n = columns.min(all.end - j);
                        for row in group.clone() {
                            let mut sums = self.sums((first, row), panel, memory).first;
                            if self.is_in_place(panel) {
                                if !is_last || out.bias.is_none() {
                                    continue;
                                }
                                memory.copy_from_nonoverlapping(sums, n);
                                sums = memory;
                            }
                            out.store(row, j, std::slice::from_raw_parts(sums, n), A::out);
                        }
                    }
                }
                if values.end == x.len() {
                    // They are stored.
                    out.activate(rows, all.clone());
                }
            }
        });
    }

    /// Whether a panel's sums are made in the result.
    fn is_in_place(&self, panel: usize) -> bool {
        self.result.is_some() && (panel + 1) * self.tiles.columns <= self.block.columns.len()
    }

    /// Where sums of rows from `row` on stand: in the result, or in memory of the group of rows from `first` on.
    ///
    /// # Safety
    /// As [`multiply`](Self::multiply), of whose memory this is.
    #[inline(always)]
    unsafe fn sums(
        &self,
        (first, row): (usize, usize),
        panel: usize,
        memory: *mut A::E,
    ) -> Pitched<*mut A::E> {
        let columns = self.tiles.columns;
        // SAFETY: this function's contract.
        unsafe {
            match self.result.filter(|_| self.is_in_place(panel)) {
                Some(result) => {
                    let at = row * result.pitch + self.block.columns.start + panel * columns;
                    Pitched { first: result.first.address(at), pitch: result.pitch }
                }
                None => {
                    let pitch = self.block.columns.len().next_multiple_of(columns);
                    Pitched { first: memory.add((row - first) * pitch + panel * columns), pitch }
                }
            }
        }
    }
}

/// Packs values of stacks of rows, stack after stack.
///
/// # Safety
/// The rows have these values, and as many elements of `out` can be written.
#[inline(always)]
unsafe fn pack_group<A: Arithmetic>(
    x: &StridedRows<'_, A::X>,
    tiles: &Tiles<A::E>,
    group: Range<usize>,
    (p, depth): (usize, usize),
    out: *mut A::E,
) {
    let step = if x.stride() == 1 { depth } else { SPREAD };
    for at in (0..depth).step_by(step) {
        for (row, height, _) in tiles.over(group.clone()) {
            let mut rows = [std::ptr::null(); HIGHEST];
            for (i, address) in rows[..height].iter_mut().enumerate() {
                *address = x.address(row + i).wrapping_add((p + at) * x.stride());
            }
            // SAFETY: this function's contract.
            unsafe {
                let to = out.add((row - group.start) * depth + at * height);
                pack_rows::<A>(&rows[..height], step.min(depth - at), x.stride(), to);
            }
        }
    }
}
