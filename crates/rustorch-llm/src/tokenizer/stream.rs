//! Decoding a stream of tokens into text, never cutting a character.

use super::{Attributes, Tokenizer};

/// Turns token ids, one at a time, into text that can be shown at once.
///
/// A token may end inside a character: its bytes wait until the character is whole. Bytes that can no longer become a
/// character turn into U+FFFD, exactly as if all bytes had been decoded together. Unlike
/// [`Tokenizer::decode`], the space that SPM puts before a text is kept, since a stream continues a prompt.
///
/// ```
/// # use rustorch_llm::tokenizer::{ModelKind, TokenType, Tokenizer, Vocab};
/// # let mut vocab = Vocab::new(ModelKind::Spm, "", ["<unk>", "<s>", "</s>", "<0xC3>", "<0xA9>", "a"]);
/// # vocab.types = vec![TokenType::Unknown, TokenType::Control, TokenType::Control, TokenType::Byte, TokenType::Byte, TokenType::Normal];
/// # let tokenizer = Tokenizer::new(vocab)?;
/// let mut stream = tokenizer.stream(false);
/// assert_eq!(stream.push(5), "a");
/// assert_eq!(stream.push(3), ""); // first byte of é
/// assert_eq!(stream.push(4), "é");
/// assert_eq!(stream.finish(), "");
/// # Ok::<(), rustorch_llm::tokenizer::TokenizerError>(())
/// ```
#[derive(Clone, Debug)]
pub struct StreamDecoder<'t> {
    tokenizer: &'t Tokenizer,
    special: bool,
    utf8: Utf8Stream,
}

impl<'t> StreamDecoder<'t> {
    pub(super) fn new(tokenizer: &'t Tokenizer, special: bool) -> StreamDecoder<'t> {
        StreamDecoder { tokenizer, special, utf8: Utf8Stream::default() }
    }

    /// The text that is certain after `id`; empty while a character is incomplete, and for control tokens unless
    /// special tokens are shown.
    pub fn push(&mut self, id: u32) -> String {
        if !self.special && self.tokenizer.has(id, Attributes::CONTROL.and(Attributes::UNKNOWN)) {
            return String::new();
        }
        self.utf8.push(self.tokenizer.piece(id))
    }

    /// Ends the stream: U+FFFD if a character was left incomplete.
    pub fn finish(&mut self) -> String {
        self.utf8.finish()
    }
}

/// Decodes UTF-8 that arrives in parts.
#[derive(Clone, Debug, Default)]
pub struct Utf8Stream {
    /// The start of a character, at most three bytes.
    tail: Vec<u8>,
}

impl Utf8Stream {
    /// The text that is certain after `bytes`.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        self.tail.extend_from_slice(bytes);
        let mut text = String::new();
        let mut rest = self.tail.as_slice();
        loop {
            match std::str::from_utf8(rest) {
                Ok(valid) => {
                    text.push_str(valid);
                    rest = &[];
                }
                Err(error) => {
                    let (valid, after) = rest.split_at(error.valid_up_to());
                    text.push_str(std::str::from_utf8(valid).expect("checked up to here"));
                    if let Some(invalid) = error.error_len() {
                        text.push(char::REPLACEMENT_CHARACTER);
                        rest = &after[invalid..];
                        continue;
                    }
                    rest = after;
                }
            }
            break;
        }
        let kept = rest.len();
        self.tail.drain(..self.tail.len() - kept);
        text
    }

    /// Ends the stream: U+FFFD if a character was left incomplete.
    pub fn finish(&mut self) -> String {
        let incomplete = !self.tail.is_empty();
        self.tail.clear();
        if incomplete { char::REPLACEMENT_CHARACTER.to_string() } else { String::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_cut_gives_the_same_text() {
        let bytes = b"a\xC3\xA9\xF0\x9F\xA6\x99\xFF\xE2\x82x\xED\xA0\x80\xF0\x9F";
        let whole = String::from_utf8_lossy(bytes);
        for step in 1..bytes.len() {
            let mut stream = Utf8Stream::default();
            let mut text: String = bytes.chunks(step).map(|part| stream.push(part)).collect();
            text += &stream.finish();
            assert_eq!(text, whole, "in steps of {step}");
        }
    }

    #[test]
    fn characters_appear_when_whole() {
        let mut stream = Utf8Stream::default();
        assert_eq!(stream.push(b"\xF0\x9F"), "");
        assert_eq!(stream.push(b"\xA6"), "");
        assert_eq!(stream.push(b"\x99!"), "🦙!");
        assert_eq!(stream.push(b"\xC3"), "");
        assert_eq!(stream.push(b"("), "\u{FFFD}(");
        assert_eq!(stream.finish(), "");
    }
}
