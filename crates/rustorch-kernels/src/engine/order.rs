//! The order of work on several streams.
//!
//! Each stream does its work in order; work of two streams may overlap. A memory notes who wrote it last and who has read it
//! since, as *points*: a stream, and how many pieces of work that stream had been given by then. Whoever reads the memory comes
//! after its writer, and whoever writes it after its readers too. If those are of another stream, the own one is made to wait
//! for everything that the other one was given so far, unless it has waited for the point before, which a table of clocks
//! tells. So events are made only where data really goes from stream to stream, and none where there is one stream.
//!
//! Why this is right: a piece is counted after the driver has it, and a stream that is to wait reads the other's count before
//! the driver is asked for the wait. So whatever is counted is waited for, and counting late leads to one wait too many only.
//! Two threads never use a memory at once in ways that conflict, by the contract of views, and points are noted before the
//! call returns that gave the work.

use crate::driver::STREAMS;
use rustorch_core::{Fault, current_stream};
use smallvec::SmallVec;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// A place in a stream: everything up to its piece of this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Point {
    stream: usize,
    number: u64,
}

impl Point {
    /// The earlier one of two in a stream.
    pub(super) fn earlier(self, other: Point) -> Point {
        Point { number: self.number.min(other.number), ..self }
    }
}

/// How a memory was used last, and what state it is in.
#[derive(Debug, Default)]
pub(super) struct Uses {
    last: Mutex<Last>,
    stamp: State,
}

/// The state of a memory: another one from before each write on, and other ones than any other memory has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp(u64);

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
    wrote: Option<Point>,
    /// By those who have read since; one for each stream.
    read: SmallVec<[Point; 2]>,
}

/// What a piece of work does with a memory.
pub(super) type Use<'a> = (&'a Uses, bool);

/// The order of a device's work.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// Held for reading while work is given, for writing while the number of streams changes.
    gate: RwLock<()>,
    /// How many streams there are, less one.
    more: AtomicUsize,
    clocks: Mutex<Clocks>,
}

#[derive(Debug)]
struct Clocks {
    /// How many pieces each stream was given.
    given: [u64; STREAMS],
    /// Of each stream: up to which piece of every other one it has waited.
    waited: [[u64; STREAMS]; STREAMS],
}

impl Default for Clocks {
    fn default() -> Clocks {
        Clocks { given: [0; STREAMS], waited: [[0; STREAMS]; STREAMS] }
    }
}

/// This thread's turn to give work to its stream, whose number does not change meanwhile.
pub(super) struct Turn<'a> {
    order: &'a Order,
    stream: usize,
    alone: bool,
    _gate: RwLockReadGuard<'a, ()>,
}

impl Order {
    /// How many streams there are.
    pub(super) fn streams(&self) -> usize {
        self.more.load(Ordering::Relaxed) + 1
    }

    /// A turn for this thread. A thread has one at a time.
    pub(super) fn turn(&self) -> Turn<'_> {
        let gate = self.gate.read().unwrap_or_else(PoisonError::into_inner);
        let streams = self.streams();
        Turn { order: self, stream: current_stream(streams), alone: streams == 1, _gate: gate }
    }

    /// Keeps every turn out, to change the number of streams.
    pub(super) fn change(&self) -> Change<'_> {
        Change { order: self, _gate: self.gate.write().unwrap_or_else(PoisonError::into_inner) }
    }

    /// Has this thread's stream wait for all uses of a memory that nobody uses any more and that is given back there.
    pub(super) fn last(&self, uses: &Uses, wait: impl Fn(usize, usize) -> Result<(), Fault>) {
        let streams = self.streams();
        if streams == 1 {
            return;
        }
        let stream = current_stream(streams);
        if let Err(fault) = self.before(stream, [(uses, true)].into_iter(), wait) {
            tracing::debug!(%fault, "memory is given back out of order");
        }
    }

    fn before<'u>(
        &self,
        stream: usize,
        uses: impl Iterator<Item = Use<'u>>,
        wait: impl Fn(usize, usize) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let mut needed = [0; STREAMS];
        for (uses, writes) in uses {
            let last = uses.lock();
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
    /// Notes that `stream` has waited for `other` up to a piece, and so for what that one had waited for.
    fn reach(&mut self, stream: usize, other: usize, number: u64, theirs: &[u64; STREAMS]) {
        let own = &mut self.waited[stream];
        own[other] = own[other].max(number);
        for (own, theirs) in own.iter_mut().zip(theirs) {
            *own = (*own).max(*theirs);
        }
    }
}

impl Turn<'_> {
    /// The stream.
    pub(super) fn stream(&self) -> usize {
        self.stream
    }

    /// Has the stream wait for what must come before these uses; `true` stands for writing, which changes a memory's
    /// [`Stamp`]. `wait(stream, other)` is the driver's.
    pub(super) fn before<'u>(
        &self,
        uses: impl Iterator<Item = Use<'u>>,
        wait: impl Fn(usize, usize) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let uses = uses.inspect(|(uses, writes)| {
            if *writes {
                uses.stamp.0.store(next_stamp(), Ordering::Relaxed);
            }
        });
        if self.alone {
            uses.for_each(drop);
            return Ok(());
        }
        self.order.before(self.stream, uses, wait)
    }

    /// Notes that the driver has work with these uses, and returns its place.
    pub(super) fn after<'u>(&self, uses: impl Iterator<Item = Use<'u>>) -> Point {
        let stream = self.stream;
        if self.alone {
            return Point { stream, number: 0 };
        }
        let number = {
            let mut clocks = self.order.clocks();
            clocks.given[stream] += 1;
            clocks.given[stream]
        };
        let point = Point { stream, number };
        for (uses, writes) in uses {
            let mut last = uses.lock();
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

    /// Whether what the stream does from now on comes after a point.
    pub(super) fn follows(&self, point: Point) -> bool {
        self.alone
            || point.stream == self.stream
            || self.order.clocks().waited[self.stream][point.stream] >= point.number
    }

    /// How far the device is, to be told to [`done`](Self::done) when the host has waited. `None` where there is one stream.
    pub(super) fn now(&self) -> Option<Progress> {
        if self.alone {
            return None;
        }
        let clocks = self.order.clocks();
        Some(Progress { given: clocks.given, waited: clocks.waited[self.stream] })
    }

    /// Notes that the host has waited for what this stream was given until `then`.
    pub(super) fn done(&self, then: Option<Progress>) {
        let Some(then) = then else { return };
        let mut clocks = self.order.clocks();
        for stream in (0..STREAMS).filter(|&stream| stream != self.stream) {
            clocks.reach(stream, self.stream, then.given[self.stream], &then.waited);
        }
    }

    /// Notes that the host has waited for what all streams were given until `then`.
    pub(super) fn all_done(&self, then: Option<Progress>) {
        let Some(then) = then else { return };
        let mut clocks = self.order.clocks();
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
    order: &'a Order,
    _gate: RwLockWriteGuard<'a, ()>,
}

impl Change<'_> {
    /// Sets the number of streams. All work is done.
    pub(super) fn set(self, streams: usize) {
        self.order.more.store(streams - 1, Ordering::Relaxed);
        let mut clocks = self.order.clocks();
        let given = clocks.given;
        clocks.waited = [given; STREAMS];
    }
}

impl Uses {
    /// What state the memory is in. Meanwhile nobody writes it.
    pub(super) fn stamp(&self) -> Stamp {
        Stamp(self.stamp.0.load(Ordering::Relaxed))
    }

    fn lock(&self) -> MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
