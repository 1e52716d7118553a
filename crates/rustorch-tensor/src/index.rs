//! Gather, scatter, index_select, one_hot, masks.

use crate::binary::promote;
use crate::dispatch::{run, run_into};
use crate::{Tensor, TensorOrScalar, is_capturing};
use rustorch_core::{
    DType, Dims, Embedding, Error, Gather, GatherSum, IndexSelect, Op, Result, Scatter, ScatterMode,
    ScatterReduce, ScatterReduction, Shape, Tri,
};
use rustorch_runtime::DeviceGuard;
use std::borrow::Cow;

impl Tensor {
    /// The tensor as an index: `I32` and `I64` as they are, other integers as `I64`.
    pub(crate) fn to_index(&self, op: &'static str) -> Result<Cow<'_, Tensor>> {
        match self.dtype() {
            DType::I32 | DType::I64 => Ok(Cow::Borrowed(self)),
            dtype if dtype.is_int() => Ok(Cow::Owned(self.to_dtype(DType::I64)?)),
            other => Err(Error::dtype(op, "indices must be integers", [other])),
        }
    }

    /// Slices along a dimension at the indices of a vector of integers.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let x = Tensor::new([[1i32, 2], [3, 4], [5, 6]])?;
    /// let y = x.index_select(0, &Tensor::new([2i64, 0])?)?;
    /// assert_eq!(y.to_vec::<i32>()?, [5, 6, 1, 2]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If an index is negative or too large.
    pub fn index_select(&self, dim: isize, index: &Tensor) -> Result<Tensor> {
        let axis = self.dimension("index_select", dim)?;
        let index = index.to_index("index_select")?;
        let index = if index.ndim() == 0 { Cow::Owned(index.unsqueeze(0)?) } else { index };
        run(&Op::IndexSelect(IndexSelect { axis }), &[self, &index])
    }

    /// `out[.., i, ..] = self[.., index[.., i, ..], ..]` along a dimension. The index has the tensor's rank, and is not
    /// longer in any other dimension.
    ///
    /// # Errors
    /// If the shapes do not fit, or an index is negative or too large.
    pub fn gather(&self, dim: isize, index: &Tensor) -> Result<Tensor> {
        let axis = self.axis("gather", dim)?;
        run(&Op::Gather(Gather { axis }), &[self, &*index.to_index("gather")?])
    }

    /// Weighted sums of elements of rows: `self: [batch, channels, n]`, `index: [batch, terms, points]` and `weight` of the index's shape
    /// give `[batch, channels, points]`, `out[b, c, p] = Σₜ weight[b, t, p] · self[b, c, index[b, t, p]]`. All channels share indices and
    /// weights: what interpolation at any points needs, and PyTorch's `embedding_bag(mode="sum", per_sample_weights=..)` in rows instead of
    /// columns.
    ///
    /// A term whose index is −1 has no element and adds nothing, whatever its weight. Tensor and weight promote; sums of 16-bit floats are
    /// computed in `F32`. Gradients are those of the tensor and of the weights.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let x = Tensor::new([[[1.0f32, 2.0, 3.0]]])?;
    /// let (index, weight) = (Tensor::new([[[0i64, 2], [1, -1]]])?, Tensor::new([[[0.5f32, 2.0], [0.5, 1.0]]])?);
    /// assert_eq!(x.gather_sum(&index, &weight)?.to_vec::<f32>()?, [1.5, 6.0]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If shapes do not fit, a dtype is none of floats, or an index is less than −1 or too large.
    pub fn gather_sum(&self, index: &Tensor, weight: &Tensor) -> Result<Tensor> {
        const NAME: &str = GatherSum::NAME;
        let dtype = promote(NAME, &[(self.dtype(), self.category()), (weight.dtype(), weight.category())])?;
        let wide = if matches!(dtype, DType::F16 | DType::BF16) { DType::F32 } else { dtype };
        let args = [&self.to_dtype(wide)?, &*index.to_index(NAME)?, &weight.to_dtype(wide)?];
        run(&Op::GatherSum(GatherSum), &args)?.to_dtype(dtype)
    }

    /// As [`gather`](Self::gather), with other dimensions broadcast; without a dimension, from the flattened tensor.
    pub fn take_along_dim(&self, index: &Tensor, dim: Option<isize>) -> Result<Tensor> {
        let Some(dim) = dim else {
            return self.flatten(0, -1)?.gather(0, &index.flatten(0, -1)?);
        };
        let axis = self.dimension("take_along_dim", dim)?;
        if index.ndim() != self.ndim() {
            return Err(Error::shape(
                "take_along_dim",
                "the index must have the tensor's rank",
                [self.shape(), index.shape()],
            ));
        }
        let one = |x: &Tensor| x.shape().with_dim(axis, 1);
        let around = one(self)?.broadcast(&one(index)?, "take_along_dim")?;
        let spread = |x: &Tensor| x.broadcast_to(around.with_dim(axis, x.dims()[axis])?);
        spread(self)?.gather(dim, &spread(index)?)
    }

    /// Indices of a dimension of a length, of which negative ones count from its end, as `I64`.
    pub(crate) fn counted_from_start(&self, op: &'static str, len: usize) -> Result<Tensor> {
        let index = self.to_index(op)?.to_dtype(DType::I64)?;
        if index.is_known(Tensor::min_all, |least| least >= 0)? {
            return Ok(index);
        }
        index.lt(0)?.where_cond(&index.add(len as i64)?, &index)
    }

    /// Whether these are known to be indices of a dimension of a length, none of which counts from its end.
    pub(crate) fn are_known_within(&self, len: usize) -> Result<bool> {
        Ok(self.is_known(Tensor::min_all, |least| least >= 0)?
            && self.is_known(Tensor::max_all, |most| most < len as i64)?)
    }

    /// Whether something holds of the smallest or largest of some integers, where reading it costs no more than a pass over them: on the
    /// CPU, outside of captured functions.
    fn is_known(
        &self,
        extreme: fn(&Tensor) -> Result<Tensor>,
        holds: impl FnOnce(i64) -> bool,
    ) -> Result<bool> {
        if !self.device().is_cpu() || self.numel() == 0 || is_capturing() {
            return Ok(false);
        }
        Ok(holds(extreme(self)?.item()?.to_i64()))
    }

    /// The elements of the flattened tensor at indices of any shape, as `torch.take`: the result has the indices' shape. Negative ones
    /// count from the end.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let x = Tensor::new([[1i32, 2], [3, 4]])?;
    /// assert_eq!(x.take(&Tensor::new([[0i64, -1]])?)?.to_vec::<i32>()?, [1, 4]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If an index is out of range or no integer.
    pub fn take(&self, index: &Tensor) -> Result<Tensor> {
        let places = index.counted_from_start("take", self.numel())?.flatten(0, -1)?;
        let taken = named("take", self.flatten(0, -1)?.index_select(0, &places))?;
        taken.reshape_to(index.shape().clone())
    }

    /// With a scalar, or a 0-d tensor, in the slices along a dimension at the indices of a vector of integers; negative ones count from
    /// the end. The dtype stays.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let x = Tensor::new([[1i32, 2, 3], [4, 5, 6]])?;
    /// let y = x.index_fill(1, &Tensor::new([0i64, -1])?, 9)?;
    /// assert_eq!(y.to_vec::<i32>()?, [9, 2, 9, 9, 5, 9]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If an index is out of range, or the value has dimensions or does not fit the dtype.
    pub fn index_fill<'a>(
        &self,
        dim: isize,
        index: &Tensor,
        value: impl Into<TensorOrScalar<'a>>,
    ) -> Result<Tensor> {
        const NAME: &str = "index_fill";
        let axis = self.axis(NAME, dim)?;
        let value = value.into();
        if let TensorOrScalar::Tensor(value) = value
            && value.ndim() != 0
        {
            return Err(Error::shape(NAME, "the value must be a scalar or a 0-d tensor", [value.shape()]));
        }
        if index.ndim() > 1 {
            return Err(Error::shape(NAME, "the index must be a vector", [index.shape()]));
        }
        let value = value.to_tensor(NAME, self.dtype(), self)?;
        let len = self.dims().get(axis).copied().unwrap_or(1);
        let places = index.counted_from_start(NAME, len)?.flatten(0, -1)?;
        let mask = {
            let _beside = DeviceGuard::beside(self.storage());
            named(NAME, Tensor::zeros([len], DType::Bool)?.scatter(0, &places, true))?
        };
        let mut dims = Dims::from_elem(1, self.ndim());
        if let Some(at) = dims.get_mut(axis) {
            *at = len;
        }
        mask.reshape_to(Shape::new(dims)?)?.where_cond(&*value, self)
    }

