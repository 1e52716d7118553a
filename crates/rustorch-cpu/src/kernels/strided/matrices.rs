//! A strided view as a batch of matrices.

use super::{dense, unreachable_memory};
use rustorch_core::{Dims, Element, Fault, View};
use std::marker::PhantomData;
use std::ops::Range;

/// The matrices of a view's last two dimensions, with contiguous rows. The leading dimensions number them in
/// row-major order.
pub(crate) struct Matrices<'a, T> {
    base: *const T,
    dims: Dims,
    strides: Dims,
    /// Keeps a copy alive where the view's rows are not contiguous.
    _copy: Option<Vec<T>>,
    life: PhantomData<&'a [T]>,
}

// SAFETY: reads elements of a view that outlives this value; see the documentation of `strided`.
unsafe impl<T: Element> Sync for Matrices<'_, T> {}

impl<'a, T: Element> Matrices<'a, T> {
    /// The view must have two dimensions at least. It is copied if the last one's stride is not 1.
    pub(crate) fn new(x: &View<'a>) -> Result<Matrices<'a, T>, Fault> {
        let layout = x.layout();
        let ndim = layout.ndim();
        let dims: Dims = layout.dims().into();
        if layout.strides()[ndim - 1] == 1 || layout.dims()[ndim - 1] == 1 {
            let base = x.address::<T>().ok_or_else(unreachable_memory)?;
            return Ok(Matrices {
                base,
                dims,
                strides: layout.strides().into(),
                _copy: None,
                life: PhantomData,
            });
        }
        let copy = dense::<T>(x)?.into_owned();
        let strides = layout.shape().contiguous_strides();
        Ok(Matrices { base: copy.as_ptr(), dims, strides, _copy: Some(copy), life: PhantomData })
    }

    /// Matrix `i`.
    #[inline]
    pub(crate) fn matrix(&self, i: usize) -> Matrix<'_, T> {
        let ndim = self.dims.len();
        let mut index = 0;
        let mut rest = i;
        for axis in (0..ndim - 2).rev() {
            index += rest % self.dims[axis] * self.strides[axis];
            rest /= self.dims[axis];
        }
        assert!(rest == 0, "matrix outside the stack");
        Matrix {
            base: self.base.wrapping_add(index),
            rows: self.dims[ndim - 2],
            cols: self.dims[ndim - 1],
            stride: self.strides[ndim - 2],
            life: PhantomData,
        }
    }
}

/// One matrix, with contiguous rows.
#[derive(Clone, Copy)]
pub(crate) struct Matrix<'a, T> {
    base: *const T,
    rows: usize,
    cols: usize,
    stride: usize,
    life: PhantomData<&'a [T]>,
}

// SAFETY: as for `Matrices`.
unsafe impl<T: Element> Sync for Matrix<'_, T> {}

impl<'a, T: Element> Matrix<'a, T> {
    /// Rows of `cols` elements one after the other.
    pub(crate) fn packed(rows: &'a [T], cols: usize) -> Matrix<'a, T> {
        let count = rows.len().checked_div(cols).unwrap_or(usize::MAX);
        Matrix { base: rows.as_ptr(), rows: count, cols, stride: cols, life: PhantomData }
    }

    /// Some of the rows.
    pub(crate) fn narrow(&self, rows: Range<usize>) -> Matrix<'a, T> {
        assert!(rows.start <= rows.end && rows.end <= self.rows, "rows outside the matrix");
        let base = self.base.wrapping_add(rows.start * self.stride);
        Matrix { base, rows: rows.len(), ..*self }
    }

    /// The address of the first element, and the elements from one row to the next.
    pub(crate) fn address(&self) -> (*const T, usize) {
        (self.base, self.stride)
    }

    /// Whether it has so many rows at least, of so many elements.
    pub(crate) fn holds(&self, rows: usize, cols: usize) -> bool {
        rows <= self.rows && cols == self.cols
    }

    /// The elements of some rows, if there is nothing between rows.
    pub(crate) fn contiguous(&self, rows: Range<usize>) -> Option<&'a [T]> {
        assert!(rows.start <= rows.end && rows.end <= self.rows, "rows outside the matrix");
        // SAFETY: rows of the matrix, one after the other.
        (self.stride == self.cols).then(|| unsafe {
            std::slice::from_raw_parts(self.base.add(rows.start * self.cols), rows.len() * self.cols)
        })
    }

    /// The elements of a row.
    pub(crate) fn cols(&self) -> usize {
        self.cols
    }

    /// A row.
    #[inline(always)]
    pub(crate) fn row(&self, row: usize) -> &'a [T] {
        assert!(row < self.rows, "row outside the matrix");
        if self.cols == 0 {
            return &[];
        }
        // SAFETY: the index of a row's first element, and the row is contiguous.
        unsafe { std::slice::from_raw_parts(self.base.add(row * self.stride), self.cols) }
    }
}
