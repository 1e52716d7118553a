//! Writing into the memory of a tensor, and so of every view of it.
//!
//! These take `&self`: a tensor is a handle, and the memory behind it is shared. Each is one change: operations on other threads
//! see none or all of it, and of several at once none is lost. None makes a temporary, unless an operand overlaps the tensor
//! otherwise than by being it, or the device cannot write over what it reads.

use crate::dispatch::{run, run_into, transfer};
use crate::{Tensor, TensorOrScalar};
use rustorch_core::{
    Cast, CopyOp, DType, Error, Op, Result, Scalar, Scatter, ScatterMode, SliceUpdate, Where,
};
use std::ops::RangeBounds;

impl Tensor {
    /// Writes the elements of another tensor, which broadcasts to this one's shape and is converted to its dtype.
    ///
    /// ```
    /// # use rustorch_tensor::{DType, Tensor};
    /// let cache = Tensor::zeros([4, 2], DType::F32)?;
    /// cache.narrow(0, 1, 2)?.copy_(&Tensor::new([[1.0f32, 2.0], [3.0, 4.0]])?)?;
    /// assert_eq!(cache.to_vec::<f32>()?, [0.0, 0.0, 1.0, 2.0, 3.0, 4.0, 0.0, 0.0]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the shapes do not broadcast, the memory is read-only, or this view reaches an element twice.
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn copy_(&self, source: &Tensor) -> Result<()> {
        let mut source = transfer(source, self.storage())?;
        if source.shape() != self.shape() {
            source = source.broadcast_to(self.shape())?;
        }
        if source.dtype() == self.dtype() {
            return run_into(&Op::Copy(CopyOp), &[&source], self);
        }
        // Casts between a block type and others than f32 take two steps.
        if self.dtype().is_quant() || source.dtype().is_quant() {
            return run_into(&Op::Copy(CopyOp), &[&source.to_dtype(self.dtype())?], self);
        }
        run_into(&Op::Cast(Cast { to: self.dtype() }), &[&source], self)
    }

    /// Writes one scalar everywhere.
    ///
    /// # Errors
    /// If the scalar is outside the range of an integer dtype, the memory is read-only, or this view reaches an element
    /// twice.
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn fill_(&self, value: impl Into<Scalar>) -> Result<()> {
        let value = value.into();
        crate::binary::expect_fits("fill_", value, self.dtype())?;
        let fill = rustorch_core::Fill { shape: self.shape().clone(), dtype: self.dtype(), value };
        run_into(&Op::Fill(fill), &[], self)
    }

    /// Writes zero everywhere.
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn zero_(&self) -> Result<()> {
        self.fill_(0)
    }

