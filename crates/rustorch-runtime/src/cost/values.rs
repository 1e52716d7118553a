//! Values that devices are measured with.

use rustorch_core::{DType, bf16, f16};

/// So many bytes of small numbers in no order; zeros for types that are no floats, which serve as well.
pub(super) fn values(dtype: DType, bytes: usize) -> Vec<u8> {
    const PERIOD: usize = 4096;
    let mut state = 1u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    let mut out: Vec<u8> = Vec::with_capacity(bytes);
    for _ in 0..PERIOD.min(bytes / dtype.block_bytes()) {
        match dtype {
            DType::F16 => out.extend(f16::from_f32(next()).to_ne_bytes()),
            DType::BF16 => out.extend(bf16::from_f32(next()).to_ne_bytes()),
            DType::F32 => out.extend(next().to_ne_bytes()),
            DType::F64 => out.extend(f64::from(next()).to_ne_bytes()),
            _ => break,
        }
    }
    if out.is_empty() {
        return vec![0; bytes];
    }
    while out.len() < bytes {
        let more = out.len().min(bytes - out.len());
        out.extend_from_within(..more);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_finite_and_fill_the_bytes() {
        for (dtype, elements) in [(DType::F32, 10_001), (DType::F16, 3), (DType::F64, 4097), (DType::F32, 0)]
        {
            let size = dtype.block_bytes();
            let bytes = values(dtype, elements * size);
            assert_eq!(bytes.len(), elements * size);
        }
        let floats = values(DType::F32, 1 << 20);
        let floats: Vec<f32> = floats.as_chunks().0.iter().map(|&b| f32::from_ne_bytes(b)).collect();
        assert!(floats.iter().all(|x| x.abs() <= 1.0) && floats.iter().any(|x| *x != floats[0]));
    }
}
