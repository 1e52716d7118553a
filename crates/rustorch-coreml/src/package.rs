//! The folder `.mlpackage`: a manifest, the model, its weights.

use crate::blob::{Blob, Constants};
use crate::builder::Specification;
use crate::emit;
use crate::pipeline::write_hashed;
use crate::runtime::Signature;
use crate::{CoreMlOptions, Error, Function, Result};
use prost::Message;
use rustorch_core::Graph;
use sha2::{Digest, Sha256};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A graph as a Core ML ML Program, not yet written.
///
/// ```
/// use rustorch_core::{DType, Device, Graph, Node, Op, Shape, Source, UnaryOp, Value};
/// use rustorch_coreml::Package;
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("exp.mlpackage");
/// let shape = Shape::new([2, 3].as_slice())?;
/// let value = |source| Value { source, dtype: DType::F32, shape: shape.clone(), device: Device::CPU };
/// let mut graph = Graph::default();
/// let x = graph.add_value(value(Source::Input(0)));
/// let y = graph.add_value(value(Source::Result { node: 0, index: 0 }));
/// graph.inputs.push(x);
/// graph.nodes.push(Node::new(Op::from(UnaryOp::Exp), [graph.whole(x)], [y]));
/// graph.outputs.push(graph.whole(y));
///
/// // Of a graph with constants: the bytes of elements of each.
/// let constants = |_, _| unreachable!("the graph has no constants");
/// let package = Package::new(&graph, &constants)?;
/// assert_eq!(package.specification_version(), 6);
/// package.write(&path)?;
/// assert!(path.join("Manifest.json").exists());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Package<'a> {
    model: Vec<u8>,
    blob: Blob,
    specification: Specification,
    signature: Signature,
    constants: &'a Constants<'a>,
}

impl<'a> Package<'a> {
    /// Emits a graph. Inputs are `input_0`, .., outputs `output_0`, ..; what has no dimensions has one of length 1 there, and booleans and
    /// 64-bit integers are `int32`. `constants` gives the bytes of the graph's constants in native byte order, and is asked again when the
    /// package is written; small ones, and all integers, are asked for here.
    ///
    /// # Errors
    /// [`Error::Graph`] if the graph is not valid, [`Error::Declined`] with everything that has no form in a program, or
    /// [`Error::Constant`].
    pub fn new(graph: &Graph, constants: &'a Constants<'a>) -> Result<Package<'a>> {
        Package::with_options(graph, constants, &CoreMlOptions::default())
    }

    /// As [`new`](Self::new), with options. The graph's states become states of Core ML, `state_0`, .., which are `f16` and hold zeros until a run writes them.
    ///
    /// # Errors
    /// Those of [`new`](Self::new), and [`Error::Options`].
    pub fn with_options(
        graph: &Graph,
        constants: &'a Constants<'a>,
        options: &CoreMlOptions,
    ) -> Result<Package<'a>> {
        Package::of_functions(&[Function::new("main", graph, options.clone())], constants)
    }

    /// A package of functions, which share constants and states (specification 9, unless `main` is the only one). Programs load the first if they name none.
    ///
    /// # Errors
    /// Those of [`with_options`](Self::with_options), or [`Error::Options`] if functions do not go together: it says why.
    pub fn of_functions(functions: &[Function<'_>], constants: &'a Constants<'a>) -> Result<Package<'a>> {
        Function::check(functions)?;
        let (model, blob, specification) = emit::program(functions, constants)?;
        let signature = Signature::of(&model);
        Ok(Package { model: model.encode_to_vec(), blob, specification, signature, constants })
    }

    /// The inputs and outputs of the first function.
    pub fn signature(&self) -> &Signature {
        &self.signature
    }

    /// The lowest version of Core ML's model format that has all of it: 6, which systems from macOS 12 and iOS 15 on read; 7 with `f16` inputs or
    /// outputs, from macOS 13 and iOS 16 on; 9 with states, weights in blocks or several functions, from macOS 15 and iOS 18 on.
    pub fn specification_version(&self) -> i32 {
        self.specification.number()
    }

    /// The hash of all that is written: equal graphs with equal constants have equal packages.
    ///
    /// # Errors
    /// [`Error::Constant`].
    pub fn digest(&self) -> Result<String> {
        let mut hash = Hashed(Sha256::new_with_prefix(&self.model));
        self.blob.write(self.constants, Path::new("weight.bin"), &mut hash)?;
        Ok(hex(&hash.0.finalize()))
    }

    /// Writes the package. The folder appears whole or not at all.
    ///
    /// # Errors
    /// [`Error::Exists`] if something is at `path`, [`Error::Unwritable`] if nothing can be, [`Error::Full`], [`Error::Io`], or [`Error::Constant`].
    pub fn write(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        if path.symlink_metadata().is_ok() {
            return Err(Error::Exists { path: path.to_owned() });
        }
        let folder = TemporaryFolder::beside(path)?;
        let written = self.write_into(&folder.path);
        written.and_then(|()| folder.rename(path)).map_err(|error| match error {
            Error::Io { source, .. } if is_full(&source) => {
                let bytes = self.model.len() as u64 + self.blob.bytes();
                Error::Full { path: path.to_owned(), bytes, source }
            }
            other => other,
        })
    }

    fn write_into(&self, folder: &Path) -> Result<()> {
        let data = folder.join("Data").join("com.apple.CoreML");
        fs::create_dir_all(&data).map_err(|source| Error::Io { path: data.clone(), source })?;
        write_file(&data.join("model.mlmodel"), &self.model)?;
        let mut items = vec![("model.mlmodel", "CoreML Model Specification", identifier(&self.model))];
        if !self.blob.is_empty() {
            let weights = data.join("weights");
            fs::create_dir(&weights).map_err(|source| Error::Io { path: weights.clone(), source })?;
            let path = weights.join("weight.bin");
            let io = |source| Error::Io { path: path.clone(), source };
            let file = File::create(&path).map_err(io)?;
            let hash = write_hashed(&file, io, |out| self.blob.write(self.constants, &path, out))?;
            items.push(("weights", "CoreML Model Weights", uuid(&hash)));
        }
        write_file(&folder.join("Manifest.json"), manifest(&items).as_bytes())
    }
}

impl fmt::Debug for Package<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Package").field("model_bytes", &self.model.len()).field("blob", &self.blob).finish()
    }
}

