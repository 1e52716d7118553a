//! Which nodes of a graph can be part of a program: those for which the emitter has a form.

use crate::{CoreMlOptions, Error, Package};
use rustorch_core::{Graph, Source, Value, ValueId};
use std::borrow::Cow;
use std::io;
use std::ops::Range;

/// Asks the emitter for a program of this node alone.
pub(super) fn accepts(graph: &Graph, node: usize, allow_f16: bool) -> Result<(), Cow<'static, str>> {
    let op = &graph.nodes[node].op;
    if op.fails_on_values() {
        return Err(format!(
            "{} fails for some values of its arguments, such as indices out of range, of which Core ML says nothing",
            op.name()
        )
        .into());
    }
    let (alone, dtypes) = alone(graph, node);
    // What a constant holds is not known yet, and does not matter.
    let zeros = |i: usize, range: Range<usize>| {
        let bytes = dtypes.get(i).and_then(|dtype: &rustorch_core::DType| dtype.bytes_for(range.len()));
        bytes.map(|bytes| vec![0; bytes]).ok_or_else(|| io::Error::other("there is no such constant"))
    };
    let options = CoreMlOptions { allow_f16, ..CoreMlOptions::default() };
    match Package::with_options(&alone, &zeros, &options) {
        Ok(_) => Ok(()),
        Err(Error::Declined(declined)) => {
            // Those of inputs and outputs say the same as the node's.
            let of_node = declined.iter().find(|declined| declined.place.starts_with("node"));
            let declined = of_node.or(declined.first());
            Err(declined
                .map_or("it has no form in a program".into(), |declined| declined.reason.clone().into()))
        }
        Err(error) => Err(error.to_string().into()),
    }
}

/// A graph of one node, with the values that it reads as inputs and constants; and the constants' dtypes.
fn alone(graph: &Graph, node: usize) -> (Graph, Vec<rustorch_core::DType>) {
    let mut made = Graph::default();
    let mut dtypes = Vec::new();
    let mut copied: Vec<(ValueId, ValueId)> = Vec::new();
    let original = &graph.nodes[node];
    let mut new = original.clone();
    new.device = None;
    for arg in &mut new.args {
        let known = copied.iter().find(|(from, _)| *from == arg.value).map(|(_, to)| *to);
        let to = known.unwrap_or_else(|| {
            let value = &graph.values[arg.value.index()];
            let source = match value.source {
                Source::Constant(_) => {
                    dtypes.push(value.dtype);
                    Source::Constant((dtypes.len() - 1) as u32)
                }
                _ => Source::Input(made.inputs.len() as u32),
            };
            let is_input = matches!(source, Source::Input(_));
            let to = made.add_value(Value { source, ..value.clone() });
            if is_input {
                made.inputs.push(to);
            }
            copied.push((arg.value, to));
            to
        });
        arg.value = to;
    }
    for (index, result) in new.results.iter_mut().enumerate() {
        let value = &graph.values[result.value.index()];
        let source = Source::Result { node: 0, index: index as u32 };
        // What is written to a state is a result in a region, in the shape in which it is written.
        let shape =
            result.into.take().map_or_else(|| value.shape.clone(), |into| into.layout.shape().clone());
        result.value = made.add_value(Value { source, shape, ..value.clone() });
    }
    // Results that nobody reads, such as the indices of a pooling, are no outputs.
    let is_read = |id: ValueId| {
        let args = graph.nodes.iter().flat_map(|node| &node.args);
        args.chain(&graph.outputs).any(|operand| operand.value == id)
    };
    let pairs = original.results.iter().zip(&new.results);
    let read: Vec<ValueId> = pairs.filter(|(old, _)| is_read(old.value)).map(|(_, new)| new.value).collect();
    let first = new.results.first().map(|result| result.value);
    made.nodes.push(new);
    for id in if read.is_empty() { first.into_iter().collect() } else { read } {
        let whole = made.whole(id);
        made.outputs.push(whole);
    }
    (made, dtypes)
}
