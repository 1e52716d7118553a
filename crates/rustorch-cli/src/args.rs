//! The command line.

use crate::failure::EXIT_CODES;
use clap::builder::{NonEmptyStringValueParser, TypedValueParser};
use clap::{ArgAction, Args, Parser, Subcommand};
use rustorch::{Device, DeviceType, Numerics};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

// The groups of options in the help.
const PROMPT: &str = "Prompt";
const LENGTH: &str = "Length";
const SAMPLING: &str = "Sampling";
const OUTPUT: &str = "Output";

const EXAMPLES: &str = "\
Examples:
  rustorch-cli                                    let the embedded model write a scene
  rustorch-cli -m model.gguf                      open a chat
  rustorch-cli -m model.gguf -p 'Why is it so?'   answer once
  git diff | rustorch-cli -m model.gguf --system 'Review this change.'
  rustorch-cli -m model.gguf --raw -p 'Once upon a time' -n 100 --temp 0";

/// Run GGUF language models on whatever hardware there is.
///
/// With -m FILE, a chat opens on a terminal; -p TEXT or text on standard input is answered once. Without a model file, the
/// small embedded model serves, and without a prompt it writes a scene.
#[derive(Parser, Debug)]
#[command(version, after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"), args_conflicts_with_subcommands = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Show what is in a model file
    Inspect(InspectArgs),
    /// List the architectures of models that run, and what they are made of
    Architectures(ArchitecturesArgs),
    /// Turn text into token ids, or ids into text
    Tokenize(TokenizeArgs),
    /// Measure prompt processing and generation
    Bench(BenchArgs),
    /// List the devices found, and why others were not
    Devices(DevicesArgs),
    /// Show which device ran which operation, for how long and why
    Explain(ExplainArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
}

/// Generate text, once or in a chat.
#[derive(Args, Debug)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
    /// Answer this once instead of opening a chat; `-` reads it from standard input
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true, help_heading = PROMPT)]
    pub(crate) prompt: Option<String>,
    /// The system prompt of the conversation
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, conflicts_with_all = ["raw", "ids"], help_heading = PROMPT)]
    pub(crate) system: Option<String>,
    /// Continue the prompt as it is, without the model's chat template
    #[arg(long, help_heading = PROMPT)]
    pub(crate) raw: bool,
    /// Take the prompt as token ids, and print ids
    #[arg(long, help_heading = PROMPT)]
    pub(crate) ids: bool,
    /// The most tokens to generate [default: until the model ends or the context is full; 256 for the scene]
    #[arg(short = 'n', long, value_name = "N", help_heading = LENGTH)]
    pub(crate) n_predict: Option<usize>,
    /// Tokens that the context holds [default: the model's own, at most 4096]
    #[arg(short, long, value_name = "N", value_parser = positive, help_heading = LENGTH)]
    pub(crate) ctx_size: Option<usize>,
    /// End the generation at this text, which is not shown (may be repeated)
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, value_parser = NonEmptyStringValueParser::new(), help_heading = LENGTH)]
    pub(crate) stop: Vec<String>,
    /// Forget the older half of a full context and go on, instead of ending there
    #[arg(long, help_heading = LENGTH)]
    pub(crate) shift: bool,
    /// Go on when the model ends
    #[arg(long, help_heading = LENGTH)]
    pub(crate) ignore_eos: bool,
    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,
    /// Show control tokens as text
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) special: bool,
    /// Print one JSON object instead of a stream of text
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) json: bool,
    /// Tell on standard error what is going on; -vv and -vvv tell more (and RUST_LOG, by crate)
    #[arg(short, long, action = ArgAction::Count, global = true, help_heading = OUTPUT)]
    pub(crate) verbose: u8,
}

/// Which model.
#[derive(Args, Debug)]
pub(crate) struct ModelArgs {
    /// The model file; of a split model, any part [default: the embedded model]
    #[arg(short, long, value_name = "FILE.gguf")]
    pub(crate) model: Option<PathBuf>,
    /// Read the whole file into memory instead of mapping it: where it may change while the program runs
    #[arg(long)]
    pub(crate) no_mmap: bool,
}

