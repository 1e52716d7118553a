//! Compiles and runs cases with each compute unit, and compares them with the CPU: what `tools/prove-on-a-mac.sh` does on a Mac. The tests and the
//! example `prove` share it; a fake stands for Core ML elsewhere.

use crate::cases::{self, Case};
use rustorch_coreml::runtime::{
    Array, ArrayMut, ComputeUnits, Feature, LoadedModel, ModelState, PlanShares, Runtime, RuntimeError,
    Signature,
};
use rustorch_coreml::{Function, Package, PackageInfo};
use rustorch_tensor::{DType, Tensor};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// What became of a case with compute units.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub case: String,
    pub units: String,
    pub outcome: Outcome,
    /// Why, unless it is right.
    pub message: Option<String>,
    /// The largest difference from the CPU's results, relative to the largest of an output.
    pub error: Option<f64>,
    /// Seconds of a prediction, the fastest of five.
    pub seconds: Option<f64>,
    /// Whether all outputs were written where Core ML was asked to.
    pub in_place: Option<bool>,
    /// What Core ML's plan prefers.
    pub plan: Option<PlanShares>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    Right,
    Wrong,
    Failed,
    /// Nothing here runs it.
    NotRun,
}

/// What a person sends in.
#[derive(Debug, Serialize, Deserialize)]
pub struct Proof {
    /// Of this form: 1.
    pub schema: u32,
    pub system: String,
    /// Whether a fake stood for Core ML.
    pub fake: bool,
    pub rows: Vec<Row>,
}

/// How a case with states is called of which runs are by turns two functions of a package, which share the states.
pub const BY_TURNS: &str = "_by_turns";

impl Row {
    fn new(name: &str, units: ComputeUnits) -> Row {
        Row::unfinished(name, units.name(), Outcome::Failed, None)
    }

    pub fn unfinished(case: &str, units: &str, outcome: Outcome, message: Option<String>) -> Row {
        Row {
            case: case.to_owned(),
            units: units.to_owned(),
            outcome,
            message,
            error: None,
            seconds: None,
            in_place: None,
            plan: None,
        }
    }
}

/// Runs a case, in a folder that is empty; by turns if its name says so.
pub fn prove(runtime: &dyn Runtime, name: &str, case: &Case, folder: &Path) -> Vec<Row> {
    let all = |outcome: Outcome, message: String| {
        let row =
            |units: ComputeUnits| Row { outcome, message: Some(message.clone()), ..Row::new(name, units) };
        ComputeUnits::ALL.map(row).to_vec()
    };
    let constants = case.program.constants();
    let bytes = cases::bytes(&constants);
    let compiled = folder.join("compiled.mlmodelc");
    let package = folder.join("program.mlpackage");
    let names: &[&str] = if name.ends_with(BY_TURNS) { &["even", "odd"] } else { &["main"] };
    let function = |name: &&str| Function::new(*name, case.program.graph(), case.options.clone());
    let functions: Vec<Function<'_>> = names.iter().map(function).collect();
    let written = Package::of_functions(&functions, &bytes).and_then(|made| made.write(&package));
    let signatures = written.and_then(|()| {
        let info = PackageInfo::read(&package)?;
        names.iter().map(|name| info.signature(name).cloned()).collect::<Result<Vec<Signature>, _>>()
    });
    let signatures = match signatures {
        Ok(signatures) => signatures,
        Err(error) => return all(Outcome::Failed, format!("emitting: {error}")),
    };
    if let Err(error) = runtime.compile(&package, &compiled) {
        return all(Outcome::Failed, format!("compiling: {error}"));
    }
    let run = |units: ComputeUnits| {
        let mut row = Row::new(name, units);
        match run(runtime, case, &compiled, &signatures, &mut row) {
            Ok(()) => row,
            Err(message) => Row { message: Some(message), ..row },
        }
    };
    ComputeUnits::ALL.map(run).to_vec()
}

