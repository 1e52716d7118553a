//! What the environment asks for. Read once, when an executor is built.

use crate::cost::cache_dir;
use rustorch_core::{Device, Error, Result};
use std::fmt;
use std::path::PathBuf;

/// A place in a chain of devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceChoice {
    /// This device.
    One(Device),
    /// Every device of the [family](Device::family) that is here, in the order of their indices.
    Family(&'static str),
}

impl DeviceChoice {
    /// Whether it admits a device.
    pub fn admits(self, device: Device) -> bool {
        match self {
            DeviceChoice::One(one) => one == device,
            DeviceChoice::Family(family) => family == device.family(),
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
            DeviceChoice::Family(family) => f.pad(family),
        }
    }
}

/// Wishes from environment variables.
///
/// | variable | meaning |
/// |---|---|
/// | `RUSTORCH_DEVICES` | the chain of devices, such as `cuda:1,opencl,cpu`; a name without a number is every device of its kind; the processor is added at the end where it is missing |
/// | `RUSTORCH_DISABLE_GPU` | `1`: the processor alone |
/// | `RUSTORCH_THREADS` | how many threads the processor's engine uses |
/// | `RUSTORCH_CACHE_DIR` | where measurements of devices are kept; see [`cache_dir`](crate::cache_dir) |
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// `RUSTORCH_DEVICES`.
    pub devices: Option<Vec<DeviceChoice>>,
    /// `RUSTORCH_DISABLE_GPU`.
    pub disable_gpu: bool,
    /// `RUSTORCH_THREADS`.
    pub threads: Option<usize>,
    /// `RUSTORCH_CACHE_DIR`, or the platform's folder.
    pub cache_dir: Option<PathBuf>,
}

impl Environment {
    /// Reads the process's variables.
    ///
    /// # Errors
    /// If one makes no sense; the error names it and says what it takes.
    pub fn read() -> Result<Environment> {
        Environment::parse(|name| std::env::var(name).ok())
    }

    /// The same from any source of variables.
    pub fn parse(var: impl Fn(&str) -> Option<String>) -> Result<Environment> {
        const NAME: &str = "environment";
        let get = |name: &str| var(name).map(|v| v.trim().to_owned()).filter(|v| !v.is_empty());
        let mut environment = Environment::default();
        if let Some(list) = get("RUSTORCH_DEVICES") {
            let mut devices = Vec::new();
            for name in list.split(',').map(str::trim).filter(|name| !name.is_empty()) {
                let device = name
                    .parse::<Device>()
                    .map_err(|error| Error::argument(NAME, format!("RUSTORCH_DEVICES: {error}")))?;
                let choice = match name.contains(':') || device.is_cpu() {
                    true => DeviceChoice::One(device),
                    false => DeviceChoice::Family(device.family()),
                };
                if !devices.contains(&choice) {
                    devices.push(choice);
                }
            }
            environment.devices = Some(devices).filter(|d| !d.is_empty());
        }
        environment.disable_gpu = match get("RUSTORCH_DISABLE_GPU").as_deref() {
            None | Some("0" | "false") => false,
            Some("1" | "true") => true,
            Some(other) => {
                let message = format!("RUSTORCH_DISABLE_GPU is `{other}`; it takes 0 or 1");
                return Err(Error::argument(NAME, message));
            }
        };
        if let Some(text) = get("RUSTORCH_THREADS") {
            environment.threads = match text.parse::<usize>() {
                Ok(n) if n > 0 => Some(n),
                _ => {
                    let message = format!("RUSTORCH_THREADS is `{text}`; it takes a number from 1 up");
                    return Err(Error::argument(NAME, message));
                }
            };
        }
        environment.cache_dir = cache_dir(|name| var(name).map(Into::into));
        Ok(environment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(vars: &[(&str, &str)]) -> Result<Environment> {
        Environment::parse(|name| vars.iter().find(|(n, _)| *n == name).map(|(_, v)| v.to_string()))
    }

    #[test]
    fn wishes_are_read() {
        assert_eq!(parse(&[]).unwrap(), Environment::default());
        let env = parse(&[
            ("RUSTORCH_DEVICES", " cuda:1, OpenCL, cpu,cuda:1 "),
            ("RUSTORCH_THREADS", "3"),
            ("RUSTORCH_CACHE_DIR", "/cache"),
            ("RUSTORCH_DISABLE_GPU", "1"),
        ]);
        assert_eq!(
            env.unwrap(),
            Environment {
                devices: Some(vec![
                    DeviceChoice::One(Device::Cuda(1)),
                    DeviceChoice::Family("opencl"),
                    DeviceChoice::One(Device::Cpu)
                ]),
                disable_gpu: true,
                threads: Some(3),
                cache_dir: Some("/cache".into()),
            }
        );
    }

    #[test]
    fn nonsense_is_an_error_that_names_the_variable() {
        for (name, value) in
            [("RUSTORCH_DEVICES", "cpu,gpu"), ("RUSTORCH_THREADS", "0"), ("RUSTORCH_DISABLE_GPU", "maybe")]
        {
            let error = parse(&[(name, value)]).unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
        }
    }
}
