//! Graphs: recording what a function does ([`Capture`]), and running what was recorded ([`Program`]).

mod by_executor;
mod capture;
mod copies;
mod fallible;
mod guards;
mod memory_plan;
mod on_cpu;
mod partition;
mod passes;
mod prepared;
mod program;
mod regions;
mod state_writes;

pub(crate) use capture::Capture;
pub use capture::Captured;
pub use partition::{
    Crossing, ExplainedNode, ExplainedRegion, OutsideNode, PartitionPlan, ProgramExplanation, ProgramOptions,
    Reason, RegionPlan,
};
pub use passes::Pass;
pub use program::Program;
pub use regions::RegionReport;
