//! A layer with hooks.

use crate::module::display;
use crate::{ExtraRepr, Layer, Member, Module};
use rustorch_tensor::autograd::HookHandle;
use rustorch_tensor::{Result, Tensor};
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};

/// A layer that calls functions before and after it computes, as `register_forward_pre_hook` and `register_forward_hook` of `torch.nn.Module`:
/// to look at activations, or to change them.
///
/// It stands for the layer: its parameters have the same names, it prints the same, and its fields can be reached. A layer without this has no
/// hooks and pays nothing for them.
///
/// ```
/// use rustorch_nn::{Hooked, Layer, Linear, Module};
/// use rustorch_tensor::{DType, Result, Tensor};
/// use std::sync::{Arc, Mutex};
///
/// #[derive(Module)]
/// struct Net {
///     hidden: Hooked<Linear>,
///     out: Linear,
/// }
///
/// impl Layer for Net {
///     fn forward(&self, x: &Tensor) -> Result<Tensor> {
///         self.out.forward(&self.hidden.forward(x)?.relu()?)
///     }
/// }
///
/// let net = Net { hidden: Hooked::new(Linear::new(2, 8)?), out: Linear::new(8, 1)? };
/// let seen = Arc::new(Mutex::new(Vec::new()));
/// let sink = Arc::clone(&seen);
/// let handle = net.hidden.register_forward_hook(move |_, _, y| {
///     sink.lock().unwrap().push(y.detach());
///     Ok(None)
/// });
/// let x = Tensor::ones([3, 2], DType::F32)?;
/// net.forward(&x)?;
/// handle.remove();
/// net.forward(&x)?;
/// assert_eq!(seen.lock().unwrap().len(), 1);
/// assert_eq!(net.named_parameters()[0].0, "hidden.weight");
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
pub struct Hooked<L> {
    layer: L,
    before: Hooks<PreHook<L>>,
    after: Hooks<Hook<L>>,
}

/// Gets a layer and its argument, and may return another one in its place.
type PreHook<L> = dyn Fn(&L, &Tensor) -> Result<Option<Tensor>> + Send + Sync;

/// Gets a layer, its argument and its result, and may return another result in its place.
type Hook<L> = dyn Fn(&L, &Tensor, &Tensor) -> Result<Option<Tensor>> + Send + Sync;

/// Functions that their handles can take away.
struct Hooks<F: ?Sized>(Arc<Mutex<Vec<Arc<F>>>>);

impl<F: ?Sized + Send + Sync + 'static> Hooks<F> {
    fn new() -> Hooks<F> {
        Hooks(Arc::default())
    }

    fn add(&self, hook: Arc<F>) -> HookHandle {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&hook));
        // The handle keeps no layer's hooks alive.
        let (hooks, hook) = (Arc::downgrade(&self.0), Arc::downgrade(&hook));
        HookHandle::new(move || {
            if let (Some(hooks), Some(hook)) = (hooks.upgrade(), hook.upgrade()) {
                let mut hooks = hooks.lock().unwrap_or_else(PoisonError::into_inner);
                hooks.retain(|other| !Arc::ptr_eq(other, &hook));
            }
        })
    }

    /// Those that are there now: they may add and remove others while they run.
    fn present(&self) -> Vec<Arc<F>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl<L: Layer + 'static> Hooked<L> {
    /// A layer without hooks so far.
    pub fn new(layer: L) -> Hooked<L> {
        Hooked { layer, before: Hooks::new(), after: Hooks::new() }
    }

    /// Calls a function with the layer and its argument before each `forward`, after those that are registered already. What it returns, if
    /// anything, takes the place of the argument. The hook stays until its handle removes it.
    pub fn register_forward_pre_hook(
        &self,
        hook: impl Fn(&L, &Tensor) -> Result<Option<Tensor>> + Send + Sync + 'static,
    ) -> HookHandle {
        self.before.add(Arc::new(hook))
    }

    /// Calls a function with the layer, its argument and its result after each `forward`, after those that are registered already. What it
    /// returns, if anything, takes the place of the result. The hook stays until its handle removes it.
    pub fn register_forward_hook(
        &self,
        hook: impl Fn(&L, &Tensor, &Tensor) -> Result<Option<Tensor>> + Send + Sync + 'static,
    ) -> HookHandle {
        self.after.add(Arc::new(hook))
    }

    /// The layer without its hooks.
    pub fn into_inner(self) -> L {
        self.layer
    }
}

impl<L> Deref for Hooked<L> {
    type Target = L;

    fn deref(&self) -> &L {
        &self.layer
    }
}

impl<L> DerefMut for Hooked<L> {
    fn deref_mut(&mut self) -> &mut L {
        &mut self.layer
    }
}

impl<L: Layer> Module for Hooked<L> {
    fn type_name(&self) -> &'static str {
        self.layer.type_name()
    }

    fn visit_members<'a>(&'a self, visit: &mut dyn FnMut(&str, Member<'a>)) {
        self.layer.visit_members(visit);
    }

    fn extra_repr(&self, extra: &mut ExtraRepr) {
        self.layer.extra_repr(extra);
    }

    fn address(&self) -> usize {
        self.layer.address()
    }
}

impl<L: Layer + 'static> Layer for Hooked<L> {
    /// # Errors
    /// Those of the layer and of the hooks.
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let mut x = x.clone();
        for hook in self.before.present() {
            x = hook(&self.layer, &x)?.unwrap_or(x);
        }
        let mut y = self.layer.forward(&x)?;
        for hook in self.after.present() {
            y = hook(&self.layer, &x, &y)?.unwrap_or(y);
        }
        Ok(y)
    }
}

display! { [L: Layer] Hooked<L> }
