//! `bench devices`: what each device can do, without a model.

use crate::args::BenchDevicesArgs;
use crate::failure::Failure;
use crate::output;
use rustorch::benchmark::{self, Limits, Options, Outcome, Rate, Report};
use rustorch::devices::{DiscoveredDevice, discover, set_cpu_threads};
use std::time::Duration;

pub(crate) fn run(args: &BenchDevicesArgs) -> Result<(), Failure> {
    if let Some(threads) = args.threads {
        set_cpu_threads(threads).map_err(|error| Failure::Backend(error.to_string()))?;
    }
    check_present(args)?;
    let (time, all) = (Duration::from_millis(args.time), Options::default());
    // One run is no longer than a measurement.
    let options = Options { time, enough: all.enough.min(time), ..all };
    let reports = benchmark::run(&args.backend, &options, &mut |what| output::status(what))?;
    output::status("");
    if let Some(path) = &args.chart {
        let chart = Report::chart(&reports);
        output::file(path, |out| out.write_all(chart.as_bytes()))?;
    }
    if args.json {
        return output::json(&reports.iter().map(Report::to_json).collect::<Vec<_>>());
    }
    for (i, report) in reports.iter().enumerate() {
        if i > 0 {
            output::line("")?;
        }
        print(report)?;
    }
    Ok(())
}

/// Those that were asked for must be here.
fn check_present(args: &BenchDevicesArgs) -> Result<(), Failure> {
    let present: Vec<_> = discover()
        .into_iter()
        .filter_map(|found| match found {
            DiscoveredDevice::Present(backend) => Some(backend.device()),
            DiscoveredDevice::Absent { .. } => None,
        })
        .collect();
    match args.backend.iter().find(|device| !present.contains(device)) {
        None => Ok(()),
        Some(missing) => {
            let names: Vec<String> = present.iter().map(ToString::to_string).collect();
            Err(Failure::Backend(format!("{missing} is not available here; there is {}", names.join(", "))))
        }
    }
}

fn print(report: &Report) -> Result<(), Failure> {
    output::line(format_args!("{} ({})", report.device, report.name))?;
    output::line(format_args!("limits measured: {}", limits(&report.limits)))?;
    let rows: Vec<Vec<String>> = report
        .results
        .iter()
        .map(|result| {
            let name = format!("{} {}", result.benchmark, result.dtype);
            match &result.outcome {
                Outcome::Measured(m) => vec![
                    name,
                    m.size.clone(),
                    output::seconds(m.seconds),
                    m.rate.to_string(),
                    m.share.map_or("?".into(), |share| format!("{:.0} %", 100.0 * share)),
                    m.bound.name().into(),
                ],
                Outcome::Declined(reason) => nothing(name, "declined", reason),
                Outcome::Failed(reason) => nothing(name, "failed", reason),
            }
        })
        .collect();
    output::table(&["benchmark", "size", "time", "rate", "of the limit", "limited by"], &rows)
}

fn nothing(name: String, what: &str, reason: &str) -> Vec<String> {
    vec![name, format!("{what}: {reason}"), String::new(), String::new(), String::new(), String::new()]
}

fn limits(limits: &Limits) -> String {
    let memory = limits.memory.map(|rate| format!("memory {}", Rate::Bytes(rate)));
    let matmul = limits.arithmetic.iter().map(|(dtype, rate)| format!("{dtype} {}", Rate::Flops(*rate)));
    let to = limits.to_device.map(|rate| format!("to the device {}", Rate::Bytes(rate)));
    let from = limits.from_device.map(|rate| format!("from it {}", Rate::Bytes(rate)));
    let all: Vec<String> = memory.into_iter().chain(matmul).chain(to).chain(from).collect();
    if all.is_empty() { "none".to_owned() } else { all.join(", ") }
}
