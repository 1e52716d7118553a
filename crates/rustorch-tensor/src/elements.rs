//! Functions of elements that are mostly composed of others: exp2, fmod, hypot, logaddexp, copysign and their kin.

use crate::binary::{DEFAULT_FLOAT, Side, binary, promote};
use crate::{Tensor, TensorOrScalar};
use rustorch_core::{BinaryOp, DType, DTypeKind, Error, Result, Scalar};
use std::borrow::Cow;

/// Two operands in the dtype to which they promote; what is neither float nor, if so asked, complex is refused.
pub(crate) fn operands<'a>(
    op: &'static str,
    a: &'a Tensor,
    b: TensorOrScalar<'a>,
    takes: impl Fn(DType) -> bool,
    what: &str,
) -> Result<[Cow<'a, Tensor>; 2]> {
    let this = TensorOrScalar::from(a);
    if let TensorOrScalar::Tensor(b) = b {
        a.shape().broadcast(b.shape(), op)?;
    }
    let dtype = promote(op, &[this, b].map(|x| Side::with_category(x.side())))?;
    if !takes(dtype) {
        let other = b.side().with_category().0;
        return Err(Error::dtype(op, format!("takes {what}; convert with to_dtype"), [a.dtype(), other]));
    }
    Ok([this.to_tensor(op, dtype, a)?, b.to_tensor(op, dtype, a)?])
}

/// A function of tensors of one dtype, of which those of 16 bits are computed in `F32` and rounded once.
fn wide<const N: usize>(
    name: &'static str,
    operands: [&Tensor; N],
    f: impl FnOnce([&Tensor; N]) -> Result<Tensor>,
) -> Result<Tensor> {
    let dtype = promote(name, &operands.map(|x| (x.dtype(), x.category())))?;
    if !matches!(dtype, DType::F16 | DType::BF16) {
        return f(operands);
    }
    let mut widened = operands.map(Clone::clone);
    for x in &mut widened {
        *x = x.to_dtype(DType::F32)?;
    }
    f(widened.each_ref())?.to_dtype(dtype)
}

/// The largest number of a float dtype.
pub(crate) fn largest(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => rustorch_core::f16::MAX.to_f64(),
        DType::BF16 => rustorch_core::bf16::MAX.to_f64(),
        DType::F32 => f32::MAX.into(),
        _ => f64::MAX,
    }
}

impl Tensor {
    /// 2ˣ. Integers give `F32`.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// assert_eq!(Tensor::new([-1.0f32, 0.0, 3.0])?.exp2()?.to_vec::<f32>()?, [0.5, 1.0, 8.0]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// Of block types.
    pub fn exp2(&self) -> Result<Tensor> {
        match self.dtype().kind() {
            DTypeKind::Bool | DTypeKind::Int => self.to_dtype(DEFAULT_FLOAT)?.rpow(2),
            _ => self.rpow(2),
        }
    }

    /// x − [trunc](Self::trunc)(x), with the sign of x.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// assert_eq!(Tensor::new([1.25f32, -2.5])?.frac()?.to_vec::<f32>()?, [0.25, -0.5]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the dtype is no float.
    pub fn frac(&self) -> Result<Tensor> {
        if !self.dtype().is_float() {
            return Err(Error::dtype("frac", "takes floats", [self.dtype()]));
        }
        self.sub(&self.trunc()?)
    }

