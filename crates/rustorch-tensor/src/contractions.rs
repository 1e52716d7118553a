//! Products and sums of products beside matmul: tensordot, addmm, traces, cross and Kronecker products; distances.

use crate::autograd::autocast::{self, Autocast};
use crate::autograd::record::is_recorded;
use crate::dispatch::run_into;
use crate::einsum::{LABELS, Term, contract};
use crate::{Tensor, fuse};
use rustorch_core::{DType, Dims, Error, Op, Result, Scalar, Shape, UnaryOp, resolve_axis};
use smallvec::SmallVec;

/// So many elements of differences [`Tensor::cdist`] holds at once, if rows are not longer: what fits into a cache of 2 MB with the other
/// points, and is enough for several threads.
const DIFFERENCES: usize = 1 << 18;
/// Euclidean distances among more rows than this go through a matmul, as PyTorch's.
const ROWS_BY_DIFFERENCES: usize = 25;

/// The dimensions that [`Tensor::tensordot`] sums over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TensordotDims {
    /// So many last ones of the left tensor, and first ones of the right.
    Count(usize),
    /// These of the left tensor, each with the one of the right at the same place.
    Pairs(Vec<isize>, Vec<isize>),
}

impl From<usize> for TensordotDims {
    fn from(count: usize) -> TensordotDims {
        TensordotDims::Count(count)
    }
}

impl<const N: usize> From<([isize; N], [isize; N])> for TensordotDims {
    fn from((left, right): ([isize; N], [isize; N])) -> TensordotDims {
        TensordotDims::Pairs(left.into(), right.into())
    }
}

impl Tensor {
    /// The sum of products over pairs of dimensions, as `torch.tensordot`: one matmul. The result has the other dimensions of this
    /// tensor, then those of the other. A dimension of length 1 broadcasts.
    ///
    /// ```
    /// # use rustorch_tensor::{DType, Tensor};
    /// let (a, b) = (Tensor::ones([2, 3, 4], DType::F32)?, Tensor::ones([4, 3, 5], DType::F32)?);
    /// let y = a.tensordot(&b, ([1, 2], [1, 0]))?;
    /// assert_eq!((y.dims(), y.max_all()?.item()?.to_f64()), (&[2, 5][..], 12.0));
    /// assert_eq!(a.tensordot(&b, 1)?.dims(), [2, 3, 3, 5]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the dimensions are not there or not as long as their partners, or the dtypes differ.
    pub fn tensordot(&self, other: &Tensor, dims: impl Into<TensordotDims>) -> Result<Tensor> {
        const NAME: &str = "tensordot";
        self.expect_one_dtype(NAME, other, "convert one with to_dtype")?;
        let (n, m) = (self.ndim(), other.ndim());
        if n + m > LABELS {
            return Err(Error::shape(NAME, "too many dimensions", [self.shape(), other.shape()]));
        }
        let pairs: SmallVec<[(usize, usize); 4]> = match dims.into() {
            TensordotDims::Count(count) if count > n.min(m) => {
                let why = format!("cannot sum over {count} dimensions");
                return Err(Error::shape(NAME, why, [self.shape(), other.shape()]));
            }
            TensordotDims::Count(count) => (0..count).map(|i| (n - count + i, i)).collect(),
            TensordotDims::Pairs(left, right) if left.len() != right.len() => {
                return Err(Error::argument(NAME, format!("{left:?} and {right:?} differ in length")));
            }
            TensordotDims::Pairs(left, right) => {
                let pair = |(&i, &j): (&isize, &isize)| Ok((existing(NAME, i, n)?, existing(NAME, j, m)?));
                left.iter().zip(&right).map(pair).collect::<Result<_>>()?
            }
        };
        let (mut left, mut right) = (self.clone(), other.clone());
        let mut labels: SmallVec<[u8; 8]> = (n..n + m).map(|label| label as u8).collect();
        for (at, &(i, j)) in pairs.iter().enumerate() {
            if pairs[..at].iter().any(|&(a, b)| a == i || b == j) {
                return Err(Error::argument(NAME, "a dimension appears twice among those to sum over"));
            }
            let (len, other_len) = (self.dims()[i], other.dims()[j]);
            if len != other_len && len != 1 && other_len != 1 {
                let why = format!("dimension {i} is {len} long, and {j} of the other is {other_len}");
                return Err(Error::shape(NAME, why, [self.shape(), other.shape()]));
            }
            // Integers sum in 64 bits, and meet the other tensor in their own.
            if len == 1 && other_len != 1 {
                right = right.sum(j, true)?.to_dtype(other.dtype())?;
            } else if other_len == 1 && len != 1 {
                left = left.sum(i, true)?.to_dtype(self.dtype())?;
            }
            labels[j] = i as u8;
        }
        let summed = pairs.iter().fold(0u128, |mask, &(i, _)| mask | 1 << i);
        let left = Term { tensor: left, labels: (0..n).map(|label| label as u8).collect() };
        Ok(contract(&left, &Term { tensor: right, labels }, !summed)?.tensor)
    }

