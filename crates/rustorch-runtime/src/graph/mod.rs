//! Graphs: recording what a function does ([`Capture`]), and running what was recorded ([`Program`]).

mod by_executor;
mod capture;
mod fallible;
mod guards;
mod memory_plan;
mod on_cpu;
mod passes;
mod program;

pub(crate) use capture::Capture;
pub use capture::Captured;
pub use passes::Pass;
pub use program::Program;
