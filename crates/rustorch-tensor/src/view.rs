//! Views: other shapes, orders and parts of the same memory. None of them copies, unless its documentation says so.

use crate::{IntoShape, Sizes, Tensor};
use rustorch_core::{DType, Dims, Error, Layout, Result, Shape, resolve_axis};
use std::ops::{Bound, RangeBounds};

impl Tensor {
    /// The same elements in another shape, of which one length may be −1. A view where the strides allow it, else a
    /// copy.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let x = Tensor::arange(0, 6, 1)?.reshape([2, -1])?;
    /// assert_eq!(x.dims(), [2, 3]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the numbers of elements differ.
    pub fn reshape(&self, sizes: impl Into<Sizes>) -> Result<Tensor> {
        let shape = sizes.into().resolve("reshape", self.shape())?;
        self.reshape_to(&shape)
    }

    /// As [`reshape`](Self::reshape), for a shape that is known.
    pub(crate) fn reshape_to(&self, shape: &Shape) -> Result<Tensor> {
        if shape == self.shape() {
            return Ok(self.clone());
        }
        match self.layout().reshape(shape)? {
            Some(layout) => self.viewed("reshape", layout),
            None => Ok(self.copy()?.with_layout(Layout::contiguous(shape.clone()))),
        }
    }

    /// As [`reshape`](Self::reshape), but an error where it would have to copy.
    pub fn view(&self, sizes: impl Into<Sizes>) -> Result<Tensor> {
        let shape = sizes.into().resolve("view", self.shape())?;
        match self.layout().reshape(&shape)? {
            Some(layout) => self.viewed("view", layout),
            None => Err(Error::shape(
                "view",
                format!("strides {:?} do not allow it without a copy; use reshape", self.strides()),
                [self.shape(), &shape],
            )),
        }
    }

    /// Dimensions `start` to `end` (both included, both may count from the end) merged into one; `flatten(0, -1)` merges
    /// all. A scalar becomes a tensor of one element. Copies where the strides demand it.
    pub fn flatten(&self, start: isize, end: isize) -> Result<Tensor> {
        let (first, last) = (self.axis("flatten", start)?, self.axis("flatten", end)?);
        if self.rank() == 0 {
            return self.reshape([1]);
        }
        if first > last {
            return Err(Error::argument("flatten", format!("dimension {start} comes after {end}")));
        }
        let dims = self.dims();
        let mut merged: Dims = dims[..first].into();
        merged.push(dims[first..=last].iter().product());
        merged.extend_from_slice(&dims[last + 1..]);
        self.reshape_to(&Shape::new(merged)?)
    }

    /// Dimension `dim` cut into several, of which one length may be −1.
    pub fn unflatten(&self, dim: isize, sizes: impl Into<Sizes>) -> Result<Tensor> {
        let axis = self.dimension("unflatten", dim)?;
        let part = sizes.into().resolve("unflatten", &Shape::new([self.dims()[axis]].as_slice())?)?;
        let mut dims: Dims = self.dims()[..axis].into();
        dims.extend_from_slice(part.dims());
        dims.extend_from_slice(&self.dims()[axis + 1..]);
        self.reshape_to(&Shape::new(dims)?)
    }

    /// Two dimensions swapped.
    pub fn transpose(&self, a: isize, b: isize) -> Result<Tensor> {
        let (a, b) = (self.axis("transpose", a)?, self.axis("transpose", b)?);
        if a == b {
            return Ok(self.clone());
        }
        Ok(self.with_layout(self.layout().transpose(a, b)?))
    }

    /// The transposed matrix; vectors and scalars stay as they are.
    ///
    /// # Errors
    /// With more than two dimensions; [`transpose`](Self::transpose) says which.
    pub fn t(&self) -> Result<Tensor> {
        match self.rank() {
            0 | 1 => Ok(self.clone()),
            2 => self.transpose(0, 1),
            _ => Err(Error::shape("t", "needs two dimensions at most; use transpose", [self.shape()])),
        }
    }

    /// Dimensions in another order: dimension `i` of the result is `order[i]` of this one.
    pub fn permute(&self, order: impl AsRef<[isize]>) -> Result<Tensor> {
        let order: Dims = order
            .as_ref()
            .iter()
            .map(|&dim| resolve_axis("permute", dim, self.rank()))
            .collect::<Result<_>>()?;
        Ok(self.with_layout(self.layout().permute(&order)?))
    }

