//! Floats of programs: their dtypes, and conversion to them.

use half::slice::HalfFloatSliceExt;
use rustorch_core::{DType, f16};

/// The dtype of a program's floats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum FloatDtype {
    F16,
    F32,
}

impl FloatDtype {
    /// Of a dtype that is one of the two.
    pub(crate) fn of(dtype: DType) -> Option<FloatDtype> {
        match dtype {
            DType::F16 => Some(FloatDtype::F16),
            DType::F32 => Some(FloatDtype::F32),
            _ => None,
        }
    }

    pub(crate) fn dtype(self) -> DType {
        match self {
            FloatDtype::F16 => DType::F16,
            FloatDtype::F32 => DType::F32,
        }
    }

    pub(crate) fn bytes(self) -> usize {
        match self {
            FloatDtype::F16 => 2,
            FloatDtype::F32 => 4,
        }
    }

    /// Its number in `weight.bin`.
    pub(crate) fn blob(self) -> u32 {
        match self {
            FloatDtype::F16 => 1,
            FloatDtype::F32 => 2,
        }
    }

    /// Appends values as little-endian bytes.
    pub(crate) fn append(self, values: &[f32], out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + values.len() * self.bytes(), 0);
        let out = &mut out[start..];
        match self {
            FloatDtype::F16 => {
                let words = to_f16s(values);
                out.chunks_exact_mut(2)
                    .zip(words)
                    .for_each(|(two, word)| two.copy_from_slice(&word.to_le_bytes()));
            }
            FloatDtype::F32 => {
                out.chunks_exact_mut(4)
                    .zip(values)
                    .for_each(|(four, value)| four.copy_from_slice(&value.to_le_bytes()));
            }
        }
    }

    /// Values as little-endian bytes.
    pub(crate) fn encode(self, values: &[f32]) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.append(values, &mut bytes);
        bytes
    }
}

/// The nearest `f16` of values. Finite ones beyond its range become its largest: masks are often the least `f32`, and where infinities meet, sums are NaN.
pub(crate) fn to_f16s(values: &[f32]) -> Vec<f16> {
    let mut near = vec![f16::ZERO; values.len()];
    near.convert_from_f32_slice(values);
    for (near, value) in near.iter_mut().zip(values) {
        if near.is_infinite() && value.is_finite() {
            *near = if *value > 0.0 { f16::MAX } else { f16::MIN };
        }
    }
    near
}

/// Rounds values as [`to_f16s`] does.
pub(crate) fn round_to_f16_range(values: &mut [f32]) {
    to_f16s(values).convert_to_f32_slice(values);
}

/// Rounds values to the nearest `f16`, those beyond its range to infinity.
pub(crate) fn round_to_f16(values: &mut [f32]) {
    let mut near = vec![f16::ZERO; values.len()];
    near.convert_from_f32_slice(values);
    near.convert_to_f32_slice(values);
}

/// Values of a dtype of floats or blocks, in native byte order.
pub(crate) fn decode(dtype: DType, bytes: &[u8]) -> Result<Vec<f32>, String> {
    Ok(match dtype {
        DType::F32 => words(bytes, f32::from_ne_bytes),
        DType::F16 => words(bytes, |word| f16::from_ne_bytes(word).to_f32()),
        DType::BF16 => words(bytes, |word| rustorch_core::bf16::from_ne_bytes(word).to_f32()),
        DType::Quant(quant) => {
            let mut values = vec![0.0; bytes.len() / quant.block_bytes() * quant.block_len()];
            rustorch_quant::dequantize(quant, bytes, &mut values).map_err(|error| error.to_string())?;
            values
        }
        other => return Err(format!("{other:?} is no dtype of floats")),
    })
}

/// Values of `N` bytes each.
pub(crate) fn words<T, const N: usize>(bytes: &[u8], value: impl Fn([u8; N]) -> T) -> Vec<T> {
    let mut values = Vec::with_capacity(bytes.len() / N);
    for word in bytes.chunks_exact(N) {
        let mut array = [0; N];
        array.copy_from_slice(word);
        values.push(value(array));
    }
    values
}
