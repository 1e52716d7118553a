//! Hash maps for vocabulary look-ups, where the default hasher's cost would dominate.
//!
//! The keys that fill these maps come from the vocabulary, not from the text, so resistance to chosen keys buys nothing.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

pub(super) type FastMap<K, V> = HashMap<K, V, BuildHasherDefault<MultiplyHasher>>;
pub(super) type FastSet<K> = HashSet<K, BuildHasherDefault<MultiplyHasher>>;

/// Folds eight bytes at a time with a 64×64→128-bit multiplication.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MultiplyHasher(u64);

impl MultiplyHasher {
    #[inline]
    fn fold(&mut self, word: u64) {
        // An odd constant with well-spread bits (the fractional part of the golden ratio).
        let product =
            u128::from(self.0 ^ word ^ 0x9E37_79B9_7F4A_7C15) * u128::from(0xD6E8_FEB8_6659_FD93u64);
        self.0 = (product as u64) ^ (product >> 64) as u64;
    }
}

impl Hasher for MultiplyHasher {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        let (words, tail) = bytes.as_chunks::<8>();
        for word in words {
            self.fold(u64::from_le_bytes(*word));
        }
        if !tail.is_empty() {
            let mut word = [0u8; 8];
            word[..tail.len()].copy_from_slice(tail);
            self.fold(u64::from_le_bytes(word) ^ (tail.len() as u64) << 56);
        }
    }

    #[inline]
    fn write_u8(&mut self, value: u8) {
        self.fold(u64::from(value));
    }

    #[inline]
    fn write_u32(&mut self, value: u32) {
        self.fold(u64::from(value));
    }

    #[inline]
    fn write_u64(&mut self, value: u64) {
        self.fold(value);
    }

    #[inline]
    fn write_usize(&mut self, value: usize) {
        self.fold(value as u64);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}
