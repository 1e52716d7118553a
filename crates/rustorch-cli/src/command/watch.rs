//! `devices --watch`: how busy the devices are, again and again.

use crate::args::DevicesArgs;
use crate::failure::Failure;
use crate::{interrupt, output};
use rustorch::core::Backend;
use rustorch::devices::{DiscoveredDevice, discover};
use rustorch::metrics::{GpuBenchmarkMetrics, Monitor};
use serde::Serialize;
use std::fmt::Write;
use std::io::IsTerminal;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often the program looks whether Ctrl-C was pressed.
const GLANCE: Duration = Duration::from_millis(50);

/// What a device tells of itself; what it does not tell is left out.
#[derive(Serialize)]
pub(crate) struct Metrics {
    #[serde(skip_serializing_if = "Option::is_none")]
    utilization_percent: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_used_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_total_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature_celsius: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    power_watts: Option<f64>,
}

/// A device at one moment.
#[derive(Serialize)]
struct Reading {
    device: String,
    name: String,
    #[serde(flatten)]
    metrics: Metrics,
}

/// All devices at one moment: a line of `--json`.
#[derive(Serialize)]
struct Moment {
    /// Since the program began to watch.
    seconds: f64,
    devices: Vec<Reading>,
}

impl From<GpuBenchmarkMetrics> for Metrics {
    fn from(metrics: GpuBenchmarkMetrics) -> Metrics {
        Metrics {
            utilization_percent: metrics.utilization_percent,
            memory_used_bytes: metrics.memory_used,
            memory_total_bytes: metrics.memory_total,
            temperature_celsius: metrics.temperature_celsius,
            power_watts: metrics.power_watts,
        }
    }
}

pub(crate) fn run(args: &DevicesArgs) -> Result<(), Failure> {
    interrupt::install();
    let present = discover().into_iter().filter_map(|found| match found {
        DiscoveredDevice::Present(backend) => Some(backend),
        DiscoveredDevice::Absent { .. } => None,
    });
    let present: Vec<Arc<dyn Backend>> = present.collect();
    let started = Instant::now();
    let interval = Duration::from_secs_f64(args.interval);
    let redraw = !args.json && std::io::stdout().is_terminal();
    let mut monitor = Monitor::new();
    // Some figures are averages since the reading before, so the first is not shown; the next comes soon.
    let _ = read(&mut monitor, &present, started);
    let mut next = started + interval.min(Duration::from_millis(200));
    let mut drawn = 0;
    let mut readings = 0;
    while args.count.is_none_or(|count| readings < count) {
        if !wait(next) {
            break;
        }
        let moment = read(&mut monitor, &present, started);
        readings += 1;
        if args.json {
            output::line(serde_json::to_string(&moment)?)?;
        } else if redraw {
            drawn = draw(&moment, drawn)?;
        } else {
            output::line(line(&moment))?;
        }
        // A reading that took long does not make the next ones come at once.
        next = (next + interval).max(Instant::now());
    }
    Ok(())
}

/// Waits until then; false if Ctrl-C was pressed meanwhile.
fn wait(until: Instant) -> bool {
    loop {
        if interrupt::take() {
            return false;
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(GLANCE));
    }
}

fn read(monitor: &mut Monitor, present: &[Arc<dyn Backend>], started: Instant) -> Moment {
    let devices = present.iter().map(|backend| Reading {
        device: backend.device().to_string(),
        name: backend.capability().name.clone(),
        metrics: monitor.read(&**backend).into(),
    });
    Moment { devices: devices.collect(), seconds: started.elapsed().as_secs_f64() }
}

/// Draws the table over the one before, of which `drawn` lines are on the terminal; how many there are now.
fn draw(moment: &Moment, drawn: usize) -> Result<usize, Failure> {
    let mut text = String::new();
    if drawn > 0 {
        // Up, and away with everything below: a device may have become shorter.
        let _ = write!(text, "\x1b[{drawn}A\x1b[J");
    }
    let unknown = || "-".to_owned();
    let rows: Vec<Vec<String>> = moment
        .devices
        .iter()
        .map(|reading| {
            let m = &reading.metrics;
            vec![
                reading.device.clone(),
                m.utilization_percent.map_or_else(unknown, |x| format!("{x:.0} %")),
                m.memory_used_bytes.map_or_else(unknown, output::bytes),
                m.memory_total_bytes.map_or_else(unknown, output::bytes),
                m.temperature_celsius.map_or_else(unknown, |x| format!("{x:.0} °C")),
                m.power_watts.map_or_else(unknown, |x| format!("{x:.0} W")),
                reading.name.clone(),
            ]
        })
        .collect();
    output::stream(&text)?;
    let head = ["device", "busy", "memory used", "of", "temperature", "power", "name"];
    output::table(&head, &rows)?;
    output::line(format_args!("after {:.1} s; Ctrl-C ends", moment.seconds))?;
    Ok(rows.len() + 2)
}

/// All devices on one line, for a file or another program.
fn line(moment: &Moment) -> String {
    let devices = moment.devices.iter().map(|reading| {
        let m = &reading.metrics;
        let figures = [
            m.utilization_percent.map(|x| format!("{x:.0} % busy")),
            m.memory_used_bytes.map(|used| match m.memory_total_bytes {
                Some(total) => format!("{} of {}", output::bytes(used), output::bytes(total)),
                None => output::bytes(used),
            }),
            m.temperature_celsius.map(|x| format!("{x:.0} °C")),
            m.power_watts.map(|x| format!("{x:.0} W")),
        ];
        let figures: Vec<String> = figures.into_iter().flatten().collect();
        let figures = if figures.is_empty() { "unknown".to_owned() } else { figures.join(", ") };
        format!("{}: {figures}", reading.device)
    });
    let devices: Vec<String> = devices.collect();
    format!("{:.1} s  {}", moment.seconds, devices.join(" | "))
}
