//! Weights that Python and Rust make alike, to the bit: `tools/oracle/archs/weights.py` is this file's twin.
//!
//! Of each value 24 bits of SplitMix64, seeded with FNV-1a of the tensor's name, make a uniform `f32` in [-1, 1), which a rule scales
//! by a power of two. Nothing rounds but one addition, and no function of a mathematical library is called.

use crate::common::fnv1a;

/// The values of a tensor; `shape` is outermost first, and `embedding` how far the values of the embedding table reach.
pub(crate) fn tensor(name: &str, shape: &[usize], embedding: f32) -> Vec<f32> {
    let seed = fnv1a(name.bytes());
    let (middle, reach) = affine(name, shape, embedding);
    let uniform = |bits: u64| (bits as i64 - (1 << 23)) as f32 / (1 << 23) as f32;
    (1..=shape.iter().product::<usize>() as u64)
        .map(|i| middle + reach * uniform(splitmix64(seed, i) >> 40))
        .collect()
}

/// The `i`-th of some lengths from 1 to 7, other ones for each name.
pub(super) fn length(name: &str, i: u64) -> usize {
    1 + (splitmix64(fnv1a(name.bytes()), i) % 7) as usize
}

/// The `i`-th output, from 1.
pub(crate) fn splitmix64(seed: u64, i: u64) -> u64 {
    let z = seed.wrapping_add(i.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The middle of a tensor's values, and how far they reach to both sides.
fn affine(name: &str, shape: &[usize], embedding: f32) -> (f32, f32) {
    let around_one = |part: &str| {
        part.contains("norm") || part.contains("scale") || matches!(part, "ssm_d" | "time_mix_ln")
    };
    if name.ends_with(".bias") {
        return (0.0, 0.125);
    }
    if name.split('.').any(around_one) {
        return (1.0, 0.25);
    }
    if name.split('.').any(|part| part == "ssm_a") {
        return (-1.0, 0.5);
    }
    if name.starts_with("rope_f") {
        return (1.5, 0.5);
    }
    if name.starts_with("token_embd.") {
        return (0.0, embedding);
    }
    let &[.., columns] = shape else { return (0.0, 0.25) };
    if shape.len() == 1 {
        return (0.0, 0.25);
    }
    // About as large a result as input: the deviation is 1 / sqrt(columns), but for what powers of two round away.
    let bits = usize::BITS - (columns - 1).leading_zeros();
    (0.0, 2.0 / (1u32 << bits.div_ceil(2)) as f32)
}