    /// a − b·trunc(a/b), exactly, with the sign of a, as C's `fmod`; [`remainder`](Self::remainder) has the sign of b.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// assert_eq!(Tensor::new([-7i32, 7])?.fmod(3)?.to_vec::<i32>()?, [-1, 1]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If an integer is divided by zero; of booleans and complex numbers.
    pub fn fmod<'a>(&'a self, other: impl Into<TensorOrScalar<'a>>) -> Result<Tensor> {
        const NAME: &str = "fmod";
        let takes = |dtype: DType| dtype.is_int() || dtype.is_float();
        let [a, b] = operands(NAME, self, other.into(), takes, "integers and floats")?;
        if a.dtype().is_int() {
            // Its sign is b's; of another sign than a's, it is b too much.
            let r = a.remainder(&*b).map_err(|error| match error {
                Error::Argument { message, .. } => Error::argument(NAME, message),
                other => other,
            })?;
            let differ = r.ne(0)?.logical_and(&r.lt(0)?.ne(&a.lt(0)?)?)?;
            return differ.where_cond(&r.sub(&*b)?, &r);
        }
        let is_negative = a.lt(0)?;
        let r = is_negative.where_cond(&a.neg()?, &*a)?.remainder(&b.abs()?)?;
        is_negative.where_cond(&r.neg()?, &r)
    }

    /// √(a² + b²), without overflow in between. Zeros have the gradient zero.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let x = Tensor::new([3.0f32, 3e30])?;
    /// assert_eq!(x.hypot(&Tensor::new([4.0f32, 4e30])?)?.to_vec::<f32>()?, [5.0, 5e30]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the operands do not promote to a float.
    pub fn hypot<'a>(&'a self, other: impl Into<TensorOrScalar<'a>>) -> Result<Tensor> {
        let [a, b] = operands("hypot", self, other.into(), DType::is_float, "floats")?;
        Tensor::complex(&a, &b)?.abs()?.to_dtype(a.dtype())
    }

    /// log(eᵃ + eᵇ), without overflow in between; also of complex numbers.
    ///
    /// On the CPU it is right in the last places of `F32` and `F64` also where eᵃ + eᵇ is nearly 1; there other devices have the error of
    /// numbers up to log 2, as PyTorch has. Equal infinities share the gradient.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let x = Tensor::new([1000.0f32, f32::NEG_INFINITY])?;
    /// assert_eq!(x.logaddexp(&Tensor::new([0.0f32, 2.0])?)?.to_vec::<f32>()?, [1000.0, 2.0]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the operands do not promote to a float or a complex number.
    pub fn logaddexp<'a>(&'a self, other: impl Into<TensorOrScalar<'a>>) -> Result<Tensor> {
        const OP: BinaryOp = BinaryOp::LogAddExp;
        let (this, other) = (TensorOrScalar::from(self), other.into());
        let dtype = promote(OP.name(), &[this, other].map(|x| Side::with_category(x.side())))?;
        if dtype.is_float() {
            return binary(OP, this, other);
        }
        let [a, b] = operands(OP.name(), self, other, DType::is_complex, "floats and complex numbers")?;
        let is_less = a.real()?.lt(&b.real()?)?;
        let (more, less) = (is_less.where_cond(&*b, &*a)?, is_less.where_cond(&*a, &*b)?);
        // Beside −∞ the other is the result, and of two ∞ either; their difference would be NaN.
        let alone = less.real()?.isinf()?;
        let power = less.masked_fill(&alone, 0)?.sub(&more.masked_fill(&alone, 0)?)?.exp()?;
        more.add(&power.add(1)?.log()?.masked_fill(&alone, 0)?)
    }

    /// |a| with the sign of b, also of its zeros; that of NaN counts as positive. Integers give `F32`.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let x = Tensor::new([1.0f32, -2.0])?.copysign(&Tensor::new([-0.0f32, 5.0])?)?;
    /// assert_eq!(x.to_vec::<f32>()?, [-1.0, 2.0]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// Of complex numbers.
    pub fn copysign<'a>(&'a self, other: impl Into<TensorOrScalar<'a>>) -> Result<Tensor> {
        let takes = |dtype: DType| !dtype.is_complex();
        let [a, b] = operands("copysign", self, other.into(), takes, "real numbers")?;
        let dtype = if a.dtype().is_float() { a.dtype() } else { DEFAULT_FLOAT };
        let magnitude = a.to_dtype(dtype)?.abs()?;
        let sign = b.to_dtype(dtype)?.detach();
        // 1/−∞ is −0, and 1/−0 is −∞.
        let is_negative = sign.lt(0)?.logical_or(&sign.reciprocal()?.lt(0)?)?;
        is_negative.where_cond(&magnitude.neg()?, &magnitude)
    }

    /// With `nan` in the place of NaN, `posinf` of ∞ and `neginf` of −∞: by default the dtype's largest and smallest number. Of complex
    /// numbers, both parts. Other dtypes have none of these, and are copied.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let x = Tensor::new([f32::NAN, f32::INFINITY, f32::NEG_INFINITY])?;
    /// assert_eq!(x.nan_to_num(0.0, None, Some(-1.0))?.to_vec::<f32>()?, [0.0, f32::MAX, -1.0]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// Of block types.
    pub fn nan_to_num(&self, nan: f64, posinf: Option<f64>, neginf: Option<f64>) -> Result<Tensor> {
        let dtype = self.dtype();
        if dtype.is_complex() {
            let [re, im] = [self.real()?, self.imag()?].map(|part| part.nan_to_num(nan, posinf, neginf));
            return Tensor::complex(&re?, &im?);
        }
        if !dtype.is_float() {
            return self.copy();
        }
        let most = largest(dtype);
        let finite = self.masked_fill(&self.isnan()?, nan)?;
        let finite = finite.masked_fill(&self.eq(f64::INFINITY)?, posinf.unwrap_or(most))?;
        finite.masked_fill(&self.eq(f64::NEG_INFINITY)?, neginf.unwrap_or(-most))
    }

    /// The larger; where one is NaN, the other. Equals share the gradient.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let x = Tensor::new([f32::NAN, 1.0])?;
    /// assert_eq!(x.fmax(&Tensor::new([3.0f32, 2.0])?)?.to_vec::<f32>()?, [3.0, 2.0]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// Of complex numbers.
    pub fn fmax<'a>(&'a self, other: impl Into<TensorOrScalar<'a>>) -> Result<Tensor> {
        self.extreme("fmax", other.into(), |a, b| a.maximum(b))
    }

    /// The smaller; where one is NaN, the other. Equals share the gradient.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// assert_eq!(Tensor::new([f32::NAN, 1.0])?.fmin(2)?.to_vec::<f32>()?, [2.0, 1.0]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// Of complex numbers.
    pub fn fmin<'a>(&'a self, other: impl Into<TensorOrScalar<'a>>) -> Result<Tensor> {
        self.extreme("fmin", other.into(), |a, b| a.minimum(b))
    }

    fn extreme(
        &self,
        name: &'static str,
        other: TensorOrScalar<'_>,
        extreme: impl Fn(&Tensor, &Tensor) -> Result<Tensor>,
    ) -> Result<Tensor> {
        let [a, b] = operands(name, self, other, |dtype| !dtype.is_complex(), "real numbers")?;
        let of_both = extreme(&a, &b)?;
        if !a.dtype().is_float() {
            return Ok(of_both);
        }
        a.isnan()?.where_cond(&*b, &b.isnan()?.where_cond(&*a, &of_both)?)
    }

    /// 0 below 0 and of NaN, 1 above 0, and `values` at 0.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// assert_eq!(Tensor::new([-2.0f32, 0.0, 3.0])?.heaviside(0.5)?.to_vec::<f32>()?, [0.0, 0.5, 1.0]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// Of complex numbers, and if the operands have different dtypes.
    pub fn heaviside<'a>(&'a self, values: impl Into<TensorOrScalar<'a>>) -> Result<Tensor> {
        let values = values.into();
        if let TensorOrScalar::Tensor(values) = values
            && values.dtype() != self.dtype()
        {
            let why = "both must have one dtype; convert with to_dtype";
            return Err(Error::dtype("heaviside", why, [self.dtype(), values.dtype()]));
        }
        let [x, values] = operands("heaviside", self, values, |dtype| !dtype.is_complex(), "real numbers")?;
        let step = x.gt(0)?.to_dtype(x.dtype())?;
        x.eq(0)?.where_cond(&values.detach(), &step)
    }

    /// Whether the sign is negative, also that of −0, as `Bool`.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// assert_eq!(Tensor::new([-1.0f32, -0.0, 0.0])?.signbit()?.to_vec::<bool>()?, [true, true, false]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// Of complex numbers.
    pub fn signbit(&self) -> Result<Tensor> {
        if self.dtype().is_complex() {
            return Err(Error::dtype("signbit", "takes real numbers", [self.dtype()]));
        }
        let is_negative = self.lt(0)?;
        match self.dtype().is_float() {
            // 1/−0 is −∞.
            true => is_negative.logical_or(&self.detach().reciprocal()?.lt(0)?),
            false => Ok(is_negative),
        }
    }

    /// The [sign](Self::sign); of complex numbers that of the same angle and of modulus 1, 0 of 0.
    ///
    /// ```
    /// # use rustorch_tensor::{C64, Tensor};
    /// assert_eq!(Tensor::new([C64::new(3.0, 4.0)])?.sgn()?.to_vec::<C64>()?, [C64::new(0.6, 0.8)]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// Of block types.
    pub fn sgn(&self) -> Result<Tensor> {
        if !self.dtype().is_complex() {
            return self.sign();
        }
        let is_zero = self.eq(0)?;
        self.masked_fill(&is_zero, 1)?.div(&self.masked_fill(&is_zero, 1)?.abs()?)?.masked_fill(&is_zero, 0)
    }

    /// `self + value · a · b`, elements broadcast.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let (x, a, b) = (Tensor::new([1.0f32])?, Tensor::new([2.0f32])?, Tensor::new([3.0f32])?);
    /// assert_eq!(x.addcmul(&a, &b, 0.5)?.to_vec::<f32>()?, [4.0]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the shapes do not broadcast, or a fraction meets integers.
    pub fn addcmul(&self, a: &Tensor, b: &Tensor, value: impl Into<Scalar>) -> Result<Tensor> {
        wide("addcmul", [self, a, b], |[x, a, b]| x.add(&a.mul(b)?.mul(value.into())?))
    }

    /// `self + value · a / b`, elements broadcast.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let (x, a, b) = (Tensor::new([1.0f32])?, Tensor::new([3.0f32])?, Tensor::new([2.0f32])?);
    /// assert_eq!(x.addcdiv(&a, &b, 2.0)?.to_vec::<f32>()?, [4.0]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the shapes do not broadcast, or all are integers.
    pub fn addcdiv(&self, a: &Tensor, b: &Tensor, value: impl Into<Scalar>) -> Result<Tensor> {
        let dtypes = [self.dtype(), a.dtype(), b.dtype()];
        if dtypes.iter().all(|dtype| !dtype.is_float() && !dtype.is_complex()) {
            return Err(Error::dtype("addcdiv", "divides floats; convert with to_dtype", dtypes));
        }
        wide("addcdiv", [self, a, b], |[x, a, b]| x.add(&a.mul(value.into())?.div(b)?))
    }
}
