//! Partitioning a graph over devices: which parts of it are compiled as a whole, and for which device.
//!
//! A compiler claims nodes ([`Compiler::accepts`](rustorch_core::Compiler::accepts), as far as placement would give its device each of
//! them), convex parts grow from those that are heavy (`grow`), and each part is priced: what its nodes take one by one, by the
//! measured cost model (`forecast`), against the compiler's price, its compilation and the moving of what crosses (`price`). What pays is a region
//! (`extract`); its nodes follow each other in the graph from then on (`order`). The rest is the executor's, as without a partition.

mod dag;
mod explanation;
mod extract;
mod forecast;
mod grow;
mod options;
mod order;
mod plan;
mod price;
mod reason;
mod updates;

pub(super) use explanation::explain;
pub use explanation::{ExplainedNode, ExplainedRegion, ProgramExplanation};
pub(super) use forecast::Parts;
pub use options::ProgramOptions;
pub use plan::{Crossing, OutsideNode, PartitionPlan, RegionPlan};
pub use reason::Reason;

use super::capture::Captured;
use super::memory_plan::roots;
use super::passes::reflect_pad;
use crate::device_state::DeviceState;
use crate::executor::HybridExecutor;
use crate::transfers::TransferMethod;
use dag::Dag;
pub(super) use extract::Extracted;
use extract::Extractor;
use forecast::Forecast;
use order::Step;
use price::{Priced, Pricer};
use rustorch_core::{Compiler, Device, Graph, GraphOperand, Node, Op, Result, Rewrite, Source, ValueId};
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;

/// A region of a graph.
pub(super) struct Region {
    pub(super) state: Arc<DeviceState>,
    pub(super) nodes: Range<usize>,
    pub(super) extracted: Extracted,
}

/// What of a region is seen from outside.
pub(super) struct Sides<'a> {
    pub(super) state: &'a Arc<DeviceState>,
    pub(super) nodes: Range<usize>,
    pub(super) inputs: &'a [ValueId],
    pub(super) outputs: &'a [ValueId],
}

impl Region {
    fn sides(&self) -> Sides<'_> {
        let Region { state, nodes, extracted } = self;
        Sides { state, nodes: nodes.clone(), inputs: &extracted.inputs, outputs: &extracted.outputs }
    }
}

/// A graph's regions, whose nodes follow each other in it, as the plan says.
pub(super) struct Partition {
    pub(super) plan: PartitionPlan,
    pub(super) regions: Vec<Region>,
    /// By node of the graph: the device that is expected to run it.
    pub(super) runs_on: Vec<Option<Arc<DeviceState>>>,
}

/// Partitions a graph, whose nodes may then be in another order; `None` if no device compiles, and the graph is as it was.
///
/// # Errors
/// If the environment asks for a fallback order that makes no sense.
pub(super) fn partition(
    captured: &mut Captured,
    executor: &HybridExecutor,
    options: ProgramOptions,
) -> Result<Option<Partition>> {
    let storages = captured.constants.iter().chain(&captured.states);
    let (compilers, others) = executor.compilers(storages.map(|storage| executor.home(storage)))?;
    if compilers.is_empty() {
        return Ok(None);
    }
    let planner = Planner { executor, compilers, others, options };
    if let Some(mut rewritten) = planner.rewritten(captured)?
        && let Some(partition) = planner.partition(&mut rewritten)?
        && !partition.regions.is_empty()
    {
        *captured = rewritten;
        return Ok(Some(partition));
    }
    planner.partition(captured)
}

impl PartitionPlan {
    /// The plan of a program of this graph, without compiling anything; `None` if no device compiles. The nodes are put into the order of
    /// the plan, after the changes that compilers ask for.
    ///
    /// # Errors
    /// If [`Graph::verify`] refuses the graph, or the environment asks for a fallback order that makes no sense.
    pub fn new(
        executor: &HybridExecutor,
        captured: &mut Captured,
        options: ProgramOptions,
    ) -> Result<Option<PartitionPlan>> {
        captured.graph.verify()?;
        Ok(partition(captured, executor, options)?.map(|partition| partition.plan))
    }
}

struct Planner<'a> {
    executor: &'a HybridExecutor,
    compilers: Vec<Arc<DeviceState>>,
    others: Vec<Device>,
    options: ProgramOptions,
}

/// What is decided so far.
struct Decisions {
    /// By node: its region.
    region_of: Vec<Option<u32>>,
    /// By node: the device of its region.
    state_of: Vec<Option<Arc<DeviceState>>>,
    /// The regions' nodes.
    members: Vec<Vec<u32>>,
    regions: Vec<(Arc<DeviceState>, Priced)>,
    /// By node: why it is in no region, by device.
    reasons: Vec<SmallVec<[(Device, Reason); 1]>>,
}

