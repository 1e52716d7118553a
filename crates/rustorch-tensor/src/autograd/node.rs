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
use std::sync::atomic::{AtomicBool, Ordering};
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
    pub(crate) inputs: SmallVec<[Input; 2]>,
    pub(crate) outputs: SmallVec<[Meta; 1]>,
    pub(crate) saved: Mutex<Saved>,
    hooks: OnceLock<Box<Hooks>>,
}

/// What a node does.
#[expect(
    clippy::large_enum_variant,
    reason = "a node is one recycled block, and a box would be an allocation for each"
)]
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
    pub(crate) meta: Meta,
    /// Where its gradient goes; none if it needs none.
    pub(crate) edge: Option<Edge>,
}

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
        Recycled::new(Node {
            depth: 0,
            kind: Kind::Leaf(leaf),
            inputs: SmallVec::new(),
            outputs: [Meta::of(x)].into_iter().collect(),
            saved: Mutex::new(Saved::default()),
            hooks: OnceLock::new(),
        })
    }

    /// What made these results of these arguments.
    #[inline]
    pub(crate) fn new(
        kind: Kind,
        inputs: SmallVec<[Input; 2]>,
        outputs: SmallVec<[Meta; 1]>,
        saved: Saved,
    ) -> NodeRef {
        let node = Node::unmarked(kind, inputs, outputs, saved);
        if anomaly::is_enabled() {
            node.hooks_or_new().set_caller(anomaly::caller());
        }
        node
    }

    #[inline]
    fn unmarked(
        kind: Kind,
        inputs: SmallVec<[Input; 2]>,
        outputs: SmallVec<[Meta; 1]>,
        saved: Saved,
    ) -> NodeRef {
        let depths = inputs.iter().filter_map(|input| input.edge.as_ref()).map(|edge| edge.node.depth);
        let depth = 1 + depths.max().unwrap_or(0);
        // A node is large: to put it together elsewhere and move it would cost more than all else here.
        let write = |place: *mut Node| {
            // SAFETY: the pointer is to room for a node.
            unsafe {
                // Reads nothing, but names every part: another one does not compile until it is written here, too.
                let Node { depth: _, kind: _, inputs: _, outputs: _, saved: _, hooks: _ } = *place;
                (&raw mut (*place).depth).write(depth);
                (&raw mut (*place).kind).write(kind);
                (&raw mut (*place).inputs).write(inputs);
                (&raw mut (*place).outputs).write(outputs);
                (&raw mut (*place).saved).write(Mutex::new(saved));
                (&raw mut (*place).hooks).write(OnceLock::new());
            }
        };
        // SAFETY: every field is written.
        unsafe { Recycled::made_by(write) }
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
        let mut rest: SmallVec<[NodeRef; 8]> =
            self.inputs.drain(..).filter_map(|input| input.edge).map(|edge| edge.node).collect();
        while let Some(mut node) = rest.pop() {
            if let Some(node) = node.get_mut() {
                rest.extend(node.inputs.drain(..).filter_map(|input| input.edge).map(|edge| edge.node));
            }
        }
    }
}
