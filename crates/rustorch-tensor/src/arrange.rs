//! Stacking side by side, splitting in parts, blocks and diagonals.

use crate::Tensor;
use rustorch_core::{Dims, Error, Result, Shape};
use std::borrow::Borrow;

/// Each with so many dimensions at least, joined along one of them.
fn stacked<T: Borrow<Tensor>>(
    tensors: &[T],
    name: &'static str,
    dim: isize,
    widen: impl Fn(&Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    if tensors.is_empty() {
        return Err(Error::argument(name, "needs one tensor at least"));
    }
    let parts: Vec<Tensor> = tensors.iter().map(|x| widen(x.borrow())).collect::<Result<_>>()?;
    if let Some(other) = parts.iter().find(|x| {
        let differs = |axis: usize| axis as isize != dim && x.dims()[axis] != parts[0].dims()[axis];
        x.ndim() != parts[0].ndim() || (0..x.ndim()).any(differs)
    }) {
        let why = format!("the shapes differ in another dimension than {dim}");
        return Err(Error::shape(name, why, [parts[0].shape(), other.shape()]));
    }
    Tensor::cat(&parts, dim)
}

impl Tensor {
    /// A vector of a scalar; else the tensor itself.
    ///
    /// # Errors
    /// None.
    pub fn atleast_1d(&self) -> Result<Tensor> {
        if self.ndim() == 0 { self.unsqueeze(0) } else { Ok(self.clone()) }
    }

    /// A matrix `[1, n]` of a vector, `[1, 1]` of a scalar; else the tensor itself.
    ///
    /// # Errors
    /// None.
    pub fn atleast_2d(&self) -> Result<Tensor> {
        if self.ndim() < 2 { self.atleast_1d()?.unsqueeze(0) } else { Ok(self.clone()) }
    }

    /// With three dimensions at least: `[m, n, 1]` of a matrix, `[1, n, 1]` of a vector, `[1, 1, 1]` of a scalar.
    ///
    /// # Errors
    /// None.
    pub fn atleast_3d(&self) -> Result<Tensor> {
        if self.ndim() < 3 { self.atleast_2d()?.unsqueeze(-1) } else { Ok(self.clone()) }
    }

    /// Joined along the second dimension; vectors and scalars along the first.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let (a, b) = (Tensor::new([[1i32], [2]])?, Tensor::new([[3i32], [4]])?);
    /// assert_eq!(Tensor::hstack(&[&a, &b])?.to_vec2::<i32>()?, [[1, 3], [2, 4]]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If there are none, or they differ in another dimension.
    pub fn hstack<T: Borrow<Tensor>>(tensors: &[T]) -> Result<Tensor> {
        let dim = isize::from(tensors.first().is_some_and(|x| x.borrow().ndim() > 1));
        stacked(tensors, "hstack", dim, Tensor::atleast_1d)
    }

    /// Joined along the first dimension; vectors and scalars become rows.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let (a, b) = (Tensor::new([1i32, 2])?, Tensor::new([3i32, 4])?);
    /// assert_eq!(Tensor::vstack(&[&a, &b])?.to_vec2::<i32>()?, [[1, 2], [3, 4]]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If there are none, or they differ in another dimension.
    pub fn vstack<T: Borrow<Tensor>>(tensors: &[T]) -> Result<Tensor> {
        stacked(tensors, "vstack", 0, Tensor::atleast_2d)
    }

    /// Joined along the third dimension, of [three](Self::atleast_3d) at least.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let (a, b) = (Tensor::new([1i32, 2])?, Tensor::new([3i32, 4])?);
    /// assert_eq!(Tensor::dstack(&[&a, &b])?.dims(), [1, 2, 2]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If there are none, or they differ in another dimension.
    pub fn dstack<T: Borrow<Tensor>>(tensors: &[T]) -> Result<Tensor> {
        stacked(tensors, "dstack", 2, Tensor::atleast_3d)
    }

    /// Joined along the second dimension; vectors and scalars become columns.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let (a, b) = (Tensor::new([1i32, 2])?, Tensor::new([3i32, 4])?);
    /// assert_eq!(Tensor::column_stack(&[&a, &b])?.to_vec2::<i32>()?, [[1, 3], [2, 4]]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If there are none, or they differ in another dimension.
    pub fn column_stack<T: Borrow<Tensor>>(tensors: &[T]) -> Result<Tensor> {
        stacked(tensors, "column_stack", 1, |x| {
            if x.ndim() < 2 { x.atleast_1d()?.unsqueeze(1) } else { Ok(x.clone()) }
        })
    }

    /// Views of all tensors in the shape to which they broadcast.
    ///
    /// ```
    /// # use rustorch_tensor::{DType, Tensor};
    /// let (a, b) = (Tensor::zeros([3, 1], DType::F32)?, Tensor::zeros([4], DType::F32)?);
    /// let both = Tensor::broadcast_tensors(&[&a, &b])?;
    /// assert!(both.iter().all(|x| x.dims() == [3, 4]));
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If they do not broadcast.
    pub fn broadcast_tensors<T: Borrow<Tensor>>(tensors: &[T]) -> Result<Vec<Tensor>> {
        let shape = tensors
            .iter()
            .try_fold(Shape::scalar(), |shape, x| shape.broadcast(x.borrow().shape(), "broadcast_tensors"))?;
        tensors.iter().map(|x| x.borrow().broadcast_to(&shape)).collect()
    }

    /// So many parts along a dimension, the first ones longer by one where that does not divide its length, as
    /// `torch.tensor_split` (`numpy.array_split`).
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let parts = Tensor::arange(0, 7, 1)?.tensor_split(3, 0)?;
    /// assert_eq!(parts.iter().map(|x| x.numel()).collect::<Vec<_>>(), [3, 2, 2]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If there is no such dimension, or no parts are asked for.
    pub fn tensor_split(&self, sections: usize, dim: isize) -> Result<Vec<Tensor>> {
        let axis = self.dimension("tensor_split", dim)?;
        if sections == 0 {
            return Err(Error::argument("tensor_split", "needs one section at least"));
        }
        let (each, longer) = (self.dims()[axis] / sections, self.dims()[axis] % sections);
        let sizes: Vec<usize> = (0..sections).map(|i| each + usize::from(i < longer)).collect();
        self.split_sizes(&sizes, dim)
    }

    /// Matrices along the diagonal of a matrix of zeros; vectors count as rows.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let x = Tensor::block_diag(&[&Tensor::new([[1i32], [2]])?, &Tensor::new([3i32, 4])?])?;
    /// assert_eq!(x.to_vec2::<i32>()?, [[1, 0, 0], [2, 0, 0], [0, 3, 4]]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If there are none, or one has more than two dimensions.
    pub fn block_diag<T: Borrow<Tensor>>(tensors: &[T]) -> Result<Tensor> {
        let name = "block_diag";
        let blocks: Vec<Tensor> = tensors.iter().map(|x| x.borrow().atleast_2d()).collect::<Result<_>>()?;
        if let Some(block) = blocks.iter().find(|x| x.ndim() > 2) {
            return Err(Error::shape(name, "takes matrices, vectors and scalars", [block.shape()]));
        }
        if blocks.is_empty() {
            return Err(Error::argument(name, "needs one tensor at least"));
        }
        let columns: usize = blocks.iter().map(|x| x.dims()[1]).sum();
        let mut before = 0;
        let rows: Vec<Tensor> = blocks
            .iter()
            .map(|x| {
                let width = x.dims()[1];
                before += width;
                x.pad([(before - width) as isize, (columns - before) as isize], 0)
            })
            .collect::<Result<_>>()?;
        // Blocks without a row or a column are none to `cat` only as vectors.
        Tensor::cat(&rows, 0)
    }

    /// With the last dimension on the diagonal of two new ones, of zeros elsewhere: the last two dimensions of the result, as `torch.diag_embed` by
    /// default. `offset` above 0 lies above the main diagonal.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let x = Tensor::new([[1i32, 2], [3, 4]])?.diag_embed(0)?;
    /// assert_eq!(x.to_vec3::<i32>()?, [[[1, 0], [0, 2]], [[3, 0], [0, 4]]]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// Of a scalar, or if the result has more elements than can be addressed.
    pub fn diag_embed(&self, offset: isize) -> Result<Tensor> {
        let Some((&n, lead)) = self.dims().split_last() else {
            return Err(Error::shape("diag_embed", "a scalar has no diagonal", [self.shape()]));
        };
        let side = n.saturating_add(offset.unsigned_abs());
        let mut dims: Dims = lead.into();
        dims.extend([side, side]);
        let shape = Shape::new(dims)?;
        // Rows of one element each, moved to their places: elements of a diagonal are side + 1 apart.
        let apart = self.unsqueeze(-1)?.pad([0, side as isize], 0)?.flatten(-2, -1)?;
        let side = side as isize;
        let (before, after) = match offset {
            _ if n == 0 => (0, side * side),
            0.. => (offset, (offset - 1) * side),
            _ => (-offset * side, -(n as isize)),
        };
        apart.pad([before, after], 0)?.reshape_to(shape)
    }
}
