//! What the environment asks for. Read once, when an executor is built.

use rustorch_core::Device;

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
    /// Reads the process's variables. The second part says what made no sense and was left out.
    pub fn read() -> (Environment, Vec<String>) {
        Environment::parse(|name| std::env::var(name).ok())
    }

    /// The same from any source of variables.
    pub fn parse(var: impl Fn(&str) -> Option<String>) -> (Environment, Vec<String>) {
        let mut complaints = Vec::new();
        let get = |name: &str| var(name).map(|v| v.trim().to_owned()).filter(|v| !v.is_empty());
        let mut environment = Environment::default();
        if let Some(list) = get("RUSTORCH_DEVICES") {
            let mut devices = Vec::new();
            for name in list.split(',').map(str::trim).filter(|name| !name.is_empty()) {
                match name.parse::<Device>() {
                    Ok(device) if devices.contains(&device) => {}
                    Ok(device) => devices.push(device),
                    Err(error) => complaints.push(format!("RUSTORCH_DEVICES: {error}")),
                }
            }
            environment.devices = Some(devices).filter(|d| !d.is_empty());
        }
        match get("RUSTORCH_DISABLE_GPU").as_deref() {
            None | Some("0" | "false") => {}
            Some("1" | "true") => environment.disable_gpu = true,
            Some(other) => complaints.push(format!("RUSTORCH_DISABLE_GPU is `{other}`; it takes 0 or 1")),
        }
        if let Some(text) = get("RUSTORCH_THREADS") {
            match text.parse::<usize>() {
                Ok(n) if n > 0 => environment.threads = Some(n),
                _ => complaints.push(format!("RUSTORCH_THREADS is `{text}`; it takes a number from 1 up")),
            }
        }
        (environment, complaints)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(vars: &[(&str, &str)]) -> (Environment, Vec<String>) {
        Environment::parse(|name| vars.iter().find(|(n, _)| *n == name).map(|(_, v)| v.to_string()))
    }

    #[test]
    fn wishes_are_read_and_nonsense_is_named() {
        assert_eq!(parse(&[]), (Environment::default(), vec![]));
        let (env, complaints) = parse(&[
            ("RUSTORCH_DEVICES", " cuda:1, cpu,cuda:1 "),
            ("RUSTORCH_THREADS", "3"),
            ("RUSTORCH_DISABLE_GPU", "1"),
        ]);
        assert_eq!(env.devices, Some(vec![Device::Cuda(1), Device::Cpu]));
        assert_eq!((env.threads, env.disable_gpu), (Some(3), true));
        assert!(complaints.is_empty());

        let (env, complaints) = parse(&[
            ("RUSTORCH_DEVICES", "gpu"),
            ("RUSTORCH_THREADS", "0"),
            ("RUSTORCH_DISABLE_GPU", "maybe"),
        ]);
        assert_eq!(env, Environment::default());
        assert_eq!(complaints.len(), 3);
        assert!(complaints[0].contains("`gpu`"), "{complaints:?}");
    }
}
