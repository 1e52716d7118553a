//! The backward pass: from the gradients of some results to those of leaves, node by node.
//!
//! The order depends on the graph alone: what is deeper comes first, and of one depth what was reached first, from the outputs along the
//! edges in order. So each node is visited when all that depends on it has been, and sums have the same bits on every run.

use super::context::{Context, Grads};
use super::history::Edge;
use super::leaf_log::GradChange;
use super::node::{Kind, Leaf, Meta, Node, NodeRef};
use super::rule;
use super::{Autocast, GradMode, anomaly, autocast, fit, leaf_log};
use crate::Tensor;
use rustc_hash::FxHashMap;
use rustorch_core::{Error, Result, ViewOp};
use rustorch_runtime::HybridExecutor;
use smallvec::SmallVec;
use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::Ordering;

/// What a backward pass is asked for.
pub(crate) struct Pass<'a> {
    /// Whether saved tensors are kept for another pass.
    pub(crate) retain_graph: bool,
    /// Whether the pass itself is recorded.
    pub(crate) create_graph: bool,
    /// The results whose gradients are wanted; without, all leaves'.
    pub(crate) inputs: Option<&'a [Edge]>,
    /// Whether leaves keep the sum of their gradients; else the pass returns those of `inputs`.
    pub(crate) accumulate: bool,
}

type AddressMap<T> = FxHashMap<usize, T>;

fn address(node: &Node) -> usize {
    std::ptr::from_ref(node).addr()
}

/// Elements up to which a new sum takes less time than writing in place, which keeps readers out.
const FEW: usize = 64;

/// The gradient of a result so far.
#[derive(Default)]
struct Slot {
    sum: Option<Tensor>,
    /// Whether the sum is the pass's own, so that it may be written.
    owned: bool,
}

impl Slot {
    fn add(&mut self, grad: Tensor, create_graph: bool) -> Result<()> {
        match &self.sum {
            None => self.sum = Some(grad),
            Some(sum) if self.owned && !create_graph && sum.numel() > FEW => sum.add_(&grad)?,
            Some(sum) => {
                self.sum = Some(sum.add(&grad)?);
                self.owned = true;
            }
        }
        Ok(())
    }

    /// Adds the gradient of a view of part of the result.
    fn add_part(&mut self, op: &ViewOp, grad: &Tensor, result: &Meta) -> Result<()> {
        let (sum, fresh) = match self.sum.take() {
            Some(sum) if self.owned => (sum, false),
            Some(sum) => (sum.copy()?, false),
            None => (Tensor::zeros(result.shape.clone(), (grad.dtype(), grad.device()))?, true),
        };
        self.owned = true;
        let part = crate::dispatch::view(self.sum.insert(sum), op)?;
        if fresh { part.copy_(grad) } else { part.add_(grad) }
    }
}

/// A node that has got a gradient.
struct Task<'g> {
    node: &'g NodeRef,
    slots: SmallVec<[Slot; 1]>,
    /// Whether the node is [marked](Node::mark) with the task's place.
    is_marked: bool,
}

impl Drop for Task<'_> {
    fn drop(&mut self) {
        if self.is_marked {
            self.node.mark.store(0, Ordering::Relaxed);
        }
    }
}

/// What is to do. The graph is borrowed from the roots.
#[derive(Default)]
struct Schedule<'g> {
    tasks: Vec<Option<Task<'g>>>,
    /// Where the tasks of nodes are that another pass has marked.
    places: AddressMap<usize>,
    queue: BinaryHeap<(u64, Reverse<usize>)>,
}

thread_local! {
    /// Small graphs would spend more time on the memory of a schedule than on their operations.
    static SPARE: Cell<Schedule<'static>> = Cell::default();
}

/// Tasks for which the memory is kept.
const MOST_KEPT: usize = 1 << 10;

impl<'g> Schedule<'g> {
    /// An empty schedule, with the memory of the last one.
    fn new() -> Schedule<'g> {
        SPARE.try_with(Cell::take).unwrap_or_default().emptied()
    }

    /// The memory for tasks of another graph.
    fn emptied<'h>(mut self) -> Schedule<'h> {
        self.tasks.clear();
        self.places.clear();
        self.queue.clear();
        // Of no element, and in place.
        let tasks = self.tasks.into_iter().map(|_| None).collect();
        Schedule { tasks, places: self.places, queue: self.queue }
    }

    fn next(&mut self) -> Option<Task<'g>> {
        self.queue.pop().and_then(|(_, Reverse(place))| self.tasks[place].take())
    }

    /// The place of a node's task, which is new if it has none.
    fn place_of(&mut self, node: &'g NodeRef) -> usize {
        let Schedule { tasks, places, queue } = self;
        let mark = node.mark.load(Ordering::Relaxed);
        let is_its = |task: &Option<Task<'g>>| task.as_ref().is_some_and(|task| task.node.same(node));
        if mark != 0 && tasks.get(mark - 1).is_some_and(is_its) {
            return mark - 1;
        }
        if !places.is_empty()
            && let Some(&place) = places.get(&address(node))
        {
            return place;
        }
        let place = tasks.len();
        let marked = node.mark.compare_exchange(0, place + 1, Ordering::Relaxed, Ordering::Relaxed);
        if marked.is_err() {
            places.insert(address(node), place);
        }
        let mut slots = SmallVec::new();
        for _ in node.outputs() {
            slots.push(Slot::default());
        }
        tasks.push(Some(Task { node, slots, is_marked: marked.is_ok() }));
        queue.push((node.depth, Reverse(place)));
        place
    }

    /// Keeps the memory of a schedule in which nothing is left to do.
    fn keep(self) {
        if self.tasks.capacity() <= MOST_KEPT {
            // A thread that ends keeps nothing.
            let _ = SPARE.try_with(|spare| spare.set(self.emptied()));
        }
    }
}

