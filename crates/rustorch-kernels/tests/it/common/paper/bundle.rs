//! Many kernels in one program. Compilers take longer to begin than to translate a kernel.

use rustorch_kernels::{Hardware, Kernel, translate};
use std::collections::HashSet;

/// The kernels of a program have other names than by themselves.
pub struct Bundle<'a> {
    /// The kernels.
    pub kernels: &'a [Kernel],
    /// The program.
    pub source: String,
    /// Names of the entry points, in the order of the kernels.
    pub entries: Vec<String>,
}

/// A program of some kernels, in the language of a device.
///
/// # Errors
/// If one of them cannot be translated: which, and why.
pub fn bundle<'a>(kernels: &'a [Kernel], hardware: &Hardware) -> Result<Bundle<'a>, String> {
    let mut bundle = Bundle { kernels, source: String::new(), entries: Vec::new() };
    for (i, kernel) in kernels.iter().enumerate() {
        let text = translate(&kernel.wgsl(hardware), hardware.language)
            .map_err(|error| format!("{kernel:?}: {error}"))?;
        let own = defined(&text.source);
        let renamed = |name: &str| format!("{name}_k{i}");
        assert!(own.contains(text.entry.as_str()), "{} is not among {own:?}", text.entry);
        for word in words(&text.source) {
            match own.contains(word) {
                true => bundle.source.push_str(&renamed(word)),
                false => bundle.source.push_str(word),
            }
        }
        bundle.entries.push(renamed(&text.entry));
    }
    Ok(bundle)
}

/// The names that a source defines outside of functions and types: those that stand outside of all brackets, but for the
/// language's own.
fn defined(source: &str) -> HashSet<&str> {
    let mut depth = 0;
    let mut names = HashSet::new();
    for line in source.lines().filter(|line| !line.trim_start().starts_with('#')) {
        for word in words(line) {
            match word {
                "{" | "(" => depth += 1,
                "}" | ")" => depth -= 1,
                _ if depth == 0 && is_name(word) && !is_reserved(word) => {
                    names.insert(word);
                }
                _ => {}
            }
        }
    }
    names
}

/// Names, strings, and everything else character by character.
fn words(source: &str) -> impl Iterator<Item = &str> {
    let mut rest = source;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let named = |c: char| c.is_alphanumeric() || c == '_';
        let end = match first {
            '"' => rest[1..].find('"').map_or(rest.len(), |end| end + 2),
            // A number with what belongs to it, so that its suffix is no name.
            c if named(c) => rest.find(|c: char| !named(c)).unwrap_or(rest.len()),
            c => c.len_utf8(),
        };
        let (word, after) = rest.split_at(end);
        rest = after;
        Some(word)
    })
}

fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Words of the languages that stand outside of functions.
fn is_reserved(word: &str) -> bool {
    const WORDS: &[&str] = &[
        "typedef",
        "struct",
        "static",
        "inline",
        "const",
        "constexpr",
        "constant",
        "extern",
        "volatile",
        "unsigned",
        "signed",
        "void",
        "bool",
        "kernel",
        "operator",
        "template",
        "typename",
        "size_t",
        "alignas",
    ];
    let number = word.trim_end_matches(|c: char| c.is_ascii_digit());
    let number = number.strip_prefix('u').filter(|rest| !rest.is_empty()).unwrap_or(number);
    const NUMBERS: &[&str] = &["char", "short", "int", "long", "float", "double", "half"];
    word.starts_with("__") || WORDS.contains(&word) || NUMBERS.contains(&number)
}
