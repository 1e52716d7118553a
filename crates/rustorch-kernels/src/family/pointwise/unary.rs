//! Unary operations: a WGSL expression each.

use crate::library::kind::Kind;
use rustorch_core::UnaryOp;

/// The expression over `a`, if there is one; `doubles` says whether the device has 64-bit integers and floats.
pub(super) fn expression(op: UnaryOp, kind: Kind, doubles: bool) -> Option<&'static str> {
    if let (Kind::Complex, true) = (kind, doubles)
        && let Some(fine) = complex_by_doubles(op)
    {
        return Some(fine);
    }
    if let Some(plain) = plain(op, kind) {
        return Some(plain);
    }
    match (kind, doubles) {
        (Kind::Double, true) => double_by_bits(op),
        (Kind::ComplexDouble, true) => complex_double_by_bits(op),
        _ => None,
    }
}

/// What takes no more than the type's own arithmetic.
fn plain(op: UnaryOp, kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Bool => boolean(op),
        Kind::Unsigned(_) => unsigned(op),
        Kind::Signed(_) => signed(op),
        Kind::Long => long(op),
        Kind::Pair => pair(op),
        Kind::Single => single(op),
        Kind::Double => double(op),
        Kind::Complex => complex(op),
        Kind::ComplexDouble => complex_double(op),
    }
}

fn single(op: UnaryOp) -> Option<&'static str> {
    use UnaryOp::*;
    Some(match op {
        Neg => "-a",
        Abs => "abs(a)",
        Sign => "sign_of(a)",
        Floor => "floor(a)",
        Ceil => "ceil(a)",
        Round => "round(a)",
        Trunc => "trunc(a)",
        Exp => "exp_of(a)",
        Expm1 => "expm1_of(a)",
        Log => "log_of(a)",
        Log2 => "log2_of(a)",
        Log10 => "log10_of(a)",
        Log1p => "log1p_of(a)",
        Sqrt => "root(a)",
        Rsqrt => "divide(1.0, root(a))",
        Reciprocal => "divide(1.0, a)",
        Square => "a * a",
        Sin => "sin_cos(a).x",
        Cos => "sin_cos(a).y",
        Tan => "tan_of(a)",
        Asin => "asin_of(a)",
        Acos => "acos_of(a)",
        Atan => "atan_of(a)",
        Sinh => "sinh_of(a)",
        Cosh => "cosh_of(a)",
        Tanh => "tanh_of(a)",
        Asinh => "asinh_of(a)",
        Acosh => "acosh_of(a)",
        Atanh => "atanh_of(a)",
        Erf => "erf_of(a)",
        Sigmoid => "sigmoid(a)",
        Relu => "relu(a)",
        Gelu => "gelu(a)",
        GeluTanh => "gelu_tanh(a)",
        Silu => "silu(a)",
        Softplus => "softplus(a)",
        LogicalNot => "a == 0.0 && !nan(a)",
        IsNan => "nan(a)",
        IsInf => "infinite(a)",
        IsFinite => "finite(a)",
        _ => return None,
    })
}

fn double(op: UnaryOp) -> Option<&'static str> {
    use UnaryOp::*;
    Some(match op {
        Neg => "-a",
        Abs => "abs(a)",
        Sign => "select(select(select(0.0lf, 1.0lf, a > 0.0lf), -1.0lf, a < 0.0lf), 0.0lf, nan_double(a))",
        Floor => "floor(a)",
        Ceil => "ceil(a)",
        Round => "round_double(a)",
        Trunc => "trunc_double(a)",
        Sqrt => "root_double(a)",
        Rsqrt => "divide_double(1.0lf, root_double(a))",
        Reciprocal => "divide_double(1.0lf, a)",
        Square => "a * a",
        Relu => "select(a, 0.0lf, a < 0.0lf && !nan_double(a))",
        LogicalNot => "a == 0.0lf && !nan_double(a)",
        IsNan => "nan_double(a)",
        IsInf => "abs(a) > 1.7976931348623157e308lf && !nan_double(a)",
        IsFinite => "abs(a) <= 1.7976931348623157e308lf && !nan_double(a)",
        _ => return None,
    })
}

