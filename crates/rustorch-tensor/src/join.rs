//! cat, stack, repeat, pad, flip, diag.

use crate::Tensor;
use crate::binary::promote;
use crate::dispatch::{run, run_many};
use rustorch_core::{Concat, Dims, Error, Op, Pad, Result, Scalar, Shape};
use smallvec::SmallVec;
use std::borrow::{Borrow, Cow};

impl Tensor {
    /// Tensors joined along a dimension, in the dtype to which they promote. As in PyTorch, empty vectors are left out.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let (a, b) = (Tensor::new([[1i32, 2]])?, Tensor::new([[3i32, 4]])?);
    /// assert_eq!(Tensor::cat(&[&a, &b], 1)?.to_vec::<i32>()?, [1, 2, 3, 4]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If there are none, or they differ in another dimension.
    pub fn cat<T: Borrow<Tensor>>(tensors: &[T], dim: isize) -> Result<Tensor> {
        let Some(first) = tensors.first() else {
            return Err(Error::argument("cat", "needs one tensor at least"));
        };
        let categories: Vec<_> =
            tensors.iter().map(|x| (x.borrow().dtype(), x.borrow().category())).collect();
        let dtype = promote("cat", &categories)?;
        let mut parts: SmallVec<[Cow<'_, Tensor>; 8]> = SmallVec::new();
        for x in tensors.iter().map(Borrow::borrow).filter(|x| x.dims() != [0]) {
            parts.push(if x.dtype() == dtype { Cow::Borrowed(x) } else { Cow::Owned(x.to_dtype(dtype)?) });
        }
        let Some(part) = parts.first() else {
            return first.borrow().to_dtype(dtype)?.copy();
        };
        let axis = part.dimension("cat", dim)?;
        let args: SmallVec<[&Tensor; 8]> = parts.iter().map(|x| &**x).collect();
        run_many(&Op::Concat(Concat { axis }), &args)
    }

    /// Tensors of one shape joined along a new dimension.
    ///
    /// # Errors
    /// If there are none, or their shapes differ.
    pub fn stack<T: Borrow<Tensor>>(tensors: &[T], dim: isize) -> Result<Tensor> {
        let Some(first) = tensors.first() else {
            return Err(Error::argument("stack", "needs one tensor at least"));
        };
        let first = first.borrow();
        if let Some(other) = tensors.iter().map(Borrow::borrow).find(|x| x.shape() != first.shape()) {
            return Err(Error::shape("stack", "the shapes differ", [first.shape(), other.shape()]));
        }
        let parts: Vec<Tensor> = tensors.iter().map(|x| x.borrow().unsqueeze(dim)).collect::<Result<_>>()?;
        let axis = rustorch_core::resolve_axis("stack", dim, first.ndim() + 1)?;
        Tensor::cat(&parts, axis as isize)
    }

    /// With a border of one scalar: pairs of widths before and after, for the last dimension first, as
    /// `torch.nn.functional.pad`. Negative widths crop.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let x = Tensor::new([[1i32, 2]])?.pad([1, 0, 0, 1], 0)?;
    /// assert_eq!((x.dims(), x.to_vec::<i32>()?), (&[2, 3][..], vec![0, 1, 2, 0, 0, 0]));
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the widths are not pairs, more than the dimensions, or crop more than there is.
    pub fn pad(&self, widths: impl AsRef<[isize]>, value: impl Into<Scalar>) -> Result<Tensor> {
        let widths = widths.as_ref();
        if !widths.len().is_multiple_of(2) || widths.len() / 2 > self.ndim() {
            return Err(Error::shape(
                "pad",
                format!(
                    "needs a pair of widths for each of at most {} dimensions, got {widths:?}",
                    self.ndim()
                ),
                [self.shape()],
            ));
        }
        let value = value.into();
        crate::binary::expect_fits("pad", value, self.dtype())?;
        let mut x = self.clone();
        let mut added = SmallVec::from_elem((0usize, 0usize), self.ndim());
        for (i, pair) in widths.chunks_exact(2).enumerate() {
            let axis = self.ndim() - 1 - i;
            let len = self.dims()[axis];
            let cut = |width: isize| width.min(0).unsigned_abs();
            added[axis] = (pair[0].max(0) as usize, pair[1].max(0) as usize);
            let Some(kept) = len.checked_sub(cut(pair[0])).and_then(|n| n.checked_sub(cut(pair[1]))) else {
                return Err(Error::shape(
                    "pad",
                    format!("cannot crop {} and {} elements of dimension {axis}", cut(pair[0]), cut(pair[1])),
                    [self.shape()],
                ));
            };
            if kept != len {
                x = x.narrow(axis as isize, cut(pair[0]), kept)?;
            }
        }
        run(&Op::Pad(Pad { widths: added, value }), &[&x])
    }

    /// The tensor laid beside itself, so many times along each dimension; more numbers than dimensions add dimensions in
    /// front.
    ///
    /// # Errors
    /// If there are fewer numbers than dimensions.
    pub fn repeat(&self, repeats: impl AsRef<[usize]>) -> Result<Tensor> {
        let repeats = repeats.as_ref();
        let Some(extra) = repeats.len().checked_sub(self.ndim()) else {
            return Err(Error::shape(
                "repeat",
                format!("{repeats:?} has fewer numbers than there are dimensions"),
                [self.shape()],
            ));
        };
        // Every dimension becomes a pair: repetitions and itself.
        let (mut once, mut spread, mut merged) = (Dims::new(), Dims::new(), Dims::new());
        for (i, &times) in repeats.iter().enumerate() {
            let len = if i < extra { 1 } else { self.dims()[i - extra] };
            once.extend([1, len]);
            spread.extend([times, len]);
            merged.push(times.checked_mul(len).ok_or_else(|| {
                Error::argument("repeat", format!("{times} times {len} elements are too many"))
            })?);
        }
        let wide = self.reshape_to(Shape::new(once)?)?.broadcast_to(spread)?;
        wide.copy()?.reshape_to(Shape::new(merged)?)
    }

    /// As [`repeat`](Self::repeat), but fewer numbers than dimensions are for the last ones, as in `torch.tile`.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let x = Tensor::new([[1i32, 2], [3, 4]])?;
    /// assert_eq!(x.tile([2])?.to_vec::<i32>()?, [1, 2, 1, 2, 3, 4, 3, 4]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the result has more elements than can be addressed.
    pub fn tile(&self, dims: impl AsRef<[usize]>) -> Result<Tensor> {
        let dims = dims.as_ref();
        let mut repeats = Dims::from_elem(1, self.ndim().saturating_sub(dims.len()));
        repeats.extend_from_slice(dims);
        self.repeat(&repeats)
    }

    /// Each slice along a dimension, so many times in a row, as `torch.repeat_interleave`.
    pub fn repeat_interleave(&self, times: usize, dim: isize) -> Result<Tensor> {
        let axis = self.dimension("repeat_interleave", dim)?;
        let wide = self.unsqueeze(axis as isize + 1)?;
        let mut dims: Dims = wide.dims().into();
        dims[axis + 1] = times;
        let spread = wide.broadcast_to(dims)?;
        spread.copy()?.flatten(axis as isize, axis as isize + 1)
    }

    /// In reverse order along dimensions.
    pub fn flip(&self, dims: impl AsRef<[isize]>) -> Result<Tensor> {
        let mut flipped = None;
        for &dim in dims.as_ref() {
            let last = self.dims()[self.dimension("flip", dim)?] as i64 - 1;
            let x = flipped.as_ref().unwrap_or(self);
            flipped = Some(x.index_select(dim, &Tensor::arange(last, -1, -1)?)?);
        }
        flipped.map_or_else(|| self.copy(), Ok)
    }

    /// Turned by 90°, `times` times, in the plane of two dimensions: from the first towards the second, or back if negative.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let x = Tensor::new([[1i32, 2], [3, 4]])?;
    /// assert_eq!(x.rot90(1, [0, 1])?.to_vec::<i32>()?, [2, 4, 1, 3]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the dimensions are one, or not there.
    pub fn rot90(&self, times: i64, dims: [isize; 2]) -> Result<Tensor> {
        let [a, b] = [self.dimension("rot90", dims[0])?, self.dimension("rot90", dims[1])?];
        if a == b {
            return Err(Error::argument("rot90", format!("{dims:?} is one dimension; a plane has two")));
        }
        match times.rem_euclid(4) {
            0 => self.copy(),
            1 => self.flip([dims[1]])?.transpose(dims[0], dims[1]),
            2 => self.flip(dims),
            _ => self.flip([dims[0]])?.transpose(dims[0], dims[1]),
        }
    }

    /// The square matrix with a vector on a diagonal and zeros elsewhere; or, of a matrix, a copy of that [diagonal](Self::diagonal).
    /// `offset` above 0 lies above the main diagonal.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let x = Tensor::new([1i32, 2])?.diag(1)?;
    /// assert_eq!(x.to_vec::<i32>()?, [0, 1, 0, 0, 0, 2, 0, 0, 0]);
    /// assert_eq!(x.diag(1)?.to_vec::<i32>()?, [1, 2]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If this is neither a vector nor a matrix, or the result has more elements than can be addressed.
    pub fn diag(&self, offset: isize) -> Result<Tensor> {
        match self.ndim() {
            1 => self.diag_embed(offset),
            2 => self.diagonal(offset, 0, 1)?.copy(),
            _ => Err(Error::shape("diag", "takes vectors and matrices", [self.shape()])),
        }
    }

    /// Shifted along dimensions; what leaves at one end comes in at the other.
    ///
    /// # Errors
    /// If there are not as many shifts as dimensions.
    pub fn roll(&self, shifts: &[isize], dims: &[isize]) -> Result<Tensor> {
        if shifts.len() != dims.len() {
            return Err(Error::argument("roll", format!("{shifts:?} and {dims:?} differ in length")));
        }
        let mut rolled = None;
        for (&shift, &dim) in shifts.iter().zip(dims) {
            let len = self.dims()[self.dimension("roll", dim)?];
            if len == 0 {
                continue;
            }
            let split = len - shift.rem_euclid(len as isize) as usize;
            let x = rolled.as_ref().unwrap_or(self);
            rolled = Some(Tensor::cat(&[x.narrow(dim, split, len - split)?, x.narrow(dim, 0, split)?], dim)?);
        }
        rolled.map_or_else(|| self.copy(), Ok)
    }
}
