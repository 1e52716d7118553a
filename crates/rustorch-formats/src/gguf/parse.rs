//! Parsing of one file: header, metadata and tensor table. Tensor data is located, not touched.

use super::cursor::Cursor;
use super::string::LEN_BYTES;
use super::tensor::TensorInfo;
use super::{
    Array, ByteString, DEFAULT_ALIGNMENT, ErrorKind, MAGIC, MAX_ARRAY_DEPTH, MAX_DIMS, MAX_KEY_LEN,
    MAX_METADATA, MAX_TENSORS, Metadata, StrArray, Value, ValueType,
};
use crate::SharedBytes;
use rustorch_core::DType;
use std::collections::HashSet;

/// The key that overrides [`DEFAULT_ALIGNMENT`].
pub(super) const ALIGNMENT_KEY: &str = "general.alignment";

/// What one file holds.
pub(super) struct Parsed {
    pub(super) version: u32,
    pub(super) alignment: u32,
    pub(super) metadata: Metadata,
    pub(super) tensors: Vec<TensorInfo>,
}

/// Parses the file `bytes`, which is part number `part` of those that are open.
pub(super) fn parse(bytes: &SharedBytes, part: usize) -> Result<Parsed, ErrorKind> {
    let mut cursor = Cursor::new(bytes);
    let version = header(&mut cursor)?;
    let tensor_count = cursor.u64("the header")?;
    let key_count = cursor.u64("the header")?;

    let key_count = capped(key_count, MAX_METADATA)
        .ok_or(ErrorKind::TooManyKeys { count: key_count, max: MAX_METADATA as u64 })?;
    let tensor_count = capped(tensor_count, MAX_TENSORS)
        .ok_or(ErrorKind::TooManyTensors { count: tensor_count, max: MAX_TENSORS as u64 })?;
    // Before anything is reserved: the file must be long enough for so many.
    cursor.require(key_count * MIN_ENTRY_BYTES, "the metadata")?;

    let mut metadata = Metadata::with_capacity(key_count);
    for _ in 0..key_count {
        let key = key(&mut cursor)?;
        if metadata.contains(key) {
            return Err(ErrorKind::DuplicateKey { key: key.to_owned() });
        }
        let kind = value_type(&mut cursor, key)?;
        let value = value(&mut cursor, bytes, key, kind)?;
        metadata.push(key, value);
    }
    let alignment = alignment(&metadata)?;

    cursor.require(tensor_count * MIN_TENSOR_BYTES, "the tensor table")?;
    let mut raw = Vec::with_capacity(tensor_count);
    let mut names = HashSet::with_capacity(tensor_count);
    for index in 0..tensor_count {
        let tensor = RawTensor::read(&mut cursor, index)?;
        if !names.insert(tensor.name) {
            return Err(ErrorKind::DuplicateTensor { name: tensor.name.to_owned() });
        }
        raw.push(tensor);
    }
    let tensors = place(&raw, cursor.pos(), bytes.len(), alignment, part)?;
    Ok(Parsed { version, alignment, metadata, tensors })
}

/// The fewest bytes of a metadata entry: an empty key, a type, a value of one byte.
const MIN_ENTRY_BYTES: usize = LEN_BYTES + 4 + 1;
/// The fewest bytes of an entry in the tensor table: an empty name, no dimensions, a type, an offset.
const MIN_TENSOR_BYTES: usize = LEN_BYTES + 4 + 4 + 8;

fn capped(count: u64, limit: usize) -> Option<usize> {
    usize::try_from(count).ok().filter(|&count| count <= limit)
}

fn header(cursor: &mut Cursor<'_>) -> Result<u32, ErrorKind> {
    let found = cursor.array::<4>("the header")?;
    if found != MAGIC {
        return Err(ErrorKind::BadMagic { found });
    }
    match cursor.u32("the header")? {
        version @ (2 | 3) => Ok(version),
        version if matches!(version.swap_bytes(), 1..=0xFFFF) => Err(ErrorKind::BigEndian),
        version => Err(ErrorKind::UnsupportedVersion { version }),
    }
}

