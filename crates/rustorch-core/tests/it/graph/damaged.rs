//! Damage to a valid graph: what is said of it.

use super::{
    CACHE, INDICES, KEY, LOGITS, NEXT_CACHE, NOISE, PAIRS, PROBABILITIES, SUM, WEIGHT, X, example, push_into,
    shape, value, view,
};
use rustorch_core::{
    AddRmsNorm, DType, Device, Draw, Graph, GraphOperand, NodeResult, Op, QuantType, Softmax, Source, State,
    UnaryOp, ValueId,
};

use DType::{Bool, F32, F64, I32};

const Q8: DType = DType::Quant(QuantType::Q8_0);
/// No value of the example.
const NONE: ValueId = ValueId(99);

/// Where the result of a node of the example is written.
fn destination(graph: &mut Graph) -> &mut GraphOperand {
    graph.nodes[3].results[0].into.as_mut().unwrap()
}

/// What is damaged, how, and what is said of it.
type Damage = (&'static str, fn(&mut Graph), &'static str);

const DAMAGED_OPERANDS: &[Damage] = &[
    (
        "an argument is no value",
        |graph| graph.nodes[0].args[0].value = NONE,
        "node 0 (matmul): argument 0: there is no value %99 among 12",
    ),
    (
        "an argument is made by a later node",
        |graph| graph.nodes[0].args[0] = graph.whole(SUM),
        "node 0 (matmul): argument 0: %10 is read before it is made",
    ),
    (
        "an argument is the node's own result",
        |graph| graph.nodes[1].args[0].value = PROBABILITIES,
        "node 1 (softmax): argument 0: %5 is read before it is made",
    ),
    (
        "an argument was overwritten",
        |graph| graph.nodes[5].args[1].value = CACHE,
        "node 5 (add): argument 1: %3 is read after it was overwritten",
    ),
    (
        "a view reaches beyond its value",
        |graph| graph.nodes[5].args[1] = view(NEXT_CACHE, F32, &[2, 4], &[1, 4], 3),
        "node 5 (add): argument 1: %8 as f32[2, 4] strides [1, 4] offset 3 reaches beyond the 64 bytes of f32[4, 4]",
    ),
    (
        "a view without elements begins beyond its value",
        |graph| graph.nodes[5].args[1] = view(NEXT_CACHE, F32, &[0, 4], &[4, 1], 17),
        "node 5 (add): argument 1: %8 as f32[0, 4] offset 17 reaches beyond the 64 bytes of f32[4, 4]",
    ),
    (
        "complex numbers are read as numbers of another width",
        |graph| graph.nodes[6].args[0].dtype = F64,
        "node 6 (exp): argument 0: %1 of c64 is seen as f64",
    ),
    (
        "booleans are read as numbers",
        |graph| graph.values[X.index()].dtype = Bool,
        "node 0 (matmul): argument 0: %0 of bool is seen as f32",
    ),
    (
        "numbers are read as booleans",
        |graph| graph.outputs[0].dtype = Bool,
        "output 0: %10 of f32 is seen as bool",
    ),
    (
        "a quantized view starts inside a block",
        |graph| {
            let weight = graph.add_value(value(Source::Constant(1), Q8, &[2, 64]));
            graph.nodes[0].args[1] = view(weight, Q8, &[32, 2], &[1, 64], 16);
        },
        "node 0 (matmul): argument 1: %12 as Q8_0[32, 2] strides [1, 64] offset 16: a Q8_0 tensor needs rows of whole \
         blocks of 32, but has strides [1, 64] at offset 16",
    ),
    (
        "a quantized view ends inside a block",
        |graph| {
            let weight = graph.add_value(value(Source::Constant(1), Q8, &[2, 64]));
            graph.nodes[0].args[1] = view(weight, Q8, &[48, 2], &[1, 64], 0);
        },
        "node 0 (matmul): argument 1: %12 as Q8_0[48, 2] strides [1, 64]: a Q8_0 tensor needs rows of whole blocks",
    ),
    (
        "an output is no value",
        |graph| graph.outputs[1].value = NONE,
        "output 1: there is no value %99 among 12",
    ),
    (
        "an output was overwritten",
        |graph| graph.outputs[0] = graph.whole(CACHE),
        "output 0: %3 is read after it was overwritten",
    ),
    (
        "an output reaches beyond its value",
        |graph| graph.outputs[2] = view(PAIRS, F32, &[2], &[1], 3),
        "output 2: %11 as f32[2] offset 3 reaches beyond the 16 bytes of f32[2, 2]",
    ),
];

