//! A device's calibration, and its JSON form.

use super::measure;
use rustorch_core::{Backend, CostModel, DType, Error, Fault, Link, OpKind, OpType, Rate, RateOf, Result};
use serde::{Deserialize, Serialize};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What was measured of a device, and of which one.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    /// The kind of device: [`DeviceKind::name`](rustorch_core::DeviceKind::name).
    pub family: String,
    /// Its name.
    pub name: String,
    /// Its driver's version.
    pub driver: String,
    /// The version of RusTorch that measured.
    pub version: String,
    /// The kernels that were measured: [`DeviceCapability::kernels`](rustorch_core::DeviceCapability::kernels).
    pub kernels: u64,
    /// When, in seconds since 1970 (UTC).
    pub measured_at: u64,
    /// Whether there was time for every measurement.
    pub complete: bool,
    /// How often the device was measured, this time included.
    pub attempts: u32,
    /// What disturbed the measurement, if something did: such rates serve the process that measured and are not kept.
    pub disturbed: Option<String>,
    /// The result.
    pub model: CostModel,
}

/// The time for a measurement that nobody asked for.
pub(super) const BUDGET: Duration = Duration::from_millis(800);
/// How often a device is measured that never has the time for everything. The first time it may have to compile its
/// kernels, which it keeps for the next.
const ATTEMPTS: u32 = 3;
/// A measurement holds no longer: cooling, clocks and drivers' settings change.
const VALID_FOR: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

impl Calibration {
    /// Measures a device by its own operations, in about a second at most (the first run of a kernel, which may have
    /// to be compiled, is not interrupted).
    ///
    /// # Errors
    /// If the device fails, or cannot even add numbers.
    pub fn measure(backend: &dyn Backend) -> std::result::Result<Calibration, Fault> {
        Calibration::measure_within(backend, BUDGET)
    }

    /// As [`measure`](Self::measure), with a time limit of one's own: with more time, slow devices are measured completely, and
    /// rates are more exact on a machine that does other things as well.
    ///
    /// # Errors
    /// As there.
    pub fn measure_within(backend: &dyn Backend, limit: Duration) -> std::result::Result<Calibration, Fault> {
        measure::calibrate(backend, limit)
    }

    pub(super) fn of(backend: &dyn Backend, model: CostModel, complete: bool) -> Calibration {
        let capability = backend.capability();
        Calibration {
            family: backend.device().kind().name().to_owned(),
            name: capability.name.clone(),
            driver: capability.driver.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            kernels: capability.kernels,
            measured_at: now(),
            complete,
            attempts: 1,
            disturbed: None,
            model,
        }
    }

    /// Whether measuring again would tell no more.
    pub fn is_settled(&self) -> bool {
        self.complete || self.attempts >= ATTEMPTS
    }

    /// Whether it is of this device, driver, version and kernels of RusTorch, and at most 30 days old.
    pub fn fits(&self, backend: &dyn Backend) -> bool {
        let capability = backend.capability();
        self.family == backend.device().kind().name()
            && self.name == capability.name
            && self.driver == capability.driver
            && self.version == env!("CARGO_PKG_VERSION")
            && self.kernels == capability.kernels
            && now().checked_sub(self.measured_at).is_some_and(|age| age <= VALID_FOR.as_secs())
    }

    /// As JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(&File::from(self)).expect("numbers and strings under fixed names")
    }

    /// From JSON.
    ///
    /// # Errors
    /// If the text is not what [`to_json`](Self::to_json) writes, or has numbers that no device can have.
    pub fn from_json(text: &str) -> Result<Calibration> {
        let wrong = |what: String| Error::argument("calibration", what);
        let file: File = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
        file.calibration().map_err(wrong)
    }
}

/// The layout of the text. A rate of which there is no limit is left out, since JSON has no infinity.
#[derive(Serialize, Deserialize)]
struct File {
    family: String,
    name: String,
    driver: String,
    version: String,
    kernels: String,
    measured_at: u64,
    complete: bool,
    attempts: u32,
    launch_us: f64,
    flops: f64,
    bandwidth: f64,
    upload: LinkEntry,
    download: LinkEntry,
    rates: Vec<RateEntry>,
}

