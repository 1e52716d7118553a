//! WordPiece encoding (BERT): each word as the longest tokens that it is made of, from left to right.

use super::hash::FastMap;
use super::pretokenizer::category::{MARK, PUNCTUATION, SYMBOL};
use super::pretokenizer::category_of;
use super::vocab::Vocab;
use unicode_general_category::{GeneralCategory, get_general_category};
use unicode_normalization::char::decompose_canonical;

/// Stands before a word in the vocabulary; tokens without it continue a word.
const WORD: char = '▁';

/// The model: token texts, and what happens to a text before it is cut into words.
#[derive(Debug)]
pub(super) struct Wpm {
    tokens: FastMap<Box<[u8]>, u32>,
    longest: usize,
    unk: Option<u32>,
    lowercase: bool,
    strip_accents: bool,
}

impl Wpm {
    /// Builds the model. `unk` stands for words that tokens cannot express.
    pub(super) fn new(vocab: &Vocab, unk: Option<u32>) -> Wpm {
        let texts = || vocab.tokens.iter().map(Vec::as_slice);
        Wpm {
            tokens: texts().map(Into::into).zip(0..).collect(),
            longest: texts().map(<[u8]>::len).max().unwrap_or(0),
            unk,
            lowercase: vocab.lowercase,
            strip_accents: vocab.strip_accents,
        }
    }

    /// Appends the tokens of `text`.
    pub(super) fn encode(&self, text: &str, out: &mut Vec<u32>) {
        let mut word = String::from(WORD);
        for c in text.chars() {
            let c = if self.strip_accents { without_accents(c) } else { c };
            let category = category_of(c);
            if c.is_whitespace() {
                self.end_word(&mut word, out);
            } else if is_left_out(c) || self.strip_accents && category & MARK != 0 {
                continue;
            } else {
                let alone = stands_alone(c, category);
                if alone {
                    self.end_word(&mut word, out);
                }
                word.push(if self.lowercase { lowercase(c) } else { c });
                if alone {
                    self.end_word(&mut word, out);
                }
            }
        }
        self.end_word(&mut word, out);
    }

    /// Appends the tokens of a word, if it has a character, and leaves the beginning of the next.
    fn end_word(&self, word: &mut String, out: &mut Vec<u32>) {
        if word.len() == WORD.len_utf8() {
            return;
        }
        let (bytes, before) = (word.as_bytes(), out.len());
        let mut at = 0;
        while at < bytes.len() {
            let furthest = bytes.len().min(at + self.longest);
            let token =
                (at + 1..=furthest).rev().find_map(|end| Some((end, *self.tokens.get(&bytes[at..end])?)));
            let Some((end, id)) = token else {
                out.truncate(before);
                out.extend(self.unk);
                break;
            };
            out.push(id);
            at = end;
        }
        word.truncate(WORD.len_utf8());
    }
}

/// The character that accents are added to; as in llama.cpp only the first of a canonical decomposition.
fn without_accents(c: char) -> char {
    let mut first = None;
    decompose_canonical(c, |part| {
        first.get_or_insert(part);
    });
    first.unwrap_or(c)
}

/// The letter that llama.cpp takes for a lower-case one.
pub(super) fn lowercase(c: char) -> char {
    c.to_lowercase().next().unwrap_or(c)
}

fn is_left_out(c: char) -> bool {
    use GeneralCategory as G;
    matches!(c, '\0' | char::REPLACEMENT_CHARACTER)
        || matches!(get_general_category(c), G::Control | G::Format | G::PrivateUse)
}

/// Punctuation, ASCII symbols and Chinese characters are words of their own.
fn stands_alone(c: char, category: u8) -> bool {
    category & PUNCTUATION != 0 || category & SYMBOL != 0 && c.is_ascii() || is_chinese(c)
}

/// BERT's ranges, of which one begins where Hugging Face's implementation lets it begin.
fn is_chinese(c: char) -> bool {
    matches!(
        c,
        '\u{4E00}'..='\u{9FFF}'
            | '\u{3400}'..='\u{4DBF}'
            | '\u{20000}'..='\u{2A6DF}'
            | '\u{2A700}'..='\u{2B73F}'
            | '\u{2B740}'..='\u{2B81F}'
            | '\u{2B920}'..='\u{2CEAF}'
            | '\u{F900}'..='\u{FAFF}'
            | '\u{2F800}'..='\u{2FA1F}'
    )
}
