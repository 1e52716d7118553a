//! Binary ops: arithmetic, comparison, selection, with broadcasting and dtype promotion.

use crate::dispatch::{run, run_with_scalar};
use crate::out::{binary_into, compare_into, out_doc};
use crate::{Tensor, TensorOrScalar};
use rustorch_core::{
    BinaryOp, CompareOp, DType, DTypeKind, Error, GluOp, Op, PromotionCategory, Result, Scalar, Where,
    result_type,
};
use rustorch_runtime::DeviceGuard;
use std::borrow::Cow;

/// What a plain real scalar becomes beside integers, as PyTorch's default dtype.
pub(crate) const DEFAULT_FLOAT: DType = DType::F32;

/// The category of a scalar in promotion.
pub(crate) const SCALAR: PromotionCategory = PromotionCategory::Scalar;

/// The dtype in which these operands meet.
pub(crate) fn promote(op: &'static str, operands: &[(DType, PromotionCategory)]) -> Result<DType> {
    let quantized = operands.iter().any(|(dtype, _)| dtype.is_quant());
    match result_type(operands.iter().copied(), DEFAULT_FLOAT) {
        Some(dtype) if !quantized => Ok(dtype),
        _ => Err(Error::dtype(
            op,
            "block-quantized tensors do not take part in this; use to_dtype(F32) first",
            operands.iter().map(|&(dtype, _)| dtype),
        )),
    }
}

impl Tensor {
    /// How much the dtype counts in promotion.
    #[inline]
    pub(crate) fn category(&self) -> PromotionCategory {
        if self.ndim() == 0 { PromotionCategory::ZeroDim } else { PromotionCategory::Dimensioned }
    }
}

impl<'a> TensorOrScalar<'a> {
    pub(crate) fn side(&self) -> Side {
        match self {
            TensorOrScalar::Tensor(tensor) => Side::Tensor(tensor.dtype(), tensor.category()),
            TensorOrScalar::Scalar(number) => Side::Number(*number),
        }
    }

    #[inline]
    fn with_category(&self) -> (DType, PromotionCategory) {
        self.side().with_category()
    }

    /// The operand as a tensor of `dtype`; scalars become 0-d tensors on the device of `beside`.
    pub(crate) fn to_tensor(
        self,
        op: &'static str,
        dtype: DType,
        beside: &Tensor,
    ) -> Result<Cow<'a, Tensor>> {
        match self {
            TensorOrScalar::Tensor(tensor) if tensor.dtype() == dtype => Ok(Cow::Borrowed(tensor)),
            TensorOrScalar::Tensor(tensor) => tensor.to_dtype(dtype).map(Cow::Owned),
            TensorOrScalar::Scalar(number) => {
                expect_fits(op, number, dtype)?;
                let _beside = DeviceGuard::beside(beside.storage());
                crate::create::scalar(number, dtype).map(Cow::Owned)
            }
        }
    }
}

/// An operand as promotion sees it.
#[derive(Clone, Copy)]
pub(crate) enum Side {
    Tensor(DType, PromotionCategory),
    Number(Scalar),
}

impl Side {
    #[inline]
    pub(crate) fn with_category(self) -> (DType, PromotionCategory) {
        match self {
            Side::Tensor(dtype, category) => (dtype, category),
            Side::Number(number) => (number.default_dtype(), SCALAR),
        }
    }
}

/// The dtypes in which a binary op is computed and has its result.
pub(crate) struct BinaryPromotion {
    pub(crate) compute: DType,
    pub(crate) result: DType,
}

/// How a function of these operands is computed.
pub(crate) fn binary_promotion(op: BinaryOp, sides: [Side; 2]) -> Result<BinaryPromotion> {
    let mut dtype = promote(op.name(), &sides.map(Side::with_category))?;
    let fractional = matches!(op, BinaryOp::Div | BinaryOp::Atan2);
    if fractional && matches!(dtype.kind(), DTypeKind::Bool | DTypeKind::Int) {
        dtype = DEFAULT_FLOAT;
    }
    if let (BinaryOp::Pow, Side::Number(exponent)) = (op, sides[1])
        && dtype.is_int()
        && exponent.to_i64() < 0
    {
        return Err(Error::argument(
            op.name(),
            format!("{dtype} has no power {exponent}: a negative exponent needs floats"),
        ));
    }
    // A scalar is not rounded to 16 bits before it is used.
    let rounded = sides.iter().any(|side| matches!(side, Side::Number(number) if is_rounded(*number, dtype)));
    Ok(BinaryPromotion { compute: if rounded { DType::F32 } else { dtype }, result: dtype })
}

