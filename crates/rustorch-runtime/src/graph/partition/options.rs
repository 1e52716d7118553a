//! Options of a program.

/// How a [`Program`](crate::Program) is made of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProgramOptions {
    /// How often the program is expected to run: what compiling a part of the graph costs has to be saved by as many runs. 1000 by default,
    /// which a program for a batch of text or a training step soon reaches.
    pub expected_runs: u64,
}

impl ProgramOptions {
    /// Sets how often the program is expected to run.
    pub fn expected_runs(self, expected_runs: u64) -> ProgramOptions {
        ProgramOptions { expected_runs }
    }
}

impl Default for ProgramOptions {
    fn default() -> Self {
        ProgramOptions { expected_runs: 1000 }
    }
}
