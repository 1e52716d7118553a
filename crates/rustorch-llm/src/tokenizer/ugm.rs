//! Unigram encoding (SentencePiece's, of T5 and XLM-RoBERTa): of all ways to cut a text into tokens the most likely one.

use super::charsmap::Charsmap;
use super::error::TokenizerError;
use super::trie::Trie;
use super::vocab::{TokenType, Vocab};

/// A space in the vocabulary.
const SPACE: &[u8] = "▁".as_bytes();
const REPLACEMENT: &[u8] = "\u{FFFD}".as_bytes();
/// How much less likely than the least likely token a character without token is.
const UNKNOWN_PENALTY: f32 = 10.0;

/// The model: token texts and their logarithmic probabilities, and what happens to a text before.
#[derive(Debug)]
pub(super) struct Ugm {
    tokens: Trie,
    /// Tokens that normalisation leaves as they are.
    user_defined: Trie,
    scores: Vec<f64>,
    unknown_score: f64,
    unk: Option<u32>,
    charsmap: Charsmap,
    space_prefix: bool,
    merge_spaces: bool,
}

/// The most likely way to reach a place in the text.
#[derive(Clone, Copy)]
struct Best {
    /// The last token, `None` for the unknown one.
    token: Option<u32>,
    /// Where that token begins.
    start: usize,
    score: f64,
}

impl Ugm {
    /// Builds the model. `unk` stands for characters without a token.
    pub(super) fn new(vocab: &Vocab, unk: Option<u32>) -> Result<Ugm, TokenizerError> {
        let (mut tokens, mut user_defined) = (Trie::default(), Trie::default());
        let mut scores = Vec::with_capacity(vocab.tokens.len());
        let mut least = f32::MAX;
        for (id, text) in (0..).zip(&vocab.tokens) {
            let kind = vocab.types.get(id as usize).copied().unwrap_or_default();
            let score = vocab.score(id);
            match kind {
                TokenType::Normal => least = least.min(score),
                TokenType::UserDefined => user_defined.insert(text, id),
                _ => {}
            }
            if matches!(kind, TokenType::Normal | TokenType::UserDefined | TokenType::Unused) {
                tokens.insert(text, id);
            }
            scores.push(if kind == TokenType::UserDefined { 0.0 } else { score.into() });
        }
        Ok(Ugm {
            tokens,
            user_defined,
            scores,
            unknown_score: (least - UNKNOWN_PENALTY).into(),
            unk,
            charsmap: Charsmap::new(&vocab.charsmap)?,
            space_prefix: vocab.add_space_prefix,
            merge_spaces: vocab.remove_extra_whitespaces,
        })
    }

    /// Appends the tokens of `text`.
    pub(super) fn encode(&self, text: &str, out: &mut Vec<u32>) {
        let text = self.normalized(text.as_bytes());
        let unreached = Best { token: None, start: 0, score: f64::MIN };
        let mut best = vec![unreached; text.len() + 1];
        best[0].score = 0.0;
        let mut at = 0;
        while at < text.len() {
            let len = character_len(text[at]).min(text.len() - at);
            let score = best[at].score;
            let mut reach = |len: usize, token: Option<u32>, more: f64| {
                let place = &mut best[at + len];
                if score + more > place.score {
                    *place = Best { token, start: at, score: score + more };
                }
            };
            let mut whole_character = false;
            for (token_len, id) in self.tokens.prefixes(&text[at..]) {
                whole_character |= token_len == len;
                reach(token_len, Some(id), self.scores[id as usize]);
            }
            if !whole_character {
                reach(len, None, self.unknown_score);
            }
            at += len;
        }
        let first = out.len();
        let (mut end, mut after_unknown) = (text.len(), false);
        while end > 0 {
            let token = best[end].token.filter(|&id| Some(id) != self.unk);
            if !(token.is_none() && after_unknown) {
                out.extend(token.or(self.unk));
            }
            after_unknown = token.is_none();
            end = best[end].start;
        }
        out[first..].reverse();
    }

    /// The text with replacements made, and spaces written as tokens have them.
    fn normalized(&self, text: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(text.len() + text.len() / 2);
        let (mut prefixed, mut in_word) = (false, false);
        let mut rest = text;
        while !rest.is_empty() {
            let (len, part) = self.normalized_prefix(rest);
            for &byte in part {
                if byte == b' ' {
                    in_word = false;
                    if !self.merge_spaces {
                        out.extend_from_slice(SPACE);
                    }
                    continue;
                }
                if !in_word {
                    in_word = true;
                    if self.space_prefix && !prefixed || self.merge_spaces {
                        out.extend_from_slice(SPACE);
                        prefixed = true;
                    }
                }
                out.push(byte);
            }
            rest = &rest[len..];
        }
        out
    }

    /// How many bytes at the beginning of `text` are looked at together, and what stands for them. As in SentencePiece only a
    /// whole user-defined token is left as it is (llama.cpp does that to the beginning of one, too).
    fn normalized_prefix<'a>(&'a self, text: &'a [u8]) -> (usize, &'a [u8]) {
        if let Some((len, _)) = self.user_defined.prefixes(text).last() {
            return (len, &text[..len]);
        }
        if let Some(replacement) = self.charsmap.replacement(text) {
            return replacement;
        }
        // A replacement may have ended inside a character.
        let len = character_len(text[0]);
        match text.get(..len).filter(|character| std::str::from_utf8(character).is_ok()) {
            Some(character) => (len, character),
            None => (1, REPLACEMENT),
        }
    }
}

/// The length of the character that begins with this byte; 1 for bytes that begin none.
fn character_len(first: u8) -> usize {
    match first {
        0xC0..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xFF => 4,
        _ => 1,
    }
}
