//! `completions`: what shells make of the scripts.

use crate::common::{fail, succeed};
use rustorch_testkit::{Requirement, skip};
use std::path::Path;
use std::process::Command;

#[test]
fn completions_know_commands_and_options() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = succeed(&["completions", shell]);
        for word in ["rustorch-cli", "tokenize", "backend"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
        // Completing values is not in every shell's script.
        assert!(script.contains("dx12") || matches!(shell, "elvish" | "powershell"), "{shell}");
    }
    fail(&["completions", "csh"], 2, &["bash", "zsh", "fish"]);
}

/// The shells that are there read their scripts without complaint.
#[test]
fn shells_accept_the_completions() {
    for shell in ["bash", "zsh", "fish"] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("script");
        std::fs::write(&path, succeed(&["completions", shell])).unwrap();
        match Command::new(shell).arg("-n").arg(&path).output() {
            Ok(output) => assert!(output.status.success() && output.stderr.is_empty(), "{shell}: {output:?}"),
            Err(error) => skip(Requirement::Shells, format!("{shell}: {error}")),
        }
    }
}

/// What bash offers for the last of these words, by the script's own function, which it calls like this.
fn offered_by_bash(script: &str, words: &[&str]) -> Vec<String> {
    let call = "source \"$0\"; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); \
                _rustorch_cli \"$1\" \"${COMP_WORDS[COMP_CWORD]}\" \"${COMP_WORDS[COMP_CWORD - 1]}\"; \
                printf '%s\\n' \"${COMPREPLY[@]}\"";
    let output = Command::new("bash").args(["-c", call, script]).args(words).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_options_and_values() {
    if let Err(error) = Command::new("bash").arg("--version").output() {
        return skip(Requirement::Shells, format!("bash: {error}"));
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("script");
    let script = succeed(&["completions", "bash"]);
    assert!(
        script
            .lines()
            .filter(|line| line.contains("complete -F"))
            .all(|line| line.ends_with(" rustorch-cli"))
    );
    std::fs::write(&path, script).unwrap();
    let offered =
        |words: &[&str]| offered_by_bash(path.to_str().unwrap(), &[&["rustorch-cli"], words].concat());
    assert_eq!(offered(&["ins"]), ["inspect"]);
    assert_eq!(offered(&["inspect", "--te"]), ["--tensors"]);
    assert_eq!(offered(&["tokenize", "--no-"]), ["--no-mmap", "--no-bos", "--no-special"]);
    assert_eq!(offered(&["bench", "dev"]), ["devices"]);
    assert_eq!(offered(&["bench", "devices", "--ch"]), ["--chart"]);
    assert_eq!(offered(&["-m", "a.gguf", "--think", "o"]), ["on", "off"]);
    assert_eq!(offered(&["-b", "hybrid-"]), ["hybrid-f32"]);
    assert_eq!(offered(&["completions", "ba"]), ["bash"]);
    assert_eq!(offered(&["help", "ben"]), ["bench"]);
    // What the help hides is not offered.
    assert_eq!(offered(&["--mlo"]), [""]);
}

/// What fish offers for the end of this line, by itself.
fn offered_by_fish(script: &str, line: &str) -> Vec<String> {
    let call = "source $argv[1]; complete -C $argv[2]";
    // Where there are no files to offer.
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new("fish");
    command.current_dir(&dir).env("HOME", dir.path()).args(["--no-config", "-c", call, script, line]);
    let output = command.output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let lines = String::from_utf8(output.stdout).unwrap();
    lines.lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect()
}

#[test]
fn fish_completes_commands_options_and_values() {
    if let Err(error) = Command::new("fish").arg("--version").output() {
        return skip(Requirement::Shells, format!("fish: {error}"));
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("script");
    std::fs::write(&path, succeed(&["completions", "fish"])).unwrap();
    let offered = |line: &str| offered_by_fish(path.to_str().unwrap(), &format!("rustorch-cli {line}"));
    assert_eq!(offered("ins"), ["inspect"]);
    assert_eq!(offered("inspect --te"), ["--tensors"]);
    assert_eq!(offered("tokenize --no-"), ["--no-bos", "--no-mmap", "--no-special"]);
    assert_eq!(offered("bench dev"), ["devices"]);
    assert_eq!(offered("bench devices --ch"), ["--chart"]);
    assert_eq!(offered("-m a.gguf --think o"), ["off", "on"]);
    assert_eq!(offered("-b hybrid-"), ["hybrid-f32"]);
    assert_eq!(offered("--mlo"), [""; 0]);
}

/// What zsh offers for the end of this line, typed into one that runs on a pseudoterminal of its own.
fn offered_by_zsh(script: &Path, line: &str) -> Vec<String> {
    let capture = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/completions.zsh");
    let mut command = Command::new("zsh");
    command.current_dir(script.parent().unwrap()).args(["-f", capture]).arg(script).arg(line);
    let output = command.output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let shown = String::from_utf8(output.stdout).unwrap();
    let mut offered: Vec<String> = shown
        .lines()
        .filter_map(|line| Some(line.trim().strip_prefix('<')?.strip_suffix('>')?.to_owned()))
        .collect();
    offered.sort();
    offered
}

#[test]
fn zsh_completes_commands_options_and_values() {
    if let Err(error) = Command::new("zsh").arg("--version").output() {
        return skip(Requirement::Shells, format!("zsh: {error}"));
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("script");
    std::fs::write(&path, succeed(&["completions", "zsh"])).unwrap();
    std::fs::write(dir.path().join("inner.gguf"), "").unwrap();
    let offered = |line: &str| offered_by_zsh(&path, &format!("rustorch-cli {line}"));
    assert_eq!(offered("ins"), ["inspect"]);
    assert_eq!(offered("in"), ["inner.gguf", "inspect"]);
    assert_eq!(offered("inspect --te"), ["--tensors"]);
    assert_eq!(offered("tokenize --no-"), ["--no-bos", "--no-mmap", "--no-special"]);
    assert_eq!(offered("bench dev"), ["devices"]);
    assert_eq!(offered("-m a.gguf --think o"), ["off", "on"]);
    assert_eq!(offered("-b hybrid-"), ["hybrid-f32"]);
    assert_eq!(offered("completions ba"), ["bash"]);
    assert_eq!(offered("--mlo"), [""; 0]);
}
