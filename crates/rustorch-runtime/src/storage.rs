//! Storages: reference-counted memory that tensors share, with read and write guards.

mod copies;
mod guard;
mod last_handle;
mod noted_write;
mod symbol;

use crate::device_state::DeviceState;
use crate::memory::thread_cache;
use copies::Copies;
pub(crate) use copies::{CopyKey, DeviceCopies};
use guard::Guard;
use last_handle::is_last;
use noted_write::Note;
pub use noted_write::NotedWrite;
use rustorch_core::{Backend, Buffer, DType, Device};
use std::fmt;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
pub(crate) use symbol::Symbol;

/// A piece of memory on one device, shared by every tensor that is a view of it. Cloning shares.
///
/// The executor reads it under a shared guard and writes it under an exclusive one, so that safe code on any number of
/// threads sees whole operations only. Dropping the last handle returns the memory to its allocator.
pub struct Storage(ManuallyDrop<Arc<Block>>);

/// Memory that was just taken from an allocator: nothing is known of its bytes, and nobody else has a handle. It becomes a
/// [`Storage`] when it is initialised; dropped before, it returns to its allocator.
pub(crate) struct FreshMemory(Storage);

impl FreshMemory {
    pub(crate) fn from_block(block: Arc<Block>) -> FreshMemory {
        FreshMemory(Storage::from_block(block))
    }

    #[inline]
    pub(crate) fn buffer(&self) -> &Buffer {
        self.0.buffer()
    }

    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.0.bytes()
    }

    /// # Safety
    /// Every byte was written since the memory was taken, with booleans where it was taken for them.
    #[inline]
    pub(crate) unsafe fn assume_init(self) -> Storage {
        self.0
    }

    /// # Safety
    /// As of [`assume_init`](Self::assume_init).
    #[inline]
    pub(crate) unsafe fn as_init(&self) -> &Storage {
        &self.0
    }
}

/// A handle that keeps memory alive without being a tensor's: [`Storage::handles`] counts it, and
/// [`Storage::passive_handles`] as well, so that one can tell whether any tensor but oneself sees the memory.
#[derive(Debug)]
pub struct PassiveStorage(Storage);

impl PassiveStorage {
    /// Keeps the memory of a storage alive.
    #[inline]
    pub fn new(storage: &Storage) -> PassiveStorage {
        // Counted as a handle first: whoever compares the counts meanwhile sees one more tensor, never one less.
        let storage = storage.clone();
        storage.0.passive.fetch_add(1, Ordering::Release);
        PassiveStorage(storage)
    }

    /// The storage.
    #[inline]
    pub fn storage(&self) -> &Storage {
        &self.0
    }

    /// The handle, as a tensor's from now on.
    #[inline]
    pub fn into_storage(self) -> Storage {
        let this = ManuallyDrop::new(self);
        this.0.0.passive.fetch_sub(1, Ordering::Release);
        // SAFETY: `this` is not used again, and not dropped.
        unsafe { std::ptr::read(&this.0) }
    }
}

impl Drop for PassiveStorage {
    #[inline]
    fn drop(&mut self) {
        self.0.0.passive.fetch_sub(1, Ordering::Release);
    }
}

pub(crate) struct Block {
    buffer: ManuallyDrop<Buffer>,
    /// The bytes that were asked for and are initialised; the buffer may be larger.
    bytes: AtomicUsize,
    /// Whether the bytes are booleans: the one dtype that not every byte is valid for.
    truth: AtomicBool,
    /// The alignment of the host address, at most 64; 64 where there is none; 0 of a storage without memory.
    align: u8,
    guard: Guard,
    version: AtomicU64,
    /// How many of the handles are passive ones.
    passive: AtomicUsize,
    /// What the memory is a copy of, where that costs nothing to keep. Never set on the CPU's blocks, which are
    /// used again.
    origin: OnceLock<Box<Origin>>,
    /// Copies of it on other devices, once there are any.
    copies: OnceLock<Box<Copies>>,
    /// The last write in place that was noted, with the version that it led to.
    noted: OnceLock<Box<Note>>,
    /// The device that made the memory; none for host memory that something else owns.
    state: Option<Arc<DeviceState>>,
}

