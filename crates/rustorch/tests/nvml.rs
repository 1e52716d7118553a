//! What NVIDIA's monitor tells, read from a library with its functions (`fake/nvml.c`) in child processes that find it
//! before the machine's.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "these are tests; skipped ones say so")]

use rustorch::metrics::{GpuBenchmarkMetrics, nvml};
use std::path::Path;
use std::process::Command;

/// Set in child processes.
const CHILD: &str = "RUSTORCH_TEST_NVML_CHILD";

/// Runs `body` in a child process that finds the fake; `mode` is its mood. Skips where there is no C compiler.
///
/// The test of this name does nothing but this call: the child runs it again.
fn with_fake(name: &str, mode: &str, body: fn()) {
    if std::env::var_os(CHILD).is_some() {
        body();
        println!("{name} is through");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let built = Command::new("cc")
        .args(["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o"])
        .arg(folder.path().join("libnvidia-ml.so.1"))
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake/nvml.c"))
        .output();
    let Ok(built) = built else {
        println!("skipped: there is no C compiler");
        return;
    };
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let output = Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture"])
        .env(CHILD, name)
        .env("LD_LIBRARY_PATH", folder.path())
        .env("FAKE_NVML", mode)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains(&format!("{name} is through")), "{text}\n{said}");
}

const BUSY: GpuBenchmarkMetrics = GpuBenchmarkMetrics {
    utilization_percent: Some(87.0),
    memory_used: Some(5_368_709_120),
    memory_total: Some(150_754_820_096),
    temperature_celsius: Some(64.0),
    power_watts: Some(412.65),
};

#[test]
fn a_gpu_is_read_by_its_address_and_alone() {
    with_fake("a_gpu_is_read_by_its_address_and_alone", "whole", || {
        assert!(nvml::is_present());
        assert_eq!(nvml::by_pci_address("0000:65:00.0"), Some(BUSY));
        assert_eq!(nvml::only(), Some(BUSY));
        assert_eq!(nvml::by_pci_address("0000:17:00.0"), None);
    });
}

#[test]
fn figures_that_a_card_does_not_tell_are_left_out() {
    with_fake("figures_that_a_card_does_not_tell_are_left_out", "lacking", || {
        let told = GpuBenchmarkMetrics { utilization_percent: None, power_watts: None, ..BUSY };
        assert_eq!(nvml::by_pci_address("0000:65:00.0"), Some(told));
    });
}

#[test]
fn a_library_without_its_driver_is_as_none() {
    with_fake("a_library_without_its_driver_is_as_none", "broken", || {
        assert!(!nvml::is_present());
        assert_eq!((nvml::only(), nvml::by_pci_address("0000:65:00.0")), (None, None));
    });
}