#[derive(Serialize, Deserialize)]
struct LinkEntry {
    start_us: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    bandwidth: Option<f64>,
}

#[derive(Serialize, Deserialize)]
struct RateEntry {
    #[serde(skip_serializing_if = "Option::is_none")]
    op: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    class: Option<String>,
    dtype: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    flops: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bandwidth: Option<f64>,
}

fn finite(rate: f64) -> Option<f64> {
    rate.is_finite().then_some(rate)
}

impl From<&Calibration> for File {
    fn from(calibration: &Calibration) -> File {
        let model = &calibration.model;
        let link = |link: &Link| LinkEntry { start_us: link.start_us, bandwidth: finite(link.bandwidth) };
        File {
            family: calibration.family.clone(),
            name: calibration.name.clone(),
            driver: calibration.driver.clone(),
            version: calibration.version.clone(),
            kernels: format!("{:016x}", calibration.kernels),
            measured_at: calibration.measured_at,
            complete: calibration.complete,
            attempts: calibration.attempts,
            launch_us: model.launch_us,
            flops: model.flops,
            bandwidth: model.bandwidth,
            upload: link(&model.upload),
            download: link(&model.download),
            rates: model.rates.iter().map(RateEntry::from).collect(),
        }
    }
}

impl From<&Rate> for RateEntry {
    fn from(rate: &Rate) -> RateEntry {
        let (op, class) = match rate.of {
            RateOf::Op(op) => (Some(op.to_string()), None),
            RateOf::Class(class) => (None, Some(format!("{class:?}"))),
        };
        let dtype = rate.dtype.name().to_owned();
        RateEntry { op, class, dtype, flops: finite(rate.flops), bandwidth: finite(rate.bandwidth) }
    }
}

impl File {
    fn calibration(self) -> std::result::Result<Calibration, String> {
        let positive = |name: &str, rate: f64| match rate > 0.0 && !rate.is_nan() {
            true => Ok(rate),
            false => Err(format!("{name} is {rate}, which is no rate")),
        };
        let time = |name: &str, us: f64| match us >= 0.0 && us.is_finite() {
            true => Ok(us),
            false => Err(format!("{name} is {us}, which is no time")),
        };
        let link = |entry: &LinkEntry| {
            Ok::<_, String>(Link {
                start_us: time("start_us", entry.start_us)?,
                bandwidth: positive("bandwidth", entry.bandwidth.unwrap_or(f64::INFINITY))?,
            })
        };
        let mut rates = Vec::with_capacity(self.rates.len());
        for entry in self.rates {
            let of = match (entry.op, entry.class) {
                (Some(op), None) => RateOf::Op(op.parse::<OpKind>().map_err(|e| e.to_string())?),
                (None, Some(name)) => {
                    let class = OpType::ALL.iter().find(|class| format!("{class:?}") == name);
                    RateOf::Class(*class.ok_or_else(|| format!("`{name}` is no class of operations"))?)
                }
                _ => return Err("a rate is of an operation or of a class".to_owned()),
            };
            rates.push(Rate {
                of,
                dtype: DType::from_name(&entry.dtype)
                    .ok_or_else(|| format!("`{}` is no dtype", entry.dtype))?,
                flops: positive("flops", entry.flops.unwrap_or(f64::INFINITY))?,
                bandwidth: positive("bandwidth", entry.bandwidth.unwrap_or(f64::INFINITY))?,
            });
        }
        let model = CostModel {
            launch_us: time("launch_us", self.launch_us)?,
            flops: positive("flops", self.flops)?,
            bandwidth: positive("bandwidth", self.bandwidth)?,
            rates,
            upload: link(&self.upload)?,
            download: link(&self.download)?,
        };
        Ok(Calibration {
            family: self.family,
            name: self.name,
            driver: self.driver,
            version: self.version,
            kernels: u64::from_str_radix(&self.kernels, 16)
                .map_err(|_| format!("kernels is `{}`, which is no hash", self.kernels))?,
            measured_at: self.measured_at,
            complete: self.complete,
            attempts: self.attempts,
            disturbed: None,
            model,
        })
    }
}