/// Read-only memory of which another device has a copy, so that the device's loss is not the data's.
pub(crate) struct Origin {
    pub(crate) storage: Storage,
    pub(crate) dtype: DType,
    /// The element of the storage that is the copy's first.
    pub(crate) start: usize,
}

impl Storage {
    /// Read-only host memory kept alive by `owner`, for example (a part of) a mapped file.
    ///
    /// Writing to it is an error. Its address must be aligned to the dtype by which it is read, which is checked when an
    /// operation reads it; it never holds `Bool` values.
    ///
    /// # Safety
    /// The bytes that `owner` gives now stay where they are, and unchanged, for as long as it lives.
    pub unsafe fn shared<T: AsRef<[u8]> + Send + Sync + 'static>(owner: Arc<T>) -> Storage {
        // SAFETY: the caller's promise is the same.
        let buffer = unsafe { Buffer::shared(owner) };
        let bytes = buffer.bytes();
        Storage::from_block(Arc::new(Block::new(buffer, bytes, false, None)))
    }

    pub(crate) fn from_block(block: Arc<Block>) -> Storage {
        Storage(ManuallyDrop::new(block))
    }

    /// Where the bytes are.
    #[inline]
    pub fn device(&self) -> Device {
        self.0.buffer.location()
    }

    /// The backend that made the memory; `None` for host memory that something else owns, such as a mapped file, with which
    /// every CPU works.
    pub fn backend(&self) -> Option<&Arc<dyn Backend>> {
        self.state().map(|state| &state.backend)
    }

    /// Whether the device that holds the memory failed for good.
    pub fn is_lost(&self) -> bool {
        self.state().is_some_and(|state| state.health.is_lost())
    }

    /// The device that made the memory.
    #[inline]
    pub(crate) fn state(&self) -> Option<&Arc<DeviceState>> {
        self.0.state.as_ref()
    }

    /// How many bytes there are.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.0.bytes.load(Ordering::Relaxed)
    }

    /// Whether it must not be written, because something else owns it.
    #[inline]
    pub fn is_read_only(&self) -> bool {
        self.0.buffer.is_read_only()
    }

    /// A number that changes with every write in place.
    #[inline]
    pub fn version(&self) -> u64 {
        self.0.version.load(Ordering::Acquire)
    }

    /// Whether both are handles to the same memory.
    #[inline]
    pub fn same(&self, other: &Storage) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// How many handles there are: 1 means that nobody else can see the memory.
    pub fn handles(&self) -> usize {
        Arc::strong_count(&self.0)
    }

    /// How many of the handles are [passive](PassiveStorage).
    pub fn passive_handles(&self) -> usize {
        self.0.passive.load(Ordering::Acquire)
    }

    /// Notes what fresh memory is a copy of.
    pub(crate) fn set_origin(&self, origin: Origin) {
        debug_assert!(!self.device().is_cpu());
        // Set once: the memory is fresh.
        let _ = self.0.origin.set(Box::new(origin));
    }

    /// What the memory is a copy of, if it has not been written since.
    pub(crate) fn origin(&self) -> Option<&Origin> {
        self.0.origin.get().map(|origin| &**origin).filter(|_| self.version() == 0)
    }

    /// The copy of some elements that a device has kept.
    pub(crate) fn kept_copy(&self, key: CopyKey, device: &Arc<DeviceState>) -> Option<Storage> {
        self.0.copies.get()?.get(key, device)
    }

    /// Keeps a copy of some elements on a device, if it has room.
    pub(crate) fn keep_copy(&self, key: CopyKey, copy: &Storage, device: &Arc<DeviceState>) {
        self.0.copies.get_or_init(Box::default).keep(key, copy, device, self.bytes());
    }

    #[inline]
    pub(crate) fn buffer(&self) -> &Buffer {
        &self.0.buffer
    }

    #[inline]
    pub(crate) fn holds_truth(&self) -> bool {
        self.0.truth.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn align(&self) -> usize {
        self.0.align.into()
    }

    /// Waits until nobody writes, then keeps writers out.
    #[inline]
    pub(crate) fn read(&self) -> ReadGuard<'_> {
        self.0.guard.read();
        ReadGuard(&self.0.guard)
    }

    /// Keeps writers out, if none is in.
    pub(crate) fn try_read(&self) -> Option<ReadGuard<'_>> {
        self.0.guard.try_read().then(|| ReadGuard(&self.0.guard))
    }

    /// Waits until nobody else is about to write, then keeps other writers out: what the holder reads and then writes is one
    /// change. Readers stay until [`try_write`](Self::try_write).
    pub(crate) fn claim(&self) -> WriteClaim<'_> {
        self.0.guard.claim();
        WriteClaim(&self.0.guard)
    }

    /// Keeps everybody else out, if nobody is in. The caller holds the [`claim`](Self::claim).
    pub(crate) fn try_write(&self) -> Option<WriteGuard<'_>> {
        self.0.guard.try_write().then(|| WriteGuard(&self.0))
    }

    /// An address of the handles' common memory, which tells it apart from others while a handle lives.
    pub fn identity(&self) -> *const () {
        Arc::as_ptr(&self.0).cast()
    }
}

