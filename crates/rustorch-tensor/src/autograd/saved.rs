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
    tensors: SmallVec<[(Which, SavedTensor); 2]>,
    /// Whether a backward pass used them up.
    freed: bool,
}

/// A tensor without its history, and the version of its memory.
enum SavedTensor {
    Memory { storage: PassiveStorage, dtype: DType, layout: Layout, version: u64 },
    Packed { packed: Packed, unpack: Arc<Unpack>, dtype: DType, shape: Shape },
}

impl SavedTensor {
    fn new(x: &Tensor) -> Result<SavedTensor> {
        // A hook is not one for the tensors that it makes itself.
        let hooks = HOOKS.with(|hooks| hooks.borrow().last().cloned());
        if let Some(PackHooks { pack, unpack }) = hooks {
            let suspended = HOOKS.with(|hooks| std::mem::take(&mut *hooks.borrow_mut()));
            let _restore = Restore(Some(suspended));
            let packed = super::no_grad(|| pack(x.detach()))?;
            return Ok(SavedTensor::Packed { packed, unpack, dtype: x.dtype(), shape: x.shape().clone() });
        }
        Ok(SavedTensor::Memory {
            storage: PassiveStorage::new(x.storage()),
            dtype: x.dtype(),
            layout: x.layout().clone(),
            version: x.storage().version(),
        })
    }

    /// Checks that the memory was not written since.
    #[inline]
    fn expect_unchanged(&self, node: &Node, which: Which) -> Result<()> {
        match self {
            SavedTensor::Memory { storage, version, .. } if storage.storage().version() != *version => {
                Err(changed(node, which, *version, storage.storage()))
            }
            _ => Ok(()),
        }
    }

    fn unpack(&self) -> Result<Tensor> {
        match self {
            SavedTensor::Memory { storage, dtype, layout, .. } => {
                Ok(Tensor::from_parts(storage.storage().clone(), *dtype, layout.clone()))
            }
            SavedTensor::Packed { packed, unpack, dtype, shape } => {
                let x = super::no_grad(|| unpack(packed))?;
                if x.shape() != shape || x.dtype() != *dtype {
                    return Err(Error::argument(
                        "SavedTensorHooks",
                        format!(
                            "unpack returned {}{} for a tensor that was {dtype}{shape}",
                            x.dtype(),
                            x.shape()
                        ),
                    ));
                }
                Ok(x.detach())
            }
        }
    }

    /// As [`unpack`](Self::unpack), of a tensor that is saved no longer.
    #[inline]
    fn into_tensor(self) -> Result<Tensor> {
        match self {
            SavedTensor::Memory { storage, dtype, layout, .. } => {
                Ok(Tensor::from_parts(storage.into_storage(), dtype, layout))
            }
            packed => packed.unpack(),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            SavedTensor::Memory { dtype, layout, .. } => dtype.bytes_for(layout.numel()).unwrap_or(0),
            SavedTensor::Packed { .. } => 0,
        }
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
        which.iter().try_for_each(|&which| self.keep(which, args, results))
    }

    /// Keeps one of an operation's tensors.
    #[inline]
    pub(crate) fn keep(&mut self, which: Which, args: &[&Tensor], results: &[Tensor]) -> Result<()> {
        let x = match which {
            Which::Arg(i) => args[i],
            Which::Result(i) | Which::Other(i) => &results[i],
        };
        self.tensors.push((which, SavedTensor::new(x)?));
        Ok(())
    }

    /// The saved tensors, with their history if what is computed with them is to be differentiated again.
    pub(crate) fn unpack(&self, node: &NodeRef, with_history: bool) -> Result<Unpacked> {
        self.expect_unchanged(node)?;
        let mut tensors = Unpacked::new();
        for (which, saved) in &self.tensors {
            let x = saved.unpack()?;
            if with_history {
                let edge = match *which {
                    Which::Arg(i) => node.inputs[i].clone(),
                    Which::Result(index) => Some(Edge { node: node.clone(), index }),
                    Which::Other(_) => None,
                };
                if let Some(edge) = edge {
                    x.history().set_fresh(edge);
                }
            }
            tensors.push((*which, x));
        }
        Ok(tensors)
    }

    /// The saved tensors, without their history, which from now on are not saved.
    pub(crate) fn take(&mut self, node: &Node) -> Result<Unpacked> {
        self.expect_unchanged(node)?;
        self.freed |= !self.tensors.is_empty();
        let mut tensors = Unpacked::new();
        for (which, saved) in self.tensors.drain(..) {
            tensors.push((which, saved.into_tensor()?));
        }
        Ok(tensors)
    }

    /// Checks that the tensors are there, as they were saved.
    fn expect_unchanged(&self, node: &Node) -> Result<()> {
        if self.freed {
            return Err(freed(node));
        }
        self.tensors.iter().try_for_each(|(which, saved)| saved.expect_unchanged(node, *which))
    }

    /// How many bytes the saved tensors have, each counted for itself.
    pub(crate) fn bytes(&self) -> usize {
        self.tensors.iter().map(|(_, saved)| saved.bytes()).sum()
    }

    /// Which tensors are saved.
    pub(crate) fn names(&self) -> impl Iterator<Item = String> {
        self.tensors.iter().map(|(which, _)| which.to_string())
    }

    /// The memory of the saved tensors, with an address that tells pieces apart.
    pub(crate) fn storages(&self) -> impl Iterator<Item = &Storage> {
        self.tensors.iter().filter_map(|(_, saved)| match saved {
            SavedTensor::Memory { storage, .. } => Some(storage.storage()),
            SavedTensor::Packed { .. } => None,
        })
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
