//! Functions of the user's, with gradients of their own.

use super::context::{Context, Grads};
use super::history::Edge;
use super::is_grad_enabled;
use super::node::{Inputs, Kind, Meta, Node};
use super::record::attach;
use super::saved::{Saved, Which};
use crate::Tensor;
use rustorch_core::{Error, Result};
use std::fmt;
use std::sync::Arc;

/// A differentiable function with a gradient of its own, PyTorch's `autograd.Function`.
///
/// ```
/// use rustorch_tensor::{Tensor, Result, autograd::{Function, FunctionContext, Gradients}};
///
/// /// Rounds, and hands the gradient on as it is.
/// struct StraightThrough;
///
/// impl Function for StraightThrough {
///     const NAME: &'static str = "straight_through";
///
///     fn forward(&self, _: &mut FunctionContext, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
///         Ok(vec![inputs[0].round()?])
///     }
///
///     fn backward(&self, grads: &Gradients<'_>) -> Result<Vec<Option<Tensor>>> {
///         Ok(vec![grads.output(0)?.cloned()])
///     }
/// }
///
/// let x = Tensor::new([0.4f32, 1.6])?;
/// x.requires_grad_(true)?;
/// let y = &StraightThrough.apply(&[&x])?[0];
/// assert_eq!(y.to_string(), "tensor([0., 2.], grad_fn=<straight_through>)");
/// y.sum_all()?.backward()?;
/// assert_eq!(x.grad().unwrap().to_vec::<f32>()?, [1.0, 1.0]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
pub trait Function: Sized + Send + Sync + 'static {
    /// The name, as in errors and `grad_fn`.
    const NAME: &'static str;

    /// Whether [`backward`](Function::backward) leaves tensor operations, so that it cannot be differentiated: a second derivative is
    /// an error then.
    const ONCE_DIFFERENTIABLE: bool = false;

    /// Computes the results. Nothing that it does is recorded.
    ///
    /// # Errors
    /// Whatever it cannot do.
    fn forward(&self, cx: &mut FunctionContext, inputs: &[&Tensor]) -> Result<Vec<Tensor>>;

    /// The gradients of the inputs, one for each in order, of its shape, dtype and device; `None` for zero.
    ///
    /// # Errors
    /// Whatever it cannot do.
    fn backward(&self, grads: &Gradients<'_>) -> Result<Vec<Option<Tensor>>>;

    /// Runs the function and records it.
    ///
    /// # Errors
    /// As [`forward`](Function::forward).
    fn apply(self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        let name = Name { what: "function", name: Self::NAME, once: Self::ONCE_DIFFERENTIABLE };
        let function = Arc::new(self);
        let forward = Arc::clone(&function);
        record(name, inputs, |cx| forward.forward(cx, inputs), move |grads| function.backward(grads))
    }
}

/// What errors call a function of the user's, and whether it can be differentiated once only.
#[derive(Clone, Copy)]
pub(crate) struct Name {
    pub(crate) what: &'static str,
    pub(crate) name: &'static str,
    pub(crate) once: bool,
}

impl Name {
    fn error(self, message: impl fmt::Display) -> Error {
        Error::argument("autograd", format!("{} {}: {message}", self.what, self.name))
    }
}

/// What a [`Function`] says of itself while it computes.
#[derive(Debug)]
pub struct FunctionContext {
    needed: Vec<bool>,
    saved: Vec<Tensor>,
    constant: Vec<usize>,
}

impl FunctionContext {
    /// Keeps tensors for the backward pass, where [`Gradients::saved`] gives them in this order: inputs, results or others. Only
    /// inputs and results have gradients of their own in a second derivative.
    pub fn save(&mut self, tensors: &[&Tensor]) {
        self.saved.extend(tensors.iter().map(|&x| x.clone()));
    }

    /// Says that a result has no gradient.
    pub fn mark_non_differentiable(&mut self, result: usize) {
        self.constant.push(result);
    }

    /// Whether the gradient of an input will be asked for.
    pub fn needs_input_grad(&self, input: usize) -> bool {
        self.needed.get(input).copied().unwrap_or(false)
    }
}

/// What a [`Function`] gets for its backward pass.
pub struct Gradients<'a> {
    cx: &'a Context<'a>,
    slots: &'a [Which],
    name: Name,
}

impl Gradients<'_> {
    /// The gradient of a result; `None` where nothing depends on it.
    ///
    /// # Errors
    /// If there is no such result.
    pub fn output(&self, result: usize) -> Result<Option<&Tensor>> {
        match self.cx.grads.get(result) {
            Some(grad) => Ok(grad.as_ref()),
            None => Err(self.name.error(format_args!("has no result {result}"))),
        }
    }

    /// A saved tensor.
    ///
    /// # Errors
    /// If not so many were saved.
    pub fn saved(&self, i: usize) -> Result<&Tensor> {
        match self.slots.get(i) {
            Some(&which) => self.cx.tensor(which),
            None => {
                let message = format_args!("saved {} tensors, and no number {i}", self.slots.len());
                Err(self.name.error(message))
            }
        }
    }

    /// How many inputs the function had.
    pub fn inputs(&self) -> usize {
        self.cx.inputs()
    }

    /// Whether the gradient of an input is asked for.
    pub fn needs_input_grad(&self, input: usize) -> bool {
        self.cx.needs(input)
    }
}

/// A function as a node keeps it.
pub(crate) type BoxedFunction = Box<dyn RecordedFunction>;

