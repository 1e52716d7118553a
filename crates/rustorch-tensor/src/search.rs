//! Search in sorted tensors, and distinct elements.

use crate::Tensor;
use crate::binary::promote;
use rustorch_core::{DType, Error, PromotionCategory, Result};
use rustorch_runtime::DeviceGuard;

impl Tensor {
    /// Where values would have to be inserted in this sorted vector so that it stays sorted: `I64` of the values' shape. Among equals,
    /// before the first or, if `right`, behind the last. Of more dimensions, the leading ones are those of the values, and each
    /// row is searched for its own. NaN counts as larger than everything; of a sequence that is not sorted the result means nothing.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let x = Tensor::new([1i32, 3, 3, 7])?;
    /// let values = Tensor::new([3i32, 9])?;
    /// assert_eq!(x.searchsorted(&values, false)?.to_vec::<i64>()?, [1, 4]);
    /// assert_eq!(x.searchsorted(&values, true)?.to_vec::<i64>()?, [3, 4]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If leading dimensions differ, this is a scalar, or elements have no order.
    pub fn searchsorted(&self, values: &Tensor, right: bool) -> Result<Tensor> {
        self.search("searchsorted", values, right)
    }

    /// For each element, the number of the bucket between sorted `boundaries` in which it lies: their
    /// [`searchsorted`](Self::searchsorted).
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let x = Tensor::new([-1.0f32, 0.0, 0.5])?;
    /// assert_eq!(x.bucketize(&Tensor::new([0.0f32, 1.0])?, false)?.to_vec::<i64>()?, [0, 0, 1]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the boundaries are no vector, or elements have no order.
    pub fn bucketize(&self, boundaries: &Tensor, right: bool) -> Result<Tensor> {
        if boundaries.ndim() != 1 {
            return Err(Error::shape("bucketize", "the boundaries must be a vector", [boundaries.shape()]));
        }
        boundaries.search("bucketize", self, right)
    }

    fn search(&self, name: &'static str, values: &Tensor, right: bool) -> Result<Tensor> {
        let sides = [self, values].map(|x| (x.dtype(), PromotionCategory::Dimensioned));
        let is_ordered = |x: &Tensor| x.dtype().is_int() || x.dtype().is_float();
        if !is_ordered(self) || !is_ordered(values) {
            let why = "takes integers and floats; convert with to_dtype";
            return Err(Error::dtype(name, why, [self.dtype(), values.dtype()]));
        }
        let dtype = promote(name, &sides)?;
        let shapes = [self.shape(), values.shape()];
        let Some((_, lead)) = self.dims().split_last() else {
            return Err(Error::shape(name, "a scalar is no sequence", shapes));
        };
        if lead.is_empty() {
            let flat = values.to_dtype(dtype)?.flatten(0, -1)?;
            let places = self.to_dtype(dtype)?.insertion_points(&flat, right)?;
            return places.reshape_to(values.shape().clone());
        }
        if values.ndim() != self.ndim() || values.dims()[..lead.len()] != *lead {
            let why = "the leading dimensions must be those of the values";
            return Err(Error::shape(name, why, shapes));
        }
        self.to_dtype(dtype)?.insertion_points(&values.to_dtype(dtype)?, right)
    }

    /// How many elements of sorted rows come before each value, by halves: of equal leading dimensions.
    pub(crate) fn insertion_points(&self, values: &Tensor, right: bool) -> Result<Tensor> {
        let (sorted, values) = (self.detach(), values.detach());
        let len = self.dims().last().copied().unwrap_or(0);
        let _beside = DeviceGuard::beside(self.storage());
        let mut places = Tensor::zeros(values.shape(), DType::I64)?;
        let is_nan = if self.dtype().is_float() { Some(values.isnan()?) } else { None };
        let mut step = if len == 0 { 0 } else { 1usize << len.ilog2() };
        while step > 0 {
            let next = places.add(step as i64)?;
            let element = sorted.gather(-1, &next.clamp_max(len as i64)?.sub(1)?)?;
            let mut is_before = if right { element.le(&values)? } else { element.lt(&values)? };
            if let Some(is_nan) = &is_nan {
                is_before = is_before.logical_or(is_nan)?;
            }
            places = next.le(len as i64)?.logical_and(&is_before)?.where_cond(&next, &places)?;
            step /= 2;
        }
        Ok(places)
    }

