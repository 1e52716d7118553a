//! Programs by the executor: each operation is dispatched as outside a graph, with placement, fallback and records; what a device compiled
//! runs there as a whole.

use super::copies::{Copies, SharedCopies};
use super::memory_plan::{is_returned, last_uses, roots, staged_states};
use super::prepared::PreparedNodes;
use super::program::Run;
use super::regions::{CompiledPart, Missed};
use super::state_writes::StateWrites;
use crate::executor::{HybridExecutor, Operand, Output, OutputVec};
use crate::storage::Storage;
use rustorch_core::{
    CopyOp, Error, Fault, Graph, GraphOperand, Layout, Op, PhiloxKey, Result, Source, ValueId,
};
use smallvec::SmallVec;
use std::collections::HashMap;

/// What of a graph is needed to replay it.
pub(super) struct Replay {
    /// By value: the first one in its memory.
    roots: Vec<ValueId>,
    /// By node: the memory that is not used behind it.
    freed: Vec<Vec<ValueId>>,
    /// States that a run changes in a copy.
    staged: Vec<usize>,
    /// The draw of each key.
    draws: HashMap<PhiloxKey, usize>,
    /// What is compiled, in the order of its nodes.
    regions: Vec<CompiledPart>,
    /// Of programs with regions: what runs the nodes in none, and what is copied before them.
    between: Option<(HybridExecutor, SharedCopies)>,
    /// Of programs without regions: the nodes that devices made ready.
    prepared: Option<PreparedNodes>,
}

impl Replay {
    pub(super) fn new(
        graph: &Graph,
        executor: &HybridExecutor,
        regions: Vec<CompiledPart>,
        between: Option<(HybridExecutor, SharedCopies)>,
    ) -> Replay {
        let roots = roots(graph);
        let last = last_uses(graph, &roots);
        let mut freed = vec![Vec::new(); graph.nodes.len()];
        let is_returned = is_returned(graph, &roots);
        for (i, value) in graph.values.iter().enumerate() {
            let id = ValueId(i as u32);
            if roots[i] == id && matches!(value.source, Source::Result { .. }) && !is_returned[i] {
                freed[last[i]].push(id);
            }
        }
        let staged = staged_states(graph, &roots);
        let draws = graph.draws.iter().enumerate().map(|(i, draw)| (draw.key, i)).collect();
        let prepared = match &between {
            None => PreparedNodes::new(graph, executor, &roots, &freed),
            Some(_) => None,
        };
        Replay { roots, freed, staged, draws, regions, between, prepared }
    }

    pub(super) fn regions(&self) -> &[CompiledPart] {
        &self.regions
    }

    pub(super) fn is_prepared(&self, node: usize) -> bool {
        self.prepared.as_ref().is_some_and(|prepared| prepared.has(node))
    }

    pub(super) fn staged_states(&self) -> usize {
        self.staged.len()
    }

    pub(super) fn run(&self, run: &Run<'_>) -> Result<OutputVec> {
        let executor = self.between.as_ref().map_or(run.executor, |(executor, _)| executor);
        let run = &Run { executor, ..*run };
        // A device that is lost takes the results of its regions along: everything is computed again, without it.
        let mut lost = usize::MAX;
        loop {
            let mut writes = StateWrites::new(run.states);
            let result = self.run_once(run, &mut writes);
            let is_gone = match &result {
                Ok(outputs) => outputs.iter().any(|output| output.storage.is_lost()),
                Err(Error::Fault(fault)) => matches!(**fault, Fault::DeviceLost { .. }),
                Err(_) => false,
            };
            let there = self.regions.iter().filter(|region| !region.state.health.is_lost()).count();
            let may_begin_again = is_gone
                && there < lost
                && there < self.regions.len()
                && !run.executor.returns_faults()
                && writes.written().is_empty();
            if !may_begin_again {
                return result.map_err(|error| writes.after(error));
            }
            lost = there;
        }
    }