impl Clone for Storage {
    #[inline]
    fn clone(&self) -> Storage {
        Storage(ManuallyDrop::new(Arc::clone(&self.0)))
    }
}

impl Drop for Storage {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: `self.0` is not used again.
        let block = unsafe { ManuallyDrop::take(&mut self.0) };
        if block.state.is_some() && is_last(&block) {
            if let Some(copies) = block.copies.get() {
                copies.clear();
            }
            thread_cache::put(block);
        }
    }
}

impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Storage({} bytes on {})", self.bytes(), self.device())
    }
}

impl Block {
    pub(crate) fn new(buffer: Buffer, bytes: usize, truth: bool, state: Option<Arc<DeviceState>>) -> Block {
        let align = buffer.host_address().map_or(64, |p| 1 << p.addr().trailing_zeros().min(6));
        Block {
            buffer: ManuallyDrop::new(buffer),
            bytes: bytes.into(),
            truth: truth.into(),
            align,
            guard: Guard::new(),
            version: AtomicU64::new(0),
            passive: AtomicUsize::new(0),
            origin: OnceLock::new(),
            copies: OnceLock::new(),
            noted: OnceLock::new(),
            state,
        }
    }

    /// Prepares a block that came back for its next use.
    #[inline]
    pub(crate) fn renew(&self, bytes: usize, truth: bool) {
        self.bytes.store(bytes, Ordering::Relaxed);
        self.truth.store(truth, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn capacity(&self) -> usize {
        self.buffer.bytes()
    }

    #[inline]
    pub(crate) fn state(&self) -> Option<&Arc<DeviceState>> {
        self.state.as_ref()
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: `self.buffer` is not used again.
        let buffer = unsafe { ManuallyDrop::take(&mut self.buffer) };
        if let Some(state) = &self.state {
            state.allocator.give_back(buffer);
        }
    }
}

/// Whether values of `dtype` may be read from (or written to) memory that holds booleans (or does not).
pub(crate) fn truth_fits(dtype: DType, holds_truth: bool, write: bool) -> bool {
    match dtype {
        DType::Bool => holds_truth,
        _ => !(write && holds_truth),
    }
}

pub(crate) struct ReadGuard<'a>(&'a Guard);

impl Drop for ReadGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.end_read();
    }
}

pub(crate) struct WriteClaim<'a>(&'a Guard);

impl Drop for WriteClaim<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.end_claim();
    }
}

pub(crate) struct WriteGuard<'a>(&'a Block);

impl WriteGuard<'_> {
    /// Lets others in again where nothing was written: the version stays what it was.
    pub(crate) fn leave_unchanged(self) {
        ManuallyDrop::new(self).0.guard.end_write();
    }
}

impl Drop for WriteGuard<'_> {
    fn drop(&mut self) {
        self.0.version.fetch_add(1, Ordering::Release);
        self.0.guard.end_write();
    }
}
