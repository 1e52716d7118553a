//! What is in a package, whoever wrote it.

use crate::proto as pb;
use crate::runtime::{Feature, Signature};
use crate::{Error, Result};
use prost::Message;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// The largest model that is read: without its weights, which stand beside it.
const MOST_BYTES: u64 = 1 << 30;

/// What is in a package.
///
/// ```no_run
/// let info = rustorch_coreml::PackageInfo::read("model.mlpackage")?;
/// for function in &info.functions {
///     println!("{}: {} operations", function.name, function.operations.values().sum::<usize>());
/// }
/// # Ok::<(), rustorch_coreml::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageInfo {
    /// The version of the model format.
    pub specification_version: i32,
    /// What the model is, in a sentence.
    pub description: String,
    /// What else was written about it.
    pub metadata: BTreeMap<String, String>,
    /// The functions, by name.
    pub functions: Vec<FunctionInfo>,
    /// The size of the model without its weights.
    pub model_bytes: u64,
    /// The size of what stands beside it.
    pub weight_bytes: u64,
}

/// A function of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionInfo {
    /// What it is called.
    pub name: String,
    /// The operation set, such as `CoreML5`.
    pub opset: String,
    /// Its inputs and outputs.
    pub signature: Signature,
    /// Its states.
    pub states: Vec<Feature>,
    /// How many operations of each kind it has, constants left out.
    pub operations: BTreeMap<String, usize>,
    /// How many constants.
    pub constants: usize,
}

impl PackageInfo {
    /// Reads a package.
    ///
    /// # Errors
    /// [`Error::Io`], or [`Error::Package`] if it is no package with an ML Program.
    pub fn read(path: impl AsRef<Path>) -> Result<PackageInfo> {
        let path = path.as_ref();
        let wrong = |message: String| Error::Package { path: path.to_owned(), message };
        let model = root_model(path, &wrong)?;
        let io = |source| Error::Io { path: model.clone(), source };
        let model_bytes = fs::metadata(&model).map_err(io)?.len();
        if model_bytes > MOST_BYTES {
            return Err(wrong(format!("its model has {model_bytes} bytes, which is too much to read")));
        }
        let bytes = fs::read(&model).map_err(io)?;
        let model_message = pb::Model::decode(bytes.as_slice())
            .map_err(|error| wrong(format!("its model is no message of Core ML: {error}")))?;
        let Some(program) = &model_message.ml_program else {
            return Err(wrong("its model is no ML Program, but of an older kind".to_owned()));
        };
        let description = model_message.description.clone().unwrap_or_default();
        let functions =
            program.functions.iter().map(|(name, function)| function_info(&description, name, function));
        let metadata = description.metadata.clone().unwrap_or_default();
        Ok(PackageInfo {
            specification_version: model_message.specification_version,
            description: metadata.short_description,
            metadata: metadata.user_defined,
            functions: functions.collect(),
            model_bytes,
            weight_bytes: folder_bytes(&model.with_file_name("weights")).map_err(io)?,
        })
    }
}

/// Where the manifest says that the model is.
fn root_model(path: &Path, wrong: &dyn Fn(String) -> Error) -> Result<PathBuf> {
    let manifest = path.join("Manifest.json");
    let text = fs::read(&manifest).map_err(|source| match path.is_dir() {
        true => Error::Io { path: manifest, source },
        false => wrong("it is no folder, and packages are".to_owned()),
    })?;
    let manifest: serde_json::Value =
        serde_json::from_slice(&text).map_err(|error| wrong(format!("its manifest is no JSON: {error}")))?;
    let root = manifest["rootModelIdentifier"].as_str().unwrap_or_default();
    let inside = manifest["itemInfoEntries"][root]["path"].as_str().map(PathBuf::from);
    let is_plain = |inside: &PathBuf| inside.components().all(|part| matches!(part, Component::Normal(_)));
    let inside =
        inside.filter(is_plain).ok_or_else(|| wrong("its manifest names no model in it".to_owned()))?;
    Ok(path.join("Data").join(inside))
}

fn function_info(description: &pb::ModelDescription, name: &str, function: &pb::Function) -> FunctionInfo {
    let of_name = description.functions.iter().find(|function| function.name == name);
    let (inputs, outputs, states) = match of_name {
        Some(function) => (&function.input, &function.output, &function.state),
        None => (&description.input, &description.output, &description.state),
    };
    let features = |list: &[pb::FeatureDescription]| list.iter().filter_map(Feature::of).collect::<Vec<_>>();
    let mut operations = BTreeMap::new();
    let mut constants = 0;
    // Of several specializations the one that is said to count.
    let block = function.block_specializations.get(&function.opset);
    for operation in block.iter().flat_map(|block| &block.operations) {
        match operation.ty.as_str() {
            "const" => constants += 1,
            other => *operations.entry(other.to_owned()).or_default() += 1,
        }
    }
    FunctionInfo {
        name: name.to_owned(),
        opset: function.opset.clone(),
        signature: Signature { inputs: features(inputs), outputs: features(outputs) },
        states: features(states),
        operations,
        constants,
    }
}

/// The bytes of the files in a folder; 0 if there is none.
fn folder_bytes(folder: &Path) -> std::io::Result<u64> {
    if !folder.is_dir() {
        return Ok(0);
    }
    let sizes = fs::read_dir(folder)?.map(|item| Ok(item?.metadata()?.len()));
    sizes.sum()
}
