//! Graphs in files: what is written is read, and the file is what other programs expect.

mod ops;

use rustorch_core::{
    BinaryOp, CustomOp, DType, Device, Distribution, Draw, Graph, Node, NodeResult, Op, OutputMeta,
    PhiloxKey, QuantType, Random, Shape, Source, State, UnaryOp, Value, ValueId,
};
use rustorch_formats::graph::{ErrorKind, File, Result, Writer};
use rustorch_formats::safetensors;
use std::io;
use std::path::Path;

pub(crate) fn value(source: Source, dtype: DType, dims: &[usize]) -> Value {
    Value { source, dtype, shape: Shape::new(dims).unwrap(), device: Device::CPU }
}

/// Adds a node with one result, which is new or written into all of a value.
fn push(graph: &mut Graph, op: Op, args: &[ValueId], into: Option<ValueId>, dims: &[usize]) -> ValueId {
    let source = Source::Result { node: graph.nodes.len() as u32, index: 0 };
    let result = graph.add_value(value(source, DType::F32, dims));
    let args = args.iter().map(|arg| graph.whole(*arg)).collect();
    let results = [NodeResult { value: result, into: into.map(|into| Box::new(graph.whole(into))) }];
    graph.nodes.push(Node { op, args, results: results.into_iter().collect(), device: None });
    result
}

/// The second of two values of pairs: a product with a constant, added to a state, and random numbers.
pub(crate) fn example() -> Graph {
    let mut graph = Graph::default();
    let x = graph.add_value(value(Source::Input(0), DType::F32, &[2]));
    let weight = graph.add_value(value(Source::Constant(0), DType::F32, &[2]));
    let state = graph.add_value(value(Source::State(0), DType::F32, &[2]));
    graph.inputs.push(x);
    let product = push(&mut graph, BinaryOp::Mul.into(), &[x, weight], None, &[2]);
    let next = push(&mut graph, BinaryOp::Add.into(), &[state, product], Some(state), &[2]);
    graph.states.push(State { first: state, last: next });
    let key = PhiloxKey { seed: u64::MAX, offset: 3 };
    graph.draws.push(Draw { key, blocks: 1 });
    let shape = Shape::new([2].as_slice()).unwrap();
    let random =
        Random { distribution: Distribution::Normal { mean: 0.0, std: 1.0 }, shape, dtype: DType::F32, key };
    let noise = push(&mut graph, random.into(), &[], None, &[2]);
    graph.outputs.push(graph.whole(noise));
    graph.outputs.push(graph.whole(next));
    graph.outputs[1].layout = graph.outputs[1].layout.slice(0, 1, 1, 1).unwrap();
    graph
}

fn le(x: [f32; 2]) -> Vec<u8> {
    x.map(f32::to_le_bytes).concat()
}

/// The example's file, with the constant 1, 2 and the state 3, 4.
pub(crate) fn example_file() -> Vec<u8> {
    written(&example()).unwrap()
}

fn writer(graph: &Graph) -> Result<Writer<'static>> {
    Writer::new(graph, |_| Ok(le([1.0, 2.0])), |_| Ok(le([3.0, 4.0])))
}

fn written(graph: &Graph) -> Result<Vec<u8>> {
    writer(graph)?.to_bytes()
}

