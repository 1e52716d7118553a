//! A loaded model, owned by one thread, since its objects may not move between threads.

use super::array::{Memory, array_over, copy_in, copy_out};
use super::{configuration, refused, url};
use crate::runtime::{
    ArgumentError, Array, ArrayMut, ComputeUnits, Feature, LoadedModel, ModelState, RuntimeError, Signature,
};
use block2::StackBlock;
use objc2::AnyThread;
use objc2::rc::{Retained, autoreleasepool};
use objc2::runtime::{AnyObject, ProtocolObject};
use objc2_core_ml::{
    MLDictionaryFeatureProvider, MLFeatureProvider, MLFeatureValue, MLModel, MLMultiArray,
    MLPredictionOptions, MLState,
};
use objc2_foundation::{NSDictionary, NSString};
use std::cell::RefCell;
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

/// The thread that owns a model, which ends when this is dropped.
pub(super) struct Worker {
    compiled: PathBuf,
    units: ComputeUnits,
    signature: Signature,
    /// Predictions of several threads follow each other.
    requests: Mutex<Sender<Request>>,
}

/// What somebody asks of the thread, and waits for.
enum Request {
    Predict {
        inputs: Vec<Memory>,
        state: Option<Retained<MLState>>,
        outputs: Vec<Memory>,
        answer: Sender<Result<Vec<bool>, RuntimeError>>,
    },
    NewState {
        answer: Sender<Retained<MLState>>,
    },
}

/// States, which the models of all functions of a package take if they are loaded for the same units: Apple says that states come from `newState`, and
/// not that they belong to the model which made them.
struct WorkerState {
    /// Which does not move between predictions: a model's thread has it while who asked waits.
    state: Retained<MLState>,
    compiled: PathBuf,
    units: ComputeUnits,
}

fn ended() -> RuntimeError {
    RuntimeError::Refused("the thread of the model ended".to_owned())
}

impl Worker {
    pub(super) fn start(
        compiled: PathBuf,
        units: ComputeUnits,
        signature: Signature,
    ) -> Result<Worker, RuntimeError> {
        let (requests, received) = mpsc::channel();
        let (send_loaded, loaded) = mpsc::channel();
        let (own, folder) = (signature.clone(), compiled.clone());
        let work = move || {
            // SAFETY: the folder is a compiled model; the object stays on this thread.
            let model = autoreleasepool(|_| unsafe {
                let configuration = configuration(units, own.function.as_deref());
                MLModel::modelWithContentsOfURL_configuration_error(&*url(&folder)?, &configuration)
                    .map_err(refused)
            });
            let model = match model {
                Ok(model) => model,
                // Who asked may be gone.
                Err(error) => return drop(send_loaded.send(Err(error))),
            };
            if send_loaded.send(Ok(())).is_ok() {
                serve(&model, &own, &received);
            }
        };
        let spawned = thread::Builder::new().name("rustorch-coreml".to_owned()).spawn(work);
        spawned.map_err(|error| RuntimeError::Refused(format!("no thread for the model: {error}")))?;
        loaded.recv().map_err(|_| ended())??;
        Ok(Worker { compiled, units, signature, requests: Mutex::new(requests) })
    }
}

impl Worker {
    /// Calls `copy` with the array of a state.
    fn with_state(
        &self,
        state: &mut ModelState,
        number: usize,
        memory: Memory,
        copy: fn(&Feature, &MLMultiArray, Memory) -> Result<(), RuntimeError>,
    ) -> Result<(), RuntimeError> {
        let feature = self.signature.check_state(state, number, memory.bytes())?;
        state.update(|held: &mut WorkerState| {
            let copied = RefCell::new(None);
            let read = StackBlock::new(|array: NonNull<MLMultiArray>| {
                // SAFETY: Core ML lends the array for the call, in which no prediction has the state.
                *copied.borrow_mut() = Some(copy(feature, unsafe { array.as_ref() }, memory));
            });
            // SAFETY: the model has states, so that this system has them; the block is called before this returns, or never.
            autoreleasepool(|_| unsafe {
                held.state.getMultiArrayForStateNamed_handler(&NSString::from_str(&feature.name), &read);
            });
            let copied = copied.take();
            let missing =
                || RuntimeError::Refused(format!("Core ML does not give the state {}", feature.name));
            copied.unwrap_or_else(|| Err(missing()))
        })
    }

    fn requests(&self) -> MutexGuard<'_, Sender<Request>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LoadedModel for Worker {
    fn new_state(&self) -> Result<ModelState, RuntimeError> {
        if self.signature.states.is_empty() {
            return Err(ArgumentError::UnexpectedState.into());
        }
        let (answer, answered) = mpsc::channel();
        self.requests().send(Request::NewState { answer }).map_err(|_| ended())?;
        let state = answered.recv().map_err(|_| ended())?;
        let held = WorkerState { state, compiled: self.compiled.clone(), units: self.units };
        Ok(ModelState::new(&self.signature, held))
    }