    /// Whether each element is among those of `test`, as `Bool` of this tensor's shape. NaN is among none.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let x = Tensor::new([1i32, 2, 5])?.isin(&Tensor::new([5i32, 1])?)?;
    /// assert_eq!(x.to_vec::<bool>()?, [true, false, true]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// Of complex numbers and booleans, which have no order here.
    pub fn isin(&self, test: &Tensor) -> Result<Tensor> {
        let is_ordered = |x: &Tensor| x.dtype().is_int() || x.dtype().is_float();
        if !is_ordered(self) || !is_ordered(test) {
            let why = "takes integers and floats; convert with to_dtype";
            return Err(Error::dtype("isin", why, [self.dtype(), test.dtype()]));
        }
        let dtype = promote("isin", &[self, test].map(|x| (x.dtype(), PromotionCategory::Dimensioned)))?;
        let values = self.detach().to_dtype(dtype)?;
        if test.numel() == 0 {
            return Tensor::zeros(self.shape(), (DType::Bool, self.device()));
        }
        let (sorted, _) = test.detach().to_dtype(dtype)?.flatten(0, -1)?.sort(0, false)?;
        let flat = values.flatten(0, -1)?;
        let places = sorted.insertion_points(&flat, false)?.clamp_max(test.numel() as i64 - 1)?;
        sorted.gather(0, &places)?.eq(&flat)?.reshape_to(self.shape().clone())
    }

    /// The distinct elements in ascending order; for each element, which of them it is (`I64`, of this tensor's shape); and how often
    /// each is there (`I64`). NaNs differ from each other. How many there are depends on the values, so a mask is read back to the
    /// CPU. The gradient of an element goes to the first of its equals.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let (values, inverse, counts) = Tensor::new([3i32, 1, 3])?.unique()?;
    /// assert_eq!((values.to_vec::<i32>()?, counts.to_vec::<i64>()?), (vec![1, 3], vec![1, 2]));
    /// assert_eq!(inverse.to_vec::<i64>()?, [1, 0, 1]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// Of complex numbers; in a captured function.
    pub fn unique(&self) -> Result<(Tensor, Tensor, Tensor)> {
        const NAME: &str = "unique";
        if self.dtype().is_complex() || self.dtype().is_quant() {
            return Err(Error::dtype(NAME, "takes real numbers", [self.dtype()]));
        }
        self.expect_value(NAME)?;
        let _beside = DeviceGuard::beside(self.storage());
        let flat = self.flatten(0, -1)?;
        let count = flat.numel();
        let (sorted, order) = flat.sort(0, false)?;
        if count == 0 {
            let none = Tensor::zeros([0], DType::I64)?;
            return Ok((sorted, none.reshape_to(self.shape().clone())?, none));
        }
        let differs = sorted.narrow(0, 1, count - 1)?.ne(&sorted.narrow(0, 0, count - 1)?)?;
        let is_first = Tensor::cat(&[Tensor::ones([1], DType::Bool)?, differs], 0)?;
        let inverse = order.scatter(0, &order, &is_first.cumsum(0)?.sub(1)?)?;
        let starts = is_first.nonzero()?.flatten(0, -1)?;
        let counts = starts.diff(1, 0, None, Some(&Tensor::new([count as i64])?))?;
        Ok((sorted.index_select(0, &starts)?, inverse.reshape_to(self.shape().clone())?, counts))
    }
}
