//! What packages are made of, and what is refused.

use crate::cases;
use rustorch_core::{Attention, DType, Device, Graph, Node, Op, Shape, Source, UnaryOp, Value};
use rustorch_coreml::{AttentionForm, CoreMlOptions, Error, Package, PackageInfo};
use rustorch_tensor::autograd::apply;
use rustorch_tensor::{Program, Result, Tensor, TensorSpec, capture};
use sha2::{Digest, Sha256};
use std::cell::Cell;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::Path;

fn program(dims: &[usize], dtype: DType, f: impl FnOnce(&Tensor) -> Result<Tensor>) -> Program {
    capture(&[TensorSpec::new(dims, dtype).unwrap()], |x| Ok(vec![f(&x[0])?])).unwrap()
}

fn write(program: &Program, path: &Path) -> rustorch_coreml::Result<()> {
    let constants = program.constants();
    let bytes = cases::bytes(&constants);
    Package::new(program.graph(), &bytes)?.write(path)
}

fn declined(program: &Program) -> Vec<String> {
    let constants = program.constants();
    let bytes = cases::bytes(&constants);
    match Package::new(program.graph(), &bytes) {
        Err(Error::Declined(declined)) => declined.iter().map(ToString::to_string).collect(),
        other => panic!("{other:?}"),
    }
}