fn key<'a>(cursor: &mut Cursor<'a>) -> Result<&'a str, ErrorKind> {
    let offset = cursor.pos() as u64;
    let len = cursor.u64("a metadata key")?;
    let Some(len) = usize::try_from(len).ok().filter(|&len| len <= MAX_KEY_LEN) else {
        return Err(ErrorKind::KeyTooLong { offset, len });
    };
    let key = cursor.take(len, "a metadata key")?;
    std::str::from_utf8(key)
        .map_err(|_| ErrorKind::KeyNotUtf8 { key: String::from_utf8_lossy(key).into_owned() })
}

fn value_type(cursor: &mut Cursor<'_>, key: &str) -> Result<ValueType, ErrorKind> {
    let id = cursor.u32("the type of a metadata value")?;
    ValueType::from_id(id).ok_or_else(|| ErrorKind::UnknownValueType { key: key.to_owned(), id })
}

fn value(
    cursor: &mut Cursor<'_>,
    file: &SharedBytes,
    key: &str,
    kind: ValueType,
) -> Result<Value, ErrorKind> {
    const WHAT: &str = "a metadata value";
    Ok(match kind {
        ValueType::U8 => Value::U8(u8::from_le_bytes(cursor.array(WHAT)?)),
        ValueType::I8 => Value::I8(i8::from_le_bytes(cursor.array(WHAT)?)),
        ValueType::U16 => Value::U16(u16::from_le_bytes(cursor.array(WHAT)?)),
        ValueType::I16 => Value::I16(i16::from_le_bytes(cursor.array(WHAT)?)),
        ValueType::U32 => Value::U32(u32::from_le_bytes(cursor.array(WHAT)?)),
        ValueType::I32 => Value::I32(i32::from_le_bytes(cursor.array(WHAT)?)),
        ValueType::U64 => Value::U64(u64::from_le_bytes(cursor.array(WHAT)?)),
        ValueType::I64 => Value::I64(i64::from_le_bytes(cursor.array(WHAT)?)),
        ValueType::F32 => Value::F32(f32::from_le_bytes(cursor.array(WHAT)?)),
        ValueType::F64 => Value::F64(f64::from_le_bytes(cursor.array(WHAT)?)),
        ValueType::Bool => Value::Bool(boolean(cursor.array::<1>(WHAT)?[0], key)?),
        ValueType::Str => Value::Str(ByteString::from(string(cursor, key)?)),
        ValueType::Array => Value::Array(array(cursor, file, key, 1)?),
    })
}

fn boolean(byte: u8, key: &str) -> Result<bool, ErrorKind> {
    match byte {
        0 => Ok(false),
        1 => Ok(true),
        value => Err(ErrorKind::BadBool { key: key.to_owned(), value }),
    }
}

#[inline]
fn string<'a>(cursor: &mut Cursor<'a>, key: &str) -> Result<&'a [u8], ErrorKind> {
    let len = cursor.u64("the length of a metadata string")?;
    let remaining = cursor.remaining();
    match usize::try_from(len) {
        Ok(len) if len <= remaining => cursor.take(len, "a metadata string"),
        _ => Err(ErrorKind::StringTooLong { key: key.to_owned(), len, remaining: remaining as u64 }),
    }
}

