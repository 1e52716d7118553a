//! Graphs: the JSON in the metadata, and the tensors beside it.

use super::{Case, check};
use crate::graph::{example, example_file};
use rustorch_core::DType;
use rustorch_formats::graph::{File, GRAPH_KEY, VERSION, VERSION_KEY};
use rustorch_formats::safetensors;
use rustorch_testkit::allocations::peak_bytes;

type Tensor<'a> = (&'a str, DType, &'a [usize]);

const TENSORS: [Tensor<'static>; 2] = [("constant.0", DType::F32, &[2]), ("state.0", DType::F32, &[2])];

/// A file of this metadata and these tensors, which are zeros.
fn file_of(metadata: &[(&str, &str)], tensors: &[Tensor<'_>]) -> Vec<u8> {
    let mut writer = safetensors::Writer::new();
    for (key, value) in metadata {
        writer.metadata(key, value).unwrap();
    }
    for (name, dtype, shape) in tensors {
        let bytes = dtype.bytes_for(shape.iter().product()).unwrap();
        writer.tensor(name, shape, *dtype, vec![0; bytes]).unwrap();
    }
    writer.to_bytes().unwrap()
}

fn with_json(json: &str, tensors: &[Tensor<'_>]) -> Vec<u8> {
    file_of(&[(VERSION_KEY, &VERSION.to_string()), (GRAPH_KEY, json)], tensors)
}

/// The example's JSON with a part replaced.
fn edited(from: &str, to: &str) -> String {
    let json = serde_json::to_string(&example()).unwrap();
    assert!(json.contains(from), "{from} is not in {json}");
    json.replacen(from, to, 1)
}

fn edit(from: &str, to: &str) -> Vec<u8> {
    with_json(&edited(from, to), &TENSORS)
}

const X: &str = r#"{"source":{"input":0},"dtype":"f32","shape":[2]}"#;
const WEIGHT: &str = r#"{"source":{"constant":0},"dtype":"f32","shape":[2]}"#;
const PRODUCT: &str = r#"{"source":{"result":{"node":0,"index":0}},"dtype":"f32","shape":[2]}"#;
const MUL: &str = r#"{"op":{"Binary":"Mul"},"args":[0,1],"results":[3]}"#;
const ADD: &str = r#"{"op":{"Binary":"Add"},"args":[2,3],"results":[{"value":4,"into":2}]}"#;

fn mul(args: &str, results: &str) -> Vec<u8> {
    edit(MUL, &format!(r#"{{"op":{{"Binary":"Mul"}},"args":{args},"results":{results}}}"#))
}

#[rustfmt::skip]
fn cases() -> Vec<Case> {
    let json = serde_json::to_string(&example()).unwrap();
    let tensors = |tensors: &[Tensor<'_>]| with_json(&json, tensors);
    let [weight, state] = TENSORS;
    let deep = |open: &str, close: &str, levels| edit(MUL, &format!("{}{}", open.repeat(levels), close.repeat(levels)));
    let op = |op: &str| edit(r#"{"Binary":"Mul"}"#, op);
    vec![
        // The file.
        ("no safetensors file", "Safetensors", "it is a GGUF file", b"GGUF\x03\0\0\0\0\0\0\0\0\0\0\0".to_vec()),
        ("cut in the header", "Safetensors", "file is truncated", example_file()[..100].to_vec()),
        ("cut in a tensor", "Safetensors", "file is truncated", example_file()[..example_file().len() - 1].to_vec()),
        ("not UTF-8", "Safetensors", "not UTF-8", {
            let mut bytes = example_file();
            let at = bytes.windows(6).position(|part| part == b"source").unwrap();
            bytes[at] = 0xFF;
            bytes
        }),
        ("the graph twice", "Safetensors", "metadata key `rustorch.graph` occurs twice", {
            let header = r#"{"__metadata__":{"rustorch.graph":"","rustorch.graph":""}}"#;
            [&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat()
        }),
        ("tensors only", "NoGraph", "no graph is in this file", file_of(&[("format", "pt")], &TENSORS)),
        ("no version", "Version", "version (none)", file_of(&[(GRAPH_KEY, &json)], &TENSORS)),
        ("another version", "Version", "the graph has version 1, and this version of RusTorch reads version 3", file_of(&[(VERSION_KEY, "1"), (GRAPH_KEY, &json)], &TENSORS)),
        ("a version that is no number", "Version", "version 1.0,", file_of(&[(VERSION_KEY, "1.0"), (GRAPH_KEY, &json)], &TENSORS)),
        ("an endless version", "Version", "version 99999999999999999999999999999999,", file_of(&[(VERSION_KEY, &"9".repeat(100_000)), (GRAPH_KEY, &json)], &TENSORS)),

        // The JSON.
        ("no JSON", "Json", "EOF while parsing a value", with_json("", &TENSORS)),
        ("JSON cut", "Json", "EOF while parsing", with_json(&json[..json.len() / 2], &TENSORS)),
        ("JSON and more", "Json", "trailing characters", with_json(&format!("{json}x"), &TENSORS)),
        ("a list", "Json", "invalid type: integer `1`", with_json("[1]", &TENSORS)),
        ("no nodes", "Json", "missing field `nodes`", edit(&json[json.find(r#""nodes""#).unwrap()..json.find(r#""inputs""#).unwrap()], "")),
        ("an unknown field", "Json", "unknown field `weights`", edit(r#""states""#, r#""weights":[],"states""#)),
        ("a field twice", "Json", "duplicate field `states`", edit(r#""states""#, r#""states":[],"states""#)),
        ("an unknown field of a value", "Json", "unknown field `strides`", edit(X, &X.replace(r#""shape""#, r#""strides":[1],"shape""#))),
        ("an unknown field of a node", "Json", "unknown field `name`", edit(MUL, &MUL.replace(r#""args""#, r#""name":"mul","args""#))),
        ("an unknown field of an operand", "Json", "unknown field `stride`", mul(r#"[{"value":0,"shape":[2],"stride":[1]},1]"#, "[3]")),
        ("an unknown operation", "Json", "unknown variant `Convolve`", op(r#"{"Convolve":{}}"#)),
        ("an unknown function", "Json", "unknown variant `Mull`", op(r#"{"Binary":"Mull"}"#)),
        ("a custom operation", "Json", "which no file has", op(r#"{"Custom":{"name":"halve","version":1}}"#)),
        ("two operations", "Json", "expected value", op(r#"{"Binary":"Mul","Unary":"Exp"}"#)),
        ("an operation without parameters", "Json", "missing field `eps`", op(r#"{"RmsNorm":{}}"#)),
        ("an unknown parameter", "Json", "unknown field `axis`", op(r#"{"RmsNorm":{"eps":1.0,"axis":1}}"#)),
        ("a parameter of another kind", "Json", "expected a number of f64", op(r#"{"RmsNorm":{"eps":"small"}}"#)),
        ("a fused operation without steps", "Json", "fused_pointwise: has no step", op(r#"{"FusedPointwise":{"inputs":2,"steps":[]}}"#)),
        ("a fused operation that loops", "Json", "step 0 reads Step(0), which is not before it", op(r#"{"FusedPointwise":{"inputs":1,"steps":[{"op":{"Unary":"Exp"},"args":[{"Step":0}]}]}}"#)),
        ("an unknown dtype", "Json", "`f31` is the name of none", edit(X, &X.replace("f32", "f31"))),
        ("an unknown device", "Json", "`tpu` names no device", edit(X, &X.replace(r#""shape""#, r#""device":"tpu","shape""#))),
        ("more elements than can be addressed", "Json", "more elements than can be addressed", edit(PRODUCT, &PRODUCT.replace("[2]", "[4294967296,4294967296]"))),
        ("a negative length", "Json", "integer `-2`", edit(X, &X.replace("[2]", "[-2]"))),
        ("strides beyond the address space", "Json", "node 0: layout: the farthest element", mul(r#"[{"value":0,"shape":[3],"strides":[9223372036854775808]},1]"#, "[3]")),
        ("strides of another rank", "Json", "2 strides for 1 dimensions", mul(r#"[{"value":0,"shape":[2],"strides":[1,1]},1]"#, "[3]")),
        ("a value of 2^32", "Json", "4294967296", mul("[0,4294967296]", "[3]")),
        ("an operand that is a text", "Json", "expected the number of a value, or an object", mul(r#"["0",1]"#, "[3]")),
        ("an operand that is no value", "Json", "node 0: graph: there is no value %99 among 6", mul("[0,99]", "[3]")),
        ("an output that is no value", "Json", "output 0: graph: there is no value %99", edit(r#""outputs":[5"#, r#""outputs":[99"#)),
        ("a node without results", "Json", "node 0 has no result", mul("[0,1]", "[]")),
        ("more nodes than values", "Json", "1003 nodes make no more than 6 values", edit(MUL, &vec![MUL; 1_001].join(","))),
        ("10000 levels of lists", "Json", "expected value", deep("[", "]", 10_000)),
        ("10000 levels of operations", "Json", "recursion limit exceeded", op(&format!("{}1{}", r#"{"FusedPointwise":{"inputs":1,"steps":[{"op":"#.repeat(10_000), "}".repeat(10_000)))),

        // The graph.
        ("a node that reads its own result", "Invalid", "argument 0: %3 is read before it is made", mul("[3,1]", "[3]")),
        ("nodes that read each other's results", "Invalid", "argument 1: %5 is read before it is made", mul("[0,5]", "[3]")),
        ("a value that is made twice", "Invalid", "%3 is assigned twice", edit(ADD, r#"{"op":{"Binary":"Add"},"args":[2,3],"results":[3]}"#)),
        ("a value that nothing makes", "Invalid", "result 0: %3 is marked as result 1 of node 0", edit(PRODUCT, &PRODUCT.replace(r#""index":0"#, r#""index":1"#))),
        ("a node of 10^9", "Invalid", "%3 is marked as result 0 of node 999999999", edit(PRODUCT, &PRODUCT.replace(r#""node":0"#, r#""node":999999999"#))),
        ("an input of 10^9", "Invalid", "value %0 is marked as input 999999999", edit(X, &X.replace(r#""input":0"#, r#""input":999999999"#))),
        ("a constant of 10^9", "Invalid", "value %1 is marked as constant 999999999", edit(WEIGHT, &WEIGHT.replace(r#""constant":0"#, r#""constant":999999999"#))),
        ("a result of 10^9 elements", "Invalid", "%3 is f32[1000000000], and the operation makes f32[2]", edit(PRODUCT, &PRODUCT.replace("[2]", "[1000000000]"))),
        ("an input of 2^61 elements", "Invalid", "value %0 of f32[2305843009213693952] is larger than any memory", edit(X, &X.replace("[2]", "[2305843009213693952]"))),
        ("a constant of 2^63 elements", "Invalid", "has no whole blocks, or too many", edit(WEIGHT, &WEIGHT.replace("[2]", "[9223372036854775808]"))),
        ("part of a block", "Invalid", "value %1 of Q4_0[2] has no whole blocks", edit(WEIGHT, &WEIGHT.replace("f32", "Q4_0"))),
        ("a view beyond its value", "Invalid", "reaches beyond the 8 bytes of f32[2]", mul(r#"[{"value":0,"shape":[2],"offset":1},1]"#, "[3]")),
        ("a view without elements beyond its value", "Invalid", "f32[0] offset 18446744073709551614 reaches beyond", mul(r#"[{"value":0,"shape":[0],"offset":18446744073709551614},1]"#, "[3]")),
        ("a view of another dtype", "Invalid", "%0 of f32 is seen as i64", mul(r#"[{"value":0,"dtype":"i64","shape":[1]},1]"#, "[3]")),
        ("too few arguments", "Invalid", "node 0 (mul): ", mul("[0]", "[3]")),
        ("too many results", "Invalid", "has 2 results, and the operation makes 1", mul("[0,1]", "[3,4]")),
        ("an argument is written", "Invalid", "%0 is input 0, which is never written", mul("[0,1]", r#"[{"value":3,"into":0}]"#)),
        ("a destination that overlaps itself", "Invalid", "reaches elements twice", edit(ADD, r#"{"op":{"Binary":"Add"},"args":[2,3],"results":[{"value":4,"into":{"value":2,"shape":[2],"strides":[0]}}]}"#)),
        ("a state that ends nowhere", "Invalid", "state 0: there is no value %77", edit(r#""last":4"#, r#""last":77"#)),
        ("random numbers that nobody draws", "Invalid", "has a key that is not drawn", edit(r#""draws":[{"key":{"seed":18446744073709551615,"offset":3},"blocks":1}]"#, r#""draws":[]"#)),
        ("an operation that does not take the dtype", "Invalid", "node 0 (linalg.inv)", op(r#"{"Linalg":"Inverse"}"#)),

        // The tensors.
        ("a constant is missing", "MissingTensor", "the graph has `constant.0`", tensors(&[state])),
        ("a state is missing", "MissingTensor", "the graph has `state.0`", tensors(&[weight])),
        ("a tensor too many", "UnknownTensor", "the tensor `constant.1`, to which its graph does not refer", tensors(&[weight, state, ("constant.1", DType::F32, &[2])])),
        ("a tensor of 0.0", "UnknownTensor", "the tensor `constant.00`", tensors(&[weight, state, ("constant.00", DType::F32, &[2])])),
        ("another dtype", "OtherTensor", "tensor `constant.0` is i32[2], and the graph's value %1 of f32[2] is kept as f32[2]", tensors(&[("constant.0", DType::I32, &[2]), state])),
        ("another shape", "OtherTensor", "tensor `state.0` is f32[3]", tensors(&[weight, ("state.0", DType::F32, &[3])])),
        ("blocks of other bytes", "OtherTensor", "the graph's value %1 of Q4_0[32] is kept as u8[18]", {
            let json = edited(WEIGHT, r#"{"source":{"constant":0},"dtype":"Q4_0","shape":[32]}"#).replace(MUL, r#"{"op":{"Binary":"Mul"},"args":[0,0],"results":[3]}"#);
            with_json(&json, &[("constant.0", DType::U8, &[17]), state])
        }),
    ]
}

#[test]
fn each_malformation_has_its_error() {
    assert!(File::from_bytes(example_file()).is_ok());
    let variants = check(cases(), File::from_bytes);
    assert_eq!(variants.len(), 8, "{variants:?}");
}

#[test]
fn every_truncation_is_an_error_that_says_so() {
    let bytes = example_file();
    for len in 0..bytes.len() {
        let error = File::from_bytes(bytes[..len].to_vec()).unwrap_err();
        assert!(error.to_string().starts_with("file is truncated"), "{len}: {error}");
    }
}

/// Every prefix of the JSON, in a file that is whole.
#[test]
fn every_truncation_of_the_json_is_an_error() {
    let json = serde_json::to_string(&example()).unwrap();
    for len in 0..json.len() {
        let error = File::from_bytes(with_json(&json[..len], &TENSORS)).unwrap_err();
        assert!(error.to_string().starts_with("the graph is malformed: EOF while parsing"), "{len}: {error}");
    }
}

/// A graph in memory is larger than its JSON; how much larger has a bound.
#[test]
fn large_files_take_memory_in_proportion() {
    let values = |n: usize| vec![r#"{"source":{"constant":0},"dtype":"u8","shape":[]}"#; n].join(",");
    let nodes = |n: usize| vec![r#"{"op":{"Embedding":null},"args":[],"results":[0]}"#; n].join(",");
    let of = |values: String, nodes: String| {
        format!(
            r#"{{"values":[{values}],"nodes":[{nodes}],"inputs":[],"outputs":[],"states":[],"draws":[]}}"#
        )
    };
    let lists = |open: &str| {
        format!(
            r#"{{"values":[{{"source":{{"input":0}},"dtype":"f32","shape":[{}1]}}]{open}"#,
            "1,".repeat(1_000_000)
        )
    };
    for (what, json) in [
        ("values", of(values(20_000), String::new())),
        ("nodes", of(String::new(), nodes(20_000))),
        ("values and nodes", of(values(20_000), nodes(20_000))),
        ("dimensions", lists("")),
    ] {
        let bytes = with_json(&json, &[]);
        let len = bytes.len();
        let (result, peak) = peak_bytes(|| File::from_bytes(bytes).map(drop));
        result.unwrap_err();
        println!("{what}: {peak} bytes at most for a file of {len}");
        assert!(peak < 8 * len, "{what}: {peak} bytes for a file of {len}");
    }
    // Operands are short in JSON, and have a layout each in memory.
    let one = r#"{"source":{"input":0},"dtype":"u8","shape":[]}"#;
    let many = vec!["0"; 200_000].join(",");
    let json =
        format!(r#"{{"values":[{one}],"nodes":[],"inputs":[0],"outputs":[{many}],"states":[],"draws":[]}}"#);
    let bytes = with_json(&json, &[]);
    let (result, peak) = peak_bytes(|| File::from_bytes(bytes));
    assert_eq!(result.unwrap().graph().outputs.len(), 200_000);
    println!("operands: {peak} bytes at most for 200000");
    assert!(peak < 180 * 200_000, "operands: {peak} bytes");
    // One that is valid, of operations as small as they can be.
    let values: Vec<String> = (0..20_000)
        .map(|n| format!(r#"{{"source":{{"result":{{"node":{n},"index":0}}}},"dtype":"u8","shape":[]}}"#))
        .collect();
    let nodes: Vec<String> = (0..20_000)
        .map(|n| format!(r#"{{"op":{{"Unary":"Neg"}},"args":[{n}],"results":[{}]}}"#, n + 1))
        .collect();
    let json = format!(
        r#"{{"values":[{{"source":{{"input":0}},"dtype":"u8","shape":[]}},{}],"nodes":[{}],"inputs":[0],"outputs":[20000],"states":[],"draws":[]}}"#,
        values.join(","),
        nodes.join(",")
    );
    let bytes = with_json(&json, &[]);
    let len = bytes.len();
    let (result, peak) = peak_bytes(|| File::from_bytes(bytes));
    assert_eq!(result.unwrap().graph().nodes.len(), 20_000);
    println!("a chain: {peak} bytes at most for a file of {len}");
    assert!(peak < 8 * len, "a chain: {peak} bytes for a file of {len}");
}
