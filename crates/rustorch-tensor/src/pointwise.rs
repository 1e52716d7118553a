//! Unary ops.

use crate::binary::{SCALAR, promote};
use crate::dispatch::run;
use crate::out::{out_doc, unary_into};
use crate::{Tensor, TensorOrScalar};
use rustorch_core::{Clamp, DType, DTypeKind, Op, PromotionCategory, Result, Scalar, UnaryOp};

/// How a unary function is computed of a dtype.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum UnaryPromotion {
    /// As it is, which may be an error.
    Direct,
    /// The result is the argument.
    Same,
    /// The argument becomes `F32` first.
    Float,
}

/// Takes integers and booleans to `F32` where the function has irrational values.
pub(crate) fn unary_promotion(op: UnaryOp, dtype: DType) -> UnaryPromotion {
    use UnaryOp::*;
    if op.output(dtype).is_some() {
        return UnaryPromotion::Direct;
    }
    match (dtype.kind(), op) {
        // Integers are rounded already.
        (DTypeKind::Int, Floor | Ceil | Round | Trunc) | (DTypeKind::Bool, Sign) => UnaryPromotion::Same,
        (DTypeKind::Bool | DTypeKind::Int | DTypeKind::Float, Conj) => UnaryPromotion::Same,
        // Arithmetic on booleans is a mistake, and stays one.
        (DTypeKind::Bool, Neg | Abs | Square | Relu) => UnaryPromotion::Direct,
        (DTypeKind::Bool | DTypeKind::Int, _) if op.output(DType::F32).is_some() => UnaryPromotion::Float,
        _ => UnaryPromotion::Direct,
    }
}

/// Runs a unary function.
#[inline]
pub(crate) fn unary(op: UnaryOp, x: &Tensor) -> Result<Tensor> {
    match unary_promotion(op, x.dtype()) {
        UnaryPromotion::Direct => run(&Op::Unary(op), &[x]),
        UnaryPromotion::Same if op == UnaryOp::Conj => Ok(x.clone()),
        UnaryPromotion::Same => x.copy(),
        UnaryPromotion::Float => run(&Op::Unary(op), &[&x.to_dtype(DType::F32)?]),
    }
}

/// The dtype in which an operand meets its bounds.
pub(crate) fn bounded(
    dtype: DType,
    category: PromotionCategory,
    bounds: [Option<Scalar>; 2],
) -> Result<DType> {
    bounds.into_iter().flatten().try_fold(dtype, |dtype, bound| {
        promote("clamp", &[(dtype, category), (bound.default_dtype(), SCALAR)])
    })
}