/// The array at the cursor, in `depth - 1` others.
fn array(cursor: &mut Cursor<'_>, file: &SharedBytes, key: &str, depth: usize) -> Result<Array, ErrorKind> {
    let kind = value_type(cursor, key)?;
    let count = cursor.u64("the length of a metadata array")?;
    let remaining = cursor.remaining();
    let Some(count) = usize::try_from(count).ok().filter(|&count| count <= remaining / kind.min_bytes())
    else {
        return Err(ErrorKind::ArrayTooLong { key: key.to_owned(), count, remaining: remaining as u64 });
    };
    Ok(match kind {
        ValueType::U8 => Array::U8(scalars(cursor, count, u8::from_le_bytes)?),
        ValueType::I8 => Array::I8(scalars(cursor, count, i8::from_le_bytes)?),
        ValueType::U16 => Array::U16(scalars(cursor, count, u16::from_le_bytes)?),
        ValueType::I16 => Array::I16(scalars(cursor, count, i16::from_le_bytes)?),
        ValueType::U32 => Array::U32(scalars(cursor, count, u32::from_le_bytes)?),
        ValueType::I32 => Array::I32(scalars(cursor, count, i32::from_le_bytes)?),
        ValueType::U64 => Array::U64(scalars(cursor, count, u64::from_le_bytes)?),
        ValueType::I64 => Array::I64(scalars(cursor, count, i64::from_le_bytes)?),
        ValueType::F32 => Array::F32(scalars(cursor, count, f32::from_le_bytes)?),
        ValueType::F64 => Array::F64(scalars(cursor, count, f64::from_le_bytes)?),
        ValueType::Bool => {
            let bytes = cursor.take(count, ELEMENTS)?;
            Array::Bool(bytes.iter().map(|&byte| boolean(byte, key)).collect::<Result<_, _>>()?)
        }
        ValueType::Str => {
            let first = cursor.pos();
            let mut starts = Vec::with_capacity(count);
            for _ in 0..count {
                let len = string(cursor, key)?.len();
                starts.push(cursor.pos() - len - first);
            }
            let encoded = file.slice(first..cursor.pos()).expect("the cursor stays within the file");
            Array::Str(StrArray::from_encoded(encoded, starts))
        }
        ValueType::Array => {
            if depth >= MAX_ARRAY_DEPTH {
                return Err(ErrorKind::ArrayTooDeep { key: key.to_owned(), max: MAX_ARRAY_DEPTH });
            }
            // Grown, not reserved: an `Array` is larger than the shortest array in a file.
            let mut arrays = Vec::new();
            for _ in 0..count {
                arrays.push(array(cursor, file, key, depth + 1)?);
            }
            Array::Array(arrays)
        }
    })
}

const ELEMENTS: &str = "the elements of a metadata array";

/// `count` scalars of `N` bytes; the caller has checked that `count * N` bytes are left.
fn scalars<T, const N: usize>(
    cursor: &mut Cursor<'_>,
    count: usize,
    from: fn([u8; N]) -> T,
) -> Result<Vec<T>, ErrorKind> {
    let bytes = cursor.take(count * N, ELEMENTS)?;
    Ok(bytes.as_chunks::<N>().0.iter().map(|&chunk| from(chunk)).collect())
}

pub(super) fn alignment(metadata: &Metadata) -> Result<u32, ErrorKind> {
    match metadata.find::<u64>(ALIGNMENT_KEY).map_err(super::Error::into_kind)? {
        None => Ok(DEFAULT_ALIGNMENT),
        Some(alignment) => u32::try_from(alignment)
            .ok()
            .filter(|alignment| alignment.is_power_of_two())
            .ok_or(ErrorKind::BadAlignment { alignment }),
    }
}

/// An entry of the tensor table, its offset not yet checked.
struct RawTensor<'a> {
    name: &'a str,
    shape: Vec<usize>,
    dtype: DType,
    offset: u64,
    bytes: usize,
}

impl<'a> RawTensor<'a> {
    fn read(cursor: &mut Cursor<'a>, index: usize) -> Result<Self, ErrorKind> {
        const WHAT: &str = "the tensor table";
        let len = cursor.u64(WHAT)?;
        let Some(len) = usize::try_from(len).ok().filter(|&len| len <= MAX_KEY_LEN) else {
            return Err(ErrorKind::NameTooLong { index, len });
        };
        let name = cursor.take(len, WHAT)?;
        let name = std::str::from_utf8(name)
            .map_err(|_| ErrorKind::NameNotUtf8 { name: String::from_utf8_lossy(name).into_owned() })?;

        let dims = cursor.u32(WHAT)?;
        if dims as usize > MAX_DIMS {
            return Err(ErrorKind::TooManyDims { tensor: name.to_owned(), dims: dims.into() });
        }
        let mut shape = [0u64; MAX_DIMS];
        let shape = &mut shape[..dims as usize];
        // The file has the innermost dimension first.
        for dim in shape.iter_mut().rev() {
            *dim = cursor.u64(WHAT)?;
        }
        let id = cursor.u32(WHAT)?;
        let dtype = DType::from_ggml_id(id)
            .ok_or_else(|| ErrorKind::UnknownTensorType { tensor: name.to_owned(), id })?;
        let offset = cursor.u64(WHAT)?;
        let (shape, bytes) = size(name, shape, dtype)?;
        Ok(Self { name, shape, dtype, offset, bytes })
    }
}

