//! A compiled region: its program is examined in the background, and runs once it is admitted.

use crate::admission::{Admitted, Examiner, Job};
use crate::border;
use crate::device::resident::Resident;
use crate::runtime::{Array, ArrayMut, ModelState, RuntimeError};
use rustorch_core::{
    CompiledRegion, DType, Decline, Device, Fault, Graph, UpdatedInput, View, ViewMut, copy_mismatch,
};
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;

pub(super) struct Region {
    shared: Arc<Shared>,
    /// To the thread that examines it, which ends without inputs when this is dropped. None once they were given.
    inputs: Mutex<Option<Sender<Vec<Vec<u8>>>>>,
    /// By input of the program, then by state of it: the number of the region's input, and its dtype.
    given: Vec<(usize, DType)>,
    /// The region's inputs that are states of the program.
    kept: Vec<usize>,
    /// The dtypes of outputs.
    made: Vec<DType>,
    /// What the last prediction left in the states, if it went well.
    states: Mutex<Option<ModelState>>,
}

/// What the thread that examines a region tells.
#[derive(Default)]
struct Shared {
    wants_inputs: AtomicBool,
    /// The program, or why it is refused.
    outcome: OnceLock<Result<Admitted, Arc<str>>>,
}

impl Region {
    /// Begins to examine a region.
    pub(super) fn start(
        examiner: Arc<Examiner>,
        region: &Graph,
        updates: &[UpdatedInput],
        constants: Vec<Vec<u8>>,
    ) -> Result<Region, Fault> {
        let Resident { graph, given, kept } = Resident::new(region, updates);
        let dtype = |id: rustorch_core::ValueId| region.values[id.index()].dtype;
        let given = given.into_iter().map(|input| (input, dtype(region.inputs[input]))).collect();
        let made = region.outputs.iter().map(|output| dtype(output.value)).collect();
        let shared = Arc::<Shared>::default();
        let (inputs, received) = mpsc::channel();
        let told = Arc::clone(&shared);
        let work = move || {
            let wants_inputs = || told.wants_inputs.store(true, Ordering::Release);
            let job = Job { region: graph, constants, inputs: &received, wants_inputs: &wants_inputs };
            let outcome = panic::catch_unwind(AssertUnwindSafe(|| examiner.admit(job)));
            let outcome = match outcome {
                Ok(outcome) => outcome.map_err(|refused| Arc::from(refused.reason)),
                // What it has changed is dropped with it.
                Err(_) => Err("examining it panicked, which is a bug of RusTorch".into()),
            };
            if let Err(reason) = &outcome {
                tracing::info!("a region does not run by Core ML: {reason}");
            }
            told.wants_inputs.store(false, Ordering::Release);
            // It is set once.
            let _ = told.outcome.set(outcome);
        };
        let spawned = thread::Builder::new().name("rustorch-coreml-admission".to_owned()).spawn(work);
        spawned.map_err(|error| fault(format!("no thread to examine a program: {error}")))?;
        Ok(Region { shared, inputs: Mutex::new(Some(inputs)), given, kept, made, states: Mutex::default() })
    }
}

fn fault(message: String) -> Fault {
    Fault::Backend { device: Device::COREML, message }
}

// SAFETY: an output is written by the model, whose dtype has no invalid values, in memory that held valid bytes before; or whole from an array of its
// own. Inputs are read while their views live; constants are in the program. Nothing happens after it returned.
unsafe impl CompiledRegion for Region {
    fn ready(&self) -> Result<(), Decline> {
        match self.shared.outcome.get() {
            None => Err(Decline::Compiling),
            Some(Err(reason)) => Err(Decline::Program(Arc::clone(reason))),
            Some(Ok(_)) => Ok(()),
        }
    }

    fn wants_inputs(&self) -> bool {
        self.shared.wants_inputs.load(Ordering::Acquire)
    }