    /// Without dimension `dim` if its length is 1, else unchanged.
    pub fn squeeze(&self, dim: isize) -> Result<Tensor> {
        let axis = self.axis("squeeze", dim)?;
        match self.dims().get(axis) {
            Some(1) => Ok(self.with_layout(self.layout().squeeze(axis)?)),
            _ => Ok(self.clone()),
        }
    }

    /// Without any dimension of length 1.
    pub fn squeeze_all(&self) -> Result<Tensor> {
        let mut layout = self.layout().clone();
        for axis in (0..self.rank()).rev().filter(|&axis| self.dims()[axis] == 1) {
            layout = layout.squeeze(axis)?;
        }
        Ok(self.with_layout(layout))
    }

    /// With a dimension of length 1 before `dim`; −1 puts it at the end.
    pub fn unsqueeze(&self, dim: isize) -> Result<Tensor> {
        let axis = resolve_axis("unsqueeze", dim, self.rank() + 1)?;
        Ok(self.with_layout(self.layout().unsqueeze(axis)?))
    }

    /// Repeated, without copying, along dimensions of length 1 and new ones in front. A length of −1 keeps the
    /// dimension's own.
    pub fn expand(&self, sizes: impl Into<Sizes>) -> Result<Tensor> {
        let sizes = sizes.into().0;
        let extra = sizes.len().checked_sub(self.rank());
        let dims: Option<Dims> = extra.and_then(|extra| {
            sizes
                .iter()
                .enumerate()
                .map(|(i, &size)| match size {
                    0.. => Some(size as usize),
                    -1 if i >= extra => Some(self.dims()[i - extra]),
                    _ => None,
                })
                .collect()
        });
        match dims {
            Some(dims) => self.broadcast_to(Shape::new(dims)?),
            None => Err(Error::shape(
                "expand",
                format!("cannot be expanded to {:?}; −1 is for existing dimensions only", &sizes[..]),
                [self.shape()],
            )),
        }
    }

    /// Repeated, without copying, to the shape of another.
    pub fn expand_as(&self, other: &Tensor) -> Result<Tensor> {
        self.broadcast_to(other.shape())
    }

    /// Repeated, without copying, to a shape that this one broadcasts to.
    pub fn broadcast_to(&self, shape: impl IntoShape) -> Result<Tensor> {
        let shape = shape.into_shape()?;
        if &shape == self.shape() {
            return Ok(self.clone());
        }
        Ok(self.with_layout(self.layout().broadcast_to(&shape, "expand")?))
    }

    /// `len` elements of dimension `dim` from `start`.
    ///
    /// # Errors
    /// If the range leaves the dimension.
    pub fn narrow(&self, dim: isize, start: usize, len: usize) -> Result<Tensor> {
        let axis = self.dimension("narrow", dim)?;
        self.viewed("narrow", self.layout().slice(axis, start, len, 1)?)
    }

