//! Regions run by coremltools' evaluation of their packages (`tools/oracle/coreml/serve.py`), which takes the place of Core ML.

use crate::device::{SlowMachine, cpu_cost, reports};
use crate::fake::{Known, known};
use rustorch_core::{Backend, Decline, Device};
use rustorch_coreml::admission::{AdmissionOptions, ModelCache, serve, verdicts};
use rustorch_coreml::device::Assumptions;
use rustorch_coreml::runtime::{
    Array, ArrayMut, ComputeUnits, LoadedModel, PlanShares, Runtime, RuntimeError, Signature,
};
use rustorch_coreml::{CoreMlDevice, DeviceOptions};
use rustorch_runtime::coreml::ExecutorReference;
use rustorch_runtime::{HybridExecutor, Placement};
use rustorch_testkit::{Requirement, skip};
use rustorch_testkit::{child, is_child};
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
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

struct Oracle {
    python: PathBuf,
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
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/oracle/coreml/serve.py");
        let process = Command::new(&self.python)
            .args(["-W", "ignore", script])
            .arg(compiled)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(RuntimeError::io(&self.python))?;
        Ok(Box::new(Evaluated { process: Mutex::new(process), signature: signature.clone() }))
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

struct Evaluated {
    process: Mutex<Child>,
    signature: Signature,
}

impl LoadedModel for Evaluated {
    fn predict(&self, inputs: &[Array<'_>], outputs: &mut [ArrayMut<'_>]) -> Result<Vec<bool>, RuntimeError> {
        self.signature.check(inputs, outputs)?;
        let mut process = self.process.lock().unwrap();
        let mut talk = || {
            let stdin = process.stdin.as_mut().unwrap();
            inputs.iter().try_for_each(|array| stdin.write_all(array.bytes))?;
            stdin.flush()?;
            let stdout = process.stdout.as_mut().unwrap();
            outputs.iter_mut().try_for_each(|array| stdout.read_exact(array.bytes))
        };
        talk().map_err(|error| RuntimeError::Refused(format!("coremltools ended: {error}")))?;
        Ok(vec![true; outputs.len()])
    }
}

impl Drop for Evaluated {
    fn drop(&mut self) {
        let process = self.process.get_mut().unwrap();
        // It may have ended.
        let _ = process.kill();
        let _ = process.wait();
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
        std::process::exit(serve(&Oracle { python }, Path::new(&folder)));
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

fn runs_by_the_oracle(known: &Known, python: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let plain = HybridExecutor::builder().threads(1).cost(Device::CPU, cpu_cost()).build().unwrap();
    // Python takes tens of milliseconds.
    let reference = SlowMachine(ExecutorReference::new(plain), Duration::from_secs(60));
    let launcher = |folder: &Path| {
        let mut command = child(CHILD);
        command.env(FOLDER, folder);
        Ok(command)
    };
    let cache = ModelCache::new(folder.path());
    let options = DeviceOptions {
        cache: Some(cache.clone()),
        admission: AdmissionOptions { runs: 3, launcher: Arc::new(launcher), ..AdmissionOptions::default() },
        assumptions: Assumptions { compile: 0.0, ..Assumptions::default() },
        ..DeviceOptions::default()
    };
    let runtime = Arc::new(Oracle { python: python.to_owned() });
    let device = Arc::new(CoreMlDevice::new(runtime, Arc::new(reference), options));
    let builder = HybridExecutor::builder().threads(1).backend(device as Arc<dyn Backend>);
    let executor =
        builder.cost(Device::CPU, cpu_cost()).placement(Placement::Prefer(Device::COREML)).build().unwrap();
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
