//! Functions and comparisons of two elements.

use super::Formula;
use crate::Hardware;
use rustorch_core::{BinaryOp, CompareOp, DType, Decline};

/// The formula for elements of `dtype`.
pub(super) fn formula(op: BinaryOp, dtype: DType, hardware: &Hardware) -> Result<Formula, Decline> {
    use BinaryOp::*;
    if dtype.is_complex() || dtype == DType::I64 && !hardware.i64 {
        return Err(Decline::DType(dtype));
    }
    let expression = match op {
        Add if dtype == DType::Bool => "a || b",
        Mul if dtype == DType::Bool => "a && b",
        Add => "a + b",
        Sub => "a - b",
        Mul => "a * b",
        Div if dtype.is_float() => "a / b",
        _ => return Err(Decline::Op(op.name())),
    };
    Ok(Formula::of(expression))
}

/// The formula of a comparison of elements of `dtype`.
pub(super) fn comparison(op: CompareOp, dtype: DType, hardware: &Hardware) -> Result<Formula, Decline> {
    if dtype.is_complex() || dtype == DType::I64 && !hardware.i64 {
        return Err(Decline::DType(dtype));
    }
    let expression = match op {
        CompareOp::Eq => "a == b",
        CompareOp::Ne => "a != b",
        CompareOp::Lt if dtype == DType::Bool => "!a && b",
        CompareOp::Le if dtype == DType::Bool => "!a || b",
        CompareOp::Gt if dtype == DType::Bool => "a && !b",
        CompareOp::Ge if dtype == DType::Bool => "a || !b",
        CompareOp::Lt => "a < b",
        CompareOp::Le => "a <= b",
        CompareOp::Gt => "a > b",
        CompareOp::Ge => "a >= b",
    };
    Ok(Formula::of(expression))
}
