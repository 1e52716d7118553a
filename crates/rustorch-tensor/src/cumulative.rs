//! Running sums, products and extrema, and running sums of exponentials, a scan that is composed of pointwise operations on rows.

use crate::Tensor;
use crate::dispatch::{run, run_pair};
use rustorch_core::{DType, Error, Op, Result, Scan, ScanOp};

impl Tensor {
    fn scan(&self, op: ScanOp, dim: isize) -> Result<Tensor> {
        let axis = self.axis(op.name(), dim)?;
        run(&Op::Scan(Scan { op, axis }), &[self])
    }

    /// Running sums along a dimension. Integers and booleans sum in `I64`.
    pub fn cumsum(&self, dim: isize) -> Result<Tensor> {
        self.scan(ScanOp::Sum, dim)
    }

    /// Running products along a dimension. Integers and booleans multiply in `I64`.
    pub fn cumprod(&self, dim: isize) -> Result<Tensor> {
        self.scan(ScanOp::Prod, dim)
    }

    /// The largest so far along a dimension, and where it is (`I64`), of equals the last. From the first NaN on, NaN, and where the last is.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let (values, indices) = Tensor::new([1i32, 3, 2, 3])?.cummax(0)?;
    /// assert_eq!((values.to_vec::<i32>()?, indices.to_vec::<i64>()?), (vec![1, 3, 3, 3], vec![0, 1, 1, 3]));
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// Of complex numbers.
    pub fn cummax(&self, dim: isize) -> Result<(Tensor, Tensor)> {
        self.running_extreme(ScanOp::Max, dim)
    }

    /// The smallest so far along a dimension, and where it is (`I64`), of equals the last. From the first NaN on, NaN, and where the last is.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// assert_eq!(Tensor::new([3i32, 1, 2])?.cummin(0)?.0.to_vec::<i32>()?, [3, 1, 1]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// Of complex numbers.
    pub fn cummin(&self, dim: isize) -> Result<(Tensor, Tensor)> {
        self.running_extreme(ScanOp::Min, dim)
    }

    fn running_extreme(&self, op: ScanOp, dim: isize) -> Result<(Tensor, Tensor)> {
        let axis = self.axis(op.name(), dim)?;
        run_pair(&Op::Scan(Scan { op, axis }), &[self])
    }

    /// What a commutative and associative function makes of each element along a dimension and all before it.
    fn scanned(&self, axis: usize, f: &impl Fn(&Tensor, &Tensor) -> Result<Tensor>) -> Result<Tensor> {
        if self.numel() == 0 {
            return self.copy();
        }
        let (dim, len) = (axis as isize, self.dims()[axis]);
        let first = self.movedim([dim], [0])?;
        let rest = first.shape().clone();
        let scanned = rows(&first.reshape([len, self.numel() / len])?, f)?;
        scanned.reshape_to(rest)?.movedim([0], [dim])?.contiguous()
    }

    /// log Σ eˣ of the elements so far along a dimension, without overflow in between; also of complex numbers.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let y = Tensor::new([0.0f32, 0.0, 0.0])?.logcumsumexp(0)?;
    /// assert!(y.allclose(&Tensor::new([1.0f32, 2.0, 3.0])?.log()?, 1e-6, 1e-6, false)?);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// Of integers and booleans.
    pub fn logcumsumexp(&self, dim: isize) -> Result<Tensor> {
        const NAME: &str = "logcumsumexp";
        let axis = self.axis(NAME, dim)?;
        let dtype = self.dtype();
        if !dtype.is_float() && !dtype.is_complex() {
            return Err(Error::dtype(NAME, "takes floats and complex numbers", [dtype]));
        }
        // Rounded to 16 bits once.
        let narrow = matches!(dtype, DType::F16 | DType::BF16);
        let x = if narrow { self.to_dtype(DType::F32)? } else { self.clone() };
        if self.ndim() == 0 {
            return self.copy();
        }
        x.scanned(axis, &|a: &Tensor, b: &Tensor| a.logaddexp(b))?.to_dtype(dtype)
    }
}

/// Rows that are scanned one after another.
const BLOCK: usize = 32;

/// A scan over the rows of a matrix: over those of each block, then over the blocks' totals, which the rows of the next block take up. Each element is
/// an operand twice for each level of blocks, whatever the number of rows.
fn rows(x: &Tensor, f: &impl Fn(&Tensor, &Tensor) -> Result<Tensor>) -> Result<Tensor> {
    let &[len, columns] = x.dims() else { return Err(Error::shape("scan", "needs a matrix", [x.shape()])) };
    if len <= BLOCK {
        return one_by_one(x, len, f);
    }
    let count = len.div_ceil(BLOCK);
    let missing = count * BLOCK - len;
    let last = x.narrow(0, len - 1, 1)?.expand([missing as isize, columns as isize])?;
    let whole = if missing == 0 { x.clone() } else { Tensor::cat(&[x, &last], 0)? };
    let blocks = whole.reshape([count, BLOCK, columns])?.transpose(0, 1)?;
    let inside = one_by_one(&blocks, BLOCK, f)?;
    let totals = rows(&inside.select(0, BLOCK as isize - 1)?, f)?;
    let later = f(&inside.narrow(1, 1, count - 1)?, &totals.narrow(0, 0, count - 1)?.unsqueeze(0)?)?;
    let all = Tensor::cat(&[&inside.narrow(1, 0, 1)?, &later], 1)?;
    all.transpose(0, 1)?.reshape([count * BLOCK, columns])?.narrow(0, 0, len)
}

/// A scan along the first dimension, of so many elements.
fn one_by_one(x: &Tensor, len: usize, f: &impl Fn(&Tensor, &Tensor) -> Result<Tensor>) -> Result<Tensor> {
    let mut all = vec![x.select(0, 0)?];
    for i in 1..len {
        all.push(f(&x.select(0, i as isize)?, &all[i - 1])?);
    }
    Tensor::stack(&all, 0)
}