/// Whether an error says that there is no room.
fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    let write = || {
        let mut file = File::create(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    write().map_err(|source| Error::Io { path: path.to_owned(), source })
}

/// What a package lists: the model first.
fn manifest(items: &[(&str, &str, String)]) -> String {
    let entry = |(name, description, identifier): &(&str, &str, String)| {
        format!(
            "        \"{identifier}\": {{\n            \"author\": \"com.apple.CoreML\",\n            \"description\": \"{description}\",\n            \
             \"name\": \"{name}\",\n            \"path\": \"com.apple.CoreML/{name}\"\n        }}"
        )
    };
    let entries: Vec<String> = items.iter().map(entry).collect();
    format!(
        "{{\n    \"fileFormatVersion\": \"1.0.0\",\n    \"itemInfoEntries\": {{\n{}\n    }},\n    \"rootModelIdentifier\": \"{}\"\n}}\n",
        entries.join(",\n"),
        items[0].2
    )
}

/// A UUID of what it names.
fn identifier(bytes: &[u8]) -> String {
    uuid(&Sha256::digest(bytes))
}

fn uuid(hash: &[u8]) -> String {
    let hex = hex(&hash[..16]).to_uppercase();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Hashes what is written.
struct Hashed(Sha256);

impl Write for Hashed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A folder beside the one that is to be, removed when dropped.
struct TemporaryFolder {
    path: PathBuf,
    done: bool,
}

impl TemporaryFolder {
    fn beside(target: &Path) -> Result<TemporaryFolder> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        if target.file_name().is_none() {
            let source =
                io::Error::new(io::ErrorKind::InvalidInput, "the path does not end in a folder's name");
            return Err(Error::Unwritable { path: target.to_owned(), source });
        }
        loop {
            let n = COUNTER.fetch_add(1, Ordering::Relaxed);
            // In the same directory, since a rename does not cross file systems.
            let path = target.with_file_name(format!(".rustorch-{}-{n}.tmp", std::process::id()));
            match fs::create_dir(&path) {
                Ok(()) => return Ok(TemporaryFolder { path, done: false }),
                // Left behind by a process of the same number that was killed.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(source) => return Err(Error::Unwritable { path: target.to_owned(), source }),
            }
        }
    }

    fn rename(mut self, target: &Path) -> Result<()> {
        match fs::rename(&self.path, target) {
            Ok(()) => {
                self.done = true;
                Ok(())
            }
            Err(source) => Err(Error::Io { path: target.to_owned(), source }),
        }
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        if !self.done {
            // Nothing can be done about a failure here, and the error that led here is the one to report.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}