    fn run_once(&self, run: &Run<'_>, writes: &mut StateWrites<'_>) -> Result<OutputVec> {
        let (graph, executor) = (run.graph, run.executor);
        let mut memory: Vec<Option<Storage>> = vec![None; graph.values.len()];
        for (i, value) in graph.values.iter().enumerate() {
            memory[i] = match value.source {
                Source::Input(at) => Some(run.inputs[at as usize].storage.clone()),
                Source::Constant(at) => Some(run.constants[at as usize].clone()),
                Source::State(at) => Some(run.states[at as usize].clone()),
                Source::Result { .. } => None,
            };
        }
        for &i in &self.staged {
            let whole = graph.whole(graph.states[i].first);
            let state = Operand { storage: &run.states[i], dtype: whole.dtype, layout: &whole.layout };
            let copy = executor.run(&Op::Copy(CopyOp), &[state])?.remove(0);
            memory[whole.value.index()] = Some(copy.storage);
        }
        let mut copies = Copies::default();
        let mut prepared = self.prepared.as_ref().map(|prepared| prepared.begin(run));
        let mut regions = self.regions.iter().peekable();
        let mut next = 0;
        while next < graph.nodes.len() {
            let first = next;
            match regions.next_if(|region| region.nodes.start == first) {
                Some(region) => {
                    self.run_region(run, region, (&mut memory, &mut copies), writes)?;
                    next = region.nodes.end;
                }
                None => {
                    self.states_written_by(graph, first).for_each(|state| writes.expect(state));
                    let is_done = match &mut prepared {
                        Some(prepared) => prepared.step(run, first, &self.roots, &mut memory)?,
                        None => false,
                    };
                    if !is_done {
                        self.step(run, first, &mut memory, &mut copies)?;
                    }
                    next += 1;
                }
            }
            // What a region reads is there until all of it is done.
            for id in self.freed[first..next].iter().flatten() {
                memory[id.index()] = None;
            }
            copies.forget(first..next);
        }
        for &i in &self.staged {
            writes.expect(i);
            let whole = graph.whole(graph.states[i].first);
            let copy = self.operand(&memory, &whole, &whole.layout)?;
            let state = Operand { storage: &run.states[i], ..copy };
            executor.run_into(&Op::Copy(CopyOp), &[copy], &[state])?;
        }
        let outputs = graph.outputs.iter().map(|output| {
            let layout = self.layout(run, output)?;
            let root = self.roots[output.value.index()];
            let storage = match graph.values[root.index()].source {
                Source::State(i) => run.states[i as usize].clone(),
                _ => self.operand(&memory, output, &layout)?.storage.clone(),
            };
            Ok(Output { storage, dtype: output.dtype, layout })
        });
        let outputs = outputs.collect::<Result<OutputVec>>()?;
        if let Some(prepared) = prepared {
            drop(memory);
            prepared.end();
        }
        Ok(outputs)
    }

    /// The states that a node writes to where they are.
    fn states_written_by<'a>(&'a self, graph: &'a Graph, node: usize) -> impl Iterator<Item = usize> + 'a {
        let written = graph.nodes[node].results.iter().filter(|result| result.into.is_some());
        let roots = written.map(|result| self.roots[result.value.index()]);
        roots.filter_map(|root| match graph.values[root.index()].source {
            Source::State(i) if !self.staged.contains(&(i as usize)) => Some(i as usize),
            _ => None,
        })
    }

    /// Runs a region on its device; where that fails, its nodes elsewhere.
    fn run_region(
        &self,
        run: &Run<'_>,
        region: &CompiledPart,
        (memory, copies): (&mut [Option<Storage>], &mut Copies),
        writes: &mut StateWrites<'_>,
    ) -> Result<()> {
        let mut kept = self.updates_resident_states(run.graph, region).then(|| region.lock_kept());
        let missed = {
            let whole: Vec<GraphOperand> = region.inputs.iter().map(|id| run.graph.whole(*id)).collect();
            let layouts = whole.iter().map(|whole| self.layout(run, whole)).collect::<Result<Vec<_>>>()?;
            let inputs = (whole.iter().zip(&layouts))
                .map(|(whole, layout)| self.operand(memory, whole, layout))
                .collect::<Result<Vec<_>>>()?;
            match region.run(run.executor, &inputs, (run.graph, run.constants), kept.as_deref_mut()) {
                Ok(outputs) => {
                    self.keep(run, region, outputs, (memory, copies), writes)?;
                    if let Some(kept) = &mut kept {
                        kept.settle();
                    }
                    return Ok(());
                }
                Err(missed) => missed,
            }
        };
        drop(kept);
        if let Missed::Failed(fault) = missed {
            return Err(fault.into());
        }
        let others = Run { executor: &region.others, ..*run };
        for n in region.nodes.clone() {
            self.states_written_by(run.graph, n).for_each(|state| writes.expect(state));
            self.step(&others, n, memory, copies)?;
        }
        if let Missed::Doubted = missed {
            let whole: Vec<GraphOperand> = region.outputs.iter().map(|id| run.graph.whole(*id)).collect();
            let outputs = whole.iter().map(|whole| self.operand(memory, whole, &whole.layout));
            let outputs = outputs.collect::<Result<Vec<_>>>()?;
            if !run.executor.any_nan(outputs.into_iter())? {
                region.quarantine(run.executor);
            }
        }
        Ok(())
    }

