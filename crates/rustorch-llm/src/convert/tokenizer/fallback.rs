//! SentencePiece's tokens in a `tokenizer.json`: a byte-pair encoding over characters with fallback to bytes.

use super::{BYTE, CONTROL, NORMAL, Tokens, USER_DEFINED, text_of};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The score of every token: merges are not told by scores here.
const SCORE: f32 = -1000.0;

/// Whether a `tokenizer.json` is one.
pub(super) fn is_one(json: &Value) -> bool {
    let text = |pointer: &str| json.pointer(pointer).and_then(Value::as_str);
    let falls_back = json.pointer("/model/byte_fallback").and_then(Value::as_bool) == Some(true);
    text("/model/type") == Some("BPE") && falls_back && text("/decoder/type") == Some("Sequence")
}

pub(super) fn read(json: &Value, settings: Option<&Value>) -> Result<Tokens, String> {
    let vocabulary = json.pointer("/model/vocab").and_then(Value::as_object);
    let vocabulary = vocabulary.ok_or("has no `model.vocab`")?;
    let mut texts: BTreeMap<u64, &str> = BTreeMap::new();
    for (text, id) in vocabulary {
        texts.insert(id.as_u64().ok_or_else(|| format!("gives token {text:?} the id {id}"))?, text);
    }
    let special = special_texts(settings);
    let mut tokens = Tokens::default();
    let size = texts.len() as u64;
    for (place, (id, text)) in (0..).zip(texts) {
        if id != place {
            return Err(format!("has no token {place}"));
        }
        let kind = match text {
            _ if is_byte(text) => BYTE,
            _ if special.contains(text) => CONTROL,
            _ => NORMAL,
        };
        tokens.push(text, Some(SCORE), kind);
    }
    let mut added: Vec<(u64, &str)> = Vec::new();
    for token in json.get("added_tokens").and_then(Value::as_array).into_iter().flatten() {
        let id = token.get("id").and_then(Value::as_u64);
        let (Some(id), Some(text)) = (id, token.get("content").and_then(Value::as_str)) else {
            return Err(format!("has an added token without id or content: {token}"));
        };
        if id >= size {
            added.push((id, text));
        }
    }
    added.sort_unstable();
    for (_, text) in added {
        tokens.push(text, Some(SCORE), if special.contains(text) { CONTROL } else { USER_DEFINED });
    }
    Ok(tokens)
}

/// The texts of tokens that `tokenizer_config.json` gives a role.
fn special_texts(settings: Option<&Value>) -> BTreeSet<&str> {
    let Some(settings) = settings else { return BTreeSet::new() };
    let roles = ["bos", "eos", "unk", "sep", "pad", "cls", "mask"];
    let roles = roles.iter().filter_map(|role| text_of(settings.get(format!("{role}_token"))?));
    let more = ["additional_special_tokens", "extra_special_tokens"];
    let more = more.iter().filter_map(|field| settings.get(*field)?.as_array()).flatten().filter_map(text_of);
    roles.chain(more).collect()
}

/// `<0x41>`.
fn is_byte(text: &str) -> bool {
    let digits = text.strip_prefix("<0x").and_then(|rest| rest.strip_suffix('>'));
    digits.is_some_and(|digits| digits.len() == 2 && digits.bytes().all(|b| b.is_ascii_hexdigit()))
}
