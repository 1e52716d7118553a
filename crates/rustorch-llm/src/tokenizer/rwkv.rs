//! RWKV's encoding: at each place the longest token.

use super::trie::Trie;
use super::vocab::Vocab;

/// The model: token texts, which are any bytes.
#[derive(Debug)]
pub(super) struct Rwkv {
    tokens: Trie,
    unk: Option<u32>,
}

impl Rwkv {
    /// Builds the model. `unk` stands for bytes without a token.
    pub(super) fn new(vocab: &Vocab, unk: Option<u32>) -> Rwkv {
        let mut tokens = Trie::default();
        for (id, text) in (0..).zip(&vocab.tokens) {
            tokens.insert(&unescaped(text), id);
        }
        Rwkv { tokens, unk }
    }

    /// Number of byte values of UTF-8 text that have no token of their own.
    pub(super) fn bytes_without_token(&self) -> usize {
        let has_token = |byte: u8| self.tokens.prefixes(&[byte]).next().is_some();
        (0..=255).filter(|&byte| super::bytes::occurs_in_text(byte) && !has_token(byte)).count()
    }

    /// Appends the tokens of `text`.
    pub(super) fn encode(&self, text: &str, out: &mut Vec<u32>) {
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            let (len, id) = match self.tokens.prefixes(rest).last() {
                Some((len, id)) => (len, Some(id)),
                None => (1, self.unk),
            };
            out.extend(id);
            rest = &rest[len..];
        }
    }
}

/// The bytes that a token's text in the vocabulary stands for: `\t`, `\n`, `\r`, `\xHH`, and any other character after `\` itself.
pub(super) fn unescaped(text: &[u8]) -> Vec<u8> {
    let digit = |byte: Option<u8>| byte.and_then(|byte| (byte as char).to_digit(16)).unwrap_or(0);
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        match bytes.next() {
            Some(b't') => out.push(b'\t'),
            Some(b'n') => out.push(b'\n'),
            Some(b'r') => out.push(b'\r'),
            Some(b'x') => {
                let (high, low) = (digit(bytes.next()), digit(bytes.next()));
                out.push((high * 16 + low) as u8);
            }
            other => out.extend(other),
        }
    }
    out
}
