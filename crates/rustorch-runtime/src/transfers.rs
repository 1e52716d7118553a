//! Transfer statistics and methods by device pair.

use rustorch_core::Device;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How bytes get from one device to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TransferMethod {
    /// Not at all: the device reads the other one's memory.
    Alias,
    /// From the CPU's memory, or to it.
    Copy,
    /// Directly between two devices.
    Peer,
    /// By way of the CPU's memory.
    Staging,
}

impl fmt::Display for TransferMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            TransferMethod::Alias => "alias",
            TransferMethod::Copy => "copy",
            TransferMethod::Peer => "peer",
            TransferMethod::Staging => "staging",
        })
    }
}

/// How often and how much was transferred, and how long it took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransferCount {
    /// How often.
    pub count: u64,
    /// The bytes in all.
    pub bytes: u64,
    /// How long the copies took, as those who asked for them saw it: a device may take the bytes and write them later.
    pub time: Duration,
}

impl TransferCount {
    /// The bytes per second that were reached; `None` before any was copied.
    pub fn bandwidth(&self) -> Option<f64> {
        let seconds = self.time.as_secs_f64();
        (self.bytes > 0 && seconds > 0.0).then(|| self.bytes as f64 / seconds)
    }
}

/// Transfers by source, destination and method.
#[derive(Default)]
pub struct Transfers {
    counts: Mutex<Counts>,
    routes: Mutex<BTreeMap<(Device, Device), TransferMethod>>,
}

type Counts = BTreeMap<(Device, Device, TransferMethod), TransferCount>;

impl Transfers {
    /// How bytes get from one device to another: to the CPU and from it by [`Copy`](TransferMethod::Copy); between two
    /// other devices by what their first transfer has found, which is [`Peer`](TransferMethod::Peer) where their drivers know a
    /// direct way, else [`Staging`](TransferMethod::Staging). `None` before that, and from a device to itself.
    pub fn method(&self, from: Device, to: Device) -> Option<TransferMethod> {
        match from == to {
            true => None,
            false if from.is_cpu() || to.is_cpu() => Some(TransferMethod::Copy),
            false => self.routes.lock().unwrap_or_else(PoisonError::into_inner).get(&(from, to)).copied(),
        }
    }

    /// Decides how bytes get from one device to another from now on.
    pub(crate) fn choose(&self, from: Device, to: Device, method: TransferMethod) {
        let mut routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        if routes.insert((from, to), method) != Some(method) {
            tracing::debug!(%from, %to, %method, "the way of transfers");
        }
    }

    /// What was transferred from one device to another by one method.
    pub fn count(&self, from: Device, to: Device, method: TransferMethod) -> TransferCount {
        self.lock().get(&(from, to, method)).copied().unwrap_or_default()
    }

    /// Everything that was transferred: source, destination, method, how much.
    pub fn all(&self) -> Vec<(Device, Device, TransferMethod, TransferCount)> {
        self.lock().iter().map(|(&(from, to, method), &count)| (from, to, method, count)).collect()
    }

    /// The bytes that were moved in all; aliases move none.
    pub fn bytes(&self) -> u64 {
        self.lock().iter().filter(|((_, _, m), _)| *m != TransferMethod::Alias).map(|(_, c)| c.bytes).sum()
    }

    /// What was transferred from one device to another by any method; aliases count, though they move nothing.
    pub fn between(&self, from: Device, to: Device) -> TransferCount {
        let all = self.lock();
        let these = all.iter().filter(|((f, t, _), _)| (*f, *t) == (from, to));
        these.fold(TransferCount::default(), |sum, (_, c)| TransferCount {
            count: sum.count + c.count,
            bytes: sum.bytes + c.bytes,
            time: sum.time + c.time,
        })
    }

    pub(crate) fn add(&self, from: Device, to: Device, method: TransferMethod, bytes: usize, time: Duration) {
        let mut all = self.lock();
        let entry = all.entry((from, to, method)).or_default();
        entry.count += 1;
        entry.bytes += bytes as u64;
        entry.time += time;
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        // Counts are valid whatever happened under the lock.
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
