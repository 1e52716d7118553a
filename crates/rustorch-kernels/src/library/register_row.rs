//! Rows that a workgroup has in registers: each thread some runs of elements, read once, by vectors of up to 128 bits.
//!
//! With one row alone, as when a language model generates a token, the time of a kernel is that of a few accesses to memory one
//! after the other. Here all of a thread's are under way at once, and nothing is read a second time.

use crate::Hardware;
use crate::wgsl::KernelParam;
use crate::wgsl::Module;
use crate::wgsl::vectors::{self, VECTOR_BYTES, Vectors};
use rustorch_core::DType;
use std::fmt::Write;

/// The most runs of a thread.
const RUNS: usize = 8;

/// How a workgroup has a row in registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RegisterRow {
    dtype: DType,
    /// Runs of a thread.
    runs: usize,
}

impl RegisterRow {
    /// Invocations of a workgroup.
    pub const THREADS: u32 = 256;

    /// For rows of `len` elements that are contiguous, if the device reduces by shuffles and registers suit the length.
    /// `positions` are those of the elements of all tensors that rows begin with, and the distances of rows.
    pub fn new(
        dtype: DType,
        len: usize,
        mut positions: impl Iterator<Item = usize>,
        hardware: &Hardware,
    ) -> Option<RegisterRow> {
        let (run, threads) = (vectors::run([dtype].into_iter()), RegisterRow::THREADS as usize);
        let runs = len.div_ceil(run * threads).next_power_of_two();
        let suits = hardware.subgroups.is_some()
            && hardware.workgroup >= RegisterRow::THREADS
            && vectors::aligns(hardware)
            && len.is_multiple_of(run)
            // With fewer, most threads of many short rows would have none.
            && len / run >= threads / 2
            && runs <= RUNS
            && positions.all(|at| (at * vectors::bytes(dtype)).is_multiple_of(VECTOR_BYTES));
        suits.then_some(RegisterRow { dtype, runs })
    }

    fn run(&self) -> usize {
        vectors::run([self.dtype].into_iter())
    }

    /// Declares the next buffer.
    pub(crate) fn buffer(
        &self,
        module: &mut Module,
        name: &str,
        writes: bool,
        hardware: &Hardware,
    ) -> Vectors {
        module.vectors(name, self.dtype, self.run(), writes, hardware)
    }

    /// Statements that find the runs of a thread in a row of `len` elements.
    pub(crate) fn find(&self, len: &KernelParam) -> String {
        let (mut text, run) = (String::new(), self.run());
        for j in 0..self.runs {
            let thread = format!("(local + {}u)", j * RegisterRow::THREADS as usize);
            // Without a branch, reading a run does not wait for another.
            let _ = writeln!(
                text,
                "let has{j} = {thread} * {run}u < {len};\nlet run{j} = min({thread} * {run}u, {len} - {run}u);"
            );
        }
        text
    }

    /// Statements that read the runs of a row from element `at` on, of which [`value`](Self::value) then gives the elements.
    pub(crate) fn read(&self, x: &Vectors, variable: &str, at: &str) -> String {
        let read = |j| {
            let variable = format!("{variable}{j}");
            x.declare(&variable) + &x.read(&variable, &format!("{at} + run{j}"))
        };
        (0..self.runs).map(read).collect()
    }

    /// Element `k` of run `j`.
    pub(crate) fn value(&self, x: &Vectors, variable: &str, [j, k]: [usize; 2]) -> String {
        x.value(&format!("{variable}{j}"), k)
    }

    /// Statements for each element that the thread has.
    pub(crate) fn each(&self, statements: impl Fn([usize; 2]) -> String) -> String {
        let of_run = |j| {
            let each: String = (0..self.run()).map(|k| statements([j, k])).collect();
            format!("if has{j} {{\n{each}}}\n")
        };
        (0..self.runs).map(of_run).collect()
    }

    /// Statements that write the runs of a row from element `at` on.
    pub(crate) fn write(&self, y: &Vectors, at: &str, value: impl Fn([usize; 2]) -> String) -> String {
        let write = |j| {
            let values: Vec<String> = (0..self.run()).map(|k| format!("r{k}")).collect();
            let mut text = format!("if has{j} {{\n");
            for (k, name) in values.iter().enumerate() {
                let _ = writeln!(text, "let {name} = {};", value([j, k]));
            }
            text + &y.pack("w", &values) + &y.write("w", &format!("{at} + run{j}")) + "}\n"
        };
        (0..self.runs).map(write).collect()
    }
}
