//! Reading and writing headers: a length of eight bytes, and JSON.

use super::json::Strings;
use super::{ErrorKind, MAX_DIMS, MAX_HEADER_LEN, METADATA_KEY, dtype};
use rustorch_core::DType;
use safetensors::tensor::TensorInfo as Entry;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// The bytes of the header's length.
const LEN_BYTES: usize = 8;

/// What a header says of a tensor, checked.
#[derive(Clone, Debug)]
pub(super) struct TensorInfo {
    pub(super) name: Arc<str>,
    pub(super) shape: Vec<usize>,
    pub(super) dtype: DType,
    /// Which file of a sharded set holds it.
    pub(super) part: usize,
    /// Where in that file its data is; within the file, and as long as shape and dtype say.
    pub(super) range: Range<usize>,
}

/// A header; its tensors are in the order of their data.
pub(super) struct Header {
    pub(super) metadata: BTreeMap<String, String>,
    pub(super) tensors: Vec<TensorInfo>,
}

/// Reads and checks the header of a file.
pub(super) fn parse(file: &[u8]) -> Result<Header, ErrorKind> {
    let (json, data_start) = json_of(file)?;
    let mut raw = Raw::default();
    let mut parser = serde_json::Deserializer::from_str(json);
    let parsed = raw.deserialize(&mut parser).and_then(|()| parser.end());
    if let Some(kind) = raw.failure {
        return Err(kind);
    }
    parsed.map_err(|e| ErrorKind::Json { what: "the header", message: e.to_string() })?;
    if let Some(key) = raw.metadata.duplicate() {
        return Err(ErrorKind::DuplicateKey { key: key.to_owned() });
    }
    let mut names = HashSet::with_capacity(raw.tensors.len());
    if let Some((name, _)) = raw.tensors.iter().find(|(name, _)| !names.insert(&**name)) {
        return Err(ErrorKind::DuplicateTensor { name: name.clone() });
    }
    drop(names);
    let tensors = place(raw.tensors, data_start, file.len())?;
    Ok(Header { metadata: raw.metadata.0.into_iter().collect(), tensors })
}

/// The JSON of a header, and where it ends.
fn json_of(file: &[u8]) -> Result<(&str, usize), ErrorKind> {
    let mut start = [0; LEN_BYTES];
    let found = file.len().min(LEN_BYTES);
    start[..found].copy_from_slice(&file[..found]);
    let truncated = |expected: u64| ErrorKind::Truncated { expected, actual: file.len() as u64, start };
    if file.len() < LEN_BYTES {
        return Err(truncated(LEN_BYTES as u64));
    }
    let len = u64::from_le_bytes(start);
    let Some(len) = usize::try_from(len).ok().filter(|&len| len <= MAX_HEADER_LEN) else {
        return Err(ErrorKind::HeaderTooLong { len });
    };
    let end = LEN_BYTES + len;
    let Some(json) = file.get(LEN_BYTES..end) else { return Err(truncated(end as u64)) };
    if json.first() != Some(&b'{') {
        return Err(ErrorKind::BadHeaderStart { found: json[..json.len().min(4)].to_vec() });
    }
    let json = std::str::from_utf8(json)
        .map_err(|e| ErrorKind::HeaderNotUtf8 { offset: (LEN_BYTES + e.valid_up_to()) as u64 })?;
    Ok((json, end))
}

/// A header as its JSON has it.
#[derive(Default)]
struct Raw {
    metadata: Strings,
    has_metadata: bool,
    tensors: Vec<(String, Entry)>,
    /// What stopped the parser, where that was not the JSON.
    failure: Option<ErrorKind>,
}

impl<'de> DeserializeSeed<'de> for &mut Raw {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for &mut Raw {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            let named = |e: A::Error| A::Error::custom(format_args!("{key:?}: {e}"));
            if key == METADATA_KEY {
                if self.has_metadata {
                    self.failure = Some(ErrorKind::DuplicateKey { key });
                    return Err(A::Error::custom("metadata twice"));
                }
                self.has_metadata = true;
                self.metadata = map.next_value().map_err(named)?;
            } else {
                let entry = map.next_value().map_err(named)?;
                self.tensors.push((key, entry));
            }
        }
        Ok(())
    }
}

