//! Records: which device ran an operation, what the others answered, what was moved.

use crate::transfers::TransferMethod;
use rustorch_core::profile::host_ns;
use rustorch_core::{DType, Device, OpKind, OpType, Shape, Verdict, Work};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How many records are kept.
const CAPACITY: usize = 4096;

/// One operation: where it ran, and what every other device said.
#[derive(Clone, Debug)]
pub struct Record {
    /// The operation.
    pub op: OpKind,
    /// The operation's class.
    pub class: OpType,
    /// Dtype and shape of each argument.
    pub args: Vec<(DType, Shape)>,
    /// How much work it is.
    pub work: Work,
    /// The device that ran it; none if all failed.
    pub device: Option<Device>,
    /// The device to which the results went, if not where it ran.
    pub returned_to: Option<Device>,
    /// The bytes that were moved for it, results included.
    pub moved_bytes: u64,
    /// How long it took from the call to the results, as the caller saw it: a device may still be computing.
    pub time: Duration,
    /// A number that no other dispatch of this process has; what devices and transfers name as the cause of their work.
    pub sequence: u64,
    /// The thread that dispatched it: a small number for each.
    pub thread: u32,
    /// When it was called, on the clock of [`host_ns`](rustorch_core::profile::host_ns).
    pub start_ns: u64,
    /// When the device that ran it was called, and when it returned: the time of the computation on the CPU, that
    /// of starting it on devices that work by themselves.
    pub run: Option<Interval>,
    /// Every device that was considered, with what it said.
    pub considered: Vec<(Device, Verdict)>,
}

/// How often a device was considered and what came of it.
///
/// Small work that stays on the CPU without planning is counted only while records are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceCounts {
    /// Operations run.
    pub ran: u64,
    /// Operations declined.
    pub declined: u64,
    /// Operations failed.
    pub failed: u64,
    /// Floating-point operations of what ran.
    pub ran_flops: u64,
    /// Floating-point operations of what was declined.
    pub declined_flops: u64,
}

/// How often a device was used.
#[derive(Default)]
pub(crate) struct Counters {
    ran: AtomicU64,
    declined: AtomicU64,
    failed: AtomicU64,
    ran_flops: AtomicU64,
    declined_flops: AtomicU64,
}

impl Counters {
    pub(crate) fn ran(&self, work: Work) {
        self.ran.fetch_add(1, Ordering::Relaxed);
        self.ran_flops.fetch_add(work.flops, Ordering::Relaxed);
    }

    pub(crate) fn declined(&self, work: Work) {
        self.declined.fetch_add(1, Ordering::Relaxed);
        self.declined_flops.fetch_add(work.flops, Ordering::Relaxed);
    }

    pub(crate) fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn counts(&self) -> DeviceCounts {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        DeviceCounts {
            ran: get(&self.ran),
            declined: get(&self.declined),
            failed: get(&self.failed),
            ran_flops: get(&self.ran_flops),
            declined_flops: get(&self.declined_flops),
        }
    }
}

/// Bytes on their way between devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferRecord {
    /// The dispatch that they were for, or a number of their own for those that the caller asked for.
    pub sequence: u64,
    /// The thread that moved them.
    pub thread: u32,
    /// Where they were.
    pub from: Device,
    /// Where they went.
    pub to: Device,
    /// How.
    pub method: TransferMethod,
    /// How many; those of an alias did not move.
    pub bytes: u64,
    /// When, as the caller saw it.
    pub time: Interval,
}

/// How much memory of a device was in use at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemorySample {
    /// The moment, on the clock of [`host_ns`](rustorch_core::profile::host_ns).
    pub at_ns: u64,
    /// The device.
    pub device: Device,
    /// Bytes in use by tensors.
    pub allocated: u64,
    /// Bytes taken from the device: in use, or kept for reuse.
    pub reserved: u64,
}

/// A stretch of time on the clock of [`host_ns`](rustorch_core::profile::host_ns).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// When it began.
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
}

impl Interval {
    /// From then to now.
    pub(crate) fn since(start_ns: u64) -> Interval {
        Interval { start_ns, end_ns: host_ns() }
    }

    /// How long it was.
    pub fn duration(&self) -> Duration {
        Duration::from_nanos(self.end_ns.saturating_sub(self.start_ns))
    }
}

/// What one watcher has seen.
#[derive(Default)]
pub(crate) struct Trace {
    pub(crate) records: Vec<Record>,
    pub(crate) transfers: Vec<TransferRecord>,
    pub(crate) memory: Vec<MemorySample>,
}

/// Somebody who wants to know what is dispatched.
struct Watcher {
    id: u64,
    /// The thread whose operations it wants, or all.
    thread: Option<u32>,
    /// Whether it wants to know about memory.
    memory: bool,
    /// The last sample of each device.
    latest: Vec<MemorySample>,
    trace: Trace,
}

