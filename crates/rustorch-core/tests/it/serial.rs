//! Graphs and operations as serde's data: what is written is read as it was, and what no constructor makes is refused.

use crate::graph::{custom, example};
use proptest::prelude::*;
use rustorch_core::{
    Attention, BinaryOp, C128, Clamp, DType, Device, Fill, FusedPointwise, Graph, Interpolate,
    InterpolateMode, Layout, Node, Op, RmsNorm, Scalar, Shape, Source, UnaryOp, Value,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap()
}

fn read<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

/// What is wrong with a text.
#[track_caller]
fn refused<T: DeserializeOwned + std::fmt::Debug>(text: &str, part: &str) {
    let error = read::<T>(text).unwrap_err();
    assert!(error.contains(part), "{text}: {error}");
}

#[test]
fn a_graph_is_read_as_it_was_written() {
    let graph = example();
    assert_eq!(read::<Graph>(&json(&graph)).unwrap(), graph);
    // One that does not verify, too: the values that it has not.
    let mut damaged = graph.clone();
    damaged.nodes[0].args[0].value.0 = 1000;
    assert_eq!(read::<Graph>(&json(&damaged)).unwrap(), damaged);
}

#[test]
fn files_say_what_is_not_the_default() {
    let shape = Shape::new([2, 3].as_slice()).unwrap();
    let value = |source, device| Value { source, dtype: DType::F32, shape: shape.clone(), device };
    let mut graph = Graph::default();
    let x = graph.add_value(value(Source::Input(0), Device::CPU));
    let y = graph.add_value(value(Source::Result { node: 0, index: 0 }, Device::CPU));
    let z = graph.add_value(value(Source::Result { node: 1, index: 0 }, Device::cuda(1)));
    graph.inputs.push(x);
    let mut transposed = graph.whole(x);
    transposed.layout = transposed.layout.transpose(0, 1).unwrap();
    graph.nodes.push(Node::new(Op::from(BinaryOp::Add), [graph.whole(x), transposed], [y]));
    graph.nodes.push(Node {
        device: Some(Device::cuda(1)),
        ..Node::new(UnaryOp::Exp.into(), [graph.whole(y)], [z])
    });
    graph.outputs.push(graph.whole(z));
    let text = r#"{"values":[
        {"source":{"input":0},"dtype":"f32","shape":[2,3]},
        {"source":{"result":{"node":0,"index":0}},"dtype":"f32","shape":[2,3]},
        {"source":{"result":{"node":1,"index":0}},"dtype":"f32","shape":[2,3],"device":"cuda:1"}],
        "nodes":[
        {"op":{"Binary":"Add"},"args":[0,{"value":0,"shape":[3,2],"strides":[1,3]}],"results":[1]},
        {"op":{"Unary":"Exp"},"args":[1],"results":[2],"device":"cuda:1"}],
        "inputs":[0],"outputs":[2],"states":[],"draws":[]}"#;
    assert_eq!(json(&graph), text.replace("\n        ", ""));
    assert_eq!(read::<Graph>(text).unwrap(), graph);
}

/// Operations with numbers of each kind.
fn with_numbers(wide: f64, narrow: f32) -> Vec<Op> {
    let attention = Attention { window: Some(3), softcap: Some(narrow), ..Attention::new(narrow) };
    let factors = [Some(wide), None].into_iter().collect();
    let interpolate = Interpolate {
        mode: InterpolateMode::Nearest,
        size: [1, 2].into_iter().collect(),
        factors,
        align_corners: false,
    };
    let fill = |value| Fill { shape: Shape::scalar(), dtype: DType::C128, value };
    vec![
        RmsNorm { eps: wide }.into(),
        attention.into(),
        interpolate.into(),
        fill(Scalar::Float(wide)).into(),
        fill(Scalar::Complex(C128::new(wide, -wide))).into(),
        Clamp { min: Some(Scalar::Float(wide)), max: None }.into(),
    ]
}

