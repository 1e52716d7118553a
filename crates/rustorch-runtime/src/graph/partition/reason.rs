//! Why a node is in no region of a device.

use crate::text::Time;
use rustorch_core::Device;
use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

/// Why a node of a graph is in no region that a device compiles.
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// The device's compiler cannot, in its own words.
    Declined(Cow<'static, str>),
    /// It draws random numbers anew in each run.
    Random,
    /// It writes in place.
    InPlace,
    /// It moves a tensor to a device.
    Transfer,
    /// It is the user's own operation.
    Custom,
    /// The placement policy rules the device out.
    Excluded,
    /// The placement policy gives it to another device.
    Placed(Option<Device>),
    /// The device failed for good.
    Lost,
    /// Neither it nor those around it that could be in one region have enough to compute.
    Light,
    /// The compiler does not know how long the region takes.
    Unpriced,
    /// The region would save less than it costs.
    Unprofitable {
        /// What a run saves, moving included; less than nothing if it takes longer.
        saved_us: f64,
        /// What has to be saved by all runs.
        compile_us: f64,
    },
    /// It was at the border of a region that is cheaper without it.
    Trimmed,
    /// The region could not be compiled.
    Fault(String),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Declined(reason) => f.write_str(reason),
            Reason::Random => f.write_str("draws random numbers anew in each run"),
            Reason::InPlace => f.write_str("writes in place"),
            Reason::Transfer => f.write_str("moves a tensor to a device"),
            Reason::Custom => f.write_str("custom op"),
            Reason::Excluded => f.write_str("excluded by the placement policy"),
            Reason::Placed(Some(device)) => write!(f, "the placement policy runs it on {device}"),
            Reason::Placed(None) => f.write_str("the placement policy runs it elsewhere"),
            Reason::Lost => f.write_str("lost earlier in this process"),
            Reason::Light => f.write_str("too little to compute for a region"),
            Reason::Unpriced => f.write_str("the compiler does not know how long the region takes"),
            Reason::Unprofitable { saved_us, compile_us } if *saved_us <= 0.0 => {
                let _ = compile_us;
                write!(f, "the region would take {} longer in each run", microseconds(-saved_us))
            }
            Reason::Unprofitable { saved_us, compile_us } => write!(
                f,
                "the region would save {} in each run, and {} to compile it is more than the expected runs save",
                microseconds(*saved_us),
                microseconds(*compile_us)
            ),
            Reason::Trimmed => f.write_str("the region is cheaper without it"),
            Reason::Fault(fault) => write!(f, "the region could not be compiled: {fault}"),
        }
    }
}

/// A time in a unit that people read; what cannot be told is no time.
pub(super) fn microseconds(us: f64) -> Time {
    Time(Duration::try_from_secs_f64(us / 1e6).unwrap_or_default())
}
