//! Functions of the user's, with gradients of their own.

use super::context::{Context, Grads};
use super::history::Edge;
use super::is_grad_enabled;
use super::node::{Input, Kind, Meta};
use super::record::{self, Inputs};
use super::saved::{Saved, Which};
use crate::Tensor;
use rustorch_core::{Error, Result};

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
        apply(self, inputs)
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
    name: &'static str,
}

impl Gradients<'_> {
    /// The gradient of a result; `None` where nothing depends on it.
    ///
    /// # Errors
    /// If there is no such result.
    pub fn output(&self, result: usize) -> Result<Option<&Tensor>> {
        match self.cx.grads.get(result) {
            Some(grad) => Ok(grad.as_ref()),
            None => Err(wrong(self.name, format!("has no result {result}"))),
        }
    }

    /// A saved tensor.
    ///
    /// # Errors
    /// If not so many were saved.
    pub fn saved(&self, i: usize) -> Result<&Tensor> {
        match self.slots.get(i) {
            Some(&which) => self.cx.tensor(which),
            None => Err(wrong(self.name, format!("saved {} tensors, and no number {i}", self.slots.len()))),
        }
    }

    /// Whether the gradient of an input is asked for.
    pub fn needs_input_grad(&self, input: usize) -> bool {
        self.cx.needs(input)
    }
}

fn wrong(name: &'static str, message: String) -> Error {
    Error::argument("autograd", format!("function {name}: {message}"))
}

/// A function as a node keeps it.
pub(crate) type BoxedFunction = Box<dyn RecordedFunction>;

pub(crate) trait RecordedFunction: Send + Sync {
    fn name(&self) -> &str;

    fn backward(&self, cx: &Context<'_>, create_graph: bool) -> Result<Grads>;
}

struct Recorded<F> {
    function: F,
    /// Where each saved tensor is.
    slots: Vec<Which>,
}

impl<F: Function> RecordedFunction for Recorded<F> {
    fn name(&self) -> &str {
        F::NAME
    }

    fn backward(&self, cx: &Context<'_>, create_graph: bool) -> Result<Grads> {
        let gradients = Gradients { cx, slots: &self.slots, name: F::NAME };
        let once = create_graph && F::ONCE_DIFFERENTIABLE;
        let grads = match once {
            true => super::no_grad(|| self.function.backward(&gradients))?,
            false => self.function.backward(&gradients)?,
        };
        if grads.len() != cx.inputs() {
            return Err(wrong(
                F::NAME,
                format!("backward returned {} gradients for {} inputs", grads.len(), cx.inputs()),
            ));
        }
        let mut checked = Grads::new();
        for (i, grad) in grads.into_iter().enumerate() {
            let Meta { shape, dtype, .. } = cx.input(i);
            if let Some(grad) = &grad
                && (grad.shape() != shape || grad.dtype() != *dtype)
            {
                return Err(wrong(
                    F::NAME,
                    format!("gradient {i} is {}{}, and the input {dtype}{shape}", grad.dtype(), grad.shape()),
                ));
            }
            checked.push(match grad {
                Some(grad) if once => Some(OnceDifferentiable(F::NAME).mark(&grad, cx)?),
                grad => grad,
            });
        }
        Ok(checked)
    }
}

/// What a gradient of a [`Function::ONCE_DIFFERENTIABLE`] function becomes under `create_graph`: a second pass through it is an error.
struct OnceDifferentiable(&'static str);

impl OnceDifferentiable {
    fn mark(self, grad: &Tensor, cx: &Context<'_>) -> Result<Tensor> {
        let marked = grad.detach();
        let args: Vec<&Tensor> = cx.tensors.iter().map(|(_, x)| x).chain(cx.grads.iter().flatten()).collect();
        let inputs: Inputs = args
            .iter()
            .map(|x| Input { meta: Meta::of(x), edge: x.history().edge() })
            .filter(|input| input.edge.is_some())
            .collect();
        if !inputs.is_empty() {
            record::attach(
                Kind::Function(Box::new(self)),
                inputs,
                Saved::default(),
                std::slice::from_ref(&marked),
            )?;
        }
        Ok(marked)
    }
}

impl RecordedFunction for OnceDifferentiable {
    fn name(&self) -> &str {
        self.0
    }

    fn backward(&self, _: &Context<'_>, _: bool) -> Result<Grads> {
        Err(wrong(self.0, "is differentiable once only, and its gradient was differentiated".into()))
    }
}

fn apply<F: Function>(function: F, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
    let edges: Inputs = inputs
        .iter()
        .map(|x| Input {
            meta: Meta::of(x),
            edge: x.history().edge().filter(|edge| is_grad_enabled() && edge.node.requires_grad()),
        })
        .collect();
    let needed: Vec<bool> = edges.iter().map(|input| input.edge.is_some()).collect();
    let is_recorded = needed.contains(&true);
    let mut cx = FunctionContext { needed, saved: Vec::new(), constant: Vec::new() };
    let mut results = super::no_grad(|| function.forward(&mut cx, inputs))?;
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
                Which::Other(_) => saved.keep(which, inputs, &others)?,
                _ => saved.keep(which, inputs, &results)?,
            }
        }
        slots.push(which);
    }
    let recorded = Kind::Function(Box::new(Recorded { function, slots }));
    let outputs = results.iter().map(Meta::of).collect();
    let node = super::node::Node::new(recorded, edges, outputs, saved);
    for (index, result) in results.iter().enumerate() {
        let has_grad = result.dtype().is_float() || result.dtype().is_complex();
        if has_grad && !cx.constant.contains(&index) {
            if index >= Edge::MOST_RESULTS {
                return Err(wrong(
                    F::NAME,
                    format!("at most {} results can have gradients", Edge::MOST_RESULTS),
                ));
            }
            result.history().set(Edge { node: node.clone(), index });
        }
    }
    Ok(results)
}
