//! Reductions: sums, extrema and statistics; differences of neighbours.
//!
//! `x.sum(dims, keepdim)` reduces over the dimensions that it names, `x.sum_all()` over all of them, as PyTorch's `x.sum()`; so does each
//! reduction.

use crate::binary::DEFAULT_FLOAT;
use crate::dispatch::{run, run_into};
use crate::{Axes, Tensor};
use rustorch_core::{DType, DTypeKind, Dims, Error, Op, Reduce, ReduceOp, Result};
use std::borrow::Cow;

/// A reduction, and the tensor of a dtype that has it: integers and booleans are converted.
fn prepared<'x>(op: ReduceOp, x: &'x Tensor, axes: &Axes, keepdim: bool) -> Result<(Op, Cow<'x, Tensor>)> {
    let axes: Dims = axes.resolve(op.name(), x.ndim())?;
    let x = match (x.dtype().kind(), op.output(x.dtype())) {
        (_, Some(_)) => Cow::Borrowed(x),
        (DTypeKind::Bool | DTypeKind::Int, None) if op.output(DEFAULT_FLOAT) == Some(DEFAULT_FLOAT) => {
            Cow::Owned(x.to_dtype(DEFAULT_FLOAT)?)
        }
        (DTypeKind::Bool, None) => Cow::Owned(x.to_dtype(DType::U8)?),
        _ => Cow::Borrowed(x),
    };
    Ok((Op::Reduce(Reduce { op, axes, keepdim }), x))
}

/// Whether the result is a boolean that has the argument's dtype, `U8`.
fn is_byte_logic(op: ReduceOp, x: &Tensor) -> bool {
    matches!(op, ReduceOp::Any | ReduceOp::All) && x.dtype() == DType::U8
}

/// Runs a reduction.
pub(crate) fn reduce(op: ReduceOp, x: &Tensor, axes: &Axes, keepdim: bool) -> Result<Tensor> {
    let (reduction, arg) = prepared(op, x, axes, keepdim)?;
    let out = run(&reduction, &[&arg])?;
    if is_byte_logic(op, x) { out.to_dtype(DType::U8) } else { Ok(out) }
}

/// Runs a reduction and writes its result.
#[cfg_attr(debug_assertions, track_caller)]
fn reduce_into(op: ReduceOp, x: &Tensor, axes: &Axes, keepdim: bool, out: &Tensor) -> Result<()> {
    if is_byte_logic(op, x) {
        return out.copy_(&reduce(op, x, axes, keepdim)?);
    }
    let (reduction, arg) = prepared(op, x, axes, keepdim)?;
    run_into(&reduction, &[&arg], out)
}