impl Watcher {
    /// Notes a sample where it differs from the last: between two of them the line is flat.
    fn sample(&mut self, sample: MemorySample) {
        match self.latest.iter_mut().find(|last| last.device == sample.device) {
            Some(last) if (last.allocated, last.reserved) == (sample.allocated, sample.reserved) => return,
            Some(last) => *last = sample,
            None => self.latest.push(sample),
        }
        self.trace.memory.push(sample);
    }

    fn sees(&self, thread: u32) -> bool {
        self.thread.is_none_or(|own| own == thread)
    }
}

/// What is wanted, and what was seen.
#[derive(Default)]
struct Seen {
    /// Whether the ring is filled.
    recording: bool,
    ring: VecDeque<Record>,
    watchers: Vec<Watcher>,
    last: u64,
}

/// Keeps records while somebody wants them.
#[derive(Default)]
pub(crate) struct Recorder {
    /// How many want records, the ring included.
    wanted: AtomicUsize,
    /// How many want to know about memory.
    memory_wanted: AtomicUsize,
    seen: Mutex<Seen>,
}

/// This thread's number.
pub(crate) fn thread_number() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    thread_local! {
        static NUMBER: u32 = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    NUMBER.with(|number| *number)
}

/// A number that no dispatch of this process had yet. Never 0, which means none.
pub(crate) fn next_sequence() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Recorder {
    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) != 0
    }

    /// Whether somebody wants to know about memory.
    pub(crate) fn samples_memory(&self) -> bool {
        self.memory_wanted.load(Ordering::Relaxed) != 0
    }

    /// Fills the ring from now on, or not.
    pub(crate) fn set_recording(&self, on: bool) {
        let was = std::mem::replace(&mut self.lock().recording, on);
        match (was, on) {
            (false, true) => _ = self.wanted.fetch_add(1, Ordering::Relaxed),
            (true, false) => _ = self.wanted.fetch_sub(1, Ordering::Relaxed),
            _ => {}
        }
    }

    /// Begins to watch one thread or all, and memory too where asked.
    pub(crate) fn open(&self, thread: Option<u32>, memory: bool) -> u64 {
        let mut seen = self.lock();
        seen.last += 1;
        let id = seen.last;
        seen.watchers.push(Watcher { id, thread, memory, latest: Vec::new(), trace: Trace::default() });
        drop(seen);
        self.wanted.fetch_add(1, Ordering::Relaxed);
        self.memory_wanted.fetch_add(usize::from(memory), Ordering::Relaxed);
        id
    }

    /// Ends what [`open`](Self::open) began.
    pub(crate) fn close(&self, id: u64) -> Trace {
        let mut seen = self.lock();
        let Some(position) = seen.watchers.iter().position(|watcher| watcher.id == id) else {
            return Trace::default();
        };
        let watcher = seen.watchers.remove(position);
        drop(seen);
        self.wanted.fetch_sub(1, Ordering::Relaxed);
        self.memory_wanted.fetch_sub(usize::from(watcher.memory), Ordering::Relaxed);
        watcher.trace
    }

    pub(crate) fn push(&self, record: Record) {
        let mut seen = self.lock();
        for watcher in seen.watchers.iter_mut().filter(|watcher| watcher.sees(record.thread)) {
            watcher.trace.records.push(record.clone());
        }
        if seen.recording {
            if seen.ring.len() == CAPACITY {
                seen.ring.pop_front();
            }
            seen.ring.push_back(record);
        }
    }

    pub(crate) fn push_transfer(&self, transfer: TransferRecord) {
        for watcher in self.lock().watchers.iter_mut().filter(|watcher| watcher.sees(transfer.thread)) {
            watcher.trace.transfers.push(transfer);
        }
    }

    /// Notes how much memory is in use, as this thread finds it.
    pub(crate) fn push_memory(&self, samples: &[MemorySample]) {
        let thread = thread_number();
        for watcher in self.lock().watchers.iter_mut().filter(|w| w.memory && w.sees(thread)) {
            samples.iter().for_each(|&sample| watcher.sample(sample));
        }
    }

    pub(crate) fn take(&self) -> Vec<Record> {
        self.lock().ring.drain(..).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        // A half-written record cannot be in the lists, whatever happened under the lock.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A scope whose records are collected; ends when dropped.
pub(crate) struct Scope<'a> {
    recorder: &'a Recorder,
    id: u64,
}

impl<'a> Scope<'a> {
    /// Collects this thread's.
    pub(crate) fn of_this_thread(recorder: &'a Recorder) -> Scope<'a> {
        Scope { recorder, id: recorder.open(Some(thread_number()), false) }
    }

    pub(crate) fn finish(self) -> Trace {
        self.recorder.close(self.id)
    }
}

impl Drop for Scope<'_> {
    fn drop(&mut self) {
        // Nothing after `finish`: numbers are not used again.
        self.recorder.close(self.id);
    }
}