/// Checks that a number has a place in an integer dtype, and that a complex one is not to lose a part. Negative numbers wrap around in unsigned ones down to minus
/// their largest, as in PyTorch, so that −1 means "all bits".
pub(crate) fn expect_fits(op: &'static str, number: Scalar, dtype: DType) -> Result<()> {
    if let Scalar::Complex(z) = number
        && z.im != 0.0
        && !matches!(dtype.kind(), DTypeKind::Bool | DTypeKind::Complex)
    {
        return Err(Error::argument(
            op,
            format!("{number} has an imaginary part, which {dtype} cannot hold"),
        ));
    }
    let (low, high) = match dtype {
        DType::U8 => (-(u8::MAX as i64), u8::MAX as i64),
        DType::I8 => (i8::MIN as i64, i8::MAX as i64),
        DType::I16 => (i16::MIN as i64, i16::MAX as i64),
        DType::I32 => (i32::MIN as i64, i32::MAX as i64),
        DType::U32 => (-(u32::MAX as i64), u32::MAX as i64),
        DType::I64 => (i64::MIN, i64::MAX),
        _ => return Ok(()),
    };
    let fits = match number {
        Scalar::Float(x) => x >= low as f64 && x <= high as f64,
        Scalar::Complex(z) => z.re >= low as f64 && z.re <= high as f64,
        other => (low..=high).contains(&other.to_i64()),
    };
    if fits { Ok(()) } else { Err(Error::argument(op, format!("{number} is outside the range of {dtype}"))) }
}

/// Whether a number loses digits in a 16-bit float.
fn is_rounded(number: Scalar, dtype: DType) -> bool {
    match dtype {
        DType::F16 => rustorch_core::f16::from_f64(number.to_f64()).to_f64() != number.to_f64(),
        DType::BF16 => rustorch_core::bf16::from_f64(number.to_f64()).to_f64() != number.to_f64(),
        _ => false,
    }
}

/// Runs a binary function of operands of which one at least is a tensor.
#[inline(always)]
pub(crate) fn binary(op: BinaryOp, a: TensorOrScalar<'_>, b: TensorOrScalar<'_>) -> Result<Tensor> {
    // The common case takes no detour.
    match (a, b) {
        (TensorOrScalar::Tensor(x), TensorOrScalar::Tensor(y)) => of_tensors(op, x, y),
        _ => promoted(op, a, b),
    }
}

fn of_tensors(op: BinaryOp, x: &Tensor, y: &Tensor) -> Result<Tensor> {
    if x.dtype() == y.dtype() && op.accepts(x.dtype()) {
        return run(&Op::Binary(op), &[x, y]);
    }
    promoted(op, x.into(), y.into())
}

fn promoted(op: BinaryOp, a: TensorOrScalar<'_>, b: TensorOrScalar<'_>) -> Result<Tensor> {
    use TensorOrScalar::Tensor;
    let name = op.name();
    let BinaryPromotion { compute, result } = binary_promotion(op, [a.side(), b.side()])?;
    let beside = match (a, b) {
        (Tensor(x), _) | (_, Tensor(x)) => x,
        _ => return Err(Error::argument(name, "needs a tensor among its operands")),
    };
    if compute != result {
        let (a, b) = (a.to_tensor(name, compute, beside)?, b.to_tensor(name, compute, beside)?);
        return run(&Op::Binary(op), &[&a, &b])?.to_dtype(result);
    }
    run_pair(&Op::Binary(op), result, [a, b], beside)
}

