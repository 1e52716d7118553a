//! Graphs as data: which ones verify, what is said of those that do not, their listing and their drawing.

mod damaged;

use rustorch_core::{
    Attention, AttentionBackward, BinaryOp, CopyOp, CustomOp, DType, Device, Distribution, Draw, Dropout,
    FusedPointwise, Graph, GraphOperand, IndexSelect, Layout, Linalg, MatMul, Node, NodeResult, Numerics, Op,
    OutputMeta, PhiloxKey, Random, Shape, Softmax, Source, State, TopK, UnaryOp, Value, ValueId,
};
use std::collections::BTreeMap;

use DType::{C64, F32, I64};

const KEY: PhiloxKey = PhiloxKey { seed: 7, offset: 0 };

// The values of the example.
const X: ValueId = ValueId(0);
const Z: ValueId = ValueId(1);
const WEIGHT: ValueId = ValueId(2);
const CACHE: ValueId = ValueId(3);
const LOGITS: ValueId = ValueId(4);
const PROBABILITIES: ValueId = ValueId(5);
const BEST: ValueId = ValueId(6);
const INDICES: ValueId = ValueId(7);
const NEXT_CACHE: ValueId = ValueId(8);
const NOISE: ValueId = ValueId(9);
const SUM: ValueId = ValueId(10);
const PAIRS: ValueId = ValueId(11);

fn shape(dims: &[usize]) -> Shape {
    Shape::new(dims).unwrap()
}

fn value(source: Source, dtype: DType, dims: &[usize]) -> Value {
    Value { source, dtype, shape: shape(dims), device: Device::CPU }
}

fn view(value: ValueId, dtype: DType, dims: &[usize], strides: &[usize], offset: usize) -> GraphOperand {
    GraphOperand { value, dtype, layout: Layout::new(shape(dims), strides, offset).unwrap() }
}

/// Adds a node whose results are new values of these dtypes and shapes.
fn push(graph: &mut Graph, op: impl Into<Op>, args: &[GraphOperand], outs: &[(DType, &[usize])]) {
    let node = graph.nodes.len() as u32;
    let results: Vec<ValueId> = (0..)
        .zip(outs)
        .map(|(index, (dtype, dims))| graph.add_value(value(Source::Result { node, index }, *dtype, dims)))
        .collect();
    graph.nodes.push(Node::new(op.into(), args.to_vec(), results));
}

/// Adds a node whose result is written into elements of an earlier value.
fn push_into(graph: &mut Graph, op: impl Into<Op>, args: &[GraphOperand], into: GraphOperand) -> ValueId {
    let source = Source::Result { node: graph.nodes.len() as u32, index: 0 };
    let base = Value { source, ..graph.values[into.value.index()].clone() };
    let value = graph.add_value(base);
    let results = [NodeResult { value, into: Some(Box::new(into)) }].into_iter().collect();
    graph.nodes.push(Node { op: op.into(), args: args.to_vec(), results, device: None });
    value
}

fn random(shape: Shape, key: PhiloxKey) -> Op {
    Op::from(Random { distribution: Distribution::Uniform { low: 0.0, high: 1.0 }, shape, dtype: F32, key })
}

pub(crate) fn example() -> Graph {
    let mut graph = Graph { inputs: vec![X, Z], ..Graph::default() };
    graph.add_value(value(Source::Input(0), F32, &[2, 3]));
    graph.add_value(value(Source::Input(1), C64, &[2]));
    graph.add_value(value(Source::Constant(0), F32, &[3, 4]));
    graph.add_value(value(Source::State(0), F32, &[4, 4]));
    graph.states.push(State { first: CACHE, last: NEXT_CACHE });
    graph.draws.push(Draw { key: KEY, blocks: 4 });

    let args = [graph.whole(X), graph.whole(WEIGHT)];
    push(&mut graph, MatMul::default(), &args, &[(F32, &[2, 4])]);
    let args = [graph.whole(LOGITS)];
    push(&mut graph, Softmax { axis: 1, log: false }, &args, &[(F32, &[2, 4])]);
    let args = [graph.whole(PROBABILITIES)];
    let top_k = TopK { k: 2, axis: 1, largest: true };
    push(&mut graph, top_k, &args, &[(F32, &[2, 2]), (I64, &[2, 2])]);
    // The last two rows of the cache.
    push_into(&mut graph, CopyOp, &args, view(CACHE, F32, &[2, 4], &[4, 1], 8));
    push(&mut graph, random(shape(&[2, 4]), KEY), &[], &[(F32, &[2, 4])]);
    // The first two columns of the cache, as rows.
    let args = [graph.whole(NOISE), view(NEXT_CACHE, F32, &[2, 4], &[1, 4], 0)];
    push(&mut graph, BinaryOp::Add, &args, &[(F32, &[2, 4])]);
    push(&mut graph, UnaryOp::Exp, &[view(Z, F32, &[2, 2], &[2, 1], 0)], &[(F32, &[2, 2])]);
    graph.outputs = vec![graph.whole(SUM), graph.whole(BEST), view(PAIRS, F32, &[2], &[1], 2)];
    graph
}

