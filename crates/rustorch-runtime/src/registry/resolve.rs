//! From a device name to an executor over the process's devices.

use super::Registry;
use crate::{HybridExecutor, Target};
use rustorch_core::{DeviceType, Error, Result};

/// An executor over the process's devices for what a person asks for.
///
/// `threads` compute on the CPU, as by [`set_cpu_threads`](super::set_cpu_threads). `RUSTORCH_DEVICES` and
/// `RUSTORCH_DISABLE_GPU` narrow the devices down. Software devices, such as software renderers, take part
/// where they are named only.
///
/// # Errors
/// If this build or machine lacks the device, which the error answers with those that exist; if a variable of the environment
/// on which the answer depends makes no sense; or if the CPU computes on another number of threads already.
pub fn executor(wanted: DeviceType, threads: Option<usize>) -> Result<HybridExecutor> {
    Ok(target(wanted, threads)?.executor)
}

/// As [`executor`], with the device that the wish means.
///
/// # Errors
/// As there.
pub fn target(wanted: DeviceType, threads: Option<usize>) -> Result<Target> {
    let registry = Registry::get();
    match threads {
        Some(threads) => registry.set_threads(threads)?,
        // Programs are told what the library only warns of.
        None => _ = registry.environment.threads()?,
    }
    for device in wanted.needs() {
        if let Err(why) = registry.look_for(device)? {
            let present = registry.names().join(", ");
            let why = if wanted == DeviceType::Only(device) { why } else { format!("{device}: {why}") };
            return Err(Error::argument(
                "backend",
                format!("`{wanted}` is not available here ({why}); there is auto, hybrid, {present}"),
            ));
        }
    }
    HybridExecutor::of_registry(registry).resolve(wanted)
}
