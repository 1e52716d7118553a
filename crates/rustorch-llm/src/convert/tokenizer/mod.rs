//! Tokenizers: `tokenizer.model` of SentencePiece, or `tokenizer.json` of the `tokenizers` library.

mod byte_level;
mod fallback;
mod sentencepiece;
mod special;

use super::architecture::HfArchitecture;
use super::{Config, ConvertError, ConvertOptions, Folder};
use rustorch_formats::gguf::Metadata;
use serde_json::Value;
use special::SpecialTokens;

/// llama.cpp's numbers of kinds of tokens.
const NORMAL: i32 = 1;
const UNKNOWN: i32 = 2;
const CONTROL: i32 = 3;
const USER_DEFINED: i32 = 4;
const UNUSED: i32 = 5;
const BYTE: i32 = 6;

/// A tokenizer, as GGUF has it.
pub(super) struct Tokenizer {
    /// `tokenizer.ggml.model` and `tokenizer.ggml.pre`.
    model: &'static str,
    pre: String,
    tokens: Tokens,
    special: SpecialTokens,
    /// Whether a space comes before a text.
    space_prefix: Option<bool>,
    /// How many rows an embedding table may have; those behind them belong to no token.
    pub(super) rows: Option<usize>,
}

/// Texts of all tokens, with their scores, where they have some, and kinds.
#[derive(Default)]
struct Tokens {
    texts: Vec<String>,
    scores: Vec<f32>,
    kinds: Vec<i32>,
}

impl Tokens {
    fn push(&mut self, text: impl Into<String>, score: Option<f32>, kind: i32) {
        self.texts.push(text.into());
        self.scores.extend(score);
        self.kinds.push(kind);
    }
}

impl Tokenizer {
    pub(super) fn read(
        folder: &Folder,
        config: &Config,
        architecture: &HfArchitecture,
        options: &ConvertOptions,
    ) -> Result<Tokenizer, ConvertError> {
        let json = folder.json("tokenizer.json")?;
        let settings = folder.json("tokenizer_config.json")?;
        let space_prefix = match architecture.name {
            "llama" => settings.as_ref().and_then(|settings| settings.get("add_prefix_space")?.as_bool()),
            _ => None,
        };
        let is_gemma = architecture.name == "gemma3";
        if let Some(model) = folder.bytes("tokenizer.model")? {
            let size = match is_gemma {
                true => Some(architecture.size(config, "vocab_size")?),
                false => config.find_size("vocab_size")?,
            };
            let tokens = sentencepiece::read(&model, size, folder, settings.as_ref())?;
            return Ok(Tokenizer {
                model: "llama",
                pre: "default".into(),
                special: SpecialTokens::read(
                    folder,
                    json.as_ref(),
                    settings,
                    Some(tokens.texts.len()),
                    false,
                )?,
                space_prefix: if is_gemma { Some(false) } else { space_prefix },
                rows: is_gemma.then_some(tokens.texts.len()),
                tokens,
            });
        }
        let Some(json) = json else {
            return Err(malformed(folder, "tokenizer.json", "and tokenizer.model are missing"));
        };
        if architecture.name == "llama" && fallback::is_one(&json) {
            let tokens = fallback::read(&json, settings.as_ref())
                .map_err(|m| malformed(folder, "tokenizer.json", m))?;
            return Ok(Tokenizer {
                model: "llama",
                pre: "default".into(),
                special: SpecialTokens::read(folder, Some(&json), settings, Some(tokens.texts.len()), false)?,
                space_prefix,
                rows: None,
                tokens,
            });
        }
        let fail = |message: String| malformed(folder, "tokenizer.json", message);
        let size = architecture.size(config, "vocab_size")?;
        let added = json.get("added_tokens").and_then(Value::as_array).map_or(0, Vec::len);
        let in_model =
            json.pointer("/model/vocab").and_then(Value::as_object).map_or(0, serde_json::Map::len);
        Ok(Tokenizer {
            model: "gpt2",
            pre: match &options.pre_tokenizer {
                Some(name) => name.clone(),
                None => byte_level::pre_tokenizer(&json).map_err(fail)?.to_owned(),
            },
            tokens: byte_level::read(&json, size).map_err(fail)?,
            special: SpecialTokens::read(folder, Some(&json), settings, None, true)?,
            space_prefix,
            rows: is_gemma.then_some(in_model + added),
        })
    }

    pub(super) fn write(&self, metadata: &mut Metadata) -> Result<(), ConvertError> {
        if let Some(space_prefix) = self.space_prefix {
            metadata.set("tokenizer.ggml.add_space_prefix", space_prefix)?;
        }
        metadata.set("tokenizer.ggml.model", self.model)?;
        metadata.set("tokenizer.ggml.pre", self.pre.as_str())?;
        metadata.set("tokenizer.ggml.tokens", self.tokens.texts.clone())?;
        if !self.tokens.scores.is_empty() {
            metadata.set("tokenizer.ggml.scores", self.tokens.scores.clone())?;
        }
        metadata.set("tokenizer.ggml.token_type", self.tokens.kinds.clone())?;
        self.special.write(metadata)
    }
}

fn malformed(folder: &Folder, file: &str, message: impl Into<String>) -> ConvertError {
    ConvertError::Malformed { path: folder.file(file), message: message.into() }
}

/// Whether an added token that does not say so is one that steers the model.
fn looks_special(token: &str) -> bool {
    matches!(token, "<pad>" | "<mask>" | "<2mass>" | "[@BOS@]")
        || token.starts_with("<|") && token.ends_with("|>")
        || token.starts_with("<｜") && token.ends_with("｜>")
        || token.starts_with("<unused") && token.ends_with('>')
}

/// A token of `added_tokens` or `added_tokens_decoder`: its text, and whether it steers the model.
fn added(token: &Value) -> Option<(&str, bool)> {
    let content = token.get("content")?.as_str()?;
    let is_special = token.get("special").and_then(Value::as_bool).unwrap_or(false);
    Some((content, is_special || looks_special(content)))
}

/// The text and kind of an added token; of those that stand for text spaces are spaces.
fn kind_of_added(content: &str, steers: bool) -> (String, i32) {
    match steers {
        true => (content.to_owned(), CONTROL),
        false => (content.replace('\u{2581}', " "), USER_DEFINED),
    }
}

/// The text of a token, which may be an object.
fn text_of(token: &Value) -> Option<&str> {
    token.as_str().or_else(|| token.get("content")?.as_str())
}