    /// Every `step`th element of a range of dimension `dim`. As in Python, bounds may count from the end and are
    /// clamped to the dimension.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let x = Tensor::arange(0, 10, 1)?;
    /// assert_eq!(x.slice(0, -3.., 1)?.to_vec::<i64>()?, [7, 8, 9]);
    /// assert_eq!(x.slice(0, 1..8, 3)?.to_vec::<i64>()?, [1, 4, 7]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    pub fn slice(&self, dim: isize, range: impl RangeBounds<isize>, step: usize) -> Result<Tensor> {
        let axis = self.dimension("slice", dim)?;
        if step == 0 {
            return Err(Error::argument("slice", "the step must be at least 1"));
        }
        let size = self.dims()[axis];
        let place = |at: isize| -> usize {
            if at < 0 { size.saturating_sub(at.unsigned_abs()) } else { (at as usize).min(size) }
        };
        let start = match range.start_bound() {
            Bound::Included(&at) => place(at),
            Bound::Excluded(&at) => (place(at) + 1).min(size),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(&-1) => size,
            Bound::Included(&at) => place(at.saturating_add(1)),
            Bound::Excluded(&at) => place(at),
            Bound::Unbounded => size,
        };
        let len = end.saturating_sub(start).div_ceil(step);
        self.viewed("slice", self.layout().slice(axis, start, len, step)?)
    }

    /// Without dimension `dim`, at one index of it, which may count from the end.
    ///
    /// # Errors
    /// If there is no such index.
    pub fn select(&self, dim: isize, index: isize) -> Result<Tensor> {
        let axis = self.dimension("select", dim)?;
        let len = self.dims()[axis];
        let at = if index < 0 { index.checked_add_unsigned(len) } else { Some(index) };
        match at.and_then(|at| usize::try_from(at).ok()).filter(|&at| at < len) {
            Some(at) => self.viewed("select", self.layout().select(axis, at)?),
            None => Err(Error::Index { op: "select", index: index as i64, len }),
        }
    }

    /// Cut along a dimension into at most `chunks` parts of one length, the last of which may be shorter.
    pub fn chunk(&self, chunks: usize, dim: isize) -> Result<Vec<Tensor>> {
        let axis = self.dimension("chunk", dim)?;
        if chunks == 0 {
            return Err(Error::argument("chunk", "the number of parts must be at least 1"));
        }
        let len = self.dims()[axis];
        if len == 0 {
            return Ok(vec![self.clone(); chunks]);
        }
        self.split(len.div_ceil(chunks), dim)
    }

    /// Cut along a dimension into parts of `size`, the last of which may be shorter.
    pub fn split(&self, size: usize, dim: isize) -> Result<Vec<Tensor>> {
        let axis = self.dimension("split", dim)?;
        let len = self.dims()[axis];
        if size == 0 && len != 0 {
            return Err(Error::argument("split", "the length of the parts must be at least 1"));
        }
        if len == 0 {
            return Ok(vec![self.clone()]);
        }
        (0..len).step_by(size).map(|start| self.narrow(dim, start, size.min(len - start))).collect()
    }

    /// Cut along a dimension into parts of these lengths.
    ///
    /// # Errors
    /// If they do not sum to the dimension's.
    pub fn split_sizes(&self, sizes: &[usize], dim: isize) -> Result<Vec<Tensor>> {
        let axis = self.dimension("split", dim)?;
        if sizes.iter().try_fold(0usize, |sum, &n| sum.checked_add(n)) != Some(self.dims()[axis]) {
            return Err(Error::shape(
                "split",
                format!("the lengths {sizes:?} do not sum to that of dimension {axis}"),
                [self.shape()],
            ));
        }
        let mut start = 0;
        sizes
            .iter()
            .map(|&len| {
                start += len;
                self.narrow(dim, start - len, len)
            })
            .collect()
    }

    /// Every index of a dimension, as [`select`](Self::select) gives it.
    pub fn unbind(&self, dim: isize) -> Result<Vec<Tensor>> {
        let axis = self.dimension("unbind", dim)?;
        (0..self.dims()[axis]).map(|i| self.select(dim, i as isize)).collect()
    }

    /// The diagonal of the plane of two dimensions, as a new last dimension. `offset` above 0 lies above the main
    /// diagonal.
    pub fn diagonal(&self, offset: isize, dim1: isize, dim2: isize) -> Result<Tensor> {
        let (a, b) = (self.dimension("diagonal", dim1)?, self.dimension("diagonal", dim2)?);
        if a == b {
            return Err(Error::argument("diagonal", format!("needs two dimensions, got {dim1} twice")));
        }
        let (rows, columns) = (self.dims()[a], self.dims()[b]);
        let (down, right) = (offset.min(0).unsigned_abs(), offset.max(0).unsigned_abs());
        let len = rows.saturating_sub(down).min(columns.saturating_sub(right));
        let strides = self.strides();
        let kept = (0..self.rank()).filter(|&i| i != a && i != b);
        let mut dims: Dims = kept.clone().map(|i| self.dims()[i]).collect();
        let mut steps: Dims = kept.map(|i| strides[i]).collect();
        dims.push(len);
        steps.push(strides[a] + strides[b]);
        let skip = if len == 0 { 0 } else { down * strides[a] + right * strides[b] };
        self.viewed("diagonal", Layout::new(Shape::new(dims)?, steps, self.layout().offset() + skip)?)
    }

    /// Windows of `size` elements of a dimension, `step` apart: the dimension's length becomes the number of windows,
    /// and a last dimension of `size` is added.
    pub fn unfold(&self, dim: isize, size: usize, step: usize) -> Result<Tensor> {
        let axis = self.dimension("unfold", dim)?;
        let len = self.dims()[axis];
        if step == 0 || size > len {
            return Err(Error::shape(
                "unfold",
                format!("dimension {axis} has no windows of {size} at a step of {step}"),
                [self.shape()],
            ));
        }
        let mut dims: Dims = self.dims().into();
        let mut strides: Dims = self.strides().into();
        dims[axis] = (len - size) / step + 1;
        dims.push(size);
        strides.push(strides[axis]);
        strides[axis] = strides[axis].saturating_mul(step);
        self.viewed("unfold", Layout::new(Shape::new(dims)?, strides, self.layout().offset())?)
    }

    /// The real parts of complex numbers, as a view; real tensors are returned as they are.
    pub fn real(&self) -> Result<Tensor> {
        if !self.dtype().is_complex() {
            return Ok(self.clone());
        }
        self.part(0)
    }

    /// The imaginary parts of complex numbers, as a view.
    ///
    /// # Errors
    /// If the tensor is not complex.
    pub fn imag(&self) -> Result<Tensor> {
        if !self.dtype().is_complex() {
            return Err(Error::dtype("imag", "needs complex numbers", [self.dtype()]));
        }
        self.part(1)
    }

    fn part(&self, index: usize) -> Result<Tensor> {
        let pairs = self.view_as_real()?;
        let layout = pairs.layout().select(self.rank(), index)?;
        Ok(pairs.with_layout(layout))
    }

    /// Complex numbers as pairs of real ones along a new last dimension of length 2, as a view.
    ///
    /// # Errors
    /// If the tensor is not complex.
    pub fn view_as_real(&self) -> Result<Tensor> {
        if !self.dtype().is_complex() {
            return Err(Error::dtype("view_as_real", "needs complex numbers", [self.dtype()]));
        }
        let mut dims: Dims = self.dims().into();
        dims.push(2);
        let mut strides: Dims = self.strides().iter().map(|s| s.saturating_mul(2)).collect();
        strides.push(1);
        let layout = Layout::new(Shape::new(dims)?, strides, self.layout().offset() * 2)?;
        Ok(Tensor::from_parts(self.storage().clone(), self.dtype().to_real(), layout))
    }

    /// Pairs of `F32` or `F64` along the last dimension as complex numbers, as a view.
    ///
    /// # Errors
    /// If the last dimension is not made of neighbouring pairs, or pairs do not start at even places.
    pub fn view_as_complex(&self) -> Result<Tensor> {
        const NAME: &str = "view_as_complex";
        let dtype = match self.dtype() {
            DType::F32 => DType::C64,
            DType::F64 => DType::C128,
            other => return Err(Error::dtype(NAME, "needs f32 or f64", [other])),
        };
        let (Some((&2, dims)), Some((&1, strides))) = (self.dims().split_last(), self.strides().split_last())
        else {
            return Err(Error::shape(
                NAME,
                "the last dimension must be of length 2 and stride 1",
                [self.shape()],
            ));
        };
        let empty = self.elements() == 0;
        let paired = |(&dim, &stride): (&usize, &usize)| dim == 1 || stride.is_multiple_of(2);
        let even = dims.iter().zip(strides).all(paired) && self.layout().offset().is_multiple_of(2);
        if !empty && !even {
            return Err(Error::shape(
                NAME,
                format!(
                    "strides {strides:?} at offset {} do not fall on pairs; use copy",
                    self.layout().offset()
                ),
                [self.shape()],
            ));
        }
        let strides: Dims = strides.iter().map(|s| s / 2).collect();
        let offset = if empty { 0 } else { self.layout().offset() / 2 };
        let layout = Layout::new(Shape::new(dims)?, strides, offset)?;
        Ok(Tensor::from_parts(self.storage().clone(), dtype, layout))
    }

    /// As [`axis`](Self::axis), for operations that need the dimension to exist.
    pub(crate) fn dimension(&self, op: &'static str, dim: isize) -> Result<usize> {
        let axis = self.axis(op, dim)?;
        if self.rank() == 0 {
            return Err(Error::Axis { op, axis: dim, rank: 0 });
        }
        Ok(axis)
    }
}
