//! What the executor did, and why.

use rustorch_core::{DType, Device, Shape, Verdict};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How many records are kept.
const CAPACITY: usize = 4096;

/// One operation: where it ran, and what every other device said.
#[derive(Clone, Debug)]
pub struct Record {
    /// The operation's name.
    pub op: &'static str,
    /// Dtype and shape of each argument.
    pub args: Vec<(DType, Shape)>,
    /// The device that ran it; none if all failed.
    pub device: Option<Device>,
    /// The device to which the results went, if not where it ran.
    pub returned_to: Option<Device>,
    /// The bytes that were moved for it, results included.
    pub moved_bytes: u64,
    /// How long it took from the call to the results, as the caller saw it: a device may still be computing.
    pub time: Duration,
    /// Every device that was considered, with what it said.
    pub considered: Vec<(Device, Verdict)>,
}

/// How often a device was considered and what came of it.
///
/// Small work that stays on the processor without planning is counted only while records are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceCounts {
    /// Operations run.
    pub ran: u64,
    /// Operations declined.
    pub declined: u64,
    /// Operations failed.
    pub failed: u64,
}

#[derive(Default)]
struct Counters {
    ran: AtomicU64,
    declined: AtomicU64,
    failed: AtomicU64,
}

/// Keeps records while somebody wants them, and counts always.
pub(crate) struct Recorder {
    /// How many want records.
    watchers: AtomicUsize,
    ring: Mutex<VecDeque<Record>>,
    counters: Box<[Counters]>,
}

thread_local! {
    /// The records of the `explain` scopes on this thread, innermost last.
    static SCOPES: RefCell<Vec<Vec<Record>>> = const { RefCell::new(Vec::new()) };
}

impl Recorder {
    pub(crate) fn new(devices: usize) -> Recorder {
        Recorder {
            watchers: AtomicUsize::new(0),
            ring: Mutex::default(),
            counters: (0..devices).map(|_| Counters::default()).collect(),
        }
    }

    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        self.watchers.load(Ordering::Relaxed) != 0
    }

    pub(crate) fn watch(&self) {
        self.watchers.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn unwatch(&self) {
        self.watchers.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn ran(&self, slot: usize) {
        self.counters[slot].ran.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn declined(&self, slot: usize) {
        self.counters[slot].declined.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn failed(&self, slot: usize) {
        self.counters[slot].failed.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn counts(&self, slot: usize) -> DeviceCounts {
        let counters = &self.counters[slot];
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        DeviceCounts {
            ran: get(&counters.ran),
            declined: get(&counters.declined),
            failed: get(&counters.failed),
        }
    }

    pub(crate) fn push(&self, record: Record) {
        SCOPES.with_borrow_mut(|scopes| {
            if let Some(scope) = scopes.last_mut() {
                scope.push(record.clone());
            }
        });
        // A half-written record cannot be in the ring, whatever happened under the lock.
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        if ring.len() == CAPACITY {
            ring.pop_front();
        }
        ring.push_back(record);
    }

    pub(crate) fn take(&self) -> Vec<Record> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect()
    }
}

/// A scope on this thread whose records are collected; ends when dropped.
pub(crate) struct Scope<'a>(&'a Recorder);

impl<'a> Scope<'a> {
    pub(crate) fn new(recorder: &'a Recorder) -> Scope<'a> {
        SCOPES.with_borrow_mut(|scopes| scopes.push(Vec::new()));
        recorder.watch();
        Scope(recorder)
    }

    pub(crate) fn finish(self) -> Vec<Record> {
        // Copied: they belong to the outer scopes, too.
        SCOPES.with_borrow(|scopes| scopes.last().cloned()).unwrap_or_default()
    }
}

impl Drop for Scope<'_> {
    fn drop(&mut self) {
        self.0.unwatch();
        SCOPES.with_borrow_mut(|scopes| {
            if let Some(inner) = scopes.pop()
                && let Some(outer) = scopes.last_mut()
            {
                outer.extend(inner);
            }
        });
    }
}
