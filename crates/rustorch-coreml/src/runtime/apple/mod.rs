//! Core ML itself, on macOS 13, iOS 16 and later.

mod array;
mod model;
mod plan;

use super::{ComputeUnits, LoadedModel, PlanShares, Runtime, RuntimeError, Signature};
use block2::RcBlock;
use model::Worker;
use objc2::rc::{Retained, autoreleasepool};
use objc2_core_ml::{MLComputeUnits, MLModel, MLModelConfiguration};
use objc2_foundation::{NSError, NSProcessInfo, NSString, NSURL};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc;

/// Core ML of this system.
#[derive(Clone, Copy, Debug, Default)]
pub struct AppleRuntime(());

impl AppleRuntime {
    /// Core ML of this system.
    ///
    /// # Errors
    /// If the system is older than macOS 13 or iOS 16, whose Core ML lacks calls that are made here.
    pub fn new() -> Result<AppleRuntime, String> {
        if objc2::available!(macos = 13.0, ios = 16.0, tvos = 16.0, watchos = 9.0, visionos = 1.0) {
            Ok(AppleRuntime(()))
        } else {
            Err(format!("programs run on macOS 13, iOS 16 and later, and this is {}", system()))
        }
    }
}

impl Runtime for AppleRuntime {
    fn system(&self) -> String {
        system()
    }

    fn compile(&self, package: &Path, compiled: &Path) -> Result<(), RuntimeError> {
        let package = url(package)?;
        let (send, receive) = mpsc::channel::<Result<PathBuf, String>>();
        // Core ML calls it on a thread of its own, once. What it captures is `Send`, and what it sends has no Objective-C objects.
        let handler = RcBlock::new(move |made: *mut NSURL, error: *mut NSError| {
            // SAFETY: Core ML gives valid objects, or null.
            let (made, error) = unsafe { (made.as_ref(), error.as_ref()) };
            let path = made.and_then(NSURL::to_file_path);
            // Nobody listens any more if the receiver is gone.
            let _ = send.send(path.ok_or_else(|| said(error)));
        });
        // SAFETY: the handler takes what the method gives it, and is kept by Core ML until it was called.
        unsafe { MLModel::compileModelAtURL_completionHandler(&package, &handler) };
        drop(handler);
        let made = receive.recv().unwrap_or_else(|_| Err("Core ML did not answer".to_owned()));
        let made = made.map_err(RuntimeError::Refused)?;
        // Core ML compiles to a temporary folder, which may be on another disk.
        let moved = fs::rename(&made, compiled).or_else(|_| crate::cache::copy_folder(&made, compiled));
        let moved = moved.map_err(RuntimeError::io(compiled));
        // What is left after a rename is nothing; else the system removes it some day.
        let _ = fs::remove_dir_all(&made);
        moved
    }

    fn plan(&self, compiled: &Path, units: ComputeUnits) -> Result<Option<PlanShares>, RuntimeError> {
        // The class is there from these on.
        if !objc2::available!(macos = 14.4, ios = 17.4, tvos = 17.4, watchos = 10.4, visionos = 1.1) {
            return Ok(None);
        }
        autoreleasepool(|_| plan::shares(&*url(compiled)?, &configuration(units, None)))
    }

    fn load(
        &self,
        compiled: &Path,
        units: ComputeUnits,
        signature: &Signature,
    ) -> Result<Box<dyn LoadedModel>, RuntimeError> {
        let is_plain = signature.function.is_none() && signature.states.is_empty();
        // Whose selectors are there from these on.
        if !is_plain
            && !objc2::available!(macos = 15.0, ios = 18.0, tvos = 18.0, watchos = 11.0, visionos = 2.0)
        {
            let message = format!(
                "programs with states or several functions run on macOS 15, iOS 18 and later, and this is {}",
                system()
            );
            return Err(RuntimeError::Refused(message));
        }
        Ok(Box::new(Worker::start(compiled.to_owned(), units, signature.clone())?))
    }
}

/// The system with its build, such as `macos Version 14.5 (Build 23F79)`.
fn system() -> String {
    let version = NSProcessInfo::processInfo().operatingSystemVersionString();
    format!("{} {version}", std::env::consts::OS)
}

/// A configuration with compute units, and a function: macOS 15, iOS 18 and later.
fn configuration(units: ComputeUnits, function: Option<&str>) -> Retained<MLModelConfiguration> {
    let units = match units {
        ComputeUnits::All => MLComputeUnits::All,
        ComputeUnits::Cpu => MLComputeUnits::CPUOnly,
        ComputeUnits::CpuAndGpu => MLComputeUnits::CPUAndGPU,
        ComputeUnits::CpuAndNeuralEngine => MLComputeUnits::CPUAndNeuralEngine,
    };
    // SAFETY: an object of our own; the units are those of macOS 13, and a function is named only where systems have them.
    unsafe {
        let configuration = MLModelConfiguration::new();
        configuration.setComputeUnits(units);
        if let Some(function) = function {
            configuration.setFunctionName(Some(&NSString::from_str(function)));
        }
        configuration
    }
}

fn url(path: &Path) -> Result<Retained<NSURL>, RuntimeError> {
    NSURL::from_directory_path(path)
        .ok_or_else(|| RuntimeError::Refused(format!("{} is no path that Core ML takes", path.display())))
}

/// What an error says.
fn said(error: Option<&NSError>) -> String {
    error
        .map_or_else(|| "Core ML gave no reason".to_owned(), |error| error.localizedDescription().to_string())
}

fn refused(error: Retained<NSError>) -> RuntimeError {
    RuntimeError::Refused(said(Some(&error)))
}
