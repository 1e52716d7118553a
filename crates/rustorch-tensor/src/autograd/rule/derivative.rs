//! The derivatives of pointwise operations, each once: as expressions of the arguments, the result and the result's gradient.
//!
//! Formulas and conventions where there is no derivative are PyTorch's (`tools/autograd/derivatives.yaml`,
//! `torch/csrc/autograd/FunctionsManual.cpp`): the gradient of a complex argument is the conjugate Wirtinger derivative, ties of extrema
//! share, and at a bound nothing passes.

use crate::{C128, Expr, ExprOrScalar};
use rustorch_core::{BinaryOp, Clamp, DType, GluOp, Op, Scalar, UnaryOp};
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, LN_2, LN_10, PI};

/// An operand of a binary operation: a value, or a scalar.
pub(super) type Operand<'t> = ExprOrScalar<'t>;

/// What a derivative is computed from.
pub(super) struct Terms<'a, 't> {
    pub(super) args: &'a [Operand<'t>],
    /// The result.
    pub(super) result: Expr<'t>,
    /// The gradient of the result.
    pub(super) grad: Expr<'t>,
    /// The dtype of the arguments.
    pub(super) dtype: DType,
}

/// The gradient of argument `i`, or `None` where it is zero everywhere.
pub(super) fn of<'t>(op: &Op, i: usize, terms: &Terms<'_, 't>) -> Option<Expr<'t>> {
    let Terms { args, result, grad, dtype } = *terms;
    let value = |i: usize| match args[i] {
        ExprOrScalar::Expr(x) => Some(x),
        ExprOrScalar::Scalar(_) => None,
    };
    match op {
        Op::Unary(op) => unary(*op, value(0)?, result, grad, dtype),
        Op::Binary(op) => binary(*op, i, [args[0], args[1]], result, grad, dtype),
        Op::Glu(op) => Some(glu(*op, i, value(0)?, value(1)?, grad)),
        Op::Clamp(Clamp { min, max }) => {
            let x = value(0)?;
            let below = min.map(|min| x.gt(min));
            let above = max.map(|max| x.lt(max));
            let inside = match (below, above) {
                (Some(below), Some(above)) => below.logical_and(above),
                (Some(one), None) | (None, Some(one)) => one,
                (None, None) => return Some(grad),
            };
            Some(inside.where_cond(grad, 0))
        }
        Op::Where(_) => match i {
            1 => Some(value(0)?.where_cond(grad, 0)),
            2 => Some(value(0)?.where_cond(0, grad)),
            _ => None,
        },
        Op::Cast(_) => Some(grad),
        _ => None,
    }
}

fn unary<'t>(op: UnaryOp, x: Expr<'t>, y: Expr<'t>, g: Expr<'t>, dtype: DType) -> Option<Expr<'t>> {
    use UnaryOp::*;
    Some(match op {
        Neg => -g,
        // At 0 the denominator is 1, so that no second derivative divides by it.
        Abs if dtype.is_complex() => g * y.eq(0).where_cond(0, x / y.masked_fill(y.eq(0), 1)),
        Abs => g * x.sign(),
        // Zero wherever there is a derivative.
        Sign | Floor | Ceil | Round | Trunc => return None,
        // No gradient passes these.
        LogicalNot | BitwiseNot | IsNan | IsInf | IsFinite => return None,
        Exp => g * y.conj(),
        Expm1 => g * (y + 1),
        Log => g / x.conj(),
        Log2 => g / (x.conj() * LN_2),
        Log10 => g / (x.conj() * LN_10),
        Log1p => g / (x + 1),
        Sqrt => g / (y.conj() * 2),
        Rsqrt => g * (y * y * y).conj() * -0.5,
        Reciprocal => -g * (y * y).conj(),
        Square => g * (x * 2).conj(),
        Sin => g * x.cos().conj(),
        Cos => g * (-x.sin()).conj(),
        Tan => g * (y * y + 1).conj(),
        Asin => g * (1 - x * x).rsqrt().conj(),
        Acos => g * -(1 - x * x).rsqrt().conj(),
        Atan => g / (x * x + 1).conj(),
        Sinh => g * x.cosh().conj(),
        Cosh => g * x.sinh().conj(),
        Tanh => g * (1 - y * y).conj(),
        Asinh => g * (x * x + 1).rsqrt().conj(),
        Acosh if dtype.is_complex() => g / ((x - 1).sqrt() * (x + 1).sqrt()).conj(),
        Acosh => g * (x * x - 1).rsqrt(),
        Atanh => g / (1 - x * x).conj(),
        Erf => g * (-(x * x)).exp() * FRAC_2_SQRT_PI,
        Erfc => g * (-(x * x)).exp() * -FRAC_2_SQRT_PI,
        Lgamma => g * x.digamma(),
        Digamma => g * x.trigamma(),
        // Composed of several operations.
        Trigamma => return None,
        Erfinv => g * (y * y).exp() * (PI.sqrt() / 2.0),
        Sigmoid => g * ((1 - y) * y).conj(),
        Relu => y.le(0).where_cond(0, g),
        Gelu => g * gelu(x),
        GeluTanh => g * gelu_tanh(x),
        Silu => g * silu(x).conj(),
        Softplus => x.gt(20).where_cond(g, g * x.sigmoid()),
        Conj => g.conj(),
        Real => g,
        Imag => g * C128::new(0.0, 1.0),
        Angle => {
            let z = x * C128::new(0.0, 1.0) / x.abs().square();
            x.abs().eq(0).where_cond(0, g * z)
        }
    })
}

