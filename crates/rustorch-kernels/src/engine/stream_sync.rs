//! Synchronisation between streams.
//!
//! Commands of a stream run in order; commands of different streams may overlap. Each memory's access history holds its last
//! writer and the readers since, as [`TimelinePoint`]s: a stream and the number of submissions it had by then. A reader must
//! follow the last writer, a writer all readers too. Across streams, the driver makes the later stream wait for everything the
//! other has so far, unless a table of clocks shows that it has waited for that point already. So events are created only where
//! data crosses streams, and never with a single stream.
//!
//! Correctness: a submission is counted after the driver has it, and a stream that is to wait reads the other's count before
//! the driver is asked to wait. So whatever is counted is waited for; counting late costs at most a redundant wait. Conflicting
//! accesses never race, by the contract of views, and points are recorded before the submitting call returns.

use crate::driver::STREAMS;
use rustorch_core::{Fault, current_stream};
use smallvec::SmallVec;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// A point of a stream's timeline: everything up to this submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimelinePoint {
    stream: usize,
    number: u64,
}

impl TimelinePoint {
    /// The earlier one of two in a stream.
    pub(super) fn earlier(self, other: TimelinePoint) -> TimelinePoint {
        TimelinePoint { number: self.number.min(other.number), ..self }
    }
}

/// The accesses of a memory, and the version of its contents.
#[derive(Debug, Default)]
pub(super) struct AccessHistory {
    last: Mutex<Last>,
    stamp: State,
}

/// The version of a memory's contents: changes before each write, and is unique among all memories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WriteVersion(u64);

#[derive(Debug)]
struct State(AtomicU64);

impl Default for State {
    fn default() -> State {
        State(AtomicU64::new(next_stamp()))
    }
}

fn next_stamp() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    // Nothing but their being different matters, and there is nobody who counts to 2⁶⁴.
    NEXT.fetch_add(1, Ordering::Relaxed)
}

#[derive(Debug, Default)]
struct Last {
    wrote: Option<TimelinePoint>,
    /// Readers since then; one per stream.
    read: SmallVec<[TimelinePoint; 2]>,
}

/// An access of a memory, and whether it writes.
pub(super) type Use<'a> = (&'a AccessHistory, bool);

/// The streams of a device.
#[derive(Debug, Default)]
pub(super) struct StreamSync {
    /// Locked shared while work is submitted, exclusively while the number of streams changes.
    gate: RwLock<()>,
    /// How many streams there are, less one.
    more: AtomicUsize,
    clocks: Mutex<Clocks>,
}

#[derive(Debug)]
struct Clocks {
    /// Submissions per stream.
    given: [u64; STREAMS],
    /// For each stream, up to which submission of every other stream it has waited.
    waited: [[u64; STREAMS]; STREAMS],
}

impl Default for Clocks {
    fn default() -> Clocks {
        Clocks { given: [0; STREAMS], waited: [[0; STREAMS]; STREAMS] }
    }
}

/// A submission of this thread to its stream, whose number does not change meanwhile.
pub(super) struct Submission<'a> {
    sync: &'a StreamSync,
    stream: usize,
    alone: bool,
    _gate: RwLockReadGuard<'a, ()>,
}

impl StreamSync {
    /// How many streams there are.
    pub(super) fn streams(&self) -> usize {
        self.more.load(Ordering::Relaxed) + 1
    }

    /// Begins a submission of this thread. A thread has one at a time.
    pub(super) fn submission(&self) -> Submission<'_> {
        let gate = self.gate.read().unwrap_or_else(PoisonError::into_inner);
        let streams = self.streams();
        Submission { sync: self, stream: current_stream(streams), alone: streams == 1, _gate: gate }
    }

    /// Blocks submissions, to change the number of streams.
    pub(super) fn change(&self) -> Change<'_> {
        Change { sync: self, _gate: self.gate.write().unwrap_or_else(PoisonError::into_inner) }
    }

    /// Makes this thread's stream wait for all accesses of a memory that is about to be freed there.
    pub(super) fn last(&self, history: &AccessHistory, wait: impl Fn(usize, usize) -> Result<(), Fault>) {
        let streams = self.streams();
        if streams == 1 {
            return;
        }
        let stream = current_stream(streams);
        if let Err(fault) = self.before(stream, [(history, true)].into_iter(), wait) {
            tracing::debug!(%fault, "memory is given back out of order");
        }
    }

    fn before<'u>(
        &self,
        stream: usize,
        history: impl Iterator<Item = Use<'u>>,
        wait: impl Fn(usize, usize) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let mut needed = [0; STREAMS];
        for (history, writes) in history {
            let last = history.lock();
            let readers = last.read.iter().filter(|_| writes);
            for point in last.wrote.iter().chain(readers) {
                needed[point.stream] = needed[point.stream].max(point.number);
            }
        }
        needed[stream] = 0;
        for (other, &number) in needed.iter().enumerate().filter(|&(_, &number)| number > 0) {
            let (given, theirs) = {
                let clocks = self.clocks();
                if clocks.waited[stream][other] >= number {
                    continue;
                }
                (clocks.given[other], clocks.waited[other])
            };
            wait(stream, other)?;
            self.clocks().reach(stream, other, given, &theirs);
        }
        Ok(())
    }

    fn clocks(&self) -> MutexGuard<'_, Clocks> {
        self.clocks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clocks {
    /// Records that `stream` waits for `other` up to a submission, and for everything that one had waited for.
    fn reach(&mut self, stream: usize, other: usize, number: u64, theirs: &[u64; STREAMS]) {
        let own = &mut self.waited[stream];
        own[other] = own[other].max(number);
        for (own, theirs) in own.iter_mut().zip(theirs) {
            *own = (*own).max(*theirs);
        }
    }
}

