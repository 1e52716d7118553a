//! Clamp, with the bounds as parameters.

use crate::library::kind::Kind;
use crate::library::scalars;
use rustorch_core::{DType, Scalar};

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

/// The parameters of both bounds.
pub(super) fn bounds([min, max]: [Option<Scalar>; 2], dtype: DType) -> [scalars::Words; 2] {
    let words = |bound: Option<Scalar>, integer: i64, float: f64| {
        let value = match dtype.is_float() {
            true => bound.unwrap_or(Scalar::Float(float)),
            false => {
                let (least, most) = range(dtype);
                Scalar::Int(bound.map_or(integer, Scalar::to_i64).clamp(least, most))
            }
        };
        scalars::words(value, dtype)
    };
    [words(min, i64::MIN, f64::NEG_INFINITY), words(max, i64::MAX, f64::INFINITY)]
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
