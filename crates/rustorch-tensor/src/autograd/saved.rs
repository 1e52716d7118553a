//! What nodes keep of the forward pass for the backward pass.

use super::history::Edge;
use super::node::{Node, NodeRef};
use crate::Tensor;
use rustorch_core::{DType, Error, Layout, Result, Shape};
use rustorch_runtime::{PassiveStorage, Storage};
use smallvec::SmallVec;
use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// What is kept by a hook in place of a tensor.
pub type Packed = Box<dyn Any + Send>;

type Pack = dyn Fn(Tensor) -> Result<Packed> + Send + Sync;
type Unpack = dyn Fn(&Packed) -> Result<Tensor> + Send + Sync;

#[derive(Clone)]
struct PackHooks {
    pack: Arc<Pack>,
    unpack: Arc<Unpack>,
}

thread_local! {
    static HOOKS: RefCell<Vec<PackHooks>> = const { RefCell::new(Vec::new()) };
}

/// Which tensor of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    Arg(usize),
    Result(usize),
    /// What a function of the user's saved that is neither.
    Other(usize),
}

impl fmt::Display for Which {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Which::Arg(i) => write!(f, "argument {i}"),
            Which::Result(i) => write!(f, "result {i}"),
            Which::Other(i) => write!(f, "saved tensor {i}"),
        }
    }
}

/// The tensors that an operation's rule reads.
pub(crate) type Saves = SmallVec<[Which; 4]>;

/// Tensors as they were saved.
pub(crate) type Unpacked = SmallVec<[(Which, Tensor); 2]>;

/// The saved tensors of a node.
#[derive(Default)]
pub(crate) struct Saved {
    tensors: SmallVec<[SavedTensor; 2]>,
    /// Those that hooks keep.
    packed: Vec<PackedTensor>,
    /// Whether a backward pass used them up.
    freed: bool,
}

/// A tensor without its history, and the version of its memory.
struct SavedTensor {
    which: Which,
    storage: PassiveStorage,
    dtype: DType,
    layout: Layout,
    version: u64,
}

impl SavedTensor {
    /// Appends one to a list: written where it stays.
    #[inline]
    fn push(list: &mut SmallVec<[SavedTensor; 2]>, which: Which, x: &Tensor) {
        if list.len() == list.capacity() {
            list.reserve(1);
        }
        // SAFETY: there is room for one more, every field of which is written before it counts.
        unsafe {
            let place = list.as_mut_ptr().add(list.len());
            let SavedTensor { which: _, storage: _, dtype: _, layout: _, version: _ } = *place;
            (&raw mut (*place).which).write(which);
            (&raw mut (*place).storage).write(PassiveStorage::new(x.storage()));
            (&raw mut (*place).dtype).write(x.dtype());
            x.layout().copy_in(&mut *(&raw mut (*place).layout).cast());
            (&raw mut (*place).version).write(x.storage().version());
            list.set_len(list.len() + 1);
        }
    }

    /// Checks that the memory was not written since.
    #[inline]
    fn expect_unchanged(&self, node: &Node) -> Result<()> {
        if self.storage.storage().version() != self.version {
            return Err(changed(node, self.which, self.version, self.storage.storage()));
        }
        Ok(())
    }

    /// The tensor, which stays saved.
    fn tensor(&self) -> Tensor {
        Tensor::from_parts_of(self.storage.storage().clone(), self.dtype, &self.layout)
    }

    /// The tensor, which is saved no longer.
    #[inline]
    fn into_tensor(self) -> Tensor {
        Tensor::from_parts_of(self.storage.into_storage(), self.dtype, &self.layout)
    }
}

/// What a hook keeps in place of a tensor.
struct PackedTensor {
    which: Which,
    packed: Packed,
    unpack: Arc<Unpack>,
    dtype: DType,
    shape: Shape,
}

impl PackedTensor {
    #[cold]
    fn new(which: Which, x: &Tensor, PackHooks { pack, unpack }: &PackHooks) -> Result<PackedTensor> {
        // A hook is not one for the tensors that it makes itself.
        let suspended = HOOKS.with(|hooks| std::mem::take(&mut *hooks.borrow_mut()));
        let _restore = Restore(Some(suspended));
        let packed = super::no_grad(|| pack(x.detach()))?;
        Ok(PackedTensor {
            which,
            packed,
            unpack: Arc::clone(unpack),
            dtype: x.dtype(),
            shape: x.shape().clone(),
        })
    }

    fn tensor(&self) -> Result<Tensor> {
        let PackedTensor { packed, unpack, dtype, shape, .. } = self;
        let x = super::no_grad(|| unpack(packed))?;
        if x.shape() != shape || x.dtype() != *dtype {
            return Err(Error::argument(
                "SavedTensorHooks",
                format!("unpack returned {}{} for a tensor that was {dtype}{shape}", x.dtype(), x.shape()),
            ));
        }
        Ok(x.detach())
    }
}

#[cold]
fn changed(node: &Node, which: Which, version: u64, storage: &Storage) -> Error {
    let now = storage.version();
    let last = storage.noted_write().map_or_else(String::new, |write| format!(", last by {write}"));
    Error::argument(
        "backward",
        format!(
            "{which} of {} was written in place after it was saved for its gradient{last}: its memory is at version {now}, and was at \
             {version}; write out of place, or to a copy",
            node.name()
        ),
    )
}

struct Restore(Option<Vec<PackHooks>>);

impl Drop for Restore {
    fn drop(&mut self) {
        let hooks = self.0.take().unwrap_or_default();
        let _ = HOOKS.try_with(|place| *place.borrow_mut() = hooks);
    }
}

