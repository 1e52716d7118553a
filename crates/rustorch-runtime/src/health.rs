//! Device health: lost devices, quarantined ops and regions.

use crate::device_set::DeviceSet;
use crate::executor::total_bytes;
use rustorch_core::{DType, Device, Op, OpKind, OutputMeta, TensorMeta};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// An operation as far as quarantine tells them apart: its kind, the dtypes of its arguments and its size.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OpKey {
    /// The operation.
    pub op: OpKind,
    /// What a fused pointwise op computes, but for its constants: fused ops of one [pattern](rustorch_core::FusedPointwise::pattern) have a kernel
    /// in common, and others share nothing but their kind.
    pub pattern: Option<String>,
    /// The dtypes of its arguments.
    pub dtypes: SmallVec<[DType; 4]>,
    /// The size class: the power of two (its exponent) that the bytes of arguments and results do not exceed.
    pub size_class: u32,
}

impl OpKey {
    /// The key of an operation on such arguments.
    pub fn new(op: &Op, args: &[TensorMeta<'_>], outs: &[OutputMeta]) -> OpKey {
        let pattern = match op {
            Op::FusedPointwise(fused) => Some(fused.pattern()),
            _ => None,
        };
        let bytes = total_bytes(args, outs).max(1);
        OpKey {
            op: op.kind(),
            pattern,
            dtypes: args.iter().map(|x| x.dtype).collect(),
            size_class: usize::BITS - (bytes - 1).leading_zeros(),
        }
    }
}

/// The health of one device.
#[derive(Default)]
pub(crate) struct DeviceHealth {
    lost: AtomicBool,
    ops: Quarantine<OpKey>,
    /// Compiled regions of graphs, by a number that no other has.
    regions: Quarantine<u64>,
}

impl DeviceHealth {
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    pub(crate) fn lose(&self) {
        self.lost.store(true, Ordering::Release);
    }

    pub(crate) fn is_quarantined(&self, op: &Op, args: &[TensorMeta<'_>], outs: &[OutputMeta]) -> bool {
        self.ops.contains(|| OpKey::new(op, args, outs))
    }

    /// Whether any operation is kept away.
    pub(crate) fn has_quarantine(&self) -> bool {
        self.ops.entries.load(Ordering::Acquire) != 0
    }

    /// Keeps an operation away for some time.
    pub(crate) fn quarantine(&self, key: OpKey, time: Duration) {
        self.ops.insert(key, time);
    }

    pub(crate) fn is_region_quarantined(&self, region: u64) -> bool {
        self.regions.contains(|| region)
    }

    /// Keeps a compiled region away for some time.
    pub(crate) fn quarantine_region(&self, region: u64, time: Duration) {
        self.regions.insert(region, time);
    }

    fn lift_quarantine(&self) -> usize {
        self.ops.lift() + self.regions.lift()
    }
}

/// What is kept away from a device, each until some time.
struct Quarantine<K> {
    /// How many entries there are, so that healthy devices need not look.
    entries: AtomicUsize,
    until: Mutex<BTreeMap<K, Instant>>,
}

impl<K> Default for Quarantine<K> {
    fn default() -> Self {
        Quarantine { entries: AtomicUsize::new(0), until: Mutex::default() }
    }
}

impl<K: Ord + Clone> Quarantine<K> {
    fn contains(&self, key: impl FnOnce() -> K) -> bool {
        if self.entries.load(Ordering::Acquire) == 0 {
            return false;
        }
        let mut until = self.lock();
        self.drop_expired(&mut until);
        until.contains_key(&key())
    }

    fn insert(&self, key: K, time: Duration) {
        let mut until = self.lock();
        // Beyond what the clock can tell is for ever: a century.
        let now = Instant::now();
        let end = now.checked_add(time).unwrap_or(now + Duration::from_secs(100 * 365 * 86_400));
        until.insert(key, end);
        self.entries.store(until.len(), Ordering::Release);
    }

    fn keys(&self) -> Vec<K> {
        let mut until = self.lock();
        self.drop_expired(&mut until);
        until.keys().cloned().collect()
    }

    fn lift(&self) -> usize {
        let mut until = self.lock();
        self.entries.store(0, Ordering::Release);
        std::mem::take(&mut *until).len()
    }

    fn drop_expired(&self, until: &mut BTreeMap<K, Instant>) {
        let now = Instant::now();
        until.retain(|_, end| now < *end);
        self.entries.store(until.len(), Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<K, Instant>> {
        // The map is valid whatever happened under the lock.
        self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The health of an executor's devices; of the process's, of those that are open.
pub struct Health<'a>(pub(crate) &'a DeviceSet);

impl Health<'_> {
    /// The devices that are gone, for the life of the process.
    pub fn lost(&self) -> Vec<Device> {
        self.0.open().iter().filter(|state| state.health.is_lost()).map(|state| state.device).collect()
    }

    /// The operations that are not given to a device for now because they failed there.
    pub fn quarantined(&self) -> Vec<(Device, OpKey)> {
        let open = self.0.open();
        let keys = open.iter().flat_map(|s| s.health.ops.keys().into_iter().map(|key| (s.device, key)));
        keys.collect()
    }

    /// How many compiled regions of graphs do not run on a device for now because they failed there.
    pub fn quarantined_regions(&self, device: Device) -> usize {
        let open = self.0.open();
        open.iter()
            .filter(|state| state.device == device)
            .map(|state| state.health.regions.keys().len())
            .sum()
    }

    /// Whether a device is gone.
    pub fn is_lost(&self, device: Device) -> bool {
        self.0.open().iter().any(|state| state.device == device && state.health.is_lost())
    }

    /// Gives a device all operations and regions again, before their quarantine ends; returns how many were kept away.
    pub fn lift_quarantine(&self, device: Device) -> usize {
        let open = self.0.open();
        open.iter().filter(|state| state.device == device).map(|state| state.health.lift_quarantine()).sum()
    }
}

/// What people were warned of already.
#[derive(Default)]
pub(crate) struct Warnings(Mutex<BTreeSet<(Option<OpKind>, Device, &'static str)>>);

impl Warnings {
    /// Whether this is the first time that somebody is warned of this, for an operation or compiled regions.
    pub(crate) fn first(&self, op: Option<OpKind>, device: Device, reason: &'static str) -> bool {
        // The set is valid whatever happened under the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert((op, device, reason))
    }
}
