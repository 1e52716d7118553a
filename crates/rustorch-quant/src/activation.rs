//! Activations quantized for matmuls with quantized weights (ggml's `vec_dot_type`).
//!
//! These are the conversions that llama.cpp's CPU backend applies on x86 (AVX2) before each matmul: halves are rounded to the
//! even neighbour, and the factor is `127 / largest`, not the inverse of the scale. [`quantize`](fn@crate::quantize) differs
//! in both, as ggml's reference code does. A block with an infinite or NaN value gets a NaN scale, so that results show it.

use crate::block::{BlockQ8_0, BlockQ8_1, BlockQ8K};
use crate::le::{F16Le, F32Le, I16Le};

/// Adding it puts the nearest integer, ties to even, into the low bits of the sum.
const ROUNDER: f32 = 12_582_912.0;

/// Rounds `x` to blocks of 32 codes and a scale, `largest / 127`.
///
/// # Panics
/// If `x` has another length than `32 * out.len()`.
#[inline(always)]
pub fn quantize_q8_0(x: &[f32], out: &mut [BlockQ8_0]) {
    assert_eq!(x.len(), 32 * out.len(), "a Q8_0 block holds 32 values");
    for (x, block) in x.as_chunks::<32>().0.iter().zip(out) {
        let (d, qs) = by_largest(x);
        *block = BlockQ8_0 { d: F16Le::new(d), qs };
    }
}

/// Rounds `x` to blocks of 32 codes, a scale, `largest / 127`, and the scale times the sum of the codes.
///
/// # Panics
/// If `x` has another length than `32 * out.len()`.
#[inline(always)]
pub fn quantize_q8_1(x: &[f32], out: &mut [BlockQ8_1]) {
    assert_eq!(x.len(), 32 * out.len(), "a Q8_1 block holds 32 values");
    for (x, block) in x.as_chunks::<32>().0.iter().zip(out) {
        let (d, qs) = by_largest(x);
        let sum: i32 = qs.iter().map(|&q| i32::from(q)).sum();
        *block = BlockQ8_1 { d: F16Le::new(d), s: F16Le::new(d * sum as f32), qs };
    }
}

/// Rounds `x` to blocks of 256 codes, a scale, and the sums of each 16 codes. The first value of largest magnitude
/// becomes -127.
///
/// # Panics
/// If `x` has another length than `256 * out.len()`.
#[inline(always)]
pub fn quantize_q8_k(x: &[f32], out: &mut [BlockQ8K]) {
    assert_eq!(x.len(), 256 * out.len(), "a Q8_K block holds 256 values");
    for (x, block) in x.as_chunks::<256>().0.iter().zip(out) {
        let largest = largest_magnitude(x);
        let signed = x.iter().copied().find(|v| v.abs() == largest).unwrap_or(f32::NAN);
        let (d, qs) = if largest == 0.0 {
            (0.0, [0; 256])
        } else {
            let factor = -127.0 / signed;
            (1.0 / factor, std::array::from_fn(|i| nearest(factor * x[i])))
        };
        let mut bsums = [I16Le::new(0); 16];
        for (sum, qs) in bsums.iter_mut().zip(qs.as_chunks::<16>().0) {
            *sum = I16Le::new(qs.iter().map(|&q| i16::from(q)).sum());
        }
        let d = if largest.is_finite() { d } else { f32::NAN };
        *block = BlockQ8K { d: F32Le::new(d), qs, bsums };
    }
}

#[inline(always)]
fn by_largest(x: &[f32; 32]) -> (f32, [i8; 32]) {
    let largest = largest_magnitude(x);
    if !largest.is_finite() {
        return (f32::NAN, [0; 32]);
    }
    let factor = if largest == 0.0 { 0.0 } else { 127.0 / largest };
    (largest / 127.0, std::array::from_fn(|i| nearest(x[i] * factor)))
}

/// The largest magnitude; infinite or NaN where a value is. Compared as integers, which order magnitudes as floats do
/// and put NaNs on top.
#[inline(always)]
fn largest_magnitude(x: &[f32]) -> f32 {
    f32::from_bits(x.iter().fold(0, |largest, v| largest.max(v.to_bits() & 0x7fff_ffff)))
}

/// `v`, in -128..=127, rounded to the nearest integer, ties to even.
#[inline(always)]
fn nearest(v: f32) -> i8 {
    (v + ROUNDER).to_bits() as i8
}