impl Planner<'_> {
    /// The graph after what compilers ask for; `None` if that changes nothing.
    fn rewritten(&self, captured: &Captured) -> Result<Option<Captured>> {
        let compilers = self.compilers.iter().filter_map(|state| state.backend.compiler());
        let asking: Vec<&dyn Compiler> =
            compilers.filter(|compiler| compiler.rewrites().contains(&Rewrite::ReflectPad)).collect();
        if asking.is_empty() {
            return Ok(None);
        }
        let gains = |before: &Graph, after: &Graph, node: usize| {
            let gains = |compiler: &&dyn Compiler| {
                compiler.accepts(before, node).is_err() && compiler.accepts(after, node).is_ok()
            };
            asking.iter().any(gains)
        };
        reflect_pad::rewritten(captured, self.executor, gains)
    }

    fn partition(&self, captured: &mut Captured) -> Result<Option<Partition>> {
        let dag = Dag::new(&captured.graph);
        let count = captured.graph.nodes.len();
        let Some(forecast) = Forecast::new(captured.parts(), self.executor, &self.compilers, |_| None)?
        else {
            return Ok(None);
        };
        let mut decisions = Decisions {
            region_of: vec![None; count],
            state_of: vec![None; count],
            members: Vec::new(),
            regions: Vec::new(),
            reasons: vec![SmallVec::new(); count],
        };
        let mut steps: Vec<Step> = (0..count).map(Step::Node).collect();
        for (i, state) in self.compilers.iter().enumerate() {
            let Some(compiler) = state.backend.compiler() else { continue };
            let before = decisions.members.len();
            self.add_regions(&captured.graph, &dag, &forecast, (i, state, compiler), &steps, &mut decisions);
            if decisions.members.len() > before {
                let ordered = order::steps(&dag, &decisions.region_of, &decisions.members);
                debug_assert!(ordered.is_some(), "regions of a graph can follow each other");
                // Never, as parts are grown; but a program without regions is better than one in a wrong order.
                let Some(ordered) = ordered else { return Ok(None) };
                steps = ordered;
            }
        }
        self.assembled(captured, forecast, &steps, decisions).map(Some)
    }

    /// Adds the regions of a device.
    fn add_regions(
        &self,
        graph: &Graph,
        dag: &Dag,
        forecast: &Forecast,
        (i, state, compiler): (usize, &Arc<DeviceState>, &dyn Compiler),
        steps: &[Step],
        decisions: &mut Decisions,
    ) {
        let device = state.device;
        let states = compiler.takes_states().then(|| roots(graph));
        let mut is_claimed = vec![false; graph.nodes.len()];
        for (n, node) in graph.nodes.iter().enumerate() {
            if decisions.region_of[n].is_some() {
                continue;
            }
            let reason = structural(graph, dag, node, device, states.as_deref());
            let reason = reason.or_else(|| forecast.kept_from[n][i].clone());
            let reason = reason.or_else(|| compiler.accepts(graph, n).err().map(Reason::Declined));
            match reason {
                Some(reason) => decisions.reasons[n].push((device, reason)),
                None => is_claimed[n] = true,
            }
        }
        let us = |part: &[u32]| part.iter().map(|node| forecast.us[*node as usize]).sum::<f64>();
        let mut parts: Vec<(f64, Vec<u32>)> = grow::grow(dag, steps, &decisions.members, &is_claimed)
            .into_iter()
            .map(|part| (us(&part), part))
            .collect();
        // Those with most to gain first: what is next to them has less to move.
        parts.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut pricer = Pricer {
            graph,
            dag,
            executor: self.executor,
            forecast,
            state,
            compiler,
            expected_runs: self.options.expected_runs.max(1) as f64,
            extractor: Extractor::new(graph, dag),
            is_inside: vec![false; graph.nodes.len()],
        };
        for (_, part) in parts {
            let is_heavy = part.iter().any(|node| forecast.is_heavy[*node as usize]);
            let priced = match is_heavy {
                true => pricer.profitable(part.clone(), &decisions.state_of),
                false => Err(Reason::Light),
            };
            let reason = match priced {
                Ok(priced) => {
                    let region = decisions.members.len() as u32;
                    for node in &priced.nodes {
                        decisions.region_of[*node as usize] = Some(region);
                        decisions.state_of[*node as usize] = Some(Arc::clone(state));
                    }
                    decisions.members.push(priced.nodes.clone());
                    decisions.regions.push((Arc::clone(state), priced));
                    Reason::Trimmed
                }
                Err(reason) => reason,
            };
            for node in part.iter().map(|node| *node as usize) {
                if decisions.region_of[node].is_none() {
                    decisions.reasons[node].push((device, reason.clone()));
                }
            }
        }
    }

    /// Puts the graph into the order of the steps, and makes the plan of it.
    fn assembled(
        &self,
        captured: &mut Captured,
        forecast: Forecast,
        steps: &[Step],
        decisions: Decisions,
    ) -> Result<Partition> {
        let Decisions { members, regions, mut reasons, .. } = decisions;
        let mut plan = PartitionPlan {
            expected_runs: self.options.expected_runs,
            compilers: self.compilers.iter().map(|state| state.device).collect(),
            others: self.others.clone(),
            ..PartitionPlan::default()
        };
        let mut regions: Vec<Option<_>> = regions.into_iter().map(Some).collect();
        let mut ordered = Vec::with_capacity(regions.len());
        let mut next = 0;
        for step in steps {
            match step {
                Step::Node(node) => {
                    plan.outside.push(OutsideNode {
                        node: next,
                        op: captured.graph.nodes[*node].op.name(),
                        device: None,
                        reasons: std::mem::take(&mut reasons[*node]),
                    });
                    next += 1;
                }
                Step::Region(region) => {
                    let (state, priced): (Arc<DeviceState>, Priced) =
                        regions[*region].take().expect("each region is one step");
                    let nodes = next..next + priced.nodes.len();
                    next = nodes.end;
                    plan.regions.push(RegionPlan {
                        device: state.device,
                        nodes: nodes.clone(),
                        run_us: priced.run_us,
                        outside_us: priced.outside_us,
                        compile_us: priced.compile_us,
                        crossing_us: priced.crossing_us,
                        inputs: Vec::new(),
                        outputs: Vec::new(),
                    });
                    ordered.push(Region { state, nodes, extracted: priced.extracted });
                }
            }
        }
        if !ordered.is_empty() {
            order::arrange(&mut captured.graph, steps, &members);
            if cfg!(debug_assertions) {
                captured.graph.verify()?;
            }
        }
        let sides: Vec<Sides<'_>> = ordered.iter().map(Region::sides).collect();
        let runs_on = match sides.is_empty() {
            true => settle_as(&mut plan, captured, self.executor, &sides, forecast),
            false => settle(&mut plan, captured, self.executor, &sides)?,
        };
        Ok(Partition { plan, regions: ordered, runs_on })
    }
}

