//! Functions that are called with gradients while a backward pass runs.

use crate::Tensor;
use rustorch_core::Result;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Gets a gradient, and may return another one in its place.
type TensorHook = dyn Fn(&Tensor) -> Result<Option<Tensor>> + Send + Sync;

/// Gets a leaf whose gradient has been accumulated.
type LeafHook = dyn Fn(&Tensor) -> Result<()> + Send + Sync;

/// A closure that its handle can take away.
type Slot<F> = Arc<Mutex<Option<Arc<F>>>>;

/// The hooks of a node.
#[derive(Default)]
pub(crate) struct Hooks {
    tensors: Mutex<Vec<(usize, Slot<TensorHook>)>>,
    leaf: Mutex<Vec<(Tensor, Slot<LeafHook>)>>,
    /// Results whose gradient is kept, with it.
    retained: Mutex<Vec<(usize, Option<Tensor>)>>,
    /// The line that called the operation, where somebody looks for anomalies.
    caller: OnceLock<String>,
}

/// A hook, which goes away when it is told to; dropping the handle leaves it where it is.
///
/// ```
/// use rustorch_tensor::{Tensor, autograd};
/// let x = Tensor::new([1.0f32, 2.0])?;
/// x.requires_grad_(true)?;
/// let double = x.register_hook(|grad| Ok(Some(grad.mul(2)?)))?;
/// x.sum_all()?.backward()?;
/// assert_eq!(x.grad().unwrap().to_vec::<f32>()?, [2.0, 2.0]);
/// double.remove();
/// x.zero_grad();
/// x.sum_all()?.backward()?;
/// assert_eq!(x.grad().unwrap().to_vec::<f32>()?, [1.0, 1.0]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
pub struct HookHandle(Box<dyn FnOnce() + Send + Sync>);

impl HookHandle {
    /// Of a hook that is kept elsewhere: what takes it away.
    pub fn new(remove: impl FnOnce() + Send + Sync + 'static) -> HookHandle {
        HookHandle(Box::new(remove))
    }

    fn of<F: ?Sized + Send + Sync + 'static>(slot: Slot<F>) -> HookHandle {
        HookHandle::new(move || drop(slot.lock().unwrap_or_else(PoisonError::into_inner).take()))
    }

    /// Takes the hook away.
    pub fn remove(self) {
        (self.0)();
    }
}

impl fmt::Debug for HookHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HookHandle")
    }
}

fn slot<F: ?Sized>(hook: Arc<F>) -> Slot<F> {
    Arc::new(Mutex::new(Some(hook)))
}

/// The closures that are still there, taken out of their locks before they are called.
fn present<K: Clone, F: ?Sized>(hooks: &Mutex<Vec<(K, Slot<F>)>>) -> Vec<(K, Arc<F>)> {
    let mut hooks = hooks.lock().unwrap_or_else(PoisonError::into_inner);
    let hook = |slot: &Slot<F>| slot.lock().unwrap_or_else(PoisonError::into_inner).clone();
    hooks.retain(|(_, slot)| hook(slot).is_some());
    hooks.iter().filter_map(|(key, slot)| Some((key.clone(), hook(slot)?))).collect()
}

impl Hooks {
    pub(crate) fn add(
        &self,
        result: usize,
        hook: impl Fn(&Tensor) -> Result<Option<Tensor>> + Send + Sync + 'static,
    ) -> HookHandle {
        let slot: Slot<TensorHook> = slot(Arc::new(hook));
        self.tensors.lock().unwrap_or_else(PoisonError::into_inner).push((result, Arc::clone(&slot)));
        HookHandle::of(slot)
    }

    /// `leaf` is a tensor of the leaf's memory without its history, so that the leaf does not own itself.
    pub(crate) fn add_to_leaf(
        &self,
        leaf: Tensor,
        hook: impl Fn(&Tensor) -> Result<()> + Send + Sync + 'static,
    ) -> HookHandle {
        let slot: Slot<LeafHook> = slot(Arc::new(hook));
        self.leaf.lock().unwrap_or_else(PoisonError::into_inner).push((leaf, Arc::clone(&slot)));
        HookHandle::of(slot)
    }

    /// What the hooks of a result make of its gradient.
    pub(crate) fn call(&self, result: usize, mut grad: Tensor) -> Result<Tensor> {
        for (_, hook) in present(&self.tensors).into_iter().filter(|(of, _)| *of == result) {
            if let Some(other) = hook(&grad)? {
                grad = other;
            }
        }
        Ok(grad)
    }

    /// The hooks of a leaf, with the leaf.
    pub(crate) fn of_leaf(&self) -> Vec<(Tensor, Arc<LeafHook>)> {
        present(&self.leaf)
    }

    /// The line that called the operation.
    pub(crate) fn caller(&self) -> Option<&str> {
        self.caller.get().map(|line| &line[..])
    }

    /// Notes the line that called the operation.
    pub(crate) fn set_caller(&self, line: String) {
        // A node is made once.
        let _ = self.caller.set(line);
    }

    /// Keeps the gradient of a result from now on.
    pub(crate) fn retain(&self, result: usize) {
        let mut retained = self.retained.lock().unwrap_or_else(PoisonError::into_inner);
        if retained.iter().all(|(of, _)| *of != result) {
            retained.push((result, None));
        }
    }

    /// The place of a result's gradient, if it is kept.
    pub(crate) fn retained<R>(&self, result: usize, f: impl FnOnce(&mut Option<Tensor>) -> R) -> Option<R> {
        let mut retained = self.retained.lock().unwrap_or_else(PoisonError::into_inner);
        retained.iter_mut().find(|(of, _)| *of == result).map(|(_, grad)| f(grad))
    }
}