/// Checks the tensors of a file of `file_len` bytes whose header ends at `data_start`, and locates them.
fn place(
    mut entries: Vec<(String, Entry)>,
    data_start: usize,
    file_len: usize,
) -> Result<Vec<TensorInfo>, ErrorKind> {
    // The names break ties, so that errors do not depend on the order of entries.
    entries.sort_by(|(a, x), (b, y)| x.data_offsets.cmp(&y.data_offsets).then_with(|| a.cmp(b)));
    let mut tensors: Vec<TensorInfo> = Vec::with_capacity(entries.len());
    let data_len = file_len - data_start;
    let mut end_before = 0;
    for (tensor, entry) in entries {
        let (begin, end) = entry.data_offsets;
        if entry.shape.len() > MAX_DIMS {
            return Err(ErrorKind::TooManyDims { tensor, dims: entry.shape.len() });
        }
        let Some(dtype) = dtype::from_file(entry.dtype) else {
            return Err(ErrorKind::UnknownDType { tensor, dtype: entry.dtype.to_string() });
        };
        let Some(expected) = size(&entry.shape, dtype) else {
            return Err(ErrorKind::TensorTooLarge { tensor, shape: entry.shape });
        };
        if end < begin {
            return Err(ErrorKind::BadOffsets { tensor, begin, end });
        }
        if end - begin != expected {
            return Err(ErrorKind::SizeMismatch { tensor, expected, actual: end - begin });
        }
        if begin < end_before {
            let first = tensors.last().map(|info| info.name.to_string()).unwrap_or_default();
            return Err(ErrorKind::OverlappingTensors { first, second: tensor });
        }
        if begin > end_before {
            return Err(ErrorKind::Gap { tensor, len: begin - end_before });
        }
        if end > data_len {
            let expected = (data_start as u64).saturating_add(end as u64);
            return Err(ErrorKind::TensorOutOfFile { tensor, expected, actual: file_len as u64 });
        }
        end_before = end;
        let range = data_start + begin..data_start + end;
        tensors.push(TensorInfo { name: tensor.into(), shape: entry.shape, dtype, part: 0, range });
    }
    match data_len - end_before {
        0 => Ok(tensors),
        len => Err(ErrorKind::TrailingBytes { len }),
    }
}

/// The bytes of a tensor; `None` where they overflow.
pub(super) fn size(shape: &[usize], dtype: DType) -> Option<usize> {
    // Zero lengths are left out of the first product: the lengths of an empty tensor must not overflow either.
    let nonzero = shape.iter().filter(|&&dim| dim != 0).try_fold(1usize, |n, &dim| n.checked_mul(dim))?;
    let numel = if shape.contains(&0) { 0 } else { nonzero };
    dtype.bytes_for(numel).filter(|&bytes| bytes <= isize::MAX as usize)
}

/// The header, length included, of tensors whose data follows in this order, as the Python library writes it.
pub(super) fn encode<'a>(
    metadata: &BTreeMap<String, String>,
    tensors: impl Iterator<Item = (&'a str, &'a [usize], DType, usize)>,
) -> Result<Vec<u8>, ErrorKind> {
    let json_error = |e: serde_json::Error| ErrorKind::Json { what: "the header", message: e.to_string() };
    let mut out = vec![0; LEN_BYTES];
    let mut serializer = serde_json::Serializer::new(&mut out);
    let mut map = serializer.serialize_map(None).map_err(json_error)?;
    if !metadata.is_empty() {
        map.serialize_entry(METADATA_KEY, metadata).map_err(json_error)?;
    }
    let mut begin = 0usize;
    for (tensor, shape, dtype, bytes) in tensors {
        let unsupported = || ErrorKind::UnsupportedDType { tensor: tensor.to_owned(), dtype };
        let too_large = || ErrorKind::TensorTooLarge { tensor: tensor.to_owned(), shape: shape.to_vec() };
        let end = begin.checked_add(bytes).ok_or_else(too_large)?;
        let dtype = dtype::to_file(dtype).ok_or_else(unsupported)?;
        let entry = Entry { dtype, shape: shape.to_vec(), data_offsets: (begin, end) };
        map.serialize_entry(tensor, &entry).map_err(json_error)?;
        begin = end;
    }
    map.end().map_err(json_error)?;
    // Data begins at a multiple of eight bytes.
    out.resize(out.len().next_multiple_of(LEN_BYTES), b' ');
    let len = out.len() - LEN_BYTES;
    if len > MAX_HEADER_LEN {
        return Err(ErrorKind::HeaderTooLong { len: len as u64 });
    }
    out[..LEN_BYTES].copy_from_slice(&(len as u64).to_le_bytes());
    Ok(out)
}
