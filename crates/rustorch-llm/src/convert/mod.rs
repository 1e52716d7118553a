//! Converting a folder of Hugging Face's `transformers` (configuration, tokenizer and weights in safetensors) to GGUF.
//!
//! Metadata and tensors are those that llama.cpp's `convert_hf_to_gguf.py` makes of the same folder, but for what it takes from a model card
//! (`README.md`). A field of the configuration that could change what the model computes, and that nothing here knows, is an error.
//!
//! ```no_run
//! use rustorch_llm::convert::{Conversion, ConvertOptions};
//!
//! let conversion = Conversion::open("Qwen3-0.6B", &ConvertOptions::default())?;
//! conversion.write("qwen3.gguf", &|_, _| {})?;
//! # Ok::<(), rustorch_llm::convert::ConvertError>(())
//! ```

mod architecture;
mod config;
mod error;
mod general;
mod rope;
mod tensors;
mod tokenizer;

pub use error::ConvertError;

use crate::quantize::QUANTIZATION_VERSION;
use architecture::HfArchitecture;
use config::Config;
use rustorch_core::DType;
use rustorch_formats::gguf::{self, Metadata, Writer};
use rustorch_formats::safetensors;
use serde_json::Value;
use std::path::{Path, PathBuf};
use tensors::Planned;

/// How a model is converted.
#[derive(Clone, Debug, Default)]
pub struct ConvertOptions {
    /// The dtype of matrices: `f32`, `f16`, `bf16` or `Q8_0`; that of the first matrix if not given, `f16` for one in `f32`.
    pub dtype: Option<DType>,
    /// The model's name; that of the folder if not given.
    pub name: Option<String>,
    /// The pre-tokenizer, by its name in llama.cpp; found by its pattern if not given.
    pub pre_tokenizer: Option<String>,
}

/// A model of a folder, as it will be in GGUF.
#[derive(Debug)]
pub struct Conversion {
    weights: safetensors::File,
    metadata: Metadata,
    tensors: Vec<Planned>,
}

impl Conversion {
    /// Reads the folder, its weights into memory.
    ///
    /// # Errors
    /// If a file is missing or malformed, the architecture or something in the configuration is not supported, or a tensor is none of the
    /// architecture's.
    pub fn open(folder: impl AsRef<Path>, options: &ConvertOptions) -> Result<Conversion, ConvertError> {
        let folder = Folder::new(folder.as_ref())?;
        let weights = safetensors::File::open(folder.weights()?)?;
        Conversion::plan(&folder, weights, options)
    }

    /// As [`open`](Self::open), but maps the weights: the operating system reads them where they are used.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    ///
    /// # Safety
    /// As of [`safetensors::File::open_mapped`]: nobody overwrites or truncates the files of weights while this lives.
    pub unsafe fn open_mapped(
        folder: impl AsRef<Path>,
        options: &ConvertOptions,
    ) -> Result<Conversion, ConvertError> {
        let folder = Folder::new(folder.as_ref())?;
        // SAFETY: the caller's promise is the same.
        let weights = unsafe { safetensors::File::open_mapped(folder.weights()?)? };
        Conversion::plan(&folder, weights, options)
    }

    fn plan(
        folder: &Folder,
        weights: safetensors::File,
        options: &ConvertOptions,
    ) -> Result<Conversion, ConvertError> {
        let config = Config::new(folder.json("config.json")?.unwrap_or_default())?;
        let architecture = HfArchitecture::find(&config)?;
        let vocabulary = tokenizer::Tokenizer::read(folder, &config, architecture, options)?;
        let dtype = options.dtype.unwrap_or_else(|| tensors::usual_dtype(&weights));
        let rope = rope::Rope::read(&config, architecture)?;
        let tensors = tensors::plan(&weights, &config, architecture, &rope, vocabulary.rows, dtype)?;

        let mut metadata = Metadata::new();
        metadata.set("general.architecture", architecture.name)?;
        metadata.set("general.type", "model")?;
        if let Some(generation) = folder.json("generation_config.json")? {
            general::sampling(&generation, &mut metadata)?;
        }
        let parameters = tensors.iter().map(|tensor| tensor.numel()).sum();
        let file_name = config.find_text("_name_or_path")?.filter(|name| name.matches('/').count() <= 1);
        let names = [file_name, Some(folder.name())];
        general::names(options.name.as_deref(), names.into_iter().flatten(), parameters, &mut metadata)?;
        architecture.write(&config, &rope, &mut metadata)?;
        metadata.set("general.file_type", tensors::mixture(dtype)?.file_type())?;
        metadata.set("general.quantization_version", QUANTIZATION_VERSION)?;
        vocabulary.write(&mut metadata)?;
        config.finish()?;
        Ok(Conversion { weights, metadata, tensors })
    }

