//! Programs by the executor: each operation is dispatched as outside a graph, with placement, fallback and records.

use super::memory_plan::{last_uses, roots, staged_states};
use super::program::Run;
use crate::executor::{Operand, Output, OutputVec};
use crate::storage::Storage;
use rustorch_core::{
    CopyOp, Error, Graph, GraphOperand, Layout, Node, Op, PhiloxKey, Result, Source, ValueId,
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
}

impl Replay {
    pub(super) fn new(graph: &Graph) -> Replay {
        let roots = roots(graph);
        let last = last_uses(graph, &roots);
        let mut freed = vec![Vec::new(); graph.nodes.len()];
        let mut is_returned = vec![false; graph.values.len()];
        for output in &graph.outputs {
            is_returned[roots[output.value.index()].index()] = true;
        }
        for (i, value) in graph.values.iter().enumerate() {
            let id = ValueId(i as u32);
            if roots[i] == id && matches!(value.source, Source::Result { .. }) && !is_returned[i] {
                freed[last[i]].push(id);
            }
        }
        let staged = staged_states(graph, &roots);
        let draws = graph.draws.iter().enumerate().map(|(i, draw)| (draw.key, i)).collect();
        Replay { roots, freed, staged, draws }
    }

    pub(super) fn run(&self, run: &Run<'_>) -> Result<OutputVec> {
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
        for (n, node) in graph.nodes.iter().enumerate() {
            self.step(run, node, &mut memory)?;
            for id in &self.freed[n] {
                memory[id.index()] = None;
            }
        }
        for &i in &self.staged {
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
        outputs.collect()
    }

    fn step(&self, run: &Run<'_>, node: &Node, memory: &mut [Option<Storage>]) -> Result<()> {
        let layouts = |operands: &mut dyn Iterator<Item = &GraphOperand>| {
            operands.map(|operand| self.layout(run, operand)).collect::<Result<SmallVec<[Layout; 4]>>>()
        };
        let arg_layouts = layouts(&mut node.args.iter())?;
        let into: SmallVec<[&GraphOperand; 1]> =
            node.results.iter().filter_map(|result| result.into.as_ref()).collect();
        let into_layouts = layouts(&mut into.iter().copied())?;
        let redrawn = node.op.philox_key().and_then(|key| self.draws.get(&key));
        let redrawn = redrawn.map(|&draw| node.op.with_philox_key(run.keys[draw]));
        let op = redrawn.as_ref().unwrap_or(&node.op);
        let outputs = {
            let args: Vec<Operand<'_>> = (node.args.iter().zip(&arg_layouts))
                .map(|(operand, layout)| self.operand(memory, operand, layout))
                .collect::<Result<_>>()?;
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
