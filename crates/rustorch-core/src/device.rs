//! Devices, and the names by which a person asks for them.

mod kind;

pub use kind::{DeviceKind, KindInfo};

use crate::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// A place that holds bytes and runs operations: a kind of device and an index among those of the kind.
///
/// ```
/// use rustorch_core::{Device, DeviceKind};
///
/// let device: Device = "vulkan:1".parse()?;
/// assert_eq!(device, Device::vulkan(1));
/// assert_eq!((device.kind(), device.index()), (DeviceKind::VULKAN, 1));
/// assert_eq!(Device::CPU.to_string(), "cpu");
/// # Ok::<(), rustorch_core::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Device {
    kind: DeviceKind,
    index: u8,
}

impl Device {
    /// The CPU and its memory.
    pub const CPU: Device = Device::new(DeviceKind::CPU, 0);

    /// The device of this kind and index.
    pub const fn new(kind: DeviceKind, index: u8) -> Device {
        Device { kind, index }
    }

    /// Core ML.
    pub const COREML: Device = Device::new(DeviceKind::COREML, 0);

    /// The NVIDIA GPU of this index, by CUDA.
    pub const fn cuda(index: u8) -> Device {
        Device::new(DeviceKind::CUDA, index)
    }

    /// The Apple GPU of this index, by Metal.
    pub const fn metal(index: u8) -> Device {
        Device::new(DeviceKind::METAL, index)
    }

    /// The GPU of this index, by Vulkan.
    pub const fn vulkan(index: u8) -> Device {
        Device::new(DeviceKind::VULKAN, index)
    }

    /// The GPU of this index, by Direct3D 12.
    pub const fn dx12(index: u8) -> Device {
        Device::new(DeviceKind::DX12, index)
    }

    /// The device of this index, by OpenCL.
    pub const fn opencl(index: u8) -> Device {
        Device::new(DeviceKind::OPENCL, index)
    }

    /// What kind of device it is.
    #[inline]
    pub const fn kind(self) -> DeviceKind {
        self.kind
    }

    /// The index among devices of the kind.
    #[inline]
    pub const fn index(self) -> u8 {
        self.index
    }

    /// Whether this is the CPU.
    #[inline]
    pub const fn is_cpu(self) -> bool {
        self.kind.is_cpu()
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let KindInfo { name, indexed, .. } = self.kind.info();
        match indexed {
            true => f.pad(&format!("{name}:{}", self.index)),
            false => f.pad(name),
        }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Device {
    type Err = Error;

    /// Parses `cpu`, `cuda`, `cuda:1` and the like by the names of all [kinds](DeviceKind::all), ignoring ASCII case.
    fn from_str(text: &str) -> Result<Device> {
        let lower = text.trim().to_ascii_lowercase();
        let (name, index) = match lower.split_once(':') {
            Some((name, index)) => (name, index.parse::<u8>().ok()),
            None => (lower.as_str(), Some(0)),
        };
        let kind = DeviceKind::from_name(name);
        match (kind, index) {
            (Some(kind), Some(index)) if index == 0 || kind.info().indexed => Ok(Device::new(kind, index)),
            _ => Err(Error::argument(
                "device",
                format!(
                    "`{text}` names no device; use one of {} (an index as in `cuda:1`)",
                    DeviceType::names().join(", ")
                ),
            )),
        }
    }
}

/// What names a device: a [`Device`], or text such as `"vulkan:0"`.
pub trait IntoDevice {
    /// The device.
    ///
    /// # Errors
    /// If the text names no kind of device.
    fn into_device(self) -> Result<Device>;
}

impl IntoDevice for Device {
    fn into_device(self) -> Result<Device> {
        Ok(self)
    }
}

impl IntoDevice for &str {
    fn into_device(self) -> Result<Device> {
        self.parse()
    }
}

/// What a person asks for: one device, or a way of choosing among those present.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeviceType {
    /// The device on which the weights of a model are read fastest, by measurement; operations run where their operands are.
    Auto,
    /// This device first; the rest of the fallback order where it declines.
    Only(Device),
    /// All devices of the fallback order together: each operation runs where it is cheapest, by measured cost.
    Hybrid,
    /// Core ML for regions of captured graphs; operations outside them on this device where it can, else down the fallback order, or where
    /// they are cheapest if none is named.
    CoreMlHybrid(Option<Device>),
    /// Matmuls and norms by Metal, convolutions and what is around them by Core ML, the rest down the fallback order.
    MacHybrid,
}

const CORE_ML_HYBRID: &str = "coreml-hybrid";
const MAC_HYBRID: &str = "mac-hybrid";

impl DeviceType {
    /// Every accepted name, for help texts and errors: `auto`, the kinds of devices, `hybrid` and the like.
    pub fn names() -> Vec<&'static str> {
        let kinds = DeviceKind::all().map(DeviceKind::name);
        ["auto"].into_iter().chain(kinds).chain(["hybrid", CORE_ML_HYBRID, MAC_HYBRID]).collect()
    }

    /// The devices without which it makes no sense.
    pub fn needs(self) -> Vec<Device> {
        match self {
            DeviceType::Auto | DeviceType::Hybrid => Vec::new(),
            DeviceType::Only(device) => vec![device],
            DeviceType::CoreMlHybrid(next) => [Device::COREML].into_iter().chain(next).collect(),
            DeviceType::MacHybrid => vec![Device::COREML, Device::metal(0)],
        }
    }
}

impl fmt::Display for DeviceType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceType::Auto => f.pad("auto"),
            DeviceType::Only(device) => device.fmt(f),
            DeviceType::Hybrid => f.pad("hybrid"),
            DeviceType::CoreMlHybrid(None) => f.pad(CORE_ML_HYBRID),
            DeviceType::CoreMlHybrid(Some(next)) => f.pad(&format!("{CORE_ML_HYBRID}:{next}")),
            DeviceType::MacHybrid => f.pad(MAC_HYBRID),
        }
    }
}

impl FromStr for DeviceType {
    type Err = Error;

    /// Parses one of [`names`](DeviceType::names), with an index where that makes sense, and `coreml-hybrid:metal`, which names the device behind
    /// Core ML; ignoring ASCII case.
    fn from_str(text: &str) -> Result<DeviceType> {
        let lower = text.trim().to_ascii_lowercase();
        if let Some(next) = lower.strip_prefix(CORE_ML_HYBRID).and_then(|rest| rest.strip_prefix(':')) {
            return Ok(DeviceType::CoreMlHybrid(Some(next.parse()?)));
        }
        Ok(match lower.as_str() {
            "auto" => DeviceType::Auto,
            "hybrid" => DeviceType::Hybrid,
            CORE_ML_HYBRID => DeviceType::CoreMlHybrid(None),
            MAC_HYBRID => DeviceType::MacHybrid,
            other => DeviceType::Only(other.parse()?),
        })
    }
}