#[test]
fn a_listing_says_all_of_a_graph() {
    let expected = "\
graph(%0: f32[2, 3], %1: c64[2]) {
  constant %2: f32[3, 4]
  state %3: f32[4, 4], at the end %8
  draw PhiloxKey { seed: 7, offset: 0 }, 4 blocks
  %4: f32[2, 4] = matmul { activation: None, numerics: Ggml, batch_invariant: false }(%0, %2)
  %5: f32[2, 4] = softmax { axis: 1, log: false }(%4)
  %6: f32[2, 2], %7: i64[2, 2] = topk { k: 2, axis: 1, largest: true }(%5)
  %8: f32[4, 4] (into %3 as f32[2, 4] offset 8) = copy(%5)
  %9: f32[2, 4] = rand { distribution: Uniform { low: 0.0, high: 1.0 }, shape: [2, 4], dtype: F32, key: PhiloxKey { seed: 7, offset: 0 } }()
  %10: f32[2, 4] = add(%9, %8 as f32[2, 4] strides [1, 4])
  %11: f32[2, 2] = exp(%1 as f32[2, 2])
  return %10, %6, %11 as f32[2] offset 2
}
";
    assert_eq!(example().to_string(), expected);
}

/// A custom op of one argument, which computes nothing.
pub(crate) fn custom(name: &'static str) -> CustomOp {
    let builder = CustomOp::builder(name, 1).infer(|args, _| {
        Ok(args.iter().map(|x| OutputMeta { dtype: x.dtype, shape: x.shape().clone() }).collect())
    });
    builder.cpu(|_, _, _| Ok(())).build().unwrap()
}

#[test]
fn a_listing_says_what_fused_and_custom_operations_compute_and_where() {
    let gpu = Device::cuda(0);
    let mut graph = Graph { inputs: vec![ValueId(0)], ..Graph::default() };
    let x = graph.add_value(value(Source::Input(0), F32, &[4]));
    let mut fused = FusedPointwise::builder(1).unwrap();
    let (input, two) = (fused.input(0).unwrap(), fused.constant(2.0, F32).unwrap());
    let product = fused.step(Op::from(BinaryOp::Mul), &[input, two]).unwrap();
    let result = fused.step(Op::from(UnaryOp::Exp), &[product]).unwrap();
    let args = [graph.whole(x)];
    push(&mut graph, fused.finish(result).unwrap(), &args, &[(F32, &[4])]);
    push(&mut graph, custom("scale").with_params([2.5_f32]), &args, &[(F32, &[4])]);
    push(&mut graph, custom("plain { x }"), &args, &[(F32, &[4])]);
    push(&mut graph, CopyOp, &args, &[(F32, &[4])]);
    graph.nodes[3].device = Some(gpu);
    graph.values[4].device = gpu;
    graph.outputs = vec![graph.whole(ValueId(4))];
    graph.verify().unwrap();
    let expected = "\
graph(%0: f32[4]) {
  %1: f32[4] = fused_pointwise { exp(x0 * 2) }(%0)
  %2: f32[4] = scale { params: [F32(2.5)] }(%0)
  %3: f32[4] = plain { x }(%0)
  %4: f32[4] on cuda:0 = copy(%0) on cuda:0
  return %4
}
";
    assert_eq!(graph.to_string(), expected);
}

/// The nodes that a drawing declares with their labels, and the ends of its edges.
fn drawing(dot: &str) -> (BTreeMap<&str, &str>, Vec<[&str; 2]>) {
    let (mut declared, mut edges) = (BTreeMap::new(), Vec::new());
    let body = dot.strip_prefix("digraph {\n").unwrap().strip_suffix("}\n").unwrap();
    for line in body.lines().skip(1) {
        let line = line.trim().strip_suffix(';').unwrap();
        if let Some((from, to)) = line.split_once(" -> ") {
            edges.push([from, to.split(' ').next().unwrap()]);
        } else {
            let (name, attributes) = line.split_once(" [label=\"").unwrap();
            let (label, rest) = attributes.rsplit_once('"').unwrap();
            assert!(matches!(rest, "]" | ", style=rounded]"), "{line}");
            assert!(declared.insert(name, label).is_none(), "{name} is declared twice");
        }
    }
    (declared, edges)
}

#[test]
fn a_drawing_has_each_node_and_ends_for_each_edge() {
    let graph = example();
    let dot = graph.to_dot();
    let (declared, edges) = drawing(&dot);
    for (n, node) in graph.nodes.iter().enumerate() {
        let label = declared[format!("n{n}").as_str()];
        assert!(label.starts_with(node.op.name()), "{label}");
        for result in &node.results {
            assert!(label.contains(&format!("\\n{}: ", result.value)), "{label}");
        }
    }
    assert_eq!(declared["v1"], "input 1\\n%1: c64[2]");
    assert_eq!(declared["v3"], "state 0\\n%3: f32[4, 4]");
    assert!(edges.iter().flatten().all(|end| declared.contains_key(end)), "{dot}");
    let expected = [
        ["v0", "n0"],
        ["v2", "n0"],
        ["n0", "n1"],
        ["n1", "n2"],
        ["n1", "n3"],
        ["v3", "n3"],
        ["n4", "n5"],
        ["n3", "n5"],
        ["v1", "n6"],
        ["n5", "o0"],
        ["n2", "o1"],
        ["n6", "o2"],
    ];
    assert_eq!(edges, expected);
    assert!(dot.contains("  v3 -> n3 [style=dashed];\n"), "{dot}");
}