/// Runs a function of two operands that meet in `dtype`; `beside` is a tensor among them.
fn run_pair(op: &Op, dtype: DType, [a, b]: [TensorOrScalar<'_>; 2], beside: &Tensor) -> Result<Tensor> {
    use TensorOrScalar::{Scalar, Tensor};
    let name = op.name();
    if let (Tensor(x), Scalar(number)) | (Scalar(number), Tensor(x)) = (a, b)
        && x.dtype() == dtype
    {
        expect_fits(name, number, dtype)?;
        return run_with_scalar(op, x, number, matches!(a, Scalar(_)));
    }
    let (a, b) = (a.to_tensor(name, dtype, beside)?, b.to_tensor(name, dtype, beside)?);
    run(op, &[&a, &b])
}

fn compare(op: CompareOp, a: &Tensor, b: TensorOrScalar<'_>) -> Result<Tensor> {
    let this = TensorOrScalar::from(a);
    let dtype = promote(op.name(), &[this.with_category(), b.with_category()])?;
    run_pair(&Op::Compare(op), dtype, [this, b], a)
}

macro_rules! binary_methods {
    ($($(#[$doc:meta])* $name:ident, $into:ident => $op:ident;)*) => {
        impl Tensor {$(
            $(#[$doc])*
            #[inline]
            pub fn $name<'a>(&self, other: impl Into<TensorOrScalar<'a>>) -> Result<Tensor> {
                binary(BinaryOp::$op, self.into(), other.into())
            }

            #[doc = out_doc!($name)]
            #[cfg_attr(debug_assertions, track_caller)]
            pub fn $into<'a>(&self, other: impl Into<TensorOrScalar<'a>>, out: &Tensor) -> Result<()> {
                binary_into(BinaryOp::$op, self.into(), other.into(), out)
            }
        )*}
    };
}

binary_methods! {
    /// a + b; "or" of booleans. Operands broadcast and promote, as in all binary ops.
    ///
    /// ```
    /// # use rustorch_tensor::{DType, Tensor};
    /// let a = Tensor::new([[1i32], [2]])?;
    /// let b = Tensor::new([0.5f32, 1.0])?;
    /// assert_eq!(a.add(&b)?.to_vec::<f32>()?, [1.5, 2.0, 2.5, 3.0]);
    /// assert_eq!(a.add(1)?.dtype(), DType::I32);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    add, add_into => Add;
    /// a − b; not defined for booleans.
    sub, sub_into => Sub;
    /// a·b; "and" of booleans.
    mul, mul_into => Mul;
    /// a/b; integers give `F32`.
    div, div_into => Div;
    /// a/b rounded down.
    ///
    /// # Errors
    /// Among others if an integer is divided by zero.
    floor_divide, floor_divide_into => FloorDiv;
    /// a − b·⌊a/b⌋, with the sign of b.
    ///
    /// # Errors
    /// Among others if an integer is divided by zero.
    remainder, remainder_into => Remainder;
    /// aᵇ. In integers, tensors of negative exponents give what is left of the fraction: 0, or ±1 for ±1.
    ///
    /// # Errors
    /// Among others for integers to the power of a negative number.
    pow, pow_into => Pow;
    /// The larger; NaN if either is.
    maximum, maximum_into => Maximum;
    /// The smaller; NaN if either is.
    minimum, minimum_into => Minimum;
    /// The angle of the point (b, a); integers give `F32`.
    atan2, atan2_into => Atan2;
    /// Bitwise and; "and" of booleans.
    bitwise_and, bitwise_and_into => BitwiseAnd;
    /// Bitwise or; "or" of booleans.
    bitwise_or, bitwise_or_into => BitwiseOr;
    /// Bitwise exclusive or; inequality of booleans.
    bitwise_xor, bitwise_xor_into => BitwiseXor;
    /// a·2ᵇ in the integers, 0 where b is not below the width.
    bitwise_left_shift, bitwise_left_shift_into => ShiftLeft;
    /// a/2ᵇ rounded down.
    bitwise_right_shift, bitwise_right_shift_into => ShiftRight;
}

macro_rules! compare_methods {
    ($($(#[$doc:meta])* $name:ident, $into:ident => $op:ident;)*) => {
        impl Tensor {$(
            $(#[$doc])*
            #[inline]
            pub fn $name<'a>(&self, other: impl Into<TensorOrScalar<'a>>) -> Result<Tensor> {
                compare(CompareOp::$op, self, other.into())
            }

            #[doc = out_doc!($name)]
            #[cfg_attr(debug_assertions, track_caller)]
            pub fn $into<'a>(&self, other: impl Into<TensorOrScalar<'a>>, out: &Tensor) -> Result<()> {
                compare_into(CompareOp::$op, self, other.into(), out)
            }
        )*}
    };
}

compare_methods! {
    /// a = b, as `Bool`; false where either is NaN.
    eq, eq_into => Eq;
    /// a ≠ b, as `Bool`; true where either is NaN.
    ne, ne_into => Ne;
    /// a < b, as `Bool`.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// assert_eq!(Tensor::new([1.0f32, 3.0])?.lt(2)?.to_vec::<bool>()?, [true, false]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    lt, lt_into => Lt;
    /// a ≤ b, as `Bool`.
    le, le_into => Le;
    /// a > b, as `Bool`.
    gt, gt_into => Gt;
    /// a ≥ b, as `Bool`.
    ge, ge_into => Ge;
}

impl Tensor {
    /// number − self.
    pub fn rsub(&self, number: impl Into<Scalar>) -> Result<Tensor> {
        binary(BinaryOp::Sub, TensorOrScalar::Scalar(number.into()), self.into())
    }

    /// number / self; integers give `F32`.
    pub fn rdiv(&self, number: impl Into<Scalar>) -> Result<Tensor> {
        binary(BinaryOp::Div, TensorOrScalar::Scalar(number.into()), self.into())
    }

    /// number to the power of self.
    pub fn rpow(&self, number: impl Into<Scalar>) -> Result<Tensor> {
        binary(BinaryOp::Pow, TensorOrScalar::Scalar(number.into()), self.into())
    }

    /// a/b rounded towards zero.
    ///
    /// # Errors
    /// Among others if an integer is divided by zero.
    pub fn trunc_divide<'a>(&self, other: impl Into<TensorOrScalar<'a>>) -> Result<Tensor> {
        let other = other.into();
        let this = TensorOrScalar::from(self);
        let dtype = promote("trunc_divide", &[this.with_category(), other.with_category()])?;
        let a = this.to_tensor("trunc_divide", dtype, self)?;
        let b = other.to_tensor("trunc_divide", dtype, self)?;
        if !dtype.is_int() {
            return a.div(&*b)?.trunc();
        }
        // Rounding down differs where the signs differ and something remains.
        let down = a.floor_divide(&*b)?;
        let inexact = a.remainder(&*b)?.ne(0)?;
        let differ = a.lt(0)?.bitwise_xor(&b.lt(0)?)?;
        down.add(&inexact.bitwise_and(&differ)?.to_dtype(dtype)?)
    }

    /// Whether both are non-zero, as `Bool`.
    pub fn logical_and(&self, other: &Tensor) -> Result<Tensor> {
        self.to_dtype(DType::Bool)?.bitwise_and(&other.to_dtype(DType::Bool)?)
    }

    /// Whether either is non-zero, as `Bool`.
    pub fn logical_or(&self, other: &Tensor) -> Result<Tensor> {
        self.to_dtype(DType::Bool)?.bitwise_or(&other.to_dtype(DType::Bool)?)
    }

    /// Whether exactly one is non-zero, as `Bool`.
    pub fn logical_xor(&self, other: &Tensor) -> Result<Tensor> {
        self.to_dtype(DType::Bool)?.bitwise_xor(&other.to_dtype(DType::Bool)?)
    }

    /// `a` where this `Bool` tensor holds, else `b`. All three broadcast; `a` and `b` promote.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let x = Tensor::new([1.0f32, -2.0])?;
    /// assert_eq!(x.gt(0)?.where_cond(&x, 0)?.to_vec::<f32>()?, [1.0, 0.0]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    pub fn where_cond<'a, 'b>(
        &self,
        a: impl Into<TensorOrScalar<'a>>,
        b: impl Into<TensorOrScalar<'b>>,
    ) -> Result<Tensor> {
        let (a, b) = (a.into(), b.into());
        let dtype = promote("where", &[a.with_category(), b.with_category()])?;
        let (a, b) = (a.to_tensor("where", dtype, self)?, b.to_tensor("where", dtype, self)?);
        run(&Op::Where(Where), &[self, &a, &b])
    }

    /// With a scalar in every place where the `Bool` mask, which broadcasts, holds. The dtype stays.
    pub fn masked_fill(&self, mask: &Tensor, value: impl Into<Scalar>) -> Result<Tensor> {
        let value = TensorOrScalar::Scalar(value.into()).to_tensor("masked_fill", self.dtype(), self)?;
        run(&Op::Where(Where), &[mask, &value, self])
    }

    /// `silu(self) · up`, as ggml's `swiglu`.
    pub fn swiglu(&self, up: &Tensor) -> Result<Tensor> {
        run(&Op::Glu(GluOp::Silu), &[self, up])
    }

    /// `gelu(self) · up`, with the error function, as ggml's `geglu_erf`.
    pub fn geglu(&self, up: &Tensor) -> Result<Tensor> {
        run(&Op::Glu(GluOp::Gelu), &[self, up])
    }

    /// `gelu(self) · up` by the tanh approximation, as ggml's `geglu`.
    pub fn geglu_tanh(&self, up: &Tensor) -> Result<Tensor> {
        run(&Op::Glu(GluOp::GeluTanh), &[self, up])
    }

    /// `relu(self) · up`, as ggml's `reglu`.
    pub fn reglu(&self, up: &Tensor) -> Result<Tensor> {
        run(&Op::Glu(GluOp::Relu), &[self, up])
    }

    /// A complex tensor of real and imaginary parts, which broadcast and promote to `F32` or `F64`.
    ///
    /// ```
    /// # use rustorch_tensor::{C64, Tensor};
    /// let z = Tensor::complex(&Tensor::new([1.0f32, 0.0])?, &Tensor::new([0.0f32, 2.0])?)?;
    /// assert_eq!(z.mul(&z)?.to_vec::<C64>()?, [C64::new(1.0, 0.0), C64::new(-4.0, 0.0)]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    pub fn complex(re: &Tensor, im: &Tensor) -> Result<Tensor> {
        let dtype = promote("complex", &[(re.dtype(), re.category()), (im.dtype(), im.category())])?;
        let dtype = match dtype {
            DType::F64 => DType::F64,
            DType::C64 | DType::C128 => {
                return Err(Error::dtype("complex", "parts must be real", [re.dtype(), im.dtype()]));
            }
            _ => DType::F32,
        };
        let shape = re.shape().broadcast(im.shape(), "complex")?;
        let parts = [re, im].map(|x| x.to_dtype(dtype)?.broadcast_to(&shape));
        let [re, im] = parts;
        Tensor::stack(&[re?, im?], -1)?.view_as_complex()
    }

    /// A complex tensor of moduli and angles.
    pub fn polar(modulus: &Tensor, angle: &Tensor) -> Result<Tensor> {
        Tensor::complex(&modulus.mul(&angle.cos()?)?, &modulus.mul(&angle.sin()?)?)
    }

    /// Whether |a − b| ≤ atol + rtol·|b|, as `Bool`; `equal_nan` makes NaN equal to itself. Infinities must be equal.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let (a, b) = (Tensor::new([1.0f32, 2.0])?, Tensor::new([1.1f32, 2.0])?);
    /// assert_eq!(a.isclose(&b, 1e-5, 1e-8, false)?.to_vec::<bool>()?, [false, true]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the shapes do not broadcast.
    pub fn isclose(&self, other: &Tensor, rtol: f64, atol: f64, equal_nan: bool) -> Result<Tensor> {
        self.shape().broadcast(other.shape(), "isclose")?;
        let sides = [self, other].map(|x| (x.dtype(), PromotionCategory::Dimensioned));
        let dtype = if promote("isclose", &sides)?.is_complex() { DType::C128 } else { DType::F64 };
        let (a, b) = (self.to_dtype(dtype)?, other.to_dtype(dtype)?);
        let gap = a.sub(&b)?.abs()?;
        let near = gap.le(&b.abs()?.mul(rtol)?.add(atol)?)?.logical_and(&gap.isfinite()?)?;
        let close = self.eq(other)?.logical_or(&near)?;
        if equal_nan { close.logical_or(&a.isnan()?.logical_and(&b.isnan()?)?) } else { Ok(close) }
    }

    /// Whether both have one shape and equal elements, after promotion; NaN equals nothing. The answer is read back to the CPU.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let x = Tensor::new([1i32, 2])?;
    /// assert!(x.equal(&x.copy()?)? && !x.equal(&x.unsqueeze(0)?)?);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// Of block types; in a captured function.
    pub fn equal(&self, other: &Tensor) -> Result<bool> {
        if self.shape() != other.shape() {
            return Ok(false);
        }
        let equal = self.detach().eq(&other.detach())?.all_all()?;
        equal.expect_value("equal")?;
        Ok(equal.item()?.to_bool())
    }

    /// Whether all pairs are [close](Self::isclose).
    pub fn allclose(&self, other: &Tensor, rtol: f64, atol: f64, equal_nan: bool) -> Result<bool> {
        Ok(self.isclose(other, rtol, atol, equal_nan)?.all_all()?.item()?.to_bool())
    }
}
