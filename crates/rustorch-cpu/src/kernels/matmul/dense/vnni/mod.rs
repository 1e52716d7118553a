//! Matmuls by dot product instructions, which multiply groups of narrow values and add the products to one sum of 32 bits: pairs of `bf16`
//! (`vdpbf16ps`), quads of `i8` (VNNI: `vpdpbusd`), pairs of `i16` (`vpmaddwd`). They have two or four times the rate of those for `f32`; where
//! the CPU multiplies whole tiles of them ([`amx`]), eight times that.
//! Operands are packed in what oneDNN and PyTorch call the VNNI layout: the values of a group are the bytes or halves of a word of 32 bits.
//!
//! A block of the right operand is packed by all threads and stays in the second-level cache; stacks of rows are packed by the thread that
//! multiplies them, as in [`many_rows`](super::many_rows).

#[cfg(target_arch = "x86_64")]
mod amx;
#[cfg(target_arch = "x86_64")]
mod bf16_tiles;
mod i8_pairs;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(target_arch = "x86_64")]
pub(super) use amx::Amx;
#[cfg(target_arch = "x86_64")]
pub(crate) use bf16_tiles::{Bf16Tiles, Entered};
pub(super) use i8_pairs::I8Pairs;
#[cfg(target_arch = "x86_64")]
pub(super) use x86::{Bf16Pairs, I8Quads};

use super::Same;
use super::gemm::{with_packed, with_scratch};
use super::kernel::{Pitched, Scalar};
use super::pack::{pack_columns, pack_rows};
use crate::kernels::matmul::gemm_args::{GemmArgs, Target};
use crate::kernels::matmul::rows::{GemmOutput, Parts};
use crate::kernels::pointwise::Pointwise;
use crate::simd::{self, Level, Task};
use crate::{Isa, ThreadPool};
use rustorch_core::Element;
use std::marker::PhantomData;
use std::ops::Range;

/// Columns of a tile: two registers of 512 bits.
const COLUMNS: usize = 32;
/// Rows of a tile that are packed side by side, at most.
const HEIGHT: usize = 12;
/// Words of a packed block of the right operand: half of the second-level cache of a server's core.
const BLOCK: usize = 1 << 18;
/// Words of a stack's rows that are multiplied with all columns at a time, by [`Group::ACCUMULATE`]: those of 32 rows are a third of a first-level cache.
const PART: usize = 128;
/// Steps of [`Group::DEPTH`] words of a row that are packed one after the other.
const STEPS: usize = 4;
/// Nanoseconds of work worth claiming for a thread, and those that a multiplication of tiles takes for each word.
const WORTH: usize = 10_000;
const WORD_NS: usize = 8;

/// How values are grouped, multiplied and summed.
pub(super) trait Group: Sized + 'static {
    /// Elements of the operands.
    type X: Element;
    /// Elements of the result.
    type Out: Pointwise;
    /// Sums: `f32` or `i32`.
    type Sum: Scalar;
    /// Values in a word.
    const LEN: usize;
    /// Whether the bytes of a word are those of its values in memory.
    const IS_PLAIN: bool;
    /// Tiles by their height, ascending.
    const TILES: &'static [(usize, Tile<Self>)];
    /// The tallest tile, with sums that begin with those that are where it writes them, if words are to be multiplied by parts: where a tile reads
    /// them faster than the second-level cache gives them.
    const ACCUMULATE: Option<Tile<Self>> = None;
    /// The words of each row that are packed together: their number is a multiple, and behind those of values come zeros.
    const DEPTH: usize = 1;

    /// The word of the values that there are, and of zeros.
    fn word(values: &[Self::X]) -> u32;

    /// Writes the words of [`COLUMNS`] columns, from [`LEN`](Self::LEN) values of each; `false` if there is no quick way.
    ///
    /// # Safety
    /// Each column has a value at `first`, and `step` elements from each value to the next; there is room for the words; the CPU has the
    /// instructions of the group.
    unsafe fn join(_first: *const Self::X, _step: usize, _to: *mut u32) -> bool {
        false
    }

    /// Writes what the sums of each of [`COLUMNS`] packed columns begin with: zero.
    ///
    /// # Safety
    /// There are so many lines of columns, and room for the sums; the CPU has the instructions of the group.
    unsafe fn begin(_words: usize, _columns: *const u32, to: *mut Self::Sum) {
        // SAFETY: this function's contract; numbers, for which bytes of zero are zero.
        unsafe { to.write_bytes(0, COLUMNS) };
    }

    /// Prepares registers of this thread for tiles.
    ///
    /// # Safety
    /// The CPU has the instructions of the group.
    unsafe fn enter() {}

    /// Gives them back.
    ///
    /// # Safety
    /// As [`enter`](Self::enter).
    unsafe fn leave() {}

    /// What becomes of the packed words of rows.
    fn rows(_words: &mut [u32]) {}

    /// A sum, with the bias, as an element.
    fn out(sum: Self::Sum, bias: Option<Self::Out>) -> Self::Out;
}

