//! The devices of this build on this machine.

use rustorch_core::{Backend, Device, DeviceType, Error, Result};
use rustorch_cpu::CpuBackend;
use rustorch_kernels::Engine;
use rustorch_runtime::{Builder, DeviceChoice, Environment, HybridExecutor, Target};
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
        reason: String,
    },
}

impl Found {
    /// Whether it is a device of a family.
    fn is_of(&self, family: &str) -> bool {
        matches!(self, Found::Present(backend) if backend.device().family() == family)
    }
}

/// Every kind of device besides the processor, as `--backend` names it.
const FAMILIES: [&str; 7] = ["cuda", "metal", "vulkan", "dx12", "opencl", "webgpu", "coreml"];

/// Looks for every kind of device; `threads` compute on the processor (one for each core if not given).
pub fn discover(threads: Option<usize>) -> Vec<Found> {
    find(threads, &|_, _, _| true)
}

/// Whether devices are wanted: of a family, those that are the processor in disguise or others, after what was found so far.
type Wanted<'a> = &'a dyn Fn(&str, bool, &[Found]) -> bool;

/// Opens the processor, and the devices that are wanted.
fn find(threads: Option<usize>, wanted: Wanted<'_>) -> Vec<Found> {
    let threads = threads.or_else(|| std::thread::available_parallelism().ok().map(usize::from)).unwrap_or(1);
    let cpu: Arc<dyn Backend> = Arc::new(CpuBackend::new(threads));
    let mut found = vec![Found::Present(cpu)];
    for family in FAMILIES {
        let wanted = |software: bool| wanted(family, software, &found);
        if !wanted(false) && !wanted(true) {
            continue;
        }
        let mut reasons = Vec::new();
        let mut devices = match family {
            "vulkan" | "metal" | "dx12" => wgpu(family, &wanted, &mut reasons),
            "opencl" => opencl(&wanted, &mut reasons),
            "cuda" => cuda(&mut reasons),
            _ => {
                reasons.push("this version of RusTorch has no such device".to_owned());
                Vec::new()
            }
        };
        if devices.is_empty() {
            let reason = if reasons.is_empty() { "there is none".to_owned() } else { reasons.join("; ") };
            found.push(Found::Absent { family, reason });
        }
        found.append(&mut devices);
    }
    found
}

/// Devices of Vulkan, Metal or Direct3D 12.
fn wgpu(family: &str, wanted: &dyn Fn(bool) -> bool, reasons: &mut Vec<String>) -> Vec<Found> {
    let is_here = match family {
        "metal" => cfg!(target_vendor = "apple"),
        "dx12" => cfg!(windows),
        _ => !cfg!(target_vendor = "apple"),
    };
    if !is_here {
        reasons.push(format!("{family} is not for this system"));
        return Vec::new();
    }
    // Without any adapter there is none of this family, either.
    let mut adapters = rustorch_wgpu::adapters().unwrap_or_default();
    adapters.retain(|adapter| adapter.device().family() == family);
    if adapters.is_empty() {
        reasons.push(rustorch_wgpu::why_none(family));
    }
    let opened = adapters.iter().filter(|adapter| wanted(adapter.is_software())).map(|adapter| {
        let driver = adapter.open().map_err(|error| error.to_string())?;
        Engine::new(driver).map_err(|fault| fault.to_string())
    });
    opened.filter_map(|engine| present(engine, reasons)).collect()
}

/// Devices of OpenCL.
fn opencl(wanted: &dyn Fn(bool) -> bool, reasons: &mut Vec<String>) -> Vec<Found> {
    let found = rustorch_opencl::discover();
    reasons.extend(found.missing);
    let software = |kind| kind == rustorch_opencl::Kind::Cpu;
    let devices = found.devices.iter().filter(|device| wanted(software(device.kind())));
    let opened = devices.map(|device| {
        let driver = device.open().map_err(|fault| fault.to_string())?;
        Engine::new(driver).map_err(|fault| fault.to_string())
    });
    opened.filter_map(|engine| present(engine, reasons)).collect()
}

/// Devices of CUDA.
fn cuda(reasons: &mut Vec<String>) -> Vec<Found> {
    let found = rustorch_cuda::discover();
    reasons.extend(found.missing);
    let opened = found.devices.iter().map(|device| {
        let driver = device.open().map_err(|fault| fault.to_string())?;
        Engine::new(driver).map_err(|fault| fault.to_string())
    });
    opened.filter_map(|engine| present(engine, reasons)).collect()
}

