//! Keeping elements within bounds, which are parameters: one kernel serves all.

use super::kind::Kind;
use crate::plan::StepBuilder;
use crate::wgsl::Module;
use rustorch_core::{DType, FromScalar, Scalar, bf16, f16};

/// The expression over `a`, `low` and `high`. The upper bound wins.
pub(super) fn expression(kind: Kind) -> Option<&'static str> {
    Some(match kind {
        Kind::Unsigned(_) | Kind::Signed(_) => "min(max(a, low), high)",
        Kind::Long => "select(select(a, low, a < low), high, select(a, low, a < low) > high)",
        Kind::Pair => {
            "select(select(a, low, pair_below(a, low)), high, pair_below(high, select(a, low, pair_below(a, low))))"
        }
        Kind::Single => "smaller(larger(a, low), high)",
        Kind::Double => "smaller_double(larger_double(a, low), high)",
        Kind::Bool | Kind::Complex | Kind::ComplexDouble => return None,
    })
}

/// Declares the words of both bounds: their values.
pub(super) fn parameters(module: &mut Module, kind: Kind) -> Vec<String> {
    (0..2)
        .map(|_| {
            let words: Vec<String> = module.take(3).iter().map(ToString::to_string).collect();
            value(kind, &words)
        })
        .collect()
}

/// A number that parameters give in three words, as [`number`] makes them.
pub(in crate::family) fn value(kind: Kind, words: &[String]) -> String {
    let [x, y, z] = [&words[0], &words[1], &words[2]];
    match kind {
        Kind::Signed(_) => format!("bitcast<i32>({x})"),
        Kind::Long => format!("long_of_pair(vec2<u32>({x}, {y}))"),
        Kind::Pair => format!("vec2<u32>({x}, {y})"),
        Kind::Single => format!("bitcast<f32>({x})"),
        Kind::Double => format!("double_of(bitcast<i32>({x}), {y}, bitcast<i32>({z}))"),
        _ => x.clone(),
    }
}

/// Adds the words of both bounds.
pub(super) fn bounds(step: &mut StepBuilder<'_>, bounds: [Option<Scalar>; 2], dtype: DType) {
    let ends = [(i64::MIN, f64::NEG_INFINITY), (i64::MAX, f64::INFINITY)];
    for (bound, (integer, float)) in bounds.into_iter().zip(ends) {
        let words = match dtype {
            DType::F16 => single(bound.map_or(float as f32, |s| f16::from_scalar(s).to_f32())),
            DType::BF16 => single(bound.map_or(float as f32, |s| bf16::from_scalar(s).to_f32())),
            DType::F32 => single(bound.map_or(float as f32, f32::from_scalar)),
            DType::F64 => double(bound.map_or(float, f64::from_scalar)),
            _ => {
                let (least, most) = range(dtype);
                let x = bound.map_or(integer, Scalar::to_i64).clamp(least, most);
                [x as u32, (x >> 32) as u32, 0]
            }
        };
        words.iter().for_each(|&word| {
            step.word(word);
        });
    }
}

fn single(x: f32) -> [u32; 3] {
    [x.to_bits(), 0, 0]
}

/// The mantissa of a double as two words, and its exponent: see `double_of` in the library.
pub(in crate::family) fn double(x: f64) -> [u32; 3] {
    if !x.is_finite() {
        let one = if x > 0.0 { 1 } else { u32::MAX };
        return if x.is_nan() { [0, 0, 9999] } else { [one, 0, 4000] };
    }
    let bits = x.to_bits();
    let exponent = (bits >> 52 & 0x7ff) as i32;
    let fraction = (bits & ((1 << 52) - 1)) as i64;
    let mantissa = if exponent == 0 { fraction } else { fraction | 1 << 52 };
    let signed = if x.is_sign_negative() { -mantissa } else { mantissa };
    [(signed >> 32) as u32, signed as u32, (exponent.max(1) - 1075) as u32]
}

/// The least and the greatest of an integer dtype.
fn range(dtype: DType) -> (i64, i64) {
    match dtype {
        DType::U8 => (0, u8::MAX.into()),
        DType::I8 => (i8::MIN.into(), i8::MAX.into()),
        DType::I16 => (i16::MIN.into(), i16::MAX.into()),
        DType::I32 => (i32::MIN.into(), i32::MAX.into()),
        DType::U32 => (0, u32::MAX.into()),
        _ => (i64::MIN, i64::MAX),
    }
}
