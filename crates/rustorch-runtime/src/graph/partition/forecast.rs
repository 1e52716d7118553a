//! Where the operations of a graph will run, and how long they will take.

use super::super::capture::Captured;
use super::reason::Reason;
use crate::device_state::DeviceState;
use crate::executor::{ForeseenArg, Foresight, HybridExecutor};
use crate::storage::Storage;
use rustorch_core::{Device, Graph, Node, Op, OutputMeta, Result, Source, Verdict};
use smallvec::SmallVec;
use std::sync::Arc;

/// A graph with the tensors that it refers to.
#[derive(Clone, Copy)]
pub(in super::super) struct Parts<'a> {
    pub(in super::super) graph: &'a Graph,
    pub(in super::super) constants: &'a [Storage],
    pub(in super::super) states: &'a [Storage],
}

impl Captured {
    pub(super) fn parts(&self) -> Parts<'_> {
        Parts { graph: &self.graph, constants: &self.constants, states: &self.states }
    }
}

/// What is foreseen of the nodes and values of a graph.
pub(super) struct Forecast {
    /// By node: the device that runs it by itself, if any can. Of a region's nodes the region's.
    pub(super) runs_on: Vec<Option<Arc<DeviceState>>>,
    /// By node: how long it takes by itself, in microseconds, moving of its arguments included; infinite where no device can, 0 where that
    /// is not known.
    pub(super) us: Vec<f64>,
    /// By node: what the other devices say.
    pub(super) considered: Vec<SmallVec<[(Device, Verdict); 1]>>,
    /// By node: whether a region may grow from it.
    pub(super) is_heavy: Vec<bool>,
    /// By node and device that compiles: why placement does not give it the node.
    pub(super) kept_from: Vec<SmallVec<[Option<Reason>; 2]>>,
    /// By value: the device that will hold it.
    pub(super) homes: Vec<Arc<DeviceState>>,
}

impl Forecast {
    /// The forecast, where nodes for which `region_of` gives a device run there as parts of a region; `None` if a value is to be on a device
    /// that is not here, of which a run will say so.
    pub(super) fn new(
        parts: Parts<'_>,
        executor: &HybridExecutor,
        compilers: &[Arc<DeviceState>],
        region_of: impl Fn(usize) -> Option<Arc<DeviceState>>,
    ) -> Result<Option<Forecast>> {
        let graph = parts.graph;
        let Some(homes) = homes(parts, executor) else { return Ok(None) };
        let count = graph.nodes.len();
        let mut forecast = Forecast {
            runs_on: Vec::with_capacity(count),
            us: Vec::with_capacity(count),
            considered: Vec::with_capacity(count),
            is_heavy: Vec::with_capacity(count),
            kept_from: Vec::with_capacity(count),
            homes,
        };
        for (n, node) in graph.nodes.iter().enumerate() {
            if let Some(state) = region_of(n) {
                for result in &node.results {
                    forecast.homes[result.value.index()] = match &result.into {
                        Some(into) => Arc::clone(&forecast.homes[into.value.index()]),
                        None => Arc::clone(&state),
                    };
                }
                forecast.push(Some(state), 0.0, false);
                forecast.considered.push(SmallVec::new());
                forecast.kept_from.push(SmallVec::new());
                continue;
            }
            let at = match (&node.results[..], node.device) {
                ([first, ..], _) if first.into.is_some() => {
                    first.into.as_deref().map(|into| Arc::clone(&forecast.homes[into.value.index()]))
                }
                (_, Some(device)) => match executor.state(device) {
                    Ok(state) => Some(state),
                    Err(_) => return Ok(None),
                },
                _ => None,
            };
            let foresight = if let (Op::Copy(_), Some(state), Some(_)) = (&node.op, &at, node.device) {
                // A transfer, which is no operation of a device.
                let arg = &node.args[0];
                let bytes = rustorch_core::packed_bytes(arg.dtype, arg.layout.numel()) as u64;
                let us = executor.crossing_us(&forecast.homes[arg.value.index()], state, bytes);
                let state = || Some(Arc::clone(state));
                let (considered, sent) = (SmallVec::new(), SmallVec::new());
                Foresight { runs_on: state(), home: state(), us, considered, sent, is_heavy: false }
            } else {
                forecast.foresee(parts, node, executor, at.as_ref(), compilers)?
            };
            let placed = foresight.runs_on.as_ref().map(|state| state.device);
            let kept_from =
                foresight.sent.iter().map(|sent| sent.as_ref().err().map(|verdict| why(verdict, placed)));
            let home = foresight.home.unwrap_or_else(|| Arc::clone(executor.cpu()));
            for result in &node.results {
                forecast.homes[result.value.index()] = match &result.into {
                    Some(into) => Arc::clone(&forecast.homes[into.value.index()]),
                    None => Arc::clone(&home),
                };
            }
            let is_known = foresight.us.is_finite() || foresight.runs_on.is_none();
            let us = if is_known { foresight.us } else { 0.0 };
            forecast.kept_from.push(kept_from.collect());
            forecast.considered.push(foresight.considered);
            forecast.push(foresight.runs_on, us, foresight.is_heavy);
        }
        Ok(Some(forecast))
    }

    fn push(&mut self, runs_on: Option<Arc<DeviceState>>, us: f64, is_heavy: bool) {
        self.runs_on.push(runs_on);
        self.us.push(us);
        self.is_heavy.push(is_heavy);
    }

    fn foresee(
        &self,
        parts: Parts<'_>,
        node: &Node,
        executor: &HybridExecutor,
        at: Option<&Arc<DeviceState>>,
        compilers: &[Arc<DeviceState>],
    ) -> Result<Foresight> {
        let graph = parts.graph;
        let args: SmallVec<[ForeseenArg<'_>; 4]> = (node.args.iter())
            .map(|arg| ForeseenArg {
                dtype: arg.dtype,
                layout: &arg.layout,
                home: Arc::clone(&self.homes[arg.value.index()]),
                storage: constant(parts, graph.values[arg.value.index()].source),
            })
            .collect();
        let outs: SmallVec<[OutputMeta; 1]> = (node.results.iter())
            .map(|result| match &result.into {
                Some(into) => OutputMeta { dtype: into.dtype, shape: into.layout.shape().clone() },
                None => {
                    let value = &graph.values[result.value.index()];
                    OutputMeta { dtype: value.dtype, shape: value.shape.clone() }
                }
            })
            .collect();
        executor.foresee(&node.op, &args, &outs, at, compilers)
    }
}

/// Where the values are before a run; those of results are not known yet.
fn homes(parts: Parts<'_>, executor: &HybridExecutor) -> Option<Vec<Arc<DeviceState>>> {
    let homes = parts.graph.values.iter().map(|value| match value.source {
        Source::Constant(i) => Some(executor.home(&parts.constants[i as usize])),
        Source::State(i) => Some(executor.home(&parts.states[i as usize])),
        Source::Input(_) => executor.state(value.device).ok(),
        Source::Result { .. } => Some(Arc::clone(executor.cpu())),
    });
    homes.collect()
}

fn constant(parts: Parts<'_>, source: Source) -> Option<&Storage> {
    match source {
        Source::Constant(i) => Some(&parts.constants[i as usize]),
        _ => None,
    }
}

fn why(verdict: &Verdict, placed: Option<Device>) -> Reason {
    match verdict {
        Verdict::Excluded => Reason::Excluded,
        Verdict::Lost => Reason::Lost,
        _ => Reason::Placed(placed),
    }
}
