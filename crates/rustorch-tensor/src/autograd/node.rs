//! Nodes of the graph: an operation as it ran, with edges to where its arguments came from.

use super::anomaly;
use super::function::BoxedFunction;
use super::history::Edge;
use super::hooks::Hooks;
use super::saved::Saved;
use crate::Tensor;
use crate::recycled::{Recycle, Recycled, SpareBlocks};
use rustorch_core::{DType, Device, Op, Scalar, Shape, ViewOp, with_op};
use smallvec::{Array, SmallVec};
use std::mem::{self, MaybeUninit};
use std::slice;
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
    /// Where the gradients of the tensors go that the operation took; none of one that needs none.
    pub(crate) inputs: Inputs,
    /// The results', then those of arguments to which no edge leads: else, what made the argument knows.
    metas: SmallVec<[Meta; 2]>,
    /// How many results there are.
    results: usize,
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

impl Kind {
    /// Whether it may own memory.
    #[inline(always)]
    fn owns(&self) -> bool {
        match self {
            Kind::Op { op, scalar: _ } => op.needs_drop(),
            Kind::Leaf(_) | Kind::View(_) | Kind::Transfer | Kind::Function(_) => true,
        }
    }
}

/// A tensor's shape, dtype and device, which its gradient has as well.
#[derive(Clone)]
pub(crate) struct Meta {
    pub(crate) shape: Shape,
    pub(crate) dtype: DType,
    pub(crate) device: Device,
}

/// Where the gradients of a node's arguments go.
pub(crate) type Inputs = SmallVec<[Option<Edge>; 2]>;

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
    /// Writes a tensor's to where it stays.
    #[inline(always)]
    fn write(place: &mut MaybeUninit<Meta>, x: &Tensor) {
        let place = place.as_mut_ptr();
        // SAFETY: the fields of a place for this are places for its fields, each of which is initialised here.
        unsafe {
            // Reads nothing, but names every part: another one does not compile until it is written here, too.
            let Meta { shape: _, dtype: _, device: _ } = *place;
            x.shape().copy_in(&mut *(&raw mut (*place).shape).cast());
            (&raw mut (*place).dtype).write(x.dtype());
            (&raw mut (*place).device).write(x.device());
        }
    }

    /// Appends a tensor's to a list.
    #[inline(always)]
    fn push(list: &mut SmallVec<[Meta; 2]>, x: &Tensor) {
        Meta::write(&mut spare_places(list, 1)[0], x);
        // SAFETY: one more is initialised.
        unsafe { list.set_len(list.len() + 1) };
    }
}

/// The places of a list behind its elements, for as many more at least.
#[inline(always)]
fn spare_places<T, const N: usize>(list: &mut SmallVec<[T; N]>, more: usize) -> &mut [MaybeUninit<T>]
where
    [T; N]: Array<Item = T>,
{
    let len = list.len();
    if more > list.capacity() - len {
        list.reserve(more);
    }
    // SAFETY: a list has as many places as its capacity says, and those behind its elements are nobody's.
    unsafe { slice::from_raw_parts_mut(list.as_mut_ptr().add(len).cast(), list.capacity() - len) }
}

impl Node {
    /// A leaf of this shape, dtype and device.
    pub(crate) fn leaf(x: &Tensor) -> NodeRef {
        let leaf = Leaf { requires_grad: AtomicBool::new(true), grad: Mutex::default() };
        let mut node = Node::new(|| Kind::Leaf(leaf), [], std::slice::from_ref(x));
        if let Some(node) = node.get_mut() {
            node.depth = 0;
        }
        node
    }

    /// What made these results of these arguments, whose gradients go to an edge, the argument's own, if anywhere. The handle is the only
    /// one yet.
    #[inline(always)]
    pub(crate) fn new<'a>(
        kind: impl FnOnce() -> Kind,
        args: impl IntoIterator<Item = (&'a Tensor, Option<Edge>), IntoIter: ExactSizeIterator>,
        results: &[Tensor],
    ) -> NodeRef {
        // SAFETY: the kind is written.
        unsafe { Node::in_place(|place| _ = place.write(kind()), args, results) }
    }

    /// As [`new`](Self::new), of an operation.
    #[inline(always)]
    pub(crate) fn of_op<'a>(
        op: &Op,
        scalar: Option<(Scalar, bool)>,
        args: impl IntoIterator<Item = (&'a Tensor, Option<Edge>), IntoIter: ExactSizeIterator>,
        results: &[Tensor],
    ) -> NodeRef {
        // An arm for each operation, so that each is written where it stays: as one value they would go over the stack.
        #[expect(clippy::clone_on_copy, reason = "the parameters of some operations are `Copy`")]
        let write = |place: &mut MaybeUninit<Kind>| {
            with_op!(op, parameters => _ = place.write(Kind::Op { op: Op::from(parameters.clone()), scalar }));
        };
        // SAFETY: the kind is written.
        unsafe { Node::in_place(write, args, results) }
    }

