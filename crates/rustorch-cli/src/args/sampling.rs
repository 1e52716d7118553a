//! How tokens are chosen.

use super::SAMPLING;
use super::values::{Seed, candidates, limit, seed};
use clap::Args;

/// How tokens are chosen; what is not given is the model file's (`general.sampling.*`), or else llama.cpp's default.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = SAMPLING)]
pub(crate) struct SamplingArgs {
    /// Randomness: 0 always takes the likeliest token [default: the file's, else 0.8]
    #[arg(long, value_name = "T", alias = "temperature", allow_negative_numbers = true)]
    pub(crate) temp: Option<f32>,
    /// Choose among the K likeliest tokens; 0 among all [default: the file's, else 40]
    #[arg(long, value_name = "K", value_parser = candidates, allow_negative_numbers = true)]
    pub(crate) top_k: Option<usize>,
    /// Choose among the likeliest tokens that together have this probability; 1 among all [default: the file's, else 0.95]
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    pub(crate) top_p: Option<f32>,
    /// Leave out tokens less likely than this fraction of the likeliest; 0 for none [default: the file's, else 0.05]
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    pub(crate) min_p: Option<f32>,
    /// Make recent tokens less likely by this factor; 1 for no change [default: the file's, else 1]
    #[arg(long, value_name = "F", allow_negative_numbers = true)]
    pub(crate) repeat_penalty: Option<f32>,
    /// Take this from the logits of recent tokens; 0 for no change [default: 0]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    pub(crate) presence_penalty: Option<f32>,
    /// Take this from the logits of recent tokens for each time that they occurred; 0 for no change [default: 0]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    pub(crate) frequency_penalty: Option<f32>,
    /// How many recent tokens the penalties look at; 0 for none, -1 for all [default: the file's, else 64]
    #[arg(long, value_name = "N", value_parser = limit, allow_negative_numbers = true)]
    pub(crate) repeat_last_n: Option<usize>,
    /// The seed of the random choices [default: another one each time]
    #[arg(short, long, value_name = "N", value_parser = seed, allow_negative_numbers = true)]
    pub(crate) seed: Option<Seed>,
}
