//! Binary operations and comparisons: a WGSL expression each.

use crate::library::kind::Kind;
use rustorch_core::{BinaryOp, CompareOp};

/// The expression over `a` and `b`, if there is one; `doubles` says whether the device has 64-bit integers and floats.
pub(super) fn expression(op: BinaryOp, kind: Kind, doubles: bool) -> Option<String> {
    use BinaryOp::*;
    let fixed = match kind {
        Kind::Bool => boolean(op),
        Kind::Single => single(op),
        Kind::Double => match op {
            FloorDiv if doubles => Some("floor_quotient_double(a, b)"),
            Remainder if doubles => Some("remainder_double(a, b)"),
            Pow if doubles => Some("power_double(a, b)"),
            Atan2 if doubles => Some("atan2_double(a, b)"),
            LogAddExp if doubles => Some("log_add_exp_double(a, b)"),
            _ => double(op),
        },
        // A power of doubles would need logarithms of more digits than the CPU's has, to give the same ones.
        Kind::Complex if op == Pow && doubles => Some("c_narrow(c_power_double(c_wide(a), c_wide(b)))"),
        Kind::Complex => complex(op),
        Kind::ComplexDouble => complex_double(op),
        Kind::Pair => pair(op),
        Kind::Unsigned(bits) => return integer(op, "unsigned", "0u", bits),
        Kind::Signed(bits) => return integer(op, "signed", "0i", bits),
        Kind::Long if matches!(op, Maximum) => Some("select(b, a, a > b)"),
        Kind::Long if matches!(op, Minimum) => Some("select(b, a, a < b)"),
        Kind::Long => return integer(op, "long", "0li", 64),
    };
    fixed.map(str::to_owned)
}

/// `family` is what the library's functions for the type are named after, `zero` its literal.
fn integer(op: BinaryOp, family: &str, zero: &str, bits: u32) -> Option<String> {
    use BinaryOp::*;
    let width = zero.replacen('0', &bits.to_string(), 1);
    let outside = match family {
        "unsigned" => format!("b >= {width}"),
        _ => format!("b < {zero} || b >= {width}"),
    };
    let shift = format!("(u32(b) & {}u)", bits.max(32) - 1);
    Some(match op {
        Add => "a + b".into(),
        Sub => "a - b".into(),
        Mul => "a * b".into(),
        FloorDiv => format!("floor_divide_{family}(a, b)"),
        Remainder => format!("remainder_{family}(a, b)"),
        Pow => format!("power_{family}(a, b)"),
        Maximum => "max(a, b)".into(),
        Minimum => "min(a, b)".into(),
        BitwiseAnd => "a & b".into(),
        BitwiseOr => "a | b".into(),
        BitwiseXor => "a ^ b".into(),
        ShiftLeft => format!("select(a << {shift}, {zero}, {outside})"),
        ShiftRight if family == "unsigned" => format!("select(a >> {shift}, {zero}, {outside})"),
        ShiftRight => format!("select(a >> {shift}, select({zero}, ~{zero}, a < {zero}), {outside})"),
        Div | Atan2 | LogAddExp => return None,
    })
}

fn boolean(op: BinaryOp) -> Option<&'static str> {
    use BinaryOp::*;
    Some(match op {
        Add | Maximum | BitwiseOr => "a || b",
        Mul | Minimum | BitwiseAnd => "a && b",
        BitwiseXor => "a != b",
        _ => return None,
    })
}

fn single(op: BinaryOp) -> Option<&'static str> {
    use BinaryOp::*;
    Some(match op {
        Add => "a + b",
        Sub => "a - b",
        Mul => "a * b",
        Div => "divide(a, b)",
        FloorDiv => "floor_quotient(a, b)",
        Remainder => "remainder_of(a, b)",
        Pow => "power_of(a, b)",
        Maximum => "larger(a, b)",
        Minimum => "smaller(a, b)",
        Atan2 => "atan2_of(a, b)",
        LogAddExp => "log_add_exp_of(a, b)",
        _ => return None,
    })
}

