//! Every operation in a file: the cases of the conformance suite, each as a graph.

use super::value;
use rustorch_core::{Device, Draw, Graph, GraphOperand, Node, Op, OpKind, Source, TensorMeta};
use rustorch_formats::graph::{File, Writer};
use rustorch_testkit::conformance::{Case, cases, cpu_cases, long_cases, regression_cases, weight_cases};
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// A graph of one operation on inputs.
fn graph_of(case: &Case) -> Graph {
    let mut graph = Graph::default();
    let mut args = Vec::new();
    for (i, arg) in (0..).zip(&case.args) {
        let elements = arg.bytes.len() / arg.dtype.block_bytes() * arg.dtype.block_len();
        let id = graph.add_value(value(Source::Input(i), arg.dtype, &[elements]));
        graph.inputs.push(id);
        // Views of a graph without elements begin inside their values.
        let offset = if arg.layout.numel() == 0 { 0 } else { arg.layout.offset() };
        let layout = arg.layout.clone().at_offset(offset).unwrap();
        args.push(GraphOperand { value: id, dtype: arg.dtype, layout });
    }
    let metas: Vec<TensorMeta<'_>> = (case.args.iter())
        .map(|arg| TensorMeta { dtype: arg.dtype, layout: &arg.layout, device: Device::CPU })
        .collect();
    let outs = case.op.infer(&metas).unwrap_or_else(|error| panic!("{case}: {error}"));
    let results: Vec<_> = (0..)
        .zip(outs)
        .map(|(index, out)| {
            graph.add_value(value(Source::Result { node: 0, index }, out.dtype, out.shape.dims()))
        })
        .collect();
    graph.outputs = results.iter().map(|id| graph.whole(*id)).collect();
    graph.nodes.push(Node::new(case.op.clone(), args, results));
    graph.draws.extend(case.op.philox_key().map(|key| Draw { key, blocks: 1 }));
    graph
}

/// With `GRAPH_SEEDS=folder`, a graph of each operation is written there, from which `fuzz/fuzz_targets/graph.rs` may begin.
#[test]
fn every_operation_comes_back() {
    let mut missing: BTreeSet<OpKind> = OpKind::ALL.iter().copied().collect();
    let mut largest: BTreeMap<OpKind, usize> = BTreeMap::new();
    let mut all = [cases(), cpu_cases(), long_cases(), regression_cases(), weight_cases()].concat();
    // What a file holds of them: parameters, dtypes, layouts of a kind.
    let mut known = HashSet::new();
    all.retain(|case| {
        let kinds = case.args.iter().map(|arg| (arg.dtype, arg.layout.ndim(), arg.layout.is_contiguous()));
        known.insert((format!("{:?}", case.op), kinds.collect::<Vec<_>>()))
    });
    for case in &all {
        let graph = graph_of(case);
        let written = |graph: &Graph| {
            let none = |_| unreachable!("there are inputs only");
            Writer::new(graph, none, none)
                .and_then(|writer| writer.to_bytes())
                .unwrap_or_else(|error| panic!("{case}: {error}"))
        };
        let bytes = written(&graph);
        let file = File::from_bytes(bytes.clone()).unwrap_or_else(|error| panic!("{case}: {error}"));
        // Of parameters that are NaN, which equal nothing, the second file tells whether they are the same.
        assert_eq!(format!("{:?}", file.graph()), format!("{graph:?}"), "{case}");
        assert!(written(file.graph()) == bytes, "{case}");
        if missing.remove(&case.op.kind())
            && let Some(folder) = std::env::var_os("GRAPH_SEEDS")
        {
            let name = case.op.kind().name();
            std::fs::write(std::path::Path::new(&folder).join(name), serde_json::to_string(&graph).unwrap())
                .unwrap();
        }
        for kind in inner(&case.op) {
            missing.remove(&kind);
        }
        let most = largest.entry(case.op.kind()).or_default();
        *most = bytes.len().max(*most);
    }
    assert!(
        missing.is_empty(),
        "no case of {}",
        missing.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ")
    );
    let (kind, most) = largest.iter().max_by_key(|(_, most)| **most).unwrap();
    println!("{} cases; the largest file is one of {kind}, {most} bytes", all.len());
}

/// The operations in a fused one.
fn inner(op: &Op) -> Vec<OpKind> {
    match op {
        Op::FusedPointwise(fused) => fused.steps().iter().map(|step| step.op().kind()).collect(),
        _ => Vec::new(),
    }
}
