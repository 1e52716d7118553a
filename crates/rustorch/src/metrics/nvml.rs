//! NVIDIA's own monitor. Its library comes with the driver and is opened at first use; without it everything is `None`.

use super::GpuBenchmarkMetrics;
use nvml_wrapper::enum_wrappers::device::TemperatureSensor;
use nvml_wrapper::{Device, Nvml};
use std::sync::LazyLock;

static NVML: LazyLock<Option<Nvml>> = LazyLock::new(|| Nvml::init().ok());

/// The GPU that is plugged in at `address`, such as `0000:01:00.0`; `None` without one there, or without NVML.
pub(super) fn by_pci_address(address: &str) -> Option<GpuBenchmarkMetrics> {
    NVML.as_ref()?.device_by_pci_bus_id(address).ok().map(|device| read(&device))
}

/// The one GPU of a machine that has only one.
pub(super) fn only() -> Option<GpuBenchmarkMetrics> {
    let nvml = NVML.as_ref()?;
    match nvml.device_count() {
        Ok(1) => nvml.device_by_index(0).ok().map(|device| read(&device)),
        _ => None,
    }
}

/// Each figure by itself: cards lack some, and a slice of a card most.
fn read(device: &Device<'_>) -> GpuBenchmarkMetrics {
    let memory = device.memory_info().ok();
    GpuBenchmarkMetrics {
        utilization_percent: device.utilization_rates().ok().map(|rates| f64::from(rates.gpu)),
        memory_used: memory.as_ref().map(|memory| memory.used),
        memory_total: memory.as_ref().map(|memory| memory.total),
        temperature_celsius: device.temperature(TemperatureSensor::Gpu).ok().map(f64::from),
        power_watts: device.power_usage().ok().map(|milliwatts| f64::from(milliwatts) / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_the_library_there_is_nothing_and_with_it_something() {
        assert_eq!(by_pci_address("ffff:ff:1f.7"), None);
        assert_eq!(by_pci_address("nonsense"), None);
        match NVML.is_some() {
            false => assert_eq!(only(), None),
            true => assert!(only().is_none_or(|metrics| metrics.memory_total.is_some_and(|bytes| bytes > 0))),
        }
    }
}