/// The shape of a tensor in `usize` and its size in bytes, with everything about them checked.
pub(super) fn size(name: &str, shape: &[u64], dtype: DType) -> Result<(Vec<usize>, usize), ErrorKind> {
    if shape.len() > MAX_DIMS {
        return Err(ErrorKind::TooManyDims { tensor: name.to_owned(), dims: shape.len() as u64 });
    }
    if shape.contains(&0) {
        return Err(ErrorKind::ZeroDim { tensor: name.to_owned(), shape: shape.to_vec() });
    }
    let row = shape.last().copied().unwrap_or(1);
    if !row.is_multiple_of(dtype.block_len() as u64) {
        let (tensor, block) = (name.to_owned(), dtype.block_len());
        return Err(ErrorKind::PartialBlock { tensor, dtype, row, block });
    }
    let too_large = || ErrorKind::TensorTooLarge { tensor: name.to_owned(), shape: shape.to_vec() };
    let dims: Vec<usize> =
        shape.iter().map(|&dim| usize::try_from(dim)).collect::<Result<_, _>>().map_err(|_| too_large())?;
    let elements = dims.iter().try_fold(1usize, |n, &dim| n.checked_mul(dim));
    // No slice is longer than isize::MAX bytes, and rounding up to an alignment must not overflow either.
    let bytes =
        elements.and_then(|elements| dtype.bytes_for(elements)).filter(|&bytes| bytes <= isize::MAX as usize);
    bytes.map(|bytes| (dims, bytes)).ok_or_else(too_large)
}

/// Locates the tensors in a file of `file_len` bytes whose tensor table ends at `table_end`.
fn place(
    raw: &[RawTensor<'_>],
    table_end: usize,
    file_len: usize,
    alignment: u32,
    part: usize,
) -> Result<Vec<TensorInfo>, ErrorKind> {
    // Both fit: the table ends within the file, and the alignment is a u32.
    let data_start = (table_end as u64).next_multiple_of(alignment.into());
    let mut spans = Vec::with_capacity(raw.len());
    for tensor in raw {
        let offset = tensor.offset;
        if !offset.is_multiple_of(alignment.into()) {
            return Err(ErrorKind::MisalignedOffset { tensor: tensor.name.to_owned(), offset, alignment });
        }
        let span = data_start
            .checked_add(offset)
            .and_then(|start| start.checked_add(tensor.bytes as u64).map(|end| start..end))
            .ok_or_else(|| ErrorKind::OffsetOverflow { tensor: tensor.name.to_owned(), offset })?;
        spans.push(span);
    }
    if let Some((span, tensor)) = spans.iter().zip(raw).max_by_key(|(span, _)| span.end)
        && span.end > file_len as u64
    {
        let tensor = tensor.name.to_owned();
        return Err(ErrorKind::TensorOutOfFile { tensor, expected: span.end, actual: file_len as u64 });
    }
    let mut order: Vec<usize> = (0..spans.len()).collect();
    order.sort_by_key(|&i| spans[i].start);
    if let Some(pair) = order.windows(2).find(|pair| spans[pair[0]].end > spans[pair[1]].start) {
        let [first, second] = [pair[0], pair[1]].map(|i| raw[i].name.to_owned());
        return Err(ErrorKind::OverlappingTensors { first, second });
    }
    // Every end is within the file, hence fits usize.
    let infos = raw.iter().zip(spans).map(|(tensor, span)| TensorInfo {
        name: tensor.name.into(),
        shape: tensor.shape.clone(),
        dtype: tensor.dtype,
        part,
        range: span.start as usize..span.end as usize,
    });
    Ok(infos.collect())
}
