//! Functions of one package that share its states: a prompt is read by one, and another one goes on.

use crate::cases;
use rustorch_coreml::runtime::{
    ArgumentError, Array, ArrayMut, ComputeUnits, LoadedModel, ModelState, PlanShares, Runtime, RuntimeError,
    Signature,
};
use rustorch_coreml::{CoreMlOptions, Function, Package, PackageInfo};
use rustorch_runtime::HybridExecutor;
use rustorch_tensor::{DType, Program, Tensor, TensorSpec, capture};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A runtime that computes functions on the CPU, and fails where a token is the last of the vocabulary.
struct Functions(Arc<BTreeMap<String, Program>>);

struct CpuFunction {
    programs: Arc<BTreeMap<String, Program>>,
    name: String,
    compiled: PathBuf,
    signature: Signature,
}

/// What states hold, by name.
struct Held {
    compiled: PathBuf,
    states: BTreeMap<String, Tensor>,
}

const FAILS: i64 = 12;

impl Runtime for Functions {
    fn system(&self) -> String {
        "functions".to_owned()
    }

    fn compile(&self, _: &Path, compiled: &Path) -> Result<(), RuntimeError> {
        fs::create_dir(compiled).map_err(RuntimeError::io(compiled))
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
        Ok(Box::new(CpuFunction {
            programs: Arc::clone(&self.0),
            name: signature.function.clone().unwrap(),
            compiled: compiled.to_owned(),
            signature: signature.clone(),
        }))
    }
}

impl LoadedModel for CpuFunction {
    fn new_state(&self) -> Result<ModelState, RuntimeError> {
        let zeros = |dims: &[usize]| Tensor::zeros(dims, DType::F16).unwrap();
        let states = self.signature.states.iter().map(|state| (state.name.clone(), zeros(&state.dims)));
        let held = Held { compiled: self.compiled.clone(), states: states.collect() };
        Ok(ModelState::new(&self.signature, held))
    }

    fn write_state(&self, state: &mut ModelState, number: usize, bytes: &[u8]) -> Result<(), RuntimeError> {
        let feature = self.signature.check_state(state, number, bytes.len())?;
        let written = Tensor::from_bytes(bytes, DType::F16, &*feature.dims).unwrap();
        state.update(|held: &mut Held| {
            held.states.insert(feature.name.clone(), written);
            Ok(())
        })
    }

    fn read_state(
        &self,
        state: &mut ModelState,
        number: usize,
        bytes: &mut [u8],
    ) -> Result<(), RuntimeError> {
        let feature = self.signature.check_state(state, number, bytes.len())?;
        state.update(|held: &mut Held| {
            bytes.copy_from_slice(&held.states[&feature.name].to_bytes().unwrap());
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
        let program = &self.programs[&self.name];
        let integers = |array: &Array<'_>| {
            let x = Tensor::from_bytes(array.bytes, DType::I32, array.dims).unwrap();
            x.to_dtype(DType::I64).unwrap()
        };
        let inputs: Vec<Tensor> = inputs.iter().map(integers).collect();
        state.unwrap().update(|held: &mut Held| {
            if held.compiled != self.compiled {
                return Err(ArgumentError::OtherState.into());
            }
            if inputs[0].to_vec::<i64>().unwrap().contains(&FAILS) {
                return Err(RuntimeError::Refused("the model has had enough".to_owned()));
            }
            let cpu = HybridExecutor::builder().threads(1).build().unwrap();
            cpu.scope(|| {
                let states = program.states();
                let name = |i: usize| format!("state_{i}");
                for (i, state) in states.iter().enumerate() {
                    state.copy_(&held.states[&name(i)].reshape(state.dims()).unwrap()).unwrap();
                }
                let results = program.run(&inputs.iter().collect::<Vec<_>>()).unwrap();
                for (output, result) in outputs.iter_mut().zip(&results) {
                    output.bytes.copy_from_slice(&result.to_bytes().unwrap());
                }
                for (i, state) in states.iter().enumerate() {
                    held.states.insert(name(i), state.copy().unwrap());
                }
            });
            Ok(vec![true; outputs.len()])
        })
    }
}

/// How many tokens each function reads.
const SIZES: [usize; 2] = [3, 1];

fn name(tokens: usize) -> String {
    if tokens == 1 { "decode".to_owned() } else { format!("prompt_{tokens}") }
}

/// Writes a package of functions over one cache, and returns their programs.
fn write(path: &Path) -> BTreeMap<String, Program> {
    let programs = cases::decoder::programs_of(&SIZES);
    let mut constants: Vec<Tensor> = Vec::new();
    let mut functions = Vec::new();
    for (program, tokens) in programs.iter().zip(SIZES) {
        let options = CoreMlOptions {
            inputs: vec!["token".to_owned(), "position".to_owned()],
            ..CoreMlOptions::default()
        };
        let mut function = Function::new(name(tokens), program.graph(), options);
        let own = program.constants();
        function.constants = (constants.len()..constants.len() + own.len()).collect();
        constants.extend(own);
        functions.push(function);
    }
    let bytes = cases::bytes(&constants);
    Package::of_functions(&functions, &bytes).unwrap().write(path).unwrap();
    SIZES.map(name).into_iter().zip(programs).collect()
}

/// A function of a package, loaded.
pub(crate) struct Loaded {
    model: Box<dyn LoadedModel>,
    signature: Signature,
}

impl Loaded {
    fn new(runtime: &dyn Runtime, package: &Path, tokens: usize) -> Loaded {
        let info = PackageInfo::read(package).unwrap();
        let signature = info.signature(&name(tokens)).unwrap().clone();
        let model = runtime.load(package, ComputeUnits::All, &signature).unwrap();
        Loaded { model, signature }
    }