const DAMAGED_NODES: &[Damage] = &[
    (
        "shapes do not fit the operation",
        |graph| graph.nodes[0].args[0] = graph.whole(WEIGHT),
        "node 0 (matmul): matmul: the inner dimensions 4 and 3 differ (shapes: [3, 4], [3, 4])",
    ),
    (
        "a parameter does not fit the arguments",
        |graph| graph.nodes[1].op = Op::from(Softmax { axis: 2, log: false }),
        "node 1 (softmax): softmax: dimension 2 is out of range for a tensor of 2 dimensions",
    ),
    (
        "an argument is missing",
        |graph| _ = graph.nodes[0].args.pop(),
        "node 0 (matmul): matmul: takes 2 to 3 arguments, 1 were given",
    ),
    (
        "a result is missing",
        |graph| _ = graph.nodes[2].results.pop(),
        "node 2 (topk): has 1 results, and the operation makes 2",
    ),
    (
        "a node has a result too many",
        |graph| {
            let value = graph.add_value(value(Source::Result { node: 1, index: 1 }, F32, &[2, 4]));
            graph.nodes[1].results.push(NodeResult { value, into: None });
        },
        "node 1 (softmax): has 2 results, and the operation makes 1",
    ),
    (
        "a result is no value",
        |graph| graph.nodes[1].results[0].value = NONE,
        "node 1 (softmax): result 0: there is no value %99 among 12",
    ),
    (
        "a value is assigned twice",
        |graph| graph.nodes[1].results[0].value = LOGITS,
        "node 1 (softmax): result 0: %4 is assigned twice",
    ),
    (
        "an input is assigned",
        |graph| graph.nodes[1].results[0].value = X,
        "node 1 (softmax): result 0: %0 is assigned twice",
    ),
    (
        "results are swapped",
        |graph| graph.nodes[2].results.swap(0, 1),
        "node 2 (topk): result 0: %7 is marked as result 1 of node 2",
    ),
    (
        "nodes are swapped",
        |graph| graph.nodes.swap(4, 6),
        "node 4 (exp): result 0: %11 is marked as result 0 of node 6",
    ),
    (
        "a result has another dtype",
        |graph| graph.values[PROBABILITIES.index()].dtype = F64,
        "node 1 (softmax): result 0: %5 is f64[2, 4], and the operation makes f32[2, 4]",
    ),
    (
        "a result has another shape",
        |graph| graph.values[INDICES.index()].shape = shape(&[2, 3]),
        "node 2 (topk): result 1: %7 is i64[2, 3], and the operation makes i64[2, 2]",
    ),
    (
        "an input is written",
        |graph| *destination(graph) = graph.whole(X),
        "node 3 (copy): result 0: destination: %0 is input 0, which is never written",
    ),
    (
        "a constant is written",
        |graph| *destination(graph) = graph.whole(WEIGHT),
        "node 3 (copy): result 0: destination: %2 is constant 0, which is never written",
    ),
    (
        "a destination is not there yet",
        |graph| *destination(graph) = graph.whole(NOISE),
        "node 3 (copy): result 0: destination: %9 is read before it is made",
    ),
    (
        "a destination overlaps itself",
        |graph| *destination(graph) = view(CACHE, F32, &[2, 4], &[0, 1], 0),
        "node 3 (copy): result 0: destination: %3 as f32[2, 4] strides [0, 1] reaches elements twice",
    ),
    (
        "a destination has another shape",
        |graph| *destination(graph) = view(CACHE, F32, &[4, 2], &[4, 1], 0),
        "node 3 (copy): result 0: destination: %3 is f32[4, 2], and the operation makes f32[2, 4]",
    ),
    (
        "a destination has another dtype",
        |graph| destination(graph).dtype = I32,
        "node 3 (copy): result 0: destination: %3 of f32 is seen as i32",
    ),
    (
        "a destination reaches beyond its value",
        |graph| *destination(graph) = view(CACHE, F32, &[2, 4], &[4, 1], 9),
        "node 3 (copy): result 0: destination: %3 as f32[2, 4] offset 9 reaches beyond the 64 bytes",
    ),
    (
        "a write changes the shape",
        |graph| graph.values[NEXT_CACHE.index()].shape = shape(&[2, 8]),
        "%8: f32[2, 8] has another dtype, shape or device than %3: f32[4, 4], into which it is written",
    ),
    (
        "a write changes the device",
        |graph| graph.values[NEXT_CACHE.index()].device = Device::cuda(1),
        "%8: f32[4, 4] on cuda:1 has another dtype, shape or device than %3: f32[4, 4], into which",
    ),
    (
        "one of two results is written in place",
        |graph| graph.nodes[2].results[0].into = Some(Box::new(view(CACHE, F32, &[2, 2], &[2, 1], 0))),
        "node 2 (topk): writes 1 of 2 results in place, not all",
    ),
    (
        "two results overwrite one value",
        |graph| {
            // Sum and norm have one dtype.
            let node = &mut graph.nodes[2];
            node.op = Op::from(AddRmsNorm { eps: 1e-5 });
            let x = view(CACHE, F32, &[2, 2], &[2, 1], 0);
            node.args = [x.clone(), x.clone()].into_iter().collect();
            for i in 0..2 {
                let result = &mut graph.nodes[2].results[i];
                result.into = Some(Box::new(x.clone()));
                let value = &mut graph.values[result.value.index()];
                (value.dtype, value.shape) = (F32, shape(&[4, 4]));
            }
        },
        "node 2 (add_rms_norm): %3 is overwritten twice",
    ),
];

