//! Byte-pair encoding by merge rank.
//!
//! Symbols are byte strings. GPT-2's byte characters are undone once, when the vocabulary is read, so that encoding
//! works on the text's own bytes: symbol ids below the number of tokens are token ids, the others are strings that
//! merges mention and that are no token.

use super::bytes;
use super::hash::FastMap;
use super::merge::{Merge, Merger, Symbol};
use super::pretokenizer::PreTokenizer;
use super::vocab::{TokenType, Vocab};

/// A character that no merge mentions.
const NO_SYMBOL: u32 = u32::MAX;

/// The model: pre-tokenizer, symbols and merges.
#[derive(Debug)]
pub(super) struct Bpe {
    pre: PreTokenizer,
    /// Symbol of each byte string; ids below `tokens` are token ids.
    symbols: FastMap<Box<[u8]>, u32>,
    tokens: u32,
    /// Merge of each pair of symbols, left in the high half of the key.
    merges: FastMap<u64, Merge>,
    /// Symbol of each byte (byte-level models only).
    bytes: [u32; 256],
    /// Token written for a byte of a symbol that is no token.
    fallback: [Option<u32>; 256],
}

fn pair(left: u32, right: u32) -> u64 {
    u64::from(left) << 32 | u64::from(right)
}

impl Bpe {
    /// Builds the model. `unk` replaces bytes without a token.
    pub(super) fn new(vocab: &Vocab, pre: PreTokenizer, unk: Option<u32>) -> Bpe {
        let raw = pre.raw_utf8();
        let append = |text: &[u8], buffer: &mut Vec<u8>| {
            if raw {
                buffer.extend_from_slice(text);
                Some(())
            } else {
                bytes::decode_into(text, buffer)
            }
        };
        let mut buffer = Vec::new();
        let tokens = vocab.tokens.len() as u32;
        let mut symbols: FastMap<Box<[u8]>, u32> = FastMap::default();
        symbols.reserve(vocab.tokens.len());
        for (id, text) in vocab.tokens.iter().enumerate() {
            buffer.clear();
            if append(text, &mut buffer).is_some() {
                symbols.insert(buffer.as_slice().into(), id as u32);
            }
        }
        let mut next = tokens;
        let mut intern = |symbols: &mut FastMap<Box<[u8]>, u32>, bytes: &[u8]| {
            if let Some(&id) = symbols.get(bytes) {
                return id;
            }
            next += 1;
            symbols.insert(bytes.into(), next - 1);
            next - 1
        };

        let mut merges = FastMap::default();
        merges.reserve(vocab.merges.len());
        for (rank, merge) in vocab.merges.iter().enumerate() {
            // The left part is never empty, and may itself start with a space only in broken files.
            let Some(space) = merge.iter().skip(1).position(|&b| b == b' ') else { continue };
            let (left, right) = (&merge[..space + 1], &merge[space + 2..]);
            buffer.clear();
            let Some(()) = append(left, &mut buffer) else { continue };
            let cut = buffer.len();
            let Some(()) = append(right, &mut buffer) else { continue };
            let key = pair(intern(&mut symbols, &buffer[..cut]), intern(&mut symbols, &buffer[cut..]));
            let id = intern(&mut symbols, &buffer);
            merges.entry(key).or_insert(Merge { priority: rank as u32, id });
        }
        if vocab.merges.is_empty() {
            merges = merges_by_id(vocab, &symbols);
        }

        let bytes = std::array::from_fn(|byte| intern(&mut symbols, &[byte as u8]));
        let fallback = std::array::from_fn(|byte| {
            let key: Vec<u8> = if raw { bytes::byte_token(byte as u8).into() } else { vec![byte as u8] };
            symbols.get(key.as_slice()).copied().filter(|&id| id < tokens).or(unk)
        });
        Bpe { pre, symbols, tokens, merges, bytes, fallback }
    }

    /// Number of byte values of UTF-8 text that cannot be encoded at all.
    pub(super) fn bytes_without_token(&self) -> usize {
        (0..=255).filter(|&b| bytes::occurs_in_text(b) && self.fallback[usize::from(b)].is_none()).count()
    }

    /// See [`PreTokenizer::clean_spaces`].
    pub(super) fn clean_spaces(&self) -> bool {
        self.pre.clean_spaces()
    }

    /// See [`PreTokenizer::escape_spaces`].
    pub(super) fn escapes_spaces(&self) -> bool {
        self.pre.escape_spaces()
    }

    /// Appends the tokens of `text`.
    pub(super) fn encode(&self, text: &str, merger: &mut Merger, out: &mut Vec<u32>) {
        if self.pre.escape_spaces() {
            let escaped = text.replace(' ', "▁");
            self.pre.split(&escaped, &mut |piece| self.encode_piece(piece, merger, out));
        } else {
            self.pre.split(text, &mut |piece| self.encode_piece(piece, merger, out));
        }
    }

    fn encode_piece(&self, piece: &str, merger: &mut Merger, out: &mut Vec<u32>) {
        let whole = self.pre.ignore_merges()
            || self.pre.newline_tokens() && piece.bytes().all(|b| b == b'\n')
            // One symbol has nothing to merge with.
            || piece.len() == 1 && !self.pre.raw_utf8();
        if whole
            && let Some(&id) = self.symbols.get(piece.as_bytes())
            && id < self.tokens
        {
            return out.push(id);
        }
        merger.symbols.clear();
        if self.pre.raw_utf8() {
            let mut buffer = [0; 4];
            merger.symbols.extend(piece.char_indices().map(|(start, c)| {
                let text = c.encode_utf8(&mut buffer).as_bytes();
                let id = self.symbols.get(text).copied().unwrap_or(NO_SYMBOL);
                Symbol { id, start: start as u32, len: text.len() as u32 }
            }));
        } else {
            merger.symbols.extend(piece.bytes().enumerate().map(|(start, byte)| Symbol {
                id: self.bytes[usize::from(byte)],
                start: start as u32,
                len: 1,
            }));
        }
        merger.run(|left, right| self.merges.get(&pair(left.id, right.id)).copied());
        for symbol in &merger.symbols {
            if symbol.id < self.tokens {
                out.push(symbol.id);
            } else {
                let bytes = &piece.as_bytes()[symbol.start as usize..][..symbol.len as usize];
                out.extend(bytes.iter().filter_map(|&byte| self.fallback[usize::from(byte)]));
            }
        }
    }
}

/// Merges for a vocabulary that lists none: two tokens merge into the token of their joined text, smaller ids first.
/// Vocabularies made by byte-pair training number their tokens in the order of the merges, so this restores them.
fn merges_by_id(vocab: &Vocab, symbols: &FastMap<Box<[u8]>, u32>) -> FastMap<u64, Merge> {
    let mut merges = FastMap::default();
    for (text, &id) in symbols {
        let kind = vocab.types.get(id as usize).copied().unwrap_or_default();
        if kind != TokenType::Normal {
            continue;
        }
        for cut in 1..text.len() {
            if let (Some(&left), Some(&right)) = (symbols.get(&text[..cut]), symbols.get(&text[cut..])) {
                merges.insert(pair(left, right), Merge { priority: id, id });
            }
        }
    }
    merges
}