    /// Whether a region updates states, all of which are the same memory in every run.
    fn updates_resident_states(&self, graph: &Graph, region: &CompiledPart) -> bool {
        let is_resident = |id: ValueId| match graph.values[self.roots[id.index()].index()].source {
            Source::State(i) => !self.staged.contains(&(i as usize)),
            _ => false,
        };
        let mut updated = region.updated().peekable();
        updated.peek().is_some() && updated.all(is_resident)
    }

    /// Keeps what a region made: results, and what states hold now, which it left as they were. Nodes that update ranges of states run here.
    fn keep(
        &self,
        run: &Run<'_>,
        region: &CompiledPart,
        outputs: OutputVec,
        (memory, copies): (&mut [Option<Storage>], &mut Copies),
        writes: &mut StateWrites<'_>,
    ) -> Result<()> {
        for (id, output) in region.outputs.iter().zip(outputs) {
            let root = self.roots[id.index()];
            if root == *id {
                memory[id.index()] = Some(output.storage);
                continue;
            }
            if let Source::State(i) = run.graph.values[root.index()].source
                && !self.staged.contains(&(i as usize))
            {
                writes.expect(i as usize);
            }
            let whole = run.graph.whole(root);
            let place = self.operand(memory, &whole, &whole.layout)?;
            let new = Operand { storage: &output.storage, ..place };
            run.executor.run_into(&Op::Copy(CopyOp), &[new], &[place])?;
        }
        let resident = Run { executor: &region.resident, ..*run };
        for n in region.updating_nodes() {
            self.states_written_by(run.graph, n).for_each(|state| writes.expect(state));
            self.step(&resident, n, memory, copies)?;
        }
        Ok(())
    }

    fn step(
        &self,
        run: &Run<'_>,
        n: usize,
        memory: &mut [Option<Storage>],
        copies: &mut Copies,
    ) -> Result<()> {
        let node = &run.graph.nodes[n];
        let layouts = |operands: &mut dyn Iterator<Item = &GraphOperand>| {
            operands.map(|operand| self.layout(run, operand)).collect::<Result<SmallVec<[Layout; 4]>>>()
        };
        let arg_layouts = layouts(&mut node.args.iter())?;
        let into: SmallVec<[&GraphOperand; 1]> =
            node.results.iter().filter_map(|result| result.into.as_deref()).collect();
        let into_layouts = layouts(&mut into.iter().copied())?;
        let redrawn = node.op.philox_key().and_then(|key| self.draws.get(&key));
        let redrawn = redrawn.map(|&draw| node.op.with_philox_key(run.keys[draw]));
        let op = redrawn.as_ref().unwrap_or(&node.op);
        let outputs = {
            let args: Vec<Operand<'_>> = (node.args.iter().zip(&arg_layouts))
                .map(|(operand, layout)| self.operand(memory, operand, layout))
                .collect::<Result<_>>()?;
            let args = match &self.between {
                Some((_, shared)) => shared.replace(run, (n, node), args, copies),
                None => args,
            };
            if into.is_empty() {
                match (op, node.device) {
                    (Op::Copy(_), Some(device)) => {
                        [run.executor.transfer(&args[0], device)?].into_iter().collect()
                    }
                    (op, Some(device)) => run.executor.run_on(device, op, &args)?,
                    (op, None) => run.executor.run(op, &args)?,
                }
            } else {
                let destinations: Vec<Operand<'_>> = (into.iter().zip(&into_layouts))
                    .map(|(operand, layout)| self.operand(memory, operand, layout))
                    .collect::<Result<_>>()?;
                run.executor.run_into(op, &args, &destinations)?;
                OutputVec::new()
            }
        };
        for (result, output) in node.results.iter().zip(outputs) {
            memory[result.value.index()] = Some(output.storage);
        }
        Ok(())
    }

    /// The layout of an operand in its memory, which of an input may begin anywhere in its storage.
    fn layout(&self, run: &Run<'_>, operand: &GraphOperand) -> Result<Layout> {
        match run.graph.values[operand.value.index()].source {
            Source::Input(i) => run.input_layout(i as usize, &operand.layout),
            _ => Ok(operand.layout.clone()),
        }
    }

    fn operand<'a>(
        &self,
        memory: &'a [Option<Storage>],
        operand: &GraphOperand,
        layout: &'a Layout,
    ) -> Result<Operand<'a>> {
        let root = self.roots[operand.value.index()];
        let storage = memory[root.index()].as_ref();
        // The graph was verified: every value is made before it is read.
        let storage = storage.ok_or_else(|| Error::argument("program", format!("{root} has no memory")))?;
        Ok(Operand { storage, dtype: operand.dtype, layout })
    }
}
