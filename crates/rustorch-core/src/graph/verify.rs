//! Whether a graph is one.

use super::{Graph, GraphOperand, Node, NodeResult, Source, Value, ValueId};
use crate::{Error, OutputMeta, Result, TensorMeta, bytes_reached};
use std::collections::HashSet;
use std::fmt;

/// What the check knows at a node.
struct Seen {
    /// Whether a value is there: given at the start, or made by an earlier node.
    exists: Vec<bool>,
    /// Whether a node has overwritten it.
    replaced: Vec<bool>,
}

fn wrong(message: impl Into<String>) -> Error {
    Error::argument("graph", message)
}

/// The bytes of a value, which memory could have.
fn bytes_of(id: ValueId, value: &Value) -> Result<usize> {
    let bytes = value.dtype.bytes_for(value.shape.numel()).ok_or_else(|| {
        wrong(format!("value {id} of {}{} has no whole blocks, or too many", value.dtype, value.shape))
    })?;
    match bytes <= isize::MAX as usize {
        true => Ok(bytes),
        false => {
            Err(wrong(format!("value {id} of {}{} is larger than any memory", value.dtype, value.shape)))
        }
    }
}

impl Graph {
    /// Checks that each value is assigned once and before it is read, that none is read after it was overwritten, that views stay
    /// inside their values, and that each result is what its operation makes of the arguments.
    ///
    /// # Errors
    /// What does not fit, and where.
    pub fn verify(&self) -> Result<()> {
        let mut seen =
            Seen { exists: vec![false; self.values.len()], replaced: vec![false; self.values.len()] };
        self.verify_start(&mut seen)?;
        for (n, node) in self.nodes.iter().enumerate() {
            self.verify_node(n, node, &mut seen)
                .map_err(within(format_args!("node {n} ({})", node.op.name())))?;
        }
        if let Some(i) = seen.exists.iter().position(|exists| !exists) {
            let source = self.values[i].source;
            return Err(wrong(format!("value %{i} is marked as {source}, which does not make it")));
        }
        for (i, output) in self.outputs.iter().enumerate() {
            self.verify_read(output, &seen).map_err(within(format_args!("output {i}")))?;
        }
        for (i, state) in self.states.iter().enumerate() {
            self.verify_state(i as u32, state.first, state.last, &seen)
                .map_err(within(format_args!("state {i}")))?;
        }
        self.verify_draws()
    }

    /// Checks that each key of a random operation is drawn, once.
    fn verify_draws(&self) -> Result<()> {
        let mut keys = HashSet::new();
        for (i, draw) in self.draws.iter().enumerate() {
            if !keys.insert((draw.key.seed, draw.key.offset)) {
                return Err(wrong(format!("draw {i} has the key of an earlier one: {:?}", draw.key)));
            }
        }
        for (n, node) in self.nodes.iter().enumerate() {
            if let Some(key) = node.op.philox_key()
                && !keys.contains(&(key.seed, key.offset))
            {
                return Err(wrong(format!(
                    "node {n} ({}) has a key that is not drawn, as of a generator of its own: {key:?}",
                    node.op.name()
                )));
            }
        }
        Ok(())
    }

    fn verify_start(&self, seen: &mut Seen) -> Result<()> {
        let mut constants = 0u32..;
        for (i, value) in self.values.iter().enumerate() {
            let id = ValueId(i as u32);
            let (listed, list) = match value.source {
                Source::Input(at) => (self.inputs.get(at as usize) == Some(&id), "inputs"),
                Source::State(at) => {
                    (self.states.get(at as usize).is_some_and(|state| state.first == id), "states")
                }
                Source::Constant(at) => (constants.next() == Some(at), "constants"),
                Source::Result { .. } => continue,
            };
            if !listed {
                return Err(wrong(format!(
                    "value {id} is marked as {}, which it is not among the {list}",
                    value.source
                )));
            }
            bytes_of(id, value)?;
            seen.exists[i] = true;
        }
        for (i, id) in self.inputs.iter().enumerate() {
            if self.value(*id).map(|value| value.source) != Some(Source::Input(i as u32)) {
                return Err(wrong(format!("input {i} is {id}, which is not marked as input {i}")));
            }
        }
        Ok(())
    }

    fn verify_node(&self, n: usize, node: &Node, seen: &mut Seen) -> Result<()> {
        for (i, arg) in node.args.iter().enumerate() {
            self.verify_read(arg, seen).map_err(within(format_args!("argument {i}")))?;
        }
        let metas: Vec<TensorMeta<'_>> = node.args.iter().map(|arg| self.meta(arg)).collect();
        let outs = node.op.infer(&metas)?;
        if outs.len() != node.results.len() {
            return Err(wrong(format!(
                "has {} results, and the operation makes {}",
                node.results.len(),
                outs.len()
            )));
        }
        let written = node.results.iter().filter(|result| result.into.is_some()).count();
        if written != 0 && written != node.results.len() {
            return Err(wrong(format!(
                "writes {written} of {} results in place, not all",
                node.results.len()
            )));
        }
        for (i, (result, out)) in node.results.iter().zip(&outs).enumerate() {
            let source = Source::Result { node: n as u32, index: i as u32 };
            self.verify_result(source, result, out, seen).map_err(within(format_args!("result {i}")))?;
        }
        for result in &node.results {
            seen.exists[result.value.index()] = true;
            let Some(into) = &result.into else { continue };
            if std::mem::replace(&mut seen.replaced[into.value.index()], true) {
                return Err(wrong(format!("{} is overwritten twice", into.value)));
            }
        }
        Ok(())
    }

