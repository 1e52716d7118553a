//! A persistent thread pool for work of a few microseconds and more.
//!
//! # Protocol
//! One word, `state`, holds an epoch (upper 32 bits), an open flag and the number of workers inside the current job.
//! The submitter, alone by the `submitting` lock, writes the job and then publishes `epoch + 1 | OPEN`. A worker joins by
//! a compare-and-swap that raises the count and succeeds only while the flag is set. The submitter then clears the flag and
//! waits for the count to fall to zero. A worker that sleeps through a job finds the flag cleared and is never waited for,
//! so a busy core costs nothing but its own help.
//!
//! Chunks are split evenly into one range per thread, each with a counter. Joined workers and the submitter claim chunk
//! numbers from their own counter first and then from those of the others, until none is left. So a thread that is given
//! the same operands again, or the result of an operation of the same shape, finds them in its core's cache.
//!
//! Idle workers spin for some microseconds, then sleep on a condition variable. `sleepers` is raised under its lock
//! before the worker looks at `state` a last time, and the submitter reads it after publishing; both with sequential
//! consistency, so one of the two sees the other.

use crate::sync::{
    Arc, AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Builder, Condvar, JoinHandle, Mutex, Ordering, SPINS,
    UnsafeCell, spin_loop, yield_now,
};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{PoisonError, TryLockError};

const OPEN: u64 = 1 << 31;
const COUNT: u64 = OPEN - 1;

#[derive(Clone, Copy)]
struct Job {
    /// The closure, with its lifetime erased: it outlives the job because the submitter waits for all who joined.
    run: *const (dyn Fn(usize) + Sync),
    chunks: usize,
}

struct Shared {
    state: AtomicU64,
    job: UnsafeCell<Option<Job>>,
    /// For each thread the first chunk of its range that is not claimed. The submitter's comes first.
    next: Box<[AtomicUsize]>,
    panicked: AtomicBool,
    sleepers: AtomicU32,
    sleep: Mutex<()>,
    wake: Condvar,
    stop: AtomicBool,
}

// SAFETY: `job` is written only by the submitter while the flag is cleared and the count is zero, that is when no worker
// reads it; every other field is an atomic or a lock. The closure behind the pointer is `Sync`.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

/// A pool of worker threads. The thread that submits work takes part in it.
pub struct ThreadPool {
    shared: Arc<Shared>,
    submitting: Mutex<()>,
    workers: Vec<JoinHandle<()>>,
}

impl ThreadPool {
    /// A pool that computes on `threads` threads in all, the submitting one included; at least 1.
    pub fn new(threads: usize) -> ThreadPool {
        let shared = Arc::new(Shared {
            state: AtomicU64::new(0),
            job: UnsafeCell::new(None),
            next: (0..threads.max(1)).map(|_| AtomicUsize::new(0)).collect(),
            panicked: AtomicBool::new(false),
            sleepers: AtomicU32::new(0),
            sleep: Mutex::new(()),
            wake: Condvar::new(),
            stop: AtomicBool::new(false),
        });
        let workers = (1..threads.max(1)).map_while(|i| {
            let shared = Arc::clone(&shared);
            // A system that refuses another thread gets a smaller pool.
            Builder::new().name(format!("rustorch-cpu-{i}")).spawn(move || work(&shared, i)).ok()
        });
        let workers = workers.collect();
        ThreadPool { shared, submitting: Mutex::new(()), workers }
    }

    /// The number of threads that compute, the submitting one included.
    #[inline]
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Calls `run` with every number below `chunks`, on whichever threads are free, and returns when all are done.
    ///
    /// Runs on the calling thread alone where there is nothing to share, and where the pool is busy: in a nested call
    /// and when another thread is submitting.
    ///
    /// # Panics
    /// If `run` panics.
    pub fn run(&self, chunks: usize, run: impl Fn(usize) + Sync) {
        self.run_dyn(chunks, &run);
    }

