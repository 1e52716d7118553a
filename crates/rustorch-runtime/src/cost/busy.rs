//! Detection of other programs' load on the CPU while a device is measured: CPU time against wall time.

use std::hint::spin_loop;
use std::thread;
use std::time::{Duration, Instant};

/// How long one look spins on every core.
const SPIN: Duration = Duration::from_millis(5);
/// Of a machine that does nothing else, spinning threads get at least this share of the time.
const FREE_SHARE: f64 = 0.9;

/// Adds up how much CPU time threads got that wanted all of it.
#[derive(Default)]
pub(super) struct LoadMeter {
    wall: f64,
    cpu: f64,
}

impl LoadMeter {
    /// Spins on every core for a few milliseconds.
    pub(super) fn look(&mut self) {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|scope| {
            let spinning: Vec<_> = (0..threads).map(|_| scope.spawn(spin)).collect();
            // A thread that cannot tell its CPU time says nothing.
            for (cpu, wall) in spinning.into_iter().filter_map(|thread| thread.join().ok().flatten()) {
                self.cpu += cpu;
                self.wall += wall;
            }
        });
    }

    /// Whether something else took a noticeable part of the CPU; `false` where the system does not tell a thread's CPU time.
    pub(super) fn is_busy(&self) -> bool {
        self.cpu < FREE_SHARE * self.wall
    }
}

/// Spins, and returns the seconds of CPU time and of wall time that it took.
fn spin() -> Option<(f64, f64)> {
    let (begun, cpu) = (Instant::now(), thread_cpu_seconds()?);
    while begun.elapsed() < SPIN {
        spin_loop();
    }
    Some((thread_cpu_seconds()? - cpu, begun.elapsed().as_secs_f64()))
}

/// The CPU time of the calling thread.
#[cfg(unix)]
fn thread_cpu_seconds() -> Option<f64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a `timespec` that may be written.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    (status == 0).then_some(time.tv_sec as f64 + 1e-9 * time.tv_nsec as f64)
}

#[cfg(not(unix))]
fn thread_cpu_seconds() -> Option<f64> {
    None
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn threads_that_compute_beside_it_are_noticed() {
        let stop = AtomicBool::new(false);
        let cores = thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|scope| {
            for _ in 0..cores {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        spin_loop();
                    }
                });
            }
            let mut load = LoadMeter::default();
            for _ in 0..5 {
                load.look();
            }
            stop.store(true, Ordering::Relaxed);
            assert!(load.is_busy(), "{} of {} s", load.cpu, load.wall);
        });
    }

    #[test]
    fn shares_add_up() {
        assert!(!LoadMeter { wall: 1.0, cpu: 0.95 }.is_busy());
        assert!(LoadMeter { wall: 2.0, cpu: 1.5 }.is_busy());
        assert!(!LoadMeter::default().is_busy());
    }
}