    /// The file's metadata.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Names, shapes (outermost dimension first) and dtypes of the tensors, in the order in which they are written.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = (&str, &[usize], DType)> {
        self.tensors.iter().map(|tensor| (tensor.name.as_str(), tensor.shape.as_slice(), tensor.dtype))
    }

    /// Writes the GGUF file, which replaces `path` only once everything is on the disk. `progress` is called with the number of tensors written
    /// and their total.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, path: impl AsRef<Path>, progress: &dyn Fn(usize, usize)) -> Result<(), ConvertError> {
        Ok(self.writer(progress)?.write_file(path)?)
    }

    /// The GGUF file in memory, to run the model as it is.
    ///
    /// # Errors
    /// If a tensor has a name or shape that GGUF has not.
    pub fn to_gguf(&self, progress: &dyn Fn(usize, usize)) -> Result<gguf::File, ConvertError> {
        Ok(gguf::File::from_bytes(self.writer(progress)?.to_bytes()?)?)
    }

    fn writer<'a>(&'a self, progress: &'a dyn Fn(usize, usize)) -> Result<Writer<'a>, ConvertError> {
        let mut writer = Writer::new();
        *writer.metadata_mut() = self.metadata.clone();
        let total = self.tensors.len();
        for (i, tensor) in self.tensors.iter().enumerate() {
            writer.tensor_with(&tensor.name, &tensor.shape, tensor.dtype, move |out| {
                tensor.write(&self.weights, out)?;
                progress(i + 1, total);
                Ok(())
            })?;
        }
        Ok(writer)
    }
}

/// The files of a model.
struct Folder {
    path: PathBuf,
    name: String,
}

impl Folder {
    fn new(path: &Path) -> Result<Folder, ConvertError> {
        let fail = |source| ConvertError::Io { path: path.to_owned(), source };
        // Also of `.` the name is that of the folder.
        let name = path.canonicalize().map_err(fail)?;
        let name = name.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        Ok(Folder { path: path.to_owned(), name })
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The text of a file, if it is there.
    fn text(&self, name: &str) -> Result<Option<String>, ConvertError> {
        let bytes = self.bytes(name)?;
        let text = bytes.map(String::from_utf8).transpose();
        text.map_err(|error| ConvertError::Malformed { path: self.file(name), message: error.to_string() })
    }

    fn bytes(&self, name: &str) -> Result<Option<Vec<u8>>, ConvertError> {
        match std::fs::read(self.file(name)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(ConvertError::Io { path: self.file(name), source }),
        }
    }

    /// A file of JSON, if it is there.
    fn json(&self, name: &str) -> Result<Option<Value>, ConvertError> {
        let text = self.text(name)?;
        let value = text.map(|text| serde_json::from_str(&text)).transpose();
        value.map_err(|error| ConvertError::Malformed { path: self.file(name), message: error.to_string() })
    }

    /// The file of weights, or the index of several.
    fn weights(&self) -> Result<PathBuf, ConvertError> {
        let names = ["model.safetensors.index.json", "model.safetensors"].map(|name| self.file(name));
        let found = names.into_iter().find(|path| path.exists());
        found.ok_or_else(|| ConvertError::NoWeights { folder: self.path.clone() })
    }
}
