//! A trie over bytes: the token texts that begin a text.

use super::hash::FastMap;

/// Texts with a value each.
#[derive(Debug, Default)]
pub(super) struct Trie {
    /// The next node for a node (in the upper bits) and a byte; the root is 0.
    next: FastMap<u64, u32>,
    /// The value of each node but the root.
    values: Vec<Option<u32>>,
}

impl Trie {
    /// Adds a text, or gives it another value. The empty text is never found.
    pub(super) fn insert(&mut self, text: &[u8], value: u32) {
        let mut node = 0;
        for &byte in text {
            let new = self.values.len() as u32 + 1;
            node = *self.next.entry(u64::from(node) << 8 | u64::from(byte)).or_insert(new);
            if node == new {
                self.values.push(None);
            }
        }
        if let Some(place) = node.checked_sub(1).and_then(|at| self.values.get_mut(at as usize)) {
            *place = Some(value);
        }
    }

    /// The texts that `text` begins with, from short to long: how long each is, and its value.
    pub(super) fn prefixes(&self, text: &[u8]) -> impl Iterator<Item = (usize, u32)> {
        let mut node = 0;
        let nodes = text.iter().map_while(move |&byte| {
            node = *self.next.get(&(u64::from(node) << 8 | u64::from(byte)))?;
            Some(node)
        });
        (1..).zip(nodes).filter_map(|(len, node)| Some((len, self.values[node as usize - 1]?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_come_from_short_to_long() {
        let mut trie = Trie::default();
        for (value, text) in ["ab", "a", "abcd", "b", "", "ab"].into_iter().enumerate() {
            trie.insert(text.as_bytes(), value as u32);
        }
        let prefixes = |text: &str| trie.prefixes(text.as_bytes()).collect::<Vec<_>>();
        assert_eq!(prefixes("abcde"), [(1, 1), (2, 5), (4, 2)]);
        assert_eq!(prefixes("abc"), [(1, 1), (2, 5)]);
        assert_eq!(prefixes("c"), []);
        assert_eq!(prefixes(""), []);
    }
}