    /// For each integer, zeros of so many classes with a 1 at its place: `I64` of shape `[.., classes]`. If the number is not given, it is
    /// one more than the largest of the integers, which are read back to the CPU.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let x = Tensor::new([2i64, 0])?;
    /// assert_eq!(x.one_hot(Some(3))?.to_vec::<i64>()?, [0, 0, 1, 1, 0, 0]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If one is negative or too large, or there are none and the number of classes is not given.
    pub fn one_hot(&self, classes: Option<usize>) -> Result<Tensor> {
        const NAME: &str = "one_hot";
        let index = self.to_index(NAME)?;
        let classes = match classes {
            Some(classes) => classes,
            None if self.numel() == 0 => {
                return Err(Error::argument(NAME, "of no integers, the number of classes must be given"));
            }
            None => {
                self.expect_value(NAME)?;
                let largest = index.max_all()?.item()?.to_i64();
                usize::try_from(largest.saturating_add(1)).unwrap_or(0)
            }
        };
        let mut dims: Dims = self.dims().into();
        dims.push(classes);
        let _beside = DeviceGuard::beside(self.storage());
        let zeros = Tensor::zeros(Shape::new(dims)?, DType::I64)?;
        named(NAME, zeros.scatter(-1, &index.unsqueeze(-1)?, 1))
    }

