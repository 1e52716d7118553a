//! Values of tensors, from and to the dtypes of files.

use rustorch_core::{DType, bf16, f16};
use rustorch_quant::{dequantize, quantize};

/// The values of a row or more as `f32`; `None` of dtypes that are no weights.
pub(crate) fn to_f32(dtype: DType, bytes: &[u8]) -> Option<Vec<f32>> {
    let words = || bytes.chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]]));
    Some(match dtype {
        DType::F32 => bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect(),
        DType::F16 => words().map(|bits| f16::from_bits(bits).to_f32()).collect(),
        DType::BF16 => words().map(|bits| bf16::from_bits(bits).to_f32()).collect(),
        DType::Quant(quant) => {
            let mut values = vec![0.0; bytes.len() / quant.block_bytes() * quant.block_len()];
            // The file's reader has checked that rows are whole blocks.
            dequantize(quant, bytes, &mut values).ok()?;
            values
        }
        DType::Bool
        | DType::U8
        | DType::I8
        | DType::I16
        | DType::I32
        | DType::U32
        | DType::I64
        | DType::F64
        | DType::C64
        | DType::C128 => return None,
    })
}

/// Writes values in another dtype, one that [`is_writable`](super::is_writable).
pub(crate) fn from_f32(
    dtype: DType,
    values: &[f32],
    importance: Option<&[f32]>,
    out: &mut [u8],
) -> Result<(), String> {
    let words = |out: &mut [u8], to_bits: fn(f32) -> u16| {
        for (b, x) in out.chunks_exact_mut(2).zip(values) {
            b.copy_from_slice(&to_bits(*x).to_le_bytes());
        }
    };
    match dtype {
        DType::F16 => words(out, |x| f16::from_f32(x).to_bits()),
        DType::BF16 => words(out, |x| bf16::from_f32(x).to_bits()),
        DType::Quant(quant) => return quantize(quant, values, importance, out).map_err(|e| e.to_string()),
        _ => {
            for (b, x) in out.chunks_exact_mut(4).zip(values) {
                b.copy_from_slice(&x.to_le_bytes());
            }
        }
    }
    Ok(())
}
