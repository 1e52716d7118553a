//! `x.i(i![.., 1..3, -1, None, &mask])`: NumPy's indexing, for reading and for writing.
//!
//! An index is a list of [`TensorIndex`], which [`resolve`](resolve::resolve) turns into a view and the tensors that index some of its
//! dimensions; without these the view is the result.

mod item;
mod resolve;

pub use item::{Slice, TensorIndex};

use crate::autograd::is_grad_enabled;
use crate::dispatch::run_into;
use crate::{Tensor, TensorOrScalar};
use resolve::{Resolved, resolve};
use rustorch_core::{DType, Dims, Error, Op, Result, Scatter, ScatterMode, Shape, Where};
use rustorch_runtime::DeviceGuard;

impl Tensor {
    /// The part at an index, which [`i!`](crate::i) makes, by NumPy's rules:
    ///
    /// | in the list | meaning |
    /// |---|---|
    /// | `2`, `-1` | one element of a dimension, which goes |
    /// | `1..3`, `..-1`, `2..`, `1..=4` | a range of a dimension, clamped to it; bounds below 0 count from the end |
    /// | `1..9; 2`, `..; 2` | every second element of a range, of all |
    /// | `..` | all dimensions that nothing else in the list stands for; at the end if it is not written |
    /// | `0..` | all of one dimension, Python's `:` |
    /// | `None` | a new dimension of length 1 |
    /// | `&index`, a tensor of integers | the elements at these indices of a dimension, whose place the tensor's dimensions take |
    /// | `&mask`, a `Bool` tensor | the elements where it is true, of as many dimensions as it has, as one dimension |
    /// | `true`, `false` | a new dimension of length 1, or 0 |
    ///
    /// Several tensors broadcast to one shape and are read together, as coordinates. Their dimensions stand where the first of them
    /// stands, but in front if a range, a new dimension or `..` comes between them; as in NumPy, and unlike in PyTorch, single
    /// elements count as tensors there.
    ///
    /// Without tensors and booleans the result is a view. Otherwise it is a copy, and how long it is with a mask depends on the mask's
    /// values, so the mask is read back to the CPU.
    ///
    /// ```
    /// # use rustorch_tensor::{Tensor, i};
    /// let x = Tensor::arange(0, 12, 1)?.reshape([3, 4])?;
    /// assert_eq!(x.i(i![-1, 1..3])?.to_vec::<i64>()?, [9, 10]);
    /// assert_eq!(x.i(i![.., ..; 2])?.dims(), [3, 2]);
    /// assert_eq!(x.i(i![None, 0.., 1])?.dims(), [1, 3]);
    /// let rows = Tensor::new([0i64, -1])?;
    /// assert_eq!(x.i(i![&rows, 0])?.to_vec::<i64>()?, [0, 8]);
    /// assert_eq!(x.i(i![&x.ge(10)?])?.to_vec::<i64>()?, [10, 11]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the list stands for more dimensions than there are, an index is out of range, a mask has another shape than its dimensions, a
    /// tensor is of neither integers nor `Bool`, or shapes of tensors do not broadcast; with a mask in a captured function.
    pub fn i(&self, index: impl AsRef<[TensorIndex]>) -> Result<Tensor> {
        resolve("i", self, index.as_ref())?.read()
    }

