//! Running programs: the [`Runtime`] trait, which Core ML implements on Apple's systems, and tests elsewhere.

#[cfg(target_vendor = "apple")]
mod apple;
mod arguments;
mod signature;
mod state;
mod units;

#[cfg(target_vendor = "apple")]
pub use apple::AppleRuntime;
pub use arguments::{ArgumentError, Array, ArrayMut};
pub use signature::{Feature, Signature};
pub use state::ModelState;
pub use units::{ComputeUnits, PlanShares};

use std::io;
use std::path::{Path, PathBuf};

/// What compiles packages and runs them: Core ML, or what stands for it.
pub trait Runtime: Send + Sync {
    /// The system with its build. A program that was compiled or [admitted](crate::admission) by one is looked at again by another.
    fn system(&self) -> String;

    /// Compiles a package to a folder that is not there yet.
    ///
    /// # Errors
    /// If the runtime refuses the package, or the disk fails.
    fn compile(&self, package: &Path, compiled: &Path) -> Result<(), RuntimeError>;

    /// Where the runtime would prefer to run the operations of a compiled program; `None` if this system does not tell.
    ///
    /// # Errors
    /// If the runtime refuses the program.
    fn plan(&self, compiled: &Path, units: ComputeUnits) -> Result<Option<PlanShares>, RuntimeError>;

    /// Loads a function of a compiled program, which has these inputs, outputs and states.
    ///
    /// # Errors
    /// If the runtime refuses the program, this system has no functions or states, or the disk fails.
    fn load(
        &self,
        compiled: &Path,
        units: ComputeUnits,
        signature: &Signature,
    ) -> Result<Box<dyn LoadedModel>, RuntimeError>;
}

/// A loaded program.
pub trait LoadedModel: Send + Sync {
    /// Memory for the states of the function, which hold zeros. Conversations at once have one each. Models of other functions with the same states,
    /// loaded from the same folder for the same units, take it in turns with this one.
    ///
    /// # Errors
    /// If the program has no states, or the runtime fails.
    fn new_state(&self) -> Result<ModelState, RuntimeError>;

    /// Writes all of a state, given by its number in the [`Signature`].
    ///
    /// # Errors
    /// [`RuntimeError::Arguments`] if there is no such state, or it takes other bytes; else if the runtime fails: the states are given to no prediction then.
    fn write_state(&self, state: &mut ModelState, number: usize, bytes: &[u8]) -> Result<(), RuntimeError>;

    /// Reads all of a state.
    ///
    /// # Errors
    /// As of [`write_state`](Self::write_state).
    fn read_state(&self, state: &mut ModelState, number: usize, bytes: &mut [u8])
    -> Result<(), RuntimeError>;

    /// Computes the outputs: an array for each feature of the [`Signature`] with which it was loaded, in order. Returns for each
    /// output whether it was written where it is: the runtime may have computed it elsewhere, from where it was copied.
    ///
    /// # Errors
    /// [`RuntimeError::Arguments`] if [`Signature::check`] says so, before anything is computed; else if the runtime fails: outputs may then hold
    /// anything, and the states are given to no other prediction.
    fn predict(
        &self,
        inputs: &[Array<'_>],
        state: Option<&mut ModelState>,
        outputs: &mut [ArrayMut<'_>],
    ) -> Result<Vec<bool>, RuntimeError>;
}

/// Why a runtime does not do what it is asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RuntimeError {
    /// The runtime's own words.
    #[error("{0}")]
    Refused(String),
    /// It is given something else than the program takes.
    #[error(transparent)]
    Arguments(#[from] ArgumentError),
    /// The disk fails, which says nothing of the program.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
}

impl RuntimeError {
    /// An [`Io`](Self::Io) of a path.
    pub fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> RuntimeError {
        let path = path.into();
        move |source| RuntimeError::Io { path, source }
    }
}

/// The runtime of this system, or why there is none.
///
/// # Errors
/// Everywhere but on macOS 13, iOS 16 and later.
pub fn system_runtime() -> Result<std::sync::Arc<dyn Runtime>, String> {
    #[cfg(target_vendor = "apple")]
    {
        Ok(std::sync::Arc::new(AppleRuntime::new()?))
    }
    #[cfg(not(target_vendor = "apple"))]
    {
        Err(format!("Core ML is part of macOS and iOS, and this is {}", std::env::consts::OS))
    }
}
