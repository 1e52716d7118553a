//! What packages are made of, and what is refused.

use rustorch_core::{DType, Device, Graph, Node, Op, Shape, Source, UnaryOp, Value};
use rustorch_coreml::{Error, Package};
use rustorch_tensor::{Program, Result, Tensor, TensorSpec, capture};
use std::cell::Cell;
use std::fs;
use std::io;
use std::path::Path;

fn program(dims: &[usize], dtype: DType, f: impl FnOnce(&Tensor) -> Result<Tensor>) -> Program {
    capture(&[TensorSpec::new(dims, dtype).unwrap()], |x| Ok(vec![f(&x[0])?])).unwrap()
}

fn write(program: &Program, path: &Path) -> rustorch_coreml::Result<()> {
    let constants = program.constants();
    let bytes = |i: usize| constants[i].to_bytes().map_err(io::Error::other);
    Package::new(program.graph(), &bytes)?.write(path)
}

fn declined(program: &Program) -> Vec<String> {
    let constants = program.constants();
    let bytes = |i: usize| constants[i].to_bytes().map_err(io::Error::other);
    match Package::new(program.graph(), &bytes) {
        Err(Error::Declined(declined)) => declined.iter().map(ToString::to_string).collect(),
        other => panic!("{other:?}"),
    }
}

fn linear() -> Program {
    let weight = crate::cases::values(&[4, 3], 1);
    program(&[2, 4], DType::F32, |x| x.matmul(&weight)?.add(&Tensor::new([1.0f32, 2.0, 3.0])?))
}

