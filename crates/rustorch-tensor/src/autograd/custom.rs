//! Gradients of custom ops.

use super::function::{self, FunctionContext, Gradients, Name};
use super::record::Results;
use crate::{Tensor, dispatch};
use rustorch_core::{CustomGradient, CustomOp, CustomParam, Op, Result};
use std::any::Any;
use std::fmt;
use std::sync::Arc;

type Save = dyn Fn(&mut FunctionContext, &[&Tensor], &[Tensor], &[CustomParam]) + Send + Sync;
type Backward = dyn Fn(&Gradients<'_>, &[CustomParam]) -> Result<Vec<Option<Tensor>>> + Send + Sync;

/// The gradient of a [custom op](CustomOp), in the form of a [`Function`](super::Function)'s, for
/// [`CustomOpBuilder::backward`](crate::CustomOpBuilder::backward); PyTorch's `torch.library.register_autograd`.
///
/// ```
/// use rustorch_tensor::{CustomOp, OutputMeta, Tensor, autograd::CustomBackward};
/// let cube = CustomOp::builder("cube", 1)
///     .infer(|args, _| {
///         let [x] = args else { return Err("takes one tensor".into()) };
///         Ok(vec![OutputMeta { dtype: x.dtype, shape: x.shape().clone() }])
///     })
///     .cpu(|args, outs, _| {
///         let x = args[0].slice::<f32>()?;
///         outs[0].slice_mut::<f32>()?.iter_mut().zip(x).for_each(|(out, x)| *out = x * x * x);
///         Ok(())
///     })
///     .backward(
///         CustomBackward::new(|grads, _| {
///             let Some(grad) = grads.output(0)? else { return Ok(vec![None]) };
///             Ok(vec![Some(grads.saved(0)?.square()?.mul(3)?.mul(grad)?)])
///         })
///         .save(|cx, args, _, _| cx.save(args)),
///     )
///     .build()?;
/// let x = Tensor::new([1.0f32, 2.0])?;
/// x.requires_grad_(true)?;
/// Tensor::custom(&cube, &[&x])?[0].sum_all()?.backward()?;
/// assert_eq!(x.grad().unwrap().to_vec::<f32>()?, [3.0, 12.0]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
pub struct CustomBackward {
    save: Option<Box<Save>>,
    backward: Box<Backward>,
    once: bool,
}

impl CustomBackward {
    /// A closure that returns the gradients of the arguments, one for each in order, of its shape, dtype and device, `None` for zero. It is
    /// given those of the results and the op's parameters. Where it computes by tensor operations it is differentiated again.
    pub fn new(
        backward: impl Fn(&Gradients<'_>, &[CustomParam]) -> Result<Vec<Option<Tensor>>> + Send + Sync + 'static,
    ) -> CustomBackward {
        CustomBackward { save: None, backward: Box::new(backward), once: false }
    }

    /// Runs a closure after each call that is recorded, with the arguments, the results and the parameters: it says what is kept for the
    /// backward pass, and which results have no gradient. Without it nothing is kept.
    pub fn save(
        mut self,
        save: impl Fn(&mut FunctionContext, &[&Tensor], &[Tensor], &[CustomParam]) + Send + Sync + 'static,
    ) -> CustomBackward {
        self.save = Some(Box::new(save));
        self
    }

    /// Says that the closure leaves tensor operations: a second derivative is an error then.
    pub fn once_differentiable(mut self) -> CustomBackward {
        self.once = true;
        self
    }
}

impl CustomGradient for CustomBackward {}

impl fmt::Debug for CustomBackward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CustomBackward").field("once_differentiable", &self.once).finish_non_exhaustive()
    }
}

/// The gradient that an op was built with.
pub(crate) fn backward(op: &CustomOp) -> Option<Arc<CustomBackward>> {
    let gradient: Arc<dyn Any + Send + Sync> = op.gradient()?.clone();
    gradient.downcast().ok()
}

/// Runs an op and records it with its gradient.
pub(crate) fn run(op: &CustomOp, gradient: Arc<CustomBackward>, args: &[&Tensor]) -> Result<Results> {
    let name = Name { what: "custom op", name: op.name(), once: gradient.once };
    let forward = |cx: &mut FunctionContext| {
        let results = dispatch::run_all(&Op::Custom(op.clone()), args)?.into_vec();
        if let Some(save) = &gradient.save {
            save(cx, args, &results, op.params());
        }
        Ok(results)
    };
    let again = (Arc::clone(&gradient), op.clone());
    let backward = move |grads: &Gradients<'_>| (again.0.backward)(grads, again.1.params());
    Ok(function::record(name, args, forward, backward)?.into())
}