    /// The logits behind tokens from a position on.
    fn logits(&self, tokens: &[i64], position: i64, state: &mut ModelState) -> Result<Tensor, RuntimeError> {
        let bytes =
            |values: &[i64]| values.iter().flat_map(|&x| (x as i32).to_ne_bytes()).collect::<Vec<u8>>();
        let positions: Vec<i64> = (position..).take(tokens.len()).collect();
        let (tokens, positions) = (bytes(tokens), bytes(&positions));
        let [token, position] = &self.signature.inputs[..] else { unreachable!("a token and its position") };
        let output = &self.signature.outputs[0];
        let mut logits = vec![0; output.bytes()];
        let inputs = [token.array(&tokens), position.array(&positions)];
        self.model.predict(&inputs, Some(state), &mut [output.array_mut(&mut logits)])?;
        Ok(Tensor::from_bytes(&logits, DType::F32, output.dims.as_slice()).unwrap())
    }
}

/// Reads a prompt of seven tokens by the function of three and the one of one, by turns with another conversation, and compares with the CPU.
pub(crate) fn share_a_state(runtime: &dyn Runtime, folder: &Path, programs: &BTreeMap<String, Program>) {
    let package = folder.join("decoder.mlpackage");
    let [prompt, decode] = SIZES.map(|tokens| Loaded::new(runtime, &package, tokens));
    let conversations: [[i64; 7]; 2] = [[3, 1, 4, 1, 5, 9, 2], [2, 7, 1, 8, 2, 8, 1]];
    // What is computed one token after the other, on the CPU.
    let expected = conversations.map(|tokens| {
        let program = &programs["decode"];
        program.states().iter().for_each(|state| state.zero_().unwrap());
        let vector = |value: i64| Tensor::from_slice(&[value], [1]).unwrap();
        let step =
            |(i, &token): (usize, &i64)| program.run(&[&vector(token), &vector(i as i64)]).unwrap().remove(0);
        tokens.iter().enumerate().map(step).collect::<Vec<Tensor>>()
    });
    // Made by either.
    let mut states = [prompt.model.new_state().unwrap(), decode.model.new_state().unwrap()];
    for (loaded, start) in [(&prompt, 0), (&decode, 3), (&prompt, 4)] {
        let end = start + loaded.signature.inputs[0].numel();
        for (i, tokens) in conversations.iter().enumerate() {
            let got = loaded.logits(&tokens[start..end], start as i64, &mut states[i]).unwrap();
            let want = &expected[i][end - 1];
            // Rows of the cache, which is `f16`, may be rounded to a neighbour of the CPU's.
            assert!(got.allclose(want, 1e-2, 1e-3, false).unwrap(), "{i}, {start}: {got} {want}");
        }
    }
    // A copy of the package is another one.
    let other = folder.join("other.mlpackage");
    write(&other);
    let other = Loaded::new(runtime, &other, 1);
    let error = other.logits(&[1], 7, &mut states[0]).unwrap_err().to_string();
    assert!(error.contains("another package"), "{error}");
    decode.logits(&[1], 7, &mut states[0]).unwrap();
}

/// The package of the test, in a folder, and its programs.
pub(crate) fn decoder(folder: &Path) -> BTreeMap<String, Program> {
    write(&folder.join("decoder.mlpackage"))
}

#[test]
fn a_prompt_and_its_continuation_share_a_state() {
    let folder = tempfile::tempdir().unwrap();
    let programs = decoder(folder.path());
    let runtime = Functions(Arc::new(decoder_programs()));
    share_a_state(&runtime, folder.path(), &programs);
}

/// Other ones than those of which results are compared, with caches of their own.
fn decoder_programs() -> BTreeMap<String, Program> {
    SIZES.map(name).into_iter().zip(cases::decoder::programs_of(&SIZES)).collect()
}

#[test]
fn a_state_that_a_function_spoiled_is_given_to_no_other() {
    let folder = tempfile::tempdir().unwrap();
    decoder(folder.path());
    let runtime = Functions(Arc::new(decoder_programs()));
    let package = folder.path().join("decoder.mlpackage");
    let [prompt, decode] = SIZES.map(|tokens| Loaded::new(&runtime, &package, tokens));
    let mut state = prompt.model.new_state().unwrap();
    prompt.logits(&[1, 2, 3], 0, &mut state).unwrap();
    assert!(prompt.logits(&[1, FAILS, 3], 3, &mut state).unwrap_err().to_string().contains("had enough"));
    let error = decode.logits(&[1], 3, &mut state).unwrap_err();
    assert!(matches!(error, RuntimeError::Arguments(ArgumentError::SpoiledState)), "{error}");
}

#[test]
fn functions_with_other_states_do_not_take_them() {
    // The first has a state more.
    let [sum, count] = [0, 1].map(|_| Tensor::zeros([2], DType::F16).unwrap());
    let spec = || TensorSpec::new([2], DType::F16).unwrap();
    let both = capture(&[spec()], |x| {
        sum.add_(&x[0])?;
        count.add_(1)?;
        Ok(vec![sum.add(&count)?])
    });
    let one = capture(&[spec()], |x| {
        sum.add_(&x[0])?;
        Ok(vec![sum.mul(2)?])
    });
    let (both, one) = (both.unwrap(), one.unwrap());
    let folder = tempfile::tempdir().unwrap();
    let package = folder.path().join("sums.mlpackage");
    let function = |name: &str, program| Function::new(name, program, CoreMlOptions::default());
    let constants = both.constants();
    let bytes = cases::bytes(&constants);
    let functions = [function("both", both.graph()), function("one", one.graph())];
    Package::of_functions(&functions, &bytes).unwrap().write(&package).unwrap();
    let info = PackageInfo::read(&package).unwrap();
    let (both, one) = (info.signature("both").unwrap(), info.signature("one").unwrap());
    let state = ModelState::new(both, ());
    let (x, mut y) = ([0; 4], [0; 4]);
    for (signature, expected) in [(both, Ok(())), (one, Err(ArgumentError::OtherState))] {
        let outputs = [signature.outputs[0].array_mut(&mut y)];
        assert_eq!(signature.check(&[signature.inputs[0].array(&x)], Some(&state), &outputs), expected);
    }
    // Their order is nobody's business.
    let mut turned = both.clone();
    turned.states.reverse();
    let outputs = [both.outputs[0].array_mut(&mut y)];
    assert_eq!(turned.check(&[both.inputs[0].array(&x)], Some(&state), &outputs), Ok(()));
}