/// Φ(x) + x·φ(x)
fn gelu(x: Expr<'_>) -> Expr<'_> {
    let density = (x * x * -0.5).exp() * (FRAC_2_SQRT_PI * FRAC_1_SQRT_2 * 0.5);
    ((x * FRAC_1_SQRT_2).erf() + 1) * 0.5 + x * density
}

fn gelu_tanh(x: Expr<'_>) -> Expr<'_> {
    // √(2/π)
    let root = FRAC_2_SQRT_PI * FRAC_1_SQRT_2;
    let t = ((x * x * x * 0.044715 + x) * root).tanh();
    let inner = (x * x * (3.0 * 0.044715) + 1) * root;
    (t + 1) * 0.5 + x * 0.5 * (1 - t * t) * inner
}

fn silu(x: Expr<'_>) -> Expr<'_> {
    let s = x.sigmoid();
    s * (x * (1 - s) + 1)
}

fn glu<'t>(op: GluOp, i: usize, gate: Expr<'t>, up: Expr<'t>, g: Expr<'t>) -> Expr<'t> {
    match (op, i) {
        (GluOp::Silu, 0) => g * up * silu(gate),
        (GluOp::Gelu, 0) => g * up * gelu(gate),
        (GluOp::GeluTanh, 0) => g * up * gelu_tanh(gate),
        (GluOp::Relu, 0) => gate.le(0).where_cond(0, g * up),
        (GluOp::Silu, _) => g * gate.silu(),
        (GluOp::Gelu, _) => g * gate.gelu(),
        (GluOp::GeluTanh, _) => g * gate.gelu_tanh(),
        (GluOp::Relu, _) => g * gate.relu(),
    }
}

fn binary<'t>(
    op: BinaryOp,
    i: usize,
    [a, b]: [Operand<'t>; 2],
    y: Expr<'t>,
    g: Expr<'t>,
    dtype: DType,
) -> Option<Expr<'t>> {
    use BinaryOp::*;
    Some(match (op, i) {
        (Add, _) | (Sub | Remainder, 0) => g,
        (Sub, _) => -g,
        (Mul, 0) => g.mul(conj(b)),
        (Mul, _) => g.mul(conj(a)),
        (Div, 0) => g.div(conj(b)),
        // Not −a/b²: b² may overflow where this does not.
        (Div, _) => -g * y.div(b).conj(),
        (Pow, 0) => power_base(expr(a)?, b, g)?,
        (Pow, _) => power_exponent(a, expr(b)?, y, g, dtype),
        (Remainder, _) => -g * floor_quotient(a, b),
        (Maximum, 0) | (Minimum, 1) => tie(a, b, g).masked_fill(less(a, b), 0),
        (Maximum, _) | (Minimum, _) => tie(a, b, g).masked_fill(less(b, a), 0),
        (Atan2, _) => {
            let (squares, slope) = (squares(a, b), if i == 0 { g.mul(b) } else { -g.mul(a) });
            let nowhere = squares.eq(0);
            slope * squares.rdiv(1).masked_fill(nowhere, 0)
        }
        (LogAddExp, _) => {
            let (x, other) = if i == 0 { (expr(a)?, b) } else { (expr(b)?, a) };
            // Equal infinities share the gradient; their difference would be NaN.
            let both_infinite = x.eq(other).logical_and(x.isinf());
            g * x.sub(other).masked_fill(both_infinite, 0).sigmoid()
        }
        (FloorDiv | BitwiseAnd | BitwiseOr | BitwiseXor | ShiftLeft | ShiftRight, _) => return None,
    })
}

