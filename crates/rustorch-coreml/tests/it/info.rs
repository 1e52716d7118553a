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
    let feature =
        |name: &str, dtype, dims: &[usize]| Feature { name: name.to_owned(), dtype, dims: dims.to_vec() };
    assert_eq!(main.signature.inputs, [feature("input_0", DType::F32, &[2, 4])]);
    assert_eq!(main.signature.outputs.len(), 2);
    assert_eq!(main.states, [feature("state_0", DType::F16, &[2, 3])]);
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