    /// As [`add`](Self::add), written back in place.
    ///
    /// # Errors
    /// If the result has another shape, or a dtype of a higher family (a float for an integer tensor).
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn add_<'a>(&self, other: impl Into<TensorOrScalar<'a>>) -> Result<()> {
        self.add_into(other, self)
    }

    /// As [`sub`](Self::sub), written back in place; see [`add_`](Self::add_).
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn sub_<'a>(&self, other: impl Into<TensorOrScalar<'a>>) -> Result<()> {
        self.sub_into(other, self)
    }

    /// As [`mul`](Self::mul), written back in place; see [`add_`](Self::add_).
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn mul_<'a>(&self, other: impl Into<TensorOrScalar<'a>>) -> Result<()> {
        self.mul_into(other, self)
    }

    /// As [`div`](Self::div), written back in place; see [`add_`](Self::add_).
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn div_<'a>(&self, other: impl Into<TensorOrScalar<'a>>) -> Result<()> {
        self.div_into(other, self)
    }

    /// Writes a scalar wherever the `Bool` mask, which broadcasts, holds.
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn masked_fill_(&self, mask: &Tensor, value: impl Into<Scalar>) -> Result<()> {
        let value = TensorOrScalar::Scalar(value.into()).to_tensor("masked_fill", self.dtype(), self)?;
        run_into(&Op::Where(Where), &[mask, &value, self], self)
    }

    /// Writes slices of `source` at the indices `index` along a dimension, as `torch.index_copy_`.
    ///
    /// # Errors
    /// If an index is out of range, or the shapes do not fit. Nothing is written then.
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn index_copy_(&self, dim: isize, index: &Tensor, source: &Tensor) -> Result<()> {
        self.index_scatter_(ScatterMode::Replace, dim, index, source)
    }

    /// As [`index_copy_`](Self::index_copy_), or added to what is there.
    #[cfg_attr(debug_assertions, track_caller)]
    pub(crate) fn index_scatter_(
        &self,
        mode: ScatterMode,
        dim: isize,
        index: &Tensor,
        source: &Tensor,
    ) -> Result<()> {
        let (op, index, source) = self.index_scattered(mode, dim, index, source)?;
        run_into(&op, &[self, &index, &source], self)
    }

    /// As [`index_copy_`](Self::index_copy_), returned: the tensor stays as it is.
    ///
    /// # Errors
    /// As there.
    pub fn index_copy(&self, dim: isize, index: &Tensor, source: &Tensor) -> Result<Tensor> {
        let (op, index, source) = self.index_scattered(ScatterMode::Replace, dim, index, source)?;
        run(&op, &[self, &index, &source])
    }

    /// Writes `update` in place of as many elements along a dimension, from `start` on, an integer tensor of no dimensions: as
    /// [`narrow`](Self::narrow) and [`copy_`](Self::copy_), where the place is data, so that a captured function writes to another one in each run.
    /// Where the update would not fit, `start` is moved so that it does, as XLA's `DynamicUpdateSlice` does. Floats are rounded to the tensor's dtype.
    ///
    /// ```
    /// # use rustorch_tensor::{DType, Tensor};
    /// let cache = Tensor::zeros([4, 2], DType::F32)?;
    /// cache.slice_update_(0, &Tensor::new([[1.0f32, 2.0]])?, &Tensor::scalar(2i64)?)?;
    /// assert_eq!(cache.to_vec::<f32>()?, [0.0, 0.0, 0.0, 0.0, 1.0, 2.0, 0.0, 0.0]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If dtypes differ that are not both floats, or shapes in another dimension. Nothing is written then.
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn slice_update_(&self, dim: isize, update: &Tensor, start: &Tensor) -> Result<()> {
        let axis = self.axis("slice_update", dim)?;
        let start = start.to_index("slice_update")?;
        run_into(&Op::SliceUpdate(SliceUpdate { axis }), &[self, update, &start], self)
    }

    /// The tensor with `source` in place of every `step`th element of a range of dimension `dim`, given as for [`slice`](Self::slice); as
    /// `torch.slice_scatter`.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let x = Tensor::new([1.0f32, 2.0, 3.0, 4.0])?;
    /// let y = x.slice_scatter(&Tensor::new([9.0f32, 8.0])?, 0, 1.., 2)?;
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 9.0, 3.0, 8.0]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the source has not the shape of the slice.
    pub fn slice_scatter(
        &self,
        source: &Tensor,
        dim: isize,
        range: impl RangeBounds<isize>,
        step: usize,
    ) -> Result<Tensor> {
        let axis = self.dimension("slice_scatter", dim)?;
        let places = Tensor::arange_with(0, self.dims()[axis] as i64, 1, (DType::I64, self.device()))?;
        self.index_copy(dim, &places.slice(0, range, step)?, source)
    }

    /// The operation that writes slices at indices, with its arguments.
    fn index_scattered(
        &self,
        mode: ScatterMode,
        dim: isize,
        index: &Tensor,
        source: &Tensor,
    ) -> Result<(Op, Tensor, Tensor)> {
        let axis = self.dimension("index_copy", dim)?;
        let index = index.to_index("index_copy")?;
        let mut shape = vec![1; self.ndim()];
        shape[axis] = index.numel();
        if index.ndim() > 1 || source.ndim() != self.ndim() || source.dims()[axis] != index.numel() {
            return Err(Error::shape(
                "index_copy",
                "needs an index of one dimension, and as many slices of the source",
                [self.shape(), index.shape(), source.shape()],
            ));
        }
        let index = index.reshape(shape)?.expand_as(source)?;
        let op = Op::Scatter(Scatter { axis, mode });
        Ok((op, index, source.to_dtype(self.dtype())?))
    }
}