const DAMAGED_LISTS: &[Damage] = &[
    (
        "inputs are swapped",
        |graph| graph.inputs.swap(0, 1),
        "value %0 is marked as input 0, which it is not among the inputs",
    ),
    (
        "an input is missing",
        |graph| _ = graph.inputs.pop(),
        "value %1 is marked as input 1, which it is not among the inputs",
    ),
    (
        "a result is listed as an input",
        |graph| graph.inputs.push(NOISE),
        "input 2 is %9, which is not marked as input 2",
    ),
    (
        "an input is no value",
        |graph| graph.inputs.push(NONE),
        "input 2 is %99, which is not marked as input 2",
    ),
    (
        "constants do not count from 0",
        |graph| graph.values[WEIGHT.index()].source = Source::Constant(1),
        "value %2 is marked as constant 1, which it is not among the constants",
    ),
    (
        "constants have one number",
        |graph| _ = graph.add_value(value(Source::Constant(0), F32, &[1])),
        "value %12 is marked as constant 0, which it is not among the constants",
    ),
    (
        "a constant has the greatest number",
        |graph| graph.values[WEIGHT.index()].source = Source::Constant(u32::MAX),
        "value %2 is marked as constant 4294967295, which it is not among the constants",
    ),
    (
        "a constant has part of a block",
        |graph| graph.values[WEIGHT.index()].dtype = Q8,
        "value %2 of Q8_0[3, 4] has no whole blocks",
    ),
    (
        "a constant is larger than any memory",
        |graph| graph.values[WEIGHT.index()].shape = shape(&[3, 1 << 61]),
        "value %2 of f32[3, 2305843009213693952] has no whole blocks, or too many",
    ),
    (
        "an argument is larger than an allocation may be",
        |graph| graph.values[X.index()].shape = shape(&[1 << 61]),
        "value %0 of f32[2305843009213693952] is larger than any memory",
    ),
    (
        "nothing makes a value",
        |graph| _ = graph.add_value(value(Source::Result { node: 3, index: 1 }, F32, &[1])),
        "value %12 is marked as result 1 of node 3, which does not make it",
    ),
    (
        "a value's node is missing",
        |graph| _ = graph.nodes.pop(),
        "value %11 is marked as result 0 of node 6, which does not make it",
    ),
    (
        "a state is missing",
        |graph| graph.states.clear(),
        "value %3 is marked as state 0, which it is not among the states",
    ),
    (
        "a state begins with a result",
        |graph| graph.states.push(State { first: NOISE, last: NOISE }),
        "state 1: begins with %9, which is not marked as state 1",
    ),
    (
        "a state begins with another state",
        |graph| graph.states.push(graph.states[0].clone()),
        "state 1: begins with %3, which is not marked as state 1",
    ),
    (
        "a state ends with no value",
        |graph| graph.states[0].last = NONE,
        "state 0: there is no value %99 among 12",
    ),
    (
        "a state ends with what is not written into it",
        |graph| graph.states[0].last = SUM,
        "state 0: ends with %10, which does not descend from %3",
    ),
    (
        "a state ends with an input",
        |graph| graph.states[0].last = X,
        "state 0: ends with %0, which does not descend from %3",
    ),
    (
        "a state ends as it was before a write",
        |graph| graph.states[0].last = CACHE,
        "state 0: ends with %3, which was overwritten",
    ),
    (
        "a state ends between two writes",
        |graph| _ = push_into(graph, UnaryOp::Exp, &[graph.whole(NEXT_CACHE)], graph.whole(NEXT_CACHE)),
        "state 0: ends with %8, which was overwritten",
    ),
    (
        "a key is drawn twice",
        |graph| graph.draws.push(Draw { key: KEY, blocks: 1 }),
        "draw 1 has the key of an earlier one: PhiloxKey { seed: 7, offset: 0 }",
    ),
    (
        "a key is not drawn",
        |graph| graph.draws[0].key.offset = 1,
        "node 4 (rand) has a key that is not drawn, as of a generator of its own: PhiloxKey { seed: 7, offset: 0 }",
    ),
];

