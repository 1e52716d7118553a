//! Sort, top-k.

use crate::Tensor;
use crate::dispatch::run_pair;
use rustorch_core::{Op, Result, Sort, TopK};

impl Tensor {
    /// The elements sorted along a dimension, and where they were (`I64`). Equal ones keep their order; NaN counts as
    /// larger than everything.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let (values, indices) = Tensor::new([3i32, 1, 2])?.sort(0, false)?;
    /// assert_eq!((values.to_vec::<i32>()?, indices.to_vec::<i64>()?), (vec![1, 2, 3], vec![1, 2, 0]));
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    pub fn sort(&self, dim: isize, descending: bool) -> Result<(Tensor, Tensor)> {
        let axis = self.axis("sort", dim)?;
        run_pair(&Op::Sort(Sort { axis, descending }), &[self])
    }

    /// Where the elements are in sorted order; see [`sort`](Self::sort).
    pub fn argsort(&self, dim: isize, descending: bool) -> Result<Tensor> {
        Ok(self.sort(dim, descending)?.1)
    }

    /// The `k` largest (or smallest) along a dimension, in order, and where they were (`I64`).
    ///
    /// # Errors
    /// If there are fewer.
    pub fn topk(&self, k: usize, dim: isize, largest: bool) -> Result<(Tensor, Tensor)> {
        let axis = self.axis("topk", dim)?;
        run_pair(&Op::TopK(TopK { k, axis, largest }), &[self])
    }
}
