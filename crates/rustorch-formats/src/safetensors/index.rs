//! Indexes of sharded sets: which file has which tensor.

use super::json::Strings;
use super::{ErrorKind, MAX_HEADER_LEN, MAX_SHARDS};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt;

/// An index, checked: the files by name, each with its tensors.
#[derive(Debug)]
pub(super) struct Index {
    pub(super) files: BTreeMap<String, Vec<String>>,
}

/// The name of file `no` (from 0) of `count`: `model-00001-of-00003.safetensors`.
pub(super) fn shard_file_name(prefix: &str, no: usize, count: usize) -> String {
    format!("{prefix}-{:05}-of-{count:05}.safetensors", no + 1)
}

pub(super) fn parse(bytes: &[u8]) -> Result<Index, ErrorKind> {
    if bytes.len() > MAX_HEADER_LEN {
        return Err(ErrorKind::HeaderTooLong { len: bytes.len() as u64 });
    }
    let raw: Raw = serde_json::from_slice(bytes)
        .map_err(|e| ErrorKind::Json { what: "the index", message: e.to_string() })?;
    if let Some(name) = raw.0.duplicate() {
        return Err(ErrorKind::DuplicateTensor { name: name.to_owned() });
    }
    let mut files = BTreeMap::<String, Vec<String>>::new();
    for (tensor, file) in raw.0.0 {
        // A name and not a path, since an index must not lead anywhere else.
        let plain = !file.is_empty() && file != "." && file != ".." && !file.contains(['/', '\\', '\0', ':']);
        if !plain {
            return Err(ErrorKind::BadShardName { tensor, file });
        }
        files.entry(file).or_default().push(tensor);
        if files.len() > MAX_SHARDS {
            return Err(ErrorKind::TooManyShards);
        }
    }
    if files.is_empty() { Err(ErrorKind::EmptyIndex) } else { Ok(Index { files }) }
}

/// The index of `files`, each with its tensors, as `huggingface_hub` writes it.
pub(super) fn encode(files: &[(String, Vec<&str>)], total_size: u64) -> String {
    let weight_map: BTreeMap<_, _> =
        files.iter().flat_map(|(file, tensors)| tensors.iter().map(move |tensor| (*tensor, file))).collect();
    let weight_map: Map<String, Value> =
        weight_map.into_iter().map(|(tensor, file)| (tensor.to_owned(), file.clone().into())).collect();
    let index = json!({ "metadata": { "total_size": total_size }, "weight_map": weight_map });
    format!("{index:#}\n")
}

/// The `weight_map` of an index.
struct Raw(Strings);

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;

        impl<'de> Visitor<'de> for Entries {
            type Value = Raw;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with a `weight_map`")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Raw, A::Error> {
                let mut found = None;
                while let Some(key) = map.next_key::<String>()? {
                    if key != "weight_map" {
                        map.next_value::<IgnoredAny>()?;
                    } else if found.replace(map.next_value()?).is_some() {
                        return Err(serde::de::Error::duplicate_field("weight_map"));
                    }
                }
                Ok(Raw(found.unwrap_or_default()))
            }
        }

        deserializer.deserialize_map(Entries)
    }
}