#[test]
fn what_does_not_fit_is_named_with_its_place() {
    example().verify().unwrap();
    for (name, damage, expected) in [DAMAGED_OPERANDS, DAMAGED_NODES, DAMAGED_LISTS].concat() {
        let mut graph = example();
        damage(&mut graph);
        let message = graph.verify().expect_err(name).to_string();
        assert!(message.starts_with("graph: ") && message.contains(expected), "{name}: {message}");
        // Whoever looks for the mistake lists and draws the graph.
        assert!(graph.to_string().ends_with("}\n") && graph.to_dot().ends_with("}\n"), "{name}");
    }
}

/// Every place of a graph that names a value.
fn named_values(graph: &mut Graph) -> Vec<&mut ValueId> {
    let Graph { nodes, inputs, outputs, states, .. } = graph;
    let mut ids: Vec<&mut ValueId> = inputs.iter_mut().collect();
    ids.extend(outputs.iter_mut().map(|output| &mut output.value));
    ids.extend(states.iter_mut().flat_map(|state| [&mut state.first, &mut state.last]));
    for node in nodes {
        ids.extend(node.args.iter_mut().map(|arg| &mut arg.value));
        for result in &mut node.results {
            ids.push(&mut result.value);
            ids.extend(result.into.as_mut().map(|into| &mut into.value));
        }
    }
    ids
}

#[test]
fn any_value_anywhere_is_accepted_or_refused() {
    let graph = example();
    for place in 0..named_values(&mut graph.clone()).len() {
        for id in (0..graph.values.len() as u32).chain([NONE.0, u32::MAX]) {
            let mut other = graph.clone();
            *named_values(&mut other)[place] = ValueId(id);
            let refused = other.verify().is_err();
            assert!(refused || (id as usize) < graph.values.len(), "{other}");
            assert!(!refused || other != graph);
        }
    }
}
