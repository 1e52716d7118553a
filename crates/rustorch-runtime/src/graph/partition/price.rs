//! What a region saves, and leaving out what costs more than it saves.

use super::dag::Dag;
use super::extract::{Extracted, Extractor};
use super::forecast::Forecast;
use super::reason::Reason;
use crate::device_state::DeviceState;
use crate::executor::HybridExecutor;
use rustorch_core::{Compiler, Graph, Source, ValueId};
use smallvec::SmallVec;
use std::sync::Arc;

/// Readers of a value beyond which one node more or less is taken to change nothing about where it is needed.
const MOST_READERS: usize = 64;

/// Prices the regions of a device.
pub(super) struct Pricer<'a> {
    pub(super) graph: &'a Graph,
    pub(super) dag: &'a Dag,
    pub(super) executor: &'a HybridExecutor,
    pub(super) forecast: &'a Forecast,
    pub(super) state: &'a Arc<DeviceState>,
    pub(super) compiler: &'a dyn Compiler,
    pub(super) expected_runs: f64,
    pub(super) extractor: Extractor<'a>,
    /// By node: whether it is in the part that is looked at.
    pub(super) is_inside: Vec<bool>,
}

/// A part of a graph with its price, in microseconds.
pub(super) struct Priced {
    pub(super) nodes: Vec<u32>,
    pub(super) extracted: Extracted,
    pub(super) run_us: f64,
    pub(super) outside_us: f64,
    pub(super) compile_us: f64,
    pub(super) crossing_us: f64,
    /// What is paid once: compiling, and moving constants.
    once_us: f64,
}

impl Priced {
    /// What a run saves.
    fn saved_us(&self) -> f64 {
        self.outside_us - self.run_us - self.crossing_us
    }

    /// What so many runs save.
    fn profit(&self, runs: f64) -> f64 {
        self.saved_us() * runs - self.once_us
    }
}

