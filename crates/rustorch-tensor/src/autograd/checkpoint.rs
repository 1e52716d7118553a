//! Checkpointing: memory for time. What a function saves for its gradient is computed again when it is needed.

use super::saved::{Packed, SavedTensorHooks};
use super::{Autocast, GradMode, is_grad_enabled};
use crate::Tensor;
use crate::random::{logged, replayed};
use rustorch_core::{DType, Error, PhiloxKey, Result, Shape};
use std::sync::{Arc, Mutex, PoisonError};

const OP: &str = "checkpoint";

/// What a checkpoint computes.
type Body = dyn Fn(&[Tensor]) -> Result<Vec<Tensor>> + Send + Sync;

/// A run of a function of which the saved tensors are not kept.
struct Frame {
    function: Arc<Body>,
    inputs: Vec<FrameInput>,
    /// The run's mixed precision.
    autocast: Option<DType>,
    /// What the run drew from the process's random generator.
    keys: Mutex<Vec<PhiloxKey>>,
    state: Mutex<FrameState>,
}

/// An input, without what it was computed from.
struct FrameInput {
    tensor: Tensor,
    requires_grad: bool,
    version: u64,
}

#[derive(Default)]
struct FrameState {
    /// Dtype and shape of each saved tensor, in order.
    saved: Vec<(DType, Shape)>,
    /// The tensors, computed again; each is taken once, unless a graph is differentiated again.
    tensors: Vec<Option<Tensor>>,
}

/// A saved tensor of a frame.
struct Slot {
    frame: Arc<Frame>,
    number: usize,
}

impl Frame {
    fn state(&self) -> std::sync::MutexGuard<'_, FrameState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The saved tensor of a number: from the second run, which is made now unless its tensor is still there.
    fn tensor(&self, number: usize) -> Result<Tensor> {
        if let Some(tensor) = self.state().tensors.get_mut(number).and_then(Option::take) {
            return Ok(tensor);
        }
        let tensors = self.run_again()?;
        let mut state = self.state();
        state.tensors = tensors;
        let tensor = state.tensors.get_mut(number).and_then(Option::take);
        tensor.ok_or_else(|| Error::argument(OP, format!("saved tensor {number} was not made again")))
    }

    fn run_again(&self) -> Result<Vec<Option<Tensor>>> {
        let inputs: Vec<Tensor> = self
            .inputs
            .iter()
            .enumerate()
            .map(|(i, input)| {
                if input.tensor.storage().version() != input.version {
                    return Err(Error::argument(
                        OP,
                        format!("input {i} was written in place since the function ran; write out of place, or to a copy"),
                    ));
                }
                let x = input.tensor.detach();
                x.requires_grad_(input.requires_grad)?;
                Ok(x)
            })
            .collect::<Result<_>>()?;
        let made: Arc<Mutex<Vec<Option<Tensor>>>> = Arc::default();
        let place = Arc::clone(&made);
        let hooks = SavedTensorHooks::new(
            move |x| {
                place.lock().unwrap_or_else(PoisonError::into_inner).push(Some(x));
                Ok(Box::new(()))
            },
            |_| Err(Error::argument(OP, "the graph of the second run is not differentiated")),
        );
        let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let results = {
            let _mode = GradMode::new(true);
            let _scope = Autocast::new(self.autocast)?;
            replayed(keys, || (self.function)(&inputs))
        };
        drop(hooks);
        drop(results?);
        let tensors = std::mem::take(&mut *made.lock().unwrap_or_else(PoisonError::into_inner));
        self.expect_same(&tensors)?;
        Ok(tensors)
    }

    /// Checks that the second run saved what the first did.
    fn expect_same(&self, tensors: &[Option<Tensor>]) -> Result<()> {
        let state = self.state();
        for (i, ((dtype, shape), again)) in state.saved.iter().zip(tensors).enumerate() {
            if let Some(again) = again
                && (again.dtype() != *dtype || again.shape() != shape)
            {
                return Err(Error::argument(
                    OP,
                    format!(
                        "the function recorded other operations the second time: saved tensor {i} was {dtype}{shape}, and then {}{}",
                        again.dtype(),
                        again.shape()
                    ),
                ));
            }
        }
        if state.saved.len() != tensors.len() {
            return Err(Error::argument(
                OP,
                format!(
                    "the function recorded other operations the second time: it saved {} tensors, and then {}",
                    state.saved.len(),
                    tensors.len()
                ),
            ));
        }
        Ok(())
    }
}

