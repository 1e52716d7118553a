//! Q4_0, Q4_1, Q5_0, Q5_1, Q8_0 and Q8_1.

use super::QuantizeBlock;
use super::search::{Symmetric, best_scale, best_scale_and_min, clamp, largest, round, smoothed_weights};
use crate::block::{BlockQ4_0, BlockQ4_1, BlockQ5_0, BlockQ5_1, BlockQ8_0, BlockQ8_1};
use crate::le::F16Le;

impl QuantizeBlock for BlockQ4_0 {
    #[inline(always)]
    fn quantize(x: &[f32], importance: Option<&[f32]>) -> Self {
        let (d, codes) = symmetric(block(x), importance, 8.0);
        Self { d, qs: join_nibbles(&codes) }
    }
}

impl QuantizeBlock for BlockQ4_1 {
    #[inline(always)]
    fn quantize(x: &[f32], importance: Option<&[f32]>) -> Self {
        let (d, m, codes) = affine(block(x), importance, 15.0);
        Self { d, m, qs: join_nibbles(&codes) }
    }
}

impl QuantizeBlock for BlockQ5_0 {
    #[inline(always)]
    fn quantize(x: &[f32], importance: Option<&[f32]>) -> Self {
        let (d, codes) = symmetric(block(x), importance, 16.0);
        Self { d, qh: fifth_bits(&codes), qs: join_nibbles(&codes) }
    }
}

impl QuantizeBlock for BlockQ5_1 {
    #[inline(always)]
    fn quantize(x: &[f32], importance: Option<&[f32]>) -> Self {
        let (d, m, codes) = affine(block(x), importance, 31.0);
        Self { d, m, qh: fifth_bits(&codes), qs: join_nibbles(&codes) }
    }
}

impl QuantizeBlock for BlockQ8_0 {
    #[inline(always)]
    fn quantize(x: &[f32], _importance: Option<&[f32]>) -> Self {
        let (d, qs) = eight_bits(block(x));
        Self { d: F16Le::new(d), qs }
    }
}

impl QuantizeBlock for BlockQ8_1 {
    #[inline(always)]
    fn quantize(x: &[f32], _importance: Option<&[f32]>) -> Self {
        let (d, qs) = eight_bits(block(x));
        let sum: i32 = qs.iter().map(|&q| i32::from(q)).sum();
        Self { d: F16Le::new(d), s: F16Le::new(sum as f32 * d), qs }
    }
}

#[inline(always)]
fn block(x: &[f32]) -> &[f32; 32] {
    x.try_into().expect("callers split the source into blocks of 32")
}

/// `1 / d`, or zero where that is infinite: for zero, and for the smallest subnormal values.
#[inline(always)]
pub(super) fn inverse(d: f32) -> f32 {
    let inverse = 1.0 / d;
    if inverse.is_finite() { inverse } else { 0.0 }
}

/// Codes 0..2n that stand for -n..n. The reference maps the value of largest magnitude to -n.
#[inline(always)]
fn symmetric(x: &[f32; 32], importance: Option<&[f32]>, n: f32) -> (F16Le, [u8; 32]) {
    if importance.is_some() {
        let d = F16Le::new(best_scale(x, &smoothed_weights(x, importance), Symmetric { n }));
        let id = inverse(d.get());
        return (d, std::array::from_fn(|i| (round(clamp(x[i] * id, -n, n - 1.0)) + n) as u8));
    }
    let d = largest(x) / -n;
    let id = inverse(d);
    (F16Le::new(d), std::array::from_fn(|i| (x[i] * id + (n + 0.5)).min(2.0 * n - 1.0) as u8))
}

/// Codes 0..=n over a minimum. The reference spans the range of the values.
#[inline(always)]
fn affine(x: &[f32; 32], importance: Option<&[f32]>, n: f32) -> (F16Le, F16Le, [u8; 32]) {
    if importance.is_some() {
        let (scale, min) = best_scale_and_min(x, &smoothed_weights(x, importance), n);
        let (d, m) = (F16Le::new(scale), F16Le::new(-min));
        let (id, min) = (inverse(d.get()), m.get());
        return (d, m, std::array::from_fn(|i| round(clamp((x[i] - min) * id, 0.0, n)) as u8));
    }
    let (mut min, mut max) = (x[0], x[0]);
    for &v in x {
        min = min.min(v);
        max = max.max(v);
    }
    let d = (max - min) / n;
    let id = inverse(d);
    (F16Le::new(d), F16Le::new(min), std::array::from_fn(|i| ((x[i] - min) * id + 0.5).min(n) as u8))
}

/// Halves are rounded away from zero, as ggml's reference and gguf-py do.
#[inline(always)]
fn eight_bits(x: &[f32; 32]) -> (f32, [i8; 32]) {
    let d = largest(x).abs() / 127.0;
    let id = inverse(d);
    (d, std::array::from_fn(|i| (x[i] * id).round() as i8))
}

/// Values 0..16 in the low nibbles, 16..32 in the high ones.
#[inline(always)]
pub(super) fn join_nibbles(codes: &[u8; 32]) -> [u8; 16] {
    std::array::from_fn(|i| (codes[i] & 15) | (codes[16 + i] & 15) << 4)
}

#[inline(always)]
fn fifth_bits(codes: &[u8; 32]) -> [u8; 4] {
    let mut bits = 0;
    for (i, code) in codes.iter().enumerate() {
        bits |= u32::from(code >> 4 & 1) << i;
    }
    bits.to_le_bytes()
}