/// Functions that take doubles apart, which needs 64-bit integers.
fn double_by_bits(op: UnaryOp) -> Option<&'static str> {
    use UnaryOp::*;
    Some(match op {
        Exp => "exp_double(a)",
        Expm1 => "expm1_double(a)",
        Log => "log_double(a)",
        Log2 => "log2_double(a)",
        Log10 => "log10_double(a)",
        Log1p => "log1p_double(a)",
        Sin => "sin_cos_double(a).x",
        Cos => "sin_cos_double(a).y",
        Tan => "tan_double(a)",
        Asin => "asin_double(a)",
        Acos => "acos_double(a)",
        Atan => "atan_double(a)",
        Sinh => "sinh_double(a)",
        Cosh => "cosh_double(a)",
        Tanh => "tanh_double(a)",
        Asinh => "asinh_double(a)",
        Acosh => "acosh_double(a)",
        Atanh => "atanh_double(a)",
        Erf => "erf_double(a)",
        Sigmoid => "sigmoid_double(a)",
        Gelu => "gelu_double(a)",
        GeluTanh => "gelu_tanh_double(a)",
        Silu => "silu_double(a)",
        Softplus => "softplus_double(a)",
        _ => return None,
    })
}

fn boolean(op: UnaryOp) -> Option<&'static str> {
    use UnaryOp::*;
    Some(match op {
        BitwiseNot | LogicalNot => "!a",
        IsNan | IsInf => "false",
        IsFinite => "true",
        _ => return None,
    })
}

fn unsigned(op: UnaryOp) -> Option<&'static str> {
    use UnaryOp::*;
    Some(match op {
        Neg => "0u - a",
        Abs | Relu => "a",
        Sign => "min(a, 1u)",
        Square => "a * a",
        BitwiseNot => "~a",
        LogicalNot => "a == 0u",
        IsNan | IsInf => "false",
        IsFinite => "true",
        _ => return None,
    })
}

fn signed(op: UnaryOp) -> Option<&'static str> {
    use UnaryOp::*;
    Some(match op {
        Neg => "-a",
        Abs => "select(a, -a, a < 0i)",
        Sign => "select(select(0i, 1i, a > 0i), -1i, a < 0i)",
        Square => "a * a",
        Relu => "max(a, 0i)",
        BitwiseNot => "~a",
        LogicalNot => "a == 0i",
        IsNan | IsInf => "false",
        IsFinite => "true",
        _ => return None,
    })
}

fn long(op: UnaryOp) -> Option<&'static str> {
    use UnaryOp::*;
    Some(match op {
        Neg => "-a",
        Abs => "select(a, -a, a < 0li)",
        Sign => "select(select(0li, 1li, a > 0li), -1li, a < 0li)",
        Square => "a * a",
        Relu => "select(a, 0li, a < 0li)",
        BitwiseNot => "~a",
        LogicalNot => "a == 0li",
        IsNan | IsInf => "false",
        IsFinite => "true",
        _ => return None,
    })
}

fn pair(op: UnaryOp) -> Option<&'static str> {
    use UnaryOp::*;
    Some(match op {
        Neg => "pair_negate(a)",
        Abs => "select(a, pair_negate(a), a.y >= 0x80000000u)",
        Sign => {
            "select(pair_of(select(1i, 0i, pair_zero(a))), vec2<u32>(0xffffffffu, 0xffffffffu), a.y >= 0x80000000u)"
        }
        Square => "pair_product(a, a)",
        Relu => "select(a, vec2<u32>(0u, 0u), a.y >= 0x80000000u)",
        BitwiseNot => "~a",
        LogicalNot => "pair_zero(a)",
        IsNan | IsInf => "false",
        IsFinite => "true",
        _ => return None,
    })
}

