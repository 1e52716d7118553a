//! Passes: changes of a captured graph after which it computes the same bits in fewer operations.

mod add_rms_norm;
mod dead;
mod edit;
mod fold;
mod fuse_pointwise;
mod group_matmuls;
mod matmul_epilogue;
mod merge;
pub(super) mod reflect_pad;

use super::capture::Captured;
use crate::executor::HybridExecutor;
use rustorch_core::Result;

/// A change of a graph that leaves the bits of its results as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// Operations whose results nobody reads are dropped, unless they may fail.
    Dead,
    /// What depends on no input, state or tensor of somebody else (masks, positions, numbers) is computed once: up to 64 MiB.
    Fold,
    /// Of equal operations on equal arguments one is left.
    Merge,
    /// The bias that is added to a matmul's result, and the function that is applied to it, become part of the matmul.
    MatMulEpilogue,
    /// A sum and the RMS norm of it become one operation, which reads memory once.
    AddRmsNorm,
    /// Pointwise operations, each of which reads what the one before returns, become one that reads and writes memory once. Not of 16-bit
    /// floats, which would be rounded once less.
    FusePointwise,
    /// Matmuls with block-quantized weights that have one left operand follow one another, so that a device rounds it once.
    GroupMatMuls,
}

impl Pass {
    /// All of them, in the order in which they help each other.
    pub const ALL: &[Pass] = &[
        Pass::Dead,
        Pass::Fold,
        Pass::Merge,
        Pass::MatMulEpilogue,
        Pass::AddRmsNorm,
        Pass::FusePointwise,
        Pass::GroupMatMuls,
    ];

    /// The name, as options give it.
    pub const fn name(self) -> &'static str {
        match self {
            Pass::Dead => "dead",
            Pass::Fold => "fold",
            Pass::Merge => "merge",
            Pass::MatMulEpilogue => "matmul_epilogue",
            Pass::AddRmsNorm => "add_rms_norm",
            Pass::FusePointwise => "fuse_pointwise",
            Pass::GroupMatMuls => "group_matmuls",
        }
    }

    /// Changes a graph for the devices that compute it.
    pub(super) fn run(self, captured: &mut Captured, executor: &HybridExecutor) -> Result<()> {
        match self {
            Pass::Dead => dead::run(captured),
            Pass::Fold => fold::run(captured, executor)?,
            Pass::Merge => merge::run(captured),
            Pass::MatMulEpilogue => matmul_epilogue::run(captured, executor),
            Pass::AddRmsNorm => add_rms_norm::run(captured, executor),
            Pass::FusePointwise => fuse_pointwise::run(captured, executor)?,
            Pass::GroupMatMuls => group_matmuls::run(captured),
        }
        if cfg!(debug_assertions) {
            captured.graph.verify()?;
        }
        Ok(())
    }
}
