//! A graphics card, as Linux's drivers show it among the files of its slot: `amdgpu` in full, others what they have.

use super::{GpuBenchmarkMetrics, host};
use std::path::Path;

/// A reading of the device at `address`, such as `0000:01:00.0`.
pub(super) fn read(root: &Path, address: &str) -> GpuBenchmarkMetrics {
    if !is_address(address) {
        return GpuBenchmarkMetrics::default();
    }
    let slot = root.join("sys/bus/pci/devices").join(address.to_ascii_lowercase());
    let chips: Vec<_> = std::fs::read_dir(slot.join("hwmon"))
        .map(|chips| chips.flatten().map(|chip| chip.path()).collect())
        .unwrap_or_default();
    let microwatts = chips
        .iter()
        .find_map(|chip| number(&chip.join("power1_average")).or_else(|| number(&chip.join("power1_input"))));
    GpuBenchmarkMetrics {
        utilization_percent: number(&slot.join("gpu_busy_percent")).map(|percent| percent as f64),
        memory_used: number(&slot.join("mem_info_vram_used")),
        memory_total: number(&slot.join("mem_info_vram_total")),
        temperature_celsius: chips.iter().filter_map(|chip| host::hottest(chip)).max_by(f64::total_cmp),
        power_watts: microwatts.map(|microwatts| microwatts as f64 / 1e6),
    }
}

/// It becomes part of a path.
fn is_address(text: &str) -> bool {
    !text.is_empty()
        && text.chars().all(|c| c.is_ascii_hexdigit() || c == ':' || c == '.')
        && !text.contains("..")
}

fn number(path: &Path) -> Option<u64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}