struct Engine<'g> {
    pass: &'g Pass<'g>,
    schedule: Schedule<'g>,
    /// Nodes from which a path leads to a wanted input; none where all are wanted.
    useful: Option<AddressMap<bool>>,
    /// The gradients of the wanted inputs.
    captured: Vec<Option<Tensor>>,
}

/// Runs a backward pass from results with their gradients.
pub(crate) fn run(
    roots: &[Edge],
    grads: impl IntoIterator<Item = Tensor>,
    pass: &Pass<'_>,
) -> Result<Vec<Option<Tensor>>> {
    let mut engine = Engine {
        pass,
        schedule: Schedule::new(),
        useful: pass.inputs.map(|inputs| useful(roots, inputs)),
        captured: vec![None; pass.inputs.map_or(0, <[Edge]>::len)],
    };
    let _mode = GradMode::new(pass.create_graph);
    // Gradients compute in the dtypes of what they are the gradients of.
    let _scope = autocast::is_active().then(|| Autocast::new(None)).transpose()?;
    for (edge, grad) in roots.iter().zip(grads) {
        engine.push(edge, grad)?;
    }
    while let Some(task) = engine.schedule.next() {
        engine.visit(task)?;
    }
    engine.schedule.keep();
    Ok(engine.captured)
}

impl<'g> Engine<'g> {
    fn is_useful(&self, node: &NodeRef) -> bool {
        self.useful.as_ref().is_none_or(|useful| useful.get(&address(node)).copied().unwrap_or(false))
    }

    fn push(&mut self, edge: &'g Edge, grad: Tensor) -> Result<()> {
        let create_graph = self.pass.create_graph;
        self.slot(edge).map_or(Ok(()), |slot| slot.add(grad, create_graph))
    }

    /// Where the gradient of a result is summed.
    fn slot(&mut self, edge: &'g Edge) -> Option<&mut Slot> {
        let place = self.schedule.place_of(&edge.node);
        self.schedule.tasks[place].as_mut().map(|task| &mut task.slots[edge.index])
    }

    fn visit(&mut self, mut task: Task<'g>) -> Result<()> {
        let node = task.node;
        // Lists are pushed to: collecting one of an element or two takes several times as long.
        let mut grads: SmallVec<[Option<Tensor>; 1]> = SmallVec::new();
        for slot in &mut task.slots {
            grads.push(slot.sum.take());
        }
        drop(task);
        if let Some(hooks) = node.hooks() {
            for (index, place) in grads.iter_mut().enumerate() {
                if let Some(grad) = place.take() {
                    let grad = expect_same_kind(node, index, hooks.call(index, grad)?)?;
                    hooks.retained(index, |kept| *kept = Some(grad.clone()));
                    *place = Some(grad);
                }
            }
        }
        for (captured, edge) in self.captured.iter_mut().zip(self.pass.inputs.unwrap_or_default()) {
            if edge.node.same(node) {
                captured.clone_from(&grads[edge.index]);
            }
        }
        if let Kind::Leaf(leaf) = &node.kind {
            if let Some(Some(grad)) = grads.pop()
                && self.pass.accumulate
                && leaf.requires_grad()
            {
                accumulate(node, leaf, grad, self.pass.create_graph)?;
            }
            return Ok(());
        }
        let mut needed: SmallVec<[bool; 4]> = SmallVec::new();
        for edge in &node.inputs {
            needed.push(
                edge.as_ref().is_some_and(|Edge { node, .. }| node.requires_grad() && self.is_useful(node)),
            );
        }
        if !needed.contains(&true) {
            return Ok(());
        }
        if let (Kind::View(op), Some(Some(grad)), [Some(edge)]) =
            (&node.kind, grads.first(), &node.inputs[..])
            && op.is_slice()
            && grad.dtype() == node.input(0).dtype
            && !self.pass.create_graph
            && !anomaly::is_enabled()
        {
            // Without zeros around it: many parts of one tensor would take time by their square.
            return self.slot(edge).map_or(Ok(()), |slot| slot.add_part(op, grad, node.input(0)));
        }
        let results = self.differentiate(node, &grads, &needed)?;
        drop(grads);
        for (i, ((grad, edge), needed)) in results.into_iter().zip(&node.inputs).zip(needed).enumerate() {
            if let (Some(grad), Some(edge), true) = (grad, edge, needed) {
                if anomaly::is_enabled() {
                    anomaly::expect_number(node, i, &grad)?;
                }
                self.push(edge, fit::fit(grad, node.input(i), node.name())?)?;
            }
        }
        Ok(())
    }

