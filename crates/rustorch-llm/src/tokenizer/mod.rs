//! Text to token ids and back, as llama.cpp does it, from the vocabulary in a GGUF file.
//!
//! SentencePiece (`llama`), byte-pair encoding (`gpt2`, with every pre-tokenizer that llama.cpp names), WordPiece (`bert`),
//! Unigram (`t5`) and RWKV's trie (`rwkv`) are built from plain data ([`Vocab`]). Encoding takes time proportional to the text (times a logarithm where a text has no
//! boundary), whatever the text is.
//!
//! ```
//! use rustorch_llm::tokenizer::{DecodeOptions, EncodeOptions, ModelKind, Tokenizer, Vocab};
//!
//! let mut vocab = Vocab::new(ModelKind::Bpe, "gpt-2", ["l", "o", "w", "Ġ", "lo", "low", "Ġlow"]);
//! vocab.merges = ["l o", "lo w", "Ġ low"].map(Into::into).to_vec();
//! let tokenizer = Tokenizer::new(vocab)?;
//! let ids = tokenizer.encode("low low", EncodeOptions::default());
//! assert_eq!(ids, [5, 6]);
//! assert_eq!(tokenizer.decode(&ids, DecodeOptions::default()), "low low");
//! # Ok::<(), rustorch_llm::tokenizer::TokenizerError>(())
//! ```

mod bpe;
mod bytes;
mod charsmap;
mod error;
mod gguf;
mod hash;
mod merge;
mod pretokenizer;
mod rwkv;
mod special;
mod spm;
mod stream;
mod trie;
mod ugm;
mod vocab;
mod wpm;

pub use error::TokenizerError;
pub use stream::{StreamDecoder, Utf8Stream};
pub use vocab::{ModelKind, SpecialIds, TokenType, Vocab};

use bpe::Bpe;
use hash::FastMap;
use merge::Merger;
use pretokenizer::PreTokenizer;
use rwkv::Rwkv;
use special::{Attributes, Fragment, Roles, SpecialMatcher};
use spm::Spm;
use ugm::Ugm;
use wpm::Wpm;

/// How to encode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncodeOptions {
    /// Put the beginning- and end-of-text tokens that the model wants around the text.
    pub add_special: bool,
    /// Read the texts of control tokens (`<|im_start|>`) as these tokens. Only for text that a program wrote, such as
    /// a rendered chat template: a user could type them.
    pub parse_special: bool,
}

impl Default for EncodeOptions {
    /// Begin- and end-of-text where the model wants them, control tokens not recognised.
    fn default() -> Self {
        EncodeOptions { add_special: true, parse_special: false }
    }
}

/// How to decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeOptions {
    /// Show control and unknown tokens by their text instead of leaving them out.
    pub special: bool,
    /// Take away the space that encoding put before the text.
    pub strip_space_prefix: bool,
    /// Take away the space before `? ! . ,` and some contractions, for models whose tokenizer asks for it.
    pub clean_up_spaces: bool,
}

impl Default for DecodeOptions {
    /// The inverse of encoding: control tokens left out, the space before the text taken away.
    fn default() -> Self {
        DecodeOptions { special: false, strip_space_prefix: true, clean_up_spaces: false }
    }
}

/// Converts between text and token ids.
#[derive(Debug)]
pub struct Tokenizer {
    vocab: Vocab,
    roles: Roles,
    matcher: SpecialMatcher,
    model: Model,
    /// The text of all tokens one after the other, and where each ends.
    pieces: Vec<u8>,
    piece_ends: Vec<usize>,
    by_text: FastMap<Box<[u8]>, u32>,
    warnings: Vec<String>,
}

#[derive(Debug)]
enum Model {
    Spm(Box<Spm>),
    Bpe(Box<Bpe>),
    Wpm(Box<Wpm>),
    Ugm(Box<Ugm>),
    Rwkv(Box<Rwkv>),
}

