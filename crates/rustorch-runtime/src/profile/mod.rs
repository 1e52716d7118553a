//! Profiles: every operation with its device time, every transfer, memory over time.
//!
//! [`HybridExecutor::profile`] measures what one thread does in a scope, [`Profiler`] what all threads do. A [`Profile`]
//! prints as a table, and is written as JSON ([`Profile::to_json`]) or as a trace for Perfetto and `chrome://tracing`
//! ([`Profile::write_chrome_trace`]).
//!
//! Device times come from the devices: the CPU's are those of its computations, those of other devices come from
//! their [`DeviceProfiler`](rustorch_core::profile::DeviceProfiler) where they have one. Where they have none, only the
//! time that the caller saw is known, and tables and files say so.

mod hub;
mod json;
mod summary;
mod table;
mod trace;

pub(crate) use hub::SpanHub;
pub use summary::{DeviceTotal, Fallback, OpSummary, TransferTotal};

use crate::executor::HybridExecutor;
use crate::explain::Explanation;
use crate::record::{MemorySample, Record, Trace, TransferRecord, thread_number};
use rustorch_core::Device;
use rustorch_core::profile::{DeviceSpan, SpanKind, host_ns};
use std::collections::{HashMap, HashSet};
use std::time::Duration;

/// Everything that happened while it was taken. See the [module](self).
#[derive(Clone, Debug)]
pub struct Profile {
    start_ns: u64,
    end_ns: u64,
    operations: Vec<Operation>,
    transfers: Vec<TransferRecord>,
    memory: Vec<MemorySample>,
    spans: Vec<(Device, DeviceSpan)>,
    devices: Vec<(Device, String)>,
    notes: Vec<String>,
}

/// An operation and how long its device took.
#[derive(Clone, Debug)]
pub struct Operation {
    /// Where it ran, and what every other device said.
    pub record: Record,
    /// How long the device that ran it computed for it; `None` if the device does not tell.
    pub device_time: Option<Duration>,
}

impl Operation {
    /// The device's time where it is known, else the time that the caller saw.
    pub fn time(&self) -> Duration {
        self.device_time.unwrap_or(self.record.time)
    }
}

impl Profile {
    /// When it began and ended, on the clock of [`host_ns`].
    pub fn interval(&self) -> crate::Interval {
        crate::Interval { start_ns: self.start_ns, end_ns: self.end_ns }
    }

    /// How long it took.
    pub fn duration(&self) -> Duration {
        self.interval().duration()
    }

    /// The operations, in the order in which they were called.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// What was copied between devices, in the order in which it began.
    pub fn transfers(&self) -> &[TransferRecord] {
        &self.transfers
    }

    /// Memory in use: a sample for each change, as operations and uploads found it when they had finished.
    pub fn memory(&self) -> &[MemorySample] {
        &self.memory
    }

    /// When which device ran what, in the order in which it began; devices that do not tell are missing.
    pub fn spans(&self) -> &[(Device, DeviceSpan)] {
        &self.spans
    }

    /// The executor's devices and their names.
    pub fn devices(&self) -> &[(Device, String)] {
        &self.devices
    }

    /// What devices could not measure, and why.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Every operation as a line of a table, with what every device said.
    pub fn explanation(&self) -> Explanation {
        Explanation::new(self.operations.iter().map(|operation| operation.record.clone()).collect())
    }

    fn new(start_ns: u64, end_ns: u64, thread: Option<u32>, measured: Measured) -> Profile {
        let Measured { trace: Trace { mut records, mut transfers, memory }, mut spans, notes, devices } =
            measured;
        records.sort_by_key(|record| record.start_ns);
        transfers.sort_by_key(|transfer| transfer.time.start_ns);
        if thread.is_some() {
            let own: HashSet<u64> =
                records.iter().map(|r| r.sequence).chain(transfers.iter().map(|t| t.sequence)).collect();
            spans.retain(|(_, span)| span.sequence != 0 && own.contains(&span.sequence));
        } else {
            spans.retain(|(_, span)| span.end_ns >= start_ns && span.start_ns <= end_ns);
        }
        // The CPU is done when it returns, so its times are those of the calls.
        spans.extend(records.iter().filter(|r| r.device == Some(Device::CPU)).filter_map(|record| {
            let run = record.run?;
            let span = DeviceSpan {
                label: record.op.name().into(),
                kind: SpanKind::Compute,
                sequence: record.sequence,
                start_ns: run.start_ns,
                end_ns: run.end_ns,
            };
            Some((Device::CPU, span))
        }));
        spans.sort_by_key(|(_, span)| (span.start_ns, span.end_ns));
        let mut times: HashMap<(Device, u64), Duration> = HashMap::new();
        for (device, span) in spans.iter().filter(|(_, span)| span.kind == SpanKind::Compute) {
            *times.entry((*device, span.sequence)).or_default() += duration(span);
        }
        let operations = records
            .into_iter()
            .map(|record| {
                let time = record.device.and_then(|device| times.get(&(device, record.sequence)).copied());
                Operation { record, device_time: time }
            })
            .collect();
        Profile { start_ns, end_ns, operations, transfers, memory, spans, devices, notes }
    }
}

/// How long a device was occupied.
fn duration(span: &DeviceSpan) -> Duration {
    Duration::from_nanos(span.end_ns.saturating_sub(span.start_ns))
}

/// What an executor measured for a profile.
pub(crate) struct Measured {
    pub(crate) trace: Trace,
    pub(crate) spans: Vec<(Device, DeviceSpan)>,
    pub(crate) notes: Vec<String>,
    pub(crate) devices: Vec<(Device, String)>,
}

/// Measures what an executor dispatches, on all threads, from its making until [`finish`](Self::finish).
///
/// While one is there, every operation takes the way through the planner.
#[derive(Debug)]
pub struct Profiler {
    executor: HybridExecutor,
    id: Option<u64>,
    thread: Option<u32>,
    start_ns: u64,
}

impl Profiler {
    /// Begins to measure, on all threads.
    pub fn start(executor: &HybridExecutor) -> Profiler {
        Profiler::begin(executor, None)
    }

    pub(crate) fn of_this_thread(executor: &HybridExecutor) -> Profiler {
        Profiler::begin(executor, Some(thread_number()))
    }

    fn begin(executor: &HybridExecutor, thread: Option<u32>) -> Profiler {
        let start_ns = host_ns();
        let id = executor.begin_profile(thread);
        Profiler { executor: executor.clone(), id: Some(id), thread, start_ns }
    }

    /// Waits for the devices and gives what was measured.
    pub fn finish(mut self) -> Profile {
        let id = self.id.take().expect("taken here and in drop only");
        let measured = self.executor.end_profile(id);
        Profile::new(self.start_ns, host_ns(), self.thread, measured)
    }
}

impl Drop for Profiler {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            self.executor.end_profile(id);
        }
    }
}
