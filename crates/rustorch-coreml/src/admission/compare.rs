//! Comparing a program's results with the CPU's.

use crate::runtime::Feature;
use rustorch_core::{DType, f16};

/// The largest difference of an output from the CPU's, relative to the largest of the CPU's values; 0 of integers, which are equal.
///
/// # Errors
/// If integers differ, or one has a NaN or an infinity that the other has not; in words.
pub(super) fn difference(feature: &Feature, ours: &[u8], cpu: &[u8]) -> Result<f64, String> {
    let Feature { name, dtype, .. } = feature;
    if ours.len() != cpu.len() {
        return Err(format!("{name} has {} bytes, and {} by the CPU", ours.len(), cpu.len()));
    }
    if *dtype == DType::I32 {
        let differ = ours.chunks_exact(4).zip(cpu.chunks_exact(4)).filter(|(ours, cpu)| ours != cpu).count();
        return match differ {
            0 => Ok(0.0),
            _ => Err(format!("{name} differs from the CPU's in {differ} of {} integers", feature.numel())),
        };
    }
    let (mut largest, mut error) = (0f64, 0f64);
    for (i, (ours, cpu)) in floats(*dtype, ours).zip(floats(*dtype, cpu)).enumerate() {
        if ours.is_nan() != cpu.is_nan() || (ours != cpu && (ours.is_infinite() || cpu.is_infinite())) {
            return Err(format!("{name} is {ours} at {i}, and {cpu} by the CPU"));
        }
        if cpu.is_finite() {
            largest = largest.max(cpu.abs());
            error = error.max((ours - cpu).abs());
        }
    }
    Ok(if largest > 0.0 { error / largest } else { error })
}

fn floats(dtype: DType, bytes: &[u8]) -> impl Iterator<Item = f64> + '_ {
    bytes.chunks_exact(dtype.block_bytes()).map(move |value| match dtype {
        DType::F16 => f16::from_ne_bytes([value[0], value[1]]).to_f64(),
        _ => f64::from(f32::from_ne_bytes([value[0], value[1], value[2], value[3]])),
    })
}
