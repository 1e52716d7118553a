//! Device-side profiling (timestamps of kernels) and utilisation metrics.

use crate::Fault;
use std::borrow::Cow;
use std::cell::Cell;
use std::sync::LazyLock;
use std::time::Instant;

static EPOCH: LazyLock<Instant> = LazyLock::new(Instant::now);

thread_local! {
    static SEQUENCE: Cell<u64> = const { Cell::new(0) };
}

/// The clock of profiles: nanoseconds since its first use in this process. It never goes back.
pub fn host_ns() -> u64 {
    let epoch = *EPOCH;
    // 584 years.
    epoch.elapsed().as_nanos() as u64
}

/// A moment that the standard library's clock told, on the clock of [`host_ns`]; 0 for moments before its first use.
pub fn host_ns_at(moment: Instant) -> u64 {
    moment.saturating_duration_since(*EPOCH).as_nanos() as u64
}

/// A device's own measuring of its work, for devices that run it after they were asked to.
///
/// A backend that has timestamp queries or events gives one by [`Backend::extensions`](crate::Backend::extensions). While
/// it is started, the backend notes for every launch and every copy [`current_sequence`], which is the dispatch that it is
/// for, on the thread that calls it, and when the device began and ended. Times are on the clock of [`host_ns`];
/// [`ClockMap`] translates the device's ticks.
pub trait DeviceProfiler: Send + Sync {
    /// Begins to measure.
    ///
    /// # Errors
    /// If the device cannot; nothing is measured then.
    fn start(&self) -> Result<(), Fault>;

    /// Waits until everything submitted has finished, and gives what was measured since the last call, in any order.
    ///
    /// # Errors
    /// If the device fails.
    fn take_spans(&self) -> Result<Vec<DeviceSpan>, Fault>;

    /// Stops measuring. What was not taken is forgotten.
    fn stop(&self);
}

/// What occupied a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SpanKind {
    /// It computed.
    Compute,
    /// It copied from or to other memory.
    Copy,
}

/// A stretch of time in which a device ran one thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceSpan {
    /// What ran: the kernel's name, as far as there is one.
    pub label: Cow<'static, str>,
    /// What kind of work it was.
    pub kind: SpanKind,
    /// The dispatch that it was for: [`current_sequence`] when it was submitted; 0 if it was for none.
    pub sequence: u64,
    /// When it began, on the clock of [`host_ns`].
    pub start_ns: u64,
    /// When it ended; not before it began.
    pub end_ns: u64,
}

/// The dispatch that this thread is working on, for a device that notes it with a launch; 0 outside profiled dispatches.
#[inline]
pub fn current_sequence() -> u64 {
    SEQUENCE.get()
}

/// Marks everything that this thread submits as belonging to one dispatch, until it is dropped.
#[derive(Debug)]
pub struct SequenceScope {
    outer: u64,
    /// Stays on its thread.
    _thread: std::marker::PhantomData<*const ()>,
}

impl SequenceScope {
    /// From now on, [`current_sequence`] is `sequence` on this thread.
    pub fn enter(sequence: u64) -> SequenceScope {
        SequenceScope { outer: SEQUENCE.replace(sequence), _thread: std::marker::PhantomData }
    }
}

impl Drop for SequenceScope {
    fn drop(&mut self) {
        SEQUENCE.set(self.outer);
    }
}

/// Translates a device's timestamps to the clock of [`host_ns`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClockMap {
    ticks: u64,
    host_ns: u64,
    ns_per_tick: f64,
}

impl ClockMap {
    /// From one reading of both clocks at the same time, and the period of the device's.
    pub fn new(ticks: u64, host_ns: u64, ns_per_tick: f64) -> ClockMap {
        ClockMap { ticks, host_ns, ns_per_tick }
    }

    /// From two readings of both clocks, `(ticks, host_ns)` each, which also tell the device's period; `None` if the
    /// device's clock did not advance between them.
    pub fn between(first: (u64, u64), second: (u64, u64)) -> Option<ClockMap> {
        let ticks = second.0.checked_sub(first.0).filter(|&ticks| ticks > 0)?;
        let host = second.1.checked_sub(first.1)?;
        Some(ClockMap::new(first.0, first.1, host as f64 / ticks as f64))
    }

    /// The time on the host's clock at which the device's showed `ticks`; 0 for times before the host's clock began.
    pub fn host_ns(&self, ticks: u64) -> u64 {
        // The difference is small where the values are large, so it is taken exactly.
        let since = i128::from(ticks) - i128::from(self.ticks);
        let ns = i128::from(self.host_ns) + (since as f64 * self.ns_per_tick).round() as i128;
        ns.clamp(0, i128::from(u64::MAX)) as u64
    }
}

/// How busy a device is at this moment, as far as it tells; what it does not tell is `None`.
///
/// Named for the devices that it was made for; the CPU has one as well.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GpuBenchmarkMetrics {
    /// The part of the recent past in which it was working, from 0 to 100.
    pub utilization_percent: Option<f64>,
    /// Memory in use by all programs, in bytes.
    pub memory_used: Option<u64>,
    /// Memory in all, in bytes.
    pub memory_total: Option<u64>,
    /// Its temperature, in degrees Celsius.
    pub temperature_celsius: Option<f64>,
    /// The power that it draws, in watts.
    pub power_watts: Option<f64>,
}

impl GpuBenchmarkMetrics {
    /// These, and from `other` what they do not tell.
    pub fn or(self, other: GpuBenchmarkMetrics) -> GpuBenchmarkMetrics {
        // Two sources may count memory differently, so both figures come from one.
        let memory = if self.memory_used.is_some() { self } else { other };
        GpuBenchmarkMetrics {
            utilization_percent: self.utilization_percent.or(other.utilization_percent),
            memory_used: memory.memory_used,
            memory_total: memory.memory_total.or(self.memory_total),
            temperature_celsius: self.temperature_celsius.or(other.temperature_celsius),
            power_watts: self.power_watts.or(other.power_watts),
        }
    }
}
