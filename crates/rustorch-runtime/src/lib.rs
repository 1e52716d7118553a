//! The hybrid executor: chooses a device for every operation, falls back, and says why.
//!
//! A [`HybridExecutor`] owns one [`Backend`](rustorch_core::Backend) per device, a caching allocator for each, and a
//! [`Placement`] policy. [`run`](HybridExecutor::run) takes an operation and its operands and returns fresh results;
//! [`run_into`](HybridExecutor::run_into) writes them into views of existing storages.
//!
//! ```
//! use rustorch_core::{BinaryOp, DType, Device, Op, Shape};
//! use rustorch_runtime::HybridExecutor;
//!
//! let exec = HybridExecutor::builder().build()?;
//! let shape = Shape::new([2].as_slice())?;
//! let bytes: Vec<u8> = [1f32, 2.0].iter().flat_map(|x| x.to_ne_bytes()).collect();
//! let a = exec.upload(&bytes, DType::F32, &shape, Device::CPU)?;
//! let sum = exec.run(&Op::Binary(BinaryOp::Add), &[a.operand(), a.operand()])?;
//! let mut out = [0u8; 8];
//! exec.download(&sum[0].operand(), &mut out)?;
//! assert_eq!(f32::from_ne_bytes(out[4..].try_into().unwrap()), 4.0);
//! # Ok::<(), rustorch_core::Error>(())
//! ```

#[cfg(all(feature = "coreml", feature = "wgpu"))]
pub mod assumed;
mod contexts;
#[cfg(feature = "coreml")]
pub mod coreml;
mod cost;
mod device_manager;
mod device_set;
mod device_state;
mod env;
mod executor;
mod explain;
mod fallback;
mod graph;
mod health;
mod memory;
mod placement;
#[cfg(feature = "profile")]
pub mod profile;
mod record;
pub mod registry;
mod scope;
mod storage;
mod sync;
#[doc(hidden)]
pub mod text;
mod transfers;

pub use cost::{Calibration, CostCache, cache_dir, cost_of, measure_again};
pub use device_manager::{ContextOptions, DeviceContext, DeviceInfo, DeviceManager};
pub use env::{DeviceChoice, Environment};
pub use executor::{
    Builder, Estimate, FromOutput, HybridExecutor, OnFault, Operand, Output, OutputVec, Target, TargetDevice,
};
pub use explain::Explanation;
pub use fallback::fallback_order;
pub use graph::{
    Captured, Crossing, ExplainedNode, ExplainedRegion, OutsideNode, PartitionPlan, Pass, Program,
    ProgramExplanation, ProgramOptions, Reason, RegionPlan, RegionReport,
};
pub use health::{Health, OpKey};
pub use memory::{MemoryManager, MemoryStats};
pub use placement::{OpTable, Placement};
#[cfg(feature = "profile")]
pub use profile::{Profile, Profiler};
pub use record::{DeviceCounts, Interval, MemorySample, Record, TransferRecord};
pub use rustorch_core::profile::GpuBenchmarkMetrics;
pub use scope::{
    DefaultDTypeGuard, DeviceGuard, ExecutorGuard, PlacementGuard, default_device, default_dtype, set_device,
    set_placement, with_default_dtype, with_device, with_placement,
};
pub use storage::{NotedWrite, PassiveStorage, Storage};
pub use transfers::{TransferCount, TransferMethod, Transfers};