impl Tokenizer {
    /// Builds a tokenizer.
    ///
    /// What makes the result doubtful, but not impossible, is told by [`Tokenizer::warnings`]: a pre-tokenizer that is
    /// not known (the default one is used), merges that are missing (they are inferred from the order of the tokens),
    /// bytes that no token can express (they are left out).
    ///
    /// # Errors
    /// When the vocabulary is empty, a per-token array is too short, a special id is outside the vocabulary, or the
    /// normalisation is cut off.
    pub fn new(mut vocab: Vocab) -> Result<Tokenizer, TokenizerError> {
        vocab.validate()?;
        let mut warnings = std::mem::take(&mut vocab.warnings);
        for (id, text) in vocab.tokens.iter_mut().enumerate() {
            // As llama.cpp names them; an empty text would match everywhere.
            if text.is_empty() {
                *text = format!("[EMPTY_{id}]").into();
            }
        }
        let roles = Roles::of(&vocab);
        let model = match vocab.kind {
            ModelKind::Spm => Model::Spm(Box::new(Spm::new(&vocab, roles.special.unk))),
            ModelKind::Bpe => {
                let pre = pre_tokenizer(&vocab.pre, &mut warnings);
                if vocab.merges.is_empty() {
                    warnings.push(
                        "the file lists no merges; they are inferred from the order of the tokens".to_owned(),
                    );
                }
                Model::Bpe(Box::new(Bpe::new(&vocab, pre)))
            }
            ModelKind::Wpm => Model::Wpm(Box::new(Wpm::new(&vocab, roles.special.unk))),
            ModelKind::Ugm => Model::Ugm(Box::new(Ugm::new(&vocab, roles.special.unk)?)),
            ModelKind::Rwkv => Model::Rwkv(Box::new(Rwkv::new(&vocab, roles.special.unk))),
        };
        let lost = match &model {
            Model::Spm(spm) => spm.bytes_without_token(),
            Model::Bpe(bpe) => bpe.bytes_without_token(),
            Model::Rwkv(rwkv) => rwkv.bytes_without_token(),
            // What tokens cannot express is the unknown one.
            Model::Wpm(_) | Model::Ugm(_) => 0,
        };
        if lost > 0 {
            warnings.push(format!("{lost} byte values have no token; text that needs them loses them"));
        }
        for (flag, id, what) in
            [(&mut vocab.add_bos, roles.special.bos, "begin"), (&mut vocab.add_eos, roles.special.eos, "end")]
        {
            if *flag && id.is_none() {
                *flag = false;
                warnings
                    .push(format!("the file asks for a {what}-of-text token but has none; none is added"));
            }
        }
        vocab.merges = Vec::new();
        let mut tokenizer = Tokenizer {
            matcher: SpecialMatcher::new(&vocab, &roles.attributes),
            by_text: (0u32..).zip(&vocab.tokens).map(|(id, text)| (text.as_slice().into(), id)).collect(),
            pieces: Vec::new(),
            piece_ends: Vec::with_capacity(vocab.tokens.len()),
            vocab,
            roles,
            model,
            warnings,
        };
        for id in 0..tokenizer.vocab.tokens.len() {
            let piece = tokenizer.make_piece(id);
            tokenizer.pieces.extend_from_slice(&piece);
            tokenizer.piece_ends.push(tokenizer.pieces.len());
        }
        Ok(tokenizer)
    }

    /// What may make this tokenizer differ from the model's own; empty for sound files.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Number of tokens.
    #[allow(clippy::len_without_is_empty)] // An empty vocabulary is refused.
    pub fn len(&self) -> usize {
        self.vocab.tokens.len()
    }

    /// The family of the tokenizer.
    pub fn kind(&self) -> ModelKind {
        self.vocab.kind
    }

    /// Ids of the tokens with a role, those inferred from token texts included.
    pub fn special(&self) -> &SpecialIds {
        &self.roles.special
    }

    /// Whether `add_special` puts the begin-of-text token first.
    pub fn adds_bos(&self) -> bool {
        self.vocab.add_bos
    }

    /// Whether `add_special` puts the end-of-text token last.
    pub fn adds_eos(&self) -> bool {
        self.vocab.add_eos
    }

    /// Whether the separator stands between two texts that the model is given together.
    pub fn adds_sep(&self) -> bool {
        self.vocab.add_sep
    }

    /// The token with exactly this text in the vocabulary (`Ġ` and `▁` as they are there).
    pub fn token(&self, text: &str) -> Option<u32> {
        self.by_text.get(text.as_bytes()).copied()
    }

