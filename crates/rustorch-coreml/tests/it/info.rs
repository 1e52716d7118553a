//! Packages are read as they were written, and what is none is an error.

use crate::cases;
use rustorch_core::DType;
use rustorch_coreml::runtime::Feature;
use rustorch_coreml::{CoreMlOptions, Error, Package, PackageInfo};
use rustorch_tensor::{Tensor, TensorSpec, capture};
use std::fs;

#[test]
fn a_package_is_read_as_it_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let weight = cases::values(&[4, 3], 1);
    let state = Tensor::zeros([2, 3], DType::F16).unwrap();
    let specs = [TensorSpec::new([2, 4], DType::F32).unwrap()];
    let program = capture(&specs, |x| {
        let y = x[0].matmul(&weight)?.exp()?.exp()?;
        state.add_(&y.to_dtype(DType::F16)?)?;
        Ok(vec![y, state.to_dtype(DType::F32)?])
    })
    .unwrap();
    let constants = program.constants();
    let bytes = cases::bytes(&constants);
    let options = CoreMlOptions {
        description: "A matmul.".to_owned(),
        metadata: [("answer".to_owned(), "42".to_owned())].into(),
        ..CoreMlOptions::default()
    };
    let path = folder.path().join("model.mlpackage");
    Package::with_options(program.graph(), &bytes, &options).unwrap().write(&path).unwrap();
    let info = PackageInfo::read(&path).unwrap();
    assert_eq!((info.specification_version, info.description.as_str()), (9, "A matmul."));
    assert_eq!(info.metadata, options.metadata);
    assert_eq!(info.weight_bytes, 64 + 64 + 48);
    let [main] = &info.functions[..] else { panic!("{info:?}") };
    assert_eq!((main.name.as_str(), main.opset.as_str()), ("main", "CoreML8"));
    let feature = |name: &str, dtype, dims: &[usize]| Feature {
        name: name.to_owned(),
        dtype,
        dims: dims.to_vec(),
        below: None,
    };
    assert_eq!(main.signature.inputs, [feature("input_0", DType::F32, &[2, 4])]);
    assert_eq!(main.signature.outputs.len(), 2);
    assert_eq!(main.signature.states, [feature("state_0", DType::F16, &[2, 3])]);
    assert_eq!((main.operations["matmul"], main.operations["exp"]), (1, 2));
    assert!(main.constants > 0 && !main.operations.contains_key("const"));
}

#[test]
fn what_is_no_package_is_an_error_that_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.mlpackage");
    let reason = || match PackageInfo::read(&path) {
        Err(error @ (Error::Package { .. } | Error::Io { .. })) => error.to_string(),
        other => panic!("{other:?}"),
    };
    assert!(reason().contains("it is no folder"), "{}", reason());
    fs::create_dir_all(path.join("Data/com.apple.CoreML")).unwrap();
    assert!(reason().contains("Manifest.json"), "{}", reason());
    let manifest = |inside: &str| {
        let text =
            format!(r#"{{"rootModelIdentifier": "a", "itemInfoEntries": {{"a": {{"path": "{inside}"}}}}}}"#);
        fs::write(path.join("Manifest.json"), text).unwrap();
    };
    fs::write(path.join("Manifest.json"), "{").unwrap();
    assert!(reason().contains("its manifest is no JSON"), "{}", reason());
    for outside in ["../../etc/passwd", "/etc/passwd"] {
        manifest(outside);
        assert!(reason().contains("names no model in it"), "{}", reason());
    }
    manifest("com.apple.CoreML/model.mlmodel");
    assert!(reason().contains("model.mlmodel"), "{}", reason());
    let model = path.join("Data/com.apple.CoreML/model.mlmodel");
    fs::write(&model, [0xff; 16]).unwrap();
    assert!(reason().contains("no message of Core ML"), "{}", reason());
    // `specification_version: 4`, and nothing else.
    fs::write(&model, [0x08, 4]).unwrap();
    assert!(reason().contains("no ML Program"), "{}", reason());
}

/// Changes bytes of a package's model, which it has once.
fn damage(package: &std::path::Path, from: &[u8], to: &[u8]) {
    let path = package.join("Data/com.apple.CoreML/model.mlmodel");
    let mut model = fs::read(&path).unwrap();
    let found: Vec<usize> =
        (0..model.len() - from.len()).filter(|&at| model[at..].starts_with(from)).collect();
    assert!(!found.is_empty(), "{from:?}");
    found.iter().for_each(|&at| model[at..at + to.len()].copy_from_slice(to));
    fs::write(&path, model).unwrap();
}

