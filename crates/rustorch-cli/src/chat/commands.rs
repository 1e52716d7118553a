//! The commands of the chat.

use std::path::PathBuf;

/// A line that begins with a slash.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Command {
    Help,
    /// Show the system prompt.
    ShowSystem,
    /// Set the system prompt, or take it away.
    System(Option<String>),
    Clear,
    /// Take the last turn back.
    Undo,
    Regenerate,
    /// Say what a file holds.
    Read(PathBuf),
    Save(PathBuf),
    Load(PathBuf),
    Stats,
    /// Show or set the size of the context.
    Context(Option<usize>),
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
    PresencePenalty,
    FrequencyPenalty,
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
        Param::PresencePenalty,
        Param::FrequencyPenalty,
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
            Param::PresencePenalty => "presence-penalty",
            Param::FrequencyPenalty => "frequency-penalty",
            Param::RepeatLastN => "repeat-last-n",
            Param::Seed => "seed",
            Param::NPredict => "n-predict",
        }
    }
}

/// The names of the commands, as they are typed.
pub(super) const NAMES: [&str; 12] = [
    "/clear",
    "/ctx",
    "/exit",
    "/help",
    "/load",
    "/params",
    "/read",
    "/regenerate",
    "/save",
    "/stats",
    "/system",
    "/undo",
];

pub(super) const HELP: &str = "\
/help                  this list
/system [TEXT]         show or set the system prompt; /system unset takes it away
/clear                 forget the conversation, keep the system prompt
/undo                  take the last question and its answer back
/regenerate            answer the last message again
/read FILE             say what is in a file
/save FILE             save the conversation (JSON)
/load FILE             continue a saved conversation
/stats                 device, context use and speed
/ctx [N]               show or set how many tokens the context holds; 0 for the model's own
/params [NAME VALUE]   show or change how tokens are chosen
/exit                  leave (also /quit, Ctrl-D)
//TEXT                 say something that begins with a slash
\"\"\"                    begin a message of several lines; another \"\"\" ends it";

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
            _ => Ok(path(argument)),
        };
        Ok(Some(match name {
            "help" | "?" => none(Command::Help)?,
            "system" => match argument {
                "" => Command::ShowSystem,
                "unset" => Command::System(None),
                text => Command::System(Some(text.to_owned())),
            },
            "clear" => none(Command::Clear)?,
            "undo" => none(Command::Undo)?,
            "read" => Command::Read(file()?),
            "regenerate" => none(Command::Regenerate)?,
            "save" => Command::Save(file()?),
            "load" => Command::Load(file()?),
            "stats" => none(Command::Stats)?,
            "ctx" => Command::Context(match argument {
                "" => None,
                _ => Some(argument.parse().map_err(|_| format!("`{argument}` is no number of tokens"))?),
            }),
            "params" => Command::Params(params(argument)?),
            "exit" | "quit" => none(Command::Exit)?,
            _ => return Err(format!("there is no command /{name}; /help lists them")),
        }))
    }
}

/// The path that a person types: as in a shell, `~` is the home folder, quotes stand around it, and a backslash before a space (on Windows,
/// where it divides folders, it is itself).
fn path(typed: &str) -> PathBuf {
    let quoted = ['"', '\''].iter().find_map(|&quote| typed.strip_prefix(quote)?.strip_suffix(quote));
    if let Some(path) = quoted {
        return PathBuf::from(path);
    }
    let unescaped = match cfg!(windows) {
        true => typed.to_owned(),
        false => {
            let mut is_escaped = false;
            let unescape = |c: &char| {
                is_escaped = *c == '\\' && !is_escaped;
                !is_escaped
            };
            typed.chars().filter(unescape).collect()
        }
    };
    let home = || std::env::home_dir().filter(|home| !home.as_os_str().is_empty());
    match (unescaped.strip_prefix('~'), home()) {
        (Some(""), Some(home)) => home,
        (Some(rest), Some(home)) if rest.starts_with(std::path::is_separator) => home.join(&rest[1..]),
        _ => PathBuf::from(unescaped),
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
        assert_eq!(parse("/system"), Some(Command::ShowSystem));
        assert_eq!(parse("/system unset"), Some(Command::System(None)));
        assert_eq!(parse("/ctx 0"), Some(Command::Context(Some(0))));
        assert_eq!(parse("/ctx"), Some(Command::Context(None)));
        assert_eq!(parse("/save a b.json"), Some(Command::Save("a b.json".into())));
        assert_eq!(parse("/params top_k=5"), Some(Command::Params(Some((Param::TopK, "5".into())))));
        assert_eq!(parse("/params top-k = 5"), Some(Command::Params(Some((Param::TopK, "5".into())))));
        assert_eq!(parse("/params temp 0.5"), Some(Command::Params(Some((Param::Temp, "0.5".into())))));
        assert_eq!(parse("/quit"), Some(Command::Exit));
    }

    #[test]
    fn mistakes_are_explained() {
        for line in [
            "/nope",
            "/ctx many",
            "/undo 2",
            "/read",
            "/save",
            "/load ",
            "/params heat 1",
            "/params temp",
            "/clear all",
        ] {
            assert!(Command::parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn paths_are_written_as_in_a_shell() {
        assert_eq!(path("a b.json"), PathBuf::from("a b.json"));
        assert_eq!(path("\"a b.json\""), PathBuf::from("a b.json"));
        assert_eq!(path("'~/a'"), PathBuf::from("~/a"));
        assert_eq!(path("it's"), PathBuf::from("it's"));
        if cfg!(unix) {
            assert_eq!(path(r"a\ b\\c"), PathBuf::from(r"a b\c"));
        }
        let home = std::env::home_dir().unwrap();
        assert_eq!(path("~"), home);
        assert_eq!(path("~/talk.json"), home.join("talk.json"));
        assert_eq!(path("~talk"), PathBuf::from("~talk"));
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