#[test]
fn files_are_where_core_ml_looks_for_them() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("linear.mlpackage");
    write(&linear(), &path).unwrap();
    let manifest: serde_json::Value =
        serde_json::from_slice(&fs::read(path.join("Manifest.json")).unwrap()).unwrap();
    assert_eq!(manifest["fileFormatVersion"], "1.0.0");
    let root = manifest["rootModelIdentifier"].as_str().unwrap();
    assert_eq!(manifest["itemInfoEntries"][root]["path"], "com.apple.CoreML/model.mlmodel");
    for entry in manifest["itemInfoEntries"].as_object().unwrap().values() {
        assert!(path.join("Data").join(entry["path"].as_str().unwrap()).exists());
    }
    // Header, metadata, 12 weights; the bias of 3 stands in the program.
    let blob = fs::read(path.join("Data/com.apple.CoreML/weights/weight.bin")).unwrap();
    assert_eq!(blob.len(), 64 + 64 + 48);
    assert_eq!(blob[..8], [1, 0, 0, 0, 2, 0, 0, 0]);
    assert_eq!(blob[64..72], [0xEF, 0xBE, 0xAD, 0xDE, 2, 0, 0, 0]);
    assert_eq!(blob[72..88], [48, 0, 0, 0, 0, 0, 0, 0, 128, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(blob[128..], crate::cases::values(&[4, 3], 1).to_bytes().unwrap());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn equal_programs_have_equal_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let paths = ["a.mlpackage", "b.mlpackage"].map(|name| dir.path().join(name));
    for path in &paths {
        write(&linear(), path).unwrap();
    }
    for file in
        ["Manifest.json", "Data/com.apple.CoreML/model.mlmodel", "Data/com.apple.CoreML/weights/weight.bin"]
    {
        assert_eq!(fs::read(paths[0].join(file)).unwrap(), fs::read(paths[1].join(file)).unwrap(), "{file}");
    }
}

#[test]
fn nothing_is_overwritten_and_nothing_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.mlpackage");
    fs::create_dir(&path).unwrap();
    let error = write(&linear(), &path).unwrap_err();
    assert!(matches!(error, Error::Exists { .. }) && error.to_string().contains("remove it"), "{error}");
    assert_eq!(fs::read_dir(&path).unwrap().count(), 0);

    let error = write(&linear(), &dir.path().join("no/such/folder.mlpackage")).unwrap_err();
    assert!(matches!(error, Error::Io { .. }), "{error}");

    // Weights that fail when they are written, and weights of another size.
    let program = linear();
    let constants = program.constants();
    let asked = Cell::new(0);
    let other = dir.path().join("other.mlpackage");
    let fails = |_: usize| Err(io::Error::other("the disk is on fire"));
    let short = |i: usize| {
        asked.set(asked.get() + 1);
        constants[i].to_bytes().map(|bytes| bytes[..bytes.len() - 4].to_vec()).map_err(io::Error::other)
    };
    let weight = |i: usize| constants[i].numel() == 12;
    let bytes =
        |i: usize| if weight(i) { fails(i) } else { constants[i].to_bytes().map_err(io::Error::other) };
    let error = Package::new(program.graph(), &bytes).unwrap().write(&other).unwrap_err();
    assert!(error.to_string().contains("the disk is on fire"), "{error}");
    let bytes =
        |i: usize| if weight(i) { short(i) } else { constants[i].to_bytes().map_err(io::Error::other) };
    let error = Package::new(program.graph(), &bytes).unwrap().write(&other).unwrap_err();
    assert!(error.to_string().contains("has 44 bytes"), "{error}");
    assert_eq!(asked.get(), 1);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn all_that_declines_is_listed() {
    let program = program(&[4, 4], DType::F32, |x| {
        let sorted = x.sort(0, false)?.0;
        let y = sorted.add(&x.to_dtype(DType::F16)?.to_dtype(DType::F32)?)?;
        y.exp()?.atan2(&y)
    });
    let declined = declined(&program);
    assert!(declined.len() >= 3, "{declined:#?}");
    for (name, reason) in
        [("sort", "order of equal elements"), ("cast", "F16 is not built"), ("", "MIL has no such function")]
    {
        let is_listed = declined.iter().any(|line| line.contains(name) && line.contains(reason));
        assert!(is_listed, "{name}: {declined:#?}");
    }
}

#[test]
fn integers_of_64_bits_need_bounds() {
    let plus = program(&[3], DType::I64, |x| x.add(1));
    assert!(declined(&plus)[0].contains("cast to i32"), "{:?}", declined(&plus));
    let same = program(&[3], DType::I64, |x| x.reshape([3, 1]));
    assert!(declined(&same)[0].starts_with("output 0"), "{:?}", declined(&same));
    let large = program(&[3], DType::F32, |x| x.argmax(0, false)?.add(i64::from(i32::MAX)));
    assert!(
        declined(&large).iter().any(|line| line.contains("not known to fit i32")),
        "{:?}",
        declined(&large)
    );
    // A sum of many indices may not fit.
    let sum = program(&[2000, 20], DType::F32, |x| x.argmax(0, false)?.mul(1_000_000)?.sum(.., false));
    assert!(declined(&sum).iter().any(|line| line.contains("not known to fit i32")), "{:?}", declined(&sum));
}

#[test]
fn shapes_and_dtypes_that_core_ml_lacks_decline() {
    let rank_6 = program(&[1, 1, 2, 1, 1, 2], DType::F32, |x| x.exp());
    assert!(declined(&rank_6)[0].contains("more than 5 dimensions"));
    let empty = program(&[0, 3], DType::F32, |x| x.exp());
    assert!(declined(&empty)[0].contains("no elements"));
    let double = program(&[3], DType::F64, |x| x.exp());
    assert!(declined(&double)[0].contains("F64 is not built"));
    let state = Tensor::new([1.0f32, 2.0]).unwrap();
    let stateful = program(&[2], DType::F32, |x| {
        state.add_(x)?;
        state.mul(2)
    });
    assert!(declined(&stateful)[0].contains("states are not built"), "{:?}", declined(&stateful));
}

#[test]
fn parameters_that_do_not_fit_32_bits_decline() {
    // Valid, since there is one window: its second one would be far away.
    let far = 1usize << 33;
    let weight = crate::cases::values(&[1, 1, 2], 1);
    let conv = program(&[1, 1, 3], DType::F32, |x| {
        let options = rustorch_tensor::ConvOptions::new().stride(far);
        x.conv1d(&weight, None, &options)
    });
    assert!(declined(&conv)[0].contains("8589934592 does not fit i32"), "{:?}", declined(&conv));
}

#[test]
fn a_graph_that_is_not_valid_is_refused() {
    let shape = Shape::new([2].as_slice()).unwrap();
    let value = |source| Value { source, dtype: DType::F32, shape: shape.clone(), device: Device::CPU };
    let mut graph = Graph::default();
    let x = graph.add_value(value(Source::Input(0)));
    let y = graph.add_value(value(Source::Result { node: 0, index: 0 }));
    graph.nodes.push(Node::new(Op::from(UnaryOp::Exp), [graph.whole(x)], [y]));
    graph.outputs.push(graph.whole(y));
    // The input is not listed.
    let constants = |_| Err(io::Error::other("there are none"));
    assert!(matches!(Package::new(&graph, &constants), Err(Error::Graph(_))));
    graph.inputs.push(x);
    graph.outputs.clear();
    assert!(matches!(Package::new(&graph, &constants), Err(Error::Declined(_))));
}
