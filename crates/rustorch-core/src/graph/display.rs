//! Graphs as a listing.

use super::{Graph, GraphOperand, Node, Source, ValueId};
use crate::Op;
use std::fmt;

impl fmt::Display for Graph {
    /// A line for each operation: its results, its name with parameters, its arguments, with the view of each that is not whole. A
    /// result that is written into an earlier value names the elements that it overwrites.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let typed = |id: &ValueId| self.typed(*id);
        let inputs: Vec<String> = self.inputs.iter().map(typed).collect();
        writeln!(f, "graph({}) {{", inputs.join(", "))?;
        for id in self.constants() {
            writeln!(f, "  constant {}", typed(&id))?;
        }
        for state in &self.states {
            writeln!(f, "  state {}, at the end {}", typed(&state.first), state.last)?;
        }
        for draw in &self.draws {
            writeln!(f, "  draw {:?}, {} blocks", draw.key, draw.blocks)?;
        }
        for node in &self.nodes {
            let results: Vec<String> = (node.results.iter())
                .map(|result| match &result.into {
                    None => typed(&result.value),
                    Some(into) => format!("{} (into {})", typed(&result.value), self.shown(into)),
                })
                .collect();
            let args: Vec<String> = node.args.iter().map(|arg| self.shown(arg)).collect();
            let device = node.device.map_or_else(String::new, |device| format!(" on {device}"));
            writeln!(f, "  {} = {}({}){device}", results.join(", "), named(node), args.join(", "))?;
        }
        let outputs: Vec<String> = self.outputs.iter().map(|output| self.shown(output)).collect();
        writeln!(f, "  return {}\n}}", outputs.join(", "))
    }
}

impl Graph {
    /// A value with its dtype and shape.
    pub(super) fn typed(&self, id: ValueId) -> String {
        match self.value(id) {
            Some(value) if value.device.is_cpu() => format!("{id}: {}{}", value.dtype, value.shape),
            Some(value) => format!("{id}: {}{} on {}", value.dtype, value.shape, value.device),
            None => format!("{id}: missing"),
        }
    }

    /// An operand: the value, and how it is seen.
    pub(super) fn shown(&self, operand: &GraphOperand) -> String {
        let id = operand.value;
        let Some(value) = self.value(id) else { return format!("{id}: missing") };
        let (layout, dtype) = (&operand.layout, operand.dtype);
        let starts = layout.offset() == 0 && dtype == value.dtype;
        if starts && layout.is_contiguous() && *layout.shape() == value.shape {
            return id.to_string();
        }
        let mut view = format!("{id} as {dtype}{}", layout.shape());
        if !layout.is_contiguous() {
            view += &format!(" strides {:?}", layout.strides());
        }
        if layout.offset() != 0 {
            view += &format!(" offset {}", layout.offset());
        }
        view
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Input(i) => write!(f, "input {i}"),
            Source::Constant(i) => write!(f, "constant {i}"),
            Source::State(i) => write!(f, "state {i}"),
            Source::Result { node, index } => write!(f, "result {index} of node {node}"),
        }
    }
}

/// The operation's name, with its parameters where it has some.
fn named(node: &Node) -> String {
    let name = node.op.name();
    match &node.op {
        Op::FusedPointwise(fused) => return format!("{name} {{ {fused} }}"),
        Op::Custom(op) if !op.params().is_empty() => {
            return format!("{name} {{ params: {:?} }}", op.params());
        }
        Op::Custom(_) => return name.to_owned(),
        _ => {}
    }
    let whole = format!("{:?}", node.op);
    // Of `Softmax(Softmax { axis: 1, log: false })` what is between the braces.
    match whole.strip_suffix(')').and_then(|op| op.split_once(" { ")) {
        Some((_, parameters)) => format!("{name} {{ {parameters}"),
        None => name.to_owned(),
    }
}
