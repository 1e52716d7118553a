//! safetensors files.

use super::Result;
use super::load::Load;
use super::sharing::{span, storage_id};
use rustorch_formats::safetensors::{ErrorKind, File, Region, Writer, deduplicate, find_shared};
use rustorch_tensor::Tensor;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// Loads the tensors of a safetensors file, or of a sharded set by its index (`model.safetensors.index.json`), by name.
///
/// Names that the metadata records for tensors that shared memory when they were saved
/// ([`SharedTensors::Alias`], the Python library's `save_model`) are given, too, for tensors that share memory again.
///
/// ```
/// use rustorch::Tensor;
/// use rustorch::files::{load_safetensors, save_safetensors};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("model.safetensors");
/// let weight = Tensor::new([[1.0f32, 2.0], [3.0, 4.0]])?;
/// save_safetensors(&path, [("weight", &weight), ("bias", &Tensor::new([0.5f32, 0.25])?)])?;
/// let model = load_safetensors(&path)?;
/// assert_eq!(model.keys().collect::<Vec<_>>(), ["bias", "weight"]);
/// assert_eq!(model["weight"].to_string(), weight.to_string());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If the file is no such file; see [`ErrorKind`](rustorch_formats::safetensors::ErrorKind).
pub fn load_safetensors(path: impl AsRef<Path>) -> Result<BTreeMap<String, Tensor>> {
    tensors(&File::open(path)?, Load::Copied)
}

/// Maps the tensors of a safetensors file into memory, else as [`load_safetensors`] does. Booleans are copied.
///
/// # Errors
/// As [`load_safetensors`].
///
/// # Safety
/// As long as any of the tensors lives, nobody overwrites the file in place or truncates it; see [`File::open_mapped`].
pub unsafe fn load_safetensors_mapped(path: impl AsRef<Path>) -> Result<BTreeMap<String, Tensor>> {
    // SAFETY: that nobody changes the file is this function's contract.
    tensors(&unsafe { File::open_mapped(path) }?, Load::Mapped)
}

fn tensors(file: &File, load: Load) -> Result<BTreeMap<String, Tensor>> {
    let mut tensors = BTreeMap::new();
    for entry in file.tensors() {
        let tensor = load.tensor(entry.shared_bytes(), entry.dtype(), entry.shape())?;
        tensors.insert(entry.name().to_owned(), tensor);
    }
    for (name, kept) in file.aliases() {
        if let Some(tensor) = tensors.get(kept).cloned() {
            tensors.insert(name.to_owned(), tensor);
        }
    }
    Ok(tensors)
}

/// What to do with tensors that share memory, which safetensors files cannot express.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SharedTensors {
    /// An error that names them, as the Python library's `save_file`.
    #[default]
    Refuse,
    /// Of tensors that share memory one that covers all of it is saved, and the metadata records the names of the others, as the
    /// Python library's `save_model` does.
    Alias,
}

/// How tensors are saved as safetensors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SafetensorsOptions {
    /// The metadata, such as `format`: `pt`.
    pub metadata: BTreeMap<String, String>,
    /// What to do with tensors that share memory.
    pub shared: SharedTensors,
    /// The most bytes of a file's tensors, more than which make a sharded set. `None` for a single file.
    pub max_shard_bytes: Option<u64>,
}

/// Saves tensors as a safetensors file.
///
/// # Errors
/// If two tensors share memory (save copies, or see [`SharedTensors::Alias`]) or have one name, a dtype is one that the format
/// does not have (`c128`, block types), or the disk refuses.
pub fn save_safetensors<'a, K: AsRef<str>>(
    path: impl AsRef<Path>,
    tensors: impl IntoIterator<Item = (K, &'a Tensor)>,
) -> Result<()> {
    save_safetensors_with(path, tensors, &SafetensorsOptions::default()).map(drop)
}

/// Saves tensors as safetensors with options, and gives the path to load: that of the index if the files are several.
///
/// ```
/// use rustorch::{DType, Tensor};
/// use rustorch::files::{SafetensorsOptions, SharedTensors, load_safetensors, save_safetensors_with};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("model.safetensors");
/// // The output layer has the weight of the embedding.
/// let weight = Tensor::zeros([8, 4], DType::F32)?;
/// let model = [("embed.weight", &weight), ("lm_head.weight", &weight), ("norm", &Tensor::ones(4, DType::F32)?)];
/// let options = SafetensorsOptions { shared: SharedTensors::Alias, ..Default::default() };
/// save_safetensors_with(&path, model, &options)?;
/// let loaded = load_safetensors(&path)?;
/// assert!(loaded["embed.weight"].shares_memory(&loaded["lm_head.weight"]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`save_safetensors`].
pub fn save_safetensors_with<'a, K: AsRef<str>>(
    path: impl AsRef<Path>,
    tensors: impl IntoIterator<Item = (K, &'a Tensor)>,
    options: &SafetensorsOptions,
) -> Result<PathBuf> {
    let tensors: Vec<_> = tensors.into_iter().collect();
    let regions = || tensors.iter().map(|(name, tensor)| (name.as_ref(), region(tensor)));
    let mut writer = Writer::new();
    for (key, value) in &options.metadata {
        writer.metadata(key, value)?;
    }
    let mut aliases = BTreeMap::new();
    match options.shared {
        SharedTensors::Refuse => {
            if let Some([first, second]) =
                find_shared(regions()).first().and_then(|group| group.first_chunk())
            {
                let (first, second) = ((*first).to_owned(), (*second).to_owned());
                let error: rustorch_formats::safetensors::Error =
                    ErrorKind::SharedMemory { first, second }.into();
                return Err(error.into());
            }
        }
        SharedTensors::Alias => aliases = deduplicate(regions())?,
    }
    for (name, tensor) in tensors.iter().filter(|(name, _)| !aliases.contains_key(name.as_ref())) {
        // The values are copied when it is their turn to be written.
        let data = || tensor.to_bytes().map_err(io::Error::other);
        writer.tensor_with(name.as_ref(), tensor.dims(), tensor.dtype(), data)?;
    }
    writer.aliases(aliases);
    let path = path.as_ref();
    match options.max_shard_bytes {
        Some(max) => Ok(writer.write_sharded(path, max)?),
        None => {
            writer.write_file(path)?;
            Ok(path.to_path_buf())
        }
    }
}

/// Where in memory a tensor is.
fn region(tensor: &Tensor) -> Region {
    let size = tensor.dtype().size().unwrap_or(1);
    let span = span(tensor);
    let all = span.start == 0 && span.end * size == tensor.storage().bytes();
    Region {
        storage: storage_id(tensor),
        range: span.start * size..span.end * size,
        covers_storage: all && tensor.numel() == span.end && !tensor.layout().overlaps_itself(),
    }
}
