//! Order statistics, histograms and covariances.

use crate::binary::DEFAULT_FLOAT;
use crate::{Tensor, TensorOrScalar, fuse};
use rustorch_core::{DType, Error, Result};
use rustorch_runtime::DeviceGuard;

/// So many elements [`Tensor::bincount`] counts at once on other devices than the CPU, where ones to add take memory.
const COUNTED: usize = 1 << 15;
/// So many elements [`Tensor::histc`] counts at once on the CPU: their bins stay in a cache.
const BINNED: usize = 1 << 18;

/// What a [quantile](Tensor::quantile) between two elements is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QuantileInterpolation {
    /// Between them, by its place.
    #[default]
    Linear,
    /// The lower.
    Lower,
    /// The higher.
    Higher,
    /// Their mean.
    Midpoint,
    /// The nearer; halfway, the one at an even place.
    Nearest,
}

impl Tensor {
    /// The median along a dimension, and where it is (`I64`): of an even number of elements the lower of both in the middle. NaN if there
    /// is one, and where the first is.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let (values, indices) = Tensor::new([[5i32, 1, 3], [2, 9, 4]])?.median(1, false)?;
    /// assert_eq!((values.to_vec::<i32>()?, indices.to_vec::<i64>()?), (vec![3, 4], vec![2, 2]));
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// Over no elements; of booleans and complex numbers.
    pub fn median(&self, dim: isize, keepdim: bool) -> Result<(Tensor, Tensor)> {
        const NAME: &str = "median";
        if !self.dtype().is_int() && !self.dtype().is_float() {
            return Err(Error::dtype(NAME, "takes integers and floats", [self.dtype()]));
        }
        self.selected(NAME, dim, keepdim, |x, len| {
            let (sorted, order) = x.sort(-1, false)?;
            let middle = (len as i64 - 1) / 2;
            if !x.dtype().is_float() {
                return order.narrow(-1, middle as usize, 1);
            }
            // NaNs are the last.
            let regular = x.isnan()?.logical_not()?.sum(-1, true)?;
            let has_nan = sorted.narrow(-1, len - 1, 1)?.isnan()?;
            order.gather(-1, &has_nan.where_cond(&regular, middle)?)
        })
    }

    /// The median of all elements, a 0-d tensor; see [`median`](Self::median). Of no floats, NaN. Equals share the gradient.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// assert_eq!(Tensor::new([[4.0f32, 1.0], [2.0, 3.0]])?.median_all()?.item()?.to_f64(), 2.0);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// Of no integers; of booleans and complex numbers.
    pub fn median_all(&self) -> Result<Tensor> {
        if self.numel() == 0 && self.dtype().is_float() {
            let _beside = DeviceGuard::beside(self.storage());
            return Tensor::full((), f64::NAN, self.dtype());
        }
        let flat = self.flatten(0, -1)?;
        if !self.requires_grad() {
            return Ok(flat.median(0, false)?.0);
        }
        // The largest of those that equal it.
        let median = flat.detach().median(0, false)?.0;
        let differs = flat.ne(&median)?.logical_and(&median.isnan()?.logical_not()?)?;
        flat.masked_fill(&differs, f64::NEG_INFINITY)?.max_all()
    }

    /// The most frequent element along a dimension, of several the smallest, and where it is (`I64`): the last of its equals. NaNs differ
    /// from each other.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let (values, indices) = Tensor::new([2i32, 5, 2, 5, 9])?.mode(0, false)?;
    /// assert_eq!((values.item()?.to_i64(), indices.item()?.to_i64()), (2, 2));
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// Over no elements; of complex numbers.
    pub fn mode(&self, dim: isize, keepdim: bool) -> Result<(Tensor, Tensor)> {
        const NAME: &str = "mode";
        if self.dtype().is_complex() || self.dtype().is_quant() {
            return Err(Error::dtype(NAME, "takes real numbers", [self.dtype()]));
        }
        self.selected(NAME, dim, keepdim, |x, len| {
            let (sorted, order) = x.sort(-1, false)?;
            // How many equals stand before each element: most before the last of the longest run, of which the first counts.
            let _beside = DeviceGuard::beside(x.storage());
            let place = Tensor::arange(0, len as i64, 1)?;
            let is_next = sorted.narrow(-1, 1, len - 1)?.ne(&sorted.narrow(-1, 0, len - 1)?)?;
            let starts = is_next.where_cond(&place.narrow(0, 1, len - 1)?, 0)?.cummax(-1)?.0;
            let before = place.narrow(0, 1, len - 1)?.sub(&starts)?.pad([1, 0], 0)?;
            order.gather(-1, &before.argmax(-1, true)?)
        })
    }

