//! Writes every case of the tests for the oracle: `NAME.mlpackage`, and for each run its arguments `NAME.RUN.inputs.npz` and the CPU's results
//! `NAME.RUN.expect.npz`, and `digests.json`. `tools/oracle/coreml/run.sh` evaluates them.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a step that fails fails the run")]

#[allow(dead_code, unreachable_pub, reason = "the tests use the rest")]
#[path = "../tests/it/cases/mod.rs"]
mod cases;

use rustorch_coreml::Package;
use rustorch_formats::numpy::{Array, NpzWriter};
use rustorch_tensor::{DType, Tensor};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let Some(folder) = env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: oracle_cases FOLDER");
        std::process::exit(2);
    };
    fs::create_dir_all(&folder).unwrap();
    let mut digests = BTreeMap::new();
    for case in cases::all() {
        let constants = case.program.constants();
        let bytes = cases::bytes(&constants);
        let package = Package::with_options(case.program.graph(), &bytes, &case.options)
            .unwrap_or_else(|error| panic!("{}: {error}\n{}", case.name, case.program.graph()));
        package.write(folder.join(format!("{}.mlpackage", case.name))).unwrap();
        for (run, inputs) in case.runs.iter().enumerate() {
            let results = case.program.run(&inputs.iter().collect::<Vec<_>>()).unwrap();
            arrays(&folder.join(format!("{}.{run}.inputs.npz", case.name)), "input", inputs);
            arrays(&folder.join(format!("{}.{run}.expect.npz", case.name)), "output", &results);
        }
        assert!(
            digests.insert(case.name.clone(), package.digest().unwrap()).is_none(),
            "{} twice",
            case.name
        );
    }
    fs::write(folder.join("digests.json"), serde_json::to_string_pretty(&digests).unwrap()).unwrap();
}

/// Tensors as a program has them at its border: one dimension at least, `f32`, `f16` or `i32`.
fn arrays(path: &Path, name: &str, tensors: &[Tensor]) {
    let array = |x: &Tensor| {
        let x = if x.ndim() == 0 { x.reshape([1]).unwrap() } else { x.clone() };
        let x =
            if matches!(x.dtype(), DType::F16 | DType::F32) { x } else { x.to_dtype(DType::I32).unwrap() };
        Array::new(x.dims(), x.dtype(), x.to_bytes().unwrap()).unwrap()
    };
    let arrays: Vec<Array> = tensors.iter().map(array).collect();
    let mut writer = NpzWriter::new();
    for (i, array) in arrays.iter().enumerate() {
        writer.array(&format!("{name}_{i}"), array).unwrap();
    }
    writer.write_file(path).unwrap();
}