/// Runs a function without keeping what it saves for its gradient: the function runs again when the backward pass comes to it, from
/// the same inputs and with the same random numbers. It must do the same then.
///
/// ```
/// use rustorch_tensor::{Tensor, autograd::checkpoint};
/// let x = Tensor::new([0.5f32, 1.0])?;
/// x.requires_grad_(true)?;
/// let y = checkpoint(|x| Ok(vec![x[0].exp()?.sin()?.exp()?]), &[&x])?;
/// y[0].sum_all()?.backward()?;
/// let g = x.detach();
/// g.requires_grad_(true)?;
/// g.exp()?.sin()?.exp()?.sum_all()?.backward()?;
/// assert_eq!(x.grad().unwrap().to_vec::<f32>()?, g.grad().unwrap().to_vec::<f32>()?);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
///
/// # Errors
/// As the function. In the backward pass also if an input was written in place, or the function records other operations the second
/// time.
pub fn checkpoint(
    function: impl Fn(&[Tensor]) -> Result<Vec<Tensor>> + Send + Sync + 'static,
    inputs: &[&Tensor],
) -> Result<Vec<Tensor>> {
    run(Arc::new(function), inputs)
}

fn run(function: Arc<Body>, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
    let handles: Vec<Tensor> = inputs.iter().map(|&x| x.clone()).collect();
    if !is_grad_enabled() {
        return function(&handles);
    }
    let frame = Arc::new(Frame {
        function,
        inputs: inputs
            .iter()
            .map(|x| FrameInput {
                tensor: x.detach(),
                requires_grad: x.requires_grad(),
                version: x.storage().version(),
            })
            .collect(),
        autocast: Autocast::current(),
        keys: Mutex::default(),
        state: Mutex::default(),
    });
    let packing = Arc::clone(&frame);
    let hooks = SavedTensorHooks::new(
        move |x| {
            let mut state = packing.state();
            state.saved.push((x.dtype(), x.shape().clone()));
            let number = state.saved.len() - 1;
            Ok(Box::new(Slot { frame: Arc::clone(&packing), number }) as Packed)
        },
        |packed| match packed.downcast_ref::<Slot>() {
            Some(Slot { frame, number }) => frame.tensor(*number),
            None => Err(Error::argument(OP, "what was packed is no tensor of a checkpoint")),
        },
    );
    let (results, keys) = logged(|| (frame.function)(&handles));
    drop(hooks);
    *frame.keys.lock().unwrap_or_else(PoisonError::into_inner) = keys;
    results
}

/// Runs functions one after another, each on the results of the one before, in `segments` checkpoints of about as many.
///
/// # Errors
/// As [`checkpoint`], and for no segment.
pub fn checkpoint_sequential<F>(functions: Vec<F>, segments: usize, inputs: &[&Tensor]) -> Result<Vec<Tensor>>
where
    F: Fn(&[Tensor]) -> Result<Vec<Tensor>> + Send + Sync + 'static,
{
    if segments == 0 {
        return Err(Error::argument("checkpoint_sequential", "needs a segment at least"));
    }
    let size = functions.len().div_ceil(segments).max(1);
    let mut values: Vec<Tensor> = inputs.iter().map(|&x| x.clone()).collect();
    let mut functions = functions.into_iter().peekable();
    while functions.peek().is_some() {
        let segment: Vec<F> = functions.by_ref().take(size).collect();
        let body = move |inputs: &[Tensor]| {
            segment.iter().try_fold(inputs.to_vec(), |values, function| function(&values))
        };
        values = checkpoint(body, &values.iter().collect::<Vec<_>>())?;
    }
    Ok(values)
}