    /// One copy of the code for all closures.
    fn run_dyn(&self, chunks: usize, run: &(dyn Fn(usize) + Sync)) {
        if chunks <= 1 || self.workers.is_empty() {
            return (0..chunks).for_each(run);
        }
        let _submitting = match self.submitting.try_lock() {
            Ok(submitting) => submitting,
            // A kernel panicked on the submitting thread. `Closing` has ended its job, so the pool is as good as new.
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return (0..chunks).for_each(run),
        };
        let shared = &*self.shared;
        let erased: *const (dyn Fn(usize) + Sync + '_) = run;
        // SAFETY: only the lifetime changes; `run` outlives every use because `Closing` waits for all who joined.
        let erased: *const (dyn Fn(usize) + Sync + 'static) = unsafe { std::mem::transmute(erased) };
        let epoch = (shared.state.load(Ordering::Relaxed) >> 32).wrapping_add(1);
        for (thread, next) in shared.next.iter().enumerate() {
            next.store(range_start(chunks, shared.next.len(), thread), Ordering::Relaxed);
        }
        // Still set if a worker and the submitter panicked in one job.
        shared.panicked.store(false, Ordering::Relaxed);
        // SAFETY: the flag is cleared and the count zero since the last job closed, and we hold `submitting`.
        shared.job.with_mut(|job| unsafe { *job = Some(Job { run: erased, chunks }) });
        shared.state.store(epoch << 32 | OPEN, Ordering::SeqCst);
        let closing = Closing(shared);
        if shared.sleepers.load(Ordering::SeqCst) != 0 {
            drop(shared.sleep.lock().unwrap_or_else(PoisonError::into_inner));
            shared.wake.notify_all();
        }
        claim(&shared.next, 0, chunks, run);
        drop(closing);
        if shared.panicked.load(Ordering::Relaxed) {
            resume_unwind(Box::new("a worker thread panicked in a parallel kernel"));
        }
    }

    /// Calls `run` with ranges that together cover `0..n`, each of at least `grain` elements where `n` allows.
    ///
    /// The cuts depend on the number of threads; results must not.
    pub fn ranges(&self, n: usize, grain: usize, run: impl Fn(Range<usize>) + Sync) {
        self.ranges_dyn(n, grain, &run);
    }

    fn ranges_dyn(&self, n: usize, grain: usize, run: &(dyn Fn(Range<usize>) + Sync)) {
        let most = if self.threads() == 1 { 1 } else { self.threads() * 4 };
        let chunks = (n / grain.max(1)).clamp(1, most);
        if chunks == 1 {
            if n != 0 {
                run(0..n);
            }
            return;
        }
        self.run_dyn(chunks, &|i| run(n * i / chunks..n * (i + 1) / chunks));
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        drop(self.shared.sleep.lock().unwrap_or_else(PoisonError::into_inner));
        self.shared.wake.notify_all();
        for worker in self.workers.drain(..) {
            // A worker catches its panics; joining cannot fail.
            let _ = worker.join();
        }
    }
}

/// Closes the job when dropped, also while unwinding, and waits for the workers inside.
struct Closing<'a>(&'a Shared);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.state.fetch_and(!OPEN, Ordering::AcqRel);
        // If the submitter's own chunk panicked, chunks not yet claimed are dropped.
        for next in &self.0.next {
            next.store(usize::MAX / 2, Ordering::Relaxed);
        }
        let mut spins = 0u32;
        while self.0.state.load(Ordering::Acquire) & COUNT != 0 {
            spins += 1;
            if spins < SPINS { spin_loop() } else { yield_now() }
        }
    }
}

/// The first chunk of a thread's range.
fn range_start(chunks: usize, threads: usize, thread: usize) -> usize {
    chunks / threads * thread + (chunks % threads).min(thread)
}

/// Runs chunks until none is left, those of this thread's range first.
fn claim(next: &[AtomicUsize], thread: usize, chunks: usize, run: &dyn Fn(usize)) {
    let threads = next.len();
    for range in (thread..threads).chain(0..thread) {
        let end = range_start(chunks, threads, range + 1);
        // Looks first, because each claim takes the counter's cache line from its owner.
        while next[range].load(Ordering::Relaxed) < end {
            let i = next[range].fetch_add(1, Ordering::Relaxed);
            if i >= end {
                break;
            }
            run(i);
        }
    }
}

