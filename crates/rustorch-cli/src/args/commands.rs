//! The options of the commands, a struct each.

use super::values::{interval, positive, threads};
use super::{DeviceArgs, ModelArgs};
use clap::{Args, Subcommand, ValueEnum};
use rustorch::Device;
use rustorch_hub::ModelName;
use std::path::PathBuf;

#[derive(Args, Debug)]
pub(crate) struct InspectArgs {
    /// The model file, of a split model any part, or a Core ML package [default: the embedded model]
    #[arg(value_name = "FILE.gguf", conflicts_with_all = ["model", "hf_repo"])]
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
pub(crate) struct GraphArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// Tokens of the prompt; with --list, --dot and --save the graph of such a prompt, instead of that of one token [default: 512]
    #[arg(short, long, value_name = "N", value_parser = positive)]
    pub(crate) prompt: Option<usize>,
    /// Tokens that the cache of keys and values holds
    #[arg(short, long, value_name = "N", default_value_t = 4096, value_parser = positive)]
    pub(crate) ctx_size: usize,
    /// Print every operation
    #[arg(long, conflicts_with_all = ["dot", "save", "json"])]
    pub(crate) list: bool,
    /// Write the graph for Graphviz (dot -Tsvg FILE)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["save", "json"])]
    pub(crate) dot: Option<PathBuf>,
    /// Save the graph with its weights as a program, for rustorch::files::load_program
    #[arg(long, value_name = "FILE.safetensors", conflicts_with = "json")]
    pub(crate) save: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct ExportArgs {
    #[command(subcommand)]
    pub(crate) format: ExportFormat,
}

#[derive(Subcommand, Debug)]
pub(crate) enum ExportFormat {
    /// A Core ML package that decodes tokens, with a cache of keys and values as its states (macOS 15, iOS 18)
    Coreml(CoremlArgs),
}

#[derive(Args, Debug)]
pub(crate) struct CoremlArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// The package to write, a folder that is not there yet
    #[arg(short, long, value_name = "FOLDER.mlpackage")]
    pub(crate) output: PathBuf,
    /// Tokens that the cache of keys and values holds
    #[arg(short, long, value_name = "N", visible_alias = "ctx-size", default_value_t = 4096, value_parser = positive)]
    pub(crate) context: usize,
    /// Functions besides `decode` that read so many tokens of a prompt at once: `prompt_64`, ..
    #[arg(short, long, value_name = "N,..", value_delimiter = ',', value_parser = positive)]
    pub(crate) prompt: Vec<usize>,
    /// What the program computes in, and its weights' dtype; the Neural Engine knows f16 alone
    #[arg(long, value_enum, default_value_t)]
    pub(crate) precision: Precision,
    /// What becomes of weights of block types (Q4_K, ..): blocks, where Core ML has a form of them, or f16
    #[arg(long, value_enum, default_value_t)]
    pub(crate) weights: Weights,
    /// What attention becomes: Core ML's operation for it, whose softmax is f16 in f16 programs, or matmuls and a softmax in f32; `auto` takes the former with `--precision f32`
    #[arg(long, value_enum, default_value_t)]
    pub(crate) attention: AttentionKind,
}

/// What attention becomes.
#[derive(ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum AttentionKind {
    #[default]
    Auto,
    Composed,
    Fused,
}

/// What becomes of weights of block types.
#[derive(ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Weights {
    #[default]
    Blocks,
    F16,
}

/// What a program computes in.
#[derive(ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Precision {
    #[default]
    F16,
    F32,
}

#[derive(Args, Debug)]
pub(crate) struct CoremlProgramsArgs {
    #[command(subcommand)]
    pub(crate) what: CoremlCommand,
}

#[derive(Subcommand, Debug)]
pub(crate) enum CoremlCommand {
    /// List the programs that were examined: whether they run, and why not
    List {
        /// Print one JSON array
        #[arg(long)]
        json: bool,
    },
    /// Forget programs, so that they are examined again
    Forget {
        /// Their keys, as `list` prints them
        #[arg(value_name = "KEY", required_unless_present = "all")]
        keys: Vec<String>,
        /// All of them
        #[arg(long, conflicts_with = "keys")]
        all: bool,
    },
}

#[derive(Args, Debug)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
    /// Tokens of the prompt [default: 512]
    #[arg(short, long, value_name = "N", value_parser = positive)]
    pub(crate) prompt: Option<usize>,
    /// Tokens that the cache of keys and values holds
    #[arg(short, long, value_name = "N", default_value_t = 4096, value_parser = positive)]
    pub(crate) ctx_size: usize,
    /// Print a row for each operation, instead of one for those of a kind
    #[arg(long, conflicts_with = "json")]
    pub(crate) list: bool,
    /// Plan for the devices of another system, whose times are assumed
    #[arg(long, value_enum, value_name = "SYSTEM")]
    pub(crate) assume: Option<AssumedSystem>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// A system whose devices a plan assumes.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AssumedSystem {
    /// A Mac with Apple's silicon: Core ML, Metal, and this machine's CPU
    Apple,
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
    /// The text; with --decode, the ids [default: standard input, its last newline included]
    #[arg(value_name = "TEXT")]
    pub(crate) text: Vec<String>,
    /// Read the text from standard input, also from a terminal
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
    /// Tokens that are in the context before each measurement, separated by commas
    #[arg(short = 'd', long, value_name = "N,..", value_delimiter = ',', default_value = "0")]
    pub(crate) n_depth: Vec<usize>,
    /// How often each measurement is repeated
    #[arg(short, long, value_name = "N", default_value_t = 5, value_parser = positive)]
    pub(crate) repetitions: usize,
    /// Then repeat each measurement once more, and show where its time goes, by operation
    #[arg(long)]
    pub(crate) profile: bool,
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
    /// Threads that compute on the CPU, at most as many as the system runs at once [default: one for each physical core]
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
pub(crate) struct PullArgs {
    /// The repository, and with :QUANT the type of the file [default: Q4_K_M, else Q8_0, else the first file]
    #[arg(value_name = "REPO[:QUANT]")]
    pub(crate) name: ModelName,
}

#[derive(Args, Debug)]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}