fn run(
    runtime: &dyn Runtime,
    case: &Case,
    compiled: &Path,
    signatures: &[Signature],
    row: &mut Row,
) -> Result<(), String> {
    let units = row.units.parse::<ComputeUnits>()?;
    let signature = &signatures[0];
    row.plan = runtime.plan(compiled, units).map_err(|error| format!("planning: {error}"))?;
    let models = signatures.iter().map(|signature| runtime.load(compiled, units, signature));
    let models = models.collect::<Result<Vec<_>, _>>().map_err(|error| {
        // Systems before macOS 15 have no states.
        row.outcome = if signature.states.is_empty() { Outcome::Failed } else { Outcome::NotRun };
        format!("loading: {error}")
    })?;
    // Runs with a state follow each other; another program does the same five times.
    let (runs, mut state) = match signature.states.is_empty() {
        true => (vec![0; 5], None),
        false => (
            (0..case.runs.len()).collect(),
            Some(models[0].new_state().map_err(|error| format!("making states: {error}"))?),
        ),
    };
    case.program.states().iter().try_for_each(Tensor::zero_).map_err(|error| error.to_string())?;
    let mut made: Vec<Vec<u8>> = signature.outputs.iter().map(|feature| vec![0; feature.bytes()]).collect();
    let mut results = Vec::with_capacity(runs.len());
    for &run in &runs {
        let given: Vec<Vec<u8>> =
            signature.inputs.iter().zip(&case.runs[run]).map(|(feature, x)| border(feature, x)).collect();
        let given = signature.inputs.iter().zip(&given).map(|(feature, bytes)| feature.array(bytes));
        let given: Vec<Array<'_>> = given.collect();
        let places = signature.outputs.iter().zip(&mut made);
        let mut places: Vec<ArrayMut<'_>> = places.map(|(feature, bytes)| feature.array_mut(bytes)).collect();
        if let Some(state) = state.as_mut().filter(|_| run == 1) {
            exchange(&*models[0], signature, state).map_err(|error| format!("writing states: {error}"))?;
        }
        let started = Instant::now();
        let in_place = models[run % models.len()].predict(&given, state.as_mut(), &mut places);
        let seconds = started.elapsed().as_secs_f64();
        let in_place = in_place.map_err(|error| format!("predicting: {error}"))?;
        row.seconds = Some(row.seconds.map_or(seconds, |best| best.min(seconds)));
        row.in_place = Some(in_place.iter().all(|in_place| *in_place));
        results.push(made.clone());
    }
    // Of `f32` programs sums may be in another order; those of 16 bits round.
    let tolerance = if case.options.allow_f16 || has_16_bits(case) { 1e-2 } else { 1e-4 };
    let mut largest = 0f64;
    case.program.states().iter().try_for_each(Tensor::zero_).map_err(|error| error.to_string())?;
    for (&run, made) in runs.iter().zip(&results) {
        let expected = case.program.run(&case.runs[run].iter().collect::<Vec<_>>());
        let expected = expected.map_err(|error| error.to_string())?;
        for ((feature, made), expected) in signature.outputs.iter().zip(made).zip(&expected) {
            largest = largest.max(difference(feature, made, &border(feature, expected)));
        }
    }
    row.error = Some(largest);
    row.outcome = if largest <= tolerance { Outcome::Right } else { Outcome::Wrong };
    if row.outcome == Outcome::Wrong {
        return Err(format!("differs from the CPU's by {largest:.1e} of its largest value"));
    }
    Ok(())
}

/// Reads what each state holds, writes something else, reads that, and writes back what it was: the runs behind it show whether it is.
fn exchange(model: &dyn LoadedModel, signature: &Signature, state: &mut ModelState) -> Result<(), String> {
    for (i, feature) in signature.states.iter().enumerate() {
        let other: Vec<u8> = (0..feature.bytes()).map(|i| (i % 60) as u8).collect();
        let (mut held, mut read) = (vec![0; other.len()], vec![0; other.len()]);
        let exchanged = model
            .read_state(state, i, &mut held)
            .and_then(|()| model.write_state(state, i, &other))
            .and_then(|()| model.read_state(state, i, &mut read))
            .and_then(|()| model.write_state(state, i, &held));
        exchanged.map_err(|error| error.to_string())?;
        if read != other {
            return Err(format!("{} does not hold what was written", feature.name));
        }
    }
    Ok(())
}

fn has_16_bits(case: &Case) -> bool {
    case.program.graph().values.iter().any(|value| matches!(value.dtype, DType::F16 | DType::BF16))
}

/// A tensor's bytes at the border of a program.
fn border(feature: &Feature, x: &Tensor) -> Vec<u8> {
    x.to_dtype(feature.dtype).unwrap().to_bytes().unwrap()
}