#[test]
fn what_is_of_another_version_is_named() {
    let program = capture(&[TensorSpec::new([2], DType::I64).unwrap()], |x| {
        Ok(vec![x[0].add(1)?.to_dtype(DType::F32)?])
    });
    let program = program.unwrap();
    let none = |_: usize, _: std::ops::Range<usize>| Err(std::io::Error::other("there are none"));
    let options = CoreMlOptions { below: [("input_0".to_owned(), 8)].into(), ..CoreMlOptions::default() };
    let package = Package::with_options(program.graph(), &none, &options).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str| {
        let path = folder.path().join(name);
        package.write(&path).unwrap();
        path
    };
    let sound = PackageInfo::read(write("sound")).unwrap();
    assert_eq!(sound.problems, [""; 0]);
    assert_eq!(sound.metadata["rustorch.below.input_0"], "8");
    assert_eq!(sound.signature("main").unwrap().inputs[0].below, Some(8));
    let error = sound.signature("decode").unwrap_err().to_string();
    assert!(error.contains("it has no function \"decode\"; there is main"), "{error}");

    // The first field of the model; the first of its program, whose number is 502; names.
    let damages: [(&str, &[u8], &[u8], &str); 6] = [
        ("newer", &[0x08, 6, 0x12], &[0x08, 11, 0x12], "specification 11 is none of those"),
        (
            "older",
            &[0x08, 6, 0x12],
            &[0x08, 4, 0x12],
            "that this RusTorch knows, 6 to 10; export the model for one",
        ),
        (
            "opset",
            b"CoreML5",
            b"CoreMLx",
            "main has the operation set \"CoreMLx\", and this RusTorch knows CoreML5, ",
        ),
        (
            "metadata",
            b"rustorch.metadata\x12\x011",
            b"rustorch.metadata\x12\x012",
            "of version \"2\" (rustorch.metadata)",
        ),
        (
            "bound",
            b"below.input_0\x12\x018",
            b"below.input_0\x12\x01x",
            "rustorch.below.input_0 is \"x\" and no positive integer",
        ),
        (
            "none",
            b"below.input_0\x12\x018",
            b"below.input_0\x12\x010",
            "is \"0\" and no positive integer; export it again",
        ),
    ];
    for (name, from, to, reason) in damages {
        let path = write(name);
        damage(&path, from, to);
        let info = PackageInfo::read(&path).unwrap();
        assert!(info.problems.iter().any(|problem| problem.contains(reason)), "{name}: {:?}", info.problems);
        let Err(error @ Error::Version { .. }) = info.signature("main") else { panic!("{name}") };
        let error = error.to_string();
        assert!(error.contains("is of another version:") && error.contains(reason), "{error}");
    }
    let path = write("program");
    let file = path.join("Data/com.apple.CoreML/model.mlmodel");
    let mut model = fs::read(&file).unwrap();
    let at = (0..model.len()).find(|&at| model[at..].starts_with(&[0xb2, 0x1f])).unwrap();
    // Behind the length, which takes one or two bytes.
    let at = at + 2 + if model[at + 2] < 0x80 { 1 } else { 2 };
    assert_eq!(model[at..at + 2], [0x08, 1]);
    model[at + 1] = 2;
    fs::write(&file, model).unwrap();
    let problems = PackageInfo::read(&path).unwrap().problems;
    assert!(problems[0].contains("ML Program is of version 2, and this RusTorch knows 1"), "{problems:?}");
}

/// coremltools 9.0 writes 49 for a ResNet-18 (`benches/peers/coreml_emit.py`).
#[test]
fn a_resnet_has_few_operations() {
    for case in cases::all().into_iter().filter(|case| case.name.starts_with("resnet18")) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("resnet.mlpackage");
        let constants = case.program.constants();
        let bytes = cases::bytes(&constants);
        Package::with_options(case.program.graph(), &bytes, &case.options).unwrap().write(&path).unwrap();
        let operations = PackageInfo::read(&path).unwrap().functions[0].operations.clone();
        assert_eq!(operations.get("batch_norm"), None, "{operations:?}");
        let casts = operations.get("cast").copied().unwrap_or(0);
        assert!(operations.values().sum::<usize>() - casts <= 58, "{operations:?}");
    }
}
