//! TQ1_0, TQ2_0, Q1_0 and Q2_0: the scale is the largest magnitude (Q1_0: the mean one), which suits weights that were
//! trained to be ternary or binary.

use super::QuantizeBlock;
use super::legacy::inverse;
use super::search::largest;
use crate::block::{BlockQ1_0, BlockQ2_0, BlockTq1_0, BlockTq2_0};
use crate::le::F16Le;

impl QuantizeBlock for BlockTq1_0 {
    #[inline(always)]
    fn quantize(x: &[f32], _importance: Option<&[f32]>) -> Self {
        let d = largest(x).abs();
        let id = inverse(d);
        let trit = |i: usize| (x[i] * id).round() as i8 + 1;
        // Digits as the fraction byte / 256, rounded up, so that multiplying moves them to the front one by one.
        let pack = |first: usize, stride: usize, digits: usize| {
            let number = (0..5).fold(0u16, |number, n| {
                number * 3 + if n < digits { trit(first + stride * n) as u16 } else { 0 }
            });
            (number * 256).div_ceil(243) as u8
        };
        Self {
            qs: std::array::from_fn(|i| if i < 32 { pack(i, 32, 5) } else { pack(160 + i - 32, 16, 5) }),
            qh: std::array::from_fn(|i| pack(240 + i, 4, 4)),
            d: F16Le::new(d),
        }
    }
}

impl QuantizeBlock for BlockTq2_0 {
    #[inline(always)]
    fn quantize(x: &[f32], _importance: Option<&[f32]>) -> Self {
        let d = largest(x).abs();
        let id = inverse(d);
        let mut qs = [0; 64];
        for (half, qs) in qs.chunks_exact_mut(32).enumerate() {
            for (l, q) in qs.iter_mut().enumerate() {
                for j in 0..4 {
                    let trit = (x[128 * half + 32 * j + l] * id).round() as i8 + 1;
                    *q |= (trit as u8) << (2 * j);
                }
            }
        }
        Self { qs, d: F16Le::new(d) }
    }
}

impl QuantizeBlock for BlockQ1_0 {
    #[inline(always)]
    fn quantize(x: &[f32], _importance: Option<&[f32]>) -> Self {
        let d = x.iter().fold(0f32, |sum, v| sum + v.abs()) / 128.0;
        let mut qs = [0; 16];
        for (i, &v) in x.iter().enumerate() {
            qs[i / 8] |= u8::from(v >= 0.0) << (i % 8);
        }
        Self { d: F16Le::new(d), qs }
    }
}

impl QuantizeBlock for BlockQ2_0 {
    #[inline(always)]
    fn quantize(x: &[f32], _importance: Option<&[f32]>) -> Self {
        let d = largest(x).abs();
        let id = inverse(d);
        let mut qs = [0; 16];
        for (i, &v) in x.iter().enumerate() {
            qs[i / 4] |= (((v * id).round() as i8 + 1) as u8 & 3) << (2 * (i % 4));
        }
        Self { d: F16Le::new(d), qs }
    }
}