    /// `beta · self + alpha · (mat1 · mat2)`, as `torch.addmm`. This tensor broadcasts to the result. If `beta` is 0, it is not read, and
    /// its NaNs do not count.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let a = Tensor::new([[1.0f32, 2.0], [3.0, 4.0]])?;
    /// let bias = Tensor::new([10.0f32, 20.0])?;
    /// assert_eq!(bias.addmm(&a, &a, 1, 2)?.to_vec::<f32>()?, [24.0, 40.0, 40.0, 64.0]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If these are not matrices that fit, the dtypes differ, or integers are given a factor that is none.
    pub fn addmm(
        &self,
        mat1: &Tensor,
        mat2: &Tensor,
        beta: impl Into<Scalar>,
        alpha: impl Into<Scalar>,
    ) -> Result<Tensor> {
        mat1.expect_ndims("addmm", 2, mat2, 2)?;
        self.plus_matmul("addmm", [mat1, mat2], beta.into(), alpha.into())
    }

    /// `beta · self + alpha · (batch1 · batch2)` of batches of matrices of one length, as `torch.baddbmm`; else as
    /// [`addmm`](Self::addmm).
    ///
    /// ```
    /// # use rustorch_tensor::{DType, Tensor};
    /// let (a, x) = (Tensor::ones([4, 2, 3], DType::F32)?, Tensor::ones((), DType::F32)?);
    /// let y = x.baddbmm(&a, &a.transpose(1, 2)?, 0.5, 1)?;
    /// assert_eq!((y.dims(), y.max_all()?.item()?.to_f64()), (&[4, 2, 2][..], 3.5));
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`addmm`](Self::addmm), and if the batches differ in length.
    pub fn baddbmm(
        &self,
        batch1: &Tensor,
        batch2: &Tensor,
        beta: impl Into<Scalar>,
        alpha: impl Into<Scalar>,
    ) -> Result<Tensor> {
        batch1.expect_ndims("baddbmm", 3, batch2, 3)?;
        if batch1.dims()[0] != batch2.dims()[0] {
            let shapes = [batch1.shape(), batch2.shape()];
            return Err(Error::shape("baddbmm", "the batches differ in length", shapes));
        }
        self.plus_matmul("baddbmm", [batch1, batch2], beta.into(), alpha.into())
    }

    fn plus_matmul(
        &self,
        name: &'static str,
        [a, b]: [&Tensor; 2],
        beta: Scalar,
        alpha: Scalar,
    ) -> Result<Tensor> {
        for other in [a, b] {
            if self.dtype() != other.dtype() && !autocast::is_active() {
                let why = "the operands' dtypes differ; convert them with to_dtype";
                return Err(Error::dtype(name, why, [self.dtype(), a.dtype(), b.dtype()]));
            }
        }
        for factor in [beta, alpha] {
            let whole = matches!(factor, Scalar::Bool(_) | Scalar::Int(_));
            let fits = match factor {
                Scalar::Complex(_) => self.dtype().is_complex(),
                _ => whole || !self.dtype().is_int(),
            };
            if !fits {
                return Err(Error::argument(
                    name,
                    format!("{} cannot be multiplied by {factor}", self.dtype()),
                ));
            }
        }
        let (k, k2) = (a.dims()[a.ndim() - 1], b.dims()[b.ndim() - 2]);
        if k != k2 {
            let why = format!("the inner dimensions {k} and {k2} differ");
            return Err(Error::shape(name, why, [a.shape(), b.shape()]));
        }
        let product = a.matmul(b)?;
        if &self.shape().broadcast(product.shape(), name)? != product.shape() {
            let why = "the tensor to add does not broadcast to the matmul";
            return Err(Error::shape(name, why, [self.shape(), product.shape()]));
        }
        let dtype = product.dtype();
        // Each element is rounded to 16 bits at the end, not at each step.
        let wide = if matches!(dtype, DType::F16 | DType::BF16) { DType::F32 } else { dtype };
        let scaled = |x: &Tensor, factor: Scalar| {
            let x = x.to_dtype(wide)?;
            if factor.to_complex() == 1.0.into() { Ok(x) } else { x.mul(factor) }
        };
        let scaled_product = scaled(&product, alpha)?;
        if beta.to_complex() == 0.0.into() {
            return scaled_product.to_dtype(dtype);
        }
        scaled(self, beta)?.add(&scaled_product)?.to_dtype(dtype)
    }

    /// The sum of the main diagonal of a matrix: a 0-d tensor. Integers and booleans sum in `I64`.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// assert_eq!(Tensor::new([[1i32, 2, 3], [4, 5, 6]])?.trace()?.item()?.to_i64(), 6);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If this is not a matrix.
    pub fn trace(&self) -> Result<Tensor> {
        if self.ndim() != 2 {
            return Err(Error::shape("trace", "needs a matrix; sum diagonal of others", [self.shape()]));
        }
        self.diagonal(0, 0, 1)?.sum_all()
    }

    /// The cross product of vectors of three elements along a dimension, as `torch.linalg.cross`. Other dimensions broadcast.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let (x, y) = (Tensor::new([1i32, 0, 0])?, Tensor::new([0i32, 1, 0])?);
    /// assert_eq!(x.cross(&y, -1)?.to_vec::<i32>()?, [0, 0, 1]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the vectors have another length, or the tensors differ in rank.
    pub fn cross(&self, other: &Tensor, dim: isize) -> Result<Tensor> {
        let axis = self.dimension("cross", dim)?;
        let shapes = [self.shape(), other.shape()];
        if self.ndim() != other.ndim() {
            return Err(Error::shape("cross", "the tensors must have one rank", shapes));
        }
        if self.dims()[axis] != 3 || other.dims()[axis] != 3 {
            let why = format!("dimension {axis} must be 3 long in both tensors");
            return Err(Error::shape("cross", why, shapes));
        }
        let dtype = self.dtype();
        if matches!(dtype, DType::F16 | DType::BF16) && other.dtype() == dtype {
            // Differences of rounded products lose digits.
            let wide = DType::F32;
            return self.to_dtype(wide)?.cross(&other.to_dtype(wide)?, dim)?.to_dtype(dtype);
        }
        // Elements 1, 2, 0 and 2, 0, 1 are parts of 0, 1, 2, 0, 1.
        let turned = |x: &Tensor| -> Result<[Tensor; 2]> {
            let twice = Tensor::cat(&[x, &x.narrow(dim, 0, 2)?], dim)?;
            Ok([twice.narrow(dim, 1, 3)?, twice.narrow(dim, 2, 3)?])
        };
        let ([a1, a2], [b1, b2]) = (turned(self)?, turned(other)?);
        a1.mul(&b2)?.sub(&a2.mul(&b1)?)
    }

    /// The distances between each row of one matrix and each of another by the p-norm of their difference, as `torch.cdist`:
    /// `[.., n, k]` and `[.., m, k]` give `[.., n, m]`. Batches broadcast. `p` may be 0 (how many elements differ) and ∞.
    ///
    /// As in PyTorch, Euclidean distances of more than 25 rows are √(|x|² + |y|² − 2·x·y) by one matmul, which loses digits where
    /// points are much closer to each other than to the origin; [`autocast`](crate::autograd::autocast()) does not lower it.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let (a, b) = (Tensor::new([[0.0f32, 0.0]])?, Tensor::new([[3.0f32, 4.0], [1.0, -1.0]])?);
    /// assert_eq!(a.cdist(&b, 1.0)?.to_vec::<f32>()?, [7.0, 2.0]);
    /// assert_eq!(a.cdist(&b, 2.0)?.narrow(1, 0, 1)?.to_vec::<f32>()?, [5.0]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If these are not matrices of one width, not of floats, or `p` is negative or NaN.
    pub fn cdist(&self, other: &Tensor, p: f64) -> Result<Tensor> {
        const NAME: &str = "cdist";
        let shapes = [self.shape(), other.shape()];
        let (&[n, k], &[m, k2]) = (last_two(self), last_two(other)) else {
            return Err(Error::shape(NAME, "needs two dimensions at least", shapes));
        };
        if k != k2 {
            return Err(Error::shape(NAME, format!("the rows are {k} and {k2} long"), shapes));
        }
        if !self.dtype().is_float() || self.dtype() != other.dtype() {
            let why = "takes two tensors of one float dtype; convert with to_dtype";
            return Err(Error::dtype(NAME, why, [self.dtype(), other.dtype()]));
        }
        if p.is_nan() || p < 0.0 {
            return Err(Error::argument(NAME, format!("p is {p}, and must not be negative")));
        }
        let dtype = self.dtype();
        if matches!(dtype, DType::F16 | DType::BF16) {
            let wide = DType::F32;
            return self.to_dtype(wide)?.cdist(&other.to_dtype(wide)?, p)?.to_dtype(dtype);
        }
        // Differences of large squares need their digits.
        let _scope = autocast::is_active().then(|| Autocast::new(None)).transpose()?;
        if p == 2.0 && n.max(m) > ROWS_BY_DIFFERENCES {
            return self.euclidean(other);
        }
        let batch = Shape::new(&self.dims()[..self.ndim() - 2])?
            .broadcast(&Shape::new(&other.dims()[..other.ndim() - 2])?, NAME)?;
        // The longer dimension last: [.., n, k, m] or [.., n, m, k].
        let (rows, columns, dim) = match m > k {
            true => (self.unsqueeze(-1)?, other.transpose(-2, -1)?.contiguous()?.unsqueeze(-3)?, -2),
            false => (self.unsqueeze(-2)?, other.unsqueeze(-3)?, -1),
        };
        let of_row = batch.numel().saturating_mul(m).saturating_mul(k);
        let chunk = (DIFFERENCES / of_row.max(1)).clamp(1, n.max(1));
        let has_gradient = is_recorded(&[self, other]);
        let distances = |rows: &Tensor| {
            let difference = rows.sub(&columns)?;
            match p {
                1.0 if !has_gradient => {
                    // In place, to stay in the cache.
                    run_into(&Op::Unary(UnaryOp::Abs), &[&difference], &difference)?;
                    difference.sum(dim, false)
                }
                // NaN stays NaN, which is neither equal nor not.
                0.0 => difference.abs()?.ceil()?.clamp_max(1)?.sum(dim, false),
                // No elements have no largest.
                _ if k == 0 => difference.norm(1.0, dim, false),
                p => difference.norm(p, dim, false),
            }
        };
        if chunk >= n {
            return distances(&rows);
        }
        let parts = rows.split(chunk, -3)?;
        Tensor::cat(&parts.iter().map(distances).collect::<Result<Vec<_>>>()?, -2)
    }

    /// Distances from squares of lengths and inner products, all summed by one matmul. The gradient of no distance is zero.
    fn euclidean(&self, other: &Tensor) -> Result<Tensor> {
        let lengths = |x: &Tensor| x.square()?.sum(-1, true);
        let (left, right) = (lengths(self)?, lengths(other)?);
        let rows = Tensor::cat(&[&self.mul(-2)?, &left, &left.ones_like()?], -1)?;
        let columns = Tensor::cat(&[other, &right.ones_like()?, &right], -1)?;
        let has_gradient = is_recorded(&[self, other]);
        let distances = fuse(|[squares]| {
            let squares = squares.clamp_min(0);
            if !has_gradient {
                return squares.sqrt();
            }
            let none = squares.eq(0);
            squares.masked_fill(none, 1).sqrt().masked_fill(none, 0)
        })?;
        distances.apply(&[&rows.matmul(&columns.transpose(-2, -1)?)?])
    }

    /// The Kronecker product: each element of this tensor, times all of the other. Fewer dimensions get ones in front.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let (a, b) = (Tensor::new([[1i32, 2]])?, Tensor::new([[1i32], [10]])?);
    /// let y = a.kron(&b)?;
    /// assert_eq!((y.dims(), y.to_vec::<i32>()?), (&[2, 2][..], vec![1, 2, 10, 20]));
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the result would have more elements than can be addressed.
    pub fn kron(&self, other: &Tensor) -> Result<Tensor> {
        let ndim = self.ndim().max(other.ndim());
        let len = |x: &Tensor, i: usize| (i + x.ndim()).checked_sub(ndim).map_or(1, |i| x.dims()[i]);
        let (mut left, mut right, mut merged) = (Dims::new(), Dims::new(), Dims::new());
        for i in 0..ndim {
            let (a, b) = (len(self, i), len(other, i));
            left.extend([a, 1]);
            right.extend([1, b]);
            let Some(both) = a.checked_mul(b) else {
                let why = "the result has more elements than can be addressed";
                return Err(Error::shape("kron", why, [self.shape(), other.shape()]));
            };
            merged.push(both);
        }
        let merged = Shape::new(merged)?;
        let (left, right) = (self.reshape_to(Shape::new(left)?)?, other.reshape_to(Shape::new(right)?)?);
        let (&a, &b) = (self.dims().last().unwrap_or(&1), other.dims().last().unwrap_or(&1));
        if b < SHORT_ROWS && merged.numel() / 4 > self.numel() * b + other.numel() * a {
            // The last dimensions first: rows that are as long as the result's.
            let whole = |x: Tensor| {
                let mut dims = Dims::from_slice(x.dims());
                dims.truncate(x.ndim() - 2);
                let mut wide = dims.clone();
                wide.extend([a, b]);
                dims.push(a * b);
                x.broadcast_to(Shape::new(wide)?)?.reshape_to(Shape::new(dims)?)
            };
            return whole(left)?.mul(&whole(right)?)?.reshape_to(merged);
        }
        left.mul(&right)?.reshape_to(merged)
    }
}

/// Rows below which the Kronecker product makes longer ones first.
const SHORT_ROWS: usize = 256;

/// A dimension that is there.
fn existing(op: &'static str, dim: isize, ndim: usize) -> Result<usize> {
    if ndim == 0 {
        return Err(Error::Axis { op, axis: dim, ndim });
    }
    resolve_axis(op, dim, ndim)
}

fn last_two(x: &Tensor) -> &[usize] {
    &x.dims()[x.ndim().saturating_sub(2)..]
}
