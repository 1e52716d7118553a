//! SentencePiece's precompiled normalisation: what the beginning of a text is replaced by.
//!
//! A double array compressed by XOR (Kanda, "Space- and time-efficient string dictionaries", 2018) and the replacements, ended by a
//! zero byte each. An entry has the base in bits 10 to 30, shifted by 8 where bit 9 is set, whether a replacement ends here in bit 8,
//! and in bits 0 to 7 the byte that leads to it; an entry that holds a replacement's place has bit 31 set.

use super::error::TokenizerError;

/// The map. Nothing in a file that contradicts itself is followed: what it leads to is not replaced.
#[derive(Debug, Default)]
pub(super) struct Charsmap {
    entries: Vec<u32>,
    replacements: Vec<u8>,
}

impl Charsmap {
    /// Reads the map of a file; an empty one replaces nothing.
    pub(super) fn new(bytes: &[u8]) -> Result<Charsmap, TokenizerError> {
        if bytes.is_empty() {
            return Ok(Charsmap::default());
        }
        let (size, rest) = bytes.split_first_chunk::<4>().ok_or(TokenizerError::Charsmap)?;
        let size = u32::from_le_bytes(*size) as usize;
        if size >= rest.len() {
            return Err(TokenizerError::Charsmap);
        }
        let (entries, replacements) = rest.split_at(size);
        let (entries, _) = entries.as_chunks::<4>();
        Ok(Charsmap {
            entries: entries.iter().map(|&entry| u32::from_le_bytes(entry)).collect(),
            replacements: replacements.to_vec(),
        })
    }

    /// The longest beginning of `text` that is replaced: its length, and what stands for it.
    pub(super) fn replacement(&self, text: &[u8]) -> Option<(usize, &[u8])> {
        let entry = |at: u32| self.entries.get(at as usize).copied();
        let base = |entry: u32| (entry >> 10) << ((entry & 1 << 9) >> 6);
        let mut at = base(entry(0)?);
        let mut longest = None;
        for (i, &byte) in text.iter().enumerate().take_while(|&(_, &byte)| byte != 0) {
            at ^= u32::from(byte);
            let Some(node) = entry(at).filter(|node| node & (1 << 31 | 0xFF) == u32::from(byte)) else {
                break;
            };
            at ^= base(node);
            if node >> 8 & 1 == 1 {
                longest = entry(at).map(|leaf| (i + 1, (leaf & !(1 << 31)) as usize)).or(longest);
            }
        }
        let (len, start) = longest?;
        let rest = self.replacements.get(start..)?;
        let end = rest.iter().position(|&byte| byte == 0)?;
        Some((len, &rest[..end]))
    }
}
