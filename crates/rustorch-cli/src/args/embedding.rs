//! The options of `embed` and `rerank`.

use super::values::{normalization, positive};
use super::{DeviceArgs, ModelArgs};
use clap::{Args, ValueEnum};
use rustorch::llm::embedding::Normalization;
use rustorch::llm::model::Pooling;
use std::path::PathBuf;

#[derive(Args, Debug)]
pub(crate) struct EmbedArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
    /// The texts, each an argument [default: the lines of standard input]
    #[arg(value_name = "TEXT")]
    pub(crate) texts: Vec<String>,
    /// Take the lines of a file as texts
    #[arg(short, long, value_name = "FILE", conflicts_with = "texts")]
    pub(crate) file: Option<PathBuf>,
    /// What becomes of the vectors of a text's tokens [default: as the file says]
    #[arg(long, value_name = "HOW", value_enum)]
    pub(crate) pooling: Option<PoolingName>,
    /// How long vectors are made: -1 as they come, 0 at most 32760 in each value, 1 by the sum, 2 by the Euclidean norm, more by that p-norm
    #[arg(long, alias = "embd-normalize", value_name = "N", value_parser = normalization, allow_negative_numbers = true, default_value = "2")]
    pub(crate) normalize: Normalization,
    /// Take the texts of control tokens as plain text
    #[arg(long)]
    pub(crate) no_special: bool,
    /// How vectors are written; those of all texts are the rows of one array
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = VectorFormat::Text, conflicts_with = "json")]
    pub(crate) format: VectorFormat,
    /// Print one JSON object, as --format json
    #[arg(long)]
    pub(crate) json: bool,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct RerankArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
    /// What is asked
    #[arg(value_name = "QUERY")]
    pub(crate) query: String,
    /// The documents, each an argument [default: the lines of standard input]
    #[arg(value_name = "DOCUMENT")]
    pub(crate) documents: Vec<String>,
    /// Take the lines of a file as documents
    #[arg(short, long, value_name = "FILE", conflicts_with = "documents")]
    pub(crate) file: Option<PathBuf>,
    /// Show only so many, the best
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) top_n: Option<usize>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// The poolings by llama.cpp's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PoolingName {
    /// A vector for each token
    None,
    /// The mean of all
    Mean,
    /// That of the first token
    Cls,
    /// That of the last token
    Last,
    /// The scores of the model's classifier
    Rank,
}

impl From<PoolingName> for Pooling {
    fn from(name: PoolingName) -> Pooling {
        match name {
            PoolingName::None => Pooling::None,
            PoolingName::Mean => Pooling::Mean,
            PoolingName::Cls => Pooling::Cls,
            PoolingName::Last => Pooling::Last,
            PoolingName::Rank => Pooling::Rank,
        }
    }
}

/// How vectors are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum VectorFormat {
    /// A line for each vector
    Text,
    /// One object, as OpenAI's API has it
    Json,
    /// The values alone, little-endian f32
    Raw,
    /// A NumPy file
    Npy,
}
