//! The options of the commands that run texts through a model.

use super::values::positive;
use super::{DeviceArgs, ModelArgs};
use clap::Args;
use std::path::PathBuf;

#[derive(Args, Debug)]
pub(crate) struct PerplexityArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
    #[command(flatten)]
    pub(crate) text: TextArgs,
    /// Compare the model with the one whose log probabilities --kl-divergence-base names, over the text of these
    #[arg(long, requires = "kl_divergence_base")]
    pub(crate) kl_divergence: bool,
    /// Log probabilities of all tokens: written, or read with --kl-divergence; the format is llama-perplexity's
    #[arg(long, value_name = "FILE", alias = "save-all-logits")]
    pub(crate) kl_divergence_base: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct ImatrixArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
    #[command(flatten)]
    pub(crate) text: TextArgs,
    /// The file to write
    #[arg(short, long, value_name = "FILE.gguf", default_value = "imatrix.gguf", alias = "output-file")]
    pub(crate) output: PathBuf,
    /// Statistics of other texts to add (may be repeated)
    #[arg(long, value_name = "FILE")]
    pub(crate) in_file: Vec<PathBuf>,
    /// Collect for output.weight, too
    #[arg(long)]
    pub(crate) process_output: bool,
}

/// A text, and how it is taken apart.
#[derive(Args, Debug)]
pub(crate) struct TextArgs {
    /// The text [default: standard input]
    #[arg(short = 'f', long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Tokens of a chunk [default: 512]
    #[arg(short, long, value_name = "N", value_parser = positive)]
    pub(crate) ctx_size: Option<usize>,
    /// The most chunks to run [default: all]
    #[arg(long, value_name = "N", value_parser = super::values::limit, allow_negative_numbers = true)]
    pub(crate) chunks: Option<usize>,
}