impl Saved {
    /// Keeps some of an operation's tensors.
    #[inline]
    pub(crate) fn keep_all(&mut self, which: &[Which], args: &[&Tensor], results: &[Tensor]) -> Result<()> {
        let hooks = HOOKS.with_borrow(|hooks| hooks.last().cloned());
        for &which in which {
            let x = match which {
                Which::Arg(i) => args[i],
                Which::Result(i) | Which::Other(i) => &results[i],
            };
            match &hooks {
                None => SavedTensor::push(&mut self.tensors, which, x),
                Some(hooks) => self.packed.push(PackedTensor::new(which, x, hooks)?),
            }
        }
        Ok(())
    }

    /// The saved tensors, with their history if what is computed with them is to be differentiated again.
    pub(crate) fn unpack(&self, node: &NodeRef, with_history: bool) -> Result<Unpacked> {
        self.expect_unchanged(node)?;
        let mut tensors: Unpacked = self.tensors.iter().map(|saved| (saved.which, saved.tensor())).collect();
        for packed in &self.packed {
            tensors.push((packed.which, packed.tensor()?));
        }
        for (which, x) in tensors.iter().filter(|_| with_history) {
            let edge = match *which {
                Which::Arg(i) => node.inputs[i].clone(),
                Which::Result(index) => Some(Edge { node: node.clone(), index }),
                Which::Other(_) => None,
            };
            if let Some(edge) = edge {
                x.history().set_fresh(edge);
            }
        }
        Ok(tensors)
    }

    /// The saved tensors, without their history, which from now on are not saved.
    pub(crate) fn take(&mut self, node: &Node) -> Result<Unpacked> {
        self.expect_unchanged(node)?;
        self.freed |= !(self.tensors.is_empty() && self.packed.is_empty());
        let mut tensors = Unpacked::new();
        for saved in self.tensors.drain(..) {
            tensors.push((saved.which, saved.into_tensor()));
        }
        for packed in self.packed.drain(..) {
            tensors.push((packed.which, packed.tensor()?));
        }
        Ok(tensors)
    }

    /// Checks that the tensors are there, as they were saved.
    fn expect_unchanged(&self, node: &Node) -> Result<()> {
        if self.freed {
            return Err(freed(node));
        }
        self.tensors.iter().try_for_each(|saved| saved.expect_unchanged(node))
    }

    /// Drops the saved tensors, if these are in the list itself, and hooks keep none: whether that was so, and nothing is left to drop.
    #[inline(always)]
    pub(crate) fn drop_inline(&mut self) -> bool {
        let Saved { tensors, packed, freed: _ } = self;
        if tensors.spilled() || packed.capacity() != 0 {
            return false;
        }
        tensors.clear();
        true
    }

    /// How many bytes the saved tensors have, each counted for itself, and those that hooks keep not.
    pub(crate) fn bytes(&self) -> usize {
        self.tensors.iter().map(|saved| saved.dtype.bytes_for(saved.layout.numel()).unwrap_or(0)).sum()
    }

    /// Which tensors are saved.
    pub(crate) fn names(&self) -> impl Iterator<Item = String> {
        let packed = self.packed.iter().map(|packed| packed.which);
        self.tensors.iter().map(|saved| saved.which).chain(packed).map(|which| which.to_string())
    }

    /// The memory of the saved tensors, with an address that tells pieces apart.
    pub(crate) fn storages(&self) -> impl Iterator<Item = &Storage> {
        self.tensors.iter().map(|saved| saved.storage.storage())
    }
}

#[cold]
fn freed(node: &Node) -> Error {
    Error::argument(
        "backward",
        format!(
            "{} was differentiated before, which freed the tensors that it had saved; pass retain_graph to the first pass",
            node.name()
        ),
    )
}

/// While it lives, tensors that operations of this thread save are packed by one closure and unpacked by another, PyTorch's
/// `saved_tensors_hooks`: to keep them elsewhere, or in fewer bits.
///
/// ```
/// use rustorch_tensor::{DType, Tensor, autograd::SavedTensorHooks};
/// let x = Tensor::new([1.5f32, 2.0])?;
/// x.requires_grad_(true)?;
/// let y = {
///     // In half of the memory.
///     let _hooks = SavedTensorHooks::new(
///         |x| Ok(Box::new(x.to_dtype(DType::BF16)?)),
///         |packed| packed.downcast_ref::<Tensor>().expect("what was packed").to_dtype(DType::F32),
///     );
///     x.square()?.sum_all()?
/// };
/// y.backward()?;
/// assert_eq!(x.grad().unwrap().to_vec::<f32>()?, [3.0, 4.0]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[must_use = "the scope ends when the guard is dropped"]
pub struct SavedTensorHooks {
    depth: usize,
    /// It belongs to its thread.
    _thread: PhantomData<*const ()>,
}

impl SavedTensorHooks {
    /// Packs by the first closure and unpacks by the second, which returns a tensor of the same shape and dtype.
    pub fn new(
        pack: impl Fn(Tensor) -> Result<Packed> + Send + Sync + 'static,
        unpack: impl Fn(&Packed) -> Result<Tensor> + Send + Sync + 'static,
    ) -> SavedTensorHooks {
        let hooks = PackHooks { pack: Arc::new(pack), unpack: Arc::new(unpack) };
        let depth = HOOKS.with(|all| {
            let mut all = all.borrow_mut();
            all.push(hooks);
            all.len()
        });
        SavedTensorHooks { depth, _thread: PhantomData }
    }
}

impl Drop for SavedTensorHooks {
    fn drop(&mut self) {
        let ended = HOOKS.try_with(|all| all.borrow_mut().split_off(self.depth - 1));
        drop(ended);
    }
}