fn double(op: BinaryOp) -> Option<&'static str> {
    use BinaryOp::*;
    Some(match op {
        Add => "a + b",
        Sub => "a - b",
        Mul => "a * b",
        Div => "divide_double(a, b)",
        Maximum => "larger_double(a, b)",
        Minimum => "smaller_double(a, b)",
        _ => return None,
    })
}

fn pair(op: BinaryOp) -> Option<&'static str> {
    use BinaryOp::*;
    Some(match op {
        Add => "pair_add(a, b)",
        Sub => "pair_add(a, pair_negate(b))",
        Mul => "pair_product(a, b)",
        Maximum => "select(a, b, pair_below(a, b))",
        Minimum => "select(b, a, pair_below(a, b))",
        BitwiseAnd => "a & b",
        BitwiseOr => "a | b",
        BitwiseXor => "a ^ b",
        _ => return None,
    })
}

fn complex(op: BinaryOp) -> Option<&'static str> {
    use BinaryOp::*;
    Some(match op {
        Add => "a + b",
        Sub => "a - b",
        Mul => "c_mul(a, b)",
        Div => "c_div(a, b)",
        _ => return None,
    })
}

fn complex_double(op: BinaryOp) -> Option<&'static str> {
    use BinaryOp::*;
    Some(match op {
        Add => "a + b",
        Sub => "a - b",
        Mul => "c_mul_double(a, b)",
        Div => "c_div_double(a, b)",
        _ => return None,
    })
}

/// The expression of a comparison of `a` and `b`, if there is one.
pub(super) fn comparison(op: CompareOp, kind: Kind) -> Option<&'static str> {
    use CompareOp::*;
    Some(match (kind, op) {
        (Kind::Complex, Eq) => "all(a == b) && ordered(a.x, b.x) && ordered(a.y, b.y)",
        (Kind::Complex, Ne) => "!(all(a == b) && ordered(a.x, b.x) && ordered(a.y, b.y))",
        (Kind::ComplexDouble, Eq) => "all(a == b) && ordered_double(a.x, b.x) && ordered_double(a.y, b.y)",
        (Kind::ComplexDouble, Ne) => "!(all(a == b) && ordered_double(a.x, b.x) && ordered_double(a.y, b.y))",
        (Kind::Complex | Kind::ComplexDouble, _) => return None,
        (Kind::Bool, Lt) => "!a && b",
        (Kind::Bool, Le) => "!a || b",
        (Kind::Bool, Gt) => "a && !b",
        (Kind::Bool, Ge) => "a || !b",
        (Kind::Pair, Eq) => "pair_equal(a, b)",
        (Kind::Pair, Ne) => "!pair_equal(a, b)",
        (Kind::Pair, Lt) => "pair_below(a, b)",
        (Kind::Pair, Le) => "!pair_below(b, a)",
        (Kind::Pair, Gt) => "pair_below(b, a)",
        (Kind::Pair, Ge) => "!pair_below(a, b)",
        (Kind::Single, Eq) => "a == b && ordered(a, b)",
        (Kind::Single, Ne) => "!(a == b && ordered(a, b))",
        (Kind::Single, Lt) => "a < b && ordered(a, b)",
        (Kind::Single, Le) => "a <= b && ordered(a, b)",
        (Kind::Single, Gt) => "a > b && ordered(a, b)",
        (Kind::Single, Ge) => "a >= b && ordered(a, b)",
        (Kind::Double, Eq) => "a == b && ordered_double(a, b)",
        (Kind::Double, Ne) => "!(a == b && ordered_double(a, b))",
        (Kind::Double, Lt) => "a < b && ordered_double(a, b)",
        (Kind::Double, Le) => "a <= b && ordered_double(a, b)",
        (Kind::Double, Gt) => "a > b && ordered_double(a, b)",
        (Kind::Double, Ge) => "a >= b && ordered_double(a, b)",
        (_, Eq) => "a == b",
        (_, Ne) => "a != b",
        (_, Lt) => "a < b",
        (_, Le) => "a <= b",
        (_, Gt) => "a > b",
        (_, Ge) => "a >= b",
    })
}
