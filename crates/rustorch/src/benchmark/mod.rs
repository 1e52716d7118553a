//! What devices can do: a handful of operations and transfers on each, as time, rate and share of the device's limit.
//!
//! A device's limits are measured in the same run: the best memory rate of copying, adding and filling large tensors,
//! the best arithmetic rate of large matmuls for each dtype, the best rate of its link, and what the device's own
//! calibration says where that is more; a benchmark that does better raises them. So a share says how near an operation comes to the best that was seen of the
//! device, not to its data sheet.
//!
//! Sizes follow the device: each benchmark grows until one run takes a few milliseconds or memory is short.

mod case;
mod chart;
mod measure;
mod report;

pub use report::{Bound, Limits, Measurement, Outcome, Rate, Report, Result as CaseResult};

use crate::devices::{DiscoveredDevice, discover};
use measure::Bench;
use rustorch_core::{Backend, Device, Result};
use rustorch_runtime::{HybridExecutor, Placement};
use std::sync::Arc;
use std::time::Duration;

/// How long to measure.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The time for one measurement, warm-up and preparation excluded.
    pub time: Duration,
    /// A benchmark stops growing where one run takes so long.
    pub enough: Duration,
    /// The most memory that one benchmark takes on a device, in bytes.
    pub memory: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options { time: Duration::from_millis(250), enough: Duration::from_millis(4), memory: 1 << 30 }
    }
}

/// Measures every device that [`discover`] finds; those named in `only`, if any are.
/// `progress` is told what is going on.
///
/// # Errors
/// If an executor cannot be built. What a device declines or fails at is part of the report.
pub fn run(only: &[Device], options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Vec<Report>> {
    let present = discover().into_iter().filter_map(|found| match found {
        DiscoveredDevice::Present(backend) => Some(backend),
        DiscoveredDevice::Absent { .. } => None,
    });
    let wanted = present.filter(|backend| only.is_empty() || only.contains(&backend.device()));
    wanted.map(|backend| device(&backend, options, progress)).collect()
}

/// Measures one device, found or made elsewhere. The CPU makes the data.
///
/// # Errors
/// If an executor cannot be built. What the device declines or fails at is part of the report.
pub fn device(
    backend: &Arc<dyn Backend>,
    options: &Options,
    progress: &mut dyn FnMut(&str),
) -> Result<Report> {
    let executor = HybridExecutor::builder()
        .backend(Arc::clone(backend))
        .fallback_order([backend.device()])
        .placement(Placement::Require(backend.device()))
        .build()?;
    let bench = Bench::new(&executor, &**backend, options);
    let name = &backend.capability().name;
    let mut tell = |what: &str| progress(&format!("{} ({name}): {what}", backend.device()));
    tell("limits");
    let mut limits = case::limits(&bench);
    let mut measured = Vec::new();
    for family in case::FAMILIES {
        tell(family.name);
        measured.push((family, case::measure(&bench, family, &mut limits)));
    }
    // Compared only now: what is measured may itself be the best.
    let mut results: Vec<CaseResult> =
        measured.into_iter().map(|(family, raw)| case::rated(family, raw, &limits)).collect();
    tell("transfers");
    let (transfers, limits) = case::transfers(&bench, limits);
    results.extend(transfers);
    Ok(Report { device: backend.device(), name: name.clone(), limits, results })
}