    fn scattered(&self, mode: ScatterMode, dim: isize, index: &Tensor, source: &Tensor) -> Result<Tensor> {
        let name = if mode == ScatterMode::Add { "scatter_add" } else { "scatter" };
        let axis = self.axis(name, dim)?;
        run(&Op::Scatter(Scatter { axis, mode }), &[self, &*index.to_index(name)?, source])
    }

    /// The tensor with `source` (of the same dtype, or a scalar) written at `index` along a dimension:
    /// `out[.., index[.., i, ..], ..] = source[.., i, ..]`. Where an index repeats, the last source stays.
    ///
    /// # Errors
    /// If the shapes do not fit, or an index is negative or too large.
    pub fn scatter<'a>(
        &self,
        dim: isize,
        index: &Tensor,
        source: impl Into<TensorOrScalar<'a>>,
    ) -> Result<Tensor> {
        match source.into() {
            TensorOrScalar::Tensor(source) => self.scattered(ScatterMode::Replace, dim, index, source),
            number => {
                let value = number.to_tensor("scatter", self.dtype(), self)?;
                self.scattered(ScatterMode::Replace, dim, index, &value.expand_as(index)?)
            }
        }
    }

    /// As [`scatter`](Self::scatter), but the source is added to what is there, repeated indices included.
    pub fn scatter_add(&self, dim: isize, index: &Tensor, source: &Tensor) -> Result<Tensor> {
        self.scattered(ScatterMode::Add, dim, index, source)
    }

    /// As [`scatter_add`](Self::scatter_add), written back in place.
    ///
    /// # Errors
    /// As there. Nothing is written then.
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn scatter_add_(&self, dim: isize, index: &Tensor, source: &Tensor) -> Result<()> {
        let axis = self.axis("scatter_add", dim)?;
        let op = Op::Scatter(Scatter { axis, mode: ScatterMode::Add });
        run_into(&op, &[self, &*index.to_index("scatter_add")?, source], self)
    }

    /// The tensor with elements of `source` combined at `index` along a dimension, repeated indices included: integers and
    /// floats. If `include_self`, with the elements in place; else only with each other, but where no source comes the
    /// element in place stays.
    ///
    /// ```
    /// # use rustorch_tensor::{ScatterReduction, Tensor};
    /// let (x, index) = (Tensor::new([1.0f32, 2.0, 3.0])?, Tensor::new([0i64, 0, 2])?);
    /// let source = Tensor::new([5.0f32, 6.0, 1.0])?;
    /// let y = x.scatter_reduce(0, &index, &source, ScatterReduction::Max, true)?;
    /// assert_eq!(y.to_vec::<f32>()?, [6.0, 2.0, 3.0]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`scatter`](Self::scatter), and for booleans and complex numbers.
    pub fn scatter_reduce(
        &self,
        dim: isize,
        index: &Tensor,
        source: &Tensor,
        reduction: ScatterReduction,
        include_self: bool,
    ) -> Result<Tensor> {
        let axis = self.axis(ScatterReduce::NAME, dim)?;
        let op = ScatterReduce { axis, reduction, include_self };
        run(&Op::ScatterReduce(op), &[self, &*index.to_index(ScatterReduce::NAME)?, source])
    }

    /// The tensor with slices of `source` added along a dimension at the indices of a vector of integers.
    ///
    /// # Errors
    /// As for [`scatter`](Self::scatter).
    pub fn index_add(&self, dim: isize, index: &Tensor, source: &Tensor) -> Result<Tensor> {
        let axis = self.dimension("index_add", dim)?;
        if index.ndim() > 1 || source.ndim() != self.ndim() {
            return Err(Error::shape(
                "index_add",
                "needs an index of one dimension, and a source of the tensor's rank",
                [self.shape(), index.shape(), source.shape()],
            ));
        }
        let mut dims = Dims::from_elem(1, self.ndim());
        dims[axis] = index.numel();
        let index = index.reshape_to(Shape::new(dims)?)?;
        self.scatter_add(dim, &index.expand_as(source)?, source)
    }

    /// Rows of this table `[rows, dim]` at integer indices of any shape: `[indices.., dim]`. Block types are dequantized to `F32`.
    ///
    /// # Errors
    /// If an index is negative or too large.
    pub fn embedding(&self, indices: &Tensor) -> Result<Tensor> {
        run(&Op::Embedding(Embedding), &[self, &*indices.to_index("embedding")?])
    }

    /// The lower triangle of the last two dimensions, up to a diagonal (0 is the main one, positive lies above), the
    /// rest zero.
    pub fn tril(&self, diagonal: i64) -> Result<Tensor> {
        run(&Op::Tri(Tri { upper: false, diagonal }), &[self])
    }

    /// The upper triangle of the last two dimensions, from a diagonal (0 is the main one, positive lies above), the rest
    /// zero.
    pub fn triu(&self, diagonal: i64) -> Result<Tensor> {
        run(&Op::Tri(Tri { upper: true, diagonal }), &[self])
    }

    /// The indices of all elements that are not zero, in row-major order: `I64` of shape `[count, rank]`.
    ///
    /// How many there are depends on the values, so the tensor is read back to the CPU.
    pub fn nonzero(&self) -> Result<Tensor> {
        self.expect_value("nonzero")?;
        let holds = self.to_dtype(DType::Bool)?.to_vec::<bool>()?;
        let count = holds.iter().filter(|&&holds| holds).count();
        let indices = places(&holds, self.dims(), count);
        let _beside = DeviceGuard::beside(self.storage());
        Tensor::from_vec(indices, [count, self.ndim()])
    }

    /// The elements where a `Bool` mask of the tensor's shape (or one that broadcasts with it) holds, in row-major order:
    /// a vector, whose length depends on the values, so the mask is read back to the CPU.
    pub fn masked_select(&self, mask: &Tensor) -> Result<Tensor> {
        if mask.dtype() != DType::Bool {
            return Err(Error::dtype("masked_select", "the mask must be bool", [mask.dtype()]));
        }
        let shape = self.shape().broadcast(mask.shape(), "masked_select")?;
        let indices = mask.broadcast_to(&shape)?.flatten(0, -1)?.nonzero()?.flatten(0, -1)?;
        self.broadcast_to(&shape)?.flatten(0, -1)?.index_select(0, &indices)
    }

    /// With the elements of `source`, of the same dtype, in the places where a `Bool` mask holds, both in row-major order. The tensor and
    /// the mask broadcast.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let (x, mask) = (Tensor::new([1i32, 2, 3])?, Tensor::new([true, false, true])?);
    /// assert_eq!(x.masked_scatter(&mask, &Tensor::new([7i32, 8, 9])?)?.to_vec::<i32>()?, [7, 2, 8]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the source has fewer elements, or dtypes or shapes do not fit.
    pub fn masked_scatter(&self, mask: &Tensor, source: &Tensor) -> Result<Tensor> {
        const NAME: &str = "masked_scatter";
        if mask.dtype() != DType::Bool {
            return Err(Error::dtype(NAME, "the mask must be bool", [mask.dtype()]));
        }
        if source.dtype() != self.dtype() {
            let why = "the source must have the tensor's dtype; convert it with to_dtype";
            return Err(Error::dtype(NAME, why, [self.dtype(), source.dtype()]));
        }
        let shape = self.shape().broadcast(mask.shape(), NAME)?;
        let mask = mask.broadcast_to(&shape)?;
        let flat = mask.flatten(0, -1)?;
        // Places without the mask take an element in front of the source, so that no index depends on the source's length.
        let places = flat.cumsum(0)?.mul(&flat)?;
        let taken = source.flatten(0, -1)?.pad([1, 0], 0)?.index_select(0, &places).map_err(|error| {
            let count = source.numel();
            match error {
                Error::Index { .. } => Error::argument(
                    NAME,
                    format!("the mask is true in more places than the {count} elements of the source"),
                ),
                other => other,
            }
        })?;
        mask.where_cond(&taken.reshape_to(shape)?, self)
    }
}

