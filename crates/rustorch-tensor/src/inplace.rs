//! Writing into the memory of a tensor, and so of every view of it.
//!
//! These take `&self`: a tensor is a handle, and the memory behind it is shared. Each is one change: operations on other threads
//! see none or all of it, and of several at once none is lost. None makes a temporary, unless an operand overlaps the tensor
//! otherwise than by being it, or the device cannot write over what it reads.

use crate::dispatch::{run_into, transfer};
use crate::{Tensor, TensorOrScalar};
use rustorch_core::{Cast, CopyOp, Error, Op, Result, Scalar, Scatter, Where};

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
    pub fn fill_(&self, value: impl Into<Scalar>) -> Result<()> {
        let value = value.into();
        crate::binary::expect_fits("fill_", value, self.dtype())?;
        let fill = rustorch_core::Fill { shape: self.shape().clone(), dtype: self.dtype(), value };
        run_into(&Op::Fill(fill), &[], self)
    }

    /// Writes zero everywhere.
    pub fn zero_(&self) -> Result<()> {
        self.fill_(0)
    }

    /// As [`add`](Self::add), written back in place.
    ///
    /// # Errors
    /// If the result has another shape, or a dtype of a higher family (a float for an integer tensor).
    pub fn add_<'a>(&self, other: impl Into<TensorOrScalar<'a>>) -> Result<()> {
        self.add_into(other, self)
    }

    /// As [`sub`](Self::sub), written back in place; see [`add_`](Self::add_).
    pub fn sub_<'a>(&self, other: impl Into<TensorOrScalar<'a>>) -> Result<()> {
        self.sub_into(other, self)
    }

    /// As [`mul`](Self::mul), written back in place; see [`add_`](Self::add_).
    pub fn mul_<'a>(&self, other: impl Into<TensorOrScalar<'a>>) -> Result<()> {
        self.mul_into(other, self)
    }

    /// As [`div`](Self::div), written back in place; see [`add_`](Self::add_).
    pub fn div_<'a>(&self, other: impl Into<TensorOrScalar<'a>>) -> Result<()> {
        self.div_into(other, self)
    }

    /// Writes a scalar wherever the `Bool` mask, which broadcasts, holds.
    pub fn masked_fill_(&self, mask: &Tensor, value: impl Into<Scalar>) -> Result<()> {
        let value = TensorOrScalar::Scalar(value.into()).to_tensor("masked_fill", self.dtype(), self)?;
        run_into(&Op::Where(Where), &[mask, &value, self], self)
    }

    /// Writes slices of `source` at the indices `index` along a dimension, as `torch.index_copy_`.
    ///
    /// # Errors
    /// If an index is out of range, or the shapes do not fit. Nothing is written then.
    pub fn index_copy_(&self, dim: isize, index: &Tensor, source: &Tensor) -> Result<()> {
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
        let op = Op::Scatter(Scatter { axis, mode: rustorch_core::ScatterMode::Replace });
        run_into(&op, &[self, &index, &source.to_dtype(self.dtype())?], self)
    }
}