    /// The token's text as the vocabulary writes it, or `None` for an id outside.
    pub fn token_text(&self, id: u32) -> Option<&[u8]> {
        self.vocab.tokens.get(id as usize).map(Vec::as_slice)
    }

    /// The bytes that the token stands for; control tokens give their name. Empty for ids outside the vocabulary and
    /// for reserved tokens.
    pub fn piece(&self, id: u32) -> &[u8] {
        let id = id as usize;
        let Some(&end) = self.piece_ends.get(id) else { return &[] };
        let start = id.checked_sub(1).map_or(0, |before| self.piece_ends[before]);
        &self.pieces[start..end]
    }

    /// Whether the token ends a generation: end of text, of a turn, of a message, and what else models use for it.
    pub fn is_eog(&self, id: u32) -> bool {
        self.roles.end_of_generation.binary_search(&id).is_ok()
    }

    /// The tokens for which [`Tokenizer::is_eog`] holds, in order.
    pub fn eog_tokens(&self) -> &[u32] {
        &self.roles.end_of_generation
    }

    /// Whether the token is a control token.
    pub fn is_control(&self, id: u32) -> bool {
        self.has(id, Attributes::CONTROL)
    }

    fn has(&self, id: u32, attributes: Attributes) -> bool {
        self.roles.attributes.get(id as usize).is_some_and(|of| of.any(attributes))
    }

    /// The token ids of `text`.
    pub fn encode(&self, text: &str, options: EncodeOptions) -> Vec<u32> {
        self.encode_without(text, options, None)
    }

    /// A text in which `mark`, put behind the first character, breaks every control and unknown token but those of the texts in `left`; tokens
    /// of a single character stay.
    pub(crate) fn break_control_tokens(&self, text: &str, mark: char, left: &[&str]) -> String {
        let mut broken = String::with_capacity(text.len());
        let mut rest = 0;
        for (start, token) in self.matcher.control_tokens(text) {
            let after = start + text[start..].chars().next().map_or(0, char::len_utf8);
            if after > rest && !left.contains(&token) {
                broken.push_str(&text[rest..after]);
                broken.push(mark);
                rest = after;
            }
        }
        broken + &text[rest..]
    }

    /// As [`encode`](Self::encode); a mark of [`break_control_tokens`](Self::break_control_tokens) counts in the search for control tokens, and
    /// is no part of the text then.
    pub(crate) fn encode_without(&self, text: &str, options: EncodeOptions, mark: Option<char>) -> Vec<u32> {
        let mut ids = Vec::with_capacity(text.len() / 3 + 2);
        let mut merger = Merger::default();
        if options.add_special && self.vocab.add_bos {
            ids.extend(self.roles.special.bos);
        }
        // SPM puts its space before the first text and before a text that follows a special token.
        let mut after_special = true;
        for fragment in self.matcher.partition(text, options.parse_special) {
            match fragment {
                Fragment::Token(id) => {
                    ids.push(id);
                    after_special = true;
                }
                Fragment::Text(text) => {
                    let unmarked =
                        mark.filter(|&mark| text.contains(mark)).map(|mark| text.replace(mark, ""));
                    let text = unmarked.as_deref().unwrap_or(text);
                    match &self.model {
                        Model::Spm(spm) => {
                            let prefix = self.vocab.add_space_prefix && after_special;
                            spm.encode(text, prefix, &mut merger, &mut ids);
                        }
                        Model::Bpe(bpe) if self.vocab.drop_whitespace => {
                            for word in text.split_whitespace() {
                                let lowercase = || word.chars().map(wpm::lowercase).collect::<String>();
                                let word = if self.vocab.lowercase { &lowercase() } else { word };
                                bpe.encode(word, &mut merger, &mut ids);
                            }
                        }
                        Model::Bpe(bpe) => bpe.encode(text, &mut merger, &mut ids),
                        Model::Wpm(wpm) => wpm.encode(text, &mut ids),
                        Model::Ugm(ugm) => ugm.encode(text, &mut ids),
                        Model::Rwkv(rwkv) => rwkv.encode(text, &mut ids),
                    }
                    after_special = false;
                }
            }
        }
        if options.add_special && self.vocab.add_eos {
            ids.extend(self.roles.special.eos);
        }
        if options.add_special && matches!(self.model, Model::Wpm(_)) {
            ids.extend(self.roles.special.sep);
        }
        ids
    }