    unsafe fn show_inputs(&self, inputs: &[View<'_>]) {
        let bytes = self.given.iter().map(|(input, _)| inputs[*input].as_bytes().map(<[u8]>::to_vec));
        let bytes: Option<Vec<Vec<u8>>> = bytes.collect();
        let sender = self.inputs.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let (Some(sender), Some(bytes)) = (sender, bytes) {
            self.shared.wants_inputs.store(false, Ordering::Release);
            // Whoever examines it may have failed meanwhile.
            let _ = sender.send(bytes);
        }
    }

    fn keeps(&self) -> &[usize] {
        &self.kept
    }

    unsafe fn run(&self, inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<(), Fault> {
        let Some(Ok(Admitted { model, signature, .. })) = self.shared.outcome.get() else {
            return Err(fault("a region ran that is not ready".to_owned()));
        };
        let lock = || self.states.lock().unwrap_or_else(PoisonError::into_inner);
        let mut own = (!self.kept.is_empty()).then(lock);
        // Where the prediction fails, nobody knows what they hold.
        let mut states = own.as_mut().and_then(|own| own.take());
        let (given, kept) = self.given.split_at(self.given.len() - self.kept.len());
        for (i, (input, _)) in kept.iter().enumerate() {
            let refused = |error: RuntimeError| fault(error.to_string());
            let Some(view) = &inputs[*input] else { continue };
            let states = match &mut states {
                Some(states) => states,
                // All are given, or one would be missing for ever.
                None if kept.iter().all(|(input, _)| inputs[*input].is_some()) => {
                    states.insert(model.new_state().map_err(refused)?)
                }
                None => return Err(fault("the states of a region are missing".to_owned())),
            };
            let bytes = view.as_bytes().ok_or_else(copy_mismatch)?;
            model.write_state(states, i, bytes).map_err(refused)?;
        }
        let encoded = given.iter().zip(&signature.inputs).map(|((input, dtype), feature)| {
            let view = inputs[*input].as_ref().ok_or_else(copy_mismatch)?;
            border::encode(*dtype, feature.dtype, view.as_bytes().ok_or_else(copy_mismatch)?).map_err(fault)
        });
        let encoded = encoded.collect::<Result<Vec<_>, Fault>>()?;
        // Of outputs whose dtype is another one in the program.
        let mut converted: Vec<Option<Vec<u8>>> = (signature.outputs.iter().zip(&self.made))
            .map(|(feature, dtype)| {
                (!border::is_same(*dtype, feature.dtype)).then(|| vec![0; feature.bytes()])
            })
            .collect();
        let mut places: Vec<ArrayMut<'_>> = Vec::with_capacity(outputs.len());
        for ((view, converted), feature) in outputs.iter_mut().zip(&mut converted).zip(&signature.outputs) {
            places.push(feature.array_mut(match converted {
                Some(bytes) => bytes,
                None => bytes_of(view)?,
            }));
        }
        let given = signature.inputs.iter().zip(&encoded).map(|(feature, bytes)| feature.array(bytes));
        let given: Vec<Array<'_>> = given.collect();
        model.predict(&given, states.as_mut(), &mut places).map_err(|error| fault(error.to_string()))?;
        drop(places);
        if let Some(own) = &mut own {
            **own = states;
        }
        for (i, bytes) in converted.iter().enumerate() {
            if let Some(bytes) = bytes {
                border::decode(signature.outputs[i].dtype, self.made[i], bytes, bytes_of(&mut outputs[i])?);
            }
        }
        Ok(())
    }
}

/// The bytes of an output.
fn bytes_of<'a>(view: &'a mut ViewMut<'_>) -> Result<&'a mut [u8], Fault> {
    if view.device() != Device::COREML {
        return Err(fault("an output is not in its memory".to_owned()));
    }
    let (address, bytes) = view.byte_range().ok_or_else(copy_mismatch)?;
    // SAFETY: the device's memory was zeroed when it was allocated, and the view is exclusive.
    Ok(unsafe { std::slice::from_raw_parts_mut(address, bytes) })
}