/// The life of a worker.
fn work(shared: &Shared, thread: usize) {
    let mut seen = 0;
    let mut spins = 0;
    loop {
        let state = shared.state.load(Ordering::Acquire);
        if state & OPEN != 0 && state >> 32 != seen {
            if shared
                .state
                .compare_exchange_weak(state, state + 1, Ordering::AcqRel, Ordering::Relaxed)
                .is_err()
            {
                continue;
            }
            seen = state >> 32;
            spins = 0;
            // SAFETY: we joined while the job was open, so it was written before and stays until we leave.
            if let Some(job) = shared.job.with(|job| unsafe { *job }) {
                // SAFETY: the submitter keeps the closure alive until we leave.
                let run = unsafe { &*job.run };
                if catch_unwind(AssertUnwindSafe(|| claim(&shared.next, thread, job.chunks, run))).is_err() {
                    shared.panicked.store(true, Ordering::Relaxed);
                }
            }
            shared.state.fetch_sub(1, Ordering::Release);
            continue;
        }
        if shared.stop.load(Ordering::Relaxed) {
            return;
        }
        spins += 1;
        if spins < SPINS {
            spin_loop();
            continue;
        }
        spins = 0;
        let guard = shared.sleep.lock().unwrap_or_else(PoisonError::into_inner);
        shared.sleepers.fetch_add(1, Ordering::SeqCst);
        let state = shared.state.load(Ordering::SeqCst);
        let idle = (state & OPEN == 0 || state >> 32 == seen) && !shared.stop.load(Ordering::SeqCst);
        let guard =
            if idle { shared.wake.wait(guard).unwrap_or_else(PoisonError::into_inner) } else { guard };
        shared.sleepers.fetch_sub(1, Ordering::SeqCst);
        drop(guard);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::time::{Duration, Instant};

    #[test]
    fn every_chunk_runs_once() {
        let pool = ThreadPool::new(4);
        for round in 0..2_000 {
            let chunks = round % 37;
            let counts: Vec<AtomicU32> = (0..chunks).map(|_| AtomicU32::new(0)).collect();
            pool.run(chunks, |i| {
                counts[i].fetch_add(1, Ordering::Relaxed);
            });
            assert!(counts.iter().all(|c| c.load(Ordering::Relaxed) == 1));
        }
    }

    #[test]
    fn ranges_cover_without_overlap() {
        let pool = ThreadPool::new(3);
        for (n, grain) in [(0, 1), (1, 10), (1000, 1), (1000, 7), (17, 100)] {
            let counts: Vec<AtomicU32> = (0..n).map(|_| AtomicU32::new(0)).collect();
            pool.ranges(n, grain, |range| {
                for i in range {
                    counts[i].fetch_add(1, Ordering::Relaxed);
                }
            });
            assert!(counts.iter().all(|c| c.load(Ordering::Relaxed) == 1));
        }
    }

    #[test]
    fn nested_and_concurrent_submissions_finish() {
        let pool = ThreadPool::new(4);
        let total = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        pool.run(8, |_| {
                            pool.run(3, |_| {
                                total.fetch_add(1, Ordering::Relaxed);
                            })
                        });
                    }
                });
            }
        });
        assert_eq!(total.load(Ordering::Relaxed), 8 * 200 * 8 * 3);
    }

    /// Runs a job in which each thread's first chunk waits, for seconds at most, until every thread of the pool has one.
    /// Returns how many threads took part; `then` is called on each of them.
    fn threads_that_run(pool: &ThreadPool, then: impl Fn() + Sync) -> usize {
        let present = AtomicUsize::new(0);
        let result = catch_unwind(AssertUnwindSafe(|| {
            pool.run(pool.threads(), |_| {
                present.fetch_add(1, Ordering::Relaxed);
                let start = Instant::now();
                while present.load(Ordering::Relaxed) < pool.threads() && start.elapsed() < PATIENCE {
                    std::thread::yield_now();
                }
                then();
            });
        }));
        // A panic of `then` is expected by whoever lets it panic.
        drop(result);
        present.load(Ordering::Relaxed)
    }

    const PATIENCE: Duration = Duration::from_secs(20);

    #[test]
    fn threads_take_the_same_chunks_again() {
        let pool = ThreadPool::new(3);
        let chunks_of_threads = || {
            let (present, ran) = (AtomicUsize::new(0), Mutex::new([None; 3]));
            pool.run(3, |i| {
                present.fetch_add(1, Ordering::Relaxed);
                let start = Instant::now();
                while present.load(Ordering::Relaxed) < 3 && start.elapsed() < PATIENCE {
                    std::thread::yield_now();
                }
                ran.lock().unwrap()[i] = Some(std::thread::current().id());
            });
            ran.into_inner().unwrap()
        };
        let first = chunks_of_threads();
        assert_eq!(first[0], Some(std::thread::current().id()));
        for _ in 0..20 {
            assert_eq!(chunks_of_threads(), first);
        }
    }

    #[test]
    fn a_panic_reaches_the_submitter_and_all_threads_run_afterwards() {
        let pool = ThreadPool::new(3);
        for panics_of in 0..64 {
            let result = catch_unwind(AssertUnwindSafe(|| pool.run(64, |i| assert_ne!(i, panics_of))));
            assert!(result.is_err());
        }
        let ran = Mutex::new(HashSet::new());
        let insert = || {
            ran.lock().unwrap().insert(std::thread::current().id());
        };
        assert_eq!(threads_that_run(&pool, insert), 3);
        assert_eq!(ran.into_inner().unwrap().len(), 3, "a thread ran two chunks: {PATIENCE:?} went by");
    }

    #[test]
    fn a_panic_of_all_threads_is_not_told_twice() {
        let pool = ThreadPool::new(3);
        assert_eq!(threads_that_run(&pool, || panic!("on every thread")), 3);
        let sum = AtomicUsize::new(0);
        pool.run(10, |i| {
            sum.fetch_add(i, Ordering::Relaxed);
        });
        assert_eq!(sum.load(Ordering::Relaxed), 45);
    }
}
