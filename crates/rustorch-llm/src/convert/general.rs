//! `general.*`: what a model is called, and how it likes to be sampled.

use super::ConvertError;
use regex::Regex;
use rustorch_formats::gguf::Metadata;
use serde_json::Value;

/// `generation_config.json` as `general.sampling.*`.
pub(super) fn sampling(generation: &Value, metadata: &mut Metadata) -> Result<(), ConvertError> {
    let float =
        |names: &[&str]| names.iter().find_map(|name| generation.get(name)?.as_f64()).map(|x| x as f32);
    let count = |name: &str| generation.get(name)?.as_i64().and_then(|n| i32::try_from(n).ok());
    if let Some(top_k) = count("top_k") {
        metadata.set("general.sampling.top_k", top_k)?;
    }
    for (key, names) in [("top_p", &["top_p"][..]), ("min_p", &["min_p"]), ("temp", &["temperature"])] {
        if let Some(value) = float(names) {
            metadata.set(&format!("general.sampling.{key}"), value)?;
        }
    }
    if let Some(last) = count("penalty_last_n") {
        metadata.set("general.sampling.penalty_last_n", last)?;
    }
    if let Some(repeat) = float(&["penalty_repeat", "repetition_penalty"]) {
        metadata.set("general.sampling.penalty_repeat", repeat)?;
    }
    Ok(())
}

/// The model's name and its parts: those of the first of `ids` that tells each, `organization/name` or `name`.
pub(super) fn names<'a>(
    name: Option<&str>,
    ids: impl Iterator<Item = &'a str>,
    parameters: usize,
    metadata: &mut Metadata,
) -> Result<(), ConvertError> {
    let mut found = Parts::default();
    for id in ids {
        let parts = Parts::of(id, parameters);
        for (found, part) in found.all_mut().into_iter().zip(parts.all()) {
            if found.is_none() {
                found.clone_from(part);
            }
        }
    }
    let Parts { full, organization, basename, finetune, version, size_label } = found;
    let full = name.map(str::to_owned).or(full.map(|name| title(&name)));
    for (key, value) in [
        ("name", full),
        ("version", version),
        ("organization", organization.map(|name| title(&name))),
        ("finetune", finetune),
        ("basename", basename),
        ("size_label", Some(size_label.unwrap_or_else(|| rounded(parameters)))),
    ] {
        if let Some(value) = value {
            metadata.set(&format!("general.{key}"), value)?;
        }
    }
    Ok(())
}

/// A number of parameters with two digits at least.
fn rounded(parameters: usize) -> String {
    let n = parameters as f64;
    let (scaled, unit) = match n {
        _ if n > 1e12 => (n * 1e-12, "T"),
        _ if n > 1e9 => (n * 1e-9, "B"),
        _ if n > 1e6 => (n * 1e-6, "M"),
        _ => (n * 1e-3, "K"),
    };
    let whole = format!("{scaled:.0}");
    let digits = 2usize.saturating_sub(whole.trim_start_matches('0').len());
    format!("{scaled:.digits$}{unit}")
}

/// Words with a capital, but for numbers, versions and what has capitals already.
fn title(name: &str) -> String {
    let words = name.trim().replace('-', " ");
    let word = |word: &str| {
        let is_lower = word.chars().any(char::is_lowercase) && !word.chars().any(char::is_uppercase);
        let is_version = word.strip_prefix('v').is_some_and(|rest| {
            rest.starts_with(|c: char| c.is_ascii_digit())
                && rest.chars().all(|c| c.is_ascii_digit() || c == '.')
        });
        if !is_lower || is_version || word.starts_with(|c: char| c.is_ascii_digit()) {
            return word.to_owned();
        }
        let mut begins = true;
        let letter = |c: char| -> Vec<char> {
            let cased = if begins { c.to_uppercase().collect() } else { vec![c] };
            begins = !c.is_alphabetic();
            cased
        };
        word.chars().flat_map(letter).collect()
    };
    words.split_whitespace().map(word).collect::<Vec<String>>().join(" ")
}

/// The parts of a model's id.
#[derive(Debug, Default, PartialEq)]
struct Parts {
    full: Option<String>,
    organization: Option<String>,
    basename: Option<String>,
    finetune: Option<String>,
    version: Option<String>,
    size_label: Option<String>,
}

/// What a part between dashes is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Basename,
    SizeLabel,
    Finetune,
    Version,
    Type,
}

impl Parts {
    fn all(&self) -> [&Option<String>; 6] {
        let Parts { full, organization, basename, finetune, version, size_label } = self;
        [full, organization, basename, finetune, version, size_label]
    }

    fn all_mut(&mut self) -> [&mut Option<String>; 6] {
        let Parts { full, organization, basename, finetune, version, size_label } = self;
        [full, organization, basename, finetune, version, size_label]
    }

