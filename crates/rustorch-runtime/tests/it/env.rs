//! The environment: what its variables mean.

use rustorch_core::{Device, DeviceKind};
use rustorch_runtime::{DeviceChoice, Environment, Placement};

fn environment(vars: &[(&str, &str)]) -> Environment {
    Environment::from_fn(|name| vars.iter().find(|(n, _)| *n == name).map(|(_, v)| v.to_string()))
}

#[test]
fn variables_are_read() {
    assert_eq!(environment(&[]), Environment::default());
    let env = environment(&[
        ("RUSTORCH_DEVICES", " cuda:1, OpenCL, cpu,cuda:1 "),
        ("RUSTORCH_THREADS", "3"),
        ("RUSTORCH_CACHE_DIR", "/cache"),
        ("RUSTORCH_DISABLE_GPU", "1"),
        ("RUSTORCH_PLACEMENT", "auto"),
    ]);
    let choices = [
        DeviceChoice::One(Device::cuda(1)),
        DeviceChoice::Kind(DeviceKind::OPENCL),
        DeviceChoice::One(Device::CPU),
    ];
    assert_eq!(env.devices().unwrap().unwrap(), choices);
    assert_eq!(env.threads().unwrap(), Some(3));
    assert_eq!(env.cache_dir(), Some("/cache".into()));
    assert_eq!(env.placement().unwrap(), Some(Placement::Auto));
    assert!(env.disable_gpu().unwrap());
}

#[test]
fn nonsense_is_the_error_of_its_variable_alone() {
    let env = environment(&[
        ("RUSTORCH_DEVICES", "cpu,gpu"),
        ("RUSTORCH_THREADS", "2"),
        ("RUSTORCH_DISABLE_GPU", "maybe"),
        ("RUSTORCH_PLACEMENT", "best"),
    ]);
    let errors = [
        ("RUSTORCH_DEVICES", env.devices().unwrap_err()),
        ("RUSTORCH_DISABLE_GPU", env.disable_gpu().unwrap_err()),
        ("RUSTORCH_PLACEMENT", env.placement().unwrap_err()),
        ("RUSTORCH_THREADS", environment(&[("RUSTORCH_THREADS", "0")]).threads().unwrap_err()),
    ];
    for (name, error) in errors {
        assert!(error.to_string().contains(name), "{error}");
    }
    assert_eq!(env.threads().unwrap(), Some(2));
}