/// Words of the left operand's rows.
#[derive(Clone, Copy)]
pub(crate) struct Words {
    /// Those of the first row.
    pub(crate) first: *const u32,
    /// How many there are from a row to the next.
    pub(crate) row: usize,
    /// How many there are from a row's [`DEPTH`](Group::DEPTH) words, which are contiguous, to its next ones.
    pub(crate) step: usize,
}

/// Writes rows of [`COLUMNS`] sums: `to[i][j] = start[j] + Σ x[i][p] · w[p][j]` over so many words `p`, in order; `x`, `w`, `start` and `to` come
/// behind their number.
///
/// To be called where the CPU has the instructions of the group and the thread has [`Registers`], with as many rows as the tile is high, `w` of
/// `[words][COLUMNS]`, a number for each column in `start`, and room for the sums.
pub(super) type Tile<G> =
    unsafe fn(usize, Words, *const u32, *const <G as Group>::Sum, Pitched<*mut <G as Group>::Sum>);

/// A thread that has entered a group, until this is dropped. Nobody else on the thread enters one meanwhile.
struct Registers<G: Group>(PhantomData<G>);

impl<G: Group> Registers<G> {
    /// # Safety
    /// The CPU has the instructions of the group, and the thread has no registers.
    unsafe fn enter() -> Registers<G> {
        // SAFETY: this function's contract.
        unsafe { G::enter() };
        Registers(PhantomData)
    }
}

impl<G: Group> Drop for Registers<G> {
    fn drop(&mut self) {
        // SAFETY: who made it knew that the CPU has the instructions.
        unsafe { G::leave() };
    }
}

/// The rows of the tallest tile.
fn tallest<G: Group>() -> usize {
    G::TILES.last().map_or(1, |(tall, _)| *tall)
}

/// How many words there are for `k` values of a row or column: at least one, so that a tile has something to sum.
fn words_of<G: Group>(k: usize) -> usize {
    k.div_ceil(G::LEN).max(1).next_multiple_of(G::DEPTH)
}