/// The largest difference relative to the largest expected value; infinite where one is NaN or infinite and the other is not.
fn difference(feature: &Feature, made: &[u8], expected: &[u8]) -> f64 {
    let values = |bytes: &[u8]| -> Vec<f64> {
        let width = feature.dtype.block_bytes();
        let value = |word: &[u8]| match feature.dtype {
            DType::F16 => rustorch_core::f16::from_ne_bytes(word.try_into().unwrap()).to_f64(),
            DType::F32 => f32::from_ne_bytes(word.try_into().unwrap()).into(),
            _ => i32::from_ne_bytes(word.try_into().unwrap()).into(),
        };
        bytes.chunks_exact(width).map(value).collect()
    };
    let (made, expected) = (values(made), values(expected));
    let scale = expected.iter().filter(|x| x.is_finite()).fold(0f64, |a, x| a.max(x.abs())).max(1e-30);
    let differ = |(made, expected): (&f64, &f64)| {
        if made == expected || made.is_nan() && expected.is_nan() {
            0.0
        } else if made.is_finite() && expected.is_finite() {
            (made - expected).abs() / scale
        } else {
            f64::INFINITY
        }
    };
    made.iter().zip(&expected).map(differ).fold(0.0, f64::max)
}

/// Computes a case on the CPU, as if it were Core ML.
pub struct CaseOnCpu {
    pub case: Arc<Case>,
    /// Whether the results are wrong.
    pub lies: bool,
}

impl Runtime for CaseOnCpu {
    fn system(&self) -> String {
        "a fake".to_owned()
    }

    fn compile(&self, package: &Path, compiled: &Path) -> Result<(), RuntimeError> {
        assert!(package.join("Manifest.json").exists());
        fs::create_dir(compiled).map_err(RuntimeError::io(compiled))
    }

    fn plan(&self, _: &Path, _: ComputeUnits) -> Result<Option<PlanShares>, RuntimeError> {
        Ok(None)
    }

    fn load(
        &self,
        _: &Path,
        _: ComputeUnits,
        signature: &Signature,
    ) -> Result<Box<dyn LoadedModel>, RuntimeError> {
        let (case, signature, lies) = (Arc::clone(&self.case), signature.clone(), self.lies);
        Ok(Box::new(OnCpu { case, signature, lies }))
    }
}

struct OnCpu {
    case: Arc<Case>,
    signature: Signature,
    lies: bool,
}

/// The states of a case on the CPU, and which run is next.
struct Held {
    run: usize,
    states: Vec<Vec<u8>>,
}

impl OnCpu {
    fn states(&self) -> Vec<Vec<u8>> {
        self.case.program.states().iter().map(|state| state.to_bytes().unwrap()).collect()
    }

    fn run(&self, run: usize) -> Vec<Tensor> {
        self.case.program.run(&self.case.runs[run].iter().collect::<Vec<_>>()).unwrap()
    }
}

impl LoadedModel for OnCpu {
    fn new_state(&self) -> Result<ModelState, RuntimeError> {
        let states = self.states().into_iter().map(|state| vec![0; state.len()]).collect();
        Ok(ModelState::new(&self.signature, Held { run: 0, states }))
    }

    fn write_state(&self, state: &mut ModelState, number: usize, bytes: &[u8]) -> Result<(), RuntimeError> {
        self.signature.check_state(state, number, bytes.len())?;
        state.update(|held: &mut Held| {
            held.states[number].copy_from_slice(bytes);
            Ok(())
        })
    }

    fn read_state(
        &self,
        state: &mut ModelState,
        number: usize,
        bytes: &mut [u8],
    ) -> Result<(), RuntimeError> {
        self.signature.check_state(state, number, bytes.len())?;
        state.update(|held: &mut Held| {
            bytes.copy_from_slice(&held.states[number]);
            Ok(())
        })
    }

    fn predict(
        &self,
        inputs: &[Array<'_>],
        state: Option<&mut ModelState>,
        outputs: &mut [ArrayMut<'_>],
    ) -> Result<Vec<bool>, RuntimeError> {
        self.signature.check(inputs, state.as_deref(), outputs)?;
        let results = match state {
            None => self.run(0),
            Some(state) => state.update(|held: &mut Held| {
                for (state, bytes) in self.case.program.states().iter().zip(&held.states) {
                    state.copy_(&Tensor::from_bytes(bytes, state.dtype(), state.dims()).unwrap()).unwrap();
                }
                let results = self.run(held.run);
                *held = Held { run: held.run + 1, states: self.states() };
                Ok(results)
            })?,
        };
        for ((feature, result), output) in self.signature.outputs.iter().zip(&results).zip(outputs) {
            output.bytes.copy_from_slice(&border(feature, result));
            if self.lies {
                // Of each value the exponent, or a large part of an integer.
                let width = feature.dtype.block_bytes();
                output.bytes.iter_mut().skip(width - 1).step_by(width).for_each(|last| *last ^= 0x30);
            }
        }
        Ok(vec![true; results.len()])
    }
}
