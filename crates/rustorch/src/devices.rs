//! The devices of this build on this machine.

use rustorch_core::{Backend, DeviceType, Error, Result};
use rustorch_cpu::CpuBackend;
use rustorch_runtime::{Builder, Environment, HybridExecutor};
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
    let absent = families
        .map(|family| Found::Absent { family, reason: "this version of RusTorch has no such device" });
    let cpu: Arc<dyn Backend> = Arc::new(CpuBackend::new(threads));
    std::iter::once(Found::Present(cpu)).chain(absent).collect()
}

/// An executor for what a person asks for, over every device found.
///
/// `threads` compute on the processor; if not given, `RUSTORCH_THREADS` says, else there is one for each core.
/// `RUSTORCH_DEVICES` and `RUSTORCH_DISABLE_GPU` narrow the devices down.
///
/// # Errors
/// If this build or machine lacks the device, which the error answers with those that exist, or if the environment makes
/// no sense.
pub fn executor(wanted: DeviceType, threads: Option<usize>) -> Result<HybridExecutor> {
    let environment = Environment::read()?;
    let present: Vec<Arc<dyn Backend>> = discover(threads.or(environment.threads))
        .into_iter()
        .filter_map(|found| match found {
            Found::Present(backend) => Some(backend),
            Found::Absent { .. } => None,
        })
        .collect();
    let names: Vec<String> = present.iter().map(|backend| backend.device().to_string()).collect();
    let executor = present
        .into_iter()
        .fold(HybridExecutor::builder(), Builder::backend)
        .environment(&environment)
        .build()?;
    match executor.resolve(wanted) {
        Ok(target) => Ok(target.executor),
        Err(_) => Err(Error::argument(
            "backend",
            format!(
                "`{wanted}` is not available here; there is auto, hybrid, hybrid-f32, {}",
                names.join(", ")
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustorch_core::Device;

    #[test]
    fn every_name_gives_an_executor_or_an_error_that_lists_what_exists() {
        for name in DeviceType::NAMES {
            match executor(name.parse().unwrap(), Some(1)) {
                Ok(executor) => assert_eq!(executor.chain().last(), Some(Device::Cpu), "{name}"),
                Err(error) => {
                    let text = error.to_string();
                    assert!(text.contains(name) && text.contains("auto, hybrid, hybrid-f32, cpu"), "{text}");
                }
            }
        }
        assert!(executor(DeviceType::Auto, None).is_ok());
        let compute = |wanted| executor(wanted, Some(1)).unwrap().compute();
        assert_eq!(compute(DeviceType::HybridF32), Some(rustorch_core::DType::F32));
        assert_eq!(compute(DeviceType::Hybrid), None);
    }
}