/// The debug format tells zeros by their signs, and the bits of NaNs are compared apart.
fn check_numbers(wide: f64, narrow: f32) {
    for op in with_numbers(wide, narrow) {
        let text = json(&op);
        let again: Op = read(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(format!("{again:?}"), format!("{op:?}"), "{text}");
        match again {
            Op::RmsNorm(norm) => assert_eq!(norm.eps.to_bits(), wide.to_bits(), "{text}"),
            Op::Attention(attention) => {
                assert_eq!(attention.scale.to_bits(), narrow.to_bits(), "{text}");
                assert_eq!(attention.softcap.unwrap().to_bits(), narrow.to_bits(), "{text}");
            }
            Op::Interpolate(op) => assert_eq!(op.factors[0].unwrap().to_bits(), wide.to_bits(), "{text}"),
            Op::Fill(Fill { value: Scalar::Float(x), .. }) => {
                assert_eq!(x.to_bits(), wide.to_bits(), "{text}")
            }
            Op::Fill(Fill { value: Scalar::Complex(x), .. }) => {
                assert_eq!([x.re.to_bits(), x.im.to_bits()], [wide.to_bits(), (-wide).to_bits()], "{text}");
            }
            Op::Clamp(Clamp { min: Some(Scalar::Float(x)), .. }) => assert_eq!(x.to_bits(), wide.to_bits()),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn numbers_that_json_does_not_have_keep_their_bits() {
    let wide = [
        0.0,
        -0.0,
        0.1,
        f64::MIN_POSITIVE,
        5e-324,
        f64::MAX,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        -f64::NAN,
    ];
    let payload = [0x7FF0_0000_0000_0001, 0xFFF8_0000_0000_ABCD].map(f64::from_bits);
    for x in wide.into_iter().chain(payload) {
        check_numbers(x, x as f32);
    }
    for bits in [0x7F80_0001, 0xFFC0_1234, 1, 0x8000_0001, 0x7F7F_FFFF] {
        check_numbers(1.0, f32::from_bits(bits));
    }
    assert_eq!(json(&Op::from(RmsNorm { eps: f64::NEG_INFINITY })), r#"{"RmsNorm":{"eps":"-inf"}}"#);
    assert_eq!(
        json(&Op::from(RmsNorm { eps: f64::from_bits(0x7FF8 << 48) })),
        r#"{"RmsNorm":{"eps":"nan:7ff8000000000000"}}"#
    );
}

proptest! {
    #[test]
    fn any_number_keeps_its_bits(wide: u64, narrow: u32) {
        check_numbers(f64::from_bits(wide), f32::from_bits(narrow));
    }
}

#[test]
fn numbers_that_a_field_cannot_have_are_refused() {
    let eps = |text: &str| format!(r#"{{"RmsNorm":{{"eps":{text}}}}}"#);
    assert_eq!(read::<Op>(&eps("1")), Ok(RmsNorm { eps: 1.0 }.into()));
    for (text, part) in [
        (r#""NaN""#, "expected a number of f64"),
        (r#""nan:""#, "expected a number of f64"),
        (r#""nan:3ff0000000000000""#, "expected a number of f64"),
        (r#""nan:+ff8000000000000""#, "expected a number of f64"),
        (r#""inf ""#, "expected a number of f64"),
        ("null", "invalid type: null"),
        ("[]", "invalid type: sequence"),
        ("1e400", "number out of range"),
    ] {
        refused::<Op>(&eps(text), part);
    }
    let scale = json(&with_numbers(1.0, 2.0)[1]);
    for (text, part) in [("0.1", "expected a number of f32"), ("1e300", "expected a number of f32")] {
        refused::<Op>(&scale.replacen("2.0", text, 1), part);
    }
}

/// A number of another field would be written as `null` where it is not finite.
#[test]
fn every_field_of_a_number_is_written_with_all_its_bits() {
    let mut fields = 0;
    let mut folders = vec![std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/op")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let lines: Vec<&str> = text.lines().map(str::trim).collect();
            for (i, line) in lines.iter().enumerate() {
                let Some((name, ty)) = line.strip_suffix(',').and_then(|line| line.split_once(": ")) else {
                    continue;
                };
                let name = name.strip_prefix("pub ").unwrap_or(name);
                let is_field = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
                let is_type = ty.bytes().all(|b| b.is_ascii_alphanumeric() || b"<>[]; _:".contains(&b));
                if is_field
                    && is_type
                    && ty.split(|c: char| !c.is_ascii_alphanumeric()).any(|t| matches!(t, "f32" | "f64"))
                {
                    fields += 1;
                    assert!(lines[i - 1].contains("serial::float"), "{}: {line}", path.display());
                }
            }
        }
    }
    assert!(fields >= 40, "{fields}");
}

#[test]
fn shapes_and_layouts_are_made_by_their_constructors() {
    let layout = Layout::new(Shape::new([3, 2].as_slice()).unwrap(), vec![1, 3], 4).unwrap();
    assert_eq!(json(&layout), r#"{"shape":[3,2],"strides":[1,3],"offset":4}"#);
    assert_eq!(read::<Layout>(&json(&layout)), Ok(layout));
    assert_eq!(json(&Layout::contiguous(Shape::scalar())), r#"{"shape":[]}"#);
    refused::<Shape>("[4294967296,4294967296]", "more elements than can be addressed");
    refused::<Shape>("[18446744073709551616]", "invalid type: floating point");
    refused::<Shape>("[-1]", "expected usize");
    refused::<Layout>(r#"{"shape":[3,2],"strides":[1]}"#, "1 strides for 2 dimensions");
    refused::<Layout>(r#"{"shape":[3],"strides":[9223372036854775808]}"#, "cannot be addressed");
    refused::<Layout>(r#"{"shape":[],"offset":18446744073709551615}"#, "cannot be addressed");
    refused::<Layout>(r#"{"shape":[],"ofset":0}"#, "unknown field `ofset`");
}

#[test]
fn dtypes_and_devices_are_their_names() {
    for dtype in
        DType::DENSE.iter().copied().chain(rustorch_core::QuantType::ALL.iter().map(|q| DType::Quant(*q)))
    {
        assert_eq!(json(&dtype), format!("{:?}", dtype.name()));
        assert_eq!(read(&json(&dtype)), Ok(dtype));
    }
    refused::<DType>(r#""f8""#, "`f8` is the name of none");
    refused::<DType>("8", "expected the name of a dtype");
    for device in [Device::CPU, Device::cuda(0), Device::vulkan(255)] {
        assert_eq!(read(&json(&device)), Ok(device));
    }
    refused::<Device>(r#""tpu:1""#, "`tpu:1` names no device");
    refused::<Device>(r#""cuda:256""#, "`cuda:256` names no device");
    refused::<Device>(r#""cpu:1""#, "`cpu:1` names no device");
}

fn fused() -> FusedPointwise {
    let mut fused = FusedPointwise::builder(2).unwrap();
    let (a, b) = (fused.input(0).unwrap(), fused.input(1).unwrap());
    let constants = [
        fused.constant(0.5, DType::F32).unwrap(),
        fused.constant(0.0, DType::F32).unwrap(),
        fused.constant(-0.0, DType::F32).unwrap(),
        fused.constant(f64::NAN, DType::F32).unwrap(),
        fused.constant(f64::NAN, DType::F32).unwrap(),
    ];
    let mut x = fused.step(BinaryOp::Mul.into(), &[a, b]).unwrap();
    for constant in constants {
        x = fused.step(BinaryOp::Add.into(), &[x, constant]).unwrap();
    }
    let clamped = Clamp { min: Some(Scalar::Float(f64::NEG_INFINITY)), max: Some(Scalar::Float(-0.0)) };
    x = fused.step(clamped.into(), &[x]).unwrap();
    fused.finish(x).unwrap()
}

#[test]
fn fused_operations_are_built_again() {
    let fused = fused();
    let text = json(&Op::FusedPointwise(fused.clone()));
    let Op::FusedPointwise(again) = read(&text).unwrap() else { panic!("{text}") };
    // NaN equals nothing, but is shown.
    assert_eq!(format!("{again:?}"), format!("{fused:?}"));
    assert_eq!(again.steps(), fused.steps());
    assert_eq!(json(&Op::FusedPointwise(again)), text);

    // A step that is there twice is computed once.
    let twice = r#"{"inputs":1,"steps":[{"op":{"Unary":"Exp"},"args":[{"Input":0}]},{"op":{"Unary":"Exp"},"args":[{"Input":0}]},
        {"op":{"Binary":"Add"},"args":[{"Step":0},{"Step":1}]}]}"#;
    let merged: FusedPointwise = read(twice).unwrap();
    assert_eq!((merged.steps().len(), merged.to_string().as_str()), (2, "t0 = exp(x0); t0 + t0"));

    let exp = |arg: &str| format!(r#"{{"op":{{"Unary":"Exp"}},"args":[{arg}]}}"#);
    let of =
        |inputs: usize, steps: &[String]| format!(r#"{{"inputs":{inputs},"steps":[{}]}}"#, steps.join(","));
    let many: Vec<String> = (0..65)
        .map(|i| exp(&if i == 0 { r#"{"Input":0}"#.into() } else { format!(r#"{{"Step":{}}}"#, i - 1) }))
        .collect();
    let same = vec![exp(r#"{"Input":0}"#); 65];
    let constants = format!(
        r#"{{"inputs":1,"constants":[{}],"steps":[]}}"#,
        vec![r#"{"value":{"Float":"nan:7ff8000000000000"},"dtype":"f32"}"#; 193].join(",")
    );
    let block = r#"{"inputs":1,"constants":[{"value":{"Float":1.0},"dtype":"Q4_0"}],"steps":[]}"#;
    for (text, part) in [
        (of(0, &[]), "has 1 to 16 inputs, not 0"),
        (of(1, &[]), "has no step"),
        (of(1, &[exp(r#"{"Input":1}"#)]), "has no input 1"),
        (of(1, &[exp(r#"{"Step":0}"#)]), "step 0 reads Step(0), which is not before it"),
        (of(1, &[exp(r#"{"Constant":0}"#)]), "step 0 reads Constant(0)"),
        (of(2, &[exp(r#"{"Input":0}"#)]), "does not use its input 1"),
        (of(1, &[exp(r#"{"Input":0},{"Input":0}"#)]), "exp takes 1 arguments"),
        (of(1, &[r#"{"op":{"Copy":null},"args":[{"Input":0}]}"#.into()]), "copy is not a pointwise op"),
        (of(1, &many), "64 steps at most"),
        (of(1, &same), "64 steps at most"),
        (constants, "192 constants at most, not 193"),
        (block.into(), "no constants of a block type"),
    ] {
        refused::<FusedPointwise>(&text, part);
    }
}

#[test]
fn custom_operations_are_refused_by_name() {
    let error = serde_json::to_string(&Op::from(custom("scale"))).unwrap_err().to_string();
    assert!(error.contains("the custom operation scale is made of Rust functions"), "{error}");
    refused::<Op>(r#"{"Custom":{"name":"scale"}}"#, "which no file has");
}

#[test]
fn unknown_operations_and_fields_are_refused_by_name() {
    refused::<Op>(r#"{"MatMull":{}}"#, "unknown variant `MatMull`");
    refused::<Op>(r#"{"Unary":"Expp"}"#, "unknown variant `Expp`");
    refused::<Op>(r#"{"RmsNorm":{"eps":1.0,"epsilon":1.0}}"#, "unknown field `epsilon`");
    refused::<Op>(r#"{"RmsNorm":{"eps":1.0,"eps":1.0}}"#, "duplicate field `eps`");
    refused::<Op>(r#"{"RmsNorm":{}}"#, "missing field `eps`");
    refused::<Op>(r#"{"Linalg":{"Qr":{"complete":true,"mode":1}}}"#, "unknown field `mode`");
}
