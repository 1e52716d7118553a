//! Tensors that belong to a module: parameters, which it learns, and buffers, which it does not.

use rustorch_tensor::{Error, Result, Tensor, guard_once, is_capturing};
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

/// A tensor that a module learns. Handles share it: a parameter that two modules hold is one, and an optimizer that holds it sees it
/// move to another device or dtype.
///
/// ```
/// use rustorch_nn::Parameter;
/// use rustorch_tensor::Tensor;
/// let weight = Parameter::new(Tensor::new([1.0f32, 2.0])?)?;
/// weight.tensor().square()?.sum_all()?.backward()?;
/// assert_eq!(weight.grad().unwrap().to_vec::<f32>()?, [2.0, 4.0]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Clone)]
pub struct Parameter(Arc<RwLock<Tensor>>);

impl Parameter {
    /// A parameter that shares a tensor's memory and requires a gradient.
    ///
    /// # Errors
    /// If the dtype is none of floats or complex numbers.
    pub fn new(tensor: Tensor) -> Result<Parameter> {
        let leaf = tensor.detach();
        leaf.requires_grad_(true)?;
        Ok(Parameter(Arc::new(RwLock::new(leaf))))
    }

    /// The tensor, a leaf. After [`replace`](Self::replace) it is another one.
    pub fn tensor(&self) -> Tensor {
        seen(&self.0)
    }

    /// The sum of the gradients of all backward passes since the last [`zero_grad`](Self::zero_grad).
    pub fn grad(&self) -> Option<Tensor> {
        self.tensor().grad()
    }

    /// Forgets the gradient.
    pub fn zero_grad(&self) {
        self.tensor().zero_grad();
    }

    /// Gives every handle to this parameter another tensor, and its gradient, if there is one, what `of_grad` makes of it.
    ///
    /// # Errors
    /// If the new tensor cannot require a gradient as the present one does, or the gradient does not fit it. Nothing changes then.
    pub fn replace(&self, new: &Tensor, of_grad: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<()> {
        let mut place = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let leaf = new.detach();
        if place.requires_grad() {
            leaf.requires_grad_(true)?;
            if let Some(grad) = place.grad() {
                leaf.set_grad(Some(&of_grad(&grad)?))?;
            }
        }
        *place = leaf;
        Ok(())
    }

    /// Whether both handles lead to one parameter.
    pub fn is_same(&self, other: &Parameter) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// How many handles lead to this parameter.
    pub fn handles(&self) -> usize {
        Arc::strong_count(&self.0)
    }

    /// What tells parameters and buffers apart while they live.
    pub(crate) fn identity(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }
}

impl TryFrom<Tensor> for Parameter {
    type Error = Error;

    fn try_from(tensor: Tensor) -> Result<Parameter> {
        Parameter::new(tensor)
    }
}

impl fmt::Debug for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tensor = self.tensor();
        write!(f, "Parameter({}{})", tensor.dtype(), tensor.shape())
    }
}

/// The tensor of a parameter or a buffer. A captured function is right for this one, as long as it requires a gradient or not.
fn seen(place: &Arc<RwLock<Tensor>>) -> Tensor {
    let tensor = place.read().unwrap_or_else(PoisonError::into_inner).clone();
    if is_capturing() {
        guard_once(Arc::as_ptr(place).addr(), "a parameter or buffer (replaced, frozen or unfrozen)", || {
            // No handle: modules count these. Memory that the graph refers to lives, so that no other one has its identity.
            let (place, memory) = (Arc::downgrade(place), tensor.storage().identity().addr());
            let requires_grad = tensor.requires_grad();
            move || {
                place.upgrade().is_none_or(|place| {
                    let now = place.read().unwrap_or_else(PoisonError::into_inner);
                    now.storage().identity().addr() == memory && now.requires_grad() == requires_grad
                })
            }
        });
    }
    tensor
}

/// A tensor that belongs to a module and is not learned, such as a running mean. Handles share it.
#[derive(Clone)]
pub struct Buffer {
    tensor: Arc<RwLock<Tensor>>,
    persistent: bool,
}

impl Buffer {
    /// A buffer that the module's state dict has.
    pub fn new(tensor: &Tensor) -> Buffer {
        Buffer { tensor: Arc::new(RwLock::new(tensor.detach())), persistent: true }
    }

    /// A buffer that the state dict lacks: one that is computed anew.
    pub fn non_persistent(tensor: &Tensor) -> Buffer {
        Buffer { persistent: false, ..Buffer::new(tensor) }
    }

    /// The tensor. After [`set`](Self::set) it is another one.
    pub fn tensor(&self) -> Tensor {
        seen(&self.tensor)
    }

    /// Gives every handle to this buffer another tensor.
    pub fn set(&self, tensor: &Tensor) {
        *self.tensor.write().unwrap_or_else(PoisonError::into_inner) = tensor.detach();
    }

    /// Whether the state dict has it.
    pub fn is_persistent(&self) -> bool {
        self.persistent
    }

    /// What tells parameters and buffers apart while they live.
    pub(crate) fn identity(&self) -> usize {
        Arc::as_ptr(&self.tensor).addr()
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tensor = self.tensor();
        write!(f, "Buffer({}{})", tensor.dtype(), tensor.shape())
    }
}