    fn verify_result(
        &self,
        source: Source,
        result: &NodeResult,
        out: &OutputMeta,
        seen: &Seen,
    ) -> Result<()> {
        let value = self.find(result.value)?;
        if seen.exists[result.value.index()] {
            return Err(wrong(format!("{} is assigned twice", result.value)));
        }
        if value.source != source {
            return Err(wrong(format!("{} is marked as {}", result.value, value.source)));
        }
        bytes_of(result.value, value)?;
        match &result.into {
            None if (value.dtype, &value.shape) != (out.dtype, &out.shape) => Err(wrong(format!(
                "{} is {}{}, and the operation makes {}{}",
                result.value, value.dtype, value.shape, out.dtype, out.shape
            ))),
            None => Ok(()),
            Some(into) => self.verify_write(result.value, into, out, seen),
        }
    }

    fn verify_write(&self, id: ValueId, into: &GraphOperand, out: &OutputMeta, seen: &Seen) -> Result<()> {
        self.verify_read(into, seen).map_err(within("destination"))?;
        let (value, base) = (self.find(id)?, self.find(into.value)?);
        if let Source::Input(_) | Source::Constant(_) = base.source {
            return Err(wrong(format!(
                "destination: {} is {}, which is never written",
                into.value, base.source
            )));
        }
        if (value.dtype, &value.shape, value.device) != (base.dtype, &base.shape, base.device) {
            return Err(wrong(format!(
                "{} has another dtype, shape or device than {}, into which it is written",
                self.typed(id),
                self.typed(into.value)
            )));
        }
        if (into.dtype, into.layout.shape()) != (out.dtype, &out.shape) {
            return Err(wrong(format!(
                "destination: {} is {}{}, and the operation makes {}{}",
                into.value,
                into.dtype,
                into.layout.shape(),
                out.dtype,
                out.shape
            )));
        }
        if into.layout.overlaps_itself() {
            return Err(wrong(format!("destination: {} reaches elements twice", self.shown(into))));
        }
        Ok(())
    }

    /// Whether an operand may be read where these values exist.
    fn verify_read(&self, operand: &GraphOperand, seen: &Seen) -> Result<()> {
        let id = operand.value;
        let value = self.find(id)?;
        if !seen.exists[id.index()] {
            return Err(wrong(format!("{id} is read before it is made")));
        }
        if seen.replaced[id.index()] {
            return Err(wrong(format!("{id} is read after it was overwritten")));
        }
        // Memory of a dtype is aligned for it and holds its values: only complex numbers are seen as pairs, and the other way.
        if operand.dtype.to_real() != value.dtype.to_real() {
            return Err(wrong(format!("{id} of {} is seen as {}", value.dtype, operand.dtype)));
        }
        self.meta(operand).check("graph").map_err(|error| within(self.shown(operand))(error))?;
        // Where it begins counts of an operand without elements, too: from there kernels count.
        let reached =
            [bytes_reached(operand.dtype, &operand.layout), operand.dtype.bytes_for(operand.layout.offset())];
        if reached.iter().any(|bytes| bytes.is_none_or(|bytes| bytes > value.bytes())) {
            return Err(wrong(format!(
                "{} reaches beyond the {} bytes of {}{}",
                self.shown(operand),
                value.bytes(),
                value.dtype,
                value.shape
            )));
        }
        Ok(())
    }

    fn verify_state(&self, i: u32, first: ValueId, last: ValueId, seen: &Seen) -> Result<()> {
        if self.find(first)?.source != Source::State(i) {
            return Err(wrong(format!("begins with {first}, which is not marked as state {i}")));
        }
        self.find(last)?;
        if seen.replaced[last.index()] {
            return Err(wrong(format!("ends with {last}, which was overwritten")));
        }
        let mut at = last;
        // Each step goes to an earlier node, so this ends.
        while at != first {
            let earlier = match self.find(at)?.source {
                Source::Result { node, index } => {
                    self.nodes[node as usize].results[index as usize].into.as_deref()
                }
                _ => None,
            };
            at = earlier
                .map(|into| into.value)
                .ok_or_else(|| wrong(format!("ends with {last}, which does not descend from {first}")))?;
        }
        Ok(())
    }

    fn find(&self, id: ValueId) -> Result<&Value> {
        self.value(id).ok_or_else(|| wrong(format!("there is no value {id} among {}", self.values.len())))
    }
}

/// Puts the place of an error in front of its message.
fn within(place: impl fmt::Display) -> impl FnOnce(Error) -> Error {
    move |error| {
        let text = error.to_string();
        // The word that it is about a graph is said by the outer one.
        wrong(format!("{place}: {}", text.strip_prefix("graph: ").unwrap_or(&text)))
    }
}