    /// As [`new`](Self::new), of a kind that is written where it stays: a node is large, and to put it together elsewhere and move it
    /// would cost more than all else here.
    ///
    /// # Safety
    /// `kind` initialises what it is given.
    #[inline(always)]
    unsafe fn in_place<'a>(
        kind: impl FnOnce(&mut MaybeUninit<Kind>),
        args: impl IntoIterator<Item = (&'a Tensor, Option<Edge>), IntoIter: ExactSizeIterator>,
        results: &[Tensor],
    ) -> NodeRef {
        let write = |place: *mut Node| {
            // SAFETY: the pointer is to room for a node, and fields are borrowed after they are written.
            unsafe {
                // Reads nothing, but names every part: another one does not compile until it is written here, too.
                let Node { depth: _, kind: _, inputs: _, metas: _, results: _, saved: _, hooks: _, mark: _ } =
                    *place;
                kind(&mut *(&raw mut (*place).kind).cast());
                (&raw mut (*place).inputs).write(Inputs::new());
                (&raw mut (*place).metas).write(SmallVec::new());
                (&raw mut (*place).results).write(results.len());
                (&raw mut (*place).saved).write(Mutex::new(Saved::default()));
                (&raw mut (*place).hooks).write(OnceLock::new());
                (&raw mut (*place).mark).write(AtomicUsize::new(0));
                let metas = &mut (*place).metas;
                results
                    .iter()
                    .zip(spare_places(metas, results.len()))
                    .for_each(|(x, place)| Meta::write(place, x));
                metas.set_len(results.len());
                let inputs = &mut (*place).inputs;
                let args = args.into_iter();
                let places = spare_places(inputs, args.len());
                let (mut depth, mut count) = (0, 0);
                for ((x, edge), place) in args.zip(places) {
                    match &edge {
                        Some(edge) => depth = depth.max(edge.node.depth),
                        None => Meta::push(metas, x),
                    }
                    place.write(edge);
                    count += 1;
                }
                inputs.set_len(count);
                (&raw mut (*place).depth).write(1 + depth);
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

    /// Shape, dtype and device of each result.
    #[inline]
    pub(crate) fn outputs(&self) -> &[Meta] {
        &self.metas[..self.results]
    }

    /// Shape, dtype and device of an argument.
    #[inline]
    pub(crate) fn input(&self, i: usize) -> &Meta {
        match &self.inputs[i] {
            Some(edge) => &edge.node.outputs()[edge.index],
            None => &self.metas[self.results + self.inputs[..i].iter().filter(|edge| edge.is_none()).count()],
        }
    }

    /// The edges to what made the arguments.
    #[inline]
    pub(crate) fn edges(&self) -> impl Iterator<Item = &Edge> {
        self.inputs.iter().flatten()
    }

    /// Drops saved tensors, if there is nothing else to drop but edges, and all of these are in the node itself: as with most operations.
    /// Whether that was so.
    #[inline(always)]
    fn drop_saved(&mut self) -> bool {
        let Node { depth: _, kind, inputs, metas, results: _, saved, hooks, mark: _ } = self;
        // Some systems' locks own memory.
        !mem::needs_drop::<Mutex<()>>()
            && !kind.owns()
            && !inputs.spilled()
            && !metas.spilled()
            && !metas.iter().any(|meta| meta.shape.is_spilled())
            && hooks.get().is_none()
            && saved.get_mut().is_ok_and(Saved::drop_inline)
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
            static SPARE: SpareBlocks<Node> = const { SpareBlocks::new() };
        }
        &SPARE
    }

    #[inline]
    unsafe fn release(place: *mut Node) {
        // SAFETY: the caller's promise.
        let node = unsafe { &mut *place };
        if node.drop_saved() && node.inputs.iter_mut().all(drop_short) {
            return;
        }
        // SAFETY: the caller's promise; saved tensors and edges that are dropped already are gone from their lists.
        unsafe { place.drop_in_place() };
    }
}

/// Drops an edge, unless only it leads to a node that leads to others: whether it did.
#[inline(always)]
fn drop_short(edge: &mut Option<Edge>) -> bool {
    let long = edge.as_mut().is_some_and(leads_on);
    if !long {
        *edge = None;
    }
    !long
}

impl Drop for Node {
    #[inline]
    fn drop(&mut self) {
        if self.inputs.iter_mut().flatten().any(leads_on) {
            drop_edges(&mut self.inputs);
        }
    }
}

/// Whether only this edge leads to a node that leads to others: not to a leaf.
#[inline]
fn leads_on(edge: &mut Edge) -> bool {
    edge.node.get_mut().is_some_and(|node| !node.inputs.is_empty())
}

/// Drops edges. A graph may be deeper than the stack: the nodes that only they led to are taken apart in a loop.
#[inline(never)]
fn drop_edges(edges: &mut Inputs) {
    let mut rest: SmallVec<[NodeRef; 8]> = SmallVec::new();
    let take = |edges: &mut Inputs, rest: &mut SmallVec<[NodeRef; 8]>| {
        for mut edge in edges.iter_mut().filter_map(Option::take) {
            if leads_on(&mut edge) {
                rest.push(edge.node);
            }
        }
    };
    take(edges, &mut rest);
    while let Some(mut last) = rest.pop() {
        if let Some(node) = last.get_mut() {
            take(&mut node.inputs, &mut rest);
        }
    }
}
