//! Byte-pair encodings over byte characters (GPT-2's, Llama 3's, Qwen's).

use super::{NORMAL, Tokens, UNUSED, added, kind_of_added};
use serde_json::Value;
use std::collections::HashMap;

/// Patterns of `pre_tokenizer`, and llama.cpp's names for them.
const PATTERNS: &[(&[&str], &str)] = &[
    (
        &[
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ],
        "llama-bpe",
    ),
    (
        &[
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ],
        "qwen2",
    ),
    (&[BYTE_LEVEL], "gpt-2"),
    (&[DIGITS, BYTE_LEVEL], "smollm"),
];

/// What stands in a list of patterns for GPT-2's own, and for splitting digits.
const BYTE_LEVEL: &str = "ByteLevel";
const DIGITS: &str = "Digits";

/// llama.cpp's name for the pre-tokenizer of a `tokenizer.json`.
pub(super) fn pre_tokenizer(json: &Value) -> Result<&'static str, String> {
    let mut steps = Vec::new();
    if let Some(pre) = json.get("pre_tokenizer") {
        collect(pre, &mut steps);
    }
    let known = PATTERNS.iter().find(|(patterns, _)| *patterns == steps.as_slice());
    known.map(|(_, name)| *name).ok_or_else(|| {
        format!(
            "has a pre-tokenizer that is not known ({}); give its name in llama.cpp (--pre)",
            steps.join(", ")
        )
    })
}

fn collect<'a>(pre: &'a Value, steps: &mut Vec<&'a str>) {
    let flag = |name: &str| pre.get(name).and_then(Value::as_bool);
    match pre.get("type").and_then(Value::as_str) {
        Some("Sequence") => {
            let parts = pre.get("pretokenizers").and_then(Value::as_array);
            parts.into_iter().flatten().for_each(|part| collect(part, steps));
        }
        Some("Split") => {
            let pattern = pre.get("pattern");
            let pattern =
                pattern.and_then(|pattern| pattern.get("Regex").or(pattern.get("String"))?.as_str());
            steps.push(pattern.unwrap_or("?"));
        }
        Some("ByteLevel") if flag("use_regex").unwrap_or(true) => steps.push(BYTE_LEVEL),
        Some("ByteLevel") => {}
        Some("Digits") if flag("individual_digits") == Some(true) => steps.push(DIGITS),
        Some(other) => steps.push(other),
        None => {}
    }
}

/// The tokens of a vocabulary of this size; ids that no token has are filled.
pub(super) fn read(json: &Value, size: usize) -> Result<Tokens, String> {
    let vocabulary = json.pointer("/model/vocab").and_then(Value::as_object);
    let vocabulary = vocabulary.ok_or("has no `model.vocab`")?;
    let id = |value: &Value| value.as_u64().and_then(|id| usize::try_from(id).ok());
    let mut texts: HashMap<usize, (String, i32)> = HashMap::new();
    for (text, value) in vocabulary {
        let id = id(value).ok_or_else(|| format!("gives token {text:?} the id {value}"))?;
        texts.insert(id, (text.clone(), NORMAL));
    }
    for token in json.get("added_tokens").and_then(Value::as_array).into_iter().flatten() {
        let id = token.get("id").and_then(id);
        let (Some(id), Some((content, steers))) = (id, added(token)) else {
            return Err(format!("has an added token without id or content: {token}"));
        };
        texts.insert(id, kind_of_added(content, steers));
    }
    if let Some(largest) = texts.keys().max().filter(|&&id| id >= size) {
        return Err(format!("has a token {largest}, but config.json a vocabulary of {size}"));
    }
    let mut tokens = Tokens::default();
    for id in 0..size {
        let (text, kind) = texts.remove(&id).unwrap_or_else(|| (format!("[PAD{id}]"), UNUSED));
        tokens.push(text, None, kind);
    }
    Ok(tokens)
}
