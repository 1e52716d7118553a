//! What is in a package, whoever wrote it.

use crate::options::{BELOW_KEY, METADATA_VERSION, METADATA_VERSION_KEY};
use crate::proto as pb;
use crate::runtime::{Feature, Signature};
use crate::{Error, Result};
use prost::Message;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// The largest model that is read: without its weights, which stand beside it.
const MOST_BYTES: u64 = 1 << 30;

/// The versions of the model format that are known: those with ML Programs.
const SPECIFICATIONS: std::ops::RangeInclusive<i32> = 6..=10;
/// The version of ML Programs that is known.
const PROGRAM_VERSION: i64 = 1;
/// The operation sets that are known, of these specifications in order.
const OPSETS: [&str; 5] = ["CoreML5", "CoreML6", "CoreML7", "CoreML8", "CoreML9"];

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
    /// The folder.
    pub path: PathBuf,
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
    /// What of it is of a version that this one does not know, each with what to do; nothing of what RusTorch writes today.
    pub problems: Vec<String>,
}

/// A function of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionInfo {
    /// What it is called.
    pub name: String,
    /// The operation set, such as `CoreML5`.
    pub opset: String,
    /// Its inputs, outputs and states.
    pub signature: Signature,
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
        let metadata = description.metadata.clone().unwrap_or_default();
        let mut problems = versions(&model_message, program);
        let functions = program.functions.iter().map(|(name, function)| {
            function_info(&description, name, function, &metadata.user_defined, &mut problems)
        });
        let functions = functions.collect();
        Ok(PackageInfo {
            path: path.to_owned(),
            specification_version: model_message.specification_version,
            description: metadata.short_description,
            metadata: metadata.user_defined,
            functions,
            model_bytes,
            weight_bytes: folder_bytes(&model.with_file_name("weights")).map_err(io)?,
            problems,
        })
    }

    /// What a function is given and returns, to load it by.
    ///
    /// # Errors
    /// [`Error::Version`] if something is of a version that is not known, and [`Error::Package`] if there is no such function.
    pub fn signature(&self, function: &str) -> Result<&Signature> {
        if !self.problems.is_empty() {
            return Err(Error::Version { path: self.path.clone(), problems: self.problems.clone() });
        }
        let found = self.functions.iter().find(|of| of.name == function);
        found.map(|of| &of.signature).ok_or_else(|| {
            let names: Vec<&str> = self.functions.iter().map(|of| of.name.as_str()).collect();
            let message = format!("it has no function {function:?}; there is {}", names.join(", "));
            Error::Package { path: self.path.clone(), message }
        })
    }
}

/// What of a model is of a version that is not known, but for its functions.
fn versions(model: &pb::Model, program: &pb::Program) -> Vec<String> {
    let mut problems = Vec::new();
    let (first, last) = (SPECIFICATIONS.start(), SPECIFICATIONS.end());
    let specification = model.specification_version;
    if !SPECIFICATIONS.contains(&specification) {
        problems.push(format!(
            "specification {specification} is none of those with ML Programs that this RusTorch knows, {first} to {last}; export the model for one of these, or read it by a newer RusTorch"
        ));
    }
    if program.version != PROGRAM_VERSION {
        problems.push(format!(
            "its ML Program is of version {}, and this RusTorch knows {PROGRAM_VERSION}; read it by a newer one",
            program.version
        ));
    }
    problems
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

fn function_info(
    description: &pb::ModelDescription,
    name: &str,
    function: &pb::Function,
    metadata: &BTreeMap<String, String>,
    problems: &mut Vec<String>,
) -> FunctionInfo {
    let of_name = description.functions.iter().find(|function| function.name == name);
    let (inputs, outputs, states) = match of_name {
        Some(function) => (&function.input, &function.output, &function.state),
        None => (&description.input, &description.output, &description.state),
    };
    let mut features = |list: &[pb::FeatureDescription]| -> Vec<Feature> {
        let known = |described| match Feature::of(described) {
            Ok(feature) => Some(feature),
            Err(problem) => {
                problems.push(format!("{name}: {problem}, which this RusTorch does not run"));
                None
            }
        };
        list.iter().filter_map(known).collect()
    };
    let (mut inputs, outputs, states) = (features(inputs), features(outputs), features(states));
    if let Err(problem) = read_bounds(&mut inputs, metadata) {
        problems.push(format!("{name}: {problem}"));
    }
    if !OPSETS.contains(&function.opset.as_str()) {
        problems.push(format!(
            "{name} has the operation set {:?}, and this RusTorch knows {}; read it by a newer one",
            function.opset,
            OPSETS.join(", ")
        ));
    }
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
        signature: Signature { function: of_name.map(|_| name.to_owned()), inputs, outputs, states },
        operations,
        constants,
    }
}

/// Gives inputs the bounds that metadata has of them.
///
/// # Errors
/// If the metadata is of another version, or a bound is none.
fn read_bounds(inputs: &mut [Feature], metadata: &BTreeMap<String, String>) -> Result<(), String> {
    let version = metadata.get(METADATA_VERSION_KEY);
    if let Some(version) = version.filter(|version| **version != METADATA_VERSION.to_string()) {
        return Err(format!(
            "its metadata is of version {version:?} ({METADATA_VERSION_KEY}), and this RusTorch knows {METADATA_VERSION}; export it again, or read it by the version that wrote it"
        ));
    }
    for input in inputs {
        let key = format!("{BELOW_KEY}{}", input.name);
        let Some(text) = metadata.get(&key) else { continue };
        let below = text.parse().ok().filter(|below| *below > 0);
        input.below =
            Some(below.ok_or_else(|| format!("{key} is {text:?} and no positive integer; export it again"))?);
    }
    Ok(())
}

/// The bytes of the files in a folder; 0 if there is none.
fn folder_bytes(folder: &Path) -> std::io::Result<u64> {
    if !folder.is_dir() {
        return Ok(0);
    }
    let sizes = fs::read_dir(folder)?.map(|item| Ok(item?.metadata()?.len()));
    sizes.sum()
}
