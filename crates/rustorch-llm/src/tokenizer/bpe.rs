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
use std::sync::atomic::{AtomicU8, Ordering};

/// Pieces of more bytes are merged in windows of this length.
const LONG: usize = 4096;

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
    /// Of each token, whether its text merges to it: known once a piece was this text.
    itself: Box<[AtomicU8]>,
}

const UNKNOWN: u8 = 0;
const YES: u8 = 1;
const NO: u8 = 2;

fn pair(left: u32, right: u32) -> u64 {
    u64::from(left) << 32 | u64::from(right)
}

impl Bpe {
    /// Builds the model. As in llama.cpp, bytes without a token are left out.
    pub(super) fn new(vocab: &Vocab, pre: PreTokenizer) -> Bpe {
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
            symbols.get(key.as_slice()).copied().filter(|&id| id < tokens)
        });
        let itself = (0..tokens).map(|_| AtomicU8::new(UNKNOWN)).collect();
        Bpe { pre, symbols, tokens, merges, bytes, fallback, itself }
    }

    /// Number of byte values of UTF-8 text that cannot be encoded at all.
    pub(super) fn bytes_without_token(&self) -> usize {
        (0..=255).filter(|&b| bytes::occurs_in_text(b) && self.fallback[usize::from(b)].is_none()).count()
    }

    /// See [`PreTokenizer::clean_spaces`].
    pub(super) fn clean_spaces(&self) -> bool {
        self.pre.clean_spaces()
    }

    /// Whether tokens are written as they are, and not in byte characters.
    pub(super) fn is_raw(&self) -> bool {
        self.pre.raw_utf8()
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
        let token = self.symbols.get(piece.as_bytes()).copied().filter(|&id| id < self.tokens);
        if let Some(id) = token {
            let whole = self.pre.ignore_merges()
                || self.pre.newline_tokens() && piece.bytes().all(|b| b == b'\n')
                // One symbol has nothing to merge with.
                || piece.len() == 1 && !self.pre.raw_utf8();
            if whole || self.itself[id as usize].load(Ordering::Relaxed) == YES {
                return out.push(id);
            }
        }
        let token = token.filter(|&id| self.itself[id as usize].load(Ordering::Relaxed) == UNKNOWN);
        let before = out.len();
        if piece.len() > LONG {
            let symbols = self.merge_long(piece, merger);
            self.push(piece, &symbols, out);
        } else {
            self.merge(piece.as_bytes(), merger);
            self.push(piece, &merger.symbols, out);
        }
        if let Some(id) = token {
            let itself = matches!(out[before..], [found] if found == id);
            self.itself[id as usize].store(if itself { YES } else { NO }, Ordering::Relaxed);
        }
    }

    /// Leaves the symbols of `piece` in the merger; of models whose symbols are characters, it has whole ones.
    fn merge(&self, piece: &[u8], merger: &mut Merger) {
        merger.symbols.clear();
        if self.pre.raw_utf8() {
            let mut buffer = [0; 4];
            let piece = std::str::from_utf8(piece).expect("symbols of these models end between characters");
            merger.symbols.extend(piece.char_indices().map(|(start, c)| {
                let text = c.encode_utf8(&mut buffer).as_bytes();
                let id = self.symbols.get(text).copied().unwrap_or(NO_SYMBOL);
                Symbol { id, start: start as u32, len: text.len() as u32 }
            }));
        } else {
            merger.symbols.extend(piece.iter().enumerate().map(|(start, &byte)| Symbol {
                id: self.bytes[usize::from(byte)],
                start: start as u32,
                len: 1,
            }));
        }
        merger.run(|left, right| self.merges.get(&pair(left.id, right.id)).copied());
    }

    /// The symbols of a long piece, some thousand bytes at a time, so that the merger's lists stay in the cache.
    ///
    /// A sequence of symbols is what a text merges to if and only if this holds of any two neighbours alone: until the first merge across a boundary
    /// each side merges as if the other were not there, and the same merge comes first where only these two are. So windows are merged, the end of
    /// each is left to the next, and where they meet, the two symbols are merged alone. If these do not stay two, the last one is taken back, and a
    /// longer window begins before it.
    fn merge_long(&self, piece: &str, merger: &mut Merger) -> Vec<Symbol> {
        let mut kept: Vec<Symbol> = Vec::with_capacity(piece.len() / 4);
        let (mut from, mut window) = (0, LONG);
        while from < piece.len() {
            let mut end = piece.len().min(from + window);
            while !piece.is_char_boundary(end) {
                end += 1;
            }
            let is_last = end == piece.len();
            self.merge(&piece.as_bytes()[from..end], merger);
            let found = std::mem::take(&mut merger.symbols);
            let meets = match (kept.last(), found.first()) {
                (Some(last), Some(first)) => {
                    let start = last.start as usize;
                    self.stay_apart(&piece.as_bytes()[start..from + first.len as usize], last.len, merger)
                }
                _ => true,
            };
            if meets {
                let sure = if is_last { end } else { end - window / 8 };
                let shifted =
                    found.iter().map(|symbol| Symbol { start: symbol.start + from as u32, ..*symbol });
                let before = kept.len();
                kept.extend(shifted.take_while(|symbol| (symbol.start + symbol.len) as usize <= sure));
                // A symbol as long as a window waits for a longer one.
                window = if kept.len() > before { LONG } else { 2 * window };
            } else {
                kept.pop();
                window *= 2;
            }
            merger.symbols = found;
            from = kept.last().map_or(0, |last| (last.start + last.len) as usize);
        }
        kept
    }

    /// Whether a text merges to two symbols, of which the first has this length.
    fn stay_apart(&self, text: &[u8], first: u32, merger: &mut Merger) -> bool {
        self.merge(text, merger);
        matches!(merger.symbols[..], [left, _] if left.len == first)
    }

    /// Appends the tokens of symbols of `piece`.
    fn push(&self, piece: &str, symbols: &[Symbol], out: &mut Vec<u32>) {
        for symbol in symbols {
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

#[cfg(test)]
mod tests {
    use super::super::vocab::ModelKind;
    use super::*;

    /// Byte pairs of `a` and `b` that merge up to 16 letters, in an order that makes boundaries depend on what is far away.
    fn model() -> Bpe {
        let mut texts: Vec<String> = vec!["a".into(), "b".into()];
        let mut merges = Vec::new();
        for (left, right) in [
            ("a", "a"),
            ("b", "a"),
            ("aa", "aa"),
            ("ba", "ba"),
            ("a", "b"),
            ("aaaa", "aaaa"),
            ("baba", "aa"),
            ("ab", "ab"),
        ] {
            texts.push(format!("{left}{right}"));
            merges.push(format!("{left} {right}").into());
        }
        let mut vocab = Vocab::new(ModelKind::Bpe, "gpt-2", texts);
        vocab.merges = merges;
        Bpe::new(&vocab, PreTokenizer::named("gpt-2").unwrap())
    }

    #[test]
    fn windows_give_the_symbols_of_the_whole() {
        let bpe = model();
        let mut merger = Merger::default();
        let mut random = 1u64;
        let mut text = |len: usize, rare: u64| -> String {
            let mut letter = || {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                if (random >> 33).is_multiple_of(rare) { 'b' } else { 'a' }
            };
            (0..len).map(|_| letter()).collect()
        };
        for rare in [2, 3, 50, 5_000, u64::MAX] {
            for len in [LONG + 1, 3 * LONG - 7, 20 * LONG + 5] {
                let text = text(len, rare);
                bpe.merge(text.as_bytes(), &mut merger);
                let whole = merger.symbols.clone();
                assert!(bpe.merge_long(&text, &mut merger) == whole, "{len} letters, one in {rare} a b");
            }
        }
    }
}