fn linear() -> Program {
    let weight = cases::values(&[4, 3], 1);
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
    assert_eq!(blob[128..], cases::values(&[4, 3], 1).to_bytes().unwrap());
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

    // Nothing there, and no folder.
    fs::write(dir.path().join("file"), "").unwrap();
    for place in ["no/such/folder.mlpackage", "file/model.mlpackage", ".."] {
        let error = write(&linear(), &dir.path().join(place)).unwrap_err();
        let is_told = error.to_string().contains("name one that you may write to");
        assert!(is_told || matches!(error, Error::Exists { .. }), "{error}");
    }
    fs::remove_file(dir.path().join("file")).unwrap();

    // Weights that fail when they are written, and weights of another size.
    let program = linear();
    let constants = program.constants();
    let asked = Cell::new(0);
    let other = dir.path().join("other.mlpackage");
    let whole = cases::bytes(&constants);
    let fails = || Err(io::Error::other("the disk is on fire"));
    let short = |i: usize, range: Range<usize>| {
        asked.set(asked.get() + 1);
        whole(i, range).map(|bytes| bytes[..bytes.len() - 4].to_vec())
    };
    let weight = |i: usize| constants[i].numel() == 12;
    let bytes = |i: usize, range| if weight(i) { fails() } else { whole(i, range) };
    let error = Package::new(program.graph(), &bytes).unwrap().write(&other).unwrap_err();
    assert!(error.to_string().contains("the disk is on fire"), "{error}");
    let bytes = |i: usize, range| if weight(i) { short(i, range) } else { whole(i, range) };
    let error = Package::new(program.graph(), &bytes).unwrap().write(&other).unwrap_err();
    assert!(error.to_string().contains("elements 0 to 12 have 44 bytes"), "{error}");
    assert_eq!(asked.get(), 1);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn large_weights_are_written_whole_or_not_at_all() {
    // More than are under way to the disk at once.
    let weight = cases::values(&[1000, 1500], 1);
    let program = program(&[1, 1000], DType::F32, |x| x.matmul(&weight));
    let constants = program.constants();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("large.mlpackage");
    write(&program, &path).unwrap();
    let blob = fs::read(path.join("Data/com.apple.CoreML/weights/weight.bin")).unwrap();
    assert!(blob[128..] == weight.to_bytes().unwrap());
    // It is named by its hash.
    let hex: String = Sha256::digest(&blob).iter().map(|byte| format!("{byte:02X}")).collect();
    let manifest = fs::read_to_string(path.join("Manifest.json")).unwrap();
    assert!(manifest.contains(&format!("\"{}-{}-", &hex[..8], &hex[8..12])), "{hex}: {manifest}");

    let whole = cases::bytes(&constants);
    let fails_late = |i: usize, range: Range<usize>| match range.end > 1_400_000 {
        true => Err(io::Error::other("the disk is on fire")),
        false => whole(i, range),
    };
    let other = dir.path().join("other.mlpackage");
    let error = Package::new(program.graph(), &fails_late).unwrap().write(&other).unwrap_err();
    assert!(error.to_string().contains("the disk is on fire"), "{error}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn all_that_declines_is_listed() {
    let program = capture(&[TensorSpec::new([4, 4], DType::F32).unwrap()], |x| {
        let sorted = x[0].sort(0, false)?.0;
        Ok(vec![sorted.exp()?.atan2(&sorted)?, x[0].to_dtype(DType::F64)?])
    })
    .unwrap();
    let declined = declined(&program);
    assert!(declined.len() >= 3, "{declined:#?}");
    for (name, reason) in
        [("sort", "order of equal elements"), ("cast", "F64 is not built"), ("", "MIL has no such function")]
    {
        let is_listed = declined.iter().any(|line| line.contains(name) && line.contains(reason));
        assert!(is_listed, "{name}: {declined:#?}");
    }
}

#[test]
fn integers_of_64_bits_need_bounds() {
    let plus = program(&[3], DType::I64, |x| x.add(1));
    assert!(declined(&plus)[0].contains("cast to i32"), "{:?}", declined(&plus));
    let back = program(&[3], DType::I64, |x| x.add(1)?.sub(1)?.reshape([3, 1]));
    assert!(declined(&back).iter().any(|line| line.contains("cast to i32")), "{:?}", declined(&back));
    let large = program(&[3], DType::F32, |x| x.argmax(0, false)?.add(i64::from(i32::MAX)));
    assert!(
        declined(&large).iter().any(|line| line.contains("not known to fit i32")),
        "{:?}",
        declined(&large)
    );
    // A sum of many indices may not fit.
    let sum = program(&[2000, 20], DType::F32, |x| x.argmax(0, false)?.mul(1_000_000)?.sum(.., false));
    assert!(
        declined(&sum)[0].contains("only if the sum of integers is known to fit i32"),
        "{:?}",
        declined(&sum)
    );
}

#[test]
fn shapes_and_dtypes_that_core_ml_lacks_decline() {
    let rank_6 = program(&[1, 1, 2, 1, 1, 2], DType::F32, |x| x.exp());
    assert!(declined(&rank_6)[0].contains("more than 5 dimensions"));
    let empty = program(&[0, 3], DType::F32, |x| x.exp());
    assert!(declined(&empty)[0].contains("no elements"));
    let double = program(&[3], DType::F64, |x| x.exp());
    assert!(declined(&double)[0].contains("F64 is not built"));
    let state = Tensor::zeros([2], DType::F32).unwrap();
    let stateful = program(&[2], DType::F32, |x| {
        state.add_(x)?;
        state.mul(2)
    });
    assert!(declined(&stateful)[0].contains("keep it in f16, or allow f16"), "{:?}", declined(&stateful));
    let count = Tensor::zeros([2], DType::I32).unwrap();
    let counting = program(&[2], DType::I32, |x| {
        count.add_(x)?;
        count.to_dtype(DType::F32)
    });
    assert!(declined(&counting)[0].contains("give it as an argument"), "{:?}", declined(&counting));
}

#[test]
fn parameters_that_do_not_fit_32_bits_decline() {
    // Valid, since there is one window: its second one would be far away.
    let far = 1usize << 33;
    let weight = cases::values(&[1, 1, 2], 1);
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
    let constants = |_, _| Err(io::Error::other("there are none"));
    assert!(matches!(Package::new(&graph, &constants), Err(Error::Graph(_))));
    graph.inputs.push(x);
    graph.outputs.clear();
    assert!(matches!(Package::new(&graph, &constants), Err(Error::Declined(_))));
}

/// The package of a program, with options.
fn package<'a>(
    program: &Program,
    bytes: &'a dyn Fn(usize, Range<usize>) -> io::Result<Vec<u8>>,
    options: &CoreMlOptions,
) -> rustorch_coreml::Result<Package<'a>> {
    Package::with_options(program.graph(), bytes, options)
}