#[test]
fn a_drawing_escapes_the_names_of_custom_operations() {
    let mut graph = Graph { inputs: vec![ValueId(0)], ..Graph::default() };
    let x = graph.add_value(value(Source::Input(0), F32, &[4]));
    let args = [graph.whole(x)];
    push(&mut graph, custom(r#"a "b" \"#), &args, &[(F32, &[4])]);
    let dot = graph.to_dot();
    assert_eq!(drawing(&dot).0["n0"], r#"a \"b\" \\\n%1: f32[4]"#);
}

#[test]
fn a_graph_of_many_nodes_is_checked_and_shown() {
    const NODES: usize = 20_000;
    let mut graph = Graph { inputs: vec![ValueId(0)], ..Graph::default() };
    let mut last = graph.add_value(value(Source::Input(0), F32, &[4]));
    let first = graph.add_value(value(Source::State(0), F32, &[4]));
    let mut state = first;
    for i in 0..NODES as u32 / 2 {
        let args = [graph.whole(last)];
        push(&mut graph, UnaryOp::Exp, &args, &[(F32, &[4])]);
        last = graph.nodes[2 * i as usize].results[0].value;
        let key = PhiloxKey { seed: 1, offset: u64::from(i) };
        graph.draws.push(Draw { key, blocks: 1 });
        let into = graph.whole(state);
        state = push_into(&mut graph, random(shape(&[4]), key), &[], into);
    }
    graph.states.push(State { first, last: state });
    graph.outputs.push(graph.whole(last));
    graph.verify().unwrap();
    // Beside the nodes: the head, the state, the draws, what is returned and the end.
    assert_eq!(graph.to_string().lines().count(), NODES + NODES / 2 + 4);
    assert_eq!(drawing(&graph.to_dot()).1.len(), NODES + 1);
}

#[test]
fn every_operation_that_draws_takes_another_key() {
    let distributions = [
        Distribution::Uniform { low: 0.0, high: 1.0 },
        Distribution::Normal { mean: 0.0, std: 1.0 },
        Distribution::Integer { low: 0, high: 9 },
        Distribution::Bernoulli { p: 0.5 },
    ];
    let attention = |dropout| Attention {
        scale: 0.5,
        causal: Some(1),
        window: Some(3),
        softcap: Some(2.0),
        numerics: Numerics::F32,
        batch_invariant: false,
        lse: true,
        dropout,
    };
    let backward = |dropout| AttentionBackward { attention: attention(dropout), q: true, k: false, v: true };
    // The same operation with a given key.
    let with = |key| {
        let dropout = Dropout { p: 0.25, key };
        let mut ops: Vec<Op> = distributions
            .iter()
            .map(|&distribution| Op::from(Random { distribution, shape: shape(&[2, 3]), dtype: F32, key }))
            .collect();
        ops.push(Op::from(attention(Some(dropout.clone()))));
        ops.push(Op::from(backward(Some(dropout.clone()))));
        ops.push(Op::from(dropout));
        ops
    };
    let other = PhiloxKey { seed: 8, offset: 1 << 40 };
    for (op, expected) in with(KEY).into_iter().zip(with(other)) {
        assert_eq!(op.philox_key(), Some(KEY), "{op:?}");
        assert_eq!(op.with_philox_key(other), expected);
    }
    for op in [Op::from(attention(None)), Op::from(backward(None)), Op::from(UnaryOp::Exp)] {
        assert_eq!(op.philox_key(), None, "{op:?}");
        assert_eq!(op.with_philox_key(other), op);
    }
}

#[test]
fn operations_that_may_fail_for_values_say_so() {
    let fused = |op: BinaryOp| {
        let mut fused = FusedPointwise::builder(2).unwrap();
        let args = [fused.input(0).unwrap(), fused.input(1).unwrap()];
        let result = fused.step(Op::from(op), &args).unwrap();
        Op::from(fused.finish(result).unwrap())
    };
    for (op, fails) in [
        (Op::from(BinaryOp::FloorDiv), true),
        (Op::from(BinaryOp::Remainder), true),
        (Op::from(BinaryOp::Div), false),
        (fused(BinaryOp::Remainder), true),
        (fused(BinaryOp::Div), false),
        (Op::from(IndexSelect { axis: 0 }), true),
        (Op::from(Linalg::Inverse), true),
        (Op::from(custom("opaque")), true),
        (Op::from(MatMul::default()), false),
        (Op::from(CopyOp), false),
    ] {
        assert_eq!(op.fails_on_values(), fails, "{op:?}");
    }
}
