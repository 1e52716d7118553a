//! Regions run by coremltools' evaluation of their packages (`tools/oracle/coreml/serve.py`), which takes the place of Core ML.

use crate::cases;
use crate::device::{SlowMachine, cpu_cost, reports};
use crate::fake::{Known, known};
use crate::functions;
use crate::resident::attention;
use rustorch_core::{Backend, DType, Decline, Device};
use rustorch_coreml::admission::{AdmissionOptions, ModelCache, serve, verdicts};
use rustorch_coreml::device::Assumptions;
use rustorch_coreml::runtime::{
    ArgumentError, Array, ArrayMut, ComputeUnits, LoadedModel, ModelState, PlanShares, Runtime, RuntimeError,
    Signature,
};
use rustorch_coreml::{
    AttentionForm, CoreMlDevice, CoreMlOptions, DeviceOptions, Function, Package, PackageInfo,
};
use rustorch_runtime::coreml::ExecutorReference;
use rustorch_runtime::{HybridExecutor, Placement};
use rustorch_tensor::Tensor;
use rustorch_testkit::{Requirement, skip};
use rustorch_testkit::{child, is_child};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The Python of `tools/oracle/coreml/venv.sh`, where that has made it.
fn python() -> Option<PathBuf> {
    let folder = std::env::var_os("RUSTORCH_COREML_VENV").map(PathBuf::from).or_else(|| {
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))?;
        Some(cache.join("rustorch/coreml-venv"))
    })?;
    let python = folder.join("bin/python");
    python.exists().then_some(python)
}

/// A process for each package, which its functions share.
struct Oracle {
    python: PathBuf,
    served: Mutex<HashMap<PathBuf, Arc<Served>>>,
}

impl Oracle {
    fn new(python: &Path) -> Oracle {
        Oracle { python: python.to_owned(), served: Mutex::default() }
    }
}

impl Runtime for Oracle {
    fn system(&self) -> String {
        "coremltools".to_owned()
    }

    /// The package as it is.
    fn compile(&self, package: &Path, compiled: &Path) -> Result<(), RuntimeError> {
        copy(package, compiled).map_err(RuntimeError::io(compiled))
    }

    fn plan(&self, _: &Path, _: ComputeUnits) -> Result<Option<PlanShares>, RuntimeError> {
        Ok(None)
    }

    fn load(
        &self,
        compiled: &Path,
        _: ComputeUnits,
        signature: &Signature,
    ) -> Result<Box<dyn LoadedModel>, RuntimeError> {
        let mut served = self.served.lock().unwrap();
        let served = match served.entry(compiled.to_owned()) {
            Entry::Occupied(have) => Arc::clone(have.get()),
            Entry::Vacant(none) => Arc::clone(none.insert(Arc::new(Served::start(&self.python, compiled)?))),
        };
        // A damaged package is refused by the process.
        let names = PackageInfo::read(compiled).map_or(Vec::new(), |info| info.functions);
        let function = signature.function.as_deref().unwrap_or("main");
        let number = names.iter().position(|of| of.name == function).unwrap_or(0) as u64;
        Ok(Box::new(Evaluated { served, number, signature: signature.clone() }))
    }
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let (entry, to) = (entry?, to.to_owned());
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to)?
        } else {
            fs::copy(entry.path(), to).map(|_| ())?
        }
    }
    Ok(())
}

/// A process that evaluates a package.
struct Served {
    process: Mutex<Child>,
    /// How many states there were.
    states: AtomicU64,
}

impl Served {
    fn start(python: &Path, package: &Path) -> Result<Served, RuntimeError> {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/oracle/coreml/serve.py");
        let process = Command::new(python)
            .args(["-W", "ignore", script])
            .arg(package)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(RuntimeError::io(python))?;
        Ok(Served { process: Mutex::new(process), states: AtomicU64::new(0) })
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let process = self.process.get_mut().unwrap();
        // It may have ended.
        let _ = process.kill();
        let _ = process.wait();
    }
}

/// A function of a package.
struct Evaluated {
    served: Arc<Served>,
    number: u64,
    signature: Signature,
}

/// States of a process, by their number.
struct Numbered(Arc<Served>, u64);

impl LoadedModel for Evaluated {
    fn new_state(&self) -> Result<ModelState, RuntimeError> {
        let number = self.served.states.fetch_add(1, Ordering::Relaxed);
        Ok(ModelState::new(&self.signature, Numbered(Arc::clone(&self.served), number)))
    }

