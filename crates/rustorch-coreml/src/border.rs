//! Values between a graph and the features of its program: booleans and 64-bit integers are `i32` there, `bf16` is `f32`.

use crate::float::{self, words};
use rustorch_core::{DType, bf16};
use std::borrow::Cow;

/// The bytes of values of a graph as those of a feature.
///
/// # Errors
/// If a 64-bit integer does not fit 32 bits.
pub(crate) fn encode(graph: DType, feature: DType, bytes: &[u8]) -> Result<Cow<'_, [u8]>, String> {
    Ok(match (graph, feature) {
        (a, b) if a == b => Cow::Borrowed(bytes),
        (DType::Bool, DType::I32) => {
            Cow::Owned(bytes.iter().flat_map(|&byte| i32::from(byte).to_ne_bytes()).collect())
        }
        (DType::I64, DType::I32) => {
            let mut small = Vec::with_capacity(bytes.len() / 2);
            for value in words(bytes, i64::from_ne_bytes) {
                let value = i32::try_from(value)
                    .map_err(|_| format!("the integer {value} does not fit 32 bits, which Core ML's have"))?;
                small.extend(value.to_ne_bytes());
            }
            Cow::Owned(small)
        }
        (DType::BF16, DType::F32) => {
            let values = float::decode(graph, bytes)?;
            Cow::Owned(values.into_iter().flat_map(f32::to_ne_bytes).collect())
        }
        (graph, feature) => return Err(format!("{graph:?} does not become a feature of {feature:?}")),
    })
}

/// Whether a feature's bytes are those of the graph's values.
pub(crate) fn is_same(graph: DType, feature: DType) -> bool {
    graph == feature
}

/// Writes the bytes of a feature as those of values of a graph, of which there are as many.
pub(crate) fn decode(feature: DType, graph: DType, bytes: &[u8], values: &mut [u8]) {
    match graph {
        DType::Bool => {
            for (value, int) in values.iter_mut().zip(words(bytes, i32::from_ne_bytes)) {
                *value = u8::from(int != 0);
            }
        }
        DType::I64 => {
            for (value, int) in values.chunks_exact_mut(8).zip(words(bytes, i32::from_ne_bytes)) {
                value.copy_from_slice(&i64::from(int).to_ne_bytes());
            }
        }
        DType::BF16 => {
            for (value, float) in values.chunks_exact_mut(2).zip(words(bytes, f32::from_ne_bytes)) {
                value.copy_from_slice(&bf16::from_f32(float).to_ne_bytes());
            }
        }
        _ => {
            debug_assert!(is_same(graph, feature), "{graph:?} {feature:?}");
            values.copy_from_slice(bytes);
        }
    }
}
