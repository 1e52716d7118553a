//! What tensors know of gradients.

use super::engine::{self, Pass};
use super::graph::GradFn;
use super::history::Edge;
use super::hooks::HookHandle;
use super::leaf_log::{self, GradChange};
use super::node::Node;
use crate::Tensor;
use rustorch_core::{Error, Result};
use smallvec::SmallVec;

impl Tensor {
    /// Asks for gradients of this tensor, or no longer does. Operations on it are recorded from then on.
    ///
    /// ```
    /// use rustorch_tensor::Tensor;
    /// let w = Tensor::new([3.0f32, 4.0])?;
    /// w.requires_grad_(true)?;
    /// w.square()?.sum_all()?.backward()?;
    /// assert_eq!(w.grad().unwrap().to_vec::<f32>()?, [6.0, 8.0]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the elements are not floats or complex numbers, which alone have gradients; or, to turn it off, if the tensor is the
    /// result of an operation: [`detach`](Self::detach) it instead.
    pub fn requires_grad_(&self, requires_grad: bool) -> Result<&Tensor> {
        if requires_grad && !(self.dtype().is_float() || self.dtype().is_complex()) {
            return Err(Error::dtype(
                "requires_grad_",
                "only floats and complex numbers have gradients",
                [self.dtype()],
            ));
        }
        match self.history().edge() {
            None if requires_grad => {
                let node = Node::leaf(self);
                if self.storage().is_symbolic() {
                    leaf_log::note_made(&node);
                }
                self.history().set_first(Edge { node, index: 0 });
            }
            None => {}
            Some(edge) => match edge.node.as_leaf() {
                Some(leaf) => leaf.set_requires_grad(requires_grad),
                None if requires_grad => {}
                None => {
                    return Err(Error::argument(
                        "requires_grad_",
                        format!(
                            "the tensor is the result of {}, which requires a gradient; use detach",
                            edge.node.name()
                        ),
                    ));
                }
            },
        }
        Ok(self)
    }

    /// Whether gradients of this tensor are computed: of a leaf that asks for them, or of what was computed from one.
    pub fn requires_grad(&self) -> bool {
        self.history().requires_grad()
    }

    /// Whether no recorded operation made the tensor. [`grad`](Self::grad) is kept of leaves that require gradients.
    pub fn is_leaf(&self) -> bool {
        self.history().with_edge(|edge| edge.node.as_leaf().is_some()).unwrap_or(true)
    }

    /// The sum of the gradients of all backward passes so far: of a leaf that requires them, or of a result after
    /// [`retain_grad`](Self::retain_grad) the last one. `None` before the first.
    pub fn grad(&self) -> Option<Tensor> {
        let edge = self.history().edge()?;
        match edge.node.as_leaf() {
            Some(leaf) => {
                let grad = leaf.grad().clone();
                leaf_log::note_read(&edge.node, &grad);
                grad
            }
            None => edge.node.hooks()?.retained(edge.index, |grad| grad.clone())?,
        }
    }

    /// Replaces the gradient of a leaf.
    ///
    /// # Errors
    /// If the tensor is no leaf that requires gradients, or the gradient has another shape, dtype or device.
    pub fn set_grad(&self, grad: Option<&Tensor>) -> Result<()> {
        if let Some(grad) = grad
            && (grad.shape() != self.shape()
                || grad.dtype() != self.dtype()
                || grad.device() != self.device())
        {
            return Err(Error::argument(
                "set_grad",
                format!(
                    "a tensor {}{} on {} cannot have a gradient {}{} on {}",
                    self.dtype(),
                    self.shape(),
                    self.device(),
                    grad.dtype(),
                    grad.shape(),
                    grad.device()
                ),
            ));
        }
        let before = self.replace_grad(grad.cloned());
        match before {
            Some(_) => Ok(()),
            None => Err(Error::argument("set_grad", "the tensor is no leaf that requires a gradient")),
        }
    }

    /// Forgets the gradient, PyTorch's `zero_grad(set_to_none=True)`.
    pub fn zero_grad(&self) {
        drop(self.replace_grad(None));
    }

    /// Another gradient of a leaf; the one that it had. `None` if the tensor is no leaf.
    fn replace_grad(&self, grad: Option<Tensor>) -> Option<Option<Tensor>> {
        let edge = self.history().edge()?;
        let mut place = edge.node.as_leaf()?.grad();
        // Only adding is ever refused.
        _ = leaf_log::touch(&edge.node, &place, GradChange::Replace);
        Some(std::mem::replace(&mut *place, grad))
    }

    /// What made the tensor; `None` of leaves.
    pub fn grad_fn(&self) -> Option<GradFn> {
        self.history().edge().filter(|edge| edge.node.as_leaf().is_none()).map(GradFn::new)
    }

    /// The same memory without a history: a leaf that requires no gradient.
    pub fn detach(&self) -> Tensor {
        Tensor::from_parts_of(self.storage().clone(), self.dtype(), self.layout())
    }

