//! The simulated timeline of a fake device.

use super::script::lock;
use rustorch_core::Fault;
use rustorch_core::profile::{ClockMap, DeviceProfiler, DeviceSpan, SpanKind, current_sequence, host_ns};
use std::sync::Mutex;
use std::time::Duration;

/// A tick of the device's clock, which shows another time than the host's.
const NS_PER_TICK: f64 = 10.0;
const FIRST_TICK: u64 = 1 << 40;

/// A queue of work on a device whose clock is not the host's.
pub(super) struct Timeline {
    time: Box<dyn Fn(&str) -> Duration + Send + Sync>,
    work: Mutex<Work>,
}

#[derive(Default)]
struct Work {
    measured: bool,
    /// When the device has done everything, on its own clock.
    free: u64,
    /// What it did, on its own clock.
    done: Vec<(DeviceSpan, ClockMap)>,
}

impl Timeline {
    pub(super) fn new(time: Box<dyn Fn(&str) -> Duration + Send + Sync>) -> Timeline {
        Timeline { time, work: Mutex::default() }
    }

    pub(super) fn is_measured(&self) -> bool {
        lock(&self.work).measured
    }

    pub(super) fn submit(&self, label: &'static str, kind: SpanKind) {
        let mut work = lock(&self.work);
        if !work.measured {
            return;
        }
        let now = host_ns();
        let ticks = FIRST_TICK + (now as f64 / NS_PER_TICK) as u64;
        let start = ticks.max(work.free);
        let end = start + ((self.time)(label).as_nanos() as f64 / NS_PER_TICK) as u64;
        work.free = end;
        let span = DeviceSpan {
            label: label.into(),
            kind,
            sequence: current_sequence(),
            start_ns: start,
            end_ns: end,
        };
        work.done.push((span, ClockMap::new(ticks, now, NS_PER_TICK)));
    }
}

impl DeviceProfiler for Timeline {
    fn start(&self) -> Result<(), Fault> {
        lock(&self.work).measured = true;
        Ok(())
    }

    fn take_spans(&self) -> Result<Vec<DeviceSpan>, Fault> {
        let done = std::mem::take(&mut lock(&self.work).done);
        let spans: Vec<DeviceSpan> = done
            .into_iter()
            .map(|(span, clock)| DeviceSpan {
                start_ns: clock.host_ns(span.start_ns),
                end_ns: clock.host_ns(span.end_ns),
                ..span
            })
            .collect();
        let last = spans.iter().map(|span| span.end_ns).max().unwrap_or(0);
        std::thread::sleep(Duration::from_nanos(last.saturating_sub(host_ns())));
        Ok(spans)
    }

    fn stop(&self) {
        let mut work = lock(&self.work);
        work.measured = false;
        work.done.clear();
    }
}