/// Runs a matmul.
///
/// # Safety
/// The CPU has the instructions of the group. The operands have the elements that `gemm` describes, from `a` and `b` on; nobody else uses
/// those of the target.
pub(super) unsafe fn run<G: Group>(
    pool: &ThreadPool,
    gemm: &GemmArgs,
    [a, b]: [*const G::X; 2],
    target: &Target<G::Out>,
) {
    let words = words_of::<G>(gemm.k);
    // What sums begin with, before the words.
    let panel_len = (1 + words) * COLUMNS;
    let width = (BLOCK / panel_len * COLUMNS).max(COLUMNS);
    for batch in 0..gemm.batches() {
        let [a_start, b_start, _] = gemm.batch_starts(batch);
        let left = Operand::<G> { first: a.wrapping_add(a_start), strides: gemm.a_strides, k: gemm.k };
        let [value, column] = gemm.b_strides;
        let right = Operand::<G> { first: b.wrapping_add(b_start), strides: [column, value], k: gemm.k };
        let out = gemm.output(target, &gemm.batch(batch));
        for first in (0..gemm.n).step_by(width) {
            let columns = first..gemm.n.min(first + width);
            let panels = columns.len().div_ceil(COLUMNS);
            with_packed(panels * panel_len, |packed: *mut i32| {
                let packed = Parts::new(packed.cast::<u32>());
                pool.ranges(panels, WORTH / (WORD_NS * (1 + words)), |range| {
                    for panel in range {
                        let j = columns.start + panel * COLUMNS;
                        let n = COLUMNS.min(columns.end - j);
                        // SAFETY: this function's contract; each panel is one thread's.
                        unsafe {
                            let start = packed.address(panel * panel_len);
                            right.pack_columns(j, n, start.add(COLUMNS));
                            G::begin(words, start.add(COLUMNS), start.cast());
                        }
                    }
                });
                let tallest = tallest::<G>();
                let stacks = gemm.m.div_ceil(tallest);
                pool.ranges(stacks, WORTH / (WORD_NS * (1 + words) * panels), |range| {
                    let rows = range.start * tallest..gemm.m.min(range.end * tallest);
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
unsafe fn multiply<G: Group>(
    left: &Operand<G>,
    rows: Range<usize>,
    packed: &Parts<u32>,
    columns: Range<usize>,
    out: &GemmOutput<'_, G::Out>,
) {
    let (words, tallest) = (words_of::<G>(left.k), tallest::<G>());
    let panel_len = (1 + words) * COLUMNS;
    let parts = if G::ACCUMULATE.is_some() { words.div_ceil(PART) } else { 1 };
    let part = words.div_ceil(parts).next_multiple_of(G::DEPTH);
    // Sums of a panel; those of the next are in their place, unless parts are added to them.
    let sums_len = tallest * COLUMNS;
    let apart = if parts > 1 { sums_len } else { 0 };
    let len = (tallest * words).next_multiple_of(COLUMNS);
    let panels = columns.len().div_ceil(COLUMNS);
    with_scratch(len + sums_len.max(apart * panels), |stack: *mut i32| {
        let stack = stack.cast::<u32>();
        // SAFETY: this function's contract; what is called below enters nothing.
        let _registers = unsafe { Registers::<G>::enter() };
        for first in rows.clone().step_by(tallest) {
            let height = tallest.min(rows.end - first);
            let fits = G::TILES.iter().find(|(tall, _)| *tall >= height);
            let &(tall, tile) = fits.expect("no stack is taller than the tallest tile");
            // SAFETY: this function's contract; there is room for a stack and the sums of a tile, which has as many rows.
            unsafe {
                let sums = stack.add(len).cast::<G::Sum>();
                left.pack_rows(first, height, tall, stack);
                for begin in (0..words).step_by(part) {
                    let tile = if begin == 0 { tile } else { G::ACCUMULATE.unwrap_or(tile) };
                    let n = part.min(words - begin);
                    let rows = Words { first: stack.add(begin * tall), row: G::DEPTH, step: G::DEPTH * tall };
                    for (panel, j) in columns.clone().step_by(COLUMNS).enumerate() {
                        let start = packed.address(panel * panel_len).cast_const();
                        let sums = sums.add(panel * apart);
                        let to = Pitched { first: sums, pitch: COLUMNS };
                        tile(n, rows, start.add((1 + begin) * COLUMNS), start.cast(), to);
                        if begin + n == words {
                            let columns = j..columns.end.min(j + COLUMNS);
                            simd::run(Store::<G> { out, row: first, height, columns, sums });
                        }
                    }
                }
            }
        }
        // SAFETY: this function's contract; they are stored.
        unsafe { out.activate(rows, columns) };
    });
}

/// Writes the sums of a tile to results. Made only by [`multiply`], whose contract it relies on.
struct Store<'a, G: Group> {
    out: &'a GemmOutput<'a, G::Out>,
    /// The first row, and how many there are.
    row: usize,
    height: usize,
    columns: Range<usize>,
    /// Rows of [`COLUMNS`].
    sums: *const G::Sum,
}

impl<G: Group> Task for Store<'_, G> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, _: L) {
        for i in 0..self.height {
            // SAFETY: the contract of `multiply`; the sums are there.
            unsafe {
                let sums = std::slice::from_raw_parts(self.sums.add(i * COLUMNS), self.columns.len());
                self.out.store(self.row + i, self.columns.start, sums, G::out);
            }
        }
    }
}

/// Lines of so many values: rows of the left operand, columns of the right one.
struct Operand<G: Group> {
    first: *const G::X,
    /// Elements from a line to the next, and from a value to the next.
    strides: [usize; 2],
    k: usize,
}

// SAFETY: an address of a view that outlives it, which is only read.
unsafe impl<G: Group> Sync for Operand<G> {}

impl<G: Group> Operand<G> {
    /// Where words begin and how many of them are from line to line, if groups are aligned words of memory.
    fn words(&self, line: usize) -> Option<(*const f32, usize)> {
        let from = self.first.wrapping_add(line * self.strides[0]).cast::<f32>();
        let apart = self.strides[1] == 1 && self.strides[0].is_multiple_of(G::LEN);
        (G::IS_PLAIN && apart && from.is_aligned()).then_some((from, self.strides[0] / G::LEN))
    }

    /// A word of a line, of which the last one may have fewer values; zeros beyond them.
    ///
    /// # Safety
    /// The line has them.
    #[inline(always)]
    unsafe fn word(&self, line: usize, word: usize) -> u32 {
        let [row, value] = self.strides;
        let begin = word * G::LEN;
        if begin >= self.k {
            return 0;
        }
        let n = G::LEN.min(self.k - begin);
        // SAFETY: this function's contract; a group has at most four values.
        unsafe {
            let from = self.first.add(line * row + begin * value);
            let mut values = [*from; 4];
            for i in 1..n {
                values[i] = *from.add(i * value);
            }
            G::word(&values[..n])
        }
    }

    /// The words of `n` lines as `[words][COLUMNS]`, zero beyond them.
    ///
    /// # Safety
    /// The lines exist; there is room; the CPU has the instructions of the group.
    unsafe fn pack_columns(&self, line: usize, n: usize, to: *mut u32) {
        let (words, whole) = (words_of::<G>(self.k), self.k / G::LEN);
        let mut done = 0;
        // SAFETY: this function's contract.
        unsafe {
            if let Some((from, step)) = self.words(line) {
                let size = (whole, n);
                pack_columns::<Same<f32>>(Isa::detect(), from, size, (1, step), COLUMNS, to.cast());
                done = whole;
            } else if self.strides[0] == 1 && n == COLUMNS {
                let [_, value] = self.strides;
                while done < whole
                    && G::join(self.first.add(line + done * G::LEN * value), value, to.add(done * COLUMNS))
                {
                    done += 1;
                }
            }
            for p in done..words {
                for j in 0..COLUMNS {
                    *to.add(p * COLUMNS + j) = if j < n { self.word(line + j, p) } else { 0 };
                }
            }
        }
    }

    /// The words of `n` lines as `[words / DEPTH][height][DEPTH]`; those beyond `n` are the last one once more.
    ///
    /// # Safety
    /// The lines exist; there is room; `n` is at most the height.
    unsafe fn pack_rows(&self, line: usize, n: usize, height: usize, to: *mut u32) {
        let (words, whole) = (words_of::<G>(self.k), self.k / G::LEN);
        if G::DEPTH > 1 {
            // What is written lies together: a few steps of each row, and then those of the next row.
            let together = G::DEPTH * STEPS;
            for begin in (0..words).step_by(together) {
                for i in 0..height {
                    let line = line + i.min(n - 1);
                    let in_memory = self.words(line);
                    for p in (begin..words.min(begin + together)).step_by(G::DEPTH) {
                        let to = to.wrapping_add(p * height + i * G::DEPTH);
                        // SAFETY: this function's contract.
                        unsafe {
                            match in_memory {
                                Some((from, _)) if p + G::DEPTH <= whole => {
                                    std::ptr::copy_nonoverlapping(from.add(p).cast(), to, G::DEPTH);
                                }
                                _ => (0..G::DEPTH).for_each(|q| *to.add(q) = self.word(line, p + q)),
                            }
                        }
                    }
                }
            }
            return;
        }
        // SAFETY: this function's contract.
        unsafe {
            let mut done = 0;
            if let Some((from, step)) = self.words(line) {
                let rows: [*const f32; HEIGHT] =
                    std::array::from_fn(|i| from.wrapping_add(i.min(n - 1) * step));
                pack_rows::<Same<f32>>(&rows[..height], whole, 1, to.cast());
                done = whole;
            }
            for p in done..words {
                for i in 0..height {
                    *to.add(p * height + i) = self.word(line + i.min(n - 1), p);
                }
            }
            G::rows(std::slice::from_raw_parts_mut(to, words * height));
        }
    }
}
