//! The command line.

mod backend;
mod commands;
mod embedding;
mod evaluate;
mod files;
mod llama_cpp;
mod model;
mod sampling;
mod values;

pub(crate) use commands::{
    ArchitecturesArgs, AssumedSystem, AttentionKind, BenchArgs, BenchCommand, BenchDevicesArgs,
    CompletionsArgs, CoremlArgs, CoremlCommand, CoremlProgramsArgs, DevicesArgs, ExplainArgs, ExportArgs,
    ExportFormat, GraphArgs, InspectArgs, PlanArgs, Precision, PullArgs, TokenizeArgs, Weights,
};
pub(crate) use embedding::{EmbedArgs, RerankArgs, VectorFormat};
pub(crate) use evaluate::{ImatrixArgs, PerplexityArgs, TextArgs};
pub(crate) use files::{ConvertArgs, MergeArgs, QuantizeArgs, QuantizeType, SplitArgs};
pub(crate) use llama_cpp::WithoutEffect;
pub(crate) use model::{DeviceArgs, ModelArgs};
pub(crate) use sampling::SamplingArgs;
pub(crate) use values::{Seed, candidates, limit, seed};

use crate::failure::{EXIT_CODES, Failure};
use crate::input;
use clap::builder::NonEmptyStringValueParser;
use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

// The groups of options in the help.
const PROMPT: &str = "Prompt";
const LENGTH: &str = "Length";
const SAMPLING: &str = "Sampling";
const OUTPUT: &str = "Output";

const EXAMPLES: &str = "\
Examples:
  rustorch-cli                                    let the embedded model write a scene
  rustorch-cli -m model.gguf                      open a chat
  rustorch-cli -hf ggml-org/gemma-3-1b-it-GGUF    the same with a model of Hugging Face's hub
  rustorch-cli -m model.gguf -p 'Why is it so?'   answer once
  git diff | rustorch-cli -m model.gguf -p 'Review this change.'
  rustorch-cli -m model.gguf --raw -p 'Once upon a time' -n 100 --temp 0";

/// Run GGUF language models on whatever hardware there is.
///
/// With a model file, a chat opens on a terminal; -p TEXT or text on standard input is answered once (both: the text after the
/// prompt). Without a model file, the small embedded model serves, and without a prompt it writes a scene.
#[derive(Parser, Debug)]
#[command(version, after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"), args_conflicts_with_subcommands = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

