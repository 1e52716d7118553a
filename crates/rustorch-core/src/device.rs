//! Devices: where bytes are, and what a person may ask for.

use crate::Error;
use std::fmt;
use std::str::FromStr;

/// A place that holds bytes and runs operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Device {
    /// The processor and its memory.
    Cpu,
    /// The NVIDIA GPU of this index, by CUDA.
    Cuda(u8),
    /// The Apple GPU of this index, by Metal.
    Metal(u8),
    /// The GPU of this index, by Vulkan.
    Vulkan(u8),
    /// The GPU of this index, by Direct3D 12.
    Dx12(u8),
    /// The device of this index, by OpenCL.
    OpenCL(u8),
    /// The browser's GPU.
    WebGpu,
    /// The Apple neural engine and its companions, by Core ML.
    CoreML(u8),
}

impl Device {
    /// The name without index, as in `RUSTORCH_DEVICES` and `--backend`.
    pub const fn family(self) -> &'static str {
        match self {
            Device::Cpu => "cpu",
            Device::Cuda(_) => "cuda",
            Device::Metal(_) => "metal",
            Device::Vulkan(_) => "vulkan",
            Device::Dx12(_) => "dx12",
            Device::OpenCL(_) => "opencl",
            Device::WebGpu => "webgpu",
            Device::CoreML(_) => "coreml",
        }
    }

    /// The index among devices of the family.
    pub const fn index(self) -> u8 {
        match self {
            Device::Cpu | Device::WebGpu => 0,
            Device::Cuda(i)
            | Device::Metal(i)
            | Device::Vulkan(i)
            | Device::Dx12(i)
            | Device::OpenCL(i)
            | Device::CoreML(i) => i,
        }
    }

    /// Whether this is the processor.
    #[inline]
    pub const fn is_cpu(self) -> bool {
        matches!(self, Device::Cpu)
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Cpu | Device::WebGpu => f.pad(self.family()),
            _ => f.pad(&format!("{}:{}", self.family(), self.index())),
        }
    }
}

/// What a person asks for: one device, or a way of choosing among those present.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeviceType {
    /// Whatever is fastest for each operation, by measured cost.
    Auto,
    /// This device first; the rest of the chain where it declines.
    Only(Device),
    /// Every device of the chain together, in the precision of the data.
    Hybrid,
    /// Every device of the chain together, everything computed in `f32`.
    HybridF32,
}

impl DeviceType {
    /// Every accepted name, for help texts and errors.
    pub const NAMES: &'static [&'static str] = &[
        "auto",
        "cpu",
        "cuda",
        "metal",
        "vulkan",
        "dx12",
        "opencl",
        "webgpu",
        "coreml",
        "hybrid",
        "hybrid-f32",
    ];
}

impl fmt::Display for DeviceType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceType::Auto => f.pad("auto"),
            DeviceType::Only(device) => device.fmt(f),
            DeviceType::Hybrid => f.pad("hybrid"),
            DeviceType::HybridF32 => f.pad("hybrid-f32"),
        }
    }
}

impl FromStr for Device {
    type Err = Error;

    /// Parses `cpu`, `cuda`, `cuda:1`, …, ignoring ASCII case.
    fn from_str(text: &str) -> Result<Device, Error> {
        let lower = text.trim().to_ascii_lowercase();
        let (family, index) = match lower.split_once(':') {
            Some((family, index)) => (family, index.parse::<u8>().ok()),
            None => (lower.as_str(), Some(0)),
        };
        let device = index.and_then(|i| {
            Some(match family {
                "cpu" if i == 0 => Device::Cpu,
                "webgpu" if i == 0 => Device::WebGpu,
                "cuda" => Device::Cuda(i),
                "metal" => Device::Metal(i),
                "vulkan" => Device::Vulkan(i),
                "dx12" => Device::Dx12(i),
                "opencl" => Device::OpenCL(i),
                "coreml" => Device::CoreML(i),
                _ => return None,
            })
        });
        device.ok_or_else(|| {
            Error::argument(
                "device",
                format!(
                    "`{text}` names no device; use one of {} (an index as in `cuda:1`)",
                    DeviceType::NAMES.join(", ")
                ),
            )
        })
    }
}

impl FromStr for DeviceType {
    type Err = Error;

    /// Parses a name of [`DeviceType::NAMES`], with an index where that makes sense, ignoring ASCII case.
    fn from_str(text: &str) -> Result<DeviceType, Error> {
        Ok(match text.trim().to_ascii_lowercase().as_str() {
            "auto" => DeviceType::Auto,
            "hybrid" => DeviceType::Hybrid,
            "hybrid-f32" | "hybrid_f32" => DeviceType::HybridF32,
            other => DeviceType::Only(other.parse()?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for name in DeviceType::NAMES {
            let parsed: DeviceType = name.parse().unwrap();
            let again: DeviceType = parsed.to_string().parse().unwrap();
            assert_eq!(parsed, again);
        }
        assert_eq!("CUDA:3".parse::<Device>().unwrap(), Device::Cuda(3));
        for bad in ["", "gpu", "cuda:", "cuda:x", "cuda:300", "cpu:1"] {
            assert!(bad.parse::<DeviceType>().is_err(), "{bad}");
        }
    }
}