/// The result of an operation that stands in another's place, whose errors about indices have that one's name. Of indices that were
/// counted from the end they tell the number that was given.
pub(crate) fn named(op: &'static str, result: Result<Tensor>) -> Result<Tensor> {
    result.map_err(|error| match error {
        Error::Index { index, len, .. } if index < 0 && op != "one_hot" => {
            Error::Index { op, index: index.saturating_sub(len as i64), len }
        }
        Error::Index { index, len, .. } => Error::Index { op, index, len },
        other => other,
    })
}

/// Of each element that holds, the index along every dimension: in row-major order, one element after the other. There are `count`.
fn places(holds: &[bool], dims: &[usize], count: usize) -> Vec<i64> {
    let rank = dims.len();
    let mut indices = vec![0; count * rank];
    let Some((&width, outer)) = dims.split_last() else { return indices };
    let (mut row, mut columns) = (vec![0; outer.len()], vec![0; width]);
    let mut rest = &mut indices[..];
    for line in holds.chunks_exact(width.max(1)) {
        let mut found = 0;
        for (column, &holds) in line.iter().enumerate() {
            // Without a branch: which elements hold is hard to foresee.
            columns[found] = column as i64;
            found += usize::from(holds);
        }
        let (these, others) = rest.split_at_mut(found * rank);
        rest = others;
        for (dim, &index) in row.iter().enumerate() {
            these.chunks_exact_mut(rank).for_each(|place| place[dim] = index);
        }
        these.chunks_exact_mut(rank).zip(&columns).for_each(|(place, &column)| place[rank - 1] = column);
        for (index, &dim) in row.iter_mut().zip(outer).rev() {
            *index += 1;
            if *index < dim as i64 {
                break;
            }
            *index = 0;
        }
    }
    indices
}
