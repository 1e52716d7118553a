//! Developer commands: `cargo xtask --help`.

mod oracle;
mod readme;
mod torch_coverage;
mod words;

use clap::{Parser, Subcommand};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use torch_coverage::{COMPILED, Coverage, PAGE};

/// Developer commands of the RusTorch repository.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// The scripts that make the expected numbers of tests
    #[command(subcommand)]
    Oracle(oracle::Oracle),
    /// Run the commands of README.md's transcripts, and write those anew that print something else
    Readme {
        /// Write nothing, and fail where one differs
        #[arg(long)]
        check: bool,
        /// A build of rustorch-cli to run [default: the release build, which is made]
        #[arg(long, value_name = "PATH")]
        program: Option<PathBuf>,
    },
    /// Compare PyTorch's list of operations with ours, and write docs/pytorch.md and the test that compiles its expressions
    TorchCoverage {
        /// Write nothing, and fail where the page differs
        #[arg(long)]
        check: bool,
    },
    /// Private words where the field has its own term
    Words,
    /// Everything that CI checks
    Ci,
}

fn main() -> ExitCode {
    let done = match Cli::parse().task {
        Task::Oracle(task) => oracle::run(&task),
        Task::Readme { check, program } => readme::run(check, program),
        Task::TorchCoverage { check } => torch_coverage(check),
        Task::Words => words::run(),
        Task::Ci => execute(Command::new(root().join(".ci/run"))),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            oracle::note(format_args!("error: {message}"));
            ExitCode::FAILURE
        }
    }
}

/// Writes the page of PyTorch's operations; with `check`, only compares it.
fn torch_coverage(check: bool) -> Result<(), String> {
    let coverage = Coverage::read(&root())?;
    for (name, text) in [(PAGE, coverage.page()), (COMPILED, torch_coverage::compiled())] {
        let path = root().join(name);
        if !check {
            std::fs::write(&path, text).map_err(|error| format!("{name}: {error}"))?;
        } else if std::fs::read_to_string(&path).map_err(|error| format!("{name}: {error}"))? != text {
            return Err(format!("{name} is out of date: cargo xtask torch-coverage"));
        }
    }
    let (all, covered) = coverage.counts();
    oracle::note(format_args!("{covered} of {all} operations, {} by their own names", coverage.ours.len()));
    Ok(())
}

/// The root of the repository.
fn root() -> PathBuf {
    // The manifest's folder is `xtask`, one below the root.
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new(".")).to_owned()
}

/// Runs a command in the root of the repository and waits for it.
fn execute(mut command: Command) -> Result<(), String> {
    let shown = format!("{command:?}");
    match command.current_dir(root()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{shown}: {status}")),
        Err(error) => Err(format!("{shown}: {error}")),
    }
}