/// Where it runs.
#[derive(Args, Debug)]
pub(crate) struct DeviceArgs {
    /// The device to compute on: a name, with an index where there are several (cuda:1)
    #[arg(short, long, value_name = "DEVICE", default_value = "auto", value_parser = backend())]
    pub(crate) backend: BackendName,
    /// Threads that compute on the CPU [default: one for each core]
    #[arg(short, long, value_name = "N", value_parser = threads)]
    pub(crate) threads: Option<usize>,
    /// Layers whose weights go to the device, from the first; the rest stays on the CPU [default: all that fit]
    #[arg(long, value_name = "N")]
    pub(crate) layers_on_device: Option<usize>,
    /// Memory of the device for weights, such as 6G or 500M [default: all of it]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) device_memory: Option<u64>,
}

/// How tokens are chosen.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = SAMPLING)]
pub(crate) struct SamplingArgs {
    /// Randomness: 0 always takes the likeliest token
    #[arg(long, value_name = "T", default_value_t = 0.8, allow_negative_numbers = true)]
    pub(crate) temp: f32,
    /// Choose among the K likeliest tokens; 0 among all
    #[arg(long, value_name = "K", default_value_t = 40)]
    pub(crate) top_k: usize,
    /// Choose among the likeliest tokens that together have this probability; 1 among all
    #[arg(long, value_name = "P", default_value_t = 0.95, allow_negative_numbers = true)]
    pub(crate) top_p: f32,
    /// Leave out tokens less likely than this fraction of the likeliest; 0 for none
    #[arg(long, value_name = "P", default_value_t = 0.05, allow_negative_numbers = true)]
    pub(crate) min_p: f32,
    /// Make recent tokens less likely by this factor; 1 for no change
    #[arg(long, value_name = "F", default_value_t = 1.0, allow_negative_numbers = true)]
    pub(crate) repeat_penalty: f32,
    /// How many recent tokens the penalty looks at; 0 for none
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub(crate) repeat_last_n: usize,
    /// The seed of the random choices [default: another one each time]
    #[arg(short, long, value_name = "N")]
    pub(crate) seed: Option<u64>,
}

#[derive(Args, Debug)]
pub(crate) struct InspectArgs {
    /// The model file; of a split model, any part [default: the embedded model]
    #[arg(value_name = "FILE.gguf", conflicts_with = "model")]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// List every tensor
    #[arg(long)]
    pub(crate) tensors: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct ArchitecturesArgs {
    /// Print one JSON array
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct TokenizeArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// The text; with --decode, the ids
    #[arg(value_name = "TEXT", required_unless_present = "stdin")]
    pub(crate) text: Vec<String>,
    /// Read the text from standard input, its last newline included
    #[arg(long, conflicts_with = "text")]
    pub(crate) stdin: bool,
    /// Print only the ids, as a list
    #[arg(long)]
    pub(crate) ids: bool,
    /// Leave out the beginning-of-text token
    #[arg(long)]
    pub(crate) no_bos: bool,
    /// Take the texts of control tokens as plain text; with --decode, leave control tokens out
    #[arg(long)]
    pub(crate) no_special: bool,
    /// Turn ids into text
    #[arg(long, conflicts_with_all = ["ids", "no_bos"])]
    pub(crate) decode: bool,
}

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    pub(crate) what: Option<BenchCommand>,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
    /// Prompt lengths to process, separated by commas; 0 leaves prompts out
    #[arg(short = 'p', long, value_name = "N,..", value_delimiter = ',', default_value = "512")]
    pub(crate) n_prompt: Vec<usize>,
    /// Token counts to generate, separated by commas; 0 leaves generation out
    #[arg(short = 'n', long, value_name = "N,..", value_delimiter = ',', default_value = "128")]
    pub(crate) n_gen: Vec<usize>,
    /// How often each measurement is repeated
    #[arg(short, long, value_name = "N", default_value_t = 5, value_parser = positive)]
    pub(crate) repetitions: usize,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Subcommand, Debug)]
pub(crate) enum BenchCommand {
    /// Measure what each device can do, without a model: operations and transfers
    Devices(BenchDevicesArgs),
}