    /// Writes a tensor, or a scalar, in place at an index, as [`i`](Self::i) reads it. The values broadcast to the shape that reading gives
    /// and are converted to this dtype. Where an index repeats, the last value stays. Of an index that is a mask alone, a scalar is written
    /// without reading the mask back, also in a captured function.
    ///
    /// ```
    /// # use rustorch_tensor::{DType, Tensor, i};
    /// let x = Tensor::zeros([2, 3], DType::F32)?;
    /// x.set(i![1, ..2], &Tensor::new([5.0f32, 6.0])?)?;
    /// x.set(i![&x.eq(0)?], -1)?;
    /// assert_eq!(x.to_vec::<f32>()?, [-1.0, -1.0, -1.0, 5.0, 6.0, -1.0]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`i`](Self::i); if the values do not broadcast or a scalar does not fit the dtype; and those of any write in place: on
    /// read-only memory, on a leaf that requires a gradient, and, where a gradient is recorded, on memory that other tensors share.
    /// Nothing is written then.
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn set<'a>(
        &self,
        index: impl AsRef<[TensorIndex]>,
        value: impl Into<TensorOrScalar<'a>>,
    ) -> Result<()> {
        const NAME: &str = "set";
        let (index, value) = (index.as_ref(), value.into());
        if !self.records(value) {
            return self.write_at(NAME, index, value);
        }
        // A gradient cannot be recorded through a view that is written: the new values are written to the whole tensor.
        self.copy_(&self.put_at(NAME, index, value, ScatterMode::Replace)?)
    }

    /// A copy in which values are written at an index, as [`set`](Self::set) writes them, or, if `accumulate`, added, repeated indices
    /// included; as `torch.index_put`.
    ///
    /// ```
    /// # use rustorch_tensor::{Tensor, i};
    /// let (x, at) = (Tensor::new([1i32, 2, 3])?, Tensor::new([0i64, 2, 0])?);
    /// assert_eq!(x.index_put(i![&at], 5, true)?.to_vec::<i32>()?, [11, 2, 8]);
    /// assert_eq!(x.index_put(i![1..], 0, false)?.to_vec::<i32>()?, [1, 0, 0]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`i`](Self::i); if the values do not broadcast or a scalar does not fit the dtype.
    pub fn index_put<'a>(
        &self,
        index: impl AsRef<[TensorIndex]>,
        value: impl Into<TensorOrScalar<'a>>,
        accumulate: bool,
    ) -> Result<Tensor> {
        const NAME: &str = "index_put";
        let (index, value) = (index.as_ref(), value.into());
        let mode = if accumulate { ScatterMode::Add } else { ScatterMode::Replace };
        if self.records(value) {
            return self.put_at(NAME, index, value, mode);
        }
        let out = self.copy()?;
        match mode {
            ScatterMode::Replace => out.write_at(NAME, index, value)?,
            ScatterMode::Add => resolve(NAME, &out, index)?.write(value, mode)?,
        }
        Ok(out)
    }

    /// A copy in which the elements of `source` are written, or added if `accumulate`, at indices of the flattened tensor, as `torch.put`:
    /// the counterpart of [`take`](Self::take). Indices below 0 count from the end; where one repeats, the last element stays.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let x = Tensor::new([[1i32, 2], [3, 4]])?;
    /// let y = x.put(&Tensor::new([1i64, -1])?, &Tensor::new([8i32, 9])?, false)?;
    /// assert_eq!(y.to_vec::<i32>()?, [1, 8, 3, 9]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the source has another dtype or not as many elements as there are indices, or an index is out of range or no integer.
    pub fn put(&self, index: &Tensor, source: &Tensor, accumulate: bool) -> Result<Tensor> {
        const NAME: &str = "put";
        if source.dtype() != self.dtype() {
            let why = "the source must have the tensor's dtype; convert it with to_dtype";
            return Err(Error::dtype(NAME, why, [self.dtype(), source.dtype()]));
        }
        if index.numel() != source.numel() {
            let why = "needs as many indices as elements of the source";
            return Err(Error::shape(NAME, why, [index.shape(), source.shape()]));
        }
        let places = index.counted_from_start(NAME, self.numel())?.flatten(0, -1)?;
        let mode = if accumulate { ScatterMode::Add } else { ScatterMode::Replace };
        crate::index::named(NAME, self.put_flat(&places, &source.flatten(0, -1)?, mode))
    }

    /// Whether writing a value here is recorded for a gradient.
    fn records(&self, value: TensorOrScalar<'_>) -> bool {
        let has_gradient = self.dtype().is_float() || self.dtype().is_complex();
        let of_value = matches!(value, TensorOrScalar::Tensor(value) if value.requires_grad());
        is_grad_enabled() && has_gradient && (self.requires_grad() || of_value)
    }

    /// Writes values at an index, where nothing is recorded.
    #[cfg_attr(debug_assertions, track_caller)]
    fn write_at(&self, op: &'static str, index: &[TensorIndex], value: TensorOrScalar<'_>) -> Result<()> {
        if let (Some(mask), TensorOrScalar::Scalar(_)) = (self.only_mask(index)?, value) {
            let value = value.to_tensor(op, self.dtype(), self)?;
            return run_into(&Op::Where(Where), &[&mask, &value, self], self);
        }
        resolve(op, self, index)?.write(value, ScatterMode::Replace)
    }

    /// The mask of an index that has nothing else, broadcast to this tensor: a scalar is written by it without a list of the places.
    fn only_mask(&self, index: &[TensorIndex]) -> Result<Option<Tensor>> {
        let [TensorIndex::Tensor(mask)] = index else { return Ok(None) };
        let covers = mask.ndim() > 0 && self.dims().starts_with(mask.dims());
        if mask.dtype() != DType::Bool || !covers {
            return Ok(None);
        }
        let dims = mask.dims().iter().copied().chain((mask.ndim()..self.ndim()).map(|_| 1)).collect::<Dims>();
        mask.reshape_to(Shape::new(dims)?)?.broadcast_to(self.shape()).map(Some)
    }

    /// A copy with values written, or added, at an index: in the flattened tensor, whose places are indexed in its stead.
    fn put_at(
        &self,
        op: &'static str,
        index: &[TensorIndex],
        value: TensorOrScalar<'_>,
        mode: ScatterMode,
    ) -> Result<Tensor> {
        let places = {
            let _beside = DeviceGuard::beside(self.storage());
            Tensor::arange_with(0, self.numel() as i64, 1, DType::I64)?.reshape_to(self.shape().clone())?
        };
        let places = resolve(op, &places, index)?.read()?;
        let values = values_at(op, self, value, places.shape())?;
        self.put_flat(&places.flatten(0, -1)?, &values.flatten(0, -1)?, mode)
    }

    /// A copy with as many elements, in a vector, as there are places written or added there in the flattened tensor.
    fn put_flat(&self, places: &Tensor, source: &Tensor, mode: ScatterMode) -> Result<Tensor> {
        let flat = self.flatten(0, -1)?;
        let put = crate::dispatch::run(&Op::Scatter(Scatter { axis: 0, mode }), &[&flat, places, source])?;
        put.reshape_to(self.shape().clone())
    }
}

