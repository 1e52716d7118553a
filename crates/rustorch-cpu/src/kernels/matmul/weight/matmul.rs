//! Matmul with a quantized weight: division among threads and tiles.

use super::activation::{Activations, LANES, PanelChunk, PanelForm, Panels, Row};
use super::chunk::{CHUNK, Chunk};
use super::{Acc, Kernels, MOST_PANELS, Matrix, PanelsFn, ROWS, RowIds, UNPACKED};
use crate::ThreadPool;
use crate::kernels::matmul::rows::{GroupedGemm, with_bias};
use crate::kernels::matmul::tasks::{Task, Tasks};
use crate::simd;
use smallvec::SmallVec;
use std::cell::Cell;
use std::ops::Range;

/// Rows of activations from which on unpacking pays.
const MANY: usize = 6;

/// Bytes of weights that are asked for before they are read.
const AHEAD: usize = 12 << 10;

/// GEMMs of activations with matrices of one size and block type.
pub(crate) struct Product<'a> {
    /// The kernels of the block type.
    pub(crate) kernels: &'a Kernels,
    /// The size of each matrix.
    pub(crate) w: Matrix,
    /// The matrices, and the rows that each is multiplied with.
    pub(crate) gemms: &'a [GroupedGemm<'a, RowIds<'a>, f32>],
    /// The rows.
    pub(crate) x: &'a Activations,
}

impl Product<'_> {
    /// Whether so many rows are multiplied as panels, with kernels for them.
    fn panels_kernel(&self, rows: RowIds<'_>) -> Option<PanelsFn> {
        self.kernels.panels.filter(|_| rows.len() >= MANY)
    }

    fn tasks(&self, threads: usize) -> Tasks {
        let w = self.w;
        let rows = self.gemms.iter().map(|gemm| gemm.x.len());
        let step = self.kernels.at_once * LANES;
        Tasks::new(threads, w.n, rows, (UNPACKED, step), |m| {
            // Reading weights from memory, or multiplying: whichever takes longer, in nanoseconds for a row.
            (w.row_bytes as f64 / 30.0).max((m * w.k) as f64 / 100.0)
        })
    }
}

/// Panels of rows, for all products that want the same.
struct SharedPanels<'a> {
    x: &'a Activations,
    rows: RowIds<'a>,
    form: PanelForm,
    panels: Panels,
}

impl SharedPanels<'_> {
    fn serve(&self, x: &Activations, rows: RowIds<'_>, form: PanelForm) -> bool {
        // Experts' rows are their own.
        let is_same = matches!((self.rows, rows), (RowIds::All(ours), RowIds::All(others)) if ours == others);
        is_same && std::ptr::eq(self.x, x) && self.form == form
    }
}

/// What of a product's work is found out before threads share it.
struct Part {
    /// Tasks of the products before it.
    before: usize,
    tasks: Tasks,
    /// By GEMM: which of the panels it takes, if it takes some.
    panels: SmallVec<[Option<usize>; 1]>,
}

