//! Division of a product with a weight among threads and tiles.

use super::activation::{Activations, LANES, PanelChunk};
use super::chunk::{CHUNK, Chunk};
use super::{Acc, Kernels, PanelsFn, ROWS};
use crate::Pool;
use crate::kernels::matmul::rows::{Job, Matrix, Results, Tasks, with_bias};
use std::cell::Cell;

/// Rows of the weight that are unpacked together.
const TILE: usize = 16;
/// Rows of activations from which on unpacking pays.
const MANY: usize = 6;

/// Multiplies, for each job, its matrix with its rows of `x`, and writes the results.
///
/// # Safety
/// Every job's matrix has `w.n` rows of `w.k` values in blocks of the kernels' type; `x` has its rows, `k` values each,
/// rounded to the kernels' companion; `out` has its rows, `n` columns each, and nobody else uses them.
pub(crate) unsafe fn product(
    pool: &Pool,
    kernels: &Kernels,
    w: Matrix,
    jobs: &[Job<'_>],
    x: &Activations,
    out: &Results<'_, f32>,
) {
    let many_rows = |job: &Job<'_>| job.x.len() >= MANY && kernels.panels.is_some();
    let panels: Vec<Vec<PanelChunk>> = jobs
        .iter()
        .map(|job| if many_rows(job) { x.panels(pool, job.x, kernels.group) } else { Vec::new() })
        .collect();
    let tasks = Tasks::new(pool.threads(), w, jobs, (TILE, 2 * LANES), |m| {
        // Reading weights from memory, or multiplying: whichever takes longer, in nanoseconds for a row.
        (w.row_bytes as f64 / 10.0).max((m * w.k) as f64 / if m < MANY { 30.0 } else { 100.0 })
    });
    pool.run(tasks.len(), |i| {
        let task = tasks.get(i);
        let (job, panels) = (&jobs[task.job], &panels[task.job]);
        // SAFETY: this function's contract; tasks are disjoint in results.
        unsafe {
            match kernels.panels {
                Some(kernel) if many_rows(job) => {
                    let (first, last) = (task.rows.start / LANES, task.rows.end.div_ceil(LANES));
                    many((kernels, kernel), w, job, task.columns, panels, first..last, out);
                }
                _ => few(kernels, w, job, (task.columns, task.rows), x, out),
            }
        }
    });
}

/// Columns of the results for some of the job's rows, reading blocks in place.
///
/// # Safety
/// As [`product`].
unsafe fn few(
    kernels: &Kernels,
    w: Matrix,
    job: &Job<'_>,
    (columns, range): (std::ops::Range<usize>, std::ops::Range<usize>),
    x: &Activations,
    out: &Results<'_, f32>,
) {
    let mut sums = [0.0; ROWS];
    for j in columns.clone().step_by(ROWS) {
        let n = ROWS.min(columns.end - j);
        // Rows past the end are computed as the last one again, and dropped.
        let rows = [0, 1, 2, 3].map(|r| job.w.wrapping_add((j + r.min(n - 1)) * w.row_bytes));
        for (&xi, &oi) in job.x[range.clone()].iter().zip(&job.out[range.clone()]) {
            // SAFETY: this function's contract.
            unsafe {
                (kernels.rows)(rows, w.k, &x.row(xi as usize), &mut sums);
                out.put(oi as usize, j, &sums[..n], with_bias);
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
/// As [`product`]; `panels` are those of the job's rows.
unsafe fn many(
    (kernels, kernel): (&Kernels, PanelsFn),
    w: Matrix,
    job: &Job<'_>,
    columns: std::ops::Range<usize>,
    panels: &[PanelChunk],
    range: std::ops::Range<usize>,
    out: &Results<'_, f32>,
) {
    let chunks = w.k.div_ceil(CHUNK);
    let mut scratch = SCRATCH.take();
    if scratch.len() < chunks * TILE {
        scratch.resize(chunks * TILE, Chunk::ZERO);
    }
    let mut sums = SUMS.take();
    for j in columns.clone().step_by(TILE) {
        let n = TILE.min(columns.end - j);
        for r in 0..n {
            // SAFETY: this function's contract; chunk `c` of row `r` is `scratch[c * TILE + r]`.
            unsafe {
                (kernels.unpack)(job.w.add((j + r) * w.row_bytes), w.k, scratch.as_mut_ptr().add(r), TILE)
            };
        }
        for p in range.clone().step_by(2) {
            let pair = 2.min(range.end - p);
            // For each four columns, the sums of both panels.
            sums.clear();
            sums.resize(TILE / ROWS * 2 * kernels.accs, [[0.0; LANES]; ROWS]);
            for c in 0..chunks {
                let n32 = (w.k - c * CHUNK).min(CHUNK) / 32;
                let x =
                    [&panels[p * chunks + c], &panels[(p + pair - 1) * chunks + c]].map(std::ptr::from_ref);
                for (quad, sums) in sums.chunks_exact_mut(2 * kernels.accs).take(n.div_ceil(ROWS)).enumerate()
                {
                    // SAFETY: this function's contract. Rows past the end hold old chunks; their sums are dropped.
                    unsafe {
                        let w = scratch.as_ptr().add(c * TILE + quad * ROWS);
                        kernel(w, &x[..pair], n32, sums.as_mut_ptr());
                    }
                }
            }
            let mut results: [[Acc; 2]; TILE / ROWS] = [[[[0.0; LANES]; ROWS]; 2]; TILE / ROWS];
            for (results, sums) in results.as_flattened_mut().iter_mut().zip(sums.chunks_exact(kernels.accs))
            {
                (kernels.finish)(sums, results);
            }
            for lane in 0..pair * LANES {
                let Some(&oi) = job.out.get(p * LANES + lane) else { break };
                let row: [f32; TILE] =
                    std::array::from_fn(|r| results[r / ROWS][lane / LANES][r % ROWS][lane % LANES]);
                // SAFETY: this function's contract.
                unsafe { out.put(oi as usize, j, &row[..n], with_bias) };
            }
        }
    }
    SCRATCH.set(scratch);
    SUMS.set(sums);
}
