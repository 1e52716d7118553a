//! Nodes of the graph: an operation as it ran, with edges to where its arguments came from.

use super::anomaly;
use super::function::BoxedFunction;
use super::history::Edge;
use super::hooks::Hooks;
use super::saved::Saved;
use crate::Tensor;
use crate::recycled::{Recycle, Recycled, SpareBlocks};
use rustorch_core::{DType, Device, Op, Scalar, Shape, ViewOp};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::LocalKey;

pub(crate) type NodeRef = Recycled<Node>;

/// An operation as it ran, or a leaf. A node owns what its arguments came from, and never a handle to its own results, so that there are
/// no cycles.
// The bits below the alignment are those of an edge in a tensor.
#[repr(align(64))]
pub(crate) struct Node {
    /// 1 + the largest of its inputs'; 0 of a leaf. What a node depends on is less deep.
    pub(crate) depth: u64,
    pub(crate) kind: Kind,
    /// One for each tensor that the operation took.
    pub(crate) inputs: Inputs,
    pub(crate) outputs: SmallVec<[Meta; 1]>,
    pub(crate) saved: Mutex<Saved>,
    hooks: OnceLock<Box<Hooks>>,
    /// Where a backward pass has its task, counted from 1; 0 in none. Passes of several threads may meet here: the first one marks the
    /// node, which the others see from the task that stands there in theirs.
    pub(crate) mark: AtomicUsize,
}

/// What a node does.
pub(crate) enum Kind {
    /// A tensor that somebody asked gradients for.
    Leaf(Leaf),
    /// An operation; of a binary one, one of the operands may be a scalar, the first if the flag says so.
    Op { op: Op, scalar: Option<(Scalar, bool)> },
    /// A view.
    View(ViewOp),
    /// A copy on another device.
    Transfer,
    /// A function of the user's.
    Function(BoxedFunction),
}

/// A tensor's shape, dtype and device, which its gradient has as well.
#[derive(Clone)]
pub(crate) struct Meta {
    pub(crate) shape: Shape,
    pub(crate) dtype: DType,
    pub(crate) device: Device,
}

/// An argument.
pub(crate) struct Input {
    /// Where its gradient goes; none if it needs none.
    pub(crate) edge: Option<Edge>,
    /// What the argument is where no edge leads to what made it, which knows that.
    constant: Option<Meta>,
}

/// The arguments of a node.
pub(crate) type Inputs = SmallVec<[Input; 2]>;

/// What belongs to a leaf.
pub(crate) struct Leaf {
    requires_grad: AtomicBool,
    grad: Mutex<Option<Tensor>>,
}

impl Leaf {
    pub(crate) fn requires_grad(&self) -> bool {
        self.requires_grad.load(Ordering::Relaxed)
    }

    pub(crate) fn set_requires_grad(&self, requires_grad: bool) {
        self.requires_grad.store(requires_grad, Ordering::Relaxed);
    }

    pub(crate) fn grad(&self) -> MutexGuard<'_, Option<Tensor>> {
        self.grad.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Input {
    /// A tensor as an argument. Its gradient goes where it came from, if one is wanted there.
    #[inline]
    pub(crate) fn of(x: &Tensor) -> Input {
        Input::new(x, x.history().edge_if_required())
    }

    /// A tensor as an argument whose gradient goes to an edge, the tensor's own, if anywhere.
    #[inline]
    pub(crate) fn new(x: &Tensor, edge: Option<Edge>) -> Input {
        let constant = edge.is_none().then(|| Meta::of(x));
        Input { edge, constant }
    }

    /// The argument's shape, dtype and device.
    #[inline]
    pub(crate) fn meta(&self) -> &Meta {
        match (&self.edge, &self.constant) {
            (Some(edge), _) => &edge.node.outputs[edge.index],
            (None, Some(constant)) => constant,
            (None, None) => unreachable!("an edge is taken from a node that is dropped alone"),
        }
    }
}

impl Meta {
    #[inline]
    pub(crate) fn of(x: &Tensor) -> Meta {
        Meta { shape: x.shape().clone(), dtype: x.dtype(), device: x.device() }
    }
}

impl Node {
    /// A leaf of this shape, dtype and device.
    pub(crate) fn leaf(x: &Tensor) -> NodeRef {
        let leaf = Leaf { requires_grad: AtomicBool::new(true), grad: Mutex::default() };
        let mut node = Node::new(Kind::Leaf(leaf), [], [Meta::of(x)]);
        if let Some(node) = node.get_mut() {
            node.depth = 0;
        }
        node
    }

