//! GEMMs split into tasks for threads.

use smallvec::SmallVec;
use std::ops::Range;

/// The GEMMs of a group split into chunks worth a thread's while.
pub(crate) struct Tasks {
    splits: SmallVec<[Split; 2]>,
    n: usize,
    step: usize,
}

struct Split {
    /// Tasks before this GEMM.
    before: usize,
    /// Rows of the GEMMs before it.
    rows_before: usize,
    /// Columns in a task.
    columns: usize,
    /// Parts into which the rows are split.
    parts: usize,
    rows: usize,
}

/// A chunk of a GEMM.
pub(crate) struct Task {
    /// The GEMM's place in the group.
    pub(crate) gemm: usize,
    /// Rows of the GEMMs before it.
    pub(crate) rows_before: usize,
    /// Columns of the result.
    pub(crate) columns: Range<usize>,
    /// Which of the GEMM's rows.
    pub(crate) rows: Range<usize>,
}

/// Rows beyond which a task's intermediate sums leave the caches.
pub(crate) const MOST_ROWS: usize = 1024;
/// Nanoseconds of work worth claiming a task for.
pub(crate) const WORTH: f64 = 10_000.0;

impl Tasks {
    /// Cuts GEMMs of `n` columns and so many `rows` at multiples of `tile` columns, given the nanoseconds that a column takes
    /// with `m` rows. Where that leaves threads idle, it cuts at multiples of `step` rows, too.
    pub(crate) fn new(
        threads: usize,
        n: usize,
        rows: impl ExactSizeIterator<Item = usize>,
        (tile, step): (usize, usize),
        column_ns: impl Fn(usize) -> f64,
    ) -> Tasks {
        let (mut before, mut rows_before) = (0, 0);
        let gemms = rows.len();
        let mut splits: SmallVec<[Split; 2]> = rows
            .map(|m| {
                let worth = (WORTH / column_ns(m).max(0.1)) as usize;
                let most = if threads == 1 { n } else { worth };
                let columns = most.next_multiple_of(tile).clamp(tile, n.next_multiple_of(tile).max(tile));
                let across = n.div_ceil(columns);
                let parts = if threads == 1 || across == 0 || across * gemms >= 4 * threads {
                    1
                } else {
                    (4 * threads).div_ceil(across * gemms).min(m.div_ceil(2 * step))
                };
                let parts = parts.max(m.div_ceil(MOST_ROWS)).max(1);
                let split = Split { before, rows_before, columns, parts, rows: m };
                before += if m == 0 { 0 } else { across * split.parts };
                rows_before += m;
                split
            })
            .collect();
        splits.push(Split { before, rows_before, columns: tile, parts: 1, rows: 0 });
        Tasks { splits, n, step }
    }

    /// How many.
    pub(crate) fn len(&self) -> usize {
        self.splits.last().map_or(0, |end| end.before)
    }

    /// Task `i`.
    pub(crate) fn get(&self, i: usize) -> Task {
        let gemm = self.splits.partition_point(|split| split.before <= i) - 1;
        let split = &self.splits[gemm];
        let (across, part) = ((i - split.before) / split.parts, (i - split.before) % split.parts);
        let first = across * split.columns;
        let steps = split.rows.div_ceil(self.step);
        let edge = |part: usize| (steps * part / split.parts * self.step).min(split.rows);
        Task {
            gemm,
            rows_before: split.rows_before,
            columns: first..(first + split.columns).min(self.n),
            rows: edge(part)..edge(part + 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_cover_every_result_once() {
        for (n, ms, ns) in [
            (7, vec![1], 1.0),
            (1000, vec![300], 100.0),
            (20, vec![3000], 1.0),
            (33, vec![0, 5, 300, 0], 1e6),
            (0, vec![3], 1.0),
        ] {
            for threads in [1, 2, 16] {
                let tasks = Tasks::new(threads, n, ms.iter().copied(), (16, 32), |m| ns * m as f64);
                let mut seen: Vec<Vec<u8>> = ms.iter().map(|m| vec![0; m * n]).collect();
                for i in 0..tasks.len() {
                    let task = tasks.get(i);
                    assert!(task.columns.start.is_multiple_of(16) && task.rows.start.is_multiple_of(32));
                    assert_eq!(task.rows_before, ms[..task.gemm].iter().sum::<usize>());
                    for r in task.rows.clone() {
                        for c in task.columns.clone() {
                            seen[task.gemm][r * n + c] += 1;
                        }
                    }
                }
                assert!(seen.iter().flatten().all(|&times| times == 1), "{n} {ms:?} {threads}");
            }
        }
    }
}