fn present<B: Backend + 'static>(backend: Result<B, String>, reasons: &mut Vec<String>) -> Option<Found> {
    match backend {
        Ok(backend) => Some(Found::Present(Arc::new(backend))),
        Err(reason) => {
            reasons.push(reason);
            None
        }
    }
}

/// An executor for what a person asks for, over every device that has a part in it.
///
/// `threads` compute on the processor; if not given, `RUSTORCH_THREADS` says, else there is one for each core.
/// `RUSTORCH_DEVICES` and `RUSTORCH_DISABLE_GPU` narrow the devices down. Devices that are the processor in disguise, such as
/// software renderers, take part where they are named only; so does Direct3D 12 where there is Vulkan.
///
/// # Errors
/// If this build or machine lacks the device, which the error answers with those that exist, or if the environment makes
/// no sense.
pub fn executor(wanted: DeviceType, threads: Option<usize>) -> Result<HybridExecutor> {
    Ok(target(wanted, threads)?.executor)
}

/// As [`executor`], with the device that the wish means and the precision in which it wants to compute.
///
/// # Errors
/// As there.
pub fn target(wanted: DeviceType, threads: Option<usize>) -> Result<Target> {
    let environment = Environment::read()?;
    let named = |family: &str| match (&environment.devices, wanted) {
        (Some(devices), _) => devices.iter().any(|choice| family_of(choice) == family),
        (None, DeviceType::Only(device)) => device.family() == family,
        (None, _) => false,
    };
    let taken = |family: &str, software: bool, found: &[Found]| {
        let alone = wanted == DeviceType::Only(Device::Cpu) || environment.disable_gpu;
        // Opening a GPU takes a while, and these are the same ones.
        let again = family == "dx12" && found.iter().any(|found| found.is_of("vulkan"));
        !alone && (named(family) || environment.devices.is_none() && !software && !again)
    };
    let mut absent = Vec::new();
    let mut present: Vec<Arc<dyn Backend>> = Vec::new();
    for found in find(threads.or(environment.threads), &taken) {
        match found {
            Found::Present(backend) => present.push(backend),
            Found::Absent { family, reason } => absent.push((family, reason)),
        }
    }
    let names: Vec<String> = present.iter().map(|backend| backend.device().to_string()).collect();
    let executor = present
        .into_iter()
        .fold(HybridExecutor::builder(), Builder::backend)
        .environment(&environment)
        .build()?;
    match executor.resolve(wanted) {
        Ok(target) => Ok(target),
        Err(_) => {
            let why = match wanted {
                DeviceType::Only(_) if environment.disable_gpu => {
                    Some("RUSTORCH_DISABLE_GPU keeps to the processor")
                }
                DeviceType::Only(device) => absent
                    .iter()
                    .find(|(family, _)| *family == device.family())
                    .map(|(_, reason)| reason.as_str())
                    .or_else(|| environment.devices.as_ref().map(|_| "RUSTORCH_DEVICES leaves it out")),
                _ => None,
            };
            let why = why.map_or(String::new(), |reason| format!(" ({reason})"));
            let names = names.join(", ");
            Err(Error::argument(
                "backend",
                format!("`{wanted}` is not available here{why}; there is auto, hybrid, hybrid-f32, {names}"),
            ))
        }
    }
}

/// Where a model of so many bytes of weights generates fastest, by measurement: each token reads every weight once, and takes
/// some hundred launches.
///
/// The processor where there is nothing else, without measuring anything.
pub fn fastest_for_weights(executor: &HybridExecutor, bytes: u64, launches: usize) -> Device {
    let devices: Vec<Device> = executor.chain().collect();
    if devices.len() < 2 {
        return Device::Cpu;
    }
    let token_us = |device: &Device| match executor.cost_model(*device) {
        Ok(cost) => launches as f64 * cost.launch_us + 1e6 * bytes as f64 / cost.bandwidth,
        Err(_) => f64::INFINITY,
    };
    let fastest = devices.into_iter().min_by(|a, b| token_us(a).total_cmp(&token_us(b)));
    fastest.unwrap_or(Device::Cpu)
}

fn family_of(choice: &DeviceChoice) -> &str {
    match choice {
        DeviceChoice::One(device) => device.family(),
        DeviceChoice::Family(family) => family,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
