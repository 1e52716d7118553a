//! Operands and results as rows, wherever strides put them, and their division into tasks.

use std::marker::PhantomData;
use std::ops::Range;

/// Rows to read: row `i` begins at element `starts[i]`, and its elements are `stride` apart.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a, T> {
    base: *const T,
    /// Where each row begins.
    pub(crate) starts: &'a [usize],
    /// Elements in a row.
    pub(crate) len: usize,
    stride: usize,
    _lifetime: PhantomData<&'a T>,
}

// SAFETY: like a shared slice.
unsafe impl<T: Sync> Sync for Rows<'_, T> {}

impl<'a, T: Copy> Rows<'a, T> {
    /// # Safety
    /// Every element that the description reaches from `base` is valid and unchanging for the lifetime.
    pub(crate) unsafe fn new(base: *const T, starts: &'a [usize], len: usize, stride: usize) -> Rows<'a, T> {
        Rows { base, starts, len, stride, _lifetime: PhantomData }
    }

    /// Whether the elements of a row lie side by side.
    pub(crate) fn contiguous(&self) -> bool {
        self.stride == 1 || self.len <= 1
    }

    /// Elements from one value of a row to the next.
    pub(crate) fn stride(&self) -> usize {
        self.stride
    }

    /// The address of row `i`, whose elements are [`stride`](Self::stride) apart.
    pub(crate) fn address(&self, i: usize) -> *const T {
        // SAFETY: reached, by the contract of `new`; an empty row has no address of its own.
        unsafe { self.base.add(if self.len == 0 { 0 } else { self.starts[i] }) }
    }

    /// Row `i`, gathered into `scratch` where its elements do not lie side by side.
    pub(crate) fn row<'s>(&'s self, i: usize, scratch: &'s mut Vec<T>) -> &'s [T] {
        let first = self.address(i);
        if self.contiguous() {
            // SAFETY: reached, by the contract of `new`.
            return unsafe { std::slice::from_raw_parts(first, self.len) };
        }
        scratch.clear();
        // SAFETY: as above.
        scratch.extend((0..self.len).map(|j| unsafe { *first.add(j * self.stride) }));
        scratch
    }
}

/// Hands disjoint parts of a slice to several threads.
pub(crate) struct Parts<T>(*mut T);

// SAFETY: hands out disjoint parts only, by the contract of `part`.
unsafe impl<T: Send> Sync for Parts<T> {}

impl<T> Parts<T> {
    pub(crate) fn new(slice: &mut [T]) -> Parts<T> {
        Parts(slice.as_mut_ptr())
    }

    /// `len` elements from `start`.
    ///
    /// # Safety
    /// They lie in the slice, which lives; and no other part in use has any of them.
    #[allow(clippy::mut_from_ref)]
    pub(crate) unsafe fn part(&self, start: usize, len: usize) -> &mut [T] {
        // SAFETY: this function's contract.
        unsafe { std::slice::from_raw_parts_mut(self.0.add(start), len) }
    }
}

/// Where results go: element `j` of row `i` to `base[starts[i] + j * stride]`, after adding its bias.
pub(crate) struct Results<'a, T> {
    /// The first element of the output.
    pub(crate) base: *mut T,
    /// Where each row begins.
    pub(crate) starts: &'a [usize],
    /// Elements from one column to the next.
    pub(crate) stride: usize,
    /// The bias of column 0 and the elements from one to the next.
    pub(crate) bias: Option<(*const T, usize)>,
}

// SAFETY: kernels write disjoint elements, and the bias is not written.
unsafe impl<T: Send + Sync> Sync for Results<'_, T> {}

impl<T: Copy> Results<'_, T> {
    /// Reads elements `j..` of row `i` as the beginnings of sums.
    ///
    /// # Safety
    /// The elements exist and were written, and no other thread uses them.
    #[inline(always)]
    pub(crate) unsafe fn take<E: Copy>(&self, i: usize, j: usize, sums: &mut [E], start: impl Fn(T) -> E) {
        // SAFETY: this function's contract.
        unsafe {
            let from = self.base.add(self.starts[i] + j * self.stride);
            for (c, sum) in sums.iter_mut().enumerate() {
                *sum = start(*from.add(c * self.stride));
            }
        }
    }

    /// Writes elements `j..` of row `i`: sums finished by `finish`, which is given the bias, too.
    ///
    /// # Safety
    /// The elements exist and no other thread uses them.
    #[inline(always)]
    pub(crate) unsafe fn put<E: Copy>(
        &self,
        i: usize,
        j: usize,
        sums: &[E],
        finish: impl Fn(E, Option<T>) -> T,
    ) {
        // SAFETY: this function's contract; the bias has every column.
        unsafe {
            let to = self.base.add(self.starts[i] + j * self.stride);
            match (self.bias, self.stride) {
                (None, 1) => {
                    for (c, &sum) in sums.iter().enumerate() {
                        *to.add(c) = finish(sum, None);
                    }
                }
                (Some((bias, 1)), 1) => {
                    for (c, &sum) in sums.iter().enumerate() {
                        *to.add(c) = finish(sum, Some(*bias.add(j + c)));
                    }
                }
                (bias, stride) => {
                    for (c, &sum) in sums.iter().enumerate() {
                        *to.add(c * stride) = finish(sum, bias.map(|(bias, step)| *bias.add((j + c) * step)));
                    }
                }
            }
        }
    }
}