impl Cli {
    /// The command line of this process; what cannot be understood ends it with exit code 2.
    pub(crate) fn of_process() -> Cli {
        let mut cli = Cli::parse_from(llama_cpp::translated(std::env::args_os()));
        let file = cli.run.model_file.take();
        cli.run.model.model = cli.run.model.model.or(file);
        cli
    }
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Show what is in a model file
    Inspect(InspectArgs),
    /// List the architectures of models that run, and what they are made of
    Architectures(ArchitecturesArgs),
    /// Turn text into token ids, or ids into text
    Tokenize(TokenizeArgs),
    /// Make a model file of a folder of Hugging Face's transformers
    Convert(ConvertArgs),
    /// Turn texts into vectors
    Embed(EmbedArgs),
    /// Sort documents by how well they answer a query
    Rerank(RerankArgs),
    /// Make a model file whose matrices take fewer bits
    Quantize(QuantizeArgs),
    /// Write a model file in parts
    Split(SplitArgs),
    /// Write the parts of a model as one file
    Merge(MergeArgs),
    /// Measure how well a model predicts a text
    Perplexity(PerplexityArgs),
    /// Collect statistics of activations, for quantize --imatrix
    Imatrix(ImatrixArgs),
    /// Download a model from Hugging Face's hub
    Pull(PullArgs),
    /// Measure prompt processing and generation
    Bench(BenchArgs),
    /// List the devices found, and why others were not
    Devices(DevicesArgs),
    /// Show which device ran which operation, for how long and why
    Explain(ExplainArgs),
    /// Show the operations by which a model reads a prompt and decodes a token
    Graph(GraphArgs),
    /// Show which device is expected to run which operation of these graphs, and why not another
    Plan(PlanArgs),
    /// Write a model for other runtimes
    Export(ExportArgs),
    /// Show what was found out of programs for Core ML, or forget it
    Coreml(CoremlProgramsArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
}

/// Generate text, once or in a chat.
#[derive(Args, Debug)]
pub(crate) struct RunArgs {
    /// The model file, as with -m
    #[arg(value_name = "FILE.gguf", conflicts_with_all = ["model", "hf_repo"], value_parser = values::model_file)]
    model_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
    /// Answer this once instead of opening a chat, with text on standard input after it; `-` is that text alone
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true, help_heading = PROMPT)]
    pub(crate) prompt: Option<String>,
    /// Read the prompt from a file
    #[arg(short = 'f', long = "file", value_name = "FILE", conflicts_with = "prompt", help_heading = PROMPT)]
    pub(crate) prompt_file: Option<PathBuf>,
    /// The system prompt of the conversation
    #[arg(long, value_name = "TEXT", alias = "system-prompt", allow_hyphen_values = true, conflicts_with_all = ["raw", "ids"], help_heading = PROMPT)]
    system: Option<String>,
    /// Read the system prompt from a file
    #[arg(long, value_name = "FILE", alias = "system-prompt-file", conflicts_with_all = ["system", "raw", "ids"], help_heading = PROMPT)]
    system_file: Option<PathBuf>,
    /// Continue the prompt as it is, without the model's chat template
    #[arg(long, help_heading = PROMPT)]
    pub(crate) raw: bool,
    /// Take the prompt as token ids, and print ids
    #[arg(long, help_heading = PROMPT)]
    pub(crate) ids: bool,
    /// The most tokens to generate; -1 for no limit [default: no limit; 256 for the scene]
    #[arg(short = 'n', long, value_name = "N", aliases = ["max-tokens", "predict"], value_parser = values::limit, allow_negative_numbers = true, help_heading = LENGTH)]
    pub(crate) n_predict: Option<usize>,
    /// Tokens that the context holds; 0 for the model's own [default: the model's own, at most 4096]
    #[arg(short, long, value_name = "N", help_heading = LENGTH)]
    pub(crate) ctx_size: Option<usize>,
    /// End the generation at this text, which is not shown (may be repeated)
    #[arg(long, short_alias = 'r', alias = "reverse-prompt", value_name = "TEXT", allow_hyphen_values = true, value_parser = NonEmptyStringValueParser::new(), help_heading = LENGTH)]
    pub(crate) stop: Vec<String>,
    /// Go on when the context is full: a chat drops its oldest turns and keeps the system prompt, a single answer drops its own older half
    #[arg(long, alias = "context-shift", help_heading = LENGTH)]
    pub(crate) shift: bool,
    /// Go on when the model ends
    #[arg(long, help_heading = LENGTH)]
    pub(crate) ignore_eos: bool,
    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,
    /// Whether a model that can think before it answers does [default: as its chat template has it]
    #[arg(long, value_name = "WHEN", conflicts_with_all = ["raw", "ids"], help_heading = PROMPT)]
    pub(crate) think: Option<Switch>,
    /// Show control tokens as text
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) special: bool,
    /// Print one JSON object instead of a stream of text
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) json: bool,
    /// Tell on standard error what is going on; -vv and -vvv tell more (and RUST_LOG, by crate)
    #[arg(short, long, action = ArgAction::Count, global = true, help_heading = OUTPUT)]
    pub(crate) verbose: u8,
    #[command(flatten)]
    pub(crate) without_effect: WithoutEffect,
}

impl RunArgs {
    /// The system prompt that was given.
    pub(crate) fn system(&self) -> Result<Option<String>, Failure> {
        match &self.system_file {
            Some(path) => input::read_file(path).map(input::without_newline).map(Some),
            None => Ok(self.system.clone()),
        }
    }
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    On,
    Off,
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
