//! Gated activations.

use crate::library::kind::Kind;
use rustorch_core::GluOp;

/// The expression over the gate `a` and what it gates, `b`, if there is one; `doubles` says whether the device has 64-bit
/// integers and floats.
pub(super) fn expression(op: GluOp, kind: Kind, doubles: bool) -> Option<&'static str> {
    match (op, kind) {
        // To the bit what the CPU computes, and ggml.
        (GluOp::Silu, Kind::Single) => Some("divide(a, 1.0 + quick_exp(-a)) * b"),
        (GluOp::Gelu, Kind::Single) => Some("gelu(a) * b"),
        (GluOp::GeluTanh, Kind::Single) => Some("gelu_tanh(a) * b"),
        (GluOp::Relu, Kind::Single) => Some("relu(a) * b"),
        (GluOp::Relu, Kind::Double) => Some("select(a, 0.0lf, a < 0.0lf) * b"),
        (GluOp::Silu, Kind::Double) if doubles => Some("silu_double(a) * b"),
        (GluOp::Gelu, Kind::Double) if doubles => Some("gelu_double(a) * b"),
        (GluOp::GeluTanh, Kind::Double) if doubles => Some("gelu_tanh_double(a) * b"),
        _ => None,
    }
}
