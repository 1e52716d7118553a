//! Keeping elements within bounds, which are parameters: one kernel serves all.

use crate::family::kind::Kind;
use crate::family::scalars;
use crate::plan::StepBuilder;
use crate::wgsl::Module;
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

/// Declares both bounds: their values.
pub(super) fn parameters(module: &mut Module, kind: Kind) -> Vec<String> {
    (0..2).map(|_| scalars::declare(module, kind)).collect()
}

/// Adds both bounds.
pub(super) fn bounds(step: &mut StepBuilder<'_>, bounds: [Option<Scalar>; 2], dtype: DType) {
    let ends = [(i64::MIN, f64::NEG_INFINITY), (i64::MAX, f64::INFINITY)];
    for (bound, (integer, float)) in bounds.into_iter().zip(ends) {
        let value = match dtype.is_float() {
            true => bound.unwrap_or(Scalar::Float(float)),
            false => {
                let (least, most) = range(dtype);
                Scalar::Int(bound.map_or(integer, Scalar::to_i64).clamp(least, most))
            }
        };
        scalars::give(step, scalars::words(value, dtype));
    }
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