    fn write_state(&self, state: &mut ModelState, number: usize, bytes: &[u8]) -> Result<(), RuntimeError> {
        self.with_state(state, number, Memory::read(bytes), copy_in)
    }

    fn read_state(
        &self,
        state: &mut ModelState,
        number: usize,
        bytes: &mut [u8],
    ) -> Result<(), RuntimeError> {
        let copy =
            |feature: &Feature, array: &MLMultiArray, memory| copy_out(feature, array, memory).map(drop);
        self.with_state(state, number, Memory::written(bytes), copy)
    }

    fn predict(
        &self,
        inputs: &[Array<'_>],
        state: Option<&mut ModelState>,
        outputs: &mut [ArrayMut<'_>],
    ) -> Result<Vec<bool>, RuntimeError> {
        self.signature.check(inputs, state.as_deref(), outputs)?;
        let mut predict = |state: Option<Retained<MLState>>| {
            let (answer, answered) = mpsc::channel();
            let inputs = inputs.iter().map(|array| Memory::read(array.bytes)).collect();
            let outputs = outputs.iter_mut().map(|array| Memory::written(array.bytes)).collect();
            let request = Request::Predict { inputs, state, outputs, answer };
            self.requests().send(request).map_err(|_| ended())?;
            // The memory is borrowed until the worker has answered, or has dropped the request.
            answered.recv().map_err(|_| ended())?
        };
        match state {
            Some(state) => state.update(|held: &mut WorkerState| {
                if held.compiled != self.compiled || held.units != self.units {
                    return Err(ArgumentError::OtherState.into());
                }
                predict(Some(held.state.clone()))
            }),
            None => predict(None),
        }
    }
}

fn serve(model: &MLModel, signature: &Signature, requests: &Receiver<Request>) {
    for request in requests {
        match request {
            Request::Predict { inputs, state, outputs, answer } => {
                let state = state.as_deref();
                let result = autoreleasepool(|_| predict(model, signature, &inputs, state, &outputs));
                // Who asked waits for it.
                let _ = answer.send(result);
            }
            Request::NewState { answer } => {
                // SAFETY: the model has states, so that this system has them.
                let state = unsafe { model.newState() };
                // Who asked waits for it.
                let _ = answer.send(state);
            }
        }
    }
}

fn predict(
    model: &MLModel,
    signature: &Signature,
    inputs: &[Memory],
    state: Option<&MLState>,
    outputs: &[Memory],
) -> Result<Vec<bool>, RuntimeError> {
    let arrays = |features: &[crate::runtime::Feature], memory: &[Memory]| {
        let pairs = features.iter().zip(memory);
        pairs.map(|(feature, memory)| array_over(feature, *memory)).collect::<Result<Vec<_>, _>>()
    };
    let names = |features: &[crate::runtime::Feature]| {
        features.iter().map(|feature| NSString::from_str(&feature.name)).collect::<Vec<_>>()
    };
    let given = arrays(&signature.inputs, inputs)?;
    let backings = arrays(&signature.outputs, outputs)?;
    let output_names = names(&signature.outputs);
    // SAFETY: objects of our own, of the classes that the methods take; the memory behind the arrays is borrowed while this runs.
    let results: Retained<ProtocolObject<dyn MLFeatureProvider>> = unsafe {
        let values: Vec<_> =
            given.iter().map(|array| MLFeatureValue::featureValueWithMultiArray(array)).collect();
        let values: Vec<&AnyObject> = values.iter().map(|value| -> &AnyObject { value }).collect();
        let features = dictionary(&names(&signature.inputs), &values);
        let provider = MLDictionaryFeatureProvider::initWithDictionary_error(
            MLDictionaryFeatureProvider::alloc(),
            &features,
        );
        let provider = provider.map_err(refused)?;
        let options = MLPredictionOptions::new();
        let places: Vec<&AnyObject> = backings.iter().map(|array| -> &AnyObject { array }).collect();
        options.setOutputBackings(&dictionary(&output_names, &places));
        let provider: &ProtocolObject<dyn MLFeatureProvider> = ProtocolObject::from_ref(&*provider);
        match state {
            Some(state) => model.predictionFromFeatures_usingState_options_error(provider, state, &options),
            None => model.predictionFromFeatures_options_error(provider, &options),
        }
        .map_err(refused)?
    };
    let written =
        signature.outputs.iter().zip(outputs).zip(&output_names).map(|((feature, memory), name)| {
            // SAFETY: a getter.
            let value = unsafe { results.featureValueForName(name) };
            // SAFETY: a getter.
            let array: Option<Retained<MLMultiArray>> =
                value.and_then(|value| unsafe { value.multiArrayValue() });
            let array = array.ok_or_else(|| {
                RuntimeError::Refused(format!("the prediction has no array {}", feature.name))
            })?;
            copy_out(feature, &array, *memory)
        });
    written.collect()
}

fn dictionary(
    names: &[Retained<NSString>],
    values: &[&AnyObject],
) -> Retained<NSDictionary<NSString, AnyObject>> {
    let names: Vec<&NSString> = names.iter().map(|name| &**name).collect();
    NSDictionary::from_slices(&names, values)
}
