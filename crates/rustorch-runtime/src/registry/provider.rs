//! Providers, which discover the devices of a kind: those of this workspace, by Cargo features.

use rustorch_core::{Backend, DeviceKind};
use std::sync::Arc;

/// Finds the devices of a kind.
pub struct Provider {
    /// The kind, which may have been [registered](DeviceKind::register).
    pub kind: DeviceKind,
    /// Looks for its devices; called once, when one of them is named first. Opens none.
    pub discover: fn() -> Discovery,
}

/// What a [`Provider`] has found.
#[derive(Default)]
pub struct Discovery {
    /// The devices; the place in the list is the index of the [`Device`](rustorch_core::Device).
    pub devices: Vec<DeviceCandidate>,
    /// Why there are no others: what is missing and how to get it. Sentences for people.
    pub missing: Vec<String>,
}

/// Opens a device, or says why not.
pub(super) type Open = Box<dyn Fn() -> Result<Arc<dyn Backend>, String> + Send + Sync>;

/// A device that can be opened.
pub struct DeviceCandidate {
    pub(super) software: bool,
    pub(super) open: Open,
}

impl DeviceCandidate {
    /// A device that takes part in the fallback order.
    pub fn hardware(
        open: impl Fn() -> Result<Arc<dyn Backend>, String> + Send + Sync + 'static,
    ) -> DeviceCandidate {
        DeviceCandidate { software: false, open: Box::new(open) }
    }

    /// Whether it is a software device, such as a software renderer, which is used only where somebody names it.
    pub fn software(
        open: impl Fn() -> Result<Arc<dyn Backend>, String> + Send + Sync + 'static,
    ) -> DeviceCandidate {
        DeviceCandidate { software: true, ..DeviceCandidate::hardware(open) }
    }
}

/// What became of the search for a device.
pub enum DiscoveredDevice {
    /// It is here.
    Present(Arc<dyn Backend>),
    /// There is none of the kind.
    Absent {
        /// The kind.
        kind: DeviceKind,
        /// Why, and what would help.
        reason: String,
    },
}

/// The providers of this workspace that are compiled in.
pub(super) fn built_in() -> Vec<Provider> {
    vec![
        #[cfg(feature = "coreml")]
        Provider { kind: DeviceKind::COREML, discover: crate::coreml::discover },
        #[cfg(feature = "cuda")]
        Provider { kind: DeviceKind::CUDA, discover: cuda },
        #[cfg(feature = "wgpu")]
        Provider { kind: DeviceKind::METAL, discover: || wgpu(DeviceKind::METAL) },
        #[cfg(feature = "wgpu")]
        Provider { kind: DeviceKind::VULKAN, discover: || wgpu(DeviceKind::VULKAN) },
        #[cfg(feature = "wgpu")]
        Provider { kind: DeviceKind::DX12, discover: || wgpu(DeviceKind::DX12) },
        #[cfg(feature = "opencl")]
        Provider { kind: DeviceKind::OPENCL, discover: opencl },
    ]
}

/// The engine of a driver as a backend.
#[cfg(any(feature = "cuda", feature = "wgpu", feature = "opencl"))]
fn engine<D: rustorch_kernels::Driver + 'static>(
    driver: Result<D, impl std::fmt::Display>,
) -> Result<Arc<dyn Backend>, String> {
    let driver = driver.map_err(|error| error.to_string())?;
    let engine = rustorch_kernels::Engine::new(driver).map_err(|fault| fault.to_string())?;
    Ok(Arc::new(engine))
}

#[cfg(feature = "cuda")]
fn cuda() -> Discovery {
    let found = rustorch_cuda::discover();
    let devices =
        found.devices.into_iter().map(|device| DeviceCandidate::hardware(move || engine(device.open())));
    Discovery { devices: devices.collect(), missing: found.missing }
}

#[cfg(feature = "opencl")]
fn opencl() -> Discovery {
    let found = rustorch_opencl::discover();
    let devices = found.devices.into_iter().map(|device| DeviceCandidate {
        software: device.kind() == rustorch_opencl::Kind::Cpu,
        ..DeviceCandidate::hardware(move || engine(device.open()))
    });
    Discovery { devices: devices.collect(), missing: found.missing }
}

/// Devices of Vulkan, Metal or Direct3D 12.
#[cfg(feature = "wgpu")]
fn wgpu(kind: DeviceKind) -> Discovery {
    let is_here = match kind {
        DeviceKind::METAL => cfg!(target_vendor = "apple"),
        DeviceKind::DX12 => cfg!(windows),
        _ => !cfg!(target_vendor = "apple"),
    };
    if !is_here {
        return Discovery { missing: vec![format!("{kind} is not for this system")], ..Discovery::default() };
    }
    // Without any adapter there is none of this kind, either.
    let mut adapters = rustorch_wgpu::adapters().unwrap_or_default();
    adapters.retain(|adapter| adapter.device().kind() == kind);
    let missing = match adapters.is_empty() {
        true => vec![rustorch_wgpu::why_none(kind.name())],
        false => Vec::new(),
    };
    let devices = adapters.into_iter().map(|adapter| DeviceCandidate {
        software: adapter.is_software(),
        ..DeviceCandidate::hardware(move || engine(adapter.open()))
    });
    Discovery { devices: devices.collect(), missing }
}
