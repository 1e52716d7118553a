//! The options of the commands that make model files.

use super::values::{positive, size, threads};
use crate::command::convert::{OutType, outtype};
use crate::command::quantize::{by_name, dtype};
use clap::Args;
use rustorch::DType;
use rustorch::llm::quantize::Mixture;
use std::path::PathBuf;

/// What `quantize` makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QuantizeType {
    Mixture(Mixture),
    /// The tensors as they are.
    Copy,
}

#[derive(Args, Debug)]
pub(crate) struct QuantizeArgs {
    /// The model file; of a split model, any part
    #[arg(value_name = "SOURCE.gguf")]
    pub(crate) source: PathBuf,
    /// The file to write; with --keep-split, what the names of its parts begin with
    #[arg(value_name = "TARGET.gguf")]
    pub(crate) target: PathBuf,
    /// A mixture of llama.cpp, such as Q4_K_M, Q8_0 or F16; COPY leaves tensors as they are
    #[arg(value_name = "TYPE", value_parser = quantize_type)]
    pub(crate) mixture: QuantizeType,
    /// How much an error in each column weighs, as imatrix and llama-imatrix write it
    #[arg(long, value_name = "FILE")]
    pub(crate) imatrix: Option<PathBuf>,
    /// The type of tensors in whose name a regular expression is found (may be repeated; the first that fits counts)
    #[arg(long, value_name = "REGEX=TYPE", value_parser = by_name)]
    pub(crate) tensor_type: Vec<(String, DType)>,
    /// The type of output.weight, and of an embedding table that serves as such
    #[arg(long, value_name = "TYPE", value_parser = dtype)]
    pub(crate) output_tensor_type: Option<DType>,
    /// The type of the embedding table
    #[arg(long, value_name = "TYPE", value_parser = dtype)]
    pub(crate) token_embedding_type: Option<DType>,
    /// Give all matrices the same type
    #[arg(long)]
    pub(crate) pure: bool,
    /// Leave output.weight as it is
    #[arg(long)]
    pub(crate) leave_output_tensor: bool,
    /// Quantize tensors again that are quantized already, which loses more than quantizing the original
    #[arg(long)]
    pub(crate) allow_requantize: bool,
    /// Write as many parts as the model has
    #[arg(long)]
    pub(crate) keep_split: bool,
    /// Write nothing; show the type of each tensor
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Threads that quantize [default: one for each core]
    #[arg(short, long, value_name = "N", value_parser = threads)]
    pub(crate) threads: Option<usize>,
    /// Read the whole file into memory instead of mapping it: where it may change while the program runs
    #[arg(long)]
    pub(crate) no_mmap: bool,
}

#[derive(Args, Debug)]
pub(crate) struct ConvertArgs {
    /// A folder with config.json, a tokenizer and weights in safetensors
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: PathBuf,
    /// The file to write
    #[arg(value_name = "TARGET.gguf")]
    pub(crate) target: PathBuf,
    /// The type of matrices: auto (that of the folder's first one), f32, f16, bf16 or q8_0
    #[arg(long, value_name = "TYPE", default_value = "auto", value_parser = outtype)]
    pub(crate) outtype: OutType,
    /// The model's name [default: the folder's]
    #[arg(long, value_name = "NAME", alias = "model-name")]
    pub(crate) name: Option<String>,
    /// The pre-tokenizer by its name in llama.cpp, where it is not told by its pattern
    #[arg(long, value_name = "NAME")]
    pub(crate) pre: Option<String>,
    /// Read the weights into memory instead of mapping them: where they may change while the program runs
    #[arg(long)]
    pub(crate) no_mmap: bool,
}

#[derive(Args, Debug)]
pub(crate) struct SplitArgs {
    /// The model file
    #[arg(value_name = "SOURCE.gguf")]
    pub(crate) source: PathBuf,
    /// What the names of the parts begin with: PREFIX-00001-of-0000N.gguf
    #[arg(value_name = "PREFIX")]
    pub(crate) prefix: PathBuf,
    /// The most bytes of tensors in a part
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "2G")]
    pub(crate) max_size: u64,
    /// The most tensors in a part, instead of bytes
    #[arg(long, value_name = "N", value_parser = positive, conflicts_with = "max_size")]
    pub(crate) max_tensors: Option<usize>,
    /// Read the whole file into memory instead of mapping it: where it may change while the program runs
    #[arg(long)]
    pub(crate) no_mmap: bool,
}

#[derive(Args, Debug)]
pub(crate) struct MergeArgs {
    /// Any part of the model
    #[arg(value_name = "PART.gguf")]
    pub(crate) part: PathBuf,
    /// The file to write
    #[arg(value_name = "TARGET.gguf")]
    pub(crate) target: PathBuf,
    /// Read the parts into memory instead of mapping them: where they may change while the program runs
    #[arg(long)]
    pub(crate) no_mmap: bool,
}

fn quantize_type(text: &str) -> Result<QuantizeType, String> {
    if text.eq_ignore_ascii_case("copy") {
        return Ok(QuantizeType::Copy);
    }
    Mixture::from_name(text).map(QuantizeType::Mixture).ok_or_else(|| {
        let names: Vec<&str> = Mixture::ALL.iter().map(|mixture| mixture.name()).collect();
        format!("is none of {}, COPY", names.join(", "))
    })
}
