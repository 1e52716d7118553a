//! The byte characters of byte-level BPE: every byte written as one printable character.
//!
//! GPT-2's table: printable Latin-1 bytes stand for themselves, the other 68 become U+0100 and up in order, so that a
//! space is `Ġ` (U+0120) and a newline `Ċ` (U+010A).

use std::sync::LazyLock;

/// The byte of each character U+0000..U+0144, or `None` where the character stands for no byte.
static BYTES: LazyLock<[Option<u8>; 0x144]> = LazyLock::new(|| {
    let mut bytes = [None; 0x144];
    let mut next = 0x100;
    for byte in 0..=255u8 {
        let printable = matches!(byte, 0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF);
        let c = if printable {
            usize::from(byte)
        } else {
            next += 1;
            next - 1
        };
        bytes[c] = Some(byte);
    }
    bytes
});

/// The byte that `c` stands for.
pub(super) fn byte_of(c: char) -> Option<u8> {
    BYTES.get(c as usize).copied().flatten()
}

/// Appends the bytes that `text` stands for; `None` (and some of them) if a character of it stands for none.
pub(super) fn decode_into(text: &[u8], out: &mut Vec<u8>) -> Option<()> {
    for c in std::str::from_utf8(text).ok()?.chars() {
        out.push(byte_of(c)?);
    }
    Some(())
}

/// The bytes that `text` stands for, or `None` if a character of it stands for none.
fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    decode_into(text, &mut out).map(|()| out)
}

/// The bytes that `text` stands for; a character that stands for none is written as llama.cpp writes it.
pub(super) fn decode_or_mark(text: &[u8]) -> Vec<u8> {
    if let Some(bytes) = decode(text) {
        return bytes;
    }
    let text = String::from_utf8_lossy(text);
    let mut out = Vec::new();
    for c in text.chars() {
        match byte_of(c) {
            Some(byte) => out.push(byte),
            None => {
                out.extend_from_slice(b"[UNK_BYTE_0x");
                let mut buffer = [0; 4];
                for byte in c.encode_utf8(&mut buffer).bytes() {
                    out.extend_from_slice(format!("{byte:02x}").as_bytes());
                }
                out.extend_from_slice(text.as_bytes());
                out.push(b']');
            }
        }
    }
    out
}

/// Whether UTF-8 text can hold the byte.
pub(super) fn occurs_in_text(byte: u8) -> bool {
    !matches!(byte, 0xC0 | 0xC1 | 0xF5..)
}

/// The value of a byte token's text `<0xXX>`.
pub(super) fn parse_byte_token(text: &[u8]) -> Option<u8> {
    let hex = text.strip_prefix(b"<0x")?.strip_suffix(b">")?;
    let [high, low] = hex else { return None };
    let digit = |byte: &u8| (*byte as char).to_digit(16);
    Some((digit(high)? * 16 + digit(low)?) as u8)
}

/// The text of the byte token of `byte`: `<0xXX>` with upper-case digits.
pub(super) fn byte_token(byte: u8) -> String {
    format!("<0x{byte:02X}>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_characters() {
        assert_eq!(decode("Ġa".as_bytes()).unwrap(), b" a");
        assert_eq!(decode("Ċ".as_bytes()).unwrap(), b"\n");
        assert_eq!(decode("ĉ".as_bytes()).unwrap(), b"\t");
        assert_eq!(decode("Ń".as_bytes()).unwrap(), [0xAD]);
        assert_eq!(decode("ðŁ¦Ļ".as_bytes()).unwrap(), "🦙".as_bytes());
        assert!(decode("a b".as_bytes()).is_none());
        assert!(decode("▁".as_bytes()).is_none());
    }

    #[test]
    fn each_byte_has_one_character() {
        let mut seen = [0; 256];
        (0..0x200u32).filter_map(char::from_u32).filter_map(byte_of).for_each(|b| seen[usize::from(b)] += 1);
        assert_eq!(seen, [1; 256]);
    }

    #[test]
    fn byte_tokens() {
        assert_eq!(parse_byte_token(b"<0x0A>"), Some(10));
        assert_eq!(parse_byte_token(b"<0xff>"), Some(255));
        assert_eq!(parse_byte_token(b"<0x1>"), None);
        assert_eq!(parse_byte_token(byte_token(0xE2).as_bytes()), Some(0xE2));
    }
}
