//! Memory that tensors share, and who may touch it when.

use crate::memory::{Pool, thread_cache};
use rustorch_core::{Buffer, DType, Device};
use std::fmt;
use std::hint;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// A piece of memory on one device, shared by every tensor that is a view of it. Cloning shares.
///
/// The executor reads it under a shared guard and writes it under an exclusive one, so that safe code on any number of
/// threads sees whole operations only. Dropping the last handle returns the memory to its pool.
pub struct Storage(ManuallyDrop<Arc<Block>>);

pub(crate) struct Block {
    buffer: ManuallyDrop<Buffer>,
    /// The bytes that were asked for and are initialised; the buffer may be larger.
    bytes: AtomicUsize,
    /// Whether the bytes are truth values: the one dtype that not every byte is valid for.
    truth: AtomicBool,
    /// The alignment of the host address, at most 64; 64 where there is none.
    align: u8,
    guard: Guard,
    version: AtomicU64,
    /// What the memory is a copy of, where that costs nothing to keep. Never set on the processor's blocks, which are
    /// used again.
    origin: OnceLock<Box<Origin>>,
    pool: Option<Arc<Pool>>,
}

/// Read-only memory of which another device has a copy, so that the device's loss is not the data's.
pub(crate) struct Origin {
    pub(crate) storage: Storage,
    pub(crate) dtype: DType,
    /// The element of the storage that is the copy's first.
    pub(crate) start: usize,
}

impl Storage {
    /// Adopts memory that was made elsewhere, for example by a device of one's own.
    ///
    /// # Safety
    /// All bytes of `buffer` are initialised, and nobody writes them but through this storage.
    pub unsafe fn adopt(buffer: Buffer) -> Storage {
        let bytes = buffer.bytes();
        Storage::from_block(Arc::new(Block::new(buffer, bytes, false, None)))
    }

    /// Read-only host memory kept alive by `owner`, for example (a part of) a mapped file.
    ///
    /// Writing to it is an error. Its address must be aligned to the dtype by which it is read, which is checked when an
    /// operation reads it; it never holds `Bool` values.
    ///
    /// # Safety
    /// The bytes that `owner` gives now stay where they are, and unchanged, for as long as it lives.
    pub unsafe fn shared<T: AsRef<[u8]> + Send + Sync + 'static>(owner: Arc<T>) -> Storage {
        // SAFETY: the caller's promise is the same; a byte slice is initialised.
        unsafe { Storage::adopt(Buffer::shared(owner)) }
    }

    pub(crate) fn from_block(block: Arc<Block>) -> Storage {
        Storage(ManuallyDrop::new(block))
    }

    /// Where the bytes are.
    #[inline]
    pub fn device(&self) -> Device {
        self.0.buffer.location()
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

    /// Keeps everybody else out, if nobody is in.
    pub(crate) fn try_write(&self) -> Option<WriteGuard<'_>> {
        self.0.guard.try_write().then(|| WriteGuard(&self.0))
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
        // No `Weak` is ever made, so a count of one means that this is the only handle, and the fence makes what
        // other threads did before they dropped theirs visible to the next user of the block.
        if block.pool.is_some() && Arc::strong_count(&block) == 1 {
            fence(Ordering::Acquire);
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
    pub(crate) fn new(buffer: Buffer, bytes: usize, truth: bool, pool: Option<Arc<Pool>>) -> Block {
        let align = buffer.host_address().map_or(64, |p| 1 << p.addr().trailing_zeros().min(6));
        Block {
            buffer: ManuallyDrop::new(buffer),
            bytes: bytes.into(),
            truth: truth.into(),
            align,
            guard: Guard(AtomicU32::new(0)),
            version: AtomicU64::new(0),
            origin: OnceLock::new(),
            pool,
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
    pub(crate) fn pool(&self) -> Option<&Arc<Pool>> {
        self.pool.as_ref()
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: `self.buffer` is not used again.
        let buffer = unsafe { ManuallyDrop::take(&mut self.buffer) };
        if let Some(pool) = &self.pool {
            pool.give_back(buffer);
        }
    }
}

/// Whether values of `dtype` may be read from (or written to) memory that holds truth values (or does not).
pub(crate) fn truth_fits(dtype: DType, holds_truth: bool, write: bool) -> bool {
    match dtype {
        DType::Bool => holds_truth,
        _ => !(write && holds_truth),
    }
}

/// Many readers or one writer, without a queue.
///
/// A reader may hold several guards and wait for another one; a writer never waits while it holds any (it tries to take
/// all that it needs, and lets go of them before it tries again). So whoever is waited for is running an operation, and
/// there is no deadlock whatever the order. An operation may name the same storage twice, which is why a waiting writer
/// must not keep readers out.
struct Guard(AtomicU32);

const WRITER: u32 = 1 << 31;

impl Guard {
    #[inline]
    fn read(&self) {
        if self.0.fetch_add(1, Ordering::Acquire) & WRITER != 0 {
            self.read_slowly();
        }
    }

    #[cold]
    fn read_slowly(&self) {
        let mut wait = Backoff::default();
        loop {
            self.0.fetch_sub(1, Ordering::Relaxed);
            while self.0.load(Ordering::Relaxed) & WRITER != 0 {
                wait.pause();
            }
            if self.0.fetch_add(1, Ordering::Acquire) & WRITER == 0 {
                return;
            }
        }
    }

    fn try_read(&self) -> bool {
        if self.0.fetch_add(1, Ordering::Acquire) & WRITER == 0 {
            return true;
        }
        self.0.fetch_sub(1, Ordering::Relaxed);
        false
    }

    fn try_write(&self) -> bool {
        self.0.compare_exchange(0, WRITER, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }
}

pub(crate) struct ReadGuard<'a>(&'a Guard);

impl Drop for ReadGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Release);
    }
}

pub(crate) struct WriteGuard<'a>(&'a Block);

impl Drop for WriteGuard<'_> {
    fn drop(&mut self) {
        self.0.version.fetch_add(1, Ordering::Release);
        // Subtracted, not stored: a reader may have announced itself and be about to withdraw.
        self.0.guard.0.fetch_sub(WRITER, Ordering::Release);
    }
}

/// Waits longer each time: first spinning, then yielding, then sleeping.
#[derive(Default)]
pub(crate) struct Backoff(u32);

impl Backoff {
    pub(crate) fn pause(&mut self) {
        match self.0 {
            0..=6 => (0..1 << self.0).for_each(|_| hint::spin_loop()),
            7..=20 => std::thread::yield_now(),
            _ => std::thread::sleep(Duration::from_micros(50)),
        }
        self.0 = self.0.saturating_add(1);
    }
}