macro_rules! reductions {
    ($($(#[$doc:meta])* $name:ident, $all:ident, $into:ident => $op:expr;)*) => {
        impl Tensor {$(
            $(#[$doc])*
            pub fn $name(&self, dims: impl Into<Axes>, keepdim: bool) -> Result<Tensor> {
                reduce($op, self, &dims.into(), keepdim)
            }

            #[doc = concat!("As [`", stringify!($name), "`](Self::", stringify!($name), "), written to `out`, which has the result's shape and dtype.")]
            #[cfg_attr(debug_assertions, track_caller)]
            pub fn $into(&self, dims: impl Into<Axes>, keepdim: bool, out: &Tensor) -> Result<()> {
                reduce_into($op, self, &dims.into(), keepdim, out)
            }

            #[doc = concat!("[`", stringify!($name), "`](Self::", stringify!($name), ") over all dimensions: a 0-d tensor.")]
            pub fn $all(&self) -> Result<Tensor> {
                self.$name(.., false)
            }
        )*}
    };
}

reductions! {
    /// Sum over dimensions: one, several, or all (`..`). Integers and booleans sum in `I64`.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let x = Tensor::new([[1.0f32, 2.0], [3.0, 4.0]])?;
    /// assert_eq!(x.sum(-1, false)?.to_vec::<f32>()?, [3.0, 7.0]);
    /// assert_eq!(x.sum([0, 1], true)?.dims(), [1, 1]);
    /// assert_eq!(x.sum_all()?.item()?.to_f64(), 10.0);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    sum, sum_all, sum_into => ReduceOp::Sum;
    /// Mean over dimensions. Integers give `F32`; the mean of nothing is NaN.
    mean, mean_all, mean_into => ReduceOp::Mean;
    /// Product over dimensions. Integers and booleans multiply in `I64`.
    prod, prod_all, prod_into => ReduceOp::Prod;
    /// Largest over dimensions; NaN if any is.
    ///
    /// # Errors
    /// Among others over no elements.
    amax, max_all, amax_into => ReduceOp::Max;
    /// Smallest over dimensions; NaN if any is.
    ///
    /// # Errors
    /// Among others over no elements.
    amin, min_all, amin_into => ReduceOp::Min;
    /// Whether any element is not zero, as `Bool`; as `U8` for `U8`, like PyTorch.
    any, any_all, any_into => ReduceOp::Any;
    /// Whether no element is zero, as `Bool`; as `U8` for `U8`, like PyTorch.
    all, all_all, all_into => ReduceOp::All;
    /// log Σ eˣ over dimensions, without overflow. Integers give `F32`.
    logsumexp, logsumexp_all, logsumexp_into => ReduceOp::LogSumExp;
    /// Index (`I64`) of the largest along one dimension, or in the flattened tensor; the first of equals.
    argmax, argmax_all, argmax_into => ReduceOp::ArgMax;
    /// Index (`I64`) of the smallest along one dimension, or in the flattened tensor; the first of equals.
    argmin, argmin_all, argmin_into => ReduceOp::ArgMin;
}

impl Tensor {
    /// The largest along a dimension, and their indices (`I64`), of equals the first.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let (values, indices) = Tensor::new([[1i32, 5], [7, 2]])?.max(1, false)?;
    /// assert_eq!((values.to_vec::<i32>()?, indices.to_vec::<i64>()?), (vec![5, 7], vec![1, 0]));
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    pub fn max(&self, dim: isize, keepdim: bool) -> Result<(Tensor, Tensor)> {
        let indices = self.argmax(dim, keepdim)?;
        Ok((self.extremum(dim, keepdim, &indices, |x, dim, keepdim| x.amax(dim, keepdim))?, indices))
    }

    /// The smallest along a dimension, and their indices (`I64`), of equals the first.
    pub fn min(&self, dim: isize, keepdim: bool) -> Result<(Tensor, Tensor)> {
        let indices = self.argmin(dim, keepdim)?;
        Ok((self.extremum(dim, keepdim, &indices, |x, dim, keepdim| x.amin(dim, keepdim))?, indices))
    }

    /// The extremum along a dimension at its indices. Where it is recorded, the elements there, whose gradients equal elements do
    /// not share.
    fn extremum(
        &self,
        dim: isize,
        keepdim: bool,
        indices: &Tensor,
        reduce: impl FnOnce(&Tensor, isize, bool) -> Result<Tensor>,
    ) -> Result<Tensor> {
        if !self.requires_grad() || self.ndim() == 0 {
            return reduce(self, dim, keepdim);
        }
        if keepdim {
            return self.gather(dim, indices);
        }
        self.gather(dim, &indices.unsqueeze(dim)?)?.squeeze(dim)
    }

    /// Variance over dimensions, divided by n − `correction`: 1 for the unbiased estimate (PyTorch's default), 0 for the
    /// population's. Integers give `F32`.
    pub fn var(&self, dims: impl Into<Axes>, correction: f64, keepdim: bool) -> Result<Tensor> {
        reduce(ReduceOp::Var { correction }, self, &dims.into(), keepdim)
    }

    /// Square root of the [variance](Self::var).
    pub fn std(&self, dims: impl Into<Axes>, correction: f64, keepdim: bool) -> Result<Tensor> {
        reduce(ReduceOp::Std { correction }, self, &dims.into(), keepdim)
    }

    /// [`var`](Self::var) over all dimensions: a 0-d tensor.
    pub fn var_all(&self, correction: f64) -> Result<Tensor> {
        self.var(.., correction, false)
    }

    /// [`std`](Self::std) over all dimensions: a 0-d tensor.
    pub fn std_all(&self, correction: f64) -> Result<Tensor> {
        self.std(.., correction, false)
    }

    /// [`sum`](Self::sum) in which NaN counts as 0.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// assert_eq!(Tensor::new([1.0f32, f32::NAN, 2.0])?.nansum(0, false)?.item_as::<f32>()?, 3.0);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If there is no such dimension.
    pub fn nansum(&self, dims: impl Into<Axes>, keepdim: bool) -> Result<Tensor> {
        match self.dtype().is_float() || self.dtype().is_complex() {
            true => self.masked_fill(&self.isnan()?, 0)?.sum(dims, keepdim),
            false => self.sum(dims, keepdim),
        }
    }

    /// The [`mean`](Self::mean) of what is not NaN; NaN if nothing is.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// assert_eq!(Tensor::new([1.0f32, f32::NAN, 2.0])?.nanmean(0, false)?.item_as::<f32>()?, 1.5);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If there is no such dimension, or the dtype is none of floats or complex numbers.
    pub fn nanmean(&self, dims: impl Into<Axes>, keepdim: bool) -> Result<Tensor> {
        if !self.dtype().is_float() && !self.dtype().is_complex() {
            return Err(Error::dtype("nanmean", "takes floats and complex numbers", [self.dtype()]));
        }
        let dims = dims.into();
        let counts = self.isnan()?.logical_not()?.sum(dims.clone(), keepdim)?;
        self.nansum(dims, keepdim)?.div(&counts)
    }

    /// The integral along a dimension by the trapezoidal rule, of points `dx` apart.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// assert_eq!(Tensor::new([1.0f32, 2.0, 5.0])?.trapezoid(0.5, -1)?.item_as::<f32>()?, 2.5);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If there is no such dimension.
    pub fn trapezoid(&self, dx: f64, dim: isize) -> Result<Tensor> {
        let axis = self.dimension("trapezoid", dim)?;
        let (dim, len) = (axis as isize, self.dims()[axis]);
        let Some(intervals) = len.checked_sub(1) else { return self.sum(dim, false)?.mul(dx) };
        self.narrow(dim, 0, intervals)?.add(&self.narrow(dim, 1, intervals)?)?.sum(dim, false)?.mul(dx / 2.0)
    }

    /// How many elements are not zero, over dimensions, as `I64`.
    pub fn count_nonzero(&self, dims: impl Into<Axes>) -> Result<Tensor> {
        self.to_dtype(DType::Bool)?.sum(dims, false)
    }

    /// The differences of neighbours along a dimension, `n` times in a row; of booleans, whether they differ. Tensors may be joined to the
    /// dimension's start and end first.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let x = Tensor::new([1i32, 3, 2, 7])?;
    /// assert_eq!(x.diff(1, 0, None, None)?.to_vec::<i32>()?, [2, -1, 5]);
    /// assert_eq!(x.diff(1, 0, Some(&Tensor::new([0i32])?), None)?.to_vec::<i32>()?, [1, 2, -1, 5]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If this is a scalar, or what is joined does not fit.
    pub fn diff(
        &self,
        n: usize,
        dim: isize,
        prepend: Option<&Tensor>,
        append: Option<&Tensor>,
    ) -> Result<Tensor> {
        const NAME: &str = "diff";
        let axis = self.dimension(NAME, dim)?;
        if let Some(other) = prepend.iter().chain(&append).find(|x| x.ndim() != self.ndim()) {
            let why = "what is joined must have the tensor's rank";
            return Err(Error::shape(NAME, why, [self.shape(), other.shape()]));
        }
        let dim = axis as isize;
        let mut x = match (prepend, append) {
            (None, None) => self.clone(),
            _ => {
                let parts: Vec<&Tensor> = prepend.into_iter().chain([self]).chain(append).collect();
                Tensor::cat(&parts, dim)?
            }
        };
        let times = n.min(x.dims()[axis]);
        if times == 0 {
            return x.copy();
        }
        for _ in 0..times {
            let len = x.dims()[axis] - 1;
            let (next, this) = (x.narrow(dim, 1, len)?, x.narrow(dim, 0, len)?);
            x = if x.dtype() == DType::Bool { next.ne(&this)? } else { next.sub(&this)? };
        }
        Ok(x)
    }
}