/// Says in a plan where nodes are expected to run, and what crosses between devices; returns the device of each node.
///
/// # Errors
/// If the environment asks for a fallback order that makes no sense.
pub(super) fn settle(
    plan: &mut PartitionPlan,
    captured: &Captured,
    executor: &HybridExecutor,
    regions: &[Sides<'_>],
) -> Result<Vec<Option<Arc<DeviceState>>>> {
    let count = captured.graph.nodes.len();
    let mut state_of: Vec<Option<&Arc<DeviceState>>> = vec![None; count];
    regions.iter().for_each(|region| state_of[region.nodes.clone()].fill(Some(region.state)));
    let forecast = Forecast::new(captured.parts(), executor, &[], |node| state_of[node].cloned())?;
    Ok(match forecast {
        Some(forecast) => settle_as(plan, captured, executor, regions, forecast),
        // Not here any more: a device that was there when the graph was partitioned.
        None => vec![None; count],
    })
}

/// [`settle`], by a forecast that knows of the regions.
fn settle_as(
    plan: &mut PartitionPlan,
    captured: &Captured,
    executor: &HybridExecutor,
    regions: &[Sides<'_>],
    forecast: Forecast,
) -> Vec<Option<Arc<DeviceState>>> {
    let graph = &captured.graph;
    let mut is_inside = vec![false; graph.nodes.len()];
    regions.iter().for_each(|region| is_inside[region.nodes.clone()].fill(true));
    let dag = Dag::new(graph);
    let crossings = Crossings { graph, executor, forecast: &forecast };
    plan.copies = crossings.copies(&is_inside);
    for (planned, region) in plan.regions.iter_mut().zip(regions) {
        (planned.inputs, planned.outputs) = crossings.of_region(&dag, region);
    }
    for outside in &mut plan.outside {
        outside.device = forecast.runs_on[outside.node].as_ref().map(|state| state.device);
    }
    forecast.runs_on
}

/// Why a node can be in no region of a device, whatever its compiler can do with its operation. `roots` are given if the compiler takes states: by value,
/// the first one in its memory.
fn structural(
    graph: &Graph,
    dag: &Dag,
    node: &Node,
    device: Device,
    roots: Option<&[ValueId]>,
) -> Option<Reason> {
    let mut into = node.results.iter().filter_map(|result| result.into.as_deref());
    if !into.all(|into| roots.is_some_and(|roots| is_whole_state(graph, roots, into))) {
        return Some(Reason::InPlace);
    }
    if node.op.philox_key().is_some() {
        return Some(Reason::Random);
    }
    match (&node.op, node.device) {
        (Op::Custom(_), _) => Some(Reason::Custom),
        (_, Some(_)) if !node.args.is_empty() => Some(Reason::Transfer),
        // What somebody sees of it has to be where it was asked for.
        (_, Some(asked)) if asked != device => {
            let is_seen = |id: ValueId| {
                let into = |reader: &u32| graph.nodes[*reader as usize].results.iter();
                dag.is_output(id)
                    || dag
                        .readers(id)
                        .iter()
                        .flat_map(into)
                        .any(|result| result.into.as_deref().is_some_and(|into| into.value == id))
            };
            let is_seen = node.results.iter().any(|result| is_seen(result.value));
            is_seen.then_some(Reason::Placed(Some(asked)))
        }
        _ => None,
    }
}

/// Whether an operand is all of a state, in the order of its memory.
fn is_whole_state(graph: &Graph, roots: &[ValueId], operand: &GraphOperand) -> bool {
    let root = &graph.values[roots[operand.value.index()].index()];
    let GraphOperand { dtype, layout, .. } = operand;
    matches!(root.source, Source::State(_))
        && *dtype == root.dtype
        && layout.is_contiguous()
        && layout.offset() == 0
        && layout.numel() == root.shape.numel()
}

/// What goes from one device to another.
struct Crossings<'a> {
    graph: &'a Graph,
    executor: &'a HybridExecutor,
    forecast: &'a Forecast,
}

impl Crossings<'_> {
    /// A value that a device needs, if another one holds it.
    fn one(&self, value: ValueId, to: &Arc<DeviceState>) -> Option<Crossing> {
        self.between(value, &self.forecast.homes[value.index()], to)
    }

    fn between(&self, value: ValueId, from: &Arc<DeviceState>, to: &Arc<DeviceState>) -> Option<Crossing> {
        let bytes = self.graph.values[value.index()].bytes() as u64;
        if Arc::ptr_eq(from, to) || bytes == 0 {
            return None;
        }
        let method = match self.executor.reads(to, from) {
            true => TransferMethod::Alias,
            // What the first transfer of a pair finds out is not known before.
            false => {
                self.executor.transfers().method(from.device, to.device).unwrap_or(TransferMethod::Staging)
            }
        };
        Some(Crossing { value, from: from.device, to: to.device, bytes, method })
    }

    /// The values that cross into a region and out of it.
    fn of_region(&self, dag: &Dag, region: &Sides<'_>) -> (Vec<Crossing>, Vec<Crossing>) {
        let inputs = region.inputs.iter().filter_map(|id| self.one(*id, region.state)).collect();
        let mut outputs: Vec<Crossing> = Vec::new();
        for id in region.outputs {
            let first = outputs.len();
            let readers = dag.readers(*id).iter().map(|reader| *reader as usize);
            let devices = readers.filter_map(|reader| self.forecast.runs_on[reader].as_ref());
            for crossing in devices.filter_map(|device| self.one(*id, device)) {
                if !outputs[first..].contains(&crossing) {
                    outputs.push(crossing);
                }
            }
        }
        (inputs, outputs)
    }

    /// What a run copies: each value once for each device that reads it, and once for each node that moves it; results that are wanted
    /// elsewhere than where they are computed, as of writing in place. Constants of regions are moved when these are compiled.
    fn copies(&self, is_inside: &[bool]) -> Vec<Crossing> {
        let mut copies: Vec<Crossing> = Vec::new();
        let mut transfers: Vec<Crossing> = Vec::new();
        for (n, node) in self.graph.nodes.iter().enumerate() {
            let Some(state) = &self.forecast.runs_on[n] else { continue };
            let list = if is_transfer(node) { &mut transfers } else { &mut copies };
            let is_constant =
                |id: ValueId| matches!(self.graph.values[id.index()].source, Source::Constant(_));
            let read = node.args.iter().map(|arg| arg.value).filter(|id| !(is_inside[n] && is_constant(*id)));
            list.extend(read.filter_map(|id| self.one(id, state)));
            let made = node.results.iter().map(|result| result.value);
            transfers.extend(made.filter_map(|id| self.between(id, state, &self.forecast.homes[id.index()])));
        }
        copies.sort_unstable();
        copies.dedup();
        copies.extend(transfers);
        copies.retain(|copy| copy.method != TransferMethod::Alias);
        copies
    }
}

/// Whether a node moves its argument to a device.
pub(super) fn is_transfer(node: &Node) -> bool {
    node.device.is_some() && matches!(node.op, Op::Copy(_))
}