#[test]
fn versions_are_the_lowest() {
    let none = |_: usize, _: Range<usize>| Err(io::Error::other("there are none"));
    let (f32, f16) = (CoreMlOptions::default(), CoreMlOptions { allow_f16: true, ..Default::default() });
    let version =
        |program: &Program, options| package(program, &none, options).unwrap().specification_version();
    let wide = program(&[2], DType::F32, |x| x.exp());
    assert_eq!([version(&wide, &f32), version(&wide, &f16)], [6, 6]);
    // At the border.
    let half = program(&[2], DType::F16, |x| x.exp());
    assert_eq!([version(&half, &f32), version(&half, &f16)], [7, 7]);
    let state = Tensor::zeros([2], DType::F16).unwrap();
    let stateful = program(&[2], DType::F16, |x| {
        state.add_(x)?;
        state.to_dtype(DType::F32)
    });
    assert_eq!(version(&stateful, &f32), 9);
}

#[test]
fn attention_is_one_operation_where_a_program_may_have_it() {
    let dir = tempfile::tempdir().unwrap();
    let attention = |softcap, state: Option<Tensor>| {
        let op = Op::Attention(Attention { softcap, ..Attention::new(0.5) });
        let spec = || TensorSpec::new([2, 3, 4], DType::F32).unwrap();
        let program = capture(&[spec(), spec(), spec()], |x| {
            let y = apply(&op, &[&x[0], &x[1], &x[2]])?.remove(0);
            let Some(state) = &state else { return Ok(vec![y]) };
            // Behind the attention, what needs specification 9.
            state.add_(&y.to_dtype(DType::F16)?)?;
            Ok(vec![state.to_dtype(DType::F32)?])
        });
        program.unwrap()
    };
    let state = || Some(Tensor::zeros([2, 3, 4], DType::F16).unwrap());
    let (plain, capped) = (attention(None, None), attention(Some(5.0), None));
    let (stateful, stateful_capped) = (attention(None, state()), attention(Some(5.0), state()));
    let none = |_: usize, _: Range<usize>| Err(io::Error::other("there are none"));
    let mut count = 0;
    let mut emitted = |program: &Program, form: AttentionForm, allow_f16: bool| {
        let options = CoreMlOptions { attention: form, allow_f16, ..Default::default() };
        let package = package(program, &none, &options).unwrap();
        count += 1;
        let path = dir.path().join(format!("{count}.mlpackage"));
        package.write(&path).unwrap();
        let operations = PackageInfo::read(&path).unwrap().functions.remove(0).operations;
        let (fused, softmax) =
            (operations.contains_key("scaled_dot_product_attention"), operations.contains_key("softmax"));
        assert_ne!(fused, softmax);
        (package.specification_version(), fused)
    };
    use AttentionForm::{Auto, Composed, Fused};
    for (program, form, allow_f16, expected) in [
        (&plain, Auto, false, (6, false)),
        (&plain, Composed, false, (6, false)),
        (&plain, Fused, false, (9, true)),
        (&plain, Fused, true, (9, true)),
        (&capped, Fused, false, (6, false)),
        (&stateful, Auto, false, (9, true)),
        (&stateful, Auto, true, (9, false)),
        (&stateful, Composed, false, (9, false)),
        (&stateful_capped, Auto, false, (9, false)),
    ] {
        assert_eq!(emitted(program, form, allow_f16), expected, "{form:?}, {allow_f16}\n{}", program.graph());
    }
}

