//! `inspect`: what is in a model file, or a Core ML package.

mod package;

use crate::args::InspectArgs;
use crate::failure::Failure;
use crate::{model, output};
use rustorch::gguf::{Array, File, TensorRef, Value};
use rustorch::llm::arch::Architecture;
use rustorch::llm::model::ModelConfig;
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;

/// Metadata keys that hold whole vocabularies; the text form shows only their length and beginning.
const LONG: usize = 100;

pub(crate) fn run(args: &InspectArgs) -> Result<(), Failure> {
    if let Some(package) = args.file.as_deref().filter(|path| package::is_package(path)) {
        if args.tensors {
            return Err(Failure::Usage(
                "--tensors is for GGUF files; the weights of a package have no names".into(),
            ));
        }
        return package::run(package, args.json);
    }
    let path = args.file.clone().map_or_else(|| model::path(&args.model), |path| Ok(Some(path)))?;
    let file = model::open_file(path.as_deref(), args.model.no_mmap)?;
    let shown = path.map_or(model::EMBEDDED_NAME.into(), |p| p.display().to_string());
    if args.json { print_json(&file, &shown) } else { print_text(&file, &shown, args.tensors) }
}

fn print_text(file: &File, name: &str, tensors: bool) -> Result<(), Failure> {
    output::line(name)?;
    for part in file.parts() {
        let path = part.path().map_or(String::new(), |p| format!(" {}", p.display()));
        let (version, alignment) = (part.version(), part.alignment());
        let size = output::bytes(part.bytes().len() as u64);
        output::line(format_args!("GGUF version {version}, {size}, alignment {alignment}{path}"))?;
    }
    output::line(format_args!("\nmetadata: {} entries", file.metadata().len()))?;
    for (key, value) in file.metadata().iter() {
        let text = value.to_string();
        let cut = text.char_indices().nth(LONG).map_or(text.len(), |(i, _)| i);
        let dots = if cut < text.len() { " …" } else { "" };
        let key = output::escaped(key);
        output::line(format_args!("  {key}: {} = {}{dots}", value.type_name(), &text[..cut]))?;
    }
    output::line(format_args!("\n{}", file.summary()))?;
    for (reason, names) in left_out(file) {
        output::line(format_args!("left out: {} tensors ({reason})", names.len()))?;
    }
    if tensors {
        output::line("")?;
        let rows: Vec<Vec<String>> = file.tensors().map(|t| tensor_row(&t)).collect();
        output::table(&["tensor", "dtype", "shape", "bytes"], &rows)?;
    }
    Ok(())
}

/// The tensors that the architecture's decoder passes over on purpose, by the reason; none where the file is no model that runs.
fn left_out(file: &File) -> BTreeMap<&'static str, Vec<&str>> {
    let name = file.metadata().find::<&str>("general.architecture").ok().flatten();
    let mut all: BTreeMap<_, Vec<_>> = BTreeMap::new();
    let Some(architecture) = name.and_then(Architecture::find) else { return all };
    let Ok(config) = ModelConfig::read(architecture, file) else { return all };
    for name in file.tensors().map(|tensor| tensor.name()) {
        if let Some(left_out) = architecture.left_out(&config, name) {
            all.entry(left_out.reason).or_default().push(name);
        }
    }
    all
}

fn tensor_row(tensor: &TensorRef<'_>) -> Vec<String> {
    let shape: Vec<String> = tensor.shape().iter().map(usize::to_string).collect();
    vec![
        output::escaped(tensor.name()),
        tensor.dtype().to_string(),
        shape.join("×"),
        tensor.nbytes().to_string(),
    ]
}

fn print_json(file: &File, name: &str) -> Result<(), Failure> {
    let metadata: Map<String, Json> =
        file.metadata().iter().map(|(key, value)| (key.to_owned(), to_json(value))).collect();
    let tensors: Vec<Json> = file
        .tensors()
        .map(|t| json!({ "name": t.name(), "dtype": t.dtype().name(), "shape": t.shape(), "bytes": t.nbytes() }))
        .collect();
    let summary = file.summary();
    let left_out: Vec<Json> = left_out(file)
        .into_iter()
        .map(|(reason, tensors)| json!({ "reason": reason, "tensors": tensors }))
        .collect();
    output::json(&json!({
        "file": name,
        "parameters": summary.parameters,
        "bytes": summary.bytes,
        "left_out": left_out,
        "metadata": metadata,
        "tensors": tensors,
    }))
}

fn to_json(value: &Value) -> Json {
    match value {
        Value::U8(v) => json!(v),
        Value::I8(v) => json!(v),
        Value::U16(v) => json!(v),
        Value::I16(v) => json!(v),
        Value::U32(v) => json!(v),
        Value::I32(v) => json!(v),
        Value::U64(v) => json!(v),
        Value::I64(v) => json!(v),
        Value::F32(v) => json!(v),
        Value::F64(v) => json!(v),
        Value::Bool(v) => json!(v),
        Value::Str(v) => json!(v.to_string()),
        Value::Array(v) => array_to_json(v),
    }
}

fn array_to_json(array: &Array) -> Json {
    match array {
        Array::U8(v) => json!(v),
        Array::I8(v) => json!(v),
        Array::U16(v) => json!(v),
        Array::I16(v) => json!(v),
        Array::U32(v) => json!(v),
        Array::I32(v) => json!(v),
        Array::U64(v) => json!(v),
        Array::I64(v) => json!(v),
        Array::F32(v) => json!(v),
        Array::F64(v) => json!(v),
        Array::Bool(v) => json!(v),
        Array::Str(v) => v.iter().map(|s| Json::from(String::from_utf8_lossy(s))).collect(),
        Array::Array(v) => v.iter().map(array_to_json).collect(),
    }
}
