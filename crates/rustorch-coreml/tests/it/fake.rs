//! A scripted runtime: it knows some programs by their digests, computes them on the CPU, and fails as it is told.

use crate::device::SCRIPT;
use crate::{cases, resident, states};
use rustorch_coreml::runtime::{
    Array, ArrayMut, ComputeUnits, LoadedModel, ModelState, PlanShares, Runtime, RuntimeError, Signature,
};
use rustorch_coreml::{CoreMlOptions, Package};
use rustorch_runtime::HybridExecutor;
use rustorch_tensor::{DType, Program, Tensor, TensorSpec, capture};
use sha2::{Digest, Sha256};
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::Duration;

/// What it does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Script {
    Right,
    HangCompiling,
    HangPredicting,
    Abort,
    Kill,
    Panic,
    Refuse,
    FullDisk,
    Wrong,
    WrongInteger,
    /// Right results, and something else in the states.
    WrongState,
    Nan,
    Slow,
    IgnoreBackings,
    /// Admitted, and fails from then on, having written something.
    FailLater,
}

impl Script {
    const ALL: [Script; 15] = [
        Script::Right,
        Script::HangCompiling,
        Script::HangPredicting,
        Script::Abort,
        Script::Kill,
        Script::Panic,
        Script::Refuse,
        Script::FullDisk,
        Script::Wrong,
        Script::WrongInteger,
        Script::WrongState,
        Script::Nan,
        Script::Slow,
        Script::IgnoreBackings,
        Script::FailLater,
    ];

    pub(crate) fn named(name: &str) -> Script {
        Script::ALL.into_iter().find(|script| format!("{script:?}") == name).unwrap()
    }
}

/// A program that the fake knows, and inputs for it.
pub(crate) struct Known {
    pub(crate) inputs: Vec<Tensor>,
    pub(crate) function: fn(&[Tensor]) -> rustorch_tensor::Result<Vec<Tensor>>,
}

fn mlp(x: &[Tensor]) -> rustorch_tensor::Result<Vec<Tensor>> {
    let (first, second) = (cases::values(&[16, 32], 1), cases::values(&[32, 8], 2));
    Ok(vec![x[0].matmul(&first)?.tanh()?.matmul(&second)?.softmax(-1)?])
}

/// Outputs that are `i64` and `bool`, and an input that is `i64`.
fn integers(x: &[Tensor]) -> rustorch_tensor::Result<Vec<Tensor>> {
    let scores = x[0].matmul(&cases::values(&[16, 32], 3))?;
    Ok(vec![scores.argmax(-1, false)?, x[1].gt(&scores.argmax(-1, false)?)?])
}

pub(crate) fn known() -> [Known; 2] {
    [
        Known { inputs: vec![cases::values(&[4, 16], 5)], function: mlp },
        Known {
            inputs: vec![cases::values(&[4, 16], 6), Tensor::new([3i64, 12, 20, 0]).unwrap()],
            function: integers,
        },
    ]
}

impl Known {
    /// The function, captured for the current executor.
    pub(crate) fn capture(&self) -> Program {
        let specs: Vec<TensorSpec> = self.inputs.iter().map(TensorSpec::from).collect();
        capture(&specs, |x| (self.function)(x)).unwrap()
    }
}

/// The runtime.
pub(crate) struct Fake {
    script: Script,
    /// With digests of their packages.
    programs: Arc<Vec<(String, Program)>>,
    pub(crate) compiled: AtomicUsize,
    pub(crate) loaded: AtomicUsize,
    pub(crate) moved: Arc<Moved>,
}

/// What its models are given and return.
#[derive(Default)]
pub(crate) struct Moved {
    /// Bytes of inputs, outputs and states.
    pub(crate) bytes: AtomicUsize,
    /// How often a state was written.
    pub(crate) states: AtomicUsize,
    /// Whether the next prediction fails, in the middle of it.
    pub(crate) fails: AtomicBool,
}

