//! A strided view as equally long sequences along some axes.

use super::{base, map::copy_run, unreachable_memory};
use rustorch_core::{Dims, Element, Fault, View};
use std::marker::PhantomData;

/// A view whose axes are parted in outer ones, which number the sequences in row-major order, and inner ones, along
/// which a sequence runs in row-major order.
pub(crate) struct Grid<'a, T> {
    base: *const T,
    outer: Axes,
    inner: Axes,
    life: PhantomData<&'a [T]>,
}

// SAFETY: reads elements of a view that outlives this value; see the documentation of `strided`.
unsafe impl<T: Element> Sync for Grid<'_, T> {}

/// Lengths and strides.
struct Axes {
    dims: Dims,
    strides: Dims,
}

impl Axes {
    /// The given axes of a view, neighbours merged where one step leads through both.
    fn new(x: &View<'_>, axes: &[usize]) -> Axes {
        let (mut dims, mut strides) = (Dims::new(), Dims::new());
        for &axis in axes {
            let (dim, stride) = (x.layout().dims()[axis], x.layout().strides()[axis]);
            if dim == 1 {
                continue;
            }
            match (dims.last_mut(), strides.last_mut()) {
                (Some(d), Some(s)) if Some(*s) == stride.checked_mul(dim) => {
                    *d *= dim;
                    *s = stride;
                }
                _ => {
                    dims.push(dim);
                    strides.push(stride);
                }
            }
        }
        Axes { dims, strides }
    }

    fn count(&self) -> usize {
        self.dims.iter().product()
    }

    /// The index of element `i`.
    #[inline]
    fn at(&self, mut i: usize) -> usize {
        let mut index = 0;
        for (&dim, &stride) in self.dims.iter().zip(&self.strides).rev() {
            index += i % dim * stride;
            i /= dim;
        }
        index
    }
}

impl<'a, T: Element> Grid<'a, T> {
    pub(crate) fn new(x: &View<'a>, outer: &[usize], inner: &[usize]) -> Result<Grid<'a, T>, Fault> {
        if x.dtype() != T::DTYPE {
            return Err(unreachable_memory());
        }
        Ok(Grid {
            base: base(x)?.cast(),
            outer: Axes::new(x, outer),
            inner: Axes::new(x, inner),
            life: PhantomData,
        })
    }

    /// How many sequences there are.
    pub(crate) fn count(&self) -> usize {
        self.outer.count()
    }

    /// The elements of a sequence.
    pub(crate) fn len(&self) -> usize {
        self.inner.count()
    }

    /// Whether sequences are contiguous.
    pub(crate) fn is_packed(&self) -> bool {
        match (&self.inner.dims[..], &self.inner.strides[..]) {
            ([], _) => true,
            ([_], [stride]) => *stride == 1,
            _ => false,
        }
    }

    /// `len` elements of sequence `i` from `start` on, where sequences are contiguous.
    #[inline]
    pub(crate) fn packed(&self, i: usize, start: usize, len: usize) -> &'a [T] {
        if len == 0 {
            return &[];
        }
        assert!(self.is_packed(), "sequences lie scattered");
        assert!(i < self.count() && start + len <= self.len(), "chunk outside the view");
        let first = self.base.wrapping_add(self.outer.at(i) + start);
        // SAFETY: inside a sequence, which is contiguous.
        unsafe { std::slice::from_raw_parts(first, len) }
    }

    /// `len` elements of sequence `i` from `start` on: borrowed if they are contiguous, else gathered.
    #[inline]
    pub(crate) fn chunk<'s>(&self, i: usize, start: usize, len: usize, scratch: &'s mut Vec<T>) -> &'s [T]
    where
        'a: 's,
    {
        if len == 0 || self.is_packed() {
            return self.packed(i, start, len);
        }
        assert!(i < self.count() && start + len <= self.len(), "chunk outside the view");
        let first = self.base.wrapping_add(self.outer.at(i));
        scratch.clear();
        scratch.reserve(len);
        let (run, step) = match (self.inner.dims.last(), self.inner.strides.last()) {
            (Some(&run), Some(&step)) => (run, step),
            _ => (1, 1),
        };
        let mut done = 0;
        while done < len {
            let at = start + done;
            let n = (run - at % run).min(len - done);
            // SAFETY: `n` elements along the last inner axis, and room for them.
            unsafe {
                let from = first.wrapping_add(self.inner.at(at));
                copy_run(from.cast(), step, scratch.as_mut_ptr().add(done).cast(), 1, n, size_of::<T>());
            }
            done += n;
        }
        // SAFETY: `len` elements were written.
        unsafe { scratch.set_len(len) };
        scratch
    }
}