#[test]
fn weights_are_rounded_and_stay_finite() {
    let weight =
        Tensor::new([1.0f32 / 3.0, f32::MIN, 1e30, f32::NEG_INFINITY, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]).unwrap();
    let program = program(&[10], DType::F32, |x| x.add(&weight));
    let constants = program.constants();
    let bytes = cases::bytes(&constants);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("add.mlpackage");
    let options = CoreMlOptions { allow_f16: true, ..Default::default() };
    package(&program, &bytes, &options).unwrap().write(&path).unwrap();
    let blob = fs::read(path.join("Data/com.apple.CoreML/weights/weight.bin")).unwrap();
    assert_eq!(blob[68..72], [1, 0, 0, 0]);
    let values: Vec<u16> =
        blob[128..].chunks_exact(2).map(|two| u16::from_le_bytes([two[0], two[1]])).collect();
    // 1/3, the least and the largest `f16`, −∞.
    assert_eq!(values, [0x3555, 0xfbff, 0x7bff, 0xfc00, 0, 0, 0, 0, 0, 0x3c00]);
}

#[test]
fn functions_go_together() {
    let weight = cases::values(&[4, 4], 1);
    let of_rows = |rows: usize| program(&[rows, 4], DType::F32, |x| x.matmul(&weight));
    let programs = [of_rows(1), of_rows(3)];
    let constants = programs[0].constants();
    let bytes = cases::bytes(&constants);
    let function = |name: &str, i: usize| {
        rustorch_coreml::Function::new(name, programs[i].graph(), CoreMlOptions::default())
    };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("two.mlpackage");
    let package = Package::of_functions(&[function("one", 0), function("three", 1)], &bytes).unwrap();
    assert_eq!(package.specification_version(), 9);
    package.write(&path).unwrap();
    // The weight, once.
    let blob = fs::read(path.join("Data/com.apple.CoreML/weights/weight.bin")).unwrap();
    assert_eq!(blob.len(), 64 + 64 + 64);
    let mut missing = function("three", 1);
    missing.constants.clear();
    for (functions, reason) in [
        (vec![], "a function at least"),
        (vec![function("one", 0), function("one", 1)], "two functions are called"),
        (vec![function("1", 0)], "is no name of a function"),
        (vec![missing], "0 numbers of constants are given for three, the graph has 1"),
    ] {
        let error = Package::of_functions(&functions, &bytes).unwrap_err();
        assert!(matches!(&error, Error::Options(message) if message.contains(reason)), "{error}");
    }
    // One state of two shapes.
    let states = [2usize, 3].map(|n| Tensor::zeros([n], DType::F16).unwrap());
    let programs = [0, 1].map(|i| {
        program(&[states[i].dims()[0]], DType::F16, |x| {
            states[i].add_(x)?;
            states[i].to_dtype(DType::F32)
        })
    });
    let functions = [0, 1].map(|i| {
        rustorch_coreml::Function::new(format!("f{i}"), programs[i].graph(), CoreMlOptions::default())
    });
    let error = Package::of_functions(&functions, &bytes).unwrap_err();
    assert!(error.to_string().contains("state_0 of f1 has another shape"), "{error}");
}

#[test]
fn names_are_checked() {
    let none = |_: usize, _: Range<usize>| Err(io::Error::other("there are none"));
    let program = program(&[2], DType::F32, |x| x.exp());
    for (inputs, outputs, reason) in [
        (vec!["2x"], vec![], "is no name"),
        (vec!["x"], vec!["x"], "given twice"),
        (vec!["exp_1"], vec![], "another value"),
        (vec!["x", "y"], vec![], "the graph has 1"),
    ] {
        let names = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
        let options = CoreMlOptions { inputs: names(inputs), outputs: names(outputs), ..Default::default() };
        let error = package(&program, &none, &options).unwrap_err();
        assert!(matches!(&error, Error::Options(message) if message.contains(reason)), "{error}");
    }
}

#[test]
fn ggml_roundings_decline() {
    let weight = Tensor::zeros([3, 32], DType::F32).unwrap().to_dtype(DType::F16).unwrap();
    let program = program(&[2, 32], DType::F32, |x| {
        let op = rustorch_core::MatMul { numerics: rustorch_core::Numerics::Ggml, ..Default::default() };
        Ok(rustorch_tensor::autograd::apply(&Op::MatMul(op), &[x, &weight.t()?])?.remove(0))
    });
    assert!(declined(&program)[0].contains("Numerics::F32"), "{:?}", declined(&program));
}
