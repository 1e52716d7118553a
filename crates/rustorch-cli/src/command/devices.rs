//! `devices`: what was found, why others were not, and how busy they are.

use super::watch::{self, Metrics};
use crate::args::DevicesArgs;
use crate::failure::Failure;
use crate::output;
use rustorch::core::{CostModel, DType, OpKind, OpType};
use rustorch::devices::{DiscoveredDevice, discover};
use rustorch::metrics::Monitor;
use rustorch::runtime::{CostCache, cache_dir, cost_of, measure_again};
use serde::Serialize;
use std::time::Duration;

/// A device as `--json` prints it.
#[derive(Serialize)]
struct Row {
    device: String,
    present: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    flops_per_second: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_per_second: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    remarks: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metrics: Option<Metrics>,
}

pub(crate) fn run(args: &DevicesArgs) -> Result<(), Failure> {
    if args.watch {
        return watch::run(args);
    }
    let cache = cache_dir(|name| std::env::var_os(name)).map(CostCache::new);
    let found = discover();
    let metrics = if args.json { metrics(&found) } else { Vec::new() };
    let mut rows: Vec<Row> =
        found.into_iter().map(|found| row(found, cache.as_ref(), args.measure)).collect();
    for (row, metrics) in rows.iter_mut().zip(metrics) {
        row.metrics = metrics;
    }
    if args.json {
        return output::json(&rows);
    }
    for row in rows {
        let about = match (&row.name, &row.reason) {
            (Some(name), _) => {
                let rate = |rate: Option<f64>| rate.map_or("?".into(), |r| format!("{:.1}", r / 1e9));
                let memory = row.memory_bytes.map_or(String::new(), |b| format!(", {}", output::bytes(b)));
                let (flops, bytes) = (rate(row.flops_per_second), rate(row.bytes_per_second));
                format!("{name}{memory}; measured {flops} GFLOP/s in f32 matmul, {bytes} GB/s")
            }
            (None, reason) => format!("not found: {}", reason.as_deref().unwrap_or("unknown")),
        };
        output::line(format_args!("{:8} {about}", row.device))?;
        for remark in row.remarks {
            output::line(format_args!("{:8} {remark}", ""))?;
        }
    }
    Ok(())
}

/// How busy each device that was found is.
fn metrics(found: &[DiscoveredDevice]) -> Vec<Option<Metrics>> {
    let mut monitor = Monitor::new();
    let mut read = || {
        let metrics = found.iter().map(|found| match found {
            DiscoveredDevice::Present(backend) => Some(Metrics::from(monitor.read(&**backend))),
            DiscoveredDevice::Absent { .. } => None,
        });
        metrics.collect()
    };
    // Some figures are averages since the reading before.
    let _: Vec<Option<Metrics>> = read();
    std::thread::sleep(Duration::from_millis(100));
    read()
}

fn row(found: DiscoveredDevice, cache: Option<&CostCache>, measure: bool) -> Row {
    match found {
        DiscoveredDevice::Present(backend) => {
            let capability = backend.capability();
            let cost = if measure { measure_again(&backend, cache) } else { cost_of(&backend, cache) };
            let (flops, _) = cost.rates(OpKind::MatMul, OpType::LinearAlgebra, DType::F32);
            Row {
                device: backend.device().to_string(),
                present: true,
                name: Some(capability.name.clone()),
                memory_bytes: capability.memory,
                flops_per_second: Some(flops).filter(|_| cost != CostModel::UNKNOWN),
                bytes_per_second: Some(cost.bandwidth).filter(|_| cost != CostModel::UNKNOWN),
                reason: None,
                remarks: backend.extensions().remarks(),
                metrics: None,
            }
        }
        DiscoveredDevice::Absent { kind, reason } => Row {
            device: kind.name().into(),
            present: false,
            name: None,
            memory_bytes: None,
            flops_per_second: None,
            bytes_per_second: None,
            reason: Some(reason),
            remarks: Vec::new(),
            metrics: None,
        },
    }
}
