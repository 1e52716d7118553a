//! How busy devices are: what they tell themselves, and what the system's monitors tell of them.

mod host;
#[cfg(any(target_os = "linux", windows))]
mod nvml;
mod pci;

#[doc(inline)]
pub use rustorch_core::profile::GpuBenchmarkMetrics;

use host::Counters;
use rustorch_core::{Backend, Device};
use std::path::PathBuf;

/// Reads devices' metrics again and again.
///
/// The CPU's utilisation and power are averages since the last reading, so the first reading has none.
///
/// ```
/// use rustorch::devices::{DiscoveredDevice, discover};
/// use rustorch::metrics::Monitor;
///
/// let mut monitor = Monitor::new();
/// for found in discover() {
///     if let DiscoveredDevice::Present(backend) = found {
///         println!("{}: {:?}", backend.device(), monitor.read(&*backend));
///     }
/// }
/// ```
pub struct Monitor {
    /// Where the system shows its files.
    root: PathBuf,
    before: Option<Counters>,
}

impl Monitor {
    /// A monitor that has read nothing yet.
    pub fn new() -> Monitor {
        Monitor::at("/")
    }

    fn at(root: impl Into<PathBuf>) -> Monitor {
        Monitor { root: root.into(), before: None }
    }

    /// How busy a device is: by its own word, and where that is silent, by the system's: `/proc` and `/sys` for the
    /// CPU, NVML and the driver's files for a device that says where it is plugged in.
    pub fn read(&mut self, backend: &dyn Backend) -> GpuBenchmarkMetrics {
        let extensions = backend.extensions();
        let own = extensions.metrics();
        if backend.device().is_cpu() {
            return own.or(host::read(&self.root, &mut self.before));
        }
        own.or(system(&self.root, backend.device(), extensions.pci_address()))
    }
}

impl Default for Monitor {
    fn default() -> Monitor {
        Monitor::new()
    }
}

/// What the system tells of a device. Without an address nobody knows which one it is, unless it can be only one.
fn system(root: &std::path::Path, device: Device, address: Option<&str>) -> GpuBenchmarkMetrics {
    let files = address.map(|address| pci::read(root, address)).unwrap_or_default();
    #[cfg(any(target_os = "linux", windows))]
    {
        let nvidia = match (address, device) {
            (Some(address), _) => nvml::by_pci_address(address),
            (None, device) if device == Device::cuda(0) => nvml::only(),
            _ => None,
        };
        nvidia.unwrap_or_default().or(files)
    }
    #[cfg(not(any(target_os = "linux", windows)))]
    {
        let _ = device;
        files
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustorch_cpu::CpuBackend;
    use std::fs;
    use std::path::Path;

    fn file(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn the_cpu_is_read_from_the_systems_files() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        file(root, "proc/stat", "cpu  100 0 100 700 100 0 0 0 0 0\ncpu0 1 2 3\n");
        file(root, "proc/meminfo", "MemTotal: 8000 kB\nMemFree: 10 kB\nMemAvailable:  6000 kB\n");
        file(root, "sys/class/hwmon/hwmon0/name", "nvme\n");
        file(root, "sys/class/hwmon/hwmon0/temp1_input", "99000\n");
        file(root, "sys/class/hwmon/hwmon1/name", "k10temp\n");
        file(root, "sys/class/hwmon/hwmon1/temp1_input", "45500\n");
        file(root, "sys/class/hwmon/hwmon1/temp2_input", "44000\n");
        let cpu = CpuBackend::new(1);
        let mut monitor = Monitor::at(root);
        let first = monitor.read(&cpu);
        assert_eq!(first.utilization_percent, None);
        assert_eq!((first.memory_used, first.memory_total), (Some(2000 << 10), Some(8000 << 10)));
        assert_eq!((first.temperature_celsius, first.power_watts), (Some(45.5), None));
        // 150 of 200 ticks were neither idle nor waiting.
        file(root, "proc/stat", "cpu  200 20 130 740 110 0 0 0 0 0\n");
        assert_eq!(monitor.read(&cpu).utilization_percent, Some(75.0));
        // No time has passed.
        assert_eq!(monitor.read(&cpu).utilization_percent, None);
        file(root, "proc/stat", "nonsense");
        assert_eq!(monitor.read(&cpu).utilization_percent, None);
    }

    #[test]
    fn a_graphics_card_is_read_from_its_drivers_files() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let card = "sys/bus/pci/devices/0000:0c:00.0";
        file(root, &format!("{card}/gpu_busy_percent"), "37\n");
        file(root, &format!("{card}/mem_info_vram_used"), "1073741824\n");
        file(root, &format!("{card}/mem_info_vram_total"), "17163091968\n");
        file(root, &format!("{card}/hwmon/hwmon4/temp1_input"), "61000\n");
        file(root, &format!("{card}/hwmon/hwmon4/power1_average"), "204000000\n");
        let read = system(root, Device::vulkan(0), Some("0000:0C:00.0"));
        assert_eq!(
            read,
            GpuBenchmarkMetrics {
                utilization_percent: Some(37.0),
                memory_used: Some(1 << 30),
                memory_total: Some(17_163_091_968),
                temperature_celsius: Some(61.0),
                power_watts: Some(204.0),
            }
        );
        for (device, address) in [
            (Device::vulkan(0), None),
            (Device::vulkan(1), Some("0000:0d:00.0")),
            (Device::opencl(0), Some("../x")),
        ] {
            assert_eq!(system(root, device, address), GpuBenchmarkMetrics::default());
        }
    }

    /// On this machine, whatever it has.
    #[test]
    fn readings_are_plausible() {
        let cpu = CpuBackend::new(1);
        let mut monitor = Monitor::new();
        monitor.read(&cpu);
        std::thread::sleep(std::time::Duration::from_millis(50));
        let read = monitor.read(&cpu);
        assert!(read.utilization_percent.is_none_or(|x| (0.0..=100.0).contains(&x)), "{read:?}");
        if let (Some(used), Some(total)) = (read.memory_used, read.memory_total) {
            assert!(0 < used && used <= total);
        }
        assert!(read.temperature_celsius.is_none_or(|x| (-50.0..150.0).contains(&x)), "{read:?}");
        if cfg!(target_os = "linux") && Path::new("/proc/meminfo").exists() {
            assert!(read.memory_total.is_some());
        }
    }
}
