//! Admission: a program counts once it has proven its results and its speed, and not before.
//!
//! Once per program, system and compute units, a child process compiles the program, loads it, and runs it on the inputs of a run and three
//! random variants of them. It is refused if the process hangs, aborts or is killed, if results differ from the CPU's, or if it is not faster
//! than the devices without Core ML. What was found out ([`Verdict`]) stands beside the [cache](ModelCache) of compiled programs.
//!
//! The child process is this program, started anew with a variable in its environment: its `main` calls [`child`] first, which does
//! what is asked, and ends the process.

mod child;
mod compare;
mod examine;
mod inputs;
mod launch;
mod verdict;

pub use crate::cache::{CacheEntry, CachedModel, Key, ModelCache};
pub use child::{child, serve};
pub use launch::{Launcher, this_program};
pub use verdict::{Verdict, forget, verdicts};

pub(crate) use examine::{Admitted, Examiner, Job};

use rustorch_core::Graph;
use std::fmt;
use std::time::Duration;

/// How programs are examined.
#[derive(Clone)]
pub struct AdmissionOptions {
    /// How long compiling and the first predictions may take together. 10 minutes by default: large programs take minutes for the Neural Engine.
    pub time_limit: Duration,
    /// How many predictions are timed, behind a warm-up. 20 by default.
    pub runs: usize,
    /// How many times as long the other devices must take, at least. 1.15 by default.
    pub least_gain: f64,
    /// How the child process is started: [`this_program`] by default.
    pub launcher: Launcher,
}

impl Default for AdmissionOptions {
    fn default() -> Self {
        AdmissionOptions {
            time_limit: Duration::from_secs(600),
            runs: 20,
            least_gain: 1.15,
            launcher: std::sync::Arc::new(this_program),
        }
    }
}

impl fmt::Debug for AdmissionOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AdmissionOptions { time_limit, runs, least_gain, .. } = self;
        f.debug_struct("AdmissionOptions")
            .field("time_limit", time_limit)
            .field("runs", runs)
            .field("least_gain", least_gain)
            .finish_non_exhaustive()
    }
}

/// What computes regions without Core ML: their results and their speed are what programs are compared with.
pub trait Reference: Send + Sync {
    /// Makes a region ready to run, which may have states. All its values are taken to be on the CPU; the bytes of constants are given in order.
    ///
    /// # Errors
    /// If that is not possible.
    fn prepare(&self, region: &Graph, constants: &[Vec<u8>]) -> Result<Box<dyn PreparedReference>, String>;
}

/// A region that runs without Core ML. Inputs are the bytes of each, then those that each state holds before, contiguous, in the dtypes of the region.
pub trait PreparedReference {
    /// The bytes of the outputs by the CPU, then what each state holds.
    ///
    /// # Errors
    /// If that fails.
    fn run_on_cpu(&self, inputs: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, String>;

    /// How long the best plan without Core ML takes, the inputs being where its devices read them.
    ///
    /// # Errors
    /// If that fails.
    fn time_best(&self, inputs: &[Vec<u8>]) -> Result<Duration, String>;
}
