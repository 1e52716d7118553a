//! Norms of vectors.

use crate::autograd::{Function, FunctionContext, Gradients};
use crate::reduce::reduce;
use crate::{Axes, Tensor};
use rustorch_core::{DType, Dims, ReduceOp, Result};

impl Tensor {
    /// The p-norm (Σ|x|ᵖ)^(1/p) over dimensions. `p` may be 0 (how many are not zero) and ±∞ (largest and smallest |x|).
    /// Integers give `F32`; 16-bit floats accumulate in `F32`.
    pub fn norm(&self, p: f64, dims: impl Into<Axes>, keepdim: bool) -> Result<Tensor> {
        let dims = dims.into();
        let x = match self.dtype() {
            dtype if dtype.is_complex() => self.clone(),
            DType::F32 | DType::F64 => self.clone(),
            DType::F16 | DType::BF16 if p == 2.0 => self.clone(),
            _ => self.to_dtype(DType::F32)?,
        };
        if p == 2.0 && x.dtype().is_float() {
            return reduce(ReduceOp::Norm, &x, &dims, keepdim);
        }
        let axes = dims.resolve("norm", self.ndim())?;
        let norm = VectorNorm { p, axes, keepdim };
        let norm = if x.requires_grad() { norm.apply(&[&x])?.remove(0) } else { norm.of(&x)? };
        let narrow = matches!(self.dtype(), DType::F16 | DType::BF16);
        if narrow { norm.to_dtype(self.dtype()) } else { Ok(norm) }
    }
}

/// A p-norm with PyTorch's gradient (`norm_backward` in `torch/csrc/autograd/FunctionsManual.cpp`): zero where the norm is, of which the
/// steps of its computation would make NaN.
struct VectorNorm {
    p: f64,
    axes: Dims,
    keepdim: bool,
}

impl VectorNorm {
    fn list(&self) -> Vec<isize> {
        self.axes.iter().map(|&axis| axis as isize).collect()
    }

    fn of(&self, x: &Tensor) -> Result<Tensor> {
        let (p, dims, keepdim) = (self.p, self.list(), self.keepdim);
        let magnitude = if x.dtype().is_complex() { x.abs()? } else { x.clone() };
        if p == 2.0 {
            reduce(ReduceOp::Norm, &magnitude, &dims.into(), keepdim)
        } else if p == 1.0 {
            magnitude.abs()?.sum(dims, keepdim)
        } else if p == f64::INFINITY {
            magnitude.abs()?.amax(dims, keepdim)
        } else if p == f64::NEG_INFINITY {
            magnitude.abs()?.amin(dims, keepdim)
        } else if p == 0.0 {
            magnitude.ne(0)?.to_dtype(magnitude.dtype())?.sum(dims, keepdim)
        } else {
            magnitude.abs()?.pow(p)?.sum(dims, keepdim)?.pow(1.0 / p)
        }
    }

    /// A tensor of the result's shape with the reduced axes of length 1.
    fn restored(&self, x: &Tensor) -> Result<Tensor> {
        if self.keepdim {
            return Ok(x.clone());
        }
        self.axes.iter().try_fold(x.clone(), |x, &axis| x.unsqueeze(axis as isize))
    }
}

/// x/|x|, and 0 of 0.
fn sign(x: &Tensor) -> Result<Tensor> {
    if !x.dtype().is_complex() {
        return x.sign();
    }
    let none = x.eq(0)?;
    x.div(&x.abs()?.masked_fill(&none, 1)?)?.masked_fill(&none, 0)
}

impl Function for VectorNorm {
    const NAME: &'static str = "norm";

    fn forward(&self, cx: &mut FunctionContext, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        let norm = self.of(inputs[0])?;
        cx.save(&[inputs[0], &norm]);
        Ok(vec![norm])
    }

    fn backward(&self, grads: &Gradients<'_>) -> Result<Vec<Option<Tensor>>> {
        let Some(grad) = grads.output(0)? else { return Ok(vec![None]) };
        let (x, p) = (grads.saved(0)?, self.p);
        let (grad, norm) = (self.restored(grad)?, self.restored(grads.saved(1)?)?);
        let none = norm.eq(0)?;
        let scaled = |power: f64| grad.div(&norm.pow(power)?)?.masked_fill(&none, 0);
        let gradient = if p == 0.0 {
            return Ok(vec![None]);
        } else if p == 1.0 {
            sign(x)?.mul(&grad)?
        } else if p == 2.0 {
            x.div(&norm)?.masked_fill(&none, 0)?.mul(&grad)?
        } else if p.is_infinite() {
            // Equals share, and so do NaNs.
            let magnitude = x.abs()?;
            let chosen = magnitude.eq(&norm)?.logical_or(&magnitude.isnan()?)?.to_dtype(grad.dtype())?;
            let count = if self.axes.is_empty() { chosen.clone() } else { chosen.sum(self.list(), true)? };
            sign(x)?.mul(&grad.div(&count)?.mul(&chosen)?)?
        } else if p < 1.0 {
            let power = x.abs()?.pow(p - 1.0)?.masked_fill(&x.eq(0)?, 0)?;
            sign(x)?.mul(&power)?.mul(&grad)?.mul(&norm.pow(1.0 - p)?)?
        } else if p < 2.0 {
            sign(x)?.mul(&x.abs()?.pow(p - 1.0)?)?.mul(&scaled(p - 1.0)?)?
        } else {
            x.mul(&x.abs()?.pow(p - 2.0)?)?.mul(&scaled(p - 1.0)?)?
        };
        Ok(vec![Some(gradient)])
    }
}