impl Submission<'_> {
    /// The stream.
    pub(super) fn stream(&self) -> usize {
        self.stream
    }

    /// Makes the stream wait for what must precede these accesses (`true`: writes, which change the memory's [`WriteVersion`]).
    /// `wait(stream, other)` is the driver's.
    pub(super) fn before<'u>(
        &self,
        history: impl Iterator<Item = Use<'u>>,
        wait: impl Fn(usize, usize) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let history = history.inspect(|(history, writes)| {
            if *writes {
                history.stamp.0.store(next_stamp(), Ordering::Relaxed);
            }
        });
        if self.alone {
            history.for_each(drop);
            return Ok(());
        }
        self.sync.before(self.stream, history, wait)
    }

    /// Records that the driver has work with these accesses, and returns its timeline point.
    pub(super) fn after<'u>(&self, history: impl Iterator<Item = Use<'u>>) -> TimelinePoint {
        let stream = self.stream;
        if self.alone {
            return TimelinePoint { stream, number: 0 };
        }
        let number = {
            let mut clocks = self.sync.clocks();
            clocks.given[stream] += 1;
            clocks.given[stream]
        };
        let point = TimelinePoint { stream, number };
        for (history, writes) in history {
            let mut last = history.lock();
            if writes {
                *last = Last { wrote: Some(point), read: SmallVec::new() };
                continue;
            }
            match last.read.iter_mut().find(|read| read.stream == stream) {
                // Threads that share the stream may come here in any order.
                Some(read) => read.number = read.number.max(number),
                None => last.read.push(point),
            }
        }
        point
    }

    /// Whether the stream's next command follows a point.
    pub(super) fn follows(&self, point: TimelinePoint) -> bool {
        self.alone
            || point.stream == self.stream
            || self.sync.clocks().waited[self.stream][point.stream] >= point.number
    }

    /// The progress of the device, for [`done`](Self::done) after the host has waited. `None` with a single stream.
    pub(super) fn now(&self) -> Option<Progress> {
        if self.alone {
            return None;
        }
        let clocks = self.sync.clocks();
        Some(Progress { given: clocks.given, waited: clocks.waited[self.stream] })
    }

    /// Records that the host has waited for this stream's submissions until `then`.
    pub(super) fn done(&self, then: Option<Progress>) {
        let Some(then) = then else { return };
        let mut clocks = self.sync.clocks();
        for stream in (0..STREAMS).filter(|&stream| stream != self.stream) {
            clocks.reach(stream, self.stream, then.given[self.stream], &then.waited);
        }
    }

    /// Records that the host has waited for all streams' submissions until `then`.
    pub(super) fn all_done(&self, then: Option<Progress>) {
        let Some(then) = then else { return };
        let mut clocks = self.sync.clocks();
        for stream in 0..STREAMS {
            clocks.reach(stream, stream, 0, &then.given);
        }
    }
}

/// How far a device was.
pub(super) struct Progress {
    given: [u64; STREAMS],
    /// What the own stream had waited for.
    waited: [u64; STREAMS],
}

/// The right to change the number of streams.
pub(super) struct Change<'a> {
    sync: &'a StreamSync,
    _gate: RwLockWriteGuard<'a, ()>,
}

impl Change<'_> {
    /// Sets the number of streams. All work is done.
    pub(super) fn set(self, streams: usize) {
        self.sync.more.store(streams - 1, Ordering::Relaxed);
        let mut clocks = self.sync.clocks();
        let given = clocks.given;
        clocks.waited = [given; STREAMS];
    }
}

impl AccessHistory {
    /// What state the memory is in. Meanwhile nobody writes it.
    pub(super) fn stamp(&self) -> WriteVersion {
        WriteVersion(self.stamp.0.load(Ordering::Relaxed))
    }

    fn lock(&self) -> MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
