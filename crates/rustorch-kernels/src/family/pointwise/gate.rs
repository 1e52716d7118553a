//! Gated activations.

use super::Formula;
use crate::{Hardware, library};
use rustorch_core::{DType, Decline, GateOp};

/// The formula for elements of `dtype`.
pub(super) fn formula(op: GateOp, dtype: DType, hardware: &Hardware) -> Result<Formula, Decline> {
    if !matches!(dtype, DType::F16 | DType::BF16 | DType::F32) {
        return Err(Decline::DType(dtype));
    }
    match op {
        // To the bit what the processor computes, and ggml.
        GateOp::Silu => Ok(Formula {
            expression: "divide(a, 1.0 + quick_exp(-a)) * b".into(),
            library: library::exact(hardware) + &library::quick_exp(),
        }),
        GateOp::Relu => Ok(Formula::of("select(max(a, 0.0), a, a != a) * b")),
        _ => Err(Decline::Op(op.name())),
    }
}