fn expr(x: Operand<'_>) -> Option<Expr<'_>> {
    match x {
        ExprOrScalar::Expr(x) => Some(x),
        ExprOrScalar::Scalar(_) => None,
    }
}

fn conj(x: Operand<'_>) -> Operand<'_> {
    match x {
        ExprOrScalar::Expr(x) => x.conj().into(),
        ExprOrScalar::Scalar(Scalar::Complex(z)) => Scalar::Complex(z.conj()).into(),
        real => real,
    }
}

/// Of aᵇ with respect to a: b·aᵇ⁻¹, and 0 where b is 0.
fn power_base<'t>(a: Expr<'t>, b: Operand<'t>, g: Expr<'t>) -> Option<Expr<'t>> {
    let exponent = match b {
        ExprOrScalar::Scalar(exponent) => exponent,
        ExprOrScalar::Expr(b) => return Some(b.eq(0).where_cond(0, g * (b * a.pow(b - 1)).conj())),
    };
    let less = match exponent {
        _ if !exponent.to_bool() => return None,
        Scalar::Bool(_) => Scalar::Int(0),
        Scalar::Int(n) => Scalar::Int(n.saturating_sub(1)),
        Scalar::Float(x) => Scalar::Float(x - 1.0),
        Scalar::Complex(z) => Scalar::Complex(z - 1.0),
    };
    Some(g * a.pow(less).mul(exponent).conj())
}

/// Of aᵇ with respect to b: aᵇ·log a, and 0 where a is 0 and b is real and not negative.
fn power_exponent<'t>(a: Operand<'t>, b: Expr<'t>, y: Expr<'t>, g: Expr<'t>, dtype: DType) -> Expr<'t> {
    let positive = |b: Expr<'t>| match dtype.is_complex() {
        true => b.imag().eq(0).logical_and(b.real().ge(0)),
        false => b.ge(0),
    };
    match a {
        ExprOrScalar::Expr(a) => g * a.eq(0).logical_and(positive(b)).where_cond(0, (y * a.log()).conj()),
        ExprOrScalar::Scalar(base) => {
            let log = match base {
                Scalar::Complex(z) => Scalar::Complex(z.ln()),
                real => Scalar::Float(real.to_f64().ln()),
            };
            let slope = y.mul(log).conj();
            if base.to_bool() { g * slope } else { g * positive(b).where_cond(0, slope) }
        }
    }
}

/// ⌊a/b⌋ by the remainder: a quotient near an integer may be rounded across it.
fn floor_quotient<'t>(a: Operand<'t>, b: Operand<'t>) -> Expr<'t> {
    match (a, b) {
        (ExprOrScalar::Expr(a), ExprOrScalar::Expr(b)) => {
            let quotient = b.eq(0).where_cond(a / b, ((a - a.remainder(b)) / b).round());
            // By an infinity the remainder of the other sign is that infinity. a − a is NaN where a is not finite.
            let nothing = a.sub(a);
            let by_infinity = (a * b).lt(0).where_cond(nothing - 1, nothing);
            b.abs().eq(f64::INFINITY).where_cond(by_infinity, quotient).floor()
        }
        (ExprOrScalar::Expr(a), b) => a.div(b).floor(),
        (ExprOrScalar::Scalar(number), ExprOrScalar::Expr(b)) => b.rdiv(number).floor(),
        (ExprOrScalar::Scalar(_), ExprOrScalar::Scalar(_)) => unreachable!("one operand is a tensor"),
    }
}

fn squares<'t>(a: Operand<'t>, b: Operand<'t>) -> Expr<'t> {
    match (a, b) {
        (ExprOrScalar::Expr(a), ExprOrScalar::Expr(b)) => a * a + b * b,
        (ExprOrScalar::Expr(x), ExprOrScalar::Scalar(number))
        | (ExprOrScalar::Scalar(number), ExprOrScalar::Expr(x)) => x * x + number.to_f64() * number.to_f64(),
        (ExprOrScalar::Scalar(_), ExprOrScalar::Scalar(_)) => unreachable!("one operand is a tensor"),
    }
}

/// Half of the gradient where both are equal.
fn tie<'t>(a: Operand<'t>, b: Operand<'t>, g: Expr<'t>) -> Expr<'t> {
    let equal = match (a, b) {
        (ExprOrScalar::Expr(x), other) | (other, ExprOrScalar::Expr(x)) => x.eq(other),
        (ExprOrScalar::Scalar(_), ExprOrScalar::Scalar(_)) => unreachable!("one operand is a tensor"),
    };
    equal.where_cond(g * 0.5, g)
}

fn less<'t>(a: Operand<'t>, b: Operand<'t>) -> Expr<'t> {
    match (a, b) {
        (ExprOrScalar::Expr(a), b) => a.lt(b),
        (a, ExprOrScalar::Expr(b)) => b.gt(a),
        (ExprOrScalar::Scalar(_), ExprOrScalar::Scalar(_)) => unreachable!("one operand is a tensor"),
    }
}
