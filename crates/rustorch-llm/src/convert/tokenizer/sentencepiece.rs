//! `tokenizer.model`: a protocol buffer of SentencePiece, of which the pieces are read.

use super::{
    BYTE, CONTROL, Folder, NORMAL, Tokens, UNKNOWN, UNUSED, USER_DEFINED, added, kind_of_added, malformed,
};
use crate::convert::ConvertError;
use serde_json::Value;

/// The score of tokens that the configuration adds, and of ids that no token has.
const ADDED_SCORE: f32 = -1000.0;
const PADDING_SCORE: f32 = -10_000.0;

/// The tokens of a vocabulary of this size, with those that the configuration adds.
pub(super) fn read(
    model: &[u8],
    size: Option<usize>,
    folder: &Folder,
    settings: Option<&Value>,
) -> Result<Tokens, ConvertError> {
    let pieces =
        pieces(model).ok_or_else(|| malformed(folder, "tokenizer.model", "is no SentencePiece model"))?;
    let size = size.unwrap_or(pieces.len());
    let mut tokens = Tokens::default();
    for id in 0..size {
        match pieces.get(id) {
            Some(piece) => tokens.push(piece.text.clone(), Some(piece.score), piece.kind),
            None => tokens.push(format!("[PAD{id}]"), Some(PADDING_SCORE), UNUSED),
        }
    }
    let mut replace = |id: usize, text: String, kind: i32| {
        if id < size {
            (tokens.texts[id], tokens.scores[id], tokens.kinds[id]) = (text, ADDED_SCORE, kind);
        }
    };
    if let Some(Value::Object(added)) = folder.json("added_tokens.json")? {
        for (text, id) in added {
            let id = id.as_u64().and_then(|id| usize::try_from(id).ok());
            let id =
                id.ok_or_else(|| malformed(folder, "added_tokens.json", format!("gives {text:?} no id")))?;
            replace(id, text, USER_DEFINED);
        }
    }
    let decoder = settings.and_then(|settings| settings.get("added_tokens_decoder")?.as_object());
    for (id, token) in decoder.into_iter().flatten() {
        let (Ok(id), Some((content, steers))) = (id.parse(), added(token)) else {
            let message = format!("has an added token without id or content: {token}");
            return Err(malformed(folder, "tokenizer_config.json", message));
        };
        let (text, kind) = kind_of_added(content, steers);
        replace(id, text, kind);
    }
    Ok(tokens)
}

struct Piece {
    text: String,
    score: f32,
    kind: i32,
}

/// The pieces of a model, which are its first field.
fn pieces(mut model: &[u8]) -> Option<Vec<Piece>> {
    let mut pieces = Vec::new();
    while !model.is_empty() {
        if let (1, Field::Bytes(piece)) = field(&mut model)? {
            pieces.push(self::piece(piece)?);
        }
    }
    (!pieces.is_empty()).then_some(pieces)
}

/// Text, score and kind; the kinds of SentencePiece have other numbers than those of llama.cpp.
fn piece(mut bytes: &[u8]) -> Option<Piece> {
    let mut piece = Piece { text: String::new(), score: 0.0, kind: NORMAL };
    while !bytes.is_empty() {
        match field(&mut bytes)? {
            (1, Field::Bytes(text)) => piece.text = String::from_utf8(text.to_vec()).ok()?,
            (2, Field::Word(score)) => piece.score = f32::from_le_bytes(score),
            (3, Field::Integer(kind)) => {
                piece.kind = match kind {
                    2 => UNKNOWN,
                    3 => CONTROL,
                    5 => UNUSED,
                    6 => BYTE,
                    // Those of the user, 4, are as others.
                    _ => NORMAL,
                }
            }
            _ => {}
        }
    }
    Some(piece)
}

/// The value of a field of a protocol buffer.
enum Field<'a> {
    Integer(u64),
    Bytes(&'a [u8]),
    Word([u8; 4]),
    Long,
}

/// The number and value of the next field.
fn field<'a>(bytes: &mut &'a [u8]) -> Option<(u64, Field<'a>)> {
    let tag = integer(bytes)?;
    let value = match tag & 7 {
        0 => Field::Integer(integer(bytes)?),
        1 => {
            take(bytes, 8)?;
            Field::Long
        }
        2 => {
            let len = usize::try_from(integer(bytes)?).ok()?;
            Field::Bytes(take(bytes, len)?)
        }
        5 => Field::Word(take(bytes, 4)?.try_into().ok()?),
        _ => return None,
    };
    Some((tag >> 3, value))
}

/// A number in groups of seven bits, the lowest first.
fn integer(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(bytes, 1)?[0];
        value |= u64::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

fn take<'a>(bytes: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (taken, left) = bytes.split_at_checked(len)?;
    *bytes = left;
    Some(taken)
}
