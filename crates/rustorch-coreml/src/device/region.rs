//! A compiled region: its program is examined in the background, and runs once it is admitted.

use crate::admission::{Admitted, Examiner, Job};
use crate::border;
use crate::runtime::{Array, ArrayMut};
use rustorch_core::{CompiledRegion, DType, Decline, Device, Fault, Graph, View, ViewMut, copy_mismatch};
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;

pub(super) struct Region {
    shared: Arc<Shared>,
    /// To the thread that examines it, which ends without inputs when this is dropped. None once they were given.
    inputs: Mutex<Option<Sender<Vec<Vec<u8>>>>>,
    /// The region's dtypes.
    given: Vec<DType>,
    made: Vec<DType>,
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
        region: Graph,
        constants: Vec<Vec<u8>>,
    ) -> Result<Region, Fault> {
        let dtype = |id: rustorch_core::ValueId| region.values[id.index()].dtype;
        let given = region.inputs.iter().map(|id| dtype(*id)).collect();
        let made = region.outputs.iter().map(|output| dtype(output.value)).collect();
        let shared = Arc::<Shared>::default();
        let (inputs, received) = mpsc::channel();
        let told = Arc::clone(&shared);
        let work = move || {
            let wants_inputs = || told.wants_inputs.store(true, Ordering::Release);
            let job = Job { region, constants, inputs: &received, wants_inputs: &wants_inputs };
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
        Ok(Region { shared, inputs: Mutex::new(Some(inputs)), given, made })
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
        let bytes: Option<Vec<Vec<u8>>> =
            inputs.iter().map(|input| input.as_bytes().map(<[u8]>::to_vec)).collect();
        let sender = self.inputs.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let (Some(sender), Some(bytes)) = (sender, bytes) {
            self.shared.wants_inputs.store(false, Ordering::Release);
            // Whoever examines it may have failed meanwhile.
            let _ = sender.send(bytes);
        }
    }

    unsafe fn run(&self, inputs: &[View<'_>], outputs: &mut [ViewMut<'_>]) -> Result<(), Fault> {
        let Some(Ok(Admitted { model, signature, .. })) = self.shared.outcome.get() else {
            return Err(fault("a region ran that is not ready".to_owned()));
        };
        let encoded =
            inputs.iter().zip(&self.given).zip(&signature.inputs).map(|((view, dtype), feature)| {
                border::encode(*dtype, feature.dtype, view.as_bytes().ok_or_else(copy_mismatch)?)
                    .map_err(fault)
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
        model.predict(&given, None, &mut places).map_err(|error| fault(error.to_string()))?;
        drop(places);
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