/// Runs products, whose tasks are shared by the threads as if they were one.
///
/// # Safety
/// Every matrix of a product has `w.n` rows of `w.k` values in blocks of the kernels' type; `x` has the rows that the GEMMs name, `k` values
/// each, rounded to the kernels' activation type; the outputs have a row for each of them, `n` columns each, and nobody else uses
/// them.
pub(crate) unsafe fn matmul(pool: &ThreadPool, products: &[Product<'_>]) {
    let mut made: SmallVec<[SharedPanels<'_>; 1]> = SmallVec::new();
    let mut parts: SmallVec<[Part; 3]> = SmallVec::new();
    let mut all = 0;
    for product in products {
        let (x, form) = (product.x, product.kernels.form);
        let mut part = Part { before: all, tasks: product.tasks(pool.threads()), panels: SmallVec::new() };
        all += part.tasks.len();
        for rows in product.gemms.iter().map(|gemm| gemm.x) {
            if product.panels_kernel(rows).is_none() {
                part.panels.push(None);
                continue;
            }
            let known = made.iter().position(|panels| panels.serve(x, rows, form));
            part.panels.push(known.or(Some(made.len())));
            if known.is_none() {
                made.push(SharedPanels { x, rows, form, panels: x.panels(pool, rows, form) });
            }
        }
        parts.push(part);
    }
    pool.run(all, |i| {
        let at = parts.partition_point(|part| part.before <= i) - 1;
        let (product, part) = (&products[at], &parts[at]);
        let Task { gemm: at, columns, rows, .. } = part.tasks.get(i - part.before);
        let gemm = &product.gemms[at];
        // SAFETY: this function's contract; tasks are disjoint in results, and these are stored when the function comes.
        unsafe {
            match (product.panels_kernel(gemm.x), part.panels[at]) {
                (Some(kernel), Some(panels)) => {
                    let panels = &made[panels].panels;
                    let range = rows.start / LANES..rows.end.div_ceil(LANES);
                    many((product.kernels, kernel), product.w, gemm, columns.clone(), panels, range);
                }
                _ => few(product, gemm, columns.clone(), rows.clone()),
            }
            gemm.out.activate(rows, columns);
        }
    });
}

/// Columns of the results for some of the rows, reading blocks in place.
///
/// # Safety
/// As [`matmul`].
unsafe fn few(
    &Product { kernels, w, x, .. }: &Product<'_>,
    gemm: &GroupedGemm<'_, RowIds<'_>, f32>,
    columns: Range<usize>,
    rows: Range<usize>,
) {
    let mut sums = [0.0; ROWS];
    let xs: SmallVec<[Row<'_>; MANY]> = rows.clone().map(|row| x.row(gemm.x.get(row))).collect();
    for j in columns.clone().step_by(ROWS) {
        let n = ROWS.min(columns.end - j);
        // Rows past the end are computed as the last one again, and dropped.
        let blocks = [0, 1, 2, 3].map(|r| gemm.w.wrapping_add((j + r.min(n - 1)) * w.row_bytes));
        let ahead = (j * w.row_bytes + AHEAD).min(columns.end.saturating_sub(ROWS) * w.row_bytes);
        let next = gemm.w.wrapping_add(ahead);
        for (row, x) in rows.clone().zip(&xs) {
            // SAFETY: this function's contract.
            unsafe {
                (kernels.rows)(blocks, w.k, &Row { next, ..*x }, &mut sums);
                gemm.out.store(row, j, &sums[..n], with_bias);
            }
        }
    }
}

thread_local! {
    /// Unpacked chunks, kept from task to task.
    static SCRATCH: Cell<Vec<Chunk>> = const { Cell::new(Vec::new()) };
    /// Sums in the making, likewise.
    static SUMS: Cell<Vec<Acc>> = const { Cell::new(Vec::new()) };
}

/// Columns `columns` of the results for the panels `range`, by unpacking.
///
/// # Safety
/// As [`matmul`]; `panels` are those of the GEMM's rows.
unsafe fn many(
    (kernels, kernel): (&Kernels, PanelsFn),
    w: Matrix,
    gemm: &GroupedGemm<'_, RowIds<'_>, f32>,
    columns: Range<usize>,
    panels: &[PanelChunk],
    range: Range<usize>,
) {
    let chunks = w.k.div_ceil(CHUNK);
    let (at_once, accs) = (kernels.at_once, kernels.accs);
    let mut scratch = SCRATCH.take();
    if scratch.len() < chunks * UNPACKED {
        scratch.resize(chunks * UNPACKED, Chunk::ZERO);
    }
    let mut sums = SUMS.take();
    // For each four columns, the sums of each panel.
    sums.clear();
    sums.resize(UNPACKED / ROWS * at_once * accs, Acc::default());
    let steps = (range.len().div_ceil(at_once) * chunks.div_ceil(kernels.depth)).max(1);
    // SAFETY: this function's contract; what leaves follows.
    unsafe { (kernels.enter)() };
    for j in columns.clone().step_by(UNPACKED) {
        let n = UNPACKED.min(columns.end - j);
        for r in 0..n {
            // SAFETY: this function's contract; chunk `c` of row `r` is `scratch[c * UNPACKED + r]`.
            unsafe {
                (kernels.unpack)(
                    gemm.w.add((j + r) * w.row_bytes),
                    w.k,
                    scratch.as_mut_ptr().add(r),
                    UNPACKED,
                )
            };
        }
        // The next tile's blocks are asked for meanwhile.
        let mut next = gemm.w.wrapping_add((j + n) * w.row_bytes);
        let ahead = (UNPACKED.min(columns.end - j - n) * w.row_bytes).div_ceil(steps);
        for p in range.clone().step_by(at_once) {
            let count = at_once.min(range.end - p);
            for c in (0..chunks).step_by(kernels.depth) {
                simd::prefetch_bytes(next, ahead);
                next = next.wrapping_add(ahead);
                let n32 = (w.k - c * CHUNK).min(kernels.depth * CHUNK) / 32;
                let mut x = [std::ptr::null(); MOST_PANELS];
                for (i, x) in x[..count].iter_mut().enumerate() {
                    *x = &raw const panels[(p + i) * chunks + c];
                }
                let rows = ROWS * kernels.quads;
                let sums = sums.chunks_exact_mut(at_once * accs * kernels.quads);
                for (at, sums) in sums.take(n.div_ceil(rows)).enumerate() {
                    // SAFETY: this function's contract. Rows past the end hold old chunks; their sums are dropped.
                    unsafe {
                        let w = scratch.as_ptr().add(c * UNPACKED + at * rows);
                        kernel(w, &x[..count], n32, sums.as_mut_ptr());
                    }
                }
            }
            for i in 0..count {
                let mut rows = [[0.0; UNPACKED]; LANES];
                for (quad, sums) in sums.chunks_exact_mut(at_once * accs).enumerate() {
                    let mut results = Acc::default();
                    // SAFETY: this function's contract.
                    unsafe { (kernels.finish)(&mut sums[i * accs..][..accs], &mut results) };
                    transpose(&results, quad, &mut rows);
                }
                for (i, row) in ((p + i) * LANES..gemm.x.len()).zip(&rows) {
                    // SAFETY: this function's contract.
                    unsafe { gemm.out.store(i, j, &row[..n], with_bias) };
                }
            }
        }
    }
    // SAFETY: as above.
    unsafe { (kernels.leave)() };
    SCRATCH.set(scratch);
    SUMS.set(sums);
}

/// Writes the results of four rows of the weight to their columns. In registers: a vector that is read from memory which single numbers were
/// just written to waits until they are there.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn transpose(results: &Acc, quad: usize, rows: &mut [[f32; UNPACKED]; LANES]) {
    use std::arch::x86_64::{_MM_TRANSPOSE4_PS, _mm_loadu_ps, _mm_storeu_ps};
    for (lanes, rows) in rows.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        // SAFETY: every such CPU has SSE; a quad and four lanes are as many floats as a register has.
        unsafe {
            let [mut a, mut b, mut c, mut d] =
                results.each_ref().map(|r| _mm_loadu_ps(r.as_ptr().add(4 * lanes)));
            _MM_TRANSPOSE4_PS(&mut a, &mut b, &mut c, &mut d);
            for (row, v) in rows.iter_mut().zip([a, b, c, d]) {
                _mm_storeu_ps(row.as_chunks_mut::<ROWS>().0[quad].as_mut_ptr(), v);
            }
        }
    }
}

/// Writes the results of four rows of the weight to their columns.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn transpose(results: &Acc, quad: usize, rows: &mut [[f32; UNPACKED]; LANES]) {
    for (lane, row) in rows.iter_mut().enumerate() {
        row.as_chunks_mut::<ROWS>().0[quad] = std::array::from_fn(|r| results[r][lane]);
    }
}