    /// What made these results of these arguments. The handle is the only one yet.
    #[inline(always)]
    pub(crate) fn new(
        kind: Kind,
        inputs: impl IntoIterator<Item = Input>,
        outputs: impl IntoIterator<Item = Meta>,
    ) -> NodeRef {
        // A node is large: to put it together elsewhere and move it would cost more than all else here.
        let write = |place: *mut Node| {
            // SAFETY: the pointer is to room for a node, and fields are borrowed after they are written.
            unsafe {
                // Reads nothing, but names every part: another one does not compile until it is written here, too.
                let Node { depth: _, kind: _, inputs: _, outputs: _, saved: _, hooks: _, mark: _ } = *place;
                (&raw mut (*place).kind).write(kind);
                (&raw mut (*place).inputs).write(Inputs::new());
                (&raw mut (*place).outputs).write(SmallVec::new());
                (&raw mut (*place).saved).write(Mutex::new(Saved::default()));
                (&raw mut (*place).hooks).write(OnceLock::new());
                (&raw mut (*place).mark).write(AtomicUsize::new(0));
                let mut depth = 0;
                let list = &mut (*place).inputs;
                for input in inputs {
                    depth = depth.max(input.edge.as_ref().map_or(0, |edge| edge.node.depth));
                    list.push(input);
                }
                (&raw mut (*place).depth).write(1 + depth);
                let list = &mut (*place).outputs;
                for output in outputs {
                    list.push(output);
                }
            }
        };
        // SAFETY: every field is written.
        let node = unsafe { Recycled::made_by(write) };
        if anomaly::is_enabled() {
            node.hooks_or_new().set_caller(anomaly::caller());
        }
        node
    }

    /// The saved tensors of a node that was just made.
    #[inline]
    pub(crate) fn saved_of(node: &mut NodeRef) -> &mut Saved {
        let node = node.get_mut().expect("nobody has another handle yet");
        node.saved.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// The operation's name, as in `grad_fn=<mul>`.
    pub(crate) fn name(&self) -> &str {
        match &self.kind {
            Kind::Leaf(_) => "leaf",
            Kind::Op { op, .. } => op.name(),
            Kind::View(op) => op.name(),
            Kind::Transfer => "to_device",
            Kind::Function(function) => function.name(),
        }
    }

    pub(crate) fn as_leaf(&self) -> Option<&Leaf> {
        match &self.kind {
            Kind::Leaf(leaf) => Some(leaf),
            _ => None,
        }
    }

    /// Whether gradients are wanted: not of a leaf that was told so later.
    #[inline]
    pub(crate) fn requires_grad(&self) -> bool {
        self.as_leaf().is_none_or(Leaf::requires_grad)
    }

    pub(crate) fn saved(&self) -> MutexGuard<'_, Saved> {
        self.saved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The hooks, if there ever were some.
    pub(crate) fn hooks(&self) -> Option<&Hooks> {
        self.hooks.get().map(|hooks| &**hooks)
    }

    /// The hooks, of which some are to come.
    pub(crate) fn hooks_or_new(&self) -> &Hooks {
        self.hooks.get_or_init(Box::default)
    }
}

impl Recycle for Node {
    #[inline]
    fn spare() -> &'static LocalKey<SpareBlocks<Node>> {
        thread_local! {
            static SPARE: SpareBlocks<Node> = const { RefCell::new(Vec::new()) };
        }
        &SPARE
    }
}

impl Drop for Node {
    /// A graph may be deeper than the stack: the nodes that only this one led to are taken apart in a loop.
    fn drop(&mut self) {
        let mut rest: SmallVec<[NodeRef; 8]> = SmallVec::new();
        let mut inputs = &mut self.inputs;
        let mut last;
        loop {
            for edge in inputs.iter_mut().filter_map(|input| input.edge.take()) {
                let mut node = edge.node;
                // A node to which others lead, such as a leaf, or that leads nowhere, ends here.
                if node.get_mut().is_some_and(|node| !node.inputs.is_empty()) {
                    rest.push(node);
                }
            }
            last = rest.pop();
            let Some(node) = last.as_mut().and_then(NodeRef::get_mut) else { return };
            inputs = &mut node.inputs;
        }
    }
}
