//! Any bytes are read as a graph's file, and any text as the JSON of one, or refused, without a panic or an allocation out of
//! proportion; what was read is written and read again as it was, and runs, if it is small, or is an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rustorch_core::{Graph, OutputMeta, TensorMeta, ValueId};
use rustorch_formats::graph::{File, GRAPH_KEY, VERSION, VERSION_KEY, Writer};
use rustorch_formats::safetensors;
use rustorch_tensor::{Program, Tensor};

/// The most bytes of all values, and the most operations, of a graph that is run.
const MOST_BYTES: usize = 1 << 20;
const MOST_FLOPS: u64 = 1 << 23;

fuzz_target!(|data: &[u8]| {
    match File::from_bytes(data.to_vec()) {
        Ok(file) => exercise(file),
        Err(error) => drop(error.to_string()),
    }
    let Ok(json) = std::str::from_utf8(data) else { return };
    match serde_json::from_str::<Graph>(json) {
        Ok(graph) if graph.verify().is_ok() && bytes(&graph) <= MOST_BYTES => {
            exercise(File::from_bytes(written(&graph)).expect("a valid graph is read"));
        }
        _ => {
            let mut writer = safetensors::Writer::new();
            writer.metadata(VERSION_KEY, &VERSION.to_string()).expect("there is none yet");
            writer.metadata(GRAPH_KEY, json).expect("there is none yet");
            let Ok(bytes) = writer.to_bytes() else { return };
            if let Err(error) = File::from_bytes(bytes) {
                drop(error.to_string());
            }
        }
    }
});

/// The bytes of all values.
fn bytes(graph: &Graph) -> usize {
    graph.values.iter().fold(0usize, |sum, value| sum.saturating_add(value.bytes()))
}

/// A file of the graph, whose tensors are zeros.
fn written(graph: &Graph) -> Vec<u8> {
    let zeros = |ids: Vec<ValueId>| {
        let sizes: Vec<usize> = ids.iter().map(|id| graph.values[id.index()].bytes()).collect();
        move |i: usize| Ok(vec![0; sizes[i]])
    };
    let states = graph.states.iter().map(|state| state.first).collect();
    let writer =
        Writer::new(graph, zeros(graph.constants()), zeros(states)).expect("a valid graph is written");
    writer.to_bytes().expect("tensors are as long as their values")
}

fn exercise(file: File) {
    let graph = file.graph();
    if bytes(graph) > MOST_BYTES {
        return;
    }
    let again = File::from_bytes(written(graph)).expect("what was written can be read");
    // NaN equals nothing.
    assert_eq!(format!("{:?}", again.graph()), format!("{graph:?}"));
    let _ = (graph.to_string(), graph.to_dot());

    let mut flops = 0u64;
    for node in &graph.nodes {
        let args: Vec<TensorMeta<'_>> = node.args.iter().map(|arg| graph.meta(arg)).collect();
        let outs: Vec<OutputMeta> = node.op.infer(&args).expect("the graph verifies").into_vec();
        flops = flops.saturating_add(node.op.work(&args, &outs).flops);
    }
    if flops > MOST_FLOPS {
        return;
    }
    let tensor = |id: ValueId, bytes: &[u8]| {
        let value = &graph.values[id.index()];
        Tensor::from_bytes(bytes, value.dtype, value.shape.clone())
    };
    let constants = graph.constants().into_iter().zip(file.constants()).map(|(id, bytes)| tensor(id, bytes));
    let states = graph.states.iter().zip(file.states()).map(|(state, bytes)| tensor(state.first, bytes));
    let (Ok(constants), Ok(states)) = (constants.collect(), states.collect()) else { return };
    let program = match Program::from_parts(graph.clone(), constants, states) {
        Ok(program) => program,
        Err(error) => return drop(error.to_string()),
    };
    let inputs = graph.inputs.iter().map(|id| tensor(*id, &vec![0; graph.values[id.index()].bytes()]));
    let Ok(inputs) = inputs.collect::<Result<Vec<Tensor>, _>>() else { return };
    for _ in 0..2 {
        match program.run(&inputs.iter().collect::<Vec<_>>()) {
            Ok(outputs) => drop(outputs.iter().map(Tensor::to_bytes).collect::<Vec<_>>()),
            Err(error) => drop(error.to_string()),
        }
    }
}