    /// One element along a dimension, and its index, which a function finds in the last dimension and keeps that.
    fn selected(
        &self,
        name: &'static str,
        dim: isize,
        keepdim: bool,
        index: impl FnOnce(&Tensor, usize) -> Result<Tensor>,
    ) -> Result<(Tensor, Tensor)> {
        let axis = self.axis(name, dim)?;
        if self.ndim() == 0 {
            let _beside = DeviceGuard::beside(self.storage());
            return Ok((self.copy()?, Tensor::zeros((), DType::I64)?));
        }
        let (dim, len) = (axis as isize, self.dims()[axis]);
        if len == 0 {
            return Err(Error::shape(name, format!("dimension {axis} has no elements"), [self.shape()]));
        }
        let last = self.detach().movedim([dim], [-1])?.contiguous()?;
        let indices = index(&last, len)?.movedim([-1], [dim])?.contiguous()?;
        let values = self.gather(dim, &indices)?;
        if keepdim { Ok((values, indices)) } else { Ok((values.squeeze(dim)?, indices.squeeze(dim)?)) }
    }

    /// Quantiles along a dimension, or of all elements: for `q` in 0 to 1, the element at the place q·(n − 1) of the sorted ones, or what
    /// the interpolation makes of its neighbours. A vector `q` gives a first dimension of its length. NaN if there is one.
    ///
    /// ```
    /// # use rustorch_tensor::{QuantileInterpolation, Tensor};
    /// let x = Tensor::new([0.0f32, 10.0, 20.0, 30.0])?;
    /// let q = Tensor::new([0.5f32, 1.0])?;
    /// assert_eq!(x.quantile(&q, None, false, QuantileInterpolation::Linear)?.to_vec::<f32>()?, [15.0, 30.0]);
    /// assert_eq!(x.quantile(0.5, Some(0), false, QuantileInterpolation::Lower)?.item()?.to_f64(), 10.0);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the dtype is neither `F32` nor `F64`, `q` has another or two dimensions, is outside 0 to 1, or there are no elements.
    pub fn quantile<'a>(
        &'a self,
        q: impl Into<TensorOrScalar<'a>>,
        dim: Option<isize>,
        keepdim: bool,
        interpolation: QuantileInterpolation,
    ) -> Result<Tensor> {
        const NAME: &str = "quantile";
        let dtype = self.dtype();
        let q = match q.into() {
            TensorOrScalar::Tensor(q) if q.dtype() != dtype => {
                return Err(Error::dtype(NAME, "q must have the tensor's dtype", [dtype, q.dtype()]));
            }
            q if matches!(dtype, DType::F32 | DType::F64) => q.to_tensor(NAME, dtype, self)?,
            _ => return Err(Error::dtype(NAME, "takes f32 and f64; convert with to_dtype", [dtype])),
        };
        if q.ndim() > 1 {
            return Err(Error::shape(NAME, "q must be a scalar or a vector", [q.shape()]));
        }
        let within = q.detach().ge(0)?.logical_and(&q.detach().le(1)?)?;
        within.require(NAME, "q must be between 0 and 1")?;
        let axis = dim.map(|dim| self.axis(NAME, dim)).transpose()?;
        let x = match axis {
            Some(axis) if self.ndim() > 0 => self.movedim([axis as isize], [-1])?,
            _ => self.flatten(0, -1)?,
        };
        let Some(&len) = x.dims().last().filter(|_| self.numel() > 0) else {
            return Err(Error::shape(NAME, "there are no elements", [self.shape()]));
        };
        let sorted = x.sort(-1, false)?.0;
        let has_nan = sorted.detach().narrow(-1, len - 1, 1)?.isnan()?;
        // In F32, places of large tensors would be rounded.
        let places = q.flatten(0, -1)?.to_dtype(DType::F64)?.mul((len - 1) as f64)?;
        let places = has_nan.where_cond((len - 1) as f64, &places)?;
        let at = |places: &Tensor| sorted.gather(-1, &places.detach().to_dtype(DType::I64)?);
        let (below, above) = (places.floor()?, places.ceil()?);
        let between = |weight: TensorOrScalar<'_>| at(&below)?.lerp(&at(&above)?, weight);
        let found = match interpolation {
            QuantileInterpolation::Lower => at(&below)?,
            QuantileInterpolation::Higher => at(&above)?,
            QuantileInterpolation::Nearest => at(&places.round()?)?,
            QuantileInterpolation::Midpoint => between(0.5.into())?,
            QuantileInterpolation::Linear => between((&places.sub(&below)?.to_dtype(dtype)?).into())?,
        };
        let mut found = found.movedim([-1], [0])?;
        match axis {
            Some(axis) if keepdim && self.ndim() > 0 => found = found.unsqueeze(axis as isize + 1)?,
            None if keepdim => {
                for _ in 0..self.ndim() {
                    found = found.unsqueeze(-1)?;
                }
            }
            _ => {}
        }
        if q.ndim() == 0 { found.squeeze(0) } else { Ok(found) }
    }

    /// How often each of the integers 0, 1, … is in a vector: `I64`, as long as the largest asks for, and at least `minlength`. With
    /// weights, their sums: `F32` of `F32`, else `F64`. The length depends on the values, which are read back to the CPU.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let x = Tensor::new([1i64, 3, 1])?;
    /// assert_eq!(x.bincount(None, 0)?.to_vec::<i64>()?, [0, 2, 0, 1]);
    /// let weights = Tensor::new([0.5f32, 1.0, 2.0])?;
    /// assert_eq!(x.bincount(Some(&weights), 5)?.to_vec::<f32>()?, [0.0, 2.5, 0.0, 1.0, 0.0]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If this is no vector of integers, one is negative, or the weights have another length; in a captured function.
    pub fn bincount(&self, weights: Option<&Tensor>, minlength: usize) -> Result<Tensor> {
        const NAME: &str = "bincount";
        if self.ndim() != 1 {
            return Err(Error::shape(NAME, "needs a vector; use flatten", [self.shape()]));
        }
        if let Some(weights) = weights.filter(|weights| weights.shape() != self.shape()) {
            let why = "there must be one weight for each element";
            return Err(Error::shape(NAME, why, [self.shape(), weights.shape()]));
        }
        let index = self.to_index(NAME)?;
        self.expect_value(NAME)?;
        let _beside = DeviceGuard::beside(self.storage());
        if self.numel() == 0 {
            return Tensor::zeros([minlength], DType::I64);
        }
        let negative = || -> Result<Error> {
            let least = index.min_all()?.item()?.to_i64();
            Ok(Error::argument(NAME, format!("cannot count {least}, which is negative")))
        };
        let Ok(most) = usize::try_from(index.max_all()?.item()?.to_i64()) else { return Err(negative()?) };
        // On the CPU counting finds negative integers, before it writes.
        let is_found = self.device().is_cpu() && most <= self.numel();
        if !is_found && index.min_all()?.item()?.to_i64() < 0 {
            return Err(negative()?);
        }
        let counted = self.count(&index, weights, minlength.max(most.saturating_add(1)));
        match counted {
            Err(Error::Index { .. }) => Err(negative()?),
            counted => counted,
        }
    }

    /// How often each integer below a number is in the index of this vector, or the sums of their weights.
    fn count(&self, index: &Tensor, weights: Option<&Tensor>, bins: usize) -> Result<Tensor> {
        if let Some(weights) = weights {
            let dtype = if weights.dtype() == DType::F32 { DType::F32 } else { DType::F64 };
            return Tensor::zeros([bins], dtype)?.scatter_add(0, index, &weights.to_dtype(dtype)?);
        }
        let (counts, ones) = (Tensor::zeros([bins], DType::I64)?, Tensor::ones([1], DType::I64)?);
        if self.device().is_cpu() {
            counts.scatter_add_(0, index, &ones.expand_as(index)?)?;
            return Ok(counts);
        }
        let chunk = COUNTED.min(self.numel());
        let ones = ones.expand([chunk as isize])?.contiguous()?;
        for part in index.split(chunk, 0)? {
            counts.scatter_add_(0, &part, &ones.narrow(0, 0, part.numel())?)?;
        }
        Ok(counts)
    }

    /// How many elements lie in each of so many bins of one width from `min` to `max`, in the tensor's dtype. The last bin has `max`, too;
    /// NaN and what lies outside is not counted. If both are equal, the range is that of the elements.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let x = Tensor::new([0.0f32, 0.5, 1.0, 2.0, 9.0])?;
    /// assert_eq!(x.histc(2, 0.0, 2.0)?.to_vec::<f32>()?, [2.0, 2.0]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the dtype is no float, there are no bins, or the range is not finite or ends before it starts.
    pub fn histc(&self, bins: usize, min: f64, max: f64) -> Result<Tensor> {
        const NAME: &str = "histc";
        let dtype = self.dtype();
        if !dtype.is_float() {
            return Err(Error::dtype(NAME, "takes floats", [dtype]));
        }
        if bins == 0 || bins > i64::MAX as usize {
            return Err(Error::argument(NAME, format!("{bins} is no number of bins")));
        }
        if !min.is_finite() || !max.is_finite() || min > max {
            return Err(Error::argument(NAME, format!("{min} to {max} is no finite range")));
        }
        let x = self.detach().flatten(0, -1)?;
        let _beside = DeviceGuard::beside(self.storage());
        if self.numel() == 0 {
            return Tensor::zeros([bins], dtype);
        }
        let range = if min == max {
            let (least, most) = (x.min_all()?, x.max_all()?);
            let is_finite = least.isfinite()?.logical_and(&most.isfinite()?)?;
            is_finite.require(NAME, "the elements have no finite range")?;
            // A range without a width gets one on each side.
            let margin = least.eq(&most)?.to_dtype(x.dtype())?;
            [least.sub(&margin)?, most.add(&margin)?]
        } else {
            [Tensor::full((), min, x.dtype())?, Tensor::full((), max, x.dtype())?]
        };
        let [least, most] = &range;
        let width = most.sub(least)?;
        let place_dtype = if bins < i32::MAX as usize { DType::I32 } else { DType::I64 };
        // What lies outside is counted behind the bins.
        let place = fuse(|[x, least, most, width]| {
            let inside = x.ge(least).logical_and(x.le(most));
            let place = ((x - least) * bins as f64 / width).to_dtype(place_dtype);
            inside.where_cond(place.clamp_max(bins as i64 - 1), bins as i64)
        })?;
        // On the CPU by parts that stay in a cache.
        let chunk = if self.device().is_cpu() { BINNED.min(self.numel()) } else { self.numel() };
        let one = Tensor::ones([1], DType::I64)?;
        let counts = Tensor::zeros([bins.saturating_add(1)], DType::I64)?;
        for part in x.split(chunk, 0)? {
            let place = place.apply(&[&part, least, most, &width])?;
            counts.scatter_add_(0, &place, &one.expand_as(&place)?)?;
        }
        counts.narrow(0, 0, bins)?.to_dtype(dtype)
    }

    /// The covariances of variables, the rows, by their observations, the columns: divided by n − `correction`, 1 for the unbiased
    /// estimate. A vector is one variable. Observations may count several times (`fweights`, integers) and have weights (`aweights`).
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let x = Tensor::new([[0.0f32, 1.0, 2.0], [2.0, 1.0, 0.0]])?;
    /// assert_eq!(x.cov(1, None, None)?.to_vec::<f32>()?, [1.0, -1.0, -1.0, 1.0]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If there are more dimensions, of booleans, or weights are negative, of another dtype, or not one for each observation.
    pub fn cov(
        &self,
        correction: i64,
        fweights: Option<&Tensor>,
        aweights: Option<&Tensor>,
    ) -> Result<Tensor> {
        const NAME: &str = "cov";
        let dtype = self.dtype();
        if self.ndim() > 2 {
            return Err(Error::shape(NAME, "takes a matrix or a vector", [self.shape()]));
        }
        if dtype == DType::Bool || dtype.is_quant() {
            return Err(Error::dtype(NAME, "takes numbers; convert with to_dtype", [dtype]));
        }
        let result = if dtype.is_int() { DEFAULT_FLOAT } else { dtype };
        let wide = if matches!(result, DType::F16 | DType::BF16) { DType::F32 } else { result };
        let x = self.to_dtype(wide)?;
        let x = if x.ndim() < 2 { x.reshape([1, -1])? } else { x };
        let count = x.dims()[1];
        for (weights, name, fits) in [
            (fweights, "fweights", DType::is_int as fn(DType) -> bool),
            (aweights, "aweights", DType::is_float),
        ] {
            let Some(weights) = weights else { continue };
            if weights.dims() != [count] {
                let why = format!("{name} must be one for each of {count} observations");
                return Err(Error::shape(NAME, why, [self.shape(), weights.shape()]));
            }
            if !fits(weights.dtype()) {
                let why =
                    format!("{name} must be {}", if name == "fweights" { "integers" } else { "floats" });
                return Err(Error::dtype(NAME, why, [weights.dtype()]));
            }
            weights.detach().ge(0)?.require(NAME, "weights must not be negative")?;
        }
        let weights = match (fweights, aweights) {
            (Some(f), Some(a)) => Some(f.mul(a)?),
            (Some(one), None) | (None, Some(one)) => Some(one.clone()),
            (None, None) => None,
        };
        let Some(weights) = weights else {
            let centred = x.sub(&x.sum(1, true)?.div(count as f64)?)?;
            let divisor = (count as i64).saturating_sub(correction).max(0);
            return scatter_matrix(&centred, &centred)?.div(divisor as f64)?.to_dtype(result)?.squeeze_all();
        };
        let sum = weights.sum_all()?;
        let centred = x.sub(&x.mul(&weights)?.sum(1, true)?.div(&sum)?)?;
        let divisor = match aweights {
            Some(a) if correction != 0 => sum.sub(&weights.mul(a)?.sum_all()?.div(&sum)?.mul(correction)?)?,
            Some(_) => sum,
            None => sum.sub(correction)?,
        };
        let matrix = scatter_matrix(&centred, &centred.mul(&weights)?)?.div(&divisor.clamp_min(0)?)?;
        // Weights of another dtype promote the result.
        let is_narrow = wide != result && aweights.is_none_or(|a| a.dtype() == result);
        matrix.to_dtype(if is_narrow { result } else { matrix.dtype() })?.squeeze_all()
    }

    /// The correlation coefficients of variables, the rows, by their observations, the columns: their [covariances](Self::cov), divided by
    /// both standard deviations.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let x = Tensor::new([[0.0f64, 1.0, 2.0], [4.0, 2.0, 0.0]])?;
    /// assert_eq!(x.corrcoef()?.to_vec::<f64>()?, [1.0, -1.0, -1.0, 1.0]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`cov`](Self::cov).
    pub fn corrcoef(&self) -> Result<Tensor> {
        if self.ndim() > 2 {
            return Err(Error::shape("corrcoef", "takes a matrix or a vector", [self.shape()]));
        }
        if matches!(self.dtype(), DType::F16 | DType::BF16) {
            return self.to_dtype(DType::F32)?.corrcoef()?.to_dtype(self.dtype());
        }
        let matrix = self.cov(1, None, None).map_err(|error| match error {
            Error::DType { message, dtypes, .. } => Error::DType { op: "corrcoef", message, dtypes },
            other => other,
        })?;
        if matrix.ndim() == 0 {
            return matrix.div(&matrix);
        }
        let deviation = matrix.diagonal(0, 0, 1)?.real()?.sqrt()?;
        let scaled = matrix.div(&deviation.unsqueeze(1)?)?.div(&deviation.unsqueeze(0)?)?;
        if !scaled.dtype().is_complex() {
            return scaled.clamp(-1, 1);
        }
        Tensor::complex(&scaled.real()?.clamp(-1, 1)?, &scaled.imag()?.clamp(-1, 1)?)
    }

    /// An error of an operation if not all of this condition is true; in a captured function, of the run.
    fn require(&self, op: &'static str, message: &str) -> Result<()> {
        if self.expect_value(op).is_err() {
            return self.assert(&format!("{op}: {message}")).map(drop);
        }
        match self.all_all()?.item()?.to_bool() {
            true => Ok(()),
            false => Err(Error::argument(op, message)),
        }
    }
}

/// a·bᴴ.
fn scatter_matrix(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    a.matmul(&b.t()?.conj()?)
}
