//! llama.cpp's spellings of options.
//!
//! Those with two dashes are aliases or hidden options of ours. Those of several letters after one dash, which would be several options of one
//! letter here, are replaced before the command line is parsed.

use clap::{ArgAction, Args};
use std::ffi::OsString;

/// llama.cpp's names of several letters after one dash, and ours.
const NAMES: &[(&str, &str)] = &[
    ("-ngl", "--layers-on-device"),
    ("-hf", "--hf-repo"),
    ("-hfr", "--hf-repo"),
    ("-sys", "--system"),
    ("-cnv", "--conversation"),
    ("-no-cnv", "--raw"),
    ("--no-conversation", "--raw"),
    ("-fa", "--flash-attn"),
    ("-tb", "--threads-batch"),
    ("-ub", "--ubatch-size"),
    ("-sysf", "--system-file"),
    ("-st", "--single-turn"),
    ("-sp", "--special"),
    // Not known here: the error names them as llama.cpp's help does, and not as letters of other options.
    ("-bf", "--binary-file"),
    ("-cmoe", "--cpu-moe"),
    ("-ctk", "--cache-type-k"),
    ("-ctv", "--cache-type-v"),
    ("-dev", "--device"),
    ("-if", "--interactive-first"),
    ("-kvo", "--kv-offload"),
    ("-lv", "--verbosity"),
    ("-md", "--model-draft"),
    ("-mg", "--main-gpu"),
    ("-mli", "--multiline-input"),
    ("-mm", "--mmproj"),
    ("-mu", "--model-url"),
    ("-ncmoe", "--n-cpu-moe"),
    ("-nkvo", "--no-kv-offload"),
    ("-np", "--parallel"),
    ("-ot", "--override-tensor"),
    ("-rea", "--reasoning"),
    ("-sm", "--split-mode"),
    ("-ts", "--tensor-split"),
];

/// Options whose value may begin with a dash, so that it is left as it is.
const TEXTS: &[&str] =
    &["-p", "--prompt", "--system", "-sys", "--system-prompt", "--stop", "-r", "--reverse-prompt"];

/// The arguments with llama.cpp's names replaced by ours.
pub(crate) fn translated(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut translated: Vec<OsString> = Vec::new();
    let mut is_text = false;
    let mut rest = false;
    for argument in arguments {
        let name = NAMES.iter().find(|(theirs, _)| argument == **theirs).filter(|_| !is_text && !rest);
        is_text = !is_text && TEXTS.iter().any(|option| argument == **option);
        rest |= argument == *"--";
        translated.push(name.map_or(argument, |(_, ours)| ours.into()));
    }
    translated
}

/// Options of llama.cpp that change nothing here: accepted, so that its command lines work, and reported.
#[derive(Args, Debug)]
pub(crate) struct WithoutEffect {
    #[arg(long, hide = true)]
    mlock: bool,
    #[arg(long, hide = true)]
    jinja: bool,
    #[arg(long, hide = true)]
    conversation: bool,
    #[arg(long, hide = true)]
    no_warmup: bool,
    #[arg(long, hide = true)]
    no_display_prompt: bool,
    #[arg(long, hide = true)]
    no_perf: bool,
    #[arg(long, hide = true)]
    no_context_shift: bool,
    #[arg(long, hide = true)]
    single_turn: bool,
    #[arg(long, hide = true)]
    simple_io: bool,
    #[arg(long, hide = true, num_args = 0..=1, value_parser = ["on", "off", "auto"], default_missing_value = "on")]
    color: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1, value_parser = ["on", "off", "auto"], default_missing_value = "on")]
    flash_attn: Option<String>,
    #[arg(long, hide = true)]
    threads_batch: Option<usize>,
    #[arg(long, hide = true)]
    batch_size: Option<usize>,
    #[arg(long, hide = true)]
    ubatch_size: Option<usize>,
    #[arg(short = 'i', long, hide = true, action = ArgAction::SetTrue)]
    interactive: bool,
}

impl WithoutEffect {
    /// Those that were given, and why nothing comes of them.
    pub(crate) fn given(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let memory = "the system decides which pages of the file stay in memory";
        let all = [
            (self.mlock, "--mlock", memory),
            (self.jinja, "--jinja", "chat templates are always rendered as Jinja"),
            (self.conversation, "--conversation", "without a prompt, a chat opens on a terminal"),
            (self.no_warmup, "--no-warmup", "there is no warm-up"),
            (self.no_display_prompt, "--no-display-prompt", "the prompt is never shown"),
            (self.no_context_shift, "--no-context-shift", "a full context ends the answer without --shift"),
            (self.single_turn, "--single-turn", "-p is answered once"),
            (self.no_perf, "--no-perf", "the speed is shown on terminals and with -v"),
            (
                self.simple_io,
                "--simple-io",
                "where standard output is no terminal, lines are read as they are",
            ),
            (self.color.is_some(), "--color", "NO_COLOR and TERM=dumb turn colours off"),
            (self.flash_attn.is_some(), "--flash-attn", "attention never keeps a matrix of weights"),
            (self.threads_batch.is_some(), "--threads-batch", "--threads counts for prompts, too"),
            (self.batch_size.is_some(), "--batch-size", "batches follow the speed that is measured"),
            (self.ubatch_size.is_some(), "--ubatch-size", "batches follow the speed that is measured"),
            (self.interactive, "--interactive", "without a prompt, a chat opens on a terminal"),
        ];
        all.into_iter().filter(|(given, ..)| *given).map(|(_, name, why)| (name, why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_replaced_and_texts_are_not() {
        let translate = |line: &str| {
            let words = translated(line.split(' ').map(OsString::from));
            words.join(&OsString::from(" ")).into_string().unwrap()
        };
        assert_eq!(translate("-m x -ngl 99 -sys Hi"), "-m x --layers-on-device 99 --system Hi");
        assert_eq!(translate("-p -ngl -ngl 5"), "-p -ngl --layers-on-device 5");
        assert_eq!(translate("-sys -fa -fa"), "--system -fa --flash-attn");
        assert_eq!(translate("tokenize -- -ngl"), "tokenize -- -ngl");
        assert_eq!(translate("-s 5 -st -n 3 -np 2"), "-s 5 --single-turn -n 3 --parallel 2");
    }
}
