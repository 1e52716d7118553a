//! The commands of the chat.

use std::path::PathBuf;

/// A line that begins with a slash.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Command {
    Help,
    /// Show or set the system prompt.
    System(Option<String>),
    Clear,
    Regenerate,
    Save(PathBuf),
    Load(PathBuf),
    Stats,
    /// Show all parameters or set one.
    Params(Option<(Param, String)>),
    Exit,
}

/// A parameter that can be changed while chatting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Param {
    Temp,
    TopK,
    TopP,
    MinP,
    RepeatPenalty,
    RepeatLastN,
    Seed,
    NPredict,
}

impl Param {
    pub(super) const ALL: &'static [Param] = &[
        Param::Temp,
        Param::TopK,
        Param::TopP,
        Param::MinP,
        Param::RepeatPenalty,
        Param::RepeatLastN,
        Param::Seed,
        Param::NPredict,
    ];

    /// The name, that of the option on the command line.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Param::Temp => "temp",
            Param::TopK => "top-k",
            Param::TopP => "top-p",
            Param::MinP => "min-p",
            Param::RepeatPenalty => "repeat-penalty",
            Param::RepeatLastN => "repeat-last-n",
            Param::Seed => "seed",
            Param::NPredict => "n-predict",
        }
    }
}

/// The names of the commands, as they are typed.
pub(super) const NAMES: [&str; 9] =
    ["/clear", "/exit", "/help", "/load", "/params", "/regenerate", "/save", "/stats", "/system"];

pub(super) const HELP: &str = "\
/help                  this list
/system [TEXT]         show or set the system prompt
/clear                 forget the conversation, keep the system prompt
/regenerate            answer the last message again
/save FILE             save the conversation (JSON)
/load FILE             continue a saved conversation
/stats                 device, context use and speed
/params [NAME VALUE]   show or change how tokens are chosen
/exit                  leave (also /quit, Ctrl-D)
//TEXT                 say something that begins with a slash";

impl Command {
    /// The command in a line; `None` if it is something to say.
    pub(super) fn parse(line: &str) -> Result<Option<Command>, String> {
        let Some(rest) = line.strip_prefix('/').filter(|rest| !rest.starts_with('/')) else {
            return Ok(None);
        };
        let (name, argument) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let argument = argument.trim();
        let none = |command: Command| match argument {
            "" => Ok(command),
            _ => Err(format!("/{name} takes no argument")),
        };
        let file = || match argument {
            "" => Err(format!("/{name} needs a file name")),
            _ => Ok(PathBuf::from(argument)),
        };
        Ok(Some(match name {
            "help" | "?" => none(Command::Help)?,
            "system" => Command::System((!argument.is_empty()).then(|| argument.to_owned())),
            "clear" => none(Command::Clear)?,
            "regenerate" => none(Command::Regenerate)?,
            "save" => Command::Save(file()?),
            "load" => Command::Load(file()?),
            "stats" => none(Command::Stats)?,
            "params" => Command::Params(params(argument)?),
            "exit" | "quit" => none(Command::Exit)?,
            _ => return Err(format!("there is no command /{name}; /help lists them")),
        }))
    }
}

fn params(argument: &str) -> Result<Option<(Param, String)>, String> {
    if argument.is_empty() {
        return Ok(None);
    }
    let (name, value) =
        argument.split_once(|c: char| c.is_whitespace() || c == '=').unwrap_or((argument, ""));
    let Some(&param) = Param::ALL.iter().find(|p| p.name() == name.replace('_', "-")) else {
        let names: Vec<_> = Param::ALL.iter().map(|p| p.name()).collect();
        return Err(format!("there is no parameter `{name}`; there are {}", names.join(", ")));
    };
    // `top-k = 5` as well as `top-k=5` and `top-k 5`.
    match value.trim().trim_start_matches('=').trim_start() {
        "" => Err(format!("/params {name} needs a value")),
        value => Ok(Some((param, value.to_owned()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_commands_or_things_to_say() {
        let parse = |line| Command::parse(line).unwrap();
        assert_eq!(parse("hello"), None);
        assert_eq!(parse("//etc is a folder"), None);
        assert_eq!(parse("/help"), Some(Command::Help));
        assert_eq!(parse("/system  Be brief. "), Some(Command::System(Some("Be brief.".into()))));
        assert_eq!(parse("/system"), Some(Command::System(None)));
        assert_eq!(parse("/save a b.json"), Some(Command::Save("a b.json".into())));
        assert_eq!(parse("/params top_k=5"), Some(Command::Params(Some((Param::TopK, "5".into())))));
        assert_eq!(parse("/params top-k = 5"), Some(Command::Params(Some((Param::TopK, "5".into())))));
        assert_eq!(parse("/params temp 0.5"), Some(Command::Params(Some((Param::Temp, "0.5".into())))));
        assert_eq!(parse("/quit"), Some(Command::Exit));
    }

    #[test]
    fn mistakes_are_explained() {
        for line in ["/nope", "/save", "/load ", "/params heat 1", "/params temp", "/clear all"] {
            assert!(Command::parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn the_help_explains_every_command() {
        for name in NAMES {
            assert!(HELP.lines().any(|line| line.starts_with(name)), "{name}");
            let unknown = Command::parse(name).err().is_some_and(|e| e.contains("there is no command"));
            assert!(!unknown, "{name}");
        }
    }
}