    /// The text of `ids`; bytes that are not UTF-8 become U+FFFD, ids outside the vocabulary are left out.
    pub fn decode(&self, ids: &[u32], options: DecodeOptions) -> String {
        let mut bytes = Vec::with_capacity(ids.len() * 4);
        let mut ids = ids.iter().copied().peekable();
        let mut strip = options.strip_space_prefix && self.vocab.add_space_prefix;
        for id in ids.by_ref() {
            let steering = self.has(id, Attributes::CONTROL.and(Attributes::UNKNOWN));
            if steering && !options.special {
                continue;
            }
            let piece = self.piece(id);
            // A begin-of-text token stands before the space that encoding added.
            let stripped = if strip { piece.strip_prefix(b" ").unwrap_or(piece) } else { piece };
            strip &= steering;
            bytes.extend_from_slice(stripped);
        }
        let clean = match &self.model {
            Model::Spm(_) | Model::Ugm(_) | Model::Rwkv(_) => false,
            Model::Bpe(bpe) => bpe.clean_spaces(),
            Model::Wpm(_) => true,
        };
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if options.clean_up_spaces && clean { clean_up_spaces(&text) } else { text }
    }

    /// A decoder for ids that come one by one; `special` shows control tokens.
    pub fn stream(&self, special: bool) -> StreamDecoder<'_> {
        StreamDecoder::new(self, special)
    }

    fn make_piece(&self, id: usize) -> Vec<u8> {
        let text = &self.vocab.tokens[id];
        let attributes = self.roles.attributes[id];
        let verbatim = Attributes::CONTROL.and(Attributes::UNKNOWN).and(Attributes::USER_DEFINED);
        if attributes.any(verbatim) {
            return text.clone();
        }
        if attributes.any(Attributes::BYTE) {
            return bytes::parse_byte_token(text).map_or_else(|| text.clone(), |byte| vec![byte]);
        }
        if !attributes.any(Attributes::NORMAL) {
            return Vec::new();
        }
        match &self.model {
            Model::Bpe(bpe) if !bpe.is_raw() => bytes::decode_or_mark(text),
            Model::Bpe(bpe) if !bpe.escapes_spaces() => text.clone(),
            Model::Rwkv(_) => rwkv::unescaped(text),
            Model::Spm(_) | Model::Bpe(_) | Model::Wpm(_) | Model::Ugm(_) => unescape_spaces(text),
        }
    }
}

fn pre_tokenizer(name: &str, warnings: &mut Vec<String>) -> PreTokenizer {
    if let Some(pre) = PreTokenizer::named(name) {
        return pre;
    }
    if name.is_empty() {
        warnings.push(
            "the file names no pre-tokenizer; the default one is used, results may be worse".to_owned(),
        );
    } else {
        let known: Vec<_> = pretokenizer::known_names().collect();
        warnings.push(format!(
            "pre-tokenizer '{name}' is not known; the default one is used, results may be worse (known: {})",
            known.join(", ")
        ));
    }
    PreTokenizer::named("default").expect("the table has a default")
}

/// `▁` back to a space.
fn unescape_spaces(text: &[u8]) -> Vec<u8> {
    let mark = "▁".as_bytes();
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(&first) = rest.first() {
        if let Some(after) = rest.strip_prefix(mark) {
            out.push(b' ');
            rest = after;
        } else {
            out.push(first);
            rest = &rest[1..];
        }
    }
    out
}

/// Joins punctuation and some contractions to the word before, in llama.cpp's three passes.
fn clean_up_spaces(text: &str) -> String {
    let mut text = text.to_owned();
    for mark in ["?", "!", ".", ","] {
        text = text.replace(&format!(" {mark}"), mark);
    }
    text = text.replace(" ' ", "'");
    for ending in ["'s", "'m", "'re", "'ve"] {
        text = text.replace(&format!(" {ending}"), ending);
    }
    text
}
