//! The bytes of a file before its tensor data.

use super::{Array, ErrorKind, MAGIC, MAX_ARRAY_DEPTH, Metadata, Value};
use rustorch_core::DType;

/// The version that is written.
const VERSION: u32 = 3;

/// An entry of the tensor table.
pub(super) struct Entry<'a> {
    pub(super) name: &'a str,
    /// Outermost dimension first.
    pub(super) shape: &'a [usize],
    pub(super) dtype: DType,
    /// From the start of the tensor data.
    pub(super) offset: u64,
}

/// Header, metadata and tensor table.
pub(super) fn head(metadata: &Metadata, tensors: &[Entry<'_>]) -> Result<Vec<u8>, ErrorKind> {
    let mut out = Vec::new();
    out.extend_from_slice(&MAGIC);
    put_u32(&mut out, VERSION);
    put_u64(&mut out, tensors.len() as u64);
    put_u64(&mut out, metadata.len() as u64);
    for (key, value) in metadata.iter() {
        put_string(&mut out, key.as_bytes());
        put_u32(&mut out, value.value_type().id());
        put_value(&mut out, key, value)?;
    }
    for tensor in tensors {
        let unsupported =
            || ErrorKind::UnsupportedDType { tensor: tensor.name.to_owned(), dtype: tensor.dtype };
        put_string(&mut out, tensor.name.as_bytes());
        put_u32(&mut out, tensor.shape.len() as u32);
        for &dim in tensor.shape.iter().rev() {
            put_u64(&mut out, dim as u64);
        }
        put_u32(&mut out, tensor.dtype.ggml_id().ok_or_else(unsupported)?);
        put_u64(&mut out, tensor.offset);
    }
    Ok(out)
}

fn put_u32(out: &mut Vec<u8>, v: u32) {
    out.extend_from_slice(&v.to_le_bytes());
}

fn put_u64(out: &mut Vec<u8>, v: u64) {
    out.extend_from_slice(&v.to_le_bytes());
}

fn put_string(out: &mut Vec<u8>, bytes: &[u8]) {
    put_u64(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn put_value(out: &mut Vec<u8>, key: &str, value: &Value) -> Result<(), ErrorKind> {
    match value {
        Value::U8(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::I8(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::U16(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::I16(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::U32(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::I32(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::U64(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::I64(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::F32(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::F64(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::Bool(v) => out.push(u8::from(*v)),
        Value::Str(v) => put_string(out, v),
        Value::Array(v) => put_array(out, key, v, 1)?,
    }
    Ok(())
}

fn put_array(out: &mut Vec<u8>, key: &str, array: &Array, depth: usize) -> Result<(), ErrorKind> {
    fn put<T: Copy, const N: usize>(out: &mut Vec<u8>, v: &[T], bytes: fn(T) -> [u8; N]) {
        out.extend(v.iter().flat_map(|&x| bytes(x)));
    }
    if depth > MAX_ARRAY_DEPTH {
        return Err(ErrorKind::ArrayTooDeep { key: key.to_owned(), max: MAX_ARRAY_DEPTH });
    }
    put_u32(out, array.element_type().id());
    put_u64(out, array.len() as u64);
    match array {
        Array::U8(v) => out.extend_from_slice(v),
        Array::I8(v) => put(out, v, i8::to_le_bytes),
        Array::U16(v) => put(out, v, u16::to_le_bytes),
        Array::I16(v) => put(out, v, i16::to_le_bytes),
        Array::U32(v) => put(out, v, u32::to_le_bytes),
        Array::I32(v) => put(out, v, i32::to_le_bytes),
        Array::U64(v) => put(out, v, u64::to_le_bytes),
        Array::I64(v) => put(out, v, i64::to_le_bytes),
        Array::F32(v) => put(out, v, f32::to_le_bytes),
        Array::F64(v) => put(out, v, f64::to_le_bytes),
        Array::Bool(v) => put(out, v, |x| [u8::from(x)]),
        Array::Str(v) => out.extend_from_slice(v.encoded()),
        Array::Array(v) => {
            for inner in v {
                put_array(out, key, inner, depth + 1)?;
            }
        }
    }
    Ok(())
}