    /// The parts of an id of a model with so many parameters, as gguf-py's `get_model_id_components` tells them.
    fn of(id: &str, parameters: usize) -> Parts {
        if id.contains(' ') {
            return Parts { full: Some(id.to_owned()), ..Parts::default() };
        }
        let (organization, full) = match id.split_once('/') {
            Some((organization, full)) => (Some(organization).filter(|name| !name.starts_with('.')), full),
            None => (None, id),
        };
        let mut parts: Vec<(String, Vec<Kind>)> = full
            .split('-')
            .filter(|part| !part.is_empty())
            .enumerate()
            .map(|(i, part)| annotated(part, i == 0, parameters))
            .collect();
        // Sizes in words are none where one is a number.
        let is_size = |kinds: &[Kind]| kinds.contains(&Kind::SizeLabel);
        let has_digit = |part: &str| part.contains(|c: char| c.is_ascii_digit());
        if parts.iter().any(|(part, kinds)| is_size(kinds) && has_digit(part)) {
            for (_, kinds) in parts.iter_mut().filter(|(part, _)| part.chars().all(char::is_alphabetic)) {
                kinds.retain(|kind| *kind != Kind::SizeLabel);
            }
        }
        let mut at_start = true;
        for (part, kinds) in &mut parts {
            let begins = kinds.is_empty() && part.starts_with(char::is_alphabetic);
            if at_start && (begins || kinds.contains(&Kind::Version)) {
                kinds.push(Kind::Basename);
                continue;
            }
            at_start = false;
            if kinds.is_empty() {
                kinds.push(Kind::Finetune);
            }
        }
        // A version at the end is not part of the name.
        for (_, kinds) in parts.iter_mut().rev() {
            if !(kinds.contains(&Kind::Basename) && kinds.len() > 1) {
                break;
            }
            kinds.retain(|kind| *kind != Kind::Basename);
        }
        let joined = |keep: &dyn Fn(&[Kind]) -> bool| {
            let of: Vec<&str> =
                parts.iter().filter(|(_, kinds)| keep(kinds)).map(|(part, _)| part.as_str()).collect();
            (!of.is_empty()).then(|| of.join("-"))
        };
        let mut sizes: Vec<&str> = Vec::new();
        for (part, _) in parts.iter().filter(|(_, kinds)| is_size(kinds)) {
            if !sizes.contains(&part.as_str()) {
                sizes.push(part);
            }
        }
        let size_label = (!sizes.is_empty()).then(|| sizes.join("-"));
        let finetune = joined(&|kinds| kinds.contains(&Kind::Finetune));
        let version = joined(&|kinds| kinds.contains(&Kind::Version) && !kinds.contains(&Kind::Basename));
        let basename = joined(&|kinds| kinds.contains(&Kind::Basename));
        // Where nothing but a name is told, it may be anything.
        let basename = basename.filter(|_| size_label.is_some() || finetune.is_some() || version.is_some());
        Parts {
            full: Some(full.to_owned()),
            organization: organization.map(str::to_owned),
            basename,
            finetune,
            version,
            size_label,
        }
    }
}

/// A part and what it looks like.
fn annotated(part: &str, is_first: bool, parameters: usize) -> (String, Vec<Kind>) {
    let is = |pattern: &str| {
        // Patterns are constants of ours.
        Regex::new(&format!("^(?i-u:{pattern})$")).is_ok_and(|regex| regex.is_match(part))
    };
    if is(r"(v|iter)?\d+([.]\d+)*") {
        return (part.to_owned(), vec![Kind::Version]);
    }
    if is(r"i?q\d(_\w)*|b?fp?(16|32)") {
        return (part.to_uppercase(), vec![Kind::Type]);
    }
    if !is_first && is(r"(([A]|\d+[x])?\d+([._]\d+)?[KMBT][\d]?|small|mini|medium|large|x?xl)") {
        return size(part, parameters);
    }
    if !is_first && is("chat|instruct|vision|lora") {
        return (part.to_owned(), vec![Kind::Finetune]);
    }
    (part.to_owned(), Vec::new())
}

/// A size, or a length of context that looks like one.
fn size(part: &str, parameters: usize) -> (String, Vec<Kind>) {
    let mut part = part.replace('_', ".");
    let last = |part: &str| part.chars().last().unwrap_or(' ');
    // As in bloom-7b1.
    if last(&part).is_ascii_digit() && part.len() > 2 {
        let (head, tail) = part.split_at(part.len() - 2);
        let mut tail = tail.chars().rev();
        part = format!("{head}.{}{}", tail.next().unwrap_or(' '), tail.next().unwrap_or(' '));
    }
    let is_number = part.len() > 1 && part.as_bytes()[part.len() - 2].is_ascii_digit();
    if is_number && "kmbt".contains(last(&part)) {
        let unit = last(&part).to_ascii_uppercase();
        part.pop();
        part.push(unit);
    }
    let unit = " KMBT".find(last(&part));
    let label = part.get(..part.len() - 1).and_then(|number| number.parse::<f64>().ok()).zip(unit);
    let label = label.map(|(number, unit)| number * 1000f64.powi(unit as i32));
    let far = |label: f64| (label - parameters as f64).abs() > (7 * parameters / 8) as f64;
    if parameters > 0 && label.is_some_and(far) {
        let unit = last(&part).to_ascii_lowercase();
        part.pop();
        part.push(unit);
        return (part, vec![Kind::Finetune]);
    }
    (part, vec![Kind::SizeLabel])
}
