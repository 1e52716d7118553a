//! What the environment asks for. Read once, when an executor is built.

use rustorch_core::{Device, Error, Result};

/// Wishes from environment variables.
///
/// | variable | meaning |
/// |---|---|
/// | `RUSTORCH_DEVICES` | the chain of devices, such as `cuda,cpu`; the processor is added at the end where it is missing |
/// | `RUSTORCH_DISABLE_GPU` | `1`: the processor alone |
/// | `RUSTORCH_THREADS` | how many threads the processor's engine uses |
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// `RUSTORCH_DEVICES`.
    pub devices: Option<Vec<Device>>,
    /// `RUSTORCH_DISABLE_GPU`.
    pub disable_gpu: bool,
    /// `RUSTORCH_THREADS`.
    pub threads: Option<usize>,
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
                if !devices.contains(&device) {
                    devices.push(device);
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
            ("RUSTORCH_DEVICES", " cuda:1, cpu,cuda:1 "),
            ("RUSTORCH_THREADS", "3"),
            ("RUSTORCH_DISABLE_GPU", "1"),
        ]);
        assert_eq!(
            env.unwrap(),
            Environment {
                devices: Some(vec![Device::Cuda(1), Device::Cpu]),
                disable_gpu: true,
                threads: Some(3)
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