    /// Computes the gradients of this tensor of one element with respect to all leaves that require them, and adds them to what
    /// [`grad`](Self::grad) gives. The graph is freed meanwhile.
    ///
    /// # Errors
    /// If the tensor has no history, more than one element, or was differentiated before, if a saved tensor was written in place since,
    /// or an operation fails.
    pub fn backward(&self) -> Result<()> {
        self.backward_with(None, &BackwardOptions::default())
    }

    /// As [`backward`](Self::backward), from a gradient of this tensor, which has its shape and dtype; without one the tensor has one
    /// element, and its gradient is 1.
    ///
    /// ```
    /// use rustorch_tensor::{Tensor, autograd::BackwardOptions};
    /// let x = Tensor::new([1.0f32, 2.0])?;
    /// x.requires_grad_(true)?;
    /// let y = x.square()?;
    /// let options = BackwardOptions { retain_graph: true, ..Default::default() };
    /// y.backward_with(Some(&Tensor::new([1.0f32, 10.0])?), &options)?;
    /// y.backward_with(Some(&Tensor::new([1.0f32, 0.0])?), &BackwardOptions::default())?;
    /// assert_eq!(x.grad().unwrap().to_vec::<f32>()?, [4.0, 40.0]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`backward`](Self::backward), and if the gradient does not fit.
    pub fn backward_with(&self, gradient: Option<&Tensor>, options: &BackwardOptions<'_>) -> Result<()> {
        let gradients = gradient.map(|gradient| [Some(gradient)]);
        backward(&[self], gradients.as_ref().map_or(&[], |gradients| &gradients[..]), options)
    }

    /// Keeps the gradient of a result of an operation for [`grad`](Self::grad), which else is kept of leaves alone.
    ///
    /// # Errors
    /// If the tensor requires no gradient.
    pub fn retain_grad(&self) -> Result<()> {
        let edge = self.expect_history("retain_grad")?;
        if edge.node.as_leaf().is_none() {
            edge.node.hooks_or_new().retain(edge.index);
        }
        Ok(())
    }

    /// Calls a closure with the gradient of this tensor in each backward pass, once it is complete. The tensor that it returns takes
    /// the gradient's place.
    ///
    /// # Errors
    /// If the tensor requires no gradient.
    pub fn register_hook(
        &self,
        hook: impl Fn(&Tensor) -> Result<Option<Tensor>> + Send + Sync + 'static,
    ) -> Result<HookHandle> {
        let edge = self.expect_history("register_hook")?;
        Ok(edge.node.hooks_or_new().add(edge.index, hook))
    }

    /// Calls a closure with this leaf each time its gradient was added to: to use it and forget it before the rest of the pass
    /// needs memory.
    ///
    /// # Errors
    /// If the tensor is no leaf that requires gradients.
    pub fn register_post_accumulate_grad_hook(
        &self,
        hook: impl Fn(&Tensor) -> Result<()> + Send + Sync + 'static,
    ) -> Result<HookHandle> {
        let edge = self.expect_history("register_post_accumulate_grad_hook")?;
        if edge.node.as_leaf().is_none() {
            return Err(Error::argument(
                "register_post_accumulate_grad_hook",
                format!("the tensor is the result of {}, no leaf; use register_hook", edge.node.name()),
            ));
        }
        Ok(edge.node.hooks_or_new().add_to_leaf(self.detach(), hook))
    }

    fn expect_history(&self, op: &'static str) -> Result<Edge> {
        self.history().edge_if_required().ok_or_else(|| {
            Error::argument(
                op,
                "the tensor requires no gradient: call requires_grad_(true) on it, or on what it is computed from, before",
            )
        })
    }

    /// Whether this is the only handle to the tensor. (Views are other tensors.)
    pub(crate) fn is_only_handle(&mut self) -> bool {
        self.inner_mut().is_some()
    }
}

/// What a backward pass is asked for beyond its gradients.
#[derive(Clone, Copy, Debug, Default)]
pub struct BackwardOptions<'a> {
    /// Keep the saved tensors for another pass over the same graph.
    pub retain_graph: bool,
    /// Record the pass, so that gradients can be differentiated; implies [`retain_graph`](Self::retain_graph).
    pub create_graph: bool,
    /// Add to the gradients of these leaves only.
    pub inputs: Option<&'a [&'a Tensor]>,
}

/// What [`grad`] is asked for beyond its gradients.
#[derive(Clone, Copy, Debug, Default)]
pub struct GradOptions {
    /// Keep the saved tensors for another pass over the same graph.
    pub retain_graph: bool,
    /// Record the pass, so that the gradients can be differentiated; implies [`retain_graph`](Self::retain_graph).
    pub create_graph: bool,
    /// Whether an input on which the outputs do not depend is no error; its gradient is then `None`.
    pub allow_unused: bool,
}