    fn differentiate(&self, node: &NodeRef, grads: &[Option<Tensor>], needed: &[bool]) -> Result<Grads> {
        let tensors = match self.pass.retain_graph {
            true => node.saved().unpack(node, self.pass.create_graph)?,
            false => node.saved().take(node)?,
        };
        let cx = Context { node, grads, needed, tensors: &tensors };
        match &node.kind {
            Kind::Op { op, .. } => rule::of(op).backward(&cx),
            Kind::View(op) => rule::view::backward(op, &cx),
            Kind::Transfer => cx.first(|| cx.grad().cloned()),
            Kind::Function(function) => function.backward(&cx, self.pass.create_graph),
            Kind::Leaf(_) => Ok(Grads::new()),
        }
    }
}

/// Which nodes have a path to one of the wanted inputs' nodes. Iterative: a graph may be deeper than the stack.
fn useful(roots: &[Edge], inputs: &[Edge]) -> AddressMap<bool> {
    let mut useful: AddressMap<bool> = inputs.iter().map(|edge| (address(&edge.node), true)).collect();
    let least = inputs.iter().map(|edge| edge.node.depth).min().unwrap_or(u64::MAX);
    let mut seen: AddressMap<()> = AddressMap::default();
    // A node, and whether what it depends on has been looked at.
    let mut stack: Vec<(&Node, bool)> = roots.iter().map(|edge| (&*edge.node, false)).collect();
    while let Some((node, done)) = stack.pop() {
        let place = address(node);
        if done {
            if node.edges().any(|edge| useful.contains_key(&address(&edge.node))) {
                useful.insert(place, true);
            }
        } else if node.depth >= least && seen.insert(place, ()).is_none() {
            stack.push((node, true));
            stack.extend(node.edges().map(|edge| (&*edge.node, false)));
        }
    }
    useful
}

/// Adds to the gradient of a leaf.
fn accumulate(node: &NodeRef, leaf: &Leaf, grad: Tensor, create_graph: bool) -> Result<()> {
    {
        let mut place = leaf.grad();
        let in_place =
            !create_graph && place.as_mut().is_some_and(|sum| sum.is_only_handle() && is_exclusive(sum));
        leaf_log::touch(node, &place, if in_place { GradChange::AddInPlace } else { GradChange::Add })?;
        *place = Some(match place.take() {
            // Whoever writes to a gradient in place must not write to somebody else's.
            None if create_graph || (is_exclusive(&grad) && grad.is_contiguous()) => grad,
            None => grad.copy()?,
            Some(sum) => {
                let new = if in_place { sum.add_(&grad).map(|()| None) } else { sum.add(&grad).map(Some) };
                match new {
                    Ok(new) => new.unwrap_or(sum),
                    Err(error) => {
                        *place = Some(sum);
                        return Err(error);
                    }
                }
            }
        });
    }
    for (tensor, hook) in node.hooks().map(|hooks| hooks.of_leaf()).unwrap_or_default() {
        // The leaf itself: another handle to its memory and its node.
        let leaf = tensor.detach();
        leaf.history().set_fresh(Edge { node: node.clone(), index: 0 });
        hook(&leaf)?;
    }
    Ok(())
}

/// Whether nobody else has the memory, but a capture.
fn is_exclusive(x: &Tensor) -> bool {
    let storage = x.storage();
    match storage.handles() {
        1 => true,
        // Counted as a handle first: read last, the handles are not fewer.
        _ => {
            let passive = storage.passive_handles();
            storage.handles().saturating_sub(passive) == 1
                && HybridExecutor::with_current(HybridExecutor::is_capturing)
        }
    }
}

/// Checks what a hook returned.
fn expect_same_kind(node: &Node, index: usize, grad: Tensor) -> Result<Tensor> {
    let Meta { shape, dtype, .. } = &node.outputs()[index];
    if grad.shape() == shape && grad.dtype() == *dtype {
        return Ok(grad);
    }
    Err(Error::argument(
        "register_hook",
        format!("a hook returned {}{} for a gradient of {dtype}{shape}", grad.dtype(), grad.shape()),
    ))
}
