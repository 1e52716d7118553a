//! Copies of a storage on other devices, cached for the next op that reads it there: a weight is uploaded once.
//!
//! A copy belongs to the storage that it is of, and goes with it. It is of no use once the storage was written, and goes
//! when its device is short of memory.

use super::Storage;
use crate::device_state::DeviceState;
use rustorch_core::DType;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// The copies of one storage.
#[derive(Default)]
pub(crate) struct Copies(Mutex<Vec<Entry>>);

/// What a copy is of: elements that lie in one run, as they were.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct CopyKey {
    pub(crate) dtype: DType,
    /// The first element.
    pub(crate) start: usize,
    pub(crate) elements: usize,
    /// The storage's version.
    pub(crate) version: u64,
}

struct Entry {
    key: CopyKey,
    copy: Arc<KeptCopy>,
}

/// A copy, which its device may take back.
struct KeptCopy {
    device: Arc<DeviceState>,
    bytes: usize,
    storage: Mutex<Option<Storage>>,
}

impl KeptCopy {
    fn take_back(&self) {
        let taken = lock(&self.storage).take();
        if taken.is_some() {
            self.device.copies.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }
}

impl Drop for KeptCopy {
    fn drop(&mut self) {
        self.take_back();
    }
}

impl Copies {
    /// The copy on a device.
    pub(crate) fn get(&self, key: CopyKey, device: &Arc<DeviceState>) -> Option<Storage> {
        let entries = lock(&self.0);
        let entry =
            entries.iter().find(|entry| entry.key == key && Arc::ptr_eq(&entry.copy.device, device))?;
        lock(&entry.copy.storage).clone()
    }

    /// Keeps a copy of (a part of) `whole` bytes, if its device has room for copies. The copies on one device take no more bytes
    /// than the storage itself: older ones make room.
    pub(crate) fn keep(&self, key: CopyKey, storage: &Storage, device: &Arc<DeviceState>, whole: usize) {
        let bytes = storage.bytes();
        if !device.copies.has_room_for(bytes) {
            return;
        }
        device.copies.bytes.fetch_add(bytes, Ordering::Relaxed);
        let kept = Mutex::new(Some(storage.clone()));
        let copy = Arc::new(KeptCopy { device: Arc::clone(device), bytes, storage: kept });
        device.copies.register(&copy);
        let mut entries = lock(&self.0);
        let mut others = 0;
        let before = std::mem::take(&mut *entries);
        // The newest stay.
        let stay = |entry: &Entry| {
            let is_there = Arc::ptr_eq(&entry.copy.device, device);
            let stays = entry.key.version == key.version && !(is_there && entry.key == key);
            others += if stays && is_there { entry.copy.bytes } else { 0 };
            stays && (!is_there || others + bytes <= whole)
        };
        let (mut stay, gone): (Vec<Entry>, Vec<Entry>) = before.into_iter().partition(stay);
        stay.insert(0, Entry { key, copy });
        *entries = stay;
        drop(entries);
        // Without the lock: memory goes back to its device.
        drop(gone);
    }

    /// Forgets all copies.
    pub(crate) fn clear(&self) {
        let gone = std::mem::take(&mut *lock(&self.0));
        drop(gone);
    }
}

/// What a device keeps of other devices' memory.
#[derive(Default)]
pub(crate) struct DeviceCopies {
    /// What copies take.
    bytes: AtomicUsize,
    kept: Mutex<Vec<Weak<KeptCopy>>>,
    /// When memory was short last, and what copies took after they had made room.
    shortage: Mutex<Option<(Instant, usize)>>,
}

/// For how long after a shortage of memory copies take no more than was left to them: what does not fit is not to be copied again and
/// again.
const SHORTAGE: Duration = Duration::from_secs(60);

impl DeviceCopies {
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) == 0
    }

    /// Whether so many bytes more may be kept.
    pub(crate) fn has_room_for(&self, bytes: usize) -> bool {
        match *lock(&self.shortage) {
            Some((when, left)) if when.elapsed() < SHORTAGE => {
                self.bytes.load(Ordering::Relaxed).saturating_add(bytes) <= left
            }
            _ => true,
        }
    }

    fn register(&self, copy: &Arc<KeptCopy>) {
        let mut kept = lock(&self.kept);
        if kept.len() == kept.capacity() {
            kept.retain(|copy| copy.strong_count() > 0);
        }
        kept.push(Arc::downgrade(copy));
    }

    /// Takes copies back where memory is short, the newest first, until they have given so many bytes. Who goes through more weights
    /// than fit, again and again, so finds most of them there.
    pub(crate) fn make_room(&self, bytes: usize) {
        if self.take_back(bytes) {
            *lock(&self.shortage) = Some((Instant::now(), self.bytes.load(Ordering::Relaxed)));
        }
    }

    /// Takes the newest copies back, until they have given so many bytes; whether there were any.
    pub(crate) fn take_back(&self, bytes: usize) -> bool {
        let mut given = 0;
        while given < bytes {
            // Without the lock, memory goes back to its device.
            let Some(newest) = lock(&self.kept).pop() else { break };
            if let Some(copy) = newest.upgrade() {
                copy.take_back();
                given += copy.bytes;
            }
        }
        given > 0
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What these locks protect is valid whatever happened under them.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
