//! Runs of pointwise operations as one operation.

use super::super::capture::Captured;
use super::edit::{Uses, is_supported, is_whole, take_out};
use crate::executor::{FAST_PATH_ELEMENTS, HybridExecutor, Operand};
use crate::storage::Storage;
use rustorch_core::{
    DType, FusedBuilder, FusedPointwise, FusedValue, Graph, GraphOperand, Node, Op, Result, Scalar, Shape,
    Source, ValueId, dispatch_dtype,
};
use smallvec::SmallVec;
use std::collections::{BTreeSet, HashMap};

pub(super) fn run(captured: &mut Captured, executor: &HybridExecutor) -> Result<()> {
    let uses = Uses::of(&captured.graph);
    let mut is_dead = vec![false; captured.graph.nodes.len()];
    // From the last operation of each run: it takes in those whose results only it reads, and theirs.
    for n in (0..captured.graph.nodes.len()).rev() {
        if is_dead[n] || !is_pointwise(&captured.graph, &captured.graph.nodes[n]) {
            continue;
        }
        let cluster = Cluster::of(captured, &uses, n);
        let Some(node) = cluster.fused()? else { continue };
        if !is_supported(executor, &captured.graph, &node) {
            continue;
        }
        let members = cluster.members;
        members.into_iter().filter(|&member| member != n).for_each(|member| is_dead[member] = true);
        captured.graph.nodes[n] = node;
    }
    take_out(captured, &is_dead);
    Ok(())
}

/// Whether a node may be a step of a fused operation that rounds as its steps do.
fn is_pointwise(graph: &Graph, node: &Node) -> bool {
    let rounds_each = |dtype: DType| !matches!(dtype, DType::F16 | DType::BF16) && !dtype.is_quant();
    let results = node.results.iter().map(|result| graph.values[result.value.index()].dtype);
    let is_step =
        node.op.pointwise_arity() == Some(node.args.len()) || matches!(node.op, Op::FusedPointwise(_));
    is_step
        && !node.op.fails_on_values()
        && node.results.len() == 1
        && node.device.is_none()
        && node.args.iter().map(|arg| arg.dtype).chain(results).all(rounds_each)
}

/// Operations that become one.
struct Cluster<'a> {
    captured: &'a Captured,
    uses: &'a Uses,
    /// The nodes, in the order of the graph. The last one's result is that of all.
    members: BTreeSet<usize>,
    /// What they read that none of them makes, but for numbers.
    inputs: Vec<GraphOperand>,
}

