//! Scans that are composed of pointwise operations, by doubling: running extrema and sums of exponentials.

use crate::Tensor;
use rustorch_core::{DType, Dims, Error, Result, Shape};
use rustorch_runtime::DeviceGuard;

impl Tensor {
    /// The largest so far along a dimension, and where it is (`I64`), of equals the last. From the first NaN on, NaN.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let (values, indices) = Tensor::new([1i32, 3, 2, 3])?.cummax(0)?;
    /// assert_eq!((values.to_vec::<i32>()?, indices.to_vec::<i64>()?), (vec![1, 3, 3, 3], vec![0, 1, 1, 3]));
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// Of complex numbers.
    pub fn cummax(&self, dim: isize) -> Result<(Tensor, Tensor)> {
        self.running_extreme("cummax", dim, |this, before| this.ge(before))
    }

    /// The smallest so far along a dimension, and where it is (`I64`), of equals the last. From the first NaN on, NaN.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// assert_eq!(Tensor::new([3i32, 1, 2])?.cummin(0)?.0.to_vec::<i32>()?, [3, 1, 1]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// Of complex numbers.
    pub fn cummin(&self, dim: isize) -> Result<(Tensor, Tensor)> {
        self.running_extreme("cummin", dim, |this, before| this.le(before))
    }

    fn running_extreme(
        &self,
        name: &'static str,
        dim: isize,
        is_kept: impl Fn(&Tensor, &Tensor) -> Result<Tensor>,
    ) -> Result<(Tensor, Tensor)> {
        let axis = self.axis(name, dim)?;
        if self.dtype().is_complex() || self.dtype().is_quant() {
            return Err(Error::dtype(name, "takes real numbers", [self.dtype()]));
        }
        let _beside = DeviceGuard::beside(self.storage());
        let Some(&len) = self.dims().get(axis) else {
            return Ok((self.copy()?, Tensor::zeros((), DType::I64)?));
        };
        let dim = axis as isize;
        let mut place = Dims::from_elem(1, self.ndim());
        place[axis] = len;
        let places = Tensor::arange(0, len as i64, 1)?.reshape_to(Shape::new(place)?)?;
        let (mut values, mut indices) = (self.detach(), places.broadcast_to(self.shape())?);
        let mut step = 1;
        while step < len {
            let halves = |x: &Tensor| {
                Ok::<_, Error>((x.narrow(dim, step, len - step)?, x.narrow(dim, 0, len - step)?))
            };
            let ((this, before), (this_index, before_index)) = (halves(&values)?, halves(&indices)?);
            let mut kept = is_kept(&this, &before)?;
            if self.dtype().is_float() {
                kept = kept.logical_or(&this.isnan()?)?;
            }
            values = Tensor::cat(&[values.narrow(dim, 0, step)?, kept.where_cond(&this, &before)?], dim)?;
            let chosen = kept.where_cond(&this_index, &before_index)?;
            indices = Tensor::cat(&[indices.narrow(dim, 0, step)?, chosen], dim)?;
            step *= 2;
        }
        let indices = indices.contiguous()?;
        Ok((self.gather(dim, &indices)?, indices))
    }

    /// log Σ eˣ of the elements so far along a dimension, without overflow in between; also of complex numbers.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let y = Tensor::new([0.0f32, 0.0, 0.0])?.logcumsumexp(0)?;
    /// assert!(y.allclose(&Tensor::new([1.0f32, 2.0, 3.0])?.log()?, 1e-6, 1e-6, false)?);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// Of integers and booleans.
    pub fn logcumsumexp(&self, dim: isize) -> Result<Tensor> {
        const NAME: &str = "logcumsumexp";
        let axis = self.axis(NAME, dim)?;
        let dtype = self.dtype();
        if !dtype.is_float() && !dtype.is_complex() {
            return Err(Error::dtype(NAME, "takes floats and complex numbers", [dtype]));
        }
        // Rounded to 16 bits once.
        let narrow = matches!(dtype, DType::F16 | DType::BF16);
        let mut sums = if narrow { self.to_dtype(DType::F32)? } else { self.copy()? };
        let (dim, len) = (axis as isize, self.dims().get(axis).copied().unwrap_or(0));
        let mut step = 1;
        while step < len {
            let rest = len - step;
            let both = sums.narrow(dim, step, rest)?.logaddexp(&sums.narrow(dim, 0, rest)?)?;
            sums = Tensor::cat(&[sums.narrow(dim, 0, step)?, both], dim)?;
            step *= 2;
        }
        sums.to_dtype(dtype)
    }
}
