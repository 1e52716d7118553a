//! Functions of `torch.special` that are composed of others.

use crate::Tensor;
use crate::TensorOrScalar;
use crate::binary::DEFAULT_FLOAT;
use crate::elements::operands;
use rustorch_core::{DType, Error, Result};
use std::f64::consts::PI;

/// Floats as they are, integers and booleans in the default dtype.
pub(crate) fn float(name: &'static str, x: &Tensor) -> Result<Tensor> {
    match x.dtype() {
        dtype if dtype.is_float() => Ok(x.clone()),
        dtype if dtype.is_complex() || dtype.is_quant() => {
            Err(Error::dtype(name, "takes real numbers", [dtype]))
        }
        _ => x.to_dtype(DEFAULT_FLOAT),
    }
}

impl Tensor {
    /// a·log b, and 0 where a is 0, unless b is NaN.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let x = Tensor::new([0.0f32, 2.0])?.xlogy(&Tensor::new([0.0f32, 1.0])?)?;
    /// assert_eq!(x.to_vec::<f32>()?, [0.0, 0.0]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// Of complex numbers.
    pub fn xlogy<'a>(&'a self, other: impl Into<TensorOrScalar<'a>>) -> Result<Tensor> {
        self.times_log("xlogy", other.into(), 0.0, Tensor::log)
    }

    /// a·log(1 + b), precise where b is small, and 0 where a is 0, unless b is NaN.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let x = Tensor::new([0.0f32, 2.0])?.xlog1py(&Tensor::new([-1.0f32, 1e-10])?)?;
    /// assert_eq!(x.to_vec::<f32>()?, [0.0, 2e-10]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// Of complex numbers.
    pub fn xlog1py<'a>(&'a self, other: impl Into<TensorOrScalar<'a>>) -> Result<Tensor> {
        self.times_log("xlog1py", other.into(), -1.0, Tensor::log1p)
    }

    /// `a · log(b)` of a logarithm that is −∞ at a point, and NaN below.
    fn times_log(
        &self,
        name: &'static str,
        other: TensorOrScalar<'_>,
        end: f64,
        log: impl Fn(&Tensor) -> Result<Tensor>,
    ) -> Result<Tensor> {
        let [a, b] = operands(name, self, other, |dtype| !dtype.is_complex(), "real numbers")?;
        let dtype = if a.dtype().is_float() { a.dtype() } else { DEFAULT_FLOAT };
        let (a, b) = (a.to_dtype(dtype)?, b.to_dtype(dtype)?);
        // Where the logarithm is not finite. That of a number inside leaves neither value nor gradient.
        let hidden = a.eq(0)?.logical_and(&b.le(end)?.logical_or(&b.eq(f64::INFINITY)?)?)?;
        a.mul(&log(&b.masked_fill(&hidden, 1)?)?)
    }

    /// −x·log x, 0 at 0 and −∞ below: the terms of an entropy.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// assert_eq!(Tensor::new([0.0f32, 1.0, -1.0])?.entr()?.to_vec::<f32>()?, [0.0, 0.0, f32::NEG_INFINITY]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// Of complex numbers.
    pub fn entr(&self) -> Result<Tensor> {
        let x = float("entr", self)?;
        let is_negative = x.lt(0)?;
        x.xlogy(&x.masked_fill(&is_negative, 1)?)?.neg()?.masked_fill(&is_negative, f64::NEG_INFINITY)
    }

    /// log(x / (1 − x)), the inverse of [`sigmoid`](Self::sigmoid); of x kept from `eps` to 1 − `eps`, if given.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let x = Tensor::new([0.5f32, 1.0])?;
    /// assert_eq!(x.logit(None)?.to_vec::<f32>()?, [0.0, f32::INFINITY]);
    /// assert!(x.logit(Some(1e-6))?.max_all()?.item_as::<f32>()?.is_finite());
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// Of complex numbers.
    pub fn logit(&self, eps: Option<f64>) -> Result<Tensor> {
        let x = float("logit", self)?;
        let x = if let Some(eps) = eps { x.clamp(eps, 1.0 - eps)? } else { x };
        x.div(&x.rsub(1)?)?.log()
    }

    /// sin(πx) / (πx), 1 at 0.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let x = Tensor::new([0.0f64, 0.5])?.sinc()?;
    /// assert_eq!(x.to_vec::<f64>()?, [1.0, std::f64::consts::FRAC_2_PI]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// Of complex numbers.
    pub fn sinc(&self) -> Result<Tensor> {
        let x = float("sinc", self)?;
        let dtype = x.dtype();
        // Rounded to 16 bits once.
        let wide = if matches!(dtype, DType::F16 | DType::BF16) { DType::F32 } else { dtype };
        let is_zero = x.eq(0)?;
        let angle = x.masked_fill(&is_zero, 1)?.to_dtype(wide)?.mul(PI)?;
        angle.sin()?.div(&angle)?.masked_fill(&is_zero, 1)?.to_dtype(dtype)
    }
}
