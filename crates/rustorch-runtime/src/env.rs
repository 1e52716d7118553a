//! Environment variables.

use crate::cost::cache_dir;
use crate::placement::Placement;
use rustorch_core::{Device, DeviceKind, Error, Result};
use std::fmt;
use std::path::PathBuf;

/// A place in a fallback order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceChoice {
    /// This device.
    One(Device),
    /// Every device of the kind that is here, in the order of their indices.
    Kind(DeviceKind),
}

impl DeviceChoice {
    /// Whether it admits a device.
    pub fn admits(self, device: Device) -> bool {
        match self {
            DeviceChoice::One(one) => one == device,
            DeviceChoice::Kind(kind) => kind == device.kind(),
        }
    }
}

impl From<Device> for DeviceChoice {
    fn from(device: Device) -> DeviceChoice {
        DeviceChoice::One(device)
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceChoice::One(device) => device.fmt(f),
            DeviceChoice::Kind(kind) => kind.fmt(f),
        }
    }
}

/// The environment's variables as they were when this was made. Each is understood when it is asked for, so that what makes no
/// sense is the error of whatever depends on it and of nothing else, and kinds of devices may be registered before.
///
/// | variable | meaning |
/// |---|---|
/// | `RUSTORCH_DEVICES` | the fallback order, such as `cuda:1,opencl,cpu`; a name without a number is every device of its kind; the CPU is added at the end where it is missing |
/// | `RUSTORCH_DISABLE_GPU` | `1`: the CPU alone |
/// | `RUSTORCH_PLACEMENT` | the placement policy of the process, as [`Placement`] parses it; `resident` if not given |
/// | `RUSTORCH_THREADS` | on how many threads the CPU computes; by default one for each physical core, and never more than the system runs at once |
/// | `RUSTORCH_CACHE_DIR` | where measurements of devices and compiled programs are kept; see [`cache_dir`](crate::cache_dir) |
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    devices: Option<String>,
    disable_gpu: Option<String>,
    placement: Option<String>,
    threads: Option<String>,
    cache_dir: Option<PathBuf>,
}

impl Environment {
    /// The process's variables.
    pub fn read() -> Environment {
        Environment::from_fn(|name| std::env::var(name).ok())
    }

    /// The same from any source of variables.
    pub fn from_fn(var: impl Fn(&str) -> Option<String>) -> Environment {
        let get = |name: &str| var(name).map(|v| v.trim().to_owned()).filter(|v| !v.is_empty());
        Environment {
            devices: get("RUSTORCH_DEVICES"),
            disable_gpu: get("RUSTORCH_DISABLE_GPU"),
            placement: get("RUSTORCH_PLACEMENT"),
            threads: get("RUSTORCH_THREADS"),
            cache_dir: cache_dir(|name| var(name).map(Into::into)),
        }
    }

    /// `RUSTORCH_DEVICES`: the fallback order, if one is given.
    ///
    /// # Errors
    /// If it names what is no kind of device.
    pub fn devices(&self) -> Result<Option<Vec<DeviceChoice>>> {
        let Some(list) = &self.devices else { return Ok(None) };
        let mut devices = Vec::new();
        for name in list.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            let device =
                name.parse::<Device>().map_err(|error| wrong(format!("RUSTORCH_DEVICES: {error}")))?;
            let choice = match name.contains(':') || device.is_cpu() {
                true => DeviceChoice::One(device),
                false => DeviceChoice::Kind(device.kind()),
            };
            if !devices.contains(&choice) {
                devices.push(choice);
            }
        }
        Ok(Some(devices).filter(|devices| !devices.is_empty()))
    }

    /// `RUSTORCH_DISABLE_GPU`.
    ///
    /// # Errors
    /// If it is neither yes nor no.
    pub fn disable_gpu(&self) -> Result<bool> {
        match self.disable_gpu.as_deref() {
            None | Some("0" | "false") => Ok(false),
            Some("1" | "true") => Ok(true),
            Some(other) => Err(wrong(format!("RUSTORCH_DISABLE_GPU is `{other}`; it takes 0 or 1"))),
        }
    }

    /// `RUSTORCH_PLACEMENT`, if it is given.
    ///
    /// # Errors
    /// If it is no policy.
    pub fn placement(&self) -> Result<Option<Placement>> {
        let parse =
            |text: &String| text.parse().map_err(|error| wrong(format!("RUSTORCH_PLACEMENT: {error}")));
        self.placement.as_ref().map(parse).transpose()
    }

    /// `RUSTORCH_THREADS`, if it is given.
    ///
    /// # Errors
    /// If it is no number from 1 up.
    pub fn threads(&self) -> Result<Option<usize>> {
        let Some(text) = &self.threads else { return Ok(None) };
        match text.parse::<usize>() {
            Ok(n) if n > 0 => Ok(Some(n)),
            _ => Err(wrong(format!("RUSTORCH_THREADS is `{text}`; it takes a number from 1 up"))),
        }
    }

    /// `RUSTORCH_CACHE_DIR`, or the platform's folder.
    pub fn cache_dir(&self) -> Option<PathBuf> {
        self.cache_dir.clone()
    }
}

fn wrong(message: String) -> Error {
    Error::argument("environment", message)
}
