//! Calls of layers as an observer of the thread sees them: which module, what it returned, how much it computed and saved.

use super::Module;
use rustorch_runtime::HybridExecutor;
use rustorch_tensor::autograd::{Packed, SavedTensorHooks};
use rustorch_tensor::{DType, Result, Shape, Tensor};
use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

thread_local! {
    /// Whether somebody observes: what every call of a layer looks at.
    static IS_OBSERVED: Cell<bool> = const { Cell::new(false) };
    static OBSERVED: RefCell<Observed> = RefCell::default();
}

/// What tells modules apart: an address and a type's name.
pub(super) type Identity = (usize, &'static str);

/// A call of a module. Its quantities are those of the calls in it, too.
pub(super) struct Call {
    pub(super) module: Identity,
    /// The call that it is in.
    pub(super) parent: Option<usize>,
    pub(super) results: Vec<(DType, Shape)>,
    pub(super) flops: u64,
    pub(super) saved_bytes: u64,
}

/// What was observed so far.
#[derive(Default)]
struct Observed {
    calls: Vec<Call>,
    /// Calls that have not returned, the innermost last.
    open: Vec<usize>,
    saved: Arc<Mutex<Saved>>,
}

/// Memory that operations saved for the backward pass.
#[derive(Default)]
struct Saved {
    /// Storages that are counted, or not to be: each is counted once.
    known: HashSet<usize>,
    /// Keeps them alive, since they are told apart by their addresses.
    tensors: Vec<Tensor>,
    bytes: u64,
}

/// What a module returns: tensors, pairs of them, nothing.
pub trait Outputs {
    /// Dtype and shape of each tensor.
    fn metas(&self) -> Vec<(DType, Shape)>;
}

impl Outputs for () {
    fn metas(&self) -> Vec<(DType, Shape)> {
        Vec::new()
    }
}

impl Outputs for Tensor {
    fn metas(&self) -> Vec<(DType, Shape)> {
        vec![(self.dtype(), self.shape().clone())]
    }
}

impl<R: Outputs> Outputs for Option<R> {
    fn metas(&self) -> Vec<(DType, Shape)> {
        self.as_ref().map_or_else(Vec::new, R::metas)
    }
}

impl<A: Outputs, B: Outputs> Outputs for (A, B) {
    fn metas(&self) -> Vec<(DType, Shape)> {
        [self.0.metas(), self.1.metas()].concat()
    }
}

/// Calls a module's function, and tells the observer of this thread, if there is one. `#[observed]` before a method is this around its body.
#[inline]
pub(crate) fn observe<M: Module + ?Sized, R: Outputs>(
    module: &M,
    f: impl FnOnce() -> Result<R>,
) -> Result<R> {
    if IS_OBSERVED.get() { observed((module.address(), module.type_name()), f) } else { f() }
}

#[cold]
fn observed<R: Outputs>(module: Identity, f: impl FnOnce() -> Result<R>) -> Result<R> {
    let opened = OBSERVED.with_borrow_mut(|observed| observed.open(module));
    let Some((call, saved)) = opened else { return f() };
    let before = lock(&saved).bytes;
    let (result, explanation) = HybridExecutor::current().explain(f);
    let saved_bytes = lock(&saved).bytes - before;
    OBSERVED.with_borrow_mut(|observed| {
        observed.open.pop();
        let call = &mut observed.calls[call];
        call.results = result.as_ref().map_or_else(|_| Vec::new(), R::metas);
        (call.flops, call.saved_bytes) = (explanation.flops(), saved_bytes);
    });
    result
}

impl Observed {
    /// A new call. There is none where a module's method calls another one of the same module.
    fn open(&mut self, module: Identity) -> Option<(usize, Arc<Mutex<Saved>>)> {
        let parent = self.open.last().copied();
        if parent.is_some_and(|parent| self.calls[parent].module == module) {
            return None;
        }
        let call = self.calls.len();
        self.calls.push(Call { module, parent, results: Vec::new(), flops: 0, saved_bytes: 0 });
        self.open.push(call);
        Some((call, Arc::clone(&self.saved)))
    }
}

fn lock(saved: &Mutex<Saved>) -> MutexGuard<'_, Saved> {
    saved.lock().unwrap_or_else(PoisonError::into_inner)
}

/// While it lives, this thread is observed; what it saw is forgotten then, also by a panic. One inside another takes its place.
struct Observer {
    outer: Option<Observed>,
    _hooks: SavedTensorHooks,
}

impl Observer {
    /// Memory of a module's parameters and buffers is not counted as saved.
    fn new(module: &dyn Module) -> Observer {
        let parameters = module.named_parameters().into_iter().map(|(_, parameter)| parameter.tensor());
        let buffers = module.named_buffers().into_iter().map(|(_, buffer)| buffer.tensor());
        let known = parameters.chain(buffers).map(|x| x.storage().identity().addr()).collect();
        let saved = Arc::new(Mutex::new(Saved { known, ..Default::default() }));
        let observed = Observed { saved: Arc::clone(&saved), ..Default::default() };
        let pack = move |x: Tensor| {
            let mut saved = lock(&saved);
            if saved.known.insert(x.storage().identity().addr()) {
                saved.bytes += x.storage().bytes() as u64;
                saved.tensors.push(x.clone());
            }
            Ok(Box::new(x) as Packed)
        };
        let unpack = |packed: &Packed| {
            let tensor = packed.downcast_ref::<Tensor>();
            Ok(tensor.expect("`pack` makes a box of a tensor").clone())
        };
        let outer = OBSERVED.replace(observed);
        let outer = IS_OBSERVED.replace(true).then_some(outer);
        Observer { outer, _hooks: SavedTensorHooks::new(pack, unpack) }
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        IS_OBSERVED.set(self.outer.is_some());
        OBSERVED.set(self.outer.take().unwrap_or_default());
    }
}

/// The calls of layers in a function that calls a module, the first of all that of the module.
pub(super) fn calls<R: Outputs>(module: &dyn Module, f: impl FnOnce() -> Result<R>) -> Result<Vec<Call>> {
    let _observer = Observer::new(module);
    observed((module.address(), module.type_name()), f)?;
    Ok(OBSERVED.take().calls)
}