#[test]
fn a_file_has_the_graph_and_its_tensors() {
    let file = File::from_bytes(example_file()).unwrap();
    assert_eq!(*file.graph(), example());
    let bytes =
        |list: &[rustorch_formats::SharedBytes]| list.iter().map(|bytes| bytes.to_vec()).collect::<Vec<_>>();
    assert_eq!(bytes(file.constants()), [le([1.0, 2.0])]);
    assert_eq!(bytes(file.states()), [le([3.0, 4.0])]);
    assert_eq!(written(file.graph()).unwrap(), example_file());

    let plain = safetensors::File::from_bytes(example_file()).unwrap();
    let tensors: Vec<_> = plain.tensors().map(|t| (t.name(), t.dtype(), t.shape())).collect();
    assert_eq!(tensors, [("constant.0", DType::F32, &[2][..]), ("state.0", DType::F32, &[2])]);
    assert_eq!(plain.metadata()["rustorch.graph.version"], "3");
    let json = &plain.metadata()["rustorch.graph"];
    assert!(json.starts_with(r#"{"values":[{"source":{"input":0},"dtype":"f32","shape":[2]},"#), "{json}");
    assert!(
        json.contains(r#"{"op":{"Binary":"Add"},"args":[2,3],"results":[{"value":4,"into":2}]}"#),
        "{json}"
    );
    assert!(json.contains(r#""outputs":[5,{"value":4,"shape":[1],"offset":1}]"#), "{json}");
    assert!(
        json.contains(r#""draws":[{"key":{"seed":18446744073709551615,"offset":3},"blocks":1}]"#),
        "{json}"
    );
}

#[test]
fn dtypes_that_safetensors_has_not_are_kept_as_others() {
    let mut graph = Graph::default();
    let constants = [
        (DType::C128, &[2, 1][..], "F64 [2, 1, 2]", vec![7; 32]),
        (DType::Quant(QuantType::Q4_K), &[2, 256], "U8 [288]", vec![8; 288]),
        (DType::Quant(QuantType::MXFP4), &[32], "U8 [17]", vec![9; 17]),
        (DType::C64, &[1], "C64 [1]", vec![6; 8]),
        (DType::Bool, &[], "BOOL []", vec![1; 1]),
        (DType::BF16, &[0, 3], "BF16 [0, 3]", vec![]),
    ];
    for (i, (dtype, dims, ..)) in (0..).zip(&constants) {
        let id = graph.add_value(value(Source::Constant(i), *dtype, dims));
        graph.outputs.push(graph.whole(id));
    }
    let bytes = constants.clone();
    let writer = Writer::new(&graph, move |i| Ok(bytes[i].3.clone()), |_| unreachable!()).unwrap();
    let written = writer.to_bytes().unwrap();
    let file = File::from_bytes(written.clone()).unwrap();
    assert_eq!(*file.graph(), graph);
    let plain = safetensors::File::from_bytes(written).unwrap();
    for (i, (_, _, shown, bytes)) in constants.iter().enumerate() {
        let tensor = plain.tensor(&format!("constant.{i}")).unwrap();
        let dtype = match tensor.dtype() {
            DType::Bool => "BOOL".to_owned(),
            dtype => dtype.name().to_uppercase(),
        };
        assert_eq!(format!("{dtype} {:?}", tensor.shape()), *shown);
        assert_eq!(file.constants()[i][..], bytes[..]);
    }
}

#[test]
fn opened_and_mapped_files_are_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("graph.safetensors");
    writer(&example()).unwrap().write_file(&path).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), example_file());
    let read = File::open(&path).unwrap();
    // SAFETY: nobody else knows the file.
    let mapped = unsafe { File::open_mapped(&path) }.unwrap();
    assert_eq!(read.graph(), mapped.graph());
    assert!(mapped.constants()[0].is_mapped() && !read.constants()[0].is_mapped());
    assert_eq!(mapped.constants()[0][..], read.constants()[0][..]);
    let missing = File::open(dir.path().join("none.safetensors")).unwrap_err();
    assert_eq!(missing.path(), Some(&*dir.path().join("none.safetensors")));
}

#[test]
fn what_cannot_be_saved_is_said_before_anything_is_written() {
    let mut graph = example();
    graph.nodes[0].args[0].value = ValueId(4);
    let error = written(&graph).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Invalid(_)), "{error}");
    assert!(error.to_string().contains("node 0 (mul): argument 0: %4 is read before it is made"), "{error}");

    let mut graph = example();
    let custom = CustomOp::builder("halve", 1)
        .infer(|args, _| Ok(vec![OutputMeta { dtype: args[0].dtype, shape: args[0].shape().clone() }]))
        .cpu(|_, _, _| Ok(()));
    push(&mut graph, custom.build().unwrap().into(), &[ValueId(0)], None, &[2]);
    let error = written(&graph).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unsupported { .. }), "{error}");
    assert!(error.to_string().contains("the custom operation halve"), "{error}");
}

/// The only file in a folder has these bytes.
#[track_caller]
fn only_has(folder: &Path, bytes: &[u8]) {
    let files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    assert!(std::fs::read(&files[0]).unwrap() == bytes);
}

#[test]
fn a_file_that_cannot_be_written_is_left_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("graph.safetensors");
    std::fs::write(&path, "old").unwrap();
    let fails = |kind: io::ErrorKind| {
        let state = move |_| Err(io::Error::from(kind));
        Writer::new(&example(), |_| Ok(le([1.0, 2.0])), state).unwrap().write_file(&path).unwrap_err()
    };
    for (kind, advice) in [
        (io::ErrorKind::StorageFull, "make room, or save it on another disk"),
        (io::ErrorKind::PermissionDenied, "save it in a folder in which you may make files"),
        (io::ErrorKind::Other, "save it somewhere else"),
    ] {
        let error = fails(kind);
        assert!(matches!(error.kind(), ErrorKind::Write { .. }), "{error}");
        assert!(error.to_string().ends_with(advice), "{error}");
        assert_eq!(error.path(), Some(&*path));
        only_has(dir.path(), b"old");
    }

    // Too few bytes.
    let short = Writer::new(&example(), |_| Ok(vec![0; 8]), |_| Ok(vec![0; 7])).unwrap();
    let error = short.write_file(&path).unwrap_err().to_string();
    assert!(error.contains("tensor `state.0` needs 8 bytes, 7 were given"), "{error}");
    only_has(dir.path(), b"old");

    let error =
        writer(&example()).unwrap().write_file(dir.path().join("none/graph.safetensors")).unwrap_err();
    assert!(error.to_string().ends_with("make the folder first"), "{error}");
    only_has(dir.path(), b"old");

    writer(&example()).unwrap().write_file(&path).unwrap();
    only_has(dir.path(), &example_file());
}

#[test]
fn unused_operations_of_a_graph_are_kept() {
    let mut graph = example();
    push(&mut graph, UnaryOp::Exp.into(), &[ValueId(0)], None, &[2]);
    assert_eq!(*File::from_bytes(written(&graph).unwrap()).unwrap().graph(), graph);
}
