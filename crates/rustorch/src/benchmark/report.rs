//! What was measured.

use rustorch_core::{DType, Device};
use serde_json::{Value, json};
use std::fmt;

/// What one device can do.
#[derive(Clone, Debug)]
pub struct Report {
    /// The device.
    pub device: Device,
    /// Its name.
    pub name: String,
    /// The best that was seen of it.
    pub limits: Limits,
    /// The benchmarks, in order.
    pub results: Vec<Result>,
}

/// The best rates that were seen of a device, or that its calibration knows; see the [module](super).
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// Bytes read and written per second in its memory.
    pub memory: Option<f64>,
    /// Operations per second in matmuls of each dtype (of a block type: `f32` times a weight of it).
    pub arithmetic: Vec<(DType, f64)>,
    /// Bytes per second from the CPU's memory.
    pub to_device: Option<f64>,
    /// Bytes per second to the CPU's memory.
    pub from_device: Option<f64>,
}

impl Limits {
    /// The arithmetic limit for a dtype.
    pub fn arithmetic(&self, dtype: DType) -> Option<f64> {
        self.arithmetic.iter().find(|(other, _)| *other == dtype).map(|(_, rate)| *rate)
    }
}

/// One benchmark on one device.
#[derive(Clone, Debug)]
pub struct Result {
    /// Its name.
    pub benchmark: &'static str,
    /// The dtype that it is about.
    pub dtype: DType,
    /// What came of it.
    pub outcome: Outcome,
}

/// What came of a benchmark.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// It ran.
    Measured(Measurement),
    /// The device does not run it, and says why.
    Declined(String),
    /// The device failed.
    Failed(String),
}

/// Times and rates.
#[derive(Clone, Debug)]
pub struct Measurement {
    /// The sizes of the operands.
    pub size: String,
    /// The time of one run in seconds: the median.
    pub seconds: f64,
    /// How many runs were measured.
    pub runs: usize,
    /// Work per second.
    pub rate: Rate,
    /// The time that the device's limit allows, as a part of the time that it took; none where the limit is not known.
    pub share: Option<f64>,
    /// What limits it.
    pub bound: Bound,
}

/// Work per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// Floating-point operations.
    Flops(f64),
    /// Bytes.
    Bytes(f64),
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, unit) = match *self {
            Rate::Flops(value) => (value, "FLOP/s"),
            Rate::Bytes(value) => (value, "B/s"),
        };
        let (value, prefix) = match value {
            _ if value >= 1e12 => (value / 1e12, "T"),
            _ if value >= 1e9 => (value / 1e9, "G"),
            _ if value >= 1e6 => (value / 1e6, "M"),
            _ => (value / 1e3, "k"),
        };
        let text = match value {
            _ if value >= 100.0 => format!("{value:.0} {prefix}{unit}"),
            _ if value >= 10.0 => format!("{value:.1} {prefix}{unit}"),
            _ => format!("{value:.2} {prefix}{unit}"),
        };
        f.pad(&text)
    }
}

/// What limits an operation on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Its arithmetic.
    Arithmetic,
    /// Its memory.
    Memory,
    /// Its link to the CPU's memory.
    Link,
}

impl Bound {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Bound::Arithmetic => "arithmetic",
            Bound::Memory => "memory",
            Bound::Link => "link",
        }
    }
}

impl Report {
    /// The report as JSON: seconds, operations and bytes per second, shares from 0 to 1.
    pub fn to_json(&self) -> Value {
        json!({
            "device": self.device.to_string(),
            "name": self.name,
            "limits": {
                "memory_bytes_per_second": self.limits.memory,
                "flops_per_second": self.limits.arithmetic.iter()
                    .map(|(dtype, rate)| (dtype.name().to_owned(), json!(rate)))
                    .collect::<serde_json::Map<_, _>>(),
                "to_device_bytes_per_second": self.limits.to_device,
                "from_device_bytes_per_second": self.limits.from_device,
            },
            "results": self.results.iter().map(Result::to_json).collect::<Vec<_>>(),
        })
    }
}

impl Result {
    fn to_json(&self) -> Value {
        let mut value = json!({ "benchmark": self.benchmark, "dtype": self.dtype.name() });
        match &self.outcome {
            Outcome::Measured(m) => {
                value["size"] = m.size.as_str().into();
                value["seconds"] = m.seconds.into();
                value["runs"] = m.runs.into();
                match m.rate {
                    Rate::Flops(rate) => value["flops_per_second"] = rate.into(),
                    Rate::Bytes(rate) => value["bytes_per_second"] = rate.into(),
                }
                value["share_of_limit"] = m.share.into();
                value["bound"] = m.bound.name().into();
            }
            Outcome::Declined(reason) => value["declined"] = reason.as_str().into(),
            Outcome::Failed(reason) => value["failed"] = reason.as_str().into(),
        }
        value
    }
}
