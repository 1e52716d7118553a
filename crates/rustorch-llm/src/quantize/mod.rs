//! Quantizing a model: from a GGUF file to one whose matrices take fewer bits.
//!
//! The dtype of each tensor is the one that llama.cpp chooses for the same [`Mixture`]. Tensors are converted as they are written, some rows at a time on
//! every thread, so that memory holds a few megabytes whatever the model's size.
//!
//! ```no_run
//! use rustorch_formats::gguf::File;
//! use rustorch_llm::quantize::{Mixture, Quantization, QuantizeOptions};
//!
//! let file = File::open("model-f16.gguf")?;
//! let options = QuantizeOptions::new(Mixture::Q4_K_M);
//! Quantization::plan(&file, &options)?.write("model-Q4_K_M.gguf", &|_, _| {})?;
//! # Ok::<(), rustorch_llm::quantize::QuantizeError>(())
//! ```

mod category;
mod choose;
mod convert;
mod error;
mod importance;
mod mixture;
mod source;

pub use error::QuantizeError;
pub use importance::ImportanceMatrix;
pub use mixture::Mixture;

pub(crate) use source::{from_f32, to_f32};

use category::{Category, is_quantizable, layer};
use choose::{Candidate, Chooser, ModelFacts, fitting};
use regex::Regex;
use rustorch_core::{DType, QuantType};
use rustorch_formats::gguf::{File, TensorRef};
use std::num::NonZeroUsize;

/// The version of the block layouts that `general.quantization_version` tells.
pub(crate) const QUANTIZATION_VERSION: u32 = 2;

/// How a model is quantized.
#[derive(Clone, Debug)]
pub struct QuantizeOptions {
    /// Which dtypes.
    pub mixture: Mixture,
    /// The dtype of `output.weight`, and of an embedding table that serves as such, whatever the mixture says.
    pub output_dtype: Option<DType>,
    /// The dtype of the embedding table, whatever the mixture says.
    pub embedding_dtype: Option<DType>,
    /// Dtypes of tensors in whose name a regular expression (of the crate `regex`) finds something; the first that does counts.
    pub by_name: Vec<(String, DType)>,
    /// All matrices get the mixture's own dtype.
    pub pure: bool,
    /// `output.weight` is left as it is.
    pub leave_output: bool,
    /// Nothing is converted.
    pub copy: bool,
    /// Tensors that are quantized already may be quantized again.
    pub allow_requantize: bool,
    /// How much an error in each column weighs.
    pub importance: Option<ImportanceMatrix>,
    /// Threads that quantize; one for each core by default.
    pub threads: Option<NonZeroUsize>,
}

impl QuantizeOptions {
    /// As `llama-quantize` does it without options.
    pub fn new(mixture: Mixture) -> QuantizeOptions {
        QuantizeOptions {
            mixture,
            output_dtype: None,
            embedding_dtype: None,
            by_name: Vec::new(),
            pure: false,
            leave_output: false,
            copy: false,
            allow_requantize: false,
            importance: None,
            threads: None,
        }
    }
}

/// What happens to one tensor.
#[derive(Clone, Copy, Debug)]
pub struct PlannedTensor<'a> {
    /// The tensor of the file.
    pub source: TensorRef<'a>,
    /// Its new dtype.
    pub dtype: DType,
    /// Whether blocks of the type that was meant do not divide its columns, so that another one stands in.
    pub is_substitute: bool,
    /// The importances of its columns.
    pub importance: Option<&'a [f32]>,
}

impl PlannedTensor<'_> {
    /// Its size in bytes.
    pub fn nbytes(&self) -> usize {
        // The dtype is chosen so that its blocks divide the columns.
        self.dtype.bytes_for(self.source.numel()).unwrap_or(0)
    }
}

/// A file that is to be quantized, and how.
#[derive(Debug)]
pub struct Quantization<'a> {
    file: &'a File,
    options: &'a QuantizeOptions,
    tensors: Vec<PlannedTensor<'a>>,
}

impl<'a> Quantization<'a> {
    /// Chooses the dtype of each tensor.
    ///
    /// # Errors
    /// If a tensor cannot be quantized as the options ask: see [`QuantizeError`].
    pub fn plan(file: &'a File, options: &'a QuantizeOptions) -> Result<Quantization<'a>, QuantizeError> {
        let facts = ModelFacts::read(file.metadata());
        let mut sources: Vec<TensorRef<'a>> = file.tensors().collect();
        // llama.cpp's order, in which tensors are counted: those of no block first.
        sources.sort_by(|a, b| (layer(a.name()), a.name()).cmp(&(layer(b.name()), b.name())));
        let categories = sources.iter().map(|tensor| Category::of(tensor.name()));
        let mut chooser = Chooser::new(
            &facts,
            options.mixture,
            options.importance.is_some(),
            options.output_dtype,
            categories,
        );
        let by_name = patterns(options, &sources)?;
        let tensors = sources.iter().map(|&source| plan(source, options, &by_name, &mut chooser));
        Ok(Quantization { file, options, tensors: tensors.collect::<Result<_, _>>()? })
    }

    /// What happens to each tensor, in the order in which they are written.
    pub fn tensors(&self) -> &[PlannedTensor<'a>] {
        &self.tensors
    }
}

