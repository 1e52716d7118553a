//! Functions of each element.

use crate::binary::{NUMBER, meet};
use crate::dispatch::run;
use crate::{Tensor, TensorOrScalar};
use rustorch_core::{DType, DTypeKind, Op, Result, Scalar, UnaryOp, Weight};

/// How a unary function is computed of a dtype.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Way {
    /// As it is, which may be an error.
    Direct,
    /// The result is the argument.
    Same,
    /// The argument becomes `F32` first.
    Float,
}

/// Takes integers and truth values to `F32` where the function has irrational values.
pub(crate) fn way(op: UnaryOp, dtype: DType) -> Way {
    use UnaryOp::*;
    if op.output(dtype).is_some() {
        return Way::Direct;
    }
    match (dtype.kind(), op) {
        // Integers are rounded already.
        (DTypeKind::Int, Floor | Ceil | Round | Trunc) | (DTypeKind::Bool, Sign) => Way::Same,
        (DTypeKind::Bool | DTypeKind::Int | DTypeKind::Float, Conj) => Way::Same,
        // Arithmetic on truth values is a mistake, and stays one.
        (DTypeKind::Bool, Neg | Abs | Square | Relu) => Way::Direct,
        (DTypeKind::Bool | DTypeKind::Int, _) if op.output(DType::F32).is_some() => Way::Float,
        _ => Way::Direct,
    }
}

/// Runs a unary function.
#[inline]
pub(crate) fn unary(op: UnaryOp, x: &Tensor) -> Result<Tensor> {
    match way(op, x.dtype()) {
        Way::Direct => run(&Op::Unary(op), &[x]),
        Way::Same if op == UnaryOp::Conj => Ok(x.clone()),
        Way::Same => x.copy(),
        Way::Float => run(&Op::Unary(op), &[&x.to_dtype(DType::F32)?]),
    }
}

/// The dtype in which an operand meets its bounds.
pub(crate) fn bounded(dtype: DType, weight: Weight, bounds: [Option<Scalar>; 2]) -> Result<DType> {
    bounds
        .into_iter()
        .flatten()
        .try_fold(dtype, |dtype, bound| meet("clamp", &[(dtype, weight), (bound.default_dtype(), NUMBER)]))
}

macro_rules! unary_methods {
    ($($(#[$doc:meta])* $name:ident => $op:ident;)*) => {
        impl Tensor {$(
            $(#[$doc])*
            #[inline]
            pub fn $name(&self) -> Result<Tensor> {
                unary(UnaryOp::$op, self)
            }
        )*}
    };
}

unary_methods! {
    /// −x, for integers, floats and complex numbers.
    neg => Neg;
    /// |x|; the real modulus for complex numbers.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// assert_eq!(Tensor::new([-1i32, 2])?.abs()?.to_vec::<i32>()?, [1, 2]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    abs => Abs;
    /// −1, 0 or 1; 0 for NaN, as in PyTorch.
    sign => Sign;
    /// The integer below; integers are copied.
    floor => Floor;
    /// The integer above; integers are copied.
    ceil => Ceil;
    /// The nearest integer, halves to even; integers are copied.
    round => Round;
    /// The integer towards zero; integers are copied.
    trunc => Trunc;
    /// eˣ. Integers give `F32`, as in all functions with irrational values.
    ///
    /// ```
    /// # use rustorch_tensor::{DType, Tensor};
    /// let y = Tensor::new([0i64, 1])?.exp()?;
    /// assert_eq!(y.dtype(), DType::F32);
    /// assert_eq!(y.to_string(), "tensor([1.0000, 2.7183])");
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    exp => Exp;
    /// eˣ − 1, precise near 0. Integers give `F32`.
    expm1 => Expm1;
    /// Natural logarithm. Integers give `F32`.
    log => Log;
    /// Binary logarithm. Integers give `F32`.
    log2 => Log2;
    /// Decimal logarithm. Integers give `F32`.
    log10 => Log10;
    /// log(1 + x), precise near 0. Integers give `F32`.
    log1p => Log1p;
    /// Square root. Integers give `F32`.
    sqrt => Sqrt;
    /// 1/√x. Integers give `F32`.
    rsqrt => Rsqrt;
    /// 1/x. Integers give `F32`.
    reciprocal => Reciprocal;
    /// x².
    square => Square;
    /// Sine. Integers give `F32`.
    sin => Sin;
    /// Cosine. Integers give `F32`.
    cos => Cos;
    /// Tangent. Integers give `F32`.
    tan => Tan;
    /// Inverse sine. Integers give `F32`.
    asin => Asin;
    /// Inverse cosine. Integers give `F32`.
    acos => Acos;
    /// Inverse tangent. Integers give `F32`.
    atan => Atan;
    /// Hyperbolic sine. Integers give `F32`.
    sinh => Sinh;
    /// Hyperbolic cosine. Integers give `F32`.
    cosh => Cosh;
    /// Hyperbolic tangent. Integers give `F32`.
    tanh => Tanh;
    /// Inverse hyperbolic sine. Integers give `F32`.
    asinh => Asinh;
    /// Inverse hyperbolic cosine. Integers give `F32`.
    acosh => Acosh;
    /// Inverse hyperbolic tangent. Integers give `F32`.
    atanh => Atanh;
    /// The error function. Integers give `F32`.
    erf => Erf;
    /// 1/(1 + e⁻ˣ). Integers give `F32`.
    sigmoid => Sigmoid;
    /// max(x, 0).
    relu => Relu;
    /// x·Φ(x), by the error function. Integers give `F32`.
    gelu => Gelu;
    /// GELU by its tanh approximation. Integers give `F32`.
    gelu_tanh => GeluTanh;
    /// x·sigmoid(x). Integers give `F32`.
    silu => Silu;
    /// log(1 + eˣ), x itself above 20. Integers give `F32`.
    softplus => Softplus;
    /// Whether x is zero, as `Bool`.
    logical_not => LogicalNot;
    /// All bits inverted; negation of truth values.
    bitwise_not => BitwiseNot;
    /// Whether x is NaN, as `Bool`.
    isnan => IsNan;
    /// Whether x is ±∞, as `Bool`.
    isinf => IsInf;
    /// Whether x is neither NaN nor ±∞, as `Bool`.
    isfinite => IsFinite;
    /// The complex conjugate; real tensors are returned as they are.
    conj => Conj;
}

impl Tensor {
    /// The angle of complex numbers, in (−π, π]; of real ones 0, or π if negative. Integers give `F32`.
    pub fn angle(&self) -> Result<Tensor> {
        if self.dtype().is_complex() {
            return run(&Op::Unary(UnaryOp::Angle), &[self]);
        }
        let x = if self.dtype().is_float() { self.clone() } else { self.to_dtype(DType::F32)? };
        let real = x.lt(0)?.where_cond(&x.full_like(std::f64::consts::PI)?, &x.zeros_like()?)?;
        // NaN has no angle.
        x.isnan()?.where_cond(&x, &real)
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
        let dtype = bounded(self.dtype(), self.weight(), [min, max])?;
        run(&Op::Clamp { min, max }, &[&self.to_dtype(dtype)?])
    }

    /// `self + weight · (end − self)`.
    pub fn lerp<'a>(&self, end: &Tensor, weight: impl Into<TensorOrScalar<'a>>) -> Result<Tensor> {
        self.add(&end.sub(self)?.mul(weight)?)
    }
}
