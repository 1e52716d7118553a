//! Gated activations.

use crate::family::kind::Kind;
use rustorch_core::GateOp;

/// The expression over the gate `a` and what it gates, `b`, if there is one; `doubles` says whether the device has 64-bit
/// integers and floats.
pub(super) fn expression(op: GateOp, kind: Kind, doubles: bool) -> Option<&'static str> {
    match (op, kind) {
        // To the bit what the processor computes, and ggml.
        (GateOp::Silu, Kind::Single) => Some("divide(a, 1.0 + quick_exp(-a)) * b"),
        (GateOp::Gelu, Kind::Single) => Some("gelu(a) * b"),
        (GateOp::GeluTanh, Kind::Single) => Some("gelu_tanh(a) * b"),
        (GateOp::Relu, Kind::Single) => Some("relu(a) * b"),
        (GateOp::Relu, Kind::Double) => Some("select(a, 0.0lf, a < 0.0lf) * b"),
        (GateOp::Silu, Kind::Double) if doubles => Some("silu_double(a) * b"),
        (GateOp::Gelu, Kind::Double) if doubles => Some("gelu_double(a) * b"),
        (GateOp::GeluTanh, Kind::Double) if doubles => Some("gelu_tanh_double(a) * b"),
        _ => None,
    }
}