/// The expressions of [`QuantizeOptions::by_name`], each of which finds a matrix.
fn patterns(
    options: &QuantizeOptions,
    tensors: &[TensorRef<'_>],
) -> Result<Vec<(Regex, DType)>, QuantizeError> {
    let compiled = |(pattern, dtype): &(String, DType)| {
        let pattern = pattern.clone();
        let regex = match Regex::new(&pattern) {
            Ok(regex) => regex,
            Err(error) => return Err(QuantizeError::Pattern { pattern, message: error.to_string() }),
        };
        let finds = |tensor: &TensorRef<'_>| {
            is_quantizable(tensor.name(), tensor.shape()) && regex.is_match(tensor.name())
        };
        if !tensors.iter().any(finds) {
            return Err(QuantizeError::Pattern { pattern, message: "no matrix has such a name".into() });
        }
        Ok((regex, *dtype))
    };
    options.by_name.iter().map(compiled).collect()
}

/// The plan for one tensor.
fn plan<'a>(
    source: TensorRef<'a>,
    options: &'a QuantizeOptions,
    by_name: &[(Regex, DType)],
    chooser: &mut Chooser<'_>,
) -> Result<PlannedTensor<'a>, QuantizeError> {
    let (name, shape) = (source.name(), source.shape());
    let unchanged = PlannedTensor { source, dtype: source.dtype(), is_substitute: false, importance: None };
    let left = options.copy || (options.leave_output && name == "output.weight");
    if left || !is_quantizable(name, shape) {
        return Ok(unchanged);
    }
    let candidate = Candidate { name, shape, category: Category::of(name) };
    let given = match candidate.category {
        Category::TokenEmbedding => options.embedding_dtype,
        Category::Output => options.output_dtype,
        _ => None,
    };
    let meant = match (given, options.mixture.dtype()) {
        (Some(given), _) => given,
        (None, DType::Quant(default)) => match by_name.iter().find(|(regex, _)| regex.is_match(name)) {
            Some((_, dtype)) => *dtype,
            None if options.pure => DType::Quant(default),
            None => chooser.choose(&candidate, default)?,
        },
        (None, dense) => dense,
    };
    let columns = candidate.columns();
    let dtype = match meant {
        DType::Quant(quant) => fitting(quant, columns).ok_or_else(|| QuantizeError::Columns {
            tensor: name.to_owned(),
            dtype: meant,
            columns,
        })?,
        dense => dense,
    };
    if dtype == source.dtype() {
        return Ok(unchanged);
    }
    let tensor = || name.to_owned();
    if !is_writable(dtype) {
        return Err(QuantizeError::NotWritable { tensor: tensor(), dtype });
    }
    match source.dtype() {
        DType::F32 | DType::F16 | DType::BF16 => {}
        DType::Quant(_) if options.allow_requantize => {}
        DType::Quant(_) => return Err(QuantizeError::Quantized { tensor: tensor(), dtype: source.dtype() }),
        other => return Err(QuantizeError::Source { tensor: tensor(), dtype: other }),
    }
    let mut importance = options.importance.as_ref().and_then(|matrix| matrix.get(name));
    let expected = columns * candidate.matrices();
    if let Some(found) = importance.map(<[f32]>::len).filter(|&found| found != expected) {
        // Of embedding tables it counts something else.
        if candidate.category != Category::TokenEmbedding {
            return Err(QuantizeError::ImportanceLength { tensor: tensor(), found, expected });
        }
        importance = None;
    }
    if importance.is_none() && needs_importance(&candidate, dtype, options.mixture) {
        return Err(QuantizeError::NeedsImportance { tensor: tensor(), dtype });
    }
    Ok(PlannedTensor { source, dtype, is_substitute: dtype != meant, importance })
}

/// Whether files can be made in a dtype: block types, but for those of activations, and the dense ones of weights.
fn is_writable(dtype: DType) -> bool {
    match dtype {
        DType::F32 | DType::F16 | DType::BF16 => true,
        DType::Quant(QuantType::Q8_1 | QuantType::Q8_K) => false,
        DType::Quant(_) => true,
        _ => false,
    }
}

fn needs_importance(tensor: &Candidate<'_>, dtype: DType, mixture: Mixture) -> bool {
    use QuantType as Q;
    match dtype {
        _ if matches!(tensor.category, Category::TokenEmbedding | Category::Output) => false,
        DType::Quant(Q::IQ3_XXS | Q::IQ2_XXS | Q::IQ2_XS | Q::IQ2_S | Q::IQ1_M | Q::IQ1_S) => true,
        DType::Quant(Q::Q2_K) => mixture == Mixture::Q2_K_S,
        _ => false,
    }
}
