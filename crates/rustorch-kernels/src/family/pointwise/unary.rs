//! Functions of one element.

use super::Formula;
use crate::Hardware;
use rustorch_core::{DType, Decline, UnaryOp};

/// The formula for elements of `dtype`.
pub(super) fn formula(op: UnaryOp, dtype: DType, hardware: &Hardware) -> Result<Formula, Decline> {
    use UnaryOp::*;
    let real = matches!(dtype, DType::F16 | DType::BF16 | DType::F32);
    let expression = match op {
        Neg if matches!(dtype, DType::U8 | DType::U32) => "0u - a",
        Neg if dtype.is_float() || dtype.is_int() && (hardware.i64 || dtype != DType::I64) => "-a",
        Abs if real => "abs(a)",
        Square if real => "a * a",
        Relu if real => "select(max(a, 0.0), a, a != a)",
        _ => return Err(Decline::Op(op.name())),
    };
    Ok(Formula::of(expression))
}
