//! The child process: compiles, loads and runs a program, and writes down what came of it.

use crate::runtime::{
    ComputeUnits, LoadedModel, ModelState, PlanShares, Runtime, RuntimeError, Signature, system_runtime,
};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// The variable that names the folder of what is asked.
pub(super) const VARIABLE: &str = "RUSTORCH_COREML_REQUEST";

/// Whether this program does what child processes are asked.
static CALLED: AtomicBool = AtomicBool::new(false);

pub(super) fn is_called() -> bool {
    CALLED.load(Ordering::Relaxed)
}

/// What a child process is asked. Files beside it: the package, and the inputs, behind which is what states hold.
#[derive(Serialize, Deserialize)]
pub(super) struct Request {
    pub(super) units: ComputeUnits,
    pub(super) signature: Signature,
    /// How many sets of inputs there are.
    pub(super) sets: usize,
    /// How many predictions are timed.
    pub(super) runs: usize,
}

/// What it answers. Files beside it: the compiled program, and the outputs, behind which is what states hold.
#[derive(Serialize, Deserialize)]
pub(super) struct Answer {
    pub(super) plan: Option<PlanShares>,
    /// Seconds of each timed prediction.
    pub(super) seconds: Vec<f64>,
    /// By output: whether Core ML wrote it where it was asked to.
    pub(super) in_place: Vec<bool>,
    pub(super) error: Option<Failed>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Failed {
    pub(super) message: String,
    /// Whether it was the disk, which says nothing of the program.
    pub(super) is_disk: bool,
}

/// Where the files are.
pub(super) struct Files<'a>(pub(super) &'a Path);

impl Files<'_> {
    pub(super) fn request(&self) -> PathBuf {
        self.0.join("request.json")
    }

    pub(super) fn package(&self) -> PathBuf {
        self.0.join("program.mlpackage")
    }

    pub(super) fn input(&self, set: usize, i: usize) -> PathBuf {
        self.0.join(format!("input-{set}-{i}"))
    }

    /// What the process is doing.
    pub(super) fn stage(&self) -> PathBuf {
        self.0.join("stage")
    }

    pub(super) fn compiled(&self) -> PathBuf {
        self.0.join("model.mlmodelc")
    }

    pub(super) fn output(&self, set: usize, i: usize) -> PathBuf {
        self.0.join(format!("output-{set}-{i}"))
    }

    pub(super) fn answer(&self) -> PathBuf {
        self.0.join("answer.json")
    }

    /// What the process printed.
    pub(super) fn printed(&self) -> PathBuf {
        self.0.join("printed")
    }
}

/// To be called first in `main` by programs that run regions by Core ML: where this process was started to examine one, it does so
/// and ends; else it returns at once. Without it no region is admitted, and the reason says so.
///
/// ```
/// // The first line of `main`:
/// rustorch_coreml::child();
/// ```
pub fn child() {
    CALLED.store(true, Ordering::Relaxed);
    if let Some(folder) = std::env::var_os(VARIABLE) {
        let code = match system_runtime() {
            Ok(runtime) => serve(&*runtime, Path::new(&folder)),
            Err(_) => 1,
        };
        std::process::exit(code);
    }
}

/// Does what a folder asks, by a runtime: what [`child`] does by that of the system. Returns the exit code: 0 if the answer could be written.
pub fn serve(runtime: &dyn Runtime, folder: &Path) -> i32 {
    #[cfg(unix)]
    end_with_parent();
    let files = Files(folder);
    let mut answer = Answer { plan: None, seconds: Vec::new(), in_place: Vec::new(), error: None };
    if let Err(error) = examine(runtime, &files, &mut answer) {
        let is_disk = matches!(error, RuntimeError::Io { .. });
        answer.error = Some(Failed { message: error.to_string(), is_disk });
    }
    let written = serde_json::to_vec(&answer).map_err(std::io::Error::other);
    let written = written.and_then(|answer| fs::write(files.answer(), answer));
    i32::from(written.is_err())
}

/// Ends this process if the one that started it is gone: nobody waits for the answer.
#[cfg(unix)]
fn end_with_parent() {
    use std::os::unix::process::parent_id;
    let parent = parent_id();
    let watch = move || {
        while parent_id() == parent {
            std::thread::sleep(std::time::Duration::from_millis(200));
        }
        std::process::exit(1);
    };
    // Without it the process ends later.
    let _ = std::thread::Builder::new().spawn(watch);
}

fn examine(runtime: &dyn Runtime, files: &Files<'_>, answer: &mut Answer) -> Result<(), RuntimeError> {
    let stage = |text: &str| fs::write(files.stage(), text).map_err(RuntimeError::io(files.stage()));
    let request = fs::read(files.request()).map_err(RuntimeError::io(files.request()))?;
    let request: Request =
        serde_json::from_slice(&request).map_err(|error| RuntimeError::Refused(error.to_string()))?;
    let Request { units, signature, sets, runs } = request;
    stage("compiling")?;
    runtime.compile(&files.package(), &files.compiled())?;
    stage("planning")?;
    answer.plan = runtime.plan(&files.compiled(), units)?;
    stage("loading")?;
    let model = runtime.load(&files.compiled(), units, &signature)?;
    stage("predicting")?;
    let mut outputs: Vec<Vec<u8>> =
        signature.outputs.iter().map(|feature| vec![0; feature.bytes()]).collect();
    let mut states = (!signature.states.is_empty()).then(|| model.new_state()).transpose()?;
    let mut inputs = Vec::new();
    // The last is that of the run, which is timed below.
    for set in (0..sets).rev() {
        let read = |i: usize| fs::read(files.input(set, i)).map_err(RuntimeError::io(files.input(set, i)));
        inputs = (0..signature.inputs.len()).map(&read).collect::<Result<Vec<_>, _>>()?;
        if let Some(states) = &mut states {
            for i in 0..signature.states.len() {
                model.write_state(states, i, &read(signature.inputs.len() + i)?)?;
            }
        }
        answer.in_place = predict(&*model, &signature, &inputs, states.as_mut(), &mut outputs)?;
        for (i, output) in outputs.iter().enumerate() {
            fs::write(files.output(set, i), output).map_err(RuntimeError::io(files.output(set, i)))?;
        }
        if let Some(states) = &mut states {
            for (i, feature) in signature.states.iter().enumerate() {
                let (file, mut held) = (files.output(set, outputs.len() + i), vec![0; feature.bytes()]);
                model.read_state(states, i, &mut held)?;
                fs::write(&file, held).map_err(RuntimeError::io(&file))?;
            }
        }
    }
    stage("measuring")?;
    for _ in 0..runs {
        let started = Instant::now();
        predict(&*model, &signature, &inputs, states.as_mut(), &mut outputs)?;
        answer.seconds.push(started.elapsed().as_secs_f64());
    }
    Ok(())
}

fn predict(
    model: &dyn LoadedModel,
    signature: &Signature,
    inputs: &[Vec<u8>],
    states: Option<&mut ModelState>,
    outputs: &mut [Vec<u8>],
) -> Result<Vec<bool>, RuntimeError> {
    let arrays = signature.inputs.iter().zip(inputs).map(|(feature, bytes)| feature.array(bytes));
    let places = signature.outputs.iter().zip(outputs).map(|(feature, bytes)| feature.array_mut(bytes));
    model.predict(&arrays.collect::<Vec<_>>(), states, &mut places.collect::<Vec<_>>())
}