    fn write_state(&self, state: &mut ModelState, number: usize, bytes: &[u8]) -> Result<(), RuntimeError> {
        self.access_state(state, number, (1, bytes), &mut [])
    }

    fn read_state(
        &self,
        state: &mut ModelState,
        number: usize,
        bytes: &mut [u8],
    ) -> Result<(), RuntimeError> {
        self.access_state(state, number, (2, &[]), bytes)
    }

    fn predict(
        &self,
        inputs: &[Array<'_>],
        state: Option<&mut ModelState>,
        outputs: &mut [ArrayMut<'_>],
    ) -> Result<Vec<bool>, RuntimeError> {
        self.signature.check(inputs, state.as_deref(), outputs)?;
        let mut process = self.served.process.lock().unwrap();
        let mut talk = |number: Option<u64>| {
            let stdin = process.stdin.as_mut().unwrap();
            [Some(self.number), number]
                .iter()
                .flatten()
                .try_for_each(|number| stdin.write_all(&number.to_ne_bytes()))?;
            inputs.iter().try_for_each(|array| stdin.write_all(array.bytes))?;
            stdin.flush()?;
            let stdout = process.stdout.as_mut().unwrap();
            outputs.iter_mut().try_for_each(|array| stdout.read_exact(array.bytes))
        };
        let mut predict = |number| {
            talk(number).map_err(|error| RuntimeError::Refused(format!("coremltools ended: {error}")))
        };
        match state {
            Some(state) => state.update(|Numbered(served, number): &mut Numbered| {
                if !Arc::ptr_eq(served, &self.served) {
                    return Err(ArgumentError::OtherState.into());
                }
                predict(Some(*number))
            })?,
            None => predict(None)?,
        }
        Ok(vec![true; self.signature.outputs.len()])
    }
}

impl Evaluated {
    /// Writes or reads a state.
    fn access_state(
        &self,
        state: &mut ModelState,
        number: usize,
        (way, given): (u64, &[u8]),
        read: &mut [u8],
    ) -> Result<(), RuntimeError> {
        self.signature.check_state(state, number, given.len() + read.len())?;
        let mut process = self.served.process.lock().unwrap();
        state.update(|Numbered(_, of): &mut Numbered| {
            let mut talk = || {
                let stdin = process.stdin.as_mut().unwrap();
                let numbers = [self.number | way << 32, *of, number as u64];
                numbers.iter().try_for_each(|number| stdin.write_all(&number.to_ne_bytes()))?;
                stdin.write_all(given)?;
                stdin.flush()?;
                process.stdout.as_mut().unwrap().read_exact(read)
            };
            talk().map_err(|error| RuntimeError::Refused(format!("coremltools ended: {error}")))
        })
    }
}

const FOLDER: &str = "RUSTORCH_COREML_ORACLE_FOLDER";
const CHILD: &str = "oracle::a_process_that_examines_by_the_oracle";

/// The child process of the test below.
#[test]
fn a_process_that_examines_by_the_oracle() {
    if is_child(CHILD) {
        let folder = std::env::var_os(FOLDER).unwrap();
        let python = python().expect("the test that started this process has found it");
        std::process::exit(serve(&Oracle::new(&python), Path::new(&folder)));
    }
}

#[test]
fn regions_run_by_the_oracle() {
    let Some(python) = python() else {
        return skip(
            Requirement::Coremltools,
            "regions by coremltools; tools/oracle/coreml/venv.sh makes its environment",
        );
    };
    for known in known() {
        runs_by_the_oracle(&known, &python);
    }
}

/// An executor whose Core ML is coremltools, and where it keeps verdicts.
fn executor(folder: &Path, python: &Path) -> (HybridExecutor, ModelCache) {
    let plain = HybridExecutor::builder().threads(1).cost(Device::CPU, cpu_cost()).build().unwrap();
    // Python takes tens of milliseconds.
    let reference = SlowMachine(ExecutorReference::new(plain), Duration::from_secs(60));
    let launcher = |folder: &Path| {
        let mut command = child(CHILD);
        command.env(FOLDER, folder);
        Ok(command)
    };
    let cache = ModelCache::new(folder);
    let options = DeviceOptions {
        cache: Some(cache.clone()),
        admission: AdmissionOptions { runs: 3, launcher: Arc::new(launcher), ..AdmissionOptions::default() },
        assumptions: Assumptions { compile: 0.0, ..Assumptions::default() },
        ..DeviceOptions::default()
    };
    let runtime = Arc::new(Oracle::new(python));
    let device = Arc::new(CoreMlDevice::new(runtime, Arc::new(reference), options));
    let builder = HybridExecutor::builder().threads(1).backend(device as Arc<dyn Backend>);
    let builder = builder.cost(Device::CPU, cpu_cost()).placement(Placement::Prefer(Device::COREML));
    (builder.build().unwrap(), cache)
}

fn runs_by_the_oracle(known: &Known, python: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let (executor, cache) = executor(folder.path(), python);
    executor.scope(|| {
        let program = known.capture();
        let inputs: Vec<_> = known.inputs.iter().collect();
        let expected = (known.function)(&known.inputs).unwrap();
        let started = Instant::now();
        let report = loop {
            let results = program.run(&inputs).unwrap();
            for (got, want) in results.iter().zip(&expected) {
                assert!(got.allclose(want, 1e-5, 1e-6, false).unwrap(), "{got} {want}");
            }
            let report = reports(&program).remove(0);
            if !matches!(report.declined, Some(Decline::Compiling)) {
                break report;
            }
            assert!(started.elapsed() < Duration::from_secs(100), "{report:?}");
            std::thread::sleep(Duration::from_millis(50));
        };
        let verdict = verdicts(&cache).remove(0).1;
        assert!(report.runs > 0 && report.faults == 0, "{report:?} {verdict:?}");
        assert!(verdict.refused.is_none() && verdict.error.unwrap() < 1e-5, "{verdict:?}");
    });
}

#[test]
fn a_cache_written_in_place_is_part_of_a_region() {
    let Some(python) = python() else {
        return skip(
            Requirement::Coremltools,
            "regions with states by coremltools; tools/oracle/coreml/venv.sh makes its environment",
        );
    };
    let folder = tempfile::tempdir().unwrap();
    let (executor, cache) = executor(folder.path(), &python);
    let cpu = HybridExecutor::builder().threads(1).build().unwrap();
    let (expected, program) = (cpu.scope(|| attention(12)), executor.scope(|| attention(12)));
    let (started, mut left) = (Instant::now(), 5);
    for step in 0u32.. {
        // Once it is full, the last row is written again and again.
        let position = Tensor::new([i64::from(step.min(11))]).unwrap();
        let tensor = |dims: &[usize], seed| cases::values(dims, 3 * (step % 50) + seed);
        let inputs = [tensor(&[2, 1, 4], 1), tensor(&[1, 1, 4], 2), tensor(&[1, 1, 6], 3), position];
        let inputs: Vec<&Tensor> = inputs.iter().collect();
        let want = cpu.scope(|| expected.run(&inputs)).unwrap();
        let got = executor.scope(|| program.run(&inputs)).unwrap();
        assert!(got[0].allclose(&want[0], 1e-2, 1e-3, false).unwrap(), "{step}: {} {}", got[0], want[0]);
        // Rows are written as they are given.
        for (got, want) in program.states().iter().zip(expected.states()) {
            assert_eq!(got.to_bytes().unwrap(), want.to_bytes().unwrap(), "{step}");
        }
        let report = executor.scope(|| reports(&program)).remove(0);
        if !matches!(report.declined, Some(Decline::Compiling)) {
            left -= 1;
            // Somebody else writes to a cache.
            if left == 2 {
                cpu.scope(|| expected.states()[0].mul_(0.5)).unwrap();
                executor.scope(|| program.states()[0].mul_(0.5)).unwrap();
            }
        }
        if left == 0 {
            let verdict = verdicts(&cache).remove(0).1;
            assert!(report.runs >= 4 && report.faults == 0, "{report:?} {verdict:?}");
            assert_eq!(program.explain().unwrap().regions[0].plan.nodes.len(), program.graph().nodes.len());
            break;
        }
        assert!(started.elapsed() < Duration::from_secs(100), "{report:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Tokens of two conversations, by position: those of a case's runs, from the first on or from the last.
fn tokens(case: &cases::Case) -> [Vec<Tensor>; 2] {
    let tokens = || case.runs.iter().map(|inputs| inputs[0].clone());
    [tokens().take(5).collect(), tokens().rev().take(3).collect()]
}

/// What a case's program computes of a conversation, its states beginning with zeros.
fn conversation(case: &cases::Case, tokens: &[Tensor]) -> Vec<Tensor> {
    case.program.states().iter().for_each(|state| state.zero_().unwrap());
    let runs = tokens
        .iter()
        .zip(&case.runs)
        .map(|(token, run)| case.program.run(&[token, &run[1]]).unwrap().remove(0));
    runs.collect()
}

#[test]
fn conversations_with_one_program_have_a_state_each() {
    let Some(python) = python() else {
        return skip(
            Requirement::Coremltools,
            "states by coremltools; tools/oracle/coreml/venv.sh makes its environment",
        );
    };
    let case = cases::all().into_iter().find(|case| case.name == "decoder_steps").unwrap();
    // By turns: with one state for both, each would see the other's keys.
    let tokens = tokens(&case);
    let expected = [0, 1].map(|i| conversation(&case, &tokens[i]));
    let folder = tempfile::tempdir().unwrap();
    let package = folder.path().join("decoder.mlpackage");
    let constants = case.program.constants();
    let bytes = cases::bytes(&constants);
    let options = CoreMlOptions {
        inputs: vec!["token".to_owned(), "position".to_owned()],
        below: [("position".to_owned(), 32)].into(),
        // coremltools computes the fused operation in `f64`, behind which rows of the cache may be rounded to other `f16` than on the CPU.
        attention: AttentionForm::Composed,
        ..case.options.clone()
    };
    let function = |name: &str| Function::new(name, case.program.graph(), options.clone());
    let made = Package::of_functions(&[function("other"), function("decode")], &bytes).unwrap();
    made.write(&package).unwrap();

    let (runtime, info) = (Oracle::new(&python), PackageInfo::read(&package).unwrap());
    let signature = info.signature("decode").unwrap();
    assert_eq!((signature.function.as_deref(), signature.states.len()), (Some("decode"), 4));
    let model = runtime.load(&package, ComputeUnits::All, signature).unwrap();
    let mut states = [0, 1].map(|_| model.new_state().unwrap());
    let mut logits = vec![0; signature.outputs[0].bytes()];
    let mut predict = |token: i32, position: i32, state: Option<&mut ModelState>| {
        let (token, position) = (token.to_ne_bytes(), position.to_ne_bytes());
        let inputs = [signature.inputs[0].array(&token), signature.inputs[1].array(&position)];
        model.predict(&inputs, state, &mut [signature.outputs[0].array_mut(&mut logits)])?;
        Ok::<_, RuntimeError>(
            Tensor::from_bytes(&logits, DType::F32, signature.outputs[0].dims.as_slice()).unwrap(),
        )
    };
    for position in 0..5 {
        for (i, (tokens, expected)) in tokens.iter().zip(&expected).enumerate() {
            let (Some(token), Some(want)) = (tokens.get(position), expected.get(position)) else { continue };
            let token = token.to_vec::<i64>().unwrap()[0] as i32;
            let got = predict(token, position as i32, Some(&mut states[i])).unwrap();
            assert!(got.allclose(want, 1e-4, 1e-5, false).unwrap(), "{i}, {position}: {got} {want}");
        }
    }
    // Behind the context, and without states: nothing is computed, and the states go on.
    let refusal = |result: Result<(), RuntimeError>| result.unwrap_err().to_string();
    let behind = refusal(predict(1, 32, Some(&mut states[0])).map(drop));
    assert!(behind.starts_with("position holds 32, and the program is for 0 to 31"), "{behind}");
    let none = refusal(predict(1, 5, None).map(drop));
    assert!(none.contains("give what `new_state` makes"), "{none}");
    predict(1, 5, Some(&mut states[0])).unwrap();
}

#[test]
fn a_prompt_and_its_continuation_share_a_state_by_the_oracle() {
    let Some(python) = python() else {
        return skip(
            Requirement::Coremltools,
            "states by coremltools; tools/oracle/coreml/venv.sh makes its environment",
        );
    };
    let folder = tempfile::tempdir().unwrap();
    let programs = functions::decoder(folder.path());
    functions::share_a_state(&Oracle::new(&python), folder.path(), &programs);
}