pub(crate) trait RecordedFunction: Send + Sync {
    fn name(&self) -> &str;

    fn backward(&self, cx: &Context<'_>, create_graph: bool) -> Result<Grads>;
}

struct Recorded<B> {
    name: Name,
    backward: B,
    /// Where each saved tensor is.
    slots: Vec<Which>,
}

impl<B> RecordedFunction for Recorded<B>
where
    B: Fn(&Gradients<'_>) -> Result<Vec<Option<Tensor>>> + Send + Sync,
{
    fn name(&self) -> &str {
        self.name.name
    }

    fn backward(&self, cx: &Context<'_>, create_graph: bool) -> Result<Grads> {
        let name = self.name;
        let gradients = Gradients { cx, slots: &self.slots, name };
        let once = create_graph && name.once;
        let grads = match once {
            true => super::no_grad(|| (self.backward)(&gradients))?,
            false => (self.backward)(&gradients)?,
        };
        if grads.len() != cx.inputs() {
            let message =
                format_args!("backward returned {} gradients for {} inputs", grads.len(), cx.inputs());
            return Err(name.error(message));
        }
        let mut checked = Grads::new();
        for (i, grad) in grads.into_iter().enumerate() {
            let Meta { shape, dtype, .. } = cx.input(i);
            if let Some(grad) = &grad
                && (grad.shape() != shape || grad.dtype() != *dtype)
            {
                let (is, has) = (grad.dtype(), grad.shape());
                return Err(
                    name.error(format_args!("gradient {i} is {is}{has}, and the input {dtype}{shape}"))
                );
            }
            checked.push(match grad {
                Some(grad) if once => Some(OnceDifferentiable(name).mark(&grad, cx)?),
                grad => grad,
            });
        }
        Ok(checked)
    }
}

/// What a gradient of a [`Function::ONCE_DIFFERENTIABLE`] function becomes under `create_graph`: a second pass through it is an error.
struct OnceDifferentiable(Name);

impl OnceDifferentiable {
    fn mark(self, grad: &Tensor, cx: &Context<'_>) -> Result<Tensor> {
        let marked = grad.detach();
        let args = cx.tensors.iter().map(|(_, x)| x).chain(cx.grads.iter().flatten());
        let inputs: Vec<(&Tensor, Option<Edge>)> =
            args.map(|x| (x, x.history().edge())).filter(|(_, edge)| edge.is_some()).collect();
        if !inputs.is_empty() {
            let results = std::slice::from_ref(&marked);
            attach(Node::new(|| Kind::Function(Box::new(self)), inputs, results), results)?;
        }
        Ok(marked)
    }
}

impl RecordedFunction for OnceDifferentiable {
    fn name(&self) -> &str {
        self.0.name
    }

    fn backward(&self, _: &Context<'_>, _: bool) -> Result<Grads> {
        Err(self.0.error("is differentiable once only, and its gradient was differentiated"))
    }
}

/// Computes results without recording what is done for them, and records them as those of a function with this backward pass.
pub(crate) fn record(
    name: Name,
    inputs: &[&Tensor],
    forward: impl FnOnce(&mut FunctionContext) -> Result<Vec<Tensor>>,
    backward: impl Fn(&Gradients<'_>) -> Result<Vec<Option<Tensor>>> + Send + Sync + 'static,
) -> Result<Vec<Tensor>> {
    let edges: Inputs = inputs
        .iter()
        .map(|x| if is_grad_enabled() { x.history().edge_if_required() } else { None })
        .collect();
    let needed: Vec<bool> = edges.iter().map(Option::is_some).collect();
    let is_recorded = needed.contains(&true);
    let mut cx = FunctionContext { needed, saved: Vec::new(), constant: Vec::new() };
    let mut results = super::no_grad(|| forward(&mut cx))?;
    // A result that is an input gets a handle of its own, or the input's history would change.
    for result in &mut results {
        if inputs.iter().any(|x| x.is_same(result)) || result.history().exists() {
            *result = result.detach();
        }
    }
    if !is_recorded {
        return Ok(results);
    }
    let mut others: Vec<Tensor> = Vec::new();
    let mut slots = Vec::new();
    let mut saved = Saved::default();
    for x in &cx.saved {
        let which = if let Some(i) = inputs.iter().position(|input| input.is_same(x)) {
            Which::Arg(i)
        } else if let Some(i) = results.iter().position(|result| result.is_same(x)) {
            Which::Result(i)
        } else {
            others.push(x.clone());
            Which::Other(others.len() - 1)
        };
        if !slots.contains(&which) {
            match which {
                Which::Other(_) => saved.keep_all(&[which], inputs, &others)?,
                _ => saved.keep_all(&[which], inputs, &results)?,
            }
        }
        slots.push(which);
    }
    let recorded = Kind::Function(Box::new(Recorded { name, backward, slots }));
    let mut node = Node::new(|| recorded, inputs.iter().copied().zip(edges), &results);
    *Node::saved_of(&mut node) = saved;
    for (index, result) in results.iter().enumerate() {
        let has_grad = result.dtype().is_float() || result.dtype().is_complex();
        if has_grad && !cx.constant.contains(&index) {
            if index >= Edge::MOST_RESULTS {
                let most = Edge::MOST_RESULTS;
                return Err(name.error(format_args!("at most {most} results can have gradients")));
            }
            result.history().set_first(Edge { node: node.clone(), index });
        }
    }
    Ok(results)
}
