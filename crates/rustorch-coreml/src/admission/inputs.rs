//! Random variants of a run's inputs.

use crate::runtime::Feature;
use rustorch_core::{DType, Philox, f16, unit_f32};

/// Values between the least and the largest of an input's: of integers such that indices stay in range; of floats that are all alike between −1 and 1
/// beside them.
pub(super) fn variant(feature: &Feature, bytes: &[u8], seed: u64) -> Vec<u8> {
    let mut random = Philox::new(seed);
    match feature.dtype {
        DType::I32 => {
            let values =
                bytes.chunks_exact(4).map(|four| i32::from_ne_bytes([four[0], four[1], four[2], four[3]]));
            let (low, high) = values.fold((i32::MAX, i32::MIN), |(low, high), x| (low.min(x), high.max(x)));
            let width = ((i64::from(high) - i64::from(low)).max(0) + 1) as f64;
            let draw = |_| (i64::from(low) + (random.next_f64() * width) as i64) as i32;
            (0..feature.numel()).map(draw).flat_map(i32::to_ne_bytes).collect()
        }
        DType::F16 => {
            let values = bytes.chunks_exact(2).map(|two| f16::from_ne_bytes([two[0], two[1]]).to_f32());
            let (low, high) = range(values);
            let draw = |_| f16::from_f32(between(&mut random, low, high)).to_ne_bytes();
            (0..feature.numel()).flat_map(draw).collect()
        }
        // Features have no other.
        _ => {
            let values =
                bytes.chunks_exact(4).map(|four| f32::from_ne_bytes([four[0], four[1], four[2], four[3]]));
            let (low, high) = range(values);
            (0..feature.numel()).flat_map(|_| between(&mut random, low, high).to_ne_bytes()).collect()
        }
    }
}

fn range(values: impl Iterator<Item = f32>) -> (f32, f32) {
    let finite = values.filter(|x| x.is_finite());
    let (low, high) = finite.fold((f32::INFINITY, f32::NEG_INFINITY), |(a, b), x| (a.min(x), b.max(x)));
    if low < high {
        (low, high)
    } else if low == high {
        (low - 1.0, high + 1.0)
    } else {
        (-1.0, 1.0)
    }
}

/// A number between two.
fn between(random: &mut Philox, low: f32, high: f32) -> f32 {
    let unit = unit_f32(random.next_u32());
    // Halves, so that the width does not overflow.
    2.0 * (low / 2.0 + unit * (high / 2.0 - low / 2.0))
}