impl<'a> Cluster<'a> {
    /// The operations that one can take in: their results are read by it, or by others that it takes in, and by nobody else.
    fn of(captured: &'a Captured, uses: &'a Uses, last: usize) -> Cluster<'a> {
        let graph = &captured.graph;
        let mut cluster = Cluster { captured, uses, members: BTreeSet::from([last]), inputs: Vec::new() };
        cluster.inputs = cluster.inputs();
        let mut steps = step_count(&graph.nodes[last]);
        // Readers have larger numbers: when a node's turn comes, it is known which of its readers are members.
        let makers =
            |n: usize| graph.nodes[n].args.iter().filter_map(|arg| maker(graph, arg)).collect::<Vec<_>>();
        let mut candidates = BTreeSet::from_iter(makers(last));
        while let Some(n) = candidates.pop_last() {
            let node = &graph.nodes[n];
            let count = steps + step_count(node);
            if count > FusedPointwise::MAX_STEPS || !cluster.takes_in(uses, n, last) {
                continue;
            }
            cluster.members.insert(n);
            let inputs = cluster.inputs();
            if inputs.len() > FusedPointwise::MAX_INPUTS {
                cluster.members.remove(&n);
                continue;
            }
            (cluster.inputs, steps) = (inputs, count);
            candidates.extend(makers(n));
        }
        cluster
    }

    /// Whether a node can be computed where the last one is: nobody else reads it, it has the shape of the result, and what it reads is
    /// still there.
    fn takes_in(&self, uses: &Uses, n: usize, last: usize) -> bool {
        let graph = &self.captured.graph;
        let node = &graph.nodes[n];
        if !is_pointwise(graph, node) {
            return false;
        }
        let value = node.results[0].value;
        let is_seen_whole = |reader: &usize| {
            let mut seen = graph.nodes[*reader].args.iter().filter(|arg| arg.value == value);
            self.members.contains(reader) && seen.all(|arg| is_whole(graph, arg))
        };
        !uses.is_kept(value)
            && graph.values[value.index()].shape == *result_shape(graph, &graph.nodes[last])
            && uses.readers(value).iter().all(is_seen_whole)
            && node.args.iter().all(|arg| uses.lives_until(arg.value, last))
    }

    /// What the members read that none of them makes.
    fn inputs(&self) -> Vec<GraphOperand> {
        let graph = &self.captured.graph;
        let mut inputs: Vec<GraphOperand> = Vec::new();
        for arg in self.members.iter().flat_map(|&n| &graph.nodes[n].args) {
            let is_inside = maker(graph, arg).is_some_and(|n| self.members.contains(&n));
            if !is_inside && self.number(arg).is_none() && !inputs.contains(arg) {
                inputs.push(arg.clone());
            }
        }
        inputs
    }

    /// The operation that does what all do; `None` if that is one alone, or if it has no input.
    fn fused(&self) -> Result<Option<Node>> {
        let graph = &self.captured.graph;
        // One with a number is fused as well, where the number would be an argument of its own beside a few elements.
        let node = &graph.nodes[*self.members.last().expect("a cluster has members")];
        let is_small = result_shape(graph, node).numel() <= FAST_PATH_ELEMENTS
            && !matches!(node.op, Op::FusedPointwise(_))
            && node.args.iter().any(|arg| self.number(arg).is_some());
        if self.members.len() < 2 && !is_small || self.inputs.is_empty() {
            return Ok(None);
        }
        let mut builder = FusedPointwise::builder(self.inputs.len())?;
        let mut results: HashMap<ValueId, FusedValue> = HashMap::new();
        let mut last = None;
        for &n in &self.members {
            let node = &graph.nodes[n];
            let mut args: SmallVec<[FusedValue; 4]> = SmallVec::new();
            for arg in &node.args {
                args.push(match (results.get(&arg.value), self.number(arg)) {
                    (Some(&result), _) => result,
                    (None, Some(number)) => builder.constant(number, arg.dtype)?,
                    (None, None) => {
                        let i = self.inputs.iter().position(|input| input == arg);
                        builder.input(i.expect("what no member makes is an input"))?
                    }
                });
            }
            let result = steps_of(&mut builder, &node.op, &args)?;
            results.insert(node.results[0].value, result);
            last = Some((node, result));
        }
        let (node, result) = last.expect("a cluster has members");
        let op = Op::FusedPointwise(builder.finish(result)?);
        let metas: SmallVec<[_; 4]> = self.inputs.iter().map(|input| graph.meta(input)).collect();
        // The result may be larger than what the inputs broadcast to, where only numbers had its shape.
        let is_same = op.infer(&metas).is_ok_and(|outs| {
            outs[0].shape == *result_shape(graph, node) && outs[0].dtype == result_dtype(graph, node)
        });
        let args = self.inputs.clone();
        Ok(is_same.then(|| Node { op, args, results: node.results.clone(), device: None }))
    }

    /// An argument that is one number, which nobody can change.
    fn number(&self, arg: &GraphOperand) -> Option<Scalar> {
        let Source::Constant(i) = self.captured.graph.values[arg.value.index()].source else { return None };
        let storage = &self.captured.constants[i as usize];
        // One that a run returns is somebody else's from then on.
        let is_ours = storage.handles() == 1
            && !self.uses.is_kept(arg.value)
            && storage.device().is_cpu()
            && !storage.is_read_only();
        if is_ours && arg.layout.ndim() == 0 { scalar(storage, arg) } else { None }
    }
}

/// The node that makes an operand's value.
fn maker(graph: &Graph, arg: &GraphOperand) -> Option<usize> {
    match graph.values[arg.value.index()].source {
        Source::Result { node, .. } => Some(node as usize),
        _ => None,
    }
}

fn step_count(node: &Node) -> usize {
    match &node.op {
        Op::FusedPointwise(fused) => fused.steps().len(),
        _ => 1,
    }
}

fn result_shape<'a>(graph: &'a Graph, node: &'a Node) -> &'a Shape {
    let result = &node.results[0];
    result.into.as_deref().map_or(&graph.values[result.value.index()].shape, |into| into.layout.shape())
}

fn result_dtype(graph: &Graph, node: &Node) -> DType {
    let result = &node.results[0];
    result.into.as_deref().map_or(graph.values[result.value.index()].dtype, |into| into.dtype)
}

/// Adds the steps of an operation: those of a fused one.
fn steps_of(builder: &mut FusedBuilder, op: &Op, args: &[FusedValue]) -> Result<FusedValue> {
    let Op::FusedPointwise(fused) = op else { return builder.step(op.clone(), args) };
    let constants = fused.constants().iter().map(|constant| builder.constant(constant.value, constant.dtype));
    let constants = constants.collect::<Result<Vec<_>>>()?;
    let mut results: Vec<FusedValue> = Vec::new();
    for step in fused.steps() {
        let values = step.args().iter().map(|&arg| match arg {
            FusedValue::Input(i) => args[i],
            FusedValue::Constant(i) => constants[i],
            FusedValue::Step(i) => results[i],
        });
        let values: SmallVec<[FusedValue; 3]> = values.collect();
        results.push(builder.step(step.op().clone(), &values)?);
    }
    Ok(*results.last().expect("a fused operation has a step"))
}

/// The one element of an operand in host memory.
fn scalar(storage: &Storage, arg: &GraphOperand) -> Option<Scalar> {
    let operand = Operand { storage, dtype: arg.dtype, layout: &arg.layout };
    operand.check_for("program").ok()?;
    let _guard = storage.read();
    // SAFETY: checked, and guarded.
    let view = unsafe { operand.view() };
    dispatch_dtype!(arg.dtype, all, T => view.as_slice::<T>().and_then(|x| x.first()).map(|&x| x.into()), _ => None)
}
