//! JSON objects as lists of entries, so that a key that occurs twice is found.

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use std::fmt;

/// An object of strings.
#[derive(Debug, Default)]
pub(super) struct Strings(pub(super) Vec<(String, String)>);

impl Strings {
    /// A key that occurs twice.
    pub(super) fn duplicate(&self) -> Option<&str> {
        let mut keys: Vec<_> = self.0.iter().map(|(key, _)| &**key).collect();
        keys.sort_unstable();
        keys.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
    }
}

impl<'de> Deserialize<'de> for Strings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;

        impl<'de> Visitor<'de> for Entries {
            type Value = Strings;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of strings")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Strings, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Strings(entries))
            }
        }

        deserializer.deserialize_map(Entries)
    }
}