impl Fake {
    pub(crate) fn new(script: Script) -> Fake {
        let cpu = HybridExecutor::builder().threads(1).build().unwrap();
        let programs = cpu.scope(|| {
            let captured = known().into_iter().chain(states::region()).map(|known| known.capture());
            let programs = captured.chain(resident::CONTEXTS.map(resident::region)).map(|program| {
                let constants = program.constants();
                let bytes = cases::bytes(&constants);
                let package = Package::with_options(program.graph(), &bytes, &CoreMlOptions::default());
                let digest = package.unwrap().digest().unwrap();
                (digest, program)
            });
            programs.collect()
        });
        Fake {
            script,
            programs: Arc::new(programs),
            compiled: AtomicUsize::new(0),
            loaded: AtomicUsize::new(0),
            moved: Arc::default(),
        }
    }
}

fn refused(message: impl Into<String>) -> RuntimeError {
    RuntimeError::Refused(message.into())
}

fn hang() -> ! {
    loop {
        sleep(Duration::from_secs(60));
    }
}

impl Runtime for Fake {
    fn system(&self) -> String {
        "fakeOS 1 (1A1)".to_owned()
    }

    fn compile(&self, package: &Path, compiled: &Path) -> Result<(), RuntimeError> {
        self.compiled.fetch_add(1, Ordering::Relaxed);
        match self.script {
            Script::HangCompiling => hang(),
            Script::Abort => std::process::abort(),
            Script::Refuse => return Err(refused("the program has an operation that is not known")),
            Script::FullDisk => {
                return Err(RuntimeError::io(compiled)(io::ErrorKind::StorageFull.into()));
            }
            _ => {}
        }
        let data = package.join("Data/com.apple.CoreML");
        let read = |path: &str| fs::read(data.join(path));
        let model = read("model.mlmodel").map_err(RuntimeError::io(&data))?;
        // Without weights there is no file, and the digest is that of an empty one.
        let empty = || [&[0, 0, 0, 0, 2][..], &[0; 59]].concat();
        let weights = read("weights/weight.bin").unwrap_or_else(|_| empty());
        let digest = Sha256::new().chain_update(&model).chain_update(&weights).finalize();
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        if !self.programs.iter().any(|(known, _)| *known == digest) {
            return Err(refused(format!("it does not know the program {digest}")));
        }
        fs::create_dir(compiled).map_err(RuntimeError::io(compiled))?;
        fs::create_dir(compiled.join("inside")).map_err(RuntimeError::io(compiled))?;
        fs::write(compiled.join("inside/digest"), digest).map_err(RuntimeError::io(compiled))?;
        fs::write(compiled.join("large"), vec![7; 2 << 20]).map_err(RuntimeError::io(compiled))
    }

    fn plan(&self, _: &Path, _: ComputeUnits) -> Result<Option<PlanShares>, RuntimeError> {
        Ok(Some(PlanShares { cpu: 0.25, gpu: 0.0, neural_engine: 0.75 }))
    }

    fn load(
        &self,
        compiled: &Path,
        _: ComputeUnits,
        signature: &Signature,
    ) -> Result<Box<dyn LoadedModel>, RuntimeError> {
        self.loaded.fetch_add(1, Ordering::Relaxed);
        let digest = fs::read_to_string(compiled.join("inside/digest"));
        let digest = digest.map_err(RuntimeError::io(compiled))?;
        let index = self.programs.iter().position(|(known, _)| *known == digest);
        let index = index.ok_or_else(|| refused("it does not know the program"))?;
        let (programs, script) = (Arc::clone(&self.programs), self.script);
        let moved = Arc::clone(&self.moved);
        Ok(Box::new(FakeModel { programs, index, signature: signature.clone(), script, moved }))
    }
}

struct FakeModel {
    programs: Arc<Vec<(String, Program)>>,
    index: usize,
    signature: Signature,
    script: Script,
    moved: Arc<Moved>,
}

/// The bytes of each state.
struct Held(Vec<Vec<u8>>);

impl LoadedModel for FakeModel {
    fn new_state(&self) -> Result<ModelState, RuntimeError> {
        let zeros = self.signature.states.iter().map(|feature| vec![0; feature.bytes()]);
        Ok(ModelState::new(&self.signature, Held(zeros.collect())))
    }

