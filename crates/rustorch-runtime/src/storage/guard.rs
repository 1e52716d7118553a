//! Read and write guards of a storage.

use crate::sync::{AtomicU32, Backoff, Ordering};

/// Many readers or one writer, without a queue.
///
/// A reader may hold several guards and wait for another one; a writer never waits while it holds any (it tries to take
/// all that it needs, and lets go of them before it tries again). So whoever is waited for is running an operation, and
/// there is no deadlock whatever the order. An operation may name the same storage twice, which is why a waiting writer
/// must not keep readers out.
///
/// Whoever is going to write claims the storage first, and holds the claim while it reads what it will write: so no other
/// write comes between. Claims are taken before any guard, several of them in the order of their addresses, hence nobody who is
/// waited for waits for a claim.
pub(crate) struct Guard(AtomicU32);

const WRITER: u32 = 1 << 31;
const CLAIM: u32 = 1 << 30;

impl Guard {
    pub(crate) fn new() -> Guard {
        Guard(AtomicU32::new(0))
    }

    #[inline]
    pub(crate) fn read(&self) {
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

    pub(crate) fn try_read(&self) -> bool {
        if self.0.fetch_add(1, Ordering::Acquire) & WRITER == 0 {
            return true;
        }
        self.0.fetch_sub(1, Ordering::Relaxed);
        false
    }

    pub(crate) fn claim(&self) {
        let mut wait = Backoff::default();
        while self.0.fetch_or(CLAIM, Ordering::Acquire) & CLAIM != 0 {
            wait.pause();
        }
    }

    pub(crate) fn try_write(&self) -> bool {
        debug_assert!(self.0.load(Ordering::Relaxed) & CLAIM != 0, "writing needs a claim");
        self.0.compare_exchange(CLAIM, CLAIM | WRITER, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    pub(crate) fn end_claim(&self) {
        self.0.fetch_and(!CLAIM, Ordering::Release);
    }

    #[inline]
    pub(crate) fn end_read(&self) {
        self.0.fetch_sub(1, Ordering::Release);
    }

    #[inline]
    pub(crate) fn end_write(&self) {
        // Subtracted, not stored: a reader may have announced itself and be about to withdraw.
        self.0.fetch_sub(WRITER, Ordering::Release);
    }
}
