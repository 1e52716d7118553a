//! MXFP4 and NVFP4.

use super::QuantizeBlock;
use super::search::largest;
use crate::block::{BlockMxfp4, BlockNvfp4, e2m1_doubled, e8m0_halved, ue4m3_halved};

impl QuantizeBlock for BlockMxfp4 {
    #[inline(always)]
    fn quantize(x: &[f32], _importance: Option<&[f32]>) -> Self {
        let largest = largest(x).abs();
        // The exponent of the largest value becomes that of the largest E2M1 value, 6 = 1.5 * 2^2. The logarithm is rounded
        // to f32 as in the reference, where a value just below a power of two counts as that power.
        let e =
            if largest > 0.0 { ((f64::from(largest).log2() as f32).floor() - 2.0 + 127.0) as u8 } else { 0 };
        let d = e8m0_halved(e);
        Self { e, qs: std::array::from_fn(|i| nearest_code(x[i], d) | nearest_code(x[16 + i], d) << 4) }
    }
}

impl QuantizeBlock for BlockNvfp4 {
    #[inline(always)]
    fn quantize(x: &[f32], _importance: Option<&[f32]>) -> Self {
        let (mut d, mut qs) = ([0; 4], [0; 32]);
        for (group, (x, qs)) in x.chunks_exact(16).zip(qs.chunks_exact_mut(8)).enumerate() {
            d[group] = to_ue4m3(largest(x).abs() / 6.0);
            let scale = ue4m3_halved(d[group]);
            for (i, q) in qs.iter_mut().enumerate() {
                *q = nearest_code(x[i], scale) | nearest_code(x[8 + i], scale) << 4;
            }
        }
        Self { d, qs }
    }
}

/// The first of the codes whose value is nearest to `x`, so that zero is the positive one.
#[inline(always)]
fn nearest_code(x: f32, scale: f32) -> u8 {
    let error = |code: u8| (f32::from(e2m1_doubled(code as i8)) * scale - x).abs();
    let mut best = (error(0), 0);
    for code in 1..16 {
        let error = error(code);
        if error < best.0 {
            best = (error, code);
        }
    }
    best.1
}

/// The E4M3 number nearest to `x`, which is not negative; ties away from zero. At most 448, the largest there is.
fn to_ue4m3(x: f32) -> u8 {
    let bits = x.min(448.0).to_bits();
    let exponent = (bits >> 23) as i32 - 127 + 7;
    if exponent <= 0 {
        return (x * 512.0 + 0.5).min(7.0) as u8;
    }
    // Mantissa and exponent are adjacent, so that rounding carries from one into the other.
    let rounded = (exponent as u32) << 3 | bits >> 20 & 7;
    (rounded + (bits >> 19 & 1)).min(0x7e) as u8
}
