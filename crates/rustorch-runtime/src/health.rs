//! Which devices are gone, and which operations they failed at.

use rustorch_core::{DType, Device, Op, TensorMeta};
use smallvec::SmallVec;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// An operation as far as quarantine tells them apart: its name and the dtypes of its arguments.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OpKey {
    /// The operation's name.
    pub op: &'static str,
    /// What a fused chain computes, but for its numbers: chains of one [pattern](rustorch_core::Chain::pattern) have a kernel
    /// in common, and others share nothing but their name.
    pub chain: Option<String>,
    /// The dtypes of its arguments.
    pub dtypes: SmallVec<[DType; 4]>,
}

impl OpKey {
    pub(crate) fn new(op: &Op, args: &[TensorMeta<'_>]) -> OpKey {
        let chain = match op {
            Op::Chain(chain) => Some(chain.pattern()),
            _ => None,
        };
        OpKey { op: op.name(), chain, dtypes: args.iter().map(|x| x.dtype).collect() }
    }
}

/// The health of an executor's devices, for the life of the process.
#[derive(Default)]
pub struct Health {
    /// How many entries there are, so that healthy machines need not look.
    troubles: AtomicUsize,
    sick: Mutex<Sick>,
}

#[derive(Default)]
struct Sick {
    lost: BTreeSet<Device>,
    quarantined: BTreeSet<(Device, OpKey)>,
    warned: BTreeSet<(&'static str, Device, &'static str)>,
}

impl Health {
    /// The devices that are gone.
    pub fn lost(&self) -> Vec<Device> {
        self.lock().lost.iter().copied().collect()
    }

    /// The operations that are not given to a device any more because they failed there.
    pub fn quarantined(&self) -> Vec<(Device, OpKey)> {
        self.lock().quarantined.iter().cloned().collect()
    }

    /// Whether a device is gone.
    pub fn is_lost(&self, device: Device) -> bool {
        self.is_troubled() && self.lock().lost.contains(&device)
    }

    pub(crate) fn is_quarantined(&self, device: Device, op: &Op, args: &[TensorMeta<'_>]) -> bool {
        if !self.is_troubled() {
            return false;
        }
        let entry = (device, OpKey::new(op, args));
        self.lock().quarantined.contains(&entry)
    }

    pub(crate) fn lose(&self, device: Device) {
        if self.lock().lost.insert(device) {
            self.troubles.fetch_add(1, Ordering::Release);
        }
    }

    pub(crate) fn quarantine(&self, device: Device, key: OpKey) {
        if self.lock().quarantined.insert((device, key)) {
            self.troubles.fetch_add(1, Ordering::Release);
        }
    }

    /// Whether this is the first time that somebody is warned of this.
    pub(crate) fn warn_once(&self, op: &'static str, device: Device, reason: &'static str) -> bool {
        self.lock().warned.insert((op, device, reason))
    }

    pub(crate) fn is_troubled(&self) -> bool {
        self.troubles.load(Ordering::Acquire) != 0
    }

    fn lock(&self) -> MutexGuard<'_, Sick> {
        // The sets are valid whatever happened under the lock.
        self.sick.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