/// A sum and its bias.
#[inline(always)]
pub(crate) fn with_bias(sum: f32, bias: Option<f32>) -> f32 {
    match bias {
        Some(bias) => sum + bias,
        None => sum,
    }
}

/// A row-major `[n, k]` matrix: the weight's shape.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matrix {
    /// Rows, which are columns of the result.
    pub(crate) n: usize,
    /// Values in a row.
    pub(crate) k: usize,
    /// Bytes from one row to the next.
    pub(crate) row_bytes: usize,
}

/// One matrix and the rows that are multiplied with it.
pub(crate) struct Job<'a> {
    /// The first row of the matrix.
    pub(crate) w: *const u8,
    /// Rows of the activations.
    pub(crate) x: &'a [u32],
    /// The row of the results for each of them.
    pub(crate) out: &'a [u32],
}

// SAFETY: the matrix is only read.
unsafe impl Sync for Job<'_> {}

/// Jobs cut into pieces worth a thread's while.
pub(crate) struct Tasks {
    cuts: Vec<Cut>,
    n: usize,
    step: usize,
}

struct Cut {
    /// Tasks before this job.
    before: usize,
    /// Columns in a task.
    columns: usize,
    /// Parts into which the rows are cut.
    parts: usize,
    rows: usize,
}

/// A piece of a job.
pub(crate) struct Task {
    /// The job.
    pub(crate) job: usize,
    /// Columns of the result.
    pub(crate) columns: Range<usize>,
    /// Which of the job's rows.
    pub(crate) rows: Range<usize>,
}

/// Rows beyond which a task's intermediate sums leave the caches.
const MOST_ROWS: usize = 1024;
/// Nanoseconds of work worth claiming a task for.
const WORTH: f64 = 10_000.0;

impl Tasks {
    /// Cuts jobs at multiples of `tile` columns, given the nanoseconds that a column takes with `m` rows. Where that
    /// leaves threads idle, it cuts at multiples of `step` rows, too.
    pub(crate) fn new(
        threads: usize,
        w: Matrix,
        jobs: &[Job<'_>],
        (tile, step): (usize, usize),
        column_ns: impl Fn(usize) -> f64,
    ) -> Tasks {
        let mut before = 0;
        let cuts = jobs.iter().map(|job| {
            let m = job.x.len();
            let worth = (WORTH / column_ns(m).max(0.1)) as usize;
            let most = if threads == 1 { w.n } else { worth };
            let columns = most.next_multiple_of(tile).clamp(tile, w.n.next_multiple_of(tile).max(tile));
            let across = w.n.div_ceil(columns);
            let parts = if threads == 1 || across == 0 || across * jobs.len() >= 4 * threads {
                1
            } else {
                (4 * threads).div_ceil(across * jobs.len()).min(m.div_ceil(2 * step))
            };
            let cut = Cut { before, columns, parts: parts.max(m.div_ceil(MOST_ROWS)).max(1), rows: m };
            before += if m == 0 { 0 } else { across * cut.parts };
            cut
        });
        let mut cuts: Vec<Cut> = cuts.collect();
        cuts.push(Cut { before, columns: tile, parts: 1, rows: 0 });
        Tasks { cuts, n: w.n, step }
    }

    /// How many.
    pub(crate) fn len(&self) -> usize {
        self.cuts.last().map_or(0, |end| end.before)
    }

    /// Task `i`.
    pub(crate) fn get(&self, i: usize) -> Task {
        let job = self.cuts.partition_point(|cut| cut.before <= i) - 1;
        let cut = &self.cuts[job];
        let (across, part) = ((i - cut.before) / cut.parts, (i - cut.before) % cut.parts);
        let first = across * cut.columns;
        let steps = cut.rows.div_ceil(self.step);
        let edge = |part: usize| (steps * part / cut.parts * self.step).min(cut.rows);
        Task { job, columns: first..(first + cut.columns).min(self.n), rows: edge(part)..edge(part + 1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_cover_every_result_once() {
        let rows: Vec<u32> = (0..3000).collect();
        for (n, ms, ns) in [
            (7, vec![1], 1.0),
            (1000, vec![300], 100.0),
            (20, vec![3000], 1.0),
            (33, vec![0, 5, 300, 0], 1e6),
            (0, vec![3], 1.0),
        ] {
            let jobs: Vec<Job<'_>> =
                ms.iter().map(|&m| Job { w: std::ptr::null(), x: &rows[..m], out: &rows[..m] }).collect();
            for threads in [1, 2, 16] {
                let w = Matrix { n, k: 32, row_bytes: 34 };
                let tasks = Tasks::new(threads, w, &jobs, (16, 32), |m| ns * m as f64);
                let mut seen: Vec<Vec<u8>> = ms.iter().map(|m| vec![0; m * n]).collect();
                for i in 0..tasks.len() {
                    let task = tasks.get(i);
                    assert!(task.columns.start.is_multiple_of(16) && task.rows.start.is_multiple_of(32));
                    for r in task.rows.clone() {
                        for c in task.columns.clone() {
                            seen[task.job][r * n + c] += 1;
                        }
                    }
                }
                assert!(seen.iter().flatten().all(|&times| times == 1), "{n} {ms:?} {threads}");
            }
        }
    }
}