fn complex(op: UnaryOp) -> Option<&'static str> {
    use UnaryOp::*;
    Some(match op {
        Neg => "-a",
        Abs => "c_abs(a)",
        Exp => "c_exp(a)",
        Log => "c_log(a)",
        Log2 => "c_log(a) * 1.442695",
        Log10 => "c_log(a) * 0.4342945",
        Sqrt => "c_sqrt(a)",
        Rsqrt => "c_div(vec2<f32>(1.0, 0.0), c_sqrt(a))",
        Reciprocal => "c_div(vec2<f32>(1.0, 0.0), a)",
        Square => "c_mul(a, a)",
        Sin => "c_sin(a)",
        Cos => "c_cos(a)",
        Tan => "c_tan(a)",
        Asin => "c_asin(a)",
        Acos => "c_acos(a)",
        Atan => "c_atan(a)",
        Sinh => "c_sinh(a)",
        Cosh => "c_cosh(a)",
        Tanh => "c_tanh(a)",
        Asinh => "c_asinh(a)",
        Acosh => "c_acosh(a)",
        Atanh => "c_atanh(a)",
        Sigmoid => "c_sigmoid(a)",
        Silu => "c_mul(a, c_sigmoid(a))",
        LogicalNot => "a.x == 0.0 && a.y == 0.0 && !nan(a.x) && !nan(a.y)",
        IsNan => "nan(a.x) || nan(a.y)",
        IsInf => "infinite(a.x) || infinite(a.y)",
        IsFinite => "finite(a.x) && finite(a.y)",
        Conj => "vec2<f32>(a.x, -a.y)",
        Real => "a.x",
        Imag => "a.y",
        Angle => "atan2_of(a.y, a.x)",
        _ => return None,
    })
}

fn complex_double(op: UnaryOp) -> Option<&'static str> {
    use UnaryOp::*;
    Some(match op {
        Neg => "-a",
        Abs => "c_abs_double(a)",
        Reciprocal => "c_div_double(vec2<f64>(1.0lf, 0.0lf), a)",
        Square => "c_mul_double(a, a)",
        LogicalNot => "a.x == 0.0lf && a.y == 0.0lf",
        Conj => "vec2<f64>(a.x, -a.y)",
        Real => "a.x",
        Imag => "a.y",
        _ => return None,
    })
}

/// As [`double_by_bits`].
fn complex_double_by_bits(op: UnaryOp) -> Option<&'static str> {
    use UnaryOp::*;
    Some(match op {
        Exp => "c_exp_double(a)",
        Log => "c_log_double(a)",
        Log2 => "c_log_double(a) * 1.4426950408889634lf",
        Log10 => "c_log_double(a) * 0.4342944819032518lf",
        Sqrt => "c_sqrt_double(a)",
        Rsqrt => "c_div_double(c_one(), c_sqrt_double(a))",
        Sin => "c_sin_double(a)",
        Cos => "c_cos_double(a)",
        Tan => "c_tan_double(a)",
        Asin => "c_asin_double(a)",
        Acos => "c_acos_double(a)",
        Atan => "c_atan_double(a)",
        Sinh => "c_sinh_double(a)",
        Cosh => "c_cosh_double(a)",
        Tanh => "c_tanh_double(a)",
        Asinh => "c_asinh_double(a)",
        Acosh => "c_acosh_double(a)",
        Atanh => "c_atanh_double(a)",
        Sigmoid => "c_div_double(c_one(), c_one() + c_exp_double(-a))",
        Silu => "c_div_double(a, c_one() + c_exp_double(-a))",
        IsNan => "nan_double(a.x) || nan_double(a.y)",
        IsInf => "infinite_double(a.x) || infinite_double(a.y)",
        IsFinite => "finite_double(a.x) && finite_double(a.y)",
        Angle => "c_angle_double(a)",
        _ => return None,
    })
}

/// Functions whose many roundings doubles keep from the results.
fn complex_by_doubles(op: UnaryOp) -> Option<&'static str> {
    use UnaryOp::*;
    Some(match op {
        Asin => "c_narrow(c_asin_double(c_wide(a)))",
        Acos => "c_narrow(c_acos_double(c_wide(a)))",
        Atan => "c_narrow(c_atan_double(c_wide(a)))",
        Asinh => "c_narrow(c_asinh_double(c_wide(a)))",
        Acosh => "c_narrow(c_acosh_double(c_wide(a)))",
        Atanh => "c_narrow(c_atanh_double(c_wide(a)))",
        _ => return None,
    })
}
