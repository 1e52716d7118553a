//! Writing into the memory of a tensor, and so of every view of it.
//!
//! These take `&self`: a tensor is a handle, and the memory behind it is shared. The executor keeps operations on other
//! threads from seeing half of a write.

use crate::dispatch::{run, run_into};
use crate::{Tensor, TensorOrScalar};
use rustorch_core::{BinaryOp, Error, Op, Result, Scalar};

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
        let mut source = source.clone();
        if source.device() != self.device() {
            source = source.to_device(self.device())?;
        }
        if source.shape() != self.shape() {
            source = source.with_layout(source.layout().broadcast_to(self.shape(), "copy_")?);
        }
        if source.dtype() == self.dtype() {
            return run_into(&Op::Copy, &[&source], self);
        }
        // Casts between a block type and others than f32 take two steps.
        if self.dtype().is_quant() || source.dtype().is_quant() {
            return run_into(&Op::Copy, &[&source.to_dtype(self.dtype())?], self);
        }
        run_into(&Op::Cast(self.dtype()), &[&source], self)
    }

    /// Writes one number everywhere.
    ///
    /// # Errors
    /// If the number is outside the range of an integer dtype, the memory is read-only, or this view reaches an element
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

    /// Computes from this tensor and another operand, and writes the result back, which needs this one's shape.
    fn update(&self, op: BinaryOp, other: TensorOrScalar<'_>) -> Result<()> {
        let result = crate::binary::binary(op, self.into(), other)?;
        if result.shape() != self.shape() {
            return Err(Error::shape(
                op.name(),
                "the result has another shape and cannot be written back in place",
                [self.shape(), result.shape()],
            ));
        }
        if result.dtype().kind() > self.dtype().kind() {
            return Err(Error::dtype(
                op.name(),
                "the result cannot be written back in place without loss",
                [self.dtype(), result.dtype()],
            ));
        }
        self.copy_(&result)
    }

    /// As [`add`](Self::add), written back in place.
    ///
    /// # Errors
    /// If the result has another shape, or a dtype of a higher family (a float for an integer tensor).
    pub fn add_<'a>(&self, other: impl Into<TensorOrScalar<'a>>) -> Result<()> {
        self.update(BinaryOp::Add, other.into())
    }

    /// As [`sub`](Self::sub), written back in place; see [`add_`](Self::add_).
    pub fn sub_<'a>(&self, other: impl Into<TensorOrScalar<'a>>) -> Result<()> {
        self.update(BinaryOp::Sub, other.into())
    }

    /// As [`mul`](Self::mul), written back in place; see [`add_`](Self::add_).
    pub fn mul_<'a>(&self, other: impl Into<TensorOrScalar<'a>>) -> Result<()> {
        self.update(BinaryOp::Mul, other.into())
    }

    /// As [`div`](Self::div), written back in place; see [`add_`](Self::add_).
    pub fn div_<'a>(&self, other: impl Into<TensorOrScalar<'a>>) -> Result<()> {
        self.update(BinaryOp::Div, other.into())
    }

    /// Writes a number in every place where the `Bool` mask, which broadcasts, holds.
    pub fn masked_fill_(&self, mask: &Tensor, value: impl Into<Scalar>) -> Result<()> {
        self.copy_(&self.masked_fill(mask, value)?)
    }

    /// Writes slices of `source` at the places `index` along a dimension, as `torch.index_copy_`.
    ///
    /// # Errors
    /// If an index is out of range, or the shapes do not fit. Nothing is written then.
    pub fn index_copy_(&self, dim: isize, index: &Tensor, source: &Tensor) -> Result<()> {
        let axis = self.dimension("index_copy", dim)?;
        let index = index.to_index("index_copy")?;
        let mut shape = vec![1; self.rank()];
        shape[axis] = index.elements();
        if index.rank() > 1 || source.rank() != self.rank() || source.dims()[axis] != index.elements() {
            return Err(Error::shape(
                "index_copy",
                "needs an index of one dimension, and as many slices of the source",
                [self.shape(), index.shape(), source.shape()],
            ));
        }
        let index = index.reshape(shape)?.expand_as(source)?;
        let op = Op::Scatter { axis, mode: rustorch_core::ScatterMode::Replace };
        self.copy_(&run(&op, &[self, &index, &source.to_dtype(self.dtype())?])?)
    }
}