/// Computes the gradients of several tensors at once and adds them to those of the leaves, as [`Tensor::backward_with`].
/// `gradients` is empty, or holds one for each output, `None` for outputs of one element whose gradient is 1.
///
/// # Errors
/// As there.
pub fn backward(
    outputs: &[&Tensor],
    gradients: &[Option<&Tensor>],
    options: &BackwardOptions<'_>,
) -> Result<()> {
    let (roots, gradients) = roots(outputs, gradients)?;
    let inputs = options.inputs.map(|inputs| edges("backward", inputs)).transpose()?;
    if let Some(result) = inputs.iter().flatten().find(|edge| edge.node.as_leaf().is_none()) {
        return Err(Error::argument(
            "backward",
            format!("an input is the result of {}, no leaf; use autograd::grad", result.node.name()),
        ));
    }
    let pass = Pass {
        retain_graph: options.retain_graph || options.create_graph,
        create_graph: options.create_graph,
        inputs: inputs.as_deref(),
        accumulate: true,
    };
    engine::run(&roots, gradients, &pass).map(drop)
}

/// The gradients of outputs with respect to inputs, leaves or results of operations; nothing is added to the gradients of leaves.
/// `gradients` as for [`backward`].
///
/// ```
/// use rustorch_tensor::{Tensor, autograd::{GradOptions, grad}};
/// let x = Tensor::new([2.0f64])?;
/// x.requires_grad_(true)?;
/// let y = x.pow(3)?;
/// let options = GradOptions { create_graph: true, ..Default::default() };
/// let first = grad(&[&y], &[&x], &[], options)?[0].clone().unwrap();
/// let second = grad(&[&first], &[&x], &[], GradOptions::default())?[0].clone().unwrap();
/// assert_eq!((first.item()?.to_f64(), second.item()?.to_f64()), (12.0, 12.0));
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
///
/// # Errors
/// As for [`Tensor::backward_with`], and if an input requires no gradient or, unless `allow_unused`, no output depends on it.
pub fn grad(
    outputs: &[&Tensor],
    inputs: &[&Tensor],
    gradients: &[Option<&Tensor>],
    options: GradOptions,
) -> Result<Vec<Option<Tensor>>> {
    let (roots, gradients) = roots(outputs, gradients)?;
    let edges = edges("grad", inputs)?;
    let pass = Pass {
        retain_graph: options.retain_graph || options.create_graph,
        create_graph: options.create_graph,
        inputs: Some(&edges),
        accumulate: false,
    };
    let grads = engine::run(&roots, gradients, &pass)?;
    if !options.allow_unused
        && let Some(i) = grads.iter().position(Option::is_none)
    {
        return Err(Error::argument(
            "grad",
            format!("the outputs do not depend on input {i}; allow_unused makes its gradient None"),
        ));
    }
    Ok(grads)
}

fn edges(op: &'static str, inputs: &[&Tensor]) -> Result<Vec<Edge>> {
    inputs.iter().map(|x| x.expect_history(op)).collect()
}

/// Where a pass begins, and with which gradients.
type Roots = (SmallVec<[Edge; 1]>, SmallVec<[Tensor; 1]>);

fn roots(outputs: &[&Tensor], gradients: &[Option<&Tensor>]) -> Result<Roots> {
    const OP: &str = "backward";
    if !gradients.is_empty() && gradients.len() != outputs.len() {
        return Err(Error::argument(
            OP,
            format!("{} gradients were given for {} outputs", gradients.len(), outputs.len()),
        ));
    }
    let root = |(i, &output): (usize, &&Tensor)| {
        if !(output.dtype().is_float() || output.dtype().is_complex()) {
            return Err(Error::dtype(OP, "only floats and complex numbers have gradients", [output.dtype()]));
        }
        let edge = output.expect_history(OP)?;
        let gradient = match gradients.get(i).copied().flatten() {
            Some(gradient) if gradient.shape() != output.shape() || gradient.dtype() != output.dtype() => {
                return Err(Error::argument(
                    OP,
                    format!(
                        "the gradient {}{} does not fit the output {}{}",
                        gradient.dtype(),
                        gradient.shape(),
                        output.dtype(),
                        output.shape()
                    ),
                ));
            }
            Some(gradient) => gradient.clone(),
            None if output.dtype().is_complex() => {
                return Err(Error::dtype(OP, "a complex output needs a gradient", [output.dtype()]));
            }
            None if output.numel() == 1 => super::no_grad(|| output.ones_like())?,
            None => {
                return Err(Error::shape(
                    OP,
                    "an output of more than one element needs a gradient; reduce it with sum or mean, or use backward_with",
                    [output.shape()],
                ));
            }
        };
        Ok((edge, gradient))
    };
    let mut roots = Roots::default();
    for output in outputs.iter().enumerate() {
        let (edge, gradient) = root(output)?;
        roots.0.push(edge);
        roots.1.push(gradient);
    }
    Ok(roots)
}