    fn write_state(&self, state: &mut ModelState, number: usize, bytes: &[u8]) -> Result<(), RuntimeError> {
        self.signature.check_state(state, number, bytes.len())?;
        self.moved.states.fetch_add(1, Ordering::Relaxed);
        self.moved.bytes.fetch_add(bytes.len(), Ordering::Relaxed);
        state.update(|Held(held): &mut Held| {
            held[number].copy_from_slice(bytes);
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
        state.update(|Held(held): &mut Held| {
            bytes.copy_from_slice(&held[number]);
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
        match self.script {
            Script::HangPredicting => hang(),
            Script::Panic => panic!("the model is out of its mind"),
            Script::Kill => {
                let own = std::process::id().to_string();
                std::process::Command::new("kill").args(["-9", &own]).status().unwrap();
            }
            Script::Slow => sleep(Duration::from_millis(20)),
            Script::FailLater if std::env::var_os(SCRIPT).is_none() => {
                outputs.iter_mut().for_each(|output| output.bytes.fill(0x7f));
                return Err(refused("the model has had enough"));
            }
            _ => {}
        }
        let given = inputs.iter().map(|array| array.bytes.len());
        let returned = outputs.iter().map(|array| array.bytes.len());
        self.moved.bytes.fetch_add(given.chain(returned).sum(), Ordering::Relaxed);
        let mut none = Held(Vec::new());
        match state {
            Some(state) => state.update(|held: &mut Held| self.compute(inputs, held, outputs))?,
            None => self.compute(inputs, &mut none, outputs)?,
        }
        Ok(vec![self.script != Script::IgnoreBackings; self.signature.outputs.len()])
    }
}

impl FakeModel {
    fn compute(
        &self,
        inputs: &[Array<'_>],
        Held(held): &mut Held,
        outputs: &mut [ArrayMut<'_>],
    ) -> Result<(), RuntimeError> {
        if self.moved.fails.swap(false, Ordering::Relaxed) {
            held.iter_mut().for_each(|state| state.fill(0x3c));
            return Err(refused("the model has had enough"));
        }
        let cpu = HybridExecutor::builder().threads(1).build().unwrap();
        let program = &self.programs[self.index].1;
        cpu.scope(|| {
            for (state, bytes) in program.states().iter().zip(held.iter()) {
                state.copy_(&Tensor::from_bytes(bytes, state.dtype(), state.dims()).unwrap()).unwrap();
            }
            let values = program.graph().inputs.iter().zip(inputs);
            let tensors: Vec<Tensor> = values
                .map(|(id, array)| {
                    let wanted = program.graph().values[id.index()].dtype;
                    tensor(array.dtype, array.bytes, array.dims).to_dtype(wanted).unwrap()
                })
                .collect();
            let results = program.run(&tensors.iter().collect::<Vec<_>>()).unwrap();
            for (result, ArrayMut { dtype, bytes: output, .. }) in results.iter().zip(outputs) {
                output.copy_from_slice(&result.to_dtype(*dtype).unwrap().to_bytes().unwrap());
                if *dtype != DType::F32 {
                    output[0] ^= u8::from(self.script == Script::WrongInteger);
                    continue;
                }
                let values =
                    output.chunks_exact(4).map(|bytes| f32::from_ne_bytes(bytes.try_into().unwrap()));
                let largest = values.fold(0.0, |largest: f32, x| largest.max(x.abs()));
                let first = f32::from_ne_bytes(output[..4].try_into().unwrap());
                let first = match self.script {
                    // Twice the tolerance of f16, which is relative to the largest value.
                    Script::Wrong => first + 0.02 * largest,
                    Script::Nan => f32::NAN,
                    _ => first,
                };
                output[..4].copy_from_slice(&first.to_ne_bytes());
            }
            for (state, bytes) in program.states().iter().zip(held.iter_mut()) {
                bytes.copy_from_slice(&state.to_bytes().unwrap());
                // The exponent of the first.
                bytes[1] ^= 0x04 * u8::from(self.script == Script::WrongState);
            }
        });
        Ok(())
    }
}

fn tensor(dtype: DType, bytes: &[u8], dims: &[usize]) -> Tensor {
    let words = bytes.chunks_exact(4).map(|four| <[u8; 4]>::try_from(four).unwrap());
    match dtype {
        DType::I32 => Tensor::from_vec(words.map(i32::from_ne_bytes).collect::<Vec<_>>(), dims).unwrap(),
        _ => Tensor::from_vec(words.map(f32::from_ne_bytes).collect::<Vec<_>>(), dims).unwrap(),
    }
}
