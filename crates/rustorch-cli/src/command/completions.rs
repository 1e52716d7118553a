//! `completions`: scripts that teach a shell our options.

use crate::args::{Cli, CompletionsArgs};
use crate::failure::Failure;
use clap::CommandFactory;
use clap_complete::Shell;

const NAME: &str = "rustorch-cli";

pub(crate) fn run(args: &CompletionsArgs) -> Result<(), Failure> {
    let script = match args.shell {
        Shell::Bash => bash()?,
        shell => generate(shell, NAME)?,
    };
    crate::output::stream(&script)
}

fn generate(shell: Shell, name: &str) -> Result<String, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), name, &mut script);
    String::from_utf8(script).map_err(|_| Failure::Other("the completion script is not text".into()))
}

/// The script for bash. clap_complete's knows no commands of a program with a hyphen in its name (clap#6421), so it is made for a name without one, and
/// registered for ours; and it offers options that the help hides.
fn bash() -> Result<String, Failure> {
    const WITHOUT_HYPHEN: &str = "rustorch_cli";
    let script = generate(Shell::Bash, WITHOUT_HYPHEN)?;
    let command = Cli::command();
    let hidden = command.get_arguments().filter(|arg| arg.is_hide_set()).filter_map(|arg| arg.get_long());
    let hidden: Vec<String> = hidden.map(|name| format!("--{name}")).collect();
    let lines = script.lines().map(|line| {
        if let Some(registration) =
            line.strip_suffix(WITHOUT_HYPHEN).filter(|line| line.contains("complete -F"))
        {
            return format!("{registration}{NAME}");
        }
        match line.split_once("opts=\"") {
            Some((indent, words)) => {
                let shown = words.split(' ').filter(|word| !hidden.iter().any(|name| name == word));
                format!("{indent}opts=\"{}", shown.collect::<Vec<_>>().join(" "))
            }
            None => line.to_owned(),
        }
    });
    Ok(lines.map(|line| line + "\n").collect())
}