macro_rules! unary_methods {
    ($($(#[$doc:meta])* $name:ident, $into:ident => $op:ident;)*) => {
        impl Tensor {$(
            $(#[$doc])*
            #[inline]
            pub fn $name(&self) -> Result<Tensor> {
                unary(UnaryOp::$op, self)
            }

            #[doc = out_doc!($name)]
            #[cfg_attr(debug_assertions, track_caller)]
            pub fn $into(&self, out: &Tensor) -> Result<()> {
                unary_into(UnaryOp::$op, self, out)
            }
        )*}
    };
}

unary_methods! {
    /// −x, for integers, floats and complex numbers.
    neg, neg_into => Neg;
    /// |x|; the real modulus for complex numbers.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// assert_eq!(Tensor::new([-1i32, 2])?.abs()?.to_vec::<i32>()?, [1, 2]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    abs, abs_into => Abs;
    /// −1, 0 or 1; 0 for NaN, as in PyTorch.
    sign, sign_into => Sign;
    /// The integer below; integers are copied.
    floor, floor_into => Floor;
    /// The integer above; integers are copied.
    ceil, ceil_into => Ceil;
    /// The nearest integer, halves to even; integers are copied.
    round, round_into => Round;
    /// The integer towards zero; integers are copied.
    trunc, trunc_into => Trunc;
    /// eˣ. Integers give `F32`, as in all functions with irrational values.
    ///
    /// ```
    /// # use rustorch_tensor::{DType, Tensor};
    /// let y = Tensor::new([0i64, 1])?.exp()?;
    /// assert_eq!(y.dtype(), DType::F32);
    /// assert_eq!(y.to_string(), "tensor([1.0000, 2.7183])");
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    exp, exp_into => Exp;
    /// eˣ − 1, precise near 0. Integers give `F32`.
    expm1, expm1_into => Expm1;
    /// Natural logarithm. Integers give `F32`.
    log, log_into => Log;
    /// Binary logarithm. Integers give `F32`.
    log2, log2_into => Log2;
    /// Decimal logarithm. Integers give `F32`.
    log10, log10_into => Log10;
    /// log(1 + x), precise near 0. Integers give `F32`.
    log1p, log1p_into => Log1p;
    /// Square root. Integers give `F32`.
    sqrt, sqrt_into => Sqrt;
    /// 1/√x. Integers give `F32`.
    rsqrt, rsqrt_into => Rsqrt;
    /// 1/x. Integers give `F32`.
    reciprocal, reciprocal_into => Reciprocal;
    /// x².
    square, square_into => Square;
    /// Sine. Integers give `F32`.
    sin, sin_into => Sin;
    /// Cosine. Integers give `F32`.
    cos, cos_into => Cos;
    /// Tangent. Integers give `F32`.
    tan, tan_into => Tan;
    /// Inverse sine. Integers give `F32`.
    asin, asin_into => Asin;
    /// Inverse cosine. Integers give `F32`.
    acos, acos_into => Acos;
    /// Inverse tangent. Integers give `F32`.
    atan, atan_into => Atan;
    /// Hyperbolic sine. Integers give `F32`.
    sinh, sinh_into => Sinh;
    /// Hyperbolic cosine. Integers give `F32`.
    cosh, cosh_into => Cosh;
    /// Hyperbolic tangent. Integers give `F32`.
    tanh, tanh_into => Tanh;
    /// Inverse hyperbolic sine. Integers give `F32`.
    asinh, asinh_into => Asinh;
    /// Inverse hyperbolic cosine. Integers give `F32`.
    acosh, acosh_into => Acosh;
    /// Inverse hyperbolic tangent. Integers give `F32`.
    atanh, atanh_into => Atanh;
    /// The error function. Integers give `F32`.
    erf, erf_into => Erf;
    /// The inverse of the error function: ±∞ at ±1, NaN beyond. Integers give `F32`.
    erfinv, erfinv_into => Erfinv;
    /// 1 − erf(x), without losing digits where erf(x) is near 1. Integers give `F32`.
    erfc, erfc_into => Erfc;
    /// log|Γ(x)|: +∞ at 0, at negative integers and at ±∞. Integers give `F32`.
    lgamma, lgamma_into => Lgamma;
    /// The derivative of [`lgamma`](Tensor::lgamma), ψ(x): −∞ at 0, NaN at negative integers. Integers give `F32`.
    digamma, digamma_into => Digamma;
    /// The derivative of [`digamma`](Tensor::digamma), `torch.polygamma(1, x)`, which has no gradient of its own here. Integers give `F32`.
    trigamma, trigamma_into => Trigamma;
    /// 1/(1 + e⁻ˣ). Integers give `F32`.
    sigmoid, sigmoid_into => Sigmoid;
    /// max(x, 0).
    relu, relu_into => Relu;
    /// x·Φ(x), by the error function. Integers give `F32`.
    gelu, gelu_into => Gelu;
    /// GELU by its tanh approximation. Integers give `F32`.
    gelu_tanh, gelu_tanh_into => GeluTanh;
    /// x·sigmoid(x). Integers give `F32`.
    silu, silu_into => Silu;
    /// log(1 + eˣ), x itself above 20. Integers give `F32`.
    softplus, softplus_into => Softplus;
    /// Whether x is zero, as `Bool`.
    logical_not, logical_not_into => LogicalNot;
    /// All bits inverted; negation of booleans.
    bitwise_not, bitwise_not_into => BitwiseNot;
    /// Whether x is NaN, as `Bool`.
    isnan, isnan_into => IsNan;
    /// Whether x is ±∞, as `Bool`.
    isinf, isinf_into => IsInf;
    /// Whether x is neither NaN nor ±∞, as `Bool`.
    isfinite, isfinite_into => IsFinite;
    /// The complex conjugate; real tensors are returned as they are.
    conj, conj_into => Conj;
}

impl Tensor {
    /// The angle of complex numbers, in (−π, π]; of real ones 0, or π if negative. Integers give `F32`.
    pub fn angle(&self) -> Result<Tensor> {
        if self.dtype().is_complex() {
            return run(&Op::Unary(UnaryOp::Angle), &[self]);
        }
        let x = if self.dtype().is_float() { self.clone() } else { self.to_dtype(DType::F32)? };
        let real = x.lt(0)?.where_cond(&x.full_like(std::f64::consts::PI)?, &x.zeros_like()?)?;
        // NaN has no angle, and the gradient is zero everywhere: trunc has that one, too.
        x.isnan()?.where_cond(&x.trunc()?, &real)
    }

    /// Kept within bounds; `max` wins where it is below `min`, and NaN stays. Bounds that are not integers take an
    /// integer tensor to `F32`.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// assert_eq!(Tensor::new([-2.0f32, 0.5, 7.0])?.clamp(-1, 1)?.to_vec::<f32>()?, [-1.0, 0.5, 1.0]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    pub fn clamp(&self, min: impl Into<Scalar>, max: impl Into<Scalar>) -> Result<Tensor> {
        self.bounded(Some(min.into()), Some(max.into()))
    }

    /// Not below a bound.
    pub fn clamp_min(&self, min: impl Into<Scalar>) -> Result<Tensor> {
        self.bounded(Some(min.into()), None)
    }

    /// Not above a bound.
    pub fn clamp_max(&self, max: impl Into<Scalar>) -> Result<Tensor> {
        self.bounded(None, Some(max.into()))
    }

    fn bounded(&self, min: Option<Scalar>, max: Option<Scalar>) -> Result<Tensor> {
        let dtype = bounded(self.dtype(), self.category(), [min, max])?;
        run(&Op::Clamp(Clamp { min, max }), &[&self.to_dtype(dtype)?])
    }

    /// `self + weight · (end − self)`.
    pub fn lerp<'a>(&self, end: &Tensor, weight: impl Into<TensorOrScalar<'a>>) -> Result<Tensor> {
        self.add(&end.sub(self)?.mul(weight)?)
    }
}