/// Values of the dtype of a tensor into which they are written, broadcast to the shape of the places. Leading dimensions of length 1 do
/// not count, as in NumPy.
fn values_at(op: &'static str, x: &Tensor, value: TensorOrScalar<'_>, places: &Shape) -> Result<Tensor> {
    let values = value.to_tensor(op, x.dtype(), x)?;
    let extra = values.ndim().saturating_sub(places.ndim());
    let refused = || {
        let why = "the values do not broadcast to the shape at the index";
        Error::shape(op, why, [values.shape(), places])
    };
    if values.dims()[..extra].iter().any(|&len| len != 1) {
        return Err(refused());
    }
    let dims: Dims = values.dims()[extra..].into();
    values.reshape_to(Shape::new(dims)?)?.broadcast_to(places).map_err(|_| refused())
}

impl Resolved {
    /// The elements at the index.
    fn read(self) -> Result<Tensor> {
        let Some(gather) = self.gather()? else { return Ok(self.view) };
        let rows = gather.merged.index_select(gather.axis as isize, &gather.index);
        let rows = rows.map_err(|error| self.out_of_range(error))?;
        rows.reshape_to(self.shape.clone())
    }

    /// Writes, or adds, values at the index, where nothing is recorded.
    #[cfg_attr(debug_assertions, track_caller)]
    fn write(self, value: TensorOrScalar<'_>, mode: ScatterMode) -> Result<()> {
        let values = values_at(self.op, &self.view, value, &self.shape)?;
        let Some(gather) = self.gather()? else {
            return match mode {
                ScatterMode::Replace => self.view.copy_(&values),
                ScatterMode::Add => self.view.copy_(&self.view.add(&values)?),
            };
        };
        if gather.index.numel() == 0 {
            return Ok(());
        }
        let mut dims: Dims = gather.merged.dims().into();
        dims[gather.axis] = gather.index.numel();
        let values = values.reshape_to(Shape::new(dims)?)?;
        let written = gather.merged.index_scatter_(mode, gather.axis as isize, &gather.index, &values);
        written.map_err(|error| self.out_of_range(error))?;
        if gather.is_view {
            return Ok(());
        }
        gather.ordered.copy_(&gather.merged.reshape_to(gather.ordered.shape().clone())?)
    }
}
