//! The devices of this build on this machine.

use rustorch_core::{Backend, Device, DeviceType, Error, Result};
use rustorch_cpu::CpuBackend;
use rustorch_runtime::{Environment, HybridExecutor};
use std::sync::Arc;

/// What became of one kind of device.
pub enum Found {
    /// It is here.
    Present(Arc<dyn Backend>),
    /// It is not.
    Absent {
        /// The kind, as `--backend` names it.
        family: &'static str,
        /// Why, and what would help.
        reason: &'static str,
    },
}

/// Looks for every kind of device; `threads` compute on the processor (one for each core if not given).
pub fn discover(threads: Option<usize>) -> Vec<Found> {
    let threads = threads.or_else(|| std::thread::available_parallelism().ok().map(usize::from)).unwrap_or(1);
    let families = ["cuda", "metal", "vulkan", "opencl", "webgpu", "coreml"];
    let absent = families.map(|family| Found::Absent { family, reason: "this version of RusTorch has no such device" });
    let cpu: Arc<dyn Backend> = Arc::new(CpuBackend::new(threads));
    std::iter::once(Found::Present(cpu)).chain(absent).collect()
}

/// An executor for what a person asks for. `threads` and the environment (`RUSTORCH_THREADS`, `RUSTORCH_DEVICES`,
/// `RUSTORCH_DISABLE_GPU`) say how; an explicit argument wins over the environment.
///
/// # Errors
/// If this build or machine lacks the device; the error lists what exists.
pub fn executor(wanted: DeviceType, threads: Option<usize>) -> Result<HybridExecutor> {
    let (environment, _) = Environment::read();
    let present: Vec<Arc<dyn Backend>> = discover(threads.or(environment.threads))
        .into_iter()
        .filter_map(|found| match found {
            Found::Present(backend) => Some(backend),
            Found::Absent { .. } => None,
        })
        .collect();
    let lacking = |what: &dyn std::fmt::Display| {
        let mut names = vec!["auto".to_owned(), "hybrid".to_owned()];
        names.extend(present.iter().map(|backend| backend.device().to_string()));
        Error::argument("backend", format!("`{what}` is not available here; there is {}", names.join(", ")))
    };
    let chain: Option<Vec<Device>> = match wanted {
        DeviceType::Auto | DeviceType::Hybrid => None,
        DeviceType::Only(device) if present.iter().any(|b| b.device() == device) => Some(vec![device]),
        DeviceType::Only(device) => return Err(lacking(&device)),
        DeviceType::HybridF32 => return Err(lacking(&wanted)),
    };
    let mut builder = HybridExecutor::builder().environment(&environment);
    if let Some(chain) = chain {
        builder = builder.chain(chain);
    }
    for backend in &present {
        builder = builder.backend(Arc::clone(backend));
    }
    builder.build()
}
