//! View ops: other shapes, orders and parts of the same memory. None of them copies, unless its documentation says so.

use crate::autograd::is_grad_enabled;
use crate::dispatch::{try_view, view};
use crate::{IntoShape, Sizes, Tensor};
use rustorch_core::{Dims, Error, Result, Shape, ViewOp, resolve_axis};
use smallvec::SmallVec;
use std::borrow::Borrow;
use std::ops::{Bound, RangeBounds};

/// Which dimensions of a [grid](Tensor::meshgrid) the first two vectors have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeshgridIndexing {
    /// The first and the second: rows and columns of a matrix.
    Ij,
    /// The second and the first: x and y of a picture.
    Xy,
}

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
        self.reshape_to(shape)
    }

    /// As [`reshape`](Self::reshape), for a shape that is known.
    pub(crate) fn reshape_to(&self, shape: Shape) -> Result<Tensor> {
        if &shape == self.shape() {
            return Ok(self.unchanged());
        }
        let op = ViewOp::Reshape(shape);
        match try_view(self, &op)? {
            Some(view) => Ok(view),
            None => self.reshape_copy(&op),
        }
    }

    #[cold]
    fn reshape_copy(&self, op: &ViewOp) -> Result<Tensor> {
        view(&self.copy()?, op)
    }

    /// A view that changes nothing: the tensor itself; or, as of any view where nothing is recorded, its memory without a history.
    #[inline]
    fn unchanged(&self) -> Tensor {
        if self.history().exists() && !is_grad_enabled() { self.detach() } else { self.clone() }
    }

    /// Whether [`reshape`](Self::reshape) to this shape needs no copy.
    pub(crate) fn has_view(&self, shape: &Shape) -> Result<bool> {
        Ok(self.is_contiguous() || self.layout().reshape(shape)?.is_some())
    }

    /// As [`reshape`](Self::reshape), but an error where it would have to copy.
    pub fn view(&self, sizes: impl Into<Sizes>) -> Result<Tensor> {
        view(self, &ViewOp::Reshape(sizes.into().resolve("view", self.shape())?))
    }

    /// Dimensions `start` to `end` (both included, both may count from the end) merged into one; `flatten(0, -1)` merges
    /// all. A scalar becomes a tensor of one element. Copies where the strides demand it.
    pub fn flatten(&self, start: isize, end: isize) -> Result<Tensor> {
        let (first, last) = (self.axis("flatten", start)?, self.axis("flatten", end)?);
        if self.ndim() == 0 {
            return self.reshape([1]);
        }
        if first > last {
            return Err(Error::argument("flatten", format!("dimension {start} comes after {end}")));
        }
        let dims = self.dims();
        let mut merged: Dims = dims[..first].into();
        merged.push(dims[first..=last].iter().product());
        merged.extend_from_slice(&dims[last + 1..]);
        self.reshape_to(Shape::new(merged)?)
    }

    /// Dimension `dim` cut into several, of which one length may be −1.
    pub fn unflatten(&self, dim: isize, sizes: impl Into<Sizes>) -> Result<Tensor> {
        let axis = self.dimension("unflatten", dim)?;
        let part = sizes.into().resolve("unflatten", &Shape::new([self.dims()[axis]].as_slice())?)?;
        let mut dims: Dims = self.dims()[..axis].into();
        dims.extend_from_slice(part.dims());
        dims.extend_from_slice(&self.dims()[axis + 1..]);
        self.reshape_to(Shape::new(dims)?)
    }

    /// Two dimensions swapped.
    pub fn transpose(&self, a: isize, b: isize) -> Result<Tensor> {
        let (a, b) = (self.axis("transpose", a)?, self.axis("transpose", b)?);
        if a == b {
            return Ok(self.unchanged());
        }
        view(self, &ViewOp::Transpose { axes: [a, b] })
    }

    /// The transposed matrix; vectors and scalars stay as they are.
    ///
    /// # Errors
    /// With more than two dimensions; [`transpose`](Self::transpose) says which.
    pub fn t(&self) -> Result<Tensor> {
        match self.ndim() {
            0 | 1 => Ok(self.unchanged()),
            2 => self.transpose(0, 1),
            _ => Err(Error::shape("t", "needs two dimensions at most; use transpose", [self.shape()])),
        }
    }

    /// Dimensions in another order: dimension `i` of the result is `order[i]` of this one.
    pub fn permute(&self, order: impl AsRef<[isize]>) -> Result<Tensor> {
        let order = order.as_ref();
        let mut axes: Dims = SmallVec::from_elem(0, order.len());
        for (axis, &dim) in axes.iter_mut().zip(order) {
            *axis = resolve_axis("permute", dim, self.ndim())?;
        }
        view(self, &ViewOp::Permute(axes))
    }

    /// Dimensions moved from places to others, as `torch.movedim`; the rest keep their order.
    ///
    /// ```
    /// # use rustorch_tensor::{DType, Tensor};
    /// let x = Tensor::zeros([2, 3, 4], DType::F32)?;
    /// assert_eq!(x.movedim([0], [-1])?.dims(), [3, 4, 2]);
    /// assert_eq!(x.movedim([0, 1], [1, 2])?.dims(), [4, 2, 3]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If there are not as many places to go to, or a dimension appears twice.
    pub fn movedim(&self, source: impl AsRef<[isize]>, destination: impl AsRef<[isize]>) -> Result<Tensor> {
        const NAME: &str = "movedim";
        let (source, destination) = (source.as_ref(), destination.as_ref());
        if source.len() != destination.len() {
            let why = format!("{source:?} and {destination:?} differ in length");
            return Err(Error::argument(NAME, why));
        }
        let resolve = |dims: &[isize]| -> Result<Dims> {
            let axes: Dims = dims.iter().map(|&dim| self.axis(NAME, dim)).collect::<Result<_>>()?;
            match (0..axes.len()).find(|&i| axes[..i].contains(&axes[i])) {
                Some(i) => Err(Error::argument(NAME, format!("dimension {} is twice in {dims:?}", axes[i]))),
                None => Ok(axes),
            }
        };
        let (from, to) = (resolve(source)?, resolve(destination)?);
        let mut rest = (0..self.ndim()).filter(|axis| !from.contains(axis));
        let order = (0..self.ndim()).filter_map(|place| match to.iter().position(|&axis| axis == place) {
            Some(i) => Some(from[i]),
            None => rest.next(),
        });
        view(self, &ViewOp::Permute(order.collect()))
    }

    /// Of vectors, the coordinates of the points of their grid: a tensor of each, expanded along the dimensions of the others. Scalars
    /// count as vectors of one element.
    ///
    /// ```
    /// # use rustorch_tensor::{MeshgridIndexing, Tensor};
    /// let (x, y) = (Tensor::new([1i32, 2, 3])?, Tensor::new([4i32, 5])?);
    /// let grid = Tensor::meshgrid(&[&x, &y], MeshgridIndexing::Ij)?;
    /// assert_eq!(grid[0].to_vec::<i32>()?, [1, 1, 2, 2, 3, 3]);
    /// assert_eq!(Tensor::meshgrid(&[&x, &y], MeshgridIndexing::Xy)?[0].to_vec::<i32>()?, [1, 2, 3, 1, 2, 3]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If there are none, or they have more dimensions, or different dtypes.
    pub fn meshgrid<T: Borrow<Tensor>>(tensors: &[T], indexing: MeshgridIndexing) -> Result<Vec<Tensor>> {
        const NAME: &str = "meshgrid";
        let Some(first) = tensors.first().map(Borrow::borrow) else {
            return Err(Error::argument(NAME, "needs one tensor at least"));
        };
        let vectors = || tensors.iter().map(Borrow::borrow);
        if let Some(other) = vectors().find(|x| x.ndim() > 1) {
            return Err(Error::shape(NAME, "takes vectors and scalars; use flatten", [other.shape()]));
        }
        if vectors().any(|x| x.dtype() != first.dtype()) {
            let why = "the dtypes differ; convert them with to_dtype";
            return Err(Error::dtype(NAME, why, vectors().map(Tensor::dtype)));
        }
        let mut lengths: Dims = vectors().map(Tensor::numel).collect();
        let place = |i: usize| match i {
            0 | 1 if indexing == MeshgridIndexing::Xy && tensors.len() > 1 => 1 - i,
            _ => i,
        };
        if place(0) == 1 {
            lengths.swap(0, 1);
        }
        let shape = Shape::new(lengths)?;
        vectors()
            .enumerate()
            .map(|(i, x)| {
                let mut dims = Dims::from_elem(1, tensors.len());
                dims[place(i)] = x.numel();
                x.reshape_to(Shape::new(dims)?)?.broadcast_to(&shape)
            })
            .collect()
    }

    /// Without dimension `dim` if its length is 1, else unchanged.
    pub fn squeeze(&self, dim: isize) -> Result<Tensor> {
        let axis = self.axis("squeeze", dim)?;
        match self.dims().get(axis) {
            Some(1) => view(self, &ViewOp::Squeeze { axis }),
            _ => Ok(self.unchanged()),
        }
    }

    /// Without any dimension of length 1.
    pub fn squeeze_all(&self) -> Result<Tensor> {
        let dims: Dims = self.dims().iter().copied().filter(|&dim| dim != 1).collect();
        self.reshape_to(Shape::new(dims)?)
    }

    /// With a dimension of length 1 before `dim`; −1 puts it at the end.
    pub fn unsqueeze(&self, dim: isize) -> Result<Tensor> {
        let axis = resolve_axis("unsqueeze", dim, self.ndim() + 1)?;
        view(self, &ViewOp::Unsqueeze { axis })
    }

    /// Repeated, without copying, along dimensions of length 1 and new ones in front. A length of −1 keeps the
    /// dimension's own.
    pub fn expand(&self, sizes: impl Into<Sizes>) -> Result<Tensor> {
        let sizes = sizes.into().0;
        let refused = || {
            let reason =
                format!("cannot be expanded to {:?}; −1 is for existing dimensions only", &sizes[..]);
            Error::shape("expand", reason, [self.shape()])
        };
        let extra = sizes.len().checked_sub(self.ndim()).ok_or_else(refused)?;
        let mut dims: Dims = SmallVec::from_elem(0, sizes.len());
        for (i, (dim, &size)) in dims.iter_mut().zip(&sizes).enumerate() {
            *dim = match size {
                0.. => size as usize,
                -1 if i >= extra => self.dims()[i - extra],
                _ => return Err(refused()),
            };
        }
        self.broadcast_to(Shape::new(dims)?)
    }

    /// Repeated, without copying, to the shape of another.
    pub fn expand_as(&self, other: &Tensor) -> Result<Tensor> {
        self.broadcast_to(other.shape())
    }

    /// Repeated, without copying, to a shape that this one broadcasts to.
    pub fn broadcast_to(&self, shape: impl IntoShape) -> Result<Tensor> {
        let shape = shape.into_shape()?;
        if &shape == self.shape() {
            return Ok(self.unchanged());
        }
        view(self, &ViewOp::Expand(shape))
    }

    /// `len` elements of dimension `dim` from `start`.
    ///
    /// # Errors
    /// If the range leaves the dimension.
    pub fn narrow(&self, dim: isize, start: usize, len: usize) -> Result<Tensor> {
        let axis = self.dimension("narrow", dim)?;
        view(self, &ViewOp::Slice { axis, start, len, step: 1 })
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
        view(self, &ViewOp::Slice { axis, start, len, step })
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
            Some(index) => view(self, &ViewOp::Select { axis, index }),
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
            return Ok(vec![self.unchanged(); chunks]);
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
            return Ok(vec![self.unchanged()]);
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
        let axes = [self.dimension("diagonal", dim1)?, self.dimension("diagonal", dim2)?];
        view(self, &ViewOp::Diagonal { offset, axes })
    }

    /// Windows of `size` elements of a dimension, `step` apart: the dimension's length becomes the number of windows,
    /// and a last dimension of `size` is added.
    pub fn unfold(&self, dim: isize, size: usize, step: usize) -> Result<Tensor> {
        let axis = self.dimension("unfold", dim)?;
        view(self, &ViewOp::Unfold { axis, size, step })
    }

    /// The real parts of complex numbers, as a view; real tensors are returned as they are.
    pub fn real(&self) -> Result<Tensor> {
        if self.dtype().is_complex() { view(self, &ViewOp::Real) } else { Ok(self.unchanged()) }
    }

    /// The imaginary parts of complex numbers, as a view.
    ///
    /// # Errors
    /// If the tensor is not complex.
    pub fn imag(&self) -> Result<Tensor> {
        view(self, &ViewOp::Imag)
    }

    /// Complex numbers as pairs of real ones along a new last dimension of length 2, as a view.
    ///
    /// # Errors
    /// If the tensor is not complex.
    pub fn view_as_real(&self) -> Result<Tensor> {
        view(self, &ViewOp::AsReal)
    }

    /// Pairs of `F32` or `F64` along the last dimension as complex numbers, as a view.
    ///
    /// # Errors
    /// If the last dimension is not made of neighbouring pairs, or pairs do not start at even places.
    pub fn view_as_complex(&self) -> Result<Tensor> {
        view(self, &ViewOp::AsComplex)
    }

    /// As [`axis`](Self::axis), for operations that need the dimension to exist.
    pub(crate) fn dimension(&self, op: &'static str, dim: isize) -> Result<usize> {
        let axis = self.axis(op, dim)?;
        if self.ndim() == 0 {
            return Err(Error::Axis { op, axis: dim, ndim: 0 });
        }
        Ok(axis)
    }
}