#[derive(Args, Debug)]
pub(crate) struct BenchDevicesArgs {
    /// Only these devices, separated by commas [default: all that are found]
    #[arg(short, long, value_name = "DEVICE,..", value_delimiter = ',')]
    pub(crate) backend: Vec<Device>,
    /// Threads that compute on the CPU [default: one for each core]
    #[arg(short, long, value_name = "N", value_parser = threads)]
    pub(crate) threads: Option<usize>,
    /// Milliseconds for each measurement
    #[arg(long, value_name = "MS", default_value_t = 250, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub(crate) time: u64,
    /// Draw a chart to this file
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) chart: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct DevicesArgs {
    /// Print JSON: a list, or with --watch an object a line
    #[arg(long)]
    pub(crate) json: bool,
    /// Show how busy the devices are, again and again until Ctrl-C
    #[arg(short, long)]
    pub(crate) watch: bool,
    /// Measure every device anew, instead of showing what an earlier measurement found
    #[arg(long, conflicts_with = "watch")]
    pub(crate) measure: bool,
    /// Seconds between two readings
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = interval, requires = "watch")]
    pub(crate) interval: f64,
    /// End after so many readings
    #[arg(long, value_name = "N", value_parser = positive, requires = "watch")]
    pub(crate) count: Option<usize>,
}

#[derive(Args, Debug)]
pub(crate) struct ExplainArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
    /// The prompt
    #[arg(short, long, value_name = "TEXT", default_value = "Once upon a time")]
    pub(crate) prompt: String,
    /// Tokens to generate after the prompt
    #[arg(short = 'n', long, value_name = "N", default_value_t = 8)]
    pub(crate) n_predict: usize,
    /// Show every operation instead of a summary; with --json, besides it
    #[arg(long)]
    pub(crate) all: bool,
    /// Write a trace of everything to this file, for ui.perfetto.dev or chrome://tracing
    #[arg(long, value_name = "FILE.json")]
    pub(crate) trace: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("must be 1 at least".into()),
        Ok(n) => Ok(n),
        Err(e) => Err(format!("{e}")),
    }
}

/// A time between two readings.
fn interval(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.01..=86_400.0).contains(&seconds) => Ok(seconds),
        Ok(_) => Err("must be from 0.01 to 86400".into()),
        Err(e) => Err(format!("{e}")),
    }
}

/// Bytes, with the units K, M, G and T of 1024.
fn size(text: &str) -> Result<u64, String> {
    let text = text.trim().trim_end_matches(['b', 'B']).trim_end_matches('i');
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return Err("is a number with K, M, G or T behind it, such as 6G".into()),
    };
    let value: f64 =
        digits.parse().map_err(|_| "is a number with K, M, G or T behind it, such as 6G".to_owned())?;
    match value {
        x if x >= 0.0 && x.is_finite() => Ok((x * (1u64 << unit) as f64) as u64),
        _ => Err("must not be negative".into()),
    }
}

/// A number of threads that systems can start; more than there are cores gains nothing anyway.
fn threads(text: &str) -> Result<usize, String> {
    match positive(text)? {
        n @ ..=1024 => Ok(n),
        _ => Err("must be 1024 at most".into()),
    }
}

/// What `--backend` names: a device or a policy, and for `hybrid-f32` the numerics of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BackendName {
    pub(crate) device: DeviceType,
    pub(crate) numerics: Numerics,
}

/// `hybrid` with [`Numerics::F32`].
const HYBRID_F32: &str = "hybrid-f32";

impl FromStr for BackendName {
    type Err = rustorch::Error;

    fn from_str(text: &str) -> Result<BackendName, rustorch::Error> {
        if [HYBRID_F32, "hybrid_f32"].iter().any(|name| text.trim().eq_ignore_ascii_case(name)) {
            return Ok(BackendName { device: DeviceType::Hybrid, numerics: Numerics::F32 });
        }
        Ok(BackendName { device: text.parse()?, numerics: Numerics::Ggml })
    }
}

impl fmt::Display for BackendName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.numerics {
            Numerics::Ggml => self.device.fmt(f),
            Numerics::F32 => f.pad(HYBRID_F32),
        }
    }
}

fn backend() -> impl TypedValueParser<Value = BackendName> {
    #[derive(Clone)]
    struct Parser;
    impl TypedValueParser for Parser {
        type Value = BackendName;

        fn parse_ref(
            &self,
            cmd: &clap::Command,
            arg: Option<&clap::Arg>,
            value: &std::ffi::OsStr,
        ) -> Result<BackendName, clap::Error> {
            let parse = |text: &str| text.parse::<BackendName>().map_err(|e| e.to_string());
            clap::builder::StringValueParser::new()
                .try_map(move |text| parse(&text))
                .parse_ref(cmd, arg, value)
        }

        fn possible_values(&self) -> Option<Box<dyn Iterator<Item = clap::builder::PossibleValue> + '_>> {
            let names = DeviceType::names().into_iter().chain([HYBRID_F32]);
            Some(Box::new(names.map(clap::builder::PossibleValue::new)))
        }
    }
    Parser
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
