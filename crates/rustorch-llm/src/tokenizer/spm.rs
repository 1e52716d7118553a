//! SentencePiece encoding: characters merge into the token with the best score, whatever token results.

use super::bytes;
use super::hash::{FastMap, FastSet};
use super::merge::{Merge, Merger, Symbol};
use super::vocab::Vocab;

/// Marks a symbol that is still a single character.
const CHARACTER: u32 = u32::MAX;

/// The model: token texts, the order of their scores, and byte tokens.
#[derive(Debug)]
pub(super) struct Spm {
    tokens: FastMap<Box<[u8]>, u32>,
    /// Priority of each token: smaller for greater scores.
    priorities: Vec<u32>,
    longest: usize,
    joints: Joints,
    /// Token written for a byte of a character without token.
    fallback: [Option<u32>; 256],
}

/// Pairs of characters that are adjacent in some token. Between any other two characters no merge can happen, so
/// the text is cut there and merged part by part, with the same result.
#[derive(Debug, Default)]
struct Joints {
    ascii: Vec<u128>,
    wide: FastSet<u64>,
}

impl Joints {
    fn new<'a>(texts: impl Iterator<Item = &'a [u8]>) -> Joints {
        let mut joints = Joints { ascii: vec![0; 128], wide: FastSet::default() };
        for text in texts.filter_map(|text| std::str::from_utf8(text).ok()) {
            for (left, right) in text.chars().zip(text.chars().skip(1)) {
                if left.is_ascii() && right.is_ascii() {
                    joints.ascii[left as usize] |= 1 << right as u32;
                } else {
                    joints.wide.insert(u64::from(left) << 32 | u64::from(right));
                }
            }
        }
        joints
    }

    fn contains(&self, left: char, right: char) -> bool {
        if left.is_ascii() && right.is_ascii() {
            self.ascii[left as usize] >> right as u32 & 1 == 1
        } else {
            self.wide.contains(&(u64::from(left) << 32 | u64::from(right)))
        }
    }
}

/// Maps scores to integers in reverse order; equal scores (0.0 and -0.0 too) stay equal, NaN comes last.
fn priority(score: f32) -> u32 {
    if score.is_nan() {
        return u32::MAX;
    }
    // Adding 0.0 turns -0.0 into 0.0.
    let bits = (score + 0.0).to_bits();
    let ascending = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
    !ascending
}

impl Spm {
    /// Builds the model. `unk` replaces bytes without a token.
    pub(super) fn new(vocab: &Vocab, unk: Option<u32>) -> Spm {
        let mut tokens: FastMap<Box<[u8]>, u32> = FastMap::default();
        tokens.reserve(vocab.tokens.len());
        for (id, text) in vocab.tokens.iter().enumerate() {
            tokens.insert(text.as_slice().into(), id as u32);
        }
        let fallback = std::array::from_fn(|byte| {
            let byte = byte as u8;
            let token = tokens.get(bytes::byte_token(byte).as_bytes());
            token.or_else(|| tokens.get([byte].as_slice())).copied().or(unk)
        });
        Spm {
            priorities: (0..vocab.tokens.len() as u32).map(|id| priority(vocab.score(id))).collect(),
            longest: vocab.tokens.iter().map(Vec::len).max().unwrap_or(0),
            joints: Joints::new(vocab.tokens.iter().map(Vec::as_slice)),
            tokens,
            fallback,
        }
    }

    /// Number of byte values of UTF-8 text that cannot be encoded at all.
    pub(super) fn bytes_without_token(&self) -> usize {
        (0..=255).filter(|&b| bytes::occurs_in_text(b) && self.fallback[usize::from(b)].is_none()).count()
    }

    /// Appends the tokens of `text`, with a space before it if `prefix`.
    pub(super) fn encode(&self, text: &str, prefix: bool, merger: &mut Merger, out: &mut Vec<u32>) {
        let mut escaped = String::with_capacity(text.len() + text.len() / 2 + 3);
        for part in prefix.then_some("▁").into_iter().chain(text.split_inclusive(' ')) {
            match part.strip_suffix(' ') {
                Some(word) => {
                    escaped.push_str(word);
                    escaped.push('▁');
                }
                None => escaped.push_str(part),
            }
        }
        let (mut start, mut previous) = (0, None);
        for (at, c) in escaped.char_indices() {
            if previous.is_some_and(|previous| !self.joints.contains(previous, c)) {
                self.encode_part(&escaped[start..at], merger, out);
                start = at;
            }
            previous = Some(c);
        }
        self.encode_part(&escaped[start..], merger, out);
    }

    fn encode_part(&self, text: &str, merger: &mut Merger, out: &mut Vec<u32>) {
        merger.symbols.clear();
        merger.symbols.extend(text.char_indices().map(|(start, c)| Symbol {
            id: CHARACTER,
            start: start as u32,
            len: c.len_utf8() as u32,
        }));
        merger.run(|left, right| {
            let len = (left.len + right.len) as usize;
            if len > self.longest {
                return None;
            }
            let id = *self.tokens.get(&text.as_bytes()[left.start as usize..][..len])?;
            Some(Merge { priority: self.priorities[id as usize], id })
        });
        for symbol in &merger.symbols {
            if symbol.id != CHARACTER {
                out.push(symbol.id);
                continue;
            }
            let bytes = &text.as_bytes()[symbol.start as usize..][..symbol.len as usize];
            match self.tokens.get(bytes) {
                Some(&id) => out.push(id),
                None => out.extend(bytes.iter().filter_map(|&byte| self.fallback[usize::from(byte)])),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_reverse_scores() {
        let scores = [f32::INFINITY, 3.5, 1e-30, 0.0, -1e-30, -2.0, -1e9, f32::NEG_INFINITY, f32::NAN];
        let priorities: Vec<_> = scores.iter().map(|&score| priority(score)).collect();
        assert!(priorities.is_sorted_by(|a, b| a < b), "{priorities:?}");
        assert_eq!(priority(0.0), priority(-0.0));
    }
}
