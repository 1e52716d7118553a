//! Division of a dense product into tiles and tasks.

use super::Arithmetic;
use super::kernel::{Scalar, Tile};
use super::pack::{pack_columns, pack_rows};
use crate::kernels::matmul::rows::{Job, Matrix, Parts, Results, Rows, Tasks};
use crate::{Isa, Pool};
use std::cell::Cell;
use std::marker::PhantomData;

/// The right operand: element `(p, j)` of `[k, n]` is `p * k_stride + j * n_stride` from its first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Strided {
    pub(super) n: usize,
    pub(super) k: usize,
    pub(super) k_stride: usize,
    pub(super) n_stride: usize,
}

/// Inner values that are packed together: a panel of columns stays in the first-level cache.
const DEPTH: usize = 256;

/// A right operand that can be packed piece by piece.
pub(super) trait Columns<E>: Copy + Sync {
    /// Its size, and the bytes from one column to the next.
    fn matrix(&self) -> Matrix;

    /// Values of columns of the matrix at `w`, in the order of [`pack_columns`]: those from the first of `values` (a
    /// multiple of [`DEPTH`]) on, as many as the second says; of a range of columns likewise.
    ///
    /// # Safety
    /// The processor has `isa`; the matrix has those values, and `depth * columns` elements of `out` can be written.
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

impl<A> Clone for InMemory<A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A> Copy for InMemory<A> {}

// SAFETY: holds numbers only.
unsafe impl<A> Sync for InMemory<A> {}

impl<A: Arithmetic> Columns<A::E> for InMemory<A> {
    fn matrix(&self) -> Matrix {
        Matrix { n: self.0.n, k: self.0.k, row_bytes: self.0.k * size_of::<A::W>() }
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

/// Rows of one job, packed from `start` of the job's memory.
struct Panel<E> {
    row: usize,
    rows: usize,
    tile: Tile<E>,
}

/// Multiplies, for each job, its matrix with its rows of `x`, and writes the results.
///
/// # Safety
/// The processor has `isa`. Every job's matrix has the elements that `w` describes; `out` has the rows of the jobs, `w.n` columns each, and nobody
/// else uses them. Where the arithmetic adds to what stands there, they were written.
pub(super) unsafe fn product<A: Arithmetic>(
    pool: &Pool,
    isa: Isa,
    w: Strided,
    jobs: &[Job<'_>],
    x: &Rows<'_, A::X>,
    out: &Results<'_, A::X>,
) {
    // SAFETY: this function's contract.
    unsafe { product_of::<A, _>(pool, isa, InMemory::<A>(w, PhantomData), jobs, x, out) }
}

/// [`product`] with a right operand of any kind.
///
/// # Safety
/// As there.
pub(super) unsafe fn product_of<A: Arithmetic, C: Columns<A::E>>(
    pool: &Pool,
    isa: Isa,
    source: C,
    jobs: &[Job<'_>],
    x: &Rows<'_, A::X>,
    out: &Results<'_, A::X>,
) {
    let w = source.matrix();
    let tiles = A::E::tiles(isa);
    let (columns, most) = (tiles.columns, tiles.most_rows());
    let panels: Vec<Vec<Panel<A::E>>> = jobs
        .iter()
        .map(|job| {
            let mut row = 0;
            let mut panels = Vec::with_capacity(job.x.len() / most + 4);
            while row < job.x.len() {
                let (rows, tile) = tiles.at_most(job.x.len() - row);
                panels.push(Panel { row, rows, tile });
                row += rows;
            }
            panels
        })
        .collect();
    let packed: Vec<Vec<A::E>> = jobs
        .iter()
        .zip(&panels)
        .map(|(job, panels)| {
            let mut packed = vec![A::E::ZERO; job.x.len() * w.k];
            let parts = Parts::new(&mut packed);
            pool.ranges(panels.len(), (PACK_GRAIN / (w.k * most).max(1)).max(1), |range| {
                for panel in &panels[range] {
                    let rows: Vec<*const A::X> = job.x[panel.row..panel.row + panel.rows]
                        .iter()
                        .map(|&i| x.address(i as usize))
                        .collect();
                    // SAFETY: each panel is packed by one thread, to its own part.
                    unsafe {
                        let to = parts.part(panel.row * w.k, panel.rows * w.k);
                        pack_rows::<A>(&rows, w.k, x.stride(), to.as_mut_ptr());
                    }
                }
            });
            packed
        })
        .collect();

    let size = size_of::<A::E>() as f64;
    let tasks = Tasks::new(pool.threads(), w, jobs, (columns, most), |m| {
        // Reading and packing a column, and multiplying, in nanoseconds.
        w.k as f64 * (0.1 * size + m as f64 * 0.003 * size)
    });
    pool.run(tasks.len(), |i| {
        let task = tasks.get(i);
        let (job, panels, packed) = (&jobs[task.job], &panels[task.job], &packed[task.job]);
        let from = panels.partition_point(|panel| panel.row < task.rows.start);
        let to = panels.partition_point(|panel| panel.row < task.rows.end);
        let panels = &panels[from..to];
        with_scratch::<A::E>(DEPTH * columns + task.rows.len() * columns, |scratch| {
            // SAFETY: the scratch has room for both.
            let sums = unsafe { scratch.add(DEPTH * columns) };
            for j in task.columns.clone().step_by(columns) {
                let n = columns.min(task.columns.end - j);
                // SAFETY: this function's contract; tasks are disjoint in results.
                unsafe {
                    for at in 0..task.rows.len() * columns {
                        sums.add(at).write(A::E::ZERO);
                    }
                    if A::ADDS {
                        for row in task.rows.clone() {
                            let sums = sums.add((row - task.rows.start) * columns);
                            let sums = std::slice::from_raw_parts_mut(sums, n);
                            out.take(job.out[row] as usize, j, sums, A::start);
                        }
                    }
                    for p in (0..w.k).step_by(DEPTH) {
                        let depth = DEPTH.min(w.k - p);
                        source.pack(isa, job.w, (p, depth), (j, n), columns, scratch);
                        for panel in panels {
                            let x = packed.as_ptr().add(panel.row * w.k + p * panel.rows);
                            (panel.tile)(
                                depth,
                                x,
                                scratch,
                                sums.add((panel.row - task.rows.start) * columns),
                            );
                        }
                    }
                    for row in task.rows.clone() {
                        let sums = sums.add((row - task.rows.start) * columns);
                        let sums = std::slice::from_raw_parts(sums, n);
                        out.put(job.out[row] as usize, j, sums, A::out);
                    }
                }
            }
        });
    });
}

/// Elements for a thread to pack at least.
const PACK_GRAIN: usize = 16 << 10;

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line(#[allow(dead_code)] [u8; 64]);

thread_local! {
    /// Memory kept from task to task.
    static SCRATCH: Cell<Vec<Line>> = const { Cell::new(Vec::new()) };
}

/// Calls `run` with memory for `len` elements, of unspecified contents.
pub(crate) fn with_scratch<E: Scalar>(len: usize, run: impl FnOnce(*mut E)) {
    let mut scratch = SCRATCH.take();
    let lines = (len * size_of::<E>()).div_ceil(size_of::<Line>());
    if scratch.len() < lines {
        scratch.resize(lines, Line([0; 64]));
    }
    run(scratch.as_mut_ptr().cast());
    SCRATCH.set(scratch);
}

#[cfg(test)]
mod tests {
    use super::super::Same;
    use super::*;
    use crate::kernels::matmul::tests::Random;
    use rustorch_core::C64;

    fn compute<T>(isa: Isa, (m, n, k): (usize, usize, usize), a: &[T], b: &[T], zero: T) -> Vec<T>
    where
        T: Copy,
        Same<T>: Arithmetic<X = T, W = T>,
    {
        let mut out = vec![zero; m * n];
        let (starts, to): (Vec<usize>, Vec<usize>) = (0..m).map(|i| (i * k, i * n)).unzip();
        let ids: Vec<u32> = (0..m as u32).collect();
        let job = Job { w: b.as_ptr().cast(), x: &ids, out: &ids };
        let w = Strided { n, k, k_stride: 1, n_stride: k };
        // SAFETY: sizes agree; the caller's processor has `isa`.
        unsafe {
            let rows = Rows::new(a.as_ptr(), &starts, k, 1);
            let results = Results { base: out.as_mut_ptr(), starts: &to, stride: 1, bias: None };
            product::<Same<T>>(&Pool::new(1), isa, w, &[job], &rows, &results);
        }
        out
    }

    #[test]
    fn instruction_sets_agree() {
        let random = &mut Random::new(21);
        let size = (23, 41, 600);
        let (a, b) = (random.floats(size.0 * size.2), random.floats(size.1 * size.2));
        let complex = |v: &[f32]| v.iter().map(|&v| C64::new(v, 0.5 - v)).collect::<Vec<_>>();
        let (ca, cb) = (complex(&a), complex(&b));
        let (ia, ib): (Vec<i64>, Vec<i64>) = (
            ca.iter().map(|z| (z.re * 1e18) as i64).collect(),
            cb.iter().map(|z| (z.re * 1e18) as i64).collect(),
        );
        let portable = compute(Isa::Portable, size, &a, &b, 0.0);
        let complex_portable = compute(Isa::Portable, size, &ca, &cb, C64::new(0.0, 0.0));
        let whole = compute(Isa::Portable, size, &ia, &ib, 0);
        let mut before: Option<(Vec<f32>, Vec<C64>)> = None;
        for isa in [Isa::Avx2, Isa::Avx512] {
            if isa > Isa::detect() {
                continue;
            }
            let real = compute(isa, size, &a, &b, 0.0);
            let complex = compute(isa, size, &ca, &cb, C64::new(0.0, 0.0));
            assert!(real.iter().zip(&portable).all(|(a, b)| (a - b).abs() < 1e-4), "{isa:?}");
            assert!(complex.iter().zip(&complex_portable).all(|(a, b)| (a - b).norm() < 1e-3), "{isa:?}");
            assert_eq!(compute(isa, size, &ia, &ib, 0), whole);
            // With fused multiply-adds, bit for bit.
            if let Some(before) = &before {
                assert_eq!((&real, &complex), (&before.0, &before.1));
            }
            before = Some((real, complex));
        }
    }
}