impl Pricer<'_> {
    /// The part, or what is left of it without nodes at its border that cost more than they save, if that pays. `regions` gives the device of
    /// each node that is in a region already.
    ///
    /// # Errors
    /// Why neither pays.
    pub(super) fn profitable(
        &mut self,
        part: Vec<u32>,
        regions: &[Option<Arc<DeviceState>>],
    ) -> Result<Priced, Reason> {
        part.iter().for_each(|node| self.is_inside[*node as usize] = true);
        let result = self.best(&part, regions);
        part.iter().for_each(|node| self.is_inside[*node as usize] = false);
        result
    }

    fn best(&mut self, part: &[u32], regions: &[Option<Arc<DeviceState>>]) -> Result<Priced, Reason> {
        let whole = self.priced(part.to_vec(), regions)?;
        let trimmed = self.trimmed(&whole, regions);
        let trimmed = match trimmed.len() == part.len() || trimmed.is_empty() {
            true => None,
            false => self.priced(trimmed, regions).ok(),
        };
        let runs = self.expected_runs;
        let best = match trimmed {
            Some(trimmed) if trimmed.profit(runs) > whole.profit(runs) => trimmed,
            _ => whole,
        };
        match best.profit(runs) > 0.0 {
            true => Ok(best),
            false => Err(Reason::Unprofitable { saved_us: best.saved_us(), compile_us: best.once_us }),
        }
    }

    /// The price of exactly these nodes, which are those inside.
    fn priced(&mut self, nodes: Vec<u32>, regions: &[Option<Arc<DeviceState>>]) -> Result<Priced, Reason> {
        let device = self.state.device;
        let is_inside = &self.is_inside;
        let extracted = self.extractor.extract(&nodes, |node| is_inside[node as usize], device);
        let is_time = |seconds: &f64| seconds.is_finite() && *seconds >= 0.0;
        let price = self.compiler.price(&extracted.graph);
        let price = price.filter(|price| is_time(&price.run) && is_time(&price.compile));
        let price = price.ok_or(Reason::Unpriced)?;
        let crossing = |id: &ValueId| self.crossing_us(*id, regions);
        let is_kept = |(i, id): &(usize, &ValueId)| {
            let is_updated = extracted.updates.iter().any(|update| update.input == *i);
            is_updated && self.compiler.keeps(&self.graph.values[id.index()])
        };
        let given = extracted.inputs.iter().enumerate().filter(|input| !is_kept(input)).map(|(_, id)| id);
        let crossing_us = given.chain(&extracted.outputs).map(crossing).sum();
        let constants = extracted.constants.iter().map(|id| {
            let home = &self.forecast.homes[id.index()];
            self.executor.crossing_us(home, self.state, self.graph.values[id.index()].bytes() as u64)
        });
        let (run_us, compile_us) = (1e6 * price.run, 1e6 * price.compile);
        let once_us = compile_us + constants.sum::<f64>();
        let alone = nodes.iter().map(|node| self.forecast.us[*node as usize]).sum::<f64>();
        let alone_crossing = extracted.outputs.iter().map(|id| self.alone_crossing_us(*id, regions));
        let outside_us = alone + alone_crossing.sum::<f64>();
        Ok(Priced { nodes, extracted, run_us, outside_us, compile_us, crossing_us, once_us })
    }

    /// What the crossing of a value costs in each run, in microseconds: into the part, or out of it to each device that needs it.
    fn crossing_us(&self, id: ValueId, regions: &[Option<Arc<DeviceState>>]) -> f64 {
        let value = &self.graph.values[id.index()];
        let bytes = value.bytes() as u64;
        let readers = self.dag.readers(id);
        let maker = match value.source {
            Source::Result { node, .. } => Some(node as usize),
            Source::Constant(_) => return 0.0,
            _ => None,
        };
        if maker.is_none_or(|maker| !self.is_inside[maker]) {
            if !readers.iter().any(|reader| self.is_inside[*reader as usize]) {
                return 0.0;
            }
            let region = maker.and_then(|maker| regions[maker].as_ref());
            let home = region.unwrap_or(&self.forecast.homes[id.index()]);
            return self.executor.crossing_us(home, self.state, bytes);
        }
        self.sending_us(self.state, id, regions)
    }

    /// What the crossing of a value that the part makes would cost, if its node ran by itself where it is expected to.
    fn alone_crossing_us(&self, id: ValueId, regions: &[Option<Arc<DeviceState>>]) -> f64 {
        self.sending_us(&self.forecast.homes[id.index()], id, regions)
    }

    /// The moving of a value from a device to each one that needs it outside the part.
    fn sending_us(&self, from: &Arc<DeviceState>, id: ValueId, regions: &[Option<Arc<DeviceState>>]) -> f64 {
        let mut devices: SmallVec<[&Arc<DeviceState>; 4]> = SmallVec::new();
        let readers = self.dag.readers(id).iter().map(|reader| *reader as usize);
        let needing = readers
            .filter(|reader| !self.is_inside[*reader])
            .filter_map(|reader| regions[reader].as_ref().or(self.forecast.runs_on[reader].as_ref()));
        let returned = self.dag.is_output(id).then(|| &self.forecast.homes[id.index()]);
        for device in needing.chain(returned) {
            if !devices.iter().any(|known| Arc::ptr_eq(known, device)) {
                devices.push(device);
            }
        }
        let bytes = self.graph.values[id.index()].bytes() as u64;
        devices.iter().map(|device| self.executor.crossing_us(from, device, bytes)).sum()
    }

    /// The part without nodes at its border whose leaving out saves more moving than they save time: first from its end, then from its
    /// beginning. What is left is convex, since nothing of it comes behind the former or before the latter.
    fn trimmed(&mut self, whole: &Priced, regions: &[Option<Arc<DeviceState>>]) -> Vec<u32> {
        let saved_share = match whole.outside_us.is_finite() && whole.outside_us > 0.0 {
            true => (1.0 - whole.run_us / whole.outside_us).max(0.0),
            false => 1.0,
        };
        let dag = self.dag;
        for node in whole.nodes.iter().rev() {
            self.trim(*node, dag.after(*node as usize), saved_share, regions);
        }
        for node in &whole.nodes {
            self.trim(*node, dag.before(*node as usize), saved_share, regions);
        }
        let left = whole.nodes.iter().copied().filter(|node| self.is_inside[*node as usize]);
        left.collect()
    }

    /// Leaves out a node, if that is cheaper; `beyond` are its neighbours on the side where the border is to be.
    fn trim(&mut self, node: u32, beyond: &[u32], saved_share: f64, regions: &[Option<Arc<DeviceState>>]) {
        let at = node as usize;
        let is_border = !beyond.iter().any(|other| self.is_inside[*other as usize]);
        if !self.is_inside[at] || !is_border {
            return;
        }
        let graph = self.graph;
        let mut values: SmallVec<[ValueId; 6]> = SmallVec::new();
        let args = graph.nodes[at].args.iter().map(|arg| arg.value);
        for id in args.chain(graph.nodes[at].results.iter().map(|result| result.value)) {
            if !values.contains(&id) && self.dag.readers(id).len() <= MOST_READERS {
                values.push(id);
            }
        }
        // What a node outside sends elsewhere it sends from where it runs by itself.
        let crossing = |pricer: &Self| {
            let made = graph.nodes[at].results.iter().filter(|_| !pricer.is_inside[at]);
            let alone = made.map(|result| pricer.alone_crossing_us(result.value, regions)).sum::<f64>();
            alone + values.iter().map(|id| pricer.crossing_us(*id, regions)).sum::<f64>()
        };
        let inside = crossing(self);
        self.is_inside[at] = false;
        let outside = crossing(self);
        let is_cheaper = outside + saved_share * self.forecast.us[at] < inside;
        self.is_inside[at] = !is_cheaper;
    }
}
