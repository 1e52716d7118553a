//! Graphs as drawings.

use super::{Graph, Source, ValueId};
use std::fmt::Write;

impl Graph {
    /// The graph in Graphviz's language: `dot -Tsvg` draws it.
    pub fn to_dot(&self) -> String {
        let mut dot = String::from("digraph {\n  node [shape=box, fontname=\"monospace\"];\n");
        for (i, value) in self.values.iter().enumerate() {
            if let Source::Result { .. } = value.source {
                continue;
            }
            let label = format!("{}\\n%{i}: {}{}", value.source, value.dtype, value.shape);
            _ = writeln!(dot, "  v{i} [label=\"{label}\", style=rounded];");
        }
        for (n, node) in self.nodes.iter().enumerate() {
            let results: Vec<String> = (node.results.iter())
                .filter_map(|result| self.value(result.value).map(|value| (result.value, value)))
                .map(|(id, value)| format!("{id}: {}{}", value.dtype, value.shape))
                .collect();
            _ = writeln!(dot, "  n{n} [label=\"{}\\n{}\"];", escaped(node.op.name()), results.join("\\n"));
            let read = node.args.iter().map(|arg| (arg.value, ""));
            let written = node.results.iter().filter_map(|result| result.into.as_deref());
            for (id, style) in read.chain(written.map(|into| (into.value, " [style=dashed]"))) {
                _ = writeln!(dot, "  {} -> n{n}{style};", self.origin(id));
            }
        }
        for (i, output) in self.outputs.iter().enumerate() {
            _ = writeln!(dot, "  o{i} [label=\"output {i}\", style=rounded];");
            _ = writeln!(dot, "  {} -> o{i};", self.origin(output.value));
        }
        dot + "}\n"
    }

    /// What a value comes from, in the drawing.
    fn origin(&self, id: ValueId) -> String {
        match self.value(id).map(|value| value.source) {
            Some(Source::Result { node, .. }) => format!("n{node}"),
            _ => format!("v{}", id.0),
        }
    }
}

/// A custom op's name is whatever its author gave it.
fn escaped(name: &str) -> String {
    name.replace('\\', "\\\\").replace('"', "\\\"")
}
