//! `completions`: scripts that teach a shell our options.

use crate::args::{Cli, CompletionsArgs};
use crate::failure::Failure;
use clap::{Arg, Command, CommandFactory};
use clap_complete::Shell;

const NAME: &str = "rustorch-cli";

pub(crate) fn run(args: &CompletionsArgs) -> Result<(), Failure> {
    let script = match args.shell {
        Shell::Bash => bash()?,
        Shell::Fish => fish()?,
        Shell::Zsh => zsh()?,
        shell => generate(shell, &mut shown(|_| true), NAME)?,
    };
    crate::output::stream(&script)
}

fn generate(shell: Shell, command: &mut Command, name: &str) -> Result<String, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, command, name, &mut script);
    String::from_utf8(script).map_err(|_| Failure::Other("the completion script is not text".into()))
}

/// The command line without the options that the help hides, which most scripts would offer; before commands, it has those arguments that `is_wanted` says.
fn shown(is_wanted: fn(&Arg) -> bool) -> Command {
    let command = Cli::command();
    let arguments = command.get_arguments().filter(|arg| !arg.is_hide_set() && is_wanted(arg));
    Command::new(NAME)
        .version(env!("CARGO_PKG_VERSION"))
        .args(arguments.cloned().collect::<Vec<_>>())
        .subcommands(command.get_subcommands().cloned().collect::<Vec<_>>())
}

/// The script for bash. clap_complete's knows no commands of a program with a hyphen in its name (clap#6421), so it is made for a name without one, and
/// registered for ours.
fn bash() -> Result<String, Failure> {
    const WITHOUT_HYPHEN: &str = "rustorch_cli";
    let script = generate(Shell::Bash, &mut shown(|_| true), WITHOUT_HYPHEN)?;
    let lines = script.lines().map(|line| match line.strip_suffix(WITHOUT_HYPHEN) {
        Some(registration) if line.contains("complete -F") => format!("{registration}{NAME}\n"),
        _ => format!("{line}\n"),
    });
    Ok(lines.collect())
}

/// The script for fish. clap_complete's offers no values of options before a command: it takes a line that ends with an option for a wrong one.
fn fish() -> Result<String, Failure> {
    const PARSE: &str = "    argparse -s (__fish_rustorch_cli_global_optspecs) -- $cmd 2>/dev/null\n";
    let without_last = format!("    or begin\n        set -e cmd[-1]\n    {PARSE}    end\n");
    Ok(generate(Shell::Fish, &mut shown(|_| true), NAME)?.replacen(
        PARSE,
        &format!("{PARSE}{without_last}"),
        1,
    ))
}

/// The script for zsh. clap_complete's takes a command for the model file where both may stand, so the file is offered with the commands.
fn zsh() -> Result<String, Failure> {
    const COMMANDS: &str = "\":: :_rustorch-cli_commands\"";
    const COMMANDS_AND_FILES: &str = "\":: :{_rustorch-cli_commands; _files -g '*.gguf'}\"";
    let script = generate(Shell::Zsh, &mut shown(|arg| !arg.is_positional()), NAME)?;
    Ok(script.replacen(COMMANDS, COMMANDS_AND_FILES, 1))
}
