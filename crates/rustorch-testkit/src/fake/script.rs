//! Scripts of a fake device.

use rustorch_core::{Decline, Device, Error, Fault};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A place in the life of a device where a script may interfere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// It is asked whether it runs an operation.
    Supports,
    /// It is asked for memory.
    Alloc,
    /// It runs an operation.
    Run,
    /// It gets bytes from host memory.
    CopyIn,
    /// It gives bytes to host memory.
    CopyOut,
    /// It gets bytes from another device.
    CopyFromPeer,
    /// It is waited for.
    Synchronize,
    /// It compiles a region of a graph.
    Compile,
    /// It is asked whether a compiled region is ready; nothing but [`Act::Decline`] happens there.
    Ready,
    /// It runs a compiled region.
    RunRegion,
}

/// What happens there.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// It declines; at [`Point::Supports`] and [`Point::Ready`] only.
    Decline(Decline),
    /// Its driver refuses: [`Fault::Backend`].
    Fail,
    /// It finds its own result wrong: [`Fault::Numeric`].
    Doubt,
    /// It does not finish in time: [`Fault::Timeout`].
    TimeOut,
    /// It has no memory left: [`Fault::OutOfMemory`].
    RunOut,
    /// It is gone, and every later call finds it so: [`Fault::DeviceLost`].
    Lose,
    /// It works, but the first element of each floating-point or complex result is NaN; at [`Point::Run`] and
    /// [`Point::RunRegion`] only.
    Nan,
    /// It works, but the first element of each floating-point or complex result is off by so much of its modulus; at [`Point::Run`] and
    /// [`Point::RunRegion`] only.
    Err(f64),
    /// It works, but takes so long.
    Delay(Duration),
    /// It finds a mistake of the caller: [`Fault::Invalid`].
    Refuse,
}

impl Act {
    pub(super) fn fault(&self, device: Device) -> Option<Fault> {
        let message = || "by script".to_owned();
        Some(match self {
            Act::Fail => Fault::Backend { device, message: message() },
            Act::Doubt => Fault::Numeric { device, message: message() },
            Act::TimeOut => Fault::Timeout { device, millis: 1 },
            Act::RunOut => Fault::OutOfMemory { device, requested: 0 },
            Act::Lose => Fault::DeviceLost { device, message: message() },
            Act::Refuse => Error::argument("fake", message()).into(),
            Act::Decline(_) | Act::Nan | Act::Err(_) | Act::Delay(_) => return None,
        })
    }
}

/// A line of a script: what happens, where, and how often.
#[derive(Clone, Debug)]
pub struct Rule {
    point: Point,
    op: Option<&'static str>,
    skip: usize,
    times: usize,
    act: Act,
}

impl Rule {
    /// Something happens at a point, every time: [`Act::Fail`] unless said otherwise.
    pub fn at(point: Point) -> Rule {
        Rule { point, op: None, skip: 0, times: usize::MAX, act: Act::Fail }
    }

    /// What happens.
    pub fn act(mut self, act: Act) -> Rule {
        self.act = act;
        self
    }

    /// Only for the operation of this name.
    pub fn op(mut self, name: &'static str) -> Rule {
        self.op = Some(name);
        self
    }

    /// Not the first `n` times.
    pub fn after(mut self, n: usize) -> Rule {
        self.skip = n;
        self
    }

    /// Only so many times.
    pub fn times(mut self, n: usize) -> Rule {
        self.times = n;
        self
    }

    /// What happens at this point of this operation, if anything; counts as one time.
    pub(super) fn fires(&mut self, point: Point, op: Option<&str>) -> Option<Act> {
        if self.point != point || self.op.is_some_and(|name| op != Some(name)) {
            return None;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return None;
        }
        self.times = self.times.checked_sub(1)?;
        Some(self.act.clone())
    }
}

/// What a fake device was asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Where.
    pub point: Point,
    /// The operation's name, where there is one.
    pub op: Option<&'static str>,
}

/// The script of a device, and how far it got.
pub(super) struct Script {
    device: Device,
    lost: AtomicBool,
    rules: Mutex<Vec<Rule>>,
    calls: Mutex<Vec<Call>>,
}

impl Script {
    pub(super) fn new(device: Device) -> Script {
        Script { device, lost: AtomicBool::new(false), rules: Mutex::default(), calls: Mutex::default() }
    }

    pub(super) fn add(&self, rule: Rule) {
        lock(&self.rules).push(rule);
    }

    pub(super) fn calls(&self) -> Vec<Call> {
        lock(&self.calls).clone()
    }

    /// Notes a call, and does what the script says.
    pub(super) fn enter(&self, point: Point, op: Option<&'static str>) -> Result<Option<Act>, Fault> {
        lock(&self.calls).push(Call { point, op });
        let act = lock(&self.rules).iter_mut().find_map(|rule| rule.fires(point, op));
        if act == Some(Act::Lose) {
            self.lost.store(true, Ordering::Relaxed);
        }
        if self.lost.load(Ordering::Relaxed) {
            let message = "by script".to_owned();
            return Err(Fault::DeviceLost { device: self.device, message });
        }
        if let Some(Act::Delay(time)) = act {
            std::thread::sleep(time);
        }
        match act.as_ref().and_then(|act| act.fault(self.device)) {
            Some(fault) => Err(fault),
            None => Ok(act),
        }
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Lists are valid whatever happened under the lock.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
