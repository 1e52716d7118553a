//! The CPU, as Linux shows it in `/proc` and `/sys`.

use super::GpuBenchmarkMetrics;
use std::path::Path;
use std::time::Instant;

/// What counts up.
pub(super) struct Counters {
    at: Instant,
    /// Ticks of all cores: busy, and in all.
    ticks: Option<(u64, u64)>,
    /// Energy of each package, in microjoules.
    energy: Vec<u64>,
}

/// A reading; averages are over the time since `before`, which becomes this reading.
pub(super) fn read(root: &Path, before: &mut Option<Counters>) -> GpuBenchmarkMetrics {
    let now = Counters { at: Instant::now(), ticks: ticks(&text(root, "proc/stat")), energy: energy(root) };
    let last = before.replace(now);
    let now = before.as_ref().expect("it was put there in the line above");
    let utilization = last.as_ref().and_then(|last| {
        let ((busy0, all0), (busy, all)) = (last.ticks?, now.ticks?);
        let all = all.checked_sub(all0).filter(|&ticks| ticks > 0)?;
        Some(100.0 * busy.saturating_sub(busy0) as f64 / all as f64)
    });
    let power = last.as_ref().and_then(|last| {
        let seconds = now.at.duration_since(last.at).as_secs_f64();
        if now.energy.is_empty() || now.energy.len() != last.energy.len() || seconds <= 0.0 {
            return None;
        }
        // None where a counter has started over.
        let used: Option<u64> = now.energy.iter().zip(&last.energy).map(|(n, l)| n.checked_sub(*l)).sum();
        used.map(|microjoules| microjoules as f64 / 1e6 / seconds)
    });
    let memory = text(root, "proc/meminfo");
    let total = memory_field(&memory, "MemTotal:");
    let available = memory_field(&memory, "MemAvailable:");
    GpuBenchmarkMetrics {
        utilization_percent: utilization,
        memory_used: total.zip(available).map(|(total, available)| total.saturating_sub(available)),
        memory_total: total,
        temperature_celsius: temperature(root),
        power_watts: power,
    }
}

fn text(root: &Path, path: &str) -> String {
    std::fs::read_to_string(root.join(path)).unwrap_or_default()
}

/// Busy ticks and all ticks, from `/proc/stat`.
fn ticks(stat: &str) -> Option<(u64, u64)> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    // user, nice, system, idle, iowait, irq, softirq, steal; guests are in user already.
    let fields: Vec<u64> = line.split_whitespace().take(8).map_while(|field| field.parse().ok()).collect();
    let idle = fields.get(3)? + fields.get(4).unwrap_or(&0);
    let all: u64 = fields.iter().sum();
    Some((all - idle, all))
}

/// A line of `/proc/meminfo` in bytes.
fn memory_field(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// The hottest sensor of the CPU's own.
fn temperature(root: &Path) -> Option<f64> {
    const CHIPS: [&str; 4] = ["coretemp", "k10temp", "zenpower", "cpu_thermal"];
    let chips = std::fs::read_dir(root.join("sys/class/hwmon")).ok()?;
    let sensors = chips.flatten().filter(|chip| {
        let name = std::fs::read_to_string(chip.path().join("name")).unwrap_or_default();
        CHIPS.contains(&name.trim())
    });
    sensors.filter_map(|chip| hottest(&chip.path())).max_by(f64::total_cmp)
}

/// The hottest sensor of one chip, in degrees.
pub(super) fn hottest(chip: &Path) -> Option<f64> {
    let files = std::fs::read_dir(chip).ok()?.flatten();
    let inputs = files.filter(|file| {
        let name = file.file_name();
        let name = name.to_string_lossy();
        name.starts_with("temp") && name.ends_with("_input")
    });
    let degrees = inputs.filter_map(|file| {
        let millidegrees: f64 = std::fs::read_to_string(file.path()).ok()?.trim().parse().ok()?;
        Some(millidegrees / 1e3)
    });
    degrees.max_by(f64::total_cmp)
}

/// The packages' energy counters, where they may be read.
fn energy(root: &Path) -> Vec<u64> {
    let counter = |package: usize| -> Option<u64> {
        text(root, &format!("sys/class/powercap/intel-rapl:{package}/energy_uj")).trim().parse().ok()
    };
    (0..).map_while(counter).collect()
}
