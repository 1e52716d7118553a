//! Core ML packages.

use crate::failure::Failure;
use crate::output;
use rustorch::coreml::runtime::Feature;
use rustorch::coreml::{FunctionInfo, PackageInfo};
use serde_json::{Value, json};
use std::path::Path;

/// Whether a path is meant to be a package.
pub(super) fn is_package(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "mlpackage") || path.join("Manifest.json").is_file()
}

pub(super) fn run(path: &Path, json: bool) -> Result<(), Failure> {
    let info = PackageInfo::read(path).map_err(|error| Failure::Model(error.to_string()))?;
    if json { output::json(&to_json(path, &info)) } else { print_text(path, &info) }
}

/// From which systems on a version of the format is read.
fn systems(specification: i32) -> &'static str {
    match specification {
        ..=6 => "macOS 12, iOS 15",
        7 => "macOS 13, iOS 16",
        8 => "macOS 14, iOS 17",
        9 => "macOS 15, iOS 18",
        _ => "macOS 26, iOS 26, or later",
    }
}

fn shown(feature: &Feature) -> String {
    let dims: Vec<String> = feature.dims.iter().map(usize::to_string).collect();
    let bound = feature.below.map_or_else(String::new, |below| format!(", values from 0 to {}", below - 1));
    format!("{} {}[{}]{bound}", output::escaped(&feature.name), feature.dtype, dims.join(", "))
}

fn print_text(path: &Path, info: &PackageInfo) -> Result<(), Failure> {
    output::line(path.display().to_string())?;
    output::line(format_args!(
        "Core ML package, specification {} ({}), model {}, weights {}",
        info.specification_version,
        systems(info.specification_version),
        output::bytes(info.model_bytes),
        output::bytes(info.weight_bytes)
    ))?;
    if !info.description.is_empty() {
        output::line(output::escaped(&info.description))?;
    }
    for problem in &info.problems {
        output::line(format_args!("of another version: {}", output::escaped(problem)))?;
    }
    for (key, value) in &info.metadata {
        output::line(format_args!("  {} = {}", output::escaped(key), output::escaped(value)))?;
    }
    info.functions.iter().try_for_each(print_function)
}

fn print_function(function: &FunctionInfo) -> Result<(), Failure> {
    let FunctionInfo { name, opset, signature, operations, constants } = function;
    let count: usize = operations.values().sum();
    let name = output::escaped(name);
    output::line(format_args!("\n{name}: {count} operations of {opset}, {constants} constants"))?;
    for (what, features) in
        [("input", &signature.inputs), ("output", &signature.outputs), ("state", &signature.states)]
    {
        for feature in features {
            output::line(format_args!("  {what} {}", shown(feature)))?;
        }
    }
    let mut rows: Vec<(&String, &usize)> = operations.iter().collect();
    rows.sort_by_key(|(name, count)| (std::cmp::Reverse(**count), *name));
    let rows: Vec<Vec<String>> =
        rows.into_iter().map(|(name, count)| vec![output::escaped(name), count.to_string()]).collect();
    output::table(&["operation", "count"], &rows)
}

fn to_json(path: &Path, info: &PackageInfo) -> Value {
    let features = |list: &[Feature]| -> Vec<Value> {
        let feature = |of: &Feature| json!({ "name": of.name, "dtype": of.dtype.to_string(), "shape": of.dims, "below": of.below });
        list.iter().map(feature).collect()
    };
    let function = |of: &FunctionInfo| {
        json!({
            "name": of.name,
            "opset": of.opset,
            "inputs": features(&of.signature.inputs),
            "outputs": features(&of.signature.outputs),
            "states": features(&of.signature.states),
            "operations": of.operations,
            "constants": of.constants,
        })
    };
    json!({
        "package": path.display().to_string(),
        "specification_version": info.specification_version,
        "description": info.description,
        "metadata": info.metadata,
        "problems": info.problems,
        "model_bytes": info.model_bytes,
        "weight_bytes": info.weight_bytes,
        "functions": info.functions.iter().map(function).collect::<Vec<_>>(),
    })
}
