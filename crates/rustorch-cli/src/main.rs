//! `rustorch-cli`: runs GGUF language models on whatever hardware there is.

mod args;
mod backend;
mod chat;
mod command;
mod failure;
mod input;
mod interrupt;
mod memory;
mod model;
mod output;
mod prompt;

use args::{Cli, Command};
use clap::Parser;
use failure::Failure;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn run(cli: Cli) -> Result<(), Failure> {
    match cli.command {
        None => command::generate::run(&cli.run),
        Some(Command::Inspect(args)) => command::inspect::run(&args),
        Some(Command::Tokenize(args)) => command::tokenize::run(&args),
        Some(Command::Bench(args)) => command::bench::run(&args),
        Some(Command::Devices(args)) => command::devices::run(&args),
        Some(Command::Explain(args)) => command::explain::run(&args),
        Some(Command::Completions(args)) => command::completions::run(&args),
    }
}
