//! `rustorch-cli`: runs GGUF language models on whatever hardware there is.

mod args;
mod backend;
mod chat;
mod command;
mod device_report;
mod failure;
mod hub;
mod input;
mod interrupt;
mod log;
mod memory;
mod model;
mod output;
mod prompt;
mod sampling;
mod thinking;
mod without_effect;

use args::{Cli, Command};
use failure::Failure;
use std::process::ExitCode;

fn main() -> ExitCode {
    // Of a child process that examines a program for Core ML this is all.
    rustorch::coreml::child();
    keep_vulkan_quiet();
    // Consoles of Windows show lines that replace others, and colours, only where a program asks for it.
    anstyle_query::windows::enable_ansi_colors();
    let cli = Cli::of_process();
    log::install(cli.run.verbose);
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// Without a desktop session, a layer of Mesa that sorts devices for desktops complains on standard error that there is none.
/// Nothing is drawn here; it is told to stay away.
fn keep_vulkan_quiet() {
    if cfg!(target_os = "linux") && std::env::var_os("XDG_RUNTIME_DIR").is_none() {
        // SAFETY: the program has one thread yet.
        unsafe { std::env::set_var("NODEVICE_SELECT", "1") };
    }
}

fn run(cli: Cli) -> Result<(), Failure> {
    match cli.command {
        None => command::generate::run(&cli.run),
        Some(Command::Inspect(args)) => command::inspect::run(&args),
        Some(Command::Architectures(args)) => command::architectures::run(&args),
        Some(Command::Tokenize(args)) => command::tokenize::run(&args),
        Some(Command::Convert(args)) => command::convert::run(&args),
        Some(Command::Quantize(args)) => command::quantize::run(&args, cli.run.verbose),
        Some(Command::Split(args)) => command::split::split(&args),
        Some(Command::Merge(args)) => command::split::merge(&args),
        Some(Command::Perplexity(args)) => command::perplexity::run(&args),
        Some(Command::Imatrix(args)) => command::imatrix::run(&args),
        Some(Command::Embed(args)) => command::embed::run(&args),
        Some(Command::Rerank(args)) => command::rerank::run(&args),
        Some(Command::Pull(args)) => command::pull::run(&args),
        Some(Command::Bench(args)) => command::bench::run(&args),
        Some(Command::Devices(args)) => command::devices::run(&args),
        Some(Command::Graph(args)) => command::graph::run(&args),
        Some(Command::Plan(args)) => command::plan::run(&args),
        Some(Command::Export(args)) => command::export::run(&args),
        Some(Command::Coreml(args)) => command::coreml::run(&args),
        Some(Command::Explain(args)) => command::explain::run(&args),
        Some(Command::Completions(args)) => command::completions::run(&args),
    }
}
