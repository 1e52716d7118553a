//! What NVIDIA's monitor tells, read from a library with its functions (`fake/nvml.c`) in child processes that find it
//! before the machine's.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "these are tests; skipped ones say so")]

use rustorch::metrics::{GpuBenchmarkMetrics, Monitor};
use rustorch_core::Device;
use rustorch_cpu::CpuBackend;
use rustorch_testkit::{FakeDevice, Requirement, in_child, is_child, skip};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

/// Runs `body` in a child process that finds the fake; `mode` is its mood. Skips where there is no C compiler.
///
/// The test of this name does nothing but this call: the child runs it again.
fn with_fake(name: &str, mode: &str, body: fn()) {
    let folder = tempfile::tempdir().unwrap();
    if !is_child(name) {
        let built = Command::new("cc")
            .args(["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o"])
            .arg(folder.path().join("libnvidia-ml.so.1"))
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake/nvml.c"))
            .output();
        let Ok(built) = built else {
            return skip(Requirement::Cc, "there is no C compiler");
        };
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    }
    let prepare = |command: &mut Command| {
        command.env("LD_LIBRARY_PATH", folder.path()).env("FAKE_NVML", mode);
    };
    in_child(name, prepare, body);
}

const BUSY: GpuBenchmarkMetrics = GpuBenchmarkMetrics {
    utilization_percent: Some(87.0),
    memory_used: Some(5_368_709_120),
    memory_total: Some(150_754_820_096),
    temperature_celsius: Some(64.0),
    power_watts: Some(412.65),
};

const NOTHING: GpuBenchmarkMetrics = GpuBenchmarkMetrics {
    utilization_percent: None,
    memory_used: None,
    memory_total: None,
    temperature_celsius: None,
    power_watts: None,
};

/// What is known of a device that says nothing itself but where it is plugged in.
fn read(device: Device, address: Option<&'static str>) -> GpuBenchmarkMetrics {
    let mut fake = FakeDevice::new(device, Arc::new(CpuBackend::new(1)));
    if let Some(address) = address {
        fake = fake.with_pci_address(address);
    }
    Monitor::new().read(&fake)
}

#[test]
fn a_gpu_is_read_by_its_address_and_alone() {
    with_fake("nvml::a_gpu_is_read_by_its_address_and_alone", "whole", || {
        assert_eq!(read(Device::vulkan(0), Some("0000:65:00.0")), BUSY);
        assert_eq!(read(Device::cuda(0), None), BUSY);
        // No one knows which of its GPUs another API means.
        assert_eq!(read(Device::vulkan(0), None), NOTHING);
        assert_eq!(read(Device::vulkan(0), Some("ffff:17:00.0")), NOTHING);
    });
}

#[test]
fn figures_that_a_card_does_not_tell_are_left_out() {
    with_fake("nvml::figures_that_a_card_does_not_tell_are_left_out", "lacking", || {
        let told = GpuBenchmarkMetrics { utilization_percent: None, power_watts: None, ..BUSY };
        assert_eq!(read(Device::cuda(0), Some("0000:65:00.0")), told);
    });
}

#[test]
fn a_library_without_its_driver_is_as_none() {
    with_fake("nvml::a_library_without_its_driver_is_as_none", "broken", || {
        assert_eq!(read(Device::cuda(0), None), NOTHING);
        assert_eq!(read(Device::cuda(0), Some("ffff:65:00.0")), NOTHING);
    });
}
