//! `completions`: scripts that teach a shell our options.

use crate::args::{Cli, CompletionsArgs};
use crate::failure::Failure;
use clap::CommandFactory;
use std::io::Write;

pub(crate) fn run(args: &CompletionsArgs) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "rustorch-cli", &mut script);
    std::io::stdout().write_all(&script)?;
    Ok(())
}
