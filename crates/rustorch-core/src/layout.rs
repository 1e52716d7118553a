//! Shape, strides and offset of a tensor in its buffer.

use crate::shape::{copied, copy_in};
use crate::{Dims, Error, Result, Shape};
use smallvec::SmallVec;
use std::mem::MaybeUninit;

/// Shape, strides and offset of a tensor, all in elements. Every view is a change of layout and never a copy.
///
/// A layout that exists has an addressable end: the index one past its farthest element fits in `usize`, with dimensions of
/// length 0 taken for ones of length 1. Every constructor and every view checks or keeps that, so that
/// [`end`](Layout::end) and kernels that compute indices need not.
///
/// For block dtypes the innermost stride of a row is 1 and offsets fall on block borders; that is checked where a
/// layout meets a dtype (see [`crate::TensorMeta::check`]).
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    shape: Shape,
    strides: Dims,
    offset: usize,
}

impl Clone for Layout {
    #[inline]
    fn clone(&self) -> Layout {
        Layout { shape: self.shape.clone(), strides: copied(&self.strides), offset: self.offset }
    }
}

impl Layout {
    /// The row-major layout of `shape` at the start of a buffer.
    #[inline]
    pub fn contiguous(shape: Shape) -> Layout {
        let strides = shape.contiguous_strides();
        Layout { shape, strides, offset: 0 }
    }

    /// Writes the row-major layout of `shape` at the start of a buffer where it is to stay: a layout is large enough for
    /// moving it about to cost more than adding two scalars.
    #[inline(always)]
    pub fn contiguous_in(place: &mut MaybeUninit<Layout>, shape: &Shape) {
        let place = place.as_mut_ptr();
        // SAFETY: the fields of a place for a layout are places for its fields, each of which is initialised here.
        let strides = unsafe {
            // Reads nothing, but names every part: another one does not compile until it is written here, too.
            let Layout { shape: _, strides: _, offset: _ } = *place;
            shape.copy_in(&mut *(&raw mut (*place).shape).cast());
            (&raw mut (*place).offset).write(0);
            // Those of the shape, which are as many, are overwritten.
            copy_in(shape.list(), &mut *(&raw mut (*place).strides).cast())
        };
        let mut step = 1usize;
        for (stride, &dim) in strides.iter_mut().zip(shape.iter()).rev() {
            *stride = step;
            step = step.saturating_mul(dim.max(1));
        }
    }

    /// Writes a copy of the layout to where it is to stay.
    #[inline(always)]
    pub fn copy_in(&self, place: &mut MaybeUninit<Layout>) {
        let place = place.as_mut_ptr();
        // SAFETY: as in `contiguous_in`.
        unsafe {
            let Layout { shape: _, strides: _, offset: _ } = *place;
            self.shape.copy_in(&mut *(&raw mut (*place).shape).cast());
            copy_in(&self.strides, &mut *(&raw mut (*place).strides).cast());
            (&raw mut (*place).offset).write(self.offset);
        }
    }

    /// A layout of given strides and offset.
    ///
    /// # Errors
    /// If ranks differ or the farthest element cannot be addressed.
    pub fn new(shape: Shape, strides: impl Into<Dims>, offset: usize) -> Result<Layout> {
        let strides = strides.into();
        if strides.len() != shape.ndim() {
            return Err(Error::shape(
                "layout",
                format!("{} strides for {} dimensions", strides.len(), shape.ndim()),
                [&shape],
            ));
        }
        Layout { shape, strides, offset: 0 }.at_offset(offset)
    }

    /// The shape.
    #[inline]
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The lengths.
    #[inline]
    pub fn dims(&self) -> &[usize] {
        self.shape.dims()
    }

    /// The strides, in elements.
    #[inline]
    pub fn strides(&self) -> &[usize] {
        &self.strides
    }

    /// The index of the first element.
    #[inline]
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// The number of dimensions.
    #[inline]
    pub fn ndim(&self) -> usize {
        self.shape.ndim()
    }

    /// The number of elements.
    #[inline]
    pub fn numel(&self) -> usize {
        self.shape.numel()
    }

    /// Whether the elements lie in row-major order without gaps (at any offset). Empty layouts do.
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        let mut step = 1usize;
        for (&dim, &stride) in self.shape.iter().zip(&self.strides).rev() {
            if dim == 0 {
                return true;
            }
            if dim != 1 {
                if stride != step {
                    // An outer dimension may yet be of length zero.
                    return self.shape.contains(&0);
                }
                step *= dim;
            }
        }
        true
    }

    /// One past the index of the farthest element; equal to the offset for an empty layout.
    #[inline]
    pub fn end(&self) -> usize {
        // Nothing overflows, by the type's invariant.
        let mut end = self.offset + 1;
        for (&dim, &stride) in self.shape.iter().zip(&self.strides) {
            if dim == 0 {
                return self.offset;
            }
            end += (dim - 1) * stride;
        }
        end
    }

    /// Whether two indices may reach the same element, so that writing through the layout is ambiguous.
    ///
    /// Decides by sorting strides: exact for every layout that views can make (it may report an overlap for exotic
    /// hand-made strides that interleave without meeting).
    pub fn overlaps_itself(&self) -> bool {
        let mut axes: SmallVec<[(usize, usize); 6]> =
            self.strides.iter().copied().zip(self.shape.iter().copied()).filter(|&(_, d)| d > 1).collect();
        if self.numel() == 0 {
            return false;
        }
        axes.sort_unstable();
        let mut reach = 0usize;
        for (stride, dim) in axes {
            if stride <= reach {
                return true;
            }
            reach += (dim - 1) * stride;
        }
        false
    }

    /// The layout with dimensions reordered: dimension `i` of the result is `order[i]` of this one.
    pub fn permute(&self, order: &[usize]) -> Result<Layout> {
        self.changed(|view| view.permute_(order))
    }

    /// The layout with two dimensions swapped.
    pub fn transpose(&self, a: usize, b: usize) -> Result<Layout> {
        self.changed(|view| view.transpose_(a, b))
    }

    /// `len` elements of dimension `axis` from `start`, `step` apart.
    ///
    /// # Errors
    /// If the range leaves the dimension or `step` is 0.
    pub fn slice(&self, axis: usize, start: usize, len: usize, step: usize) -> Result<Layout> {
        self.changed(|view| view.slice_(axis, start, len, step))
    }

    /// The layout without dimension `axis`, at index `index` of it.
    pub fn select(&self, axis: usize, index: usize) -> Result<Layout> {
        self.changed(|view| view.select_(axis, index))
    }

    /// The layout with a dimension of length 1 removed.
    pub fn squeeze(&self, axis: usize) -> Result<Layout> {
        self.changed(|view| view.squeeze_(axis))
    }

    /// The layout with a dimension of length 1 inserted before `axis`.
    pub fn unsqueeze(&self, axis: usize) -> Result<Layout> {
        self.changed(|view| view.unsqueeze_(axis))
    }

    /// The layout repeated, without copying, to a shape that this one broadcasts to.
    pub fn broadcast_to(&self, shape: &Shape, op: &'static str) -> Result<Layout> {
        self.changed(|view| view.broadcast_to_(shape, op))
    }

    /// The layout that gives the same elements, in row-major order, another shape; `None` where that takes a copy.
    ///
    /// # Errors
    /// If the shapes have different numbers of elements.
    pub fn reshape(&self, shape: &Shape) -> Result<Option<Layout>> {
        let mut view = self.clone();
        Ok(view.reshape_(shape)?.then_some(view))
    }

    #[inline(always)]
    fn changed(&self, change: impl FnOnce(&mut Layout) -> Result<()>) -> Result<Layout> {
        let mut view = self.clone();
        change(&mut view)?;
        Ok(view)
    }

    /// [`permute`](Self::permute) in place. This form and those below are for the layout of a tensor where it stays: moving one
    /// costs more than changing it. After an error the layout is what it was.
    pub(crate) fn permute_(&mut self, order: &[usize]) -> Result<()> {
        let ndim = self.ndim();
        let mut seen = 0u64;
        let is_order = order.len() == ndim
            && ndim <= 64
            && order.iter().all(|&axis| {
                let is_new = axis < ndim && seen >> axis & 1 == 0;
                seen |= 1u64.checked_shl(axis as u32).unwrap_or(0);
                is_new
            });
        if !is_order {
            return Err(Error::argument(
                "permute",
                format!("{order:?} is not an order of the {ndim} dimensions of {}", self.shape),
            ));
        }
        let (dims, strides) = (copied(self.shape.list()), copied(&self.strides));
        let places = self.shape.list_mut().iter_mut().zip(&mut self.strides);
        for ((dim, stride), &axis) in places.zip(order) {
            (*dim, *stride) = (dims[axis], strides[axis]);
        }
        Ok(())
    }

    /// [`transpose`](Self::transpose) in place.
    #[inline]
    pub(crate) fn transpose_(&mut self, a: usize, b: usize) -> Result<()> {
        for axis in [a, b] {
            if axis >= self.ndim() {
                return Err(Error::Axis { op: "transpose", axis: axis as isize, ndim: self.ndim() });
            }
        }
        self.shape.list_mut().swap(a, b);
        self.strides.swap(a, b);
        Ok(())
    }

    /// [`slice`](Self::slice) in place.
    #[inline]
    pub(crate) fn slice_(&mut self, axis: usize, start: usize, len: usize, step: usize) -> Result<()> {
        if axis >= self.ndim() {
            return Err(Error::Axis { op: "slice", axis: axis as isize, ndim: self.ndim() });
        }
        let size = self.shape[axis];
        let fits = step != 0
            && (len == 0 && start <= size
                || len != 0
                    && (len - 1)
                        .checked_mul(step)
                        .and_then(|n| n.checked_add(start))
                        .is_some_and(|last| last < size));
        if !fits {
            return Err(Error::argument(
                "slice",
                format!(
                    "{len} elements from {start} with step {step} leave dimension {axis} of {}",
                    self.shape
                ),
            ));
        }
        self.shape.list_mut()[axis] = len;
        let stride = self.strides[axis];
        self.strides[axis] = stride.saturating_mul(step);
        // An empty slice keeps its offset: there may be no element at `start` to point to.
        if !self.shape.contains(&0) {
            self.offset += start * stride;
        }
        Ok(())
    }

    /// [`select`](Self::select) in place.
    #[inline]
    pub(crate) fn select_(&mut self, axis: usize, index: usize) -> Result<()> {
        self.slice_(axis, index, 1, 1)?;
        self.shape.list_mut().remove(axis);
        self.strides.remove(axis);
        Ok(())
    }

    /// [`squeeze`](Self::squeeze) in place.
    pub(crate) fn squeeze_(&mut self, axis: usize) -> Result<()> {
        if axis >= self.ndim() || self.shape[axis] != 1 {
            return Err(Error::shape("squeeze", format!("dimension {axis} has not length 1"), [&self.shape]));
        }
        self.shape.list_mut().remove(axis);
        self.strides.remove(axis);
        Ok(())
    }

    /// [`unsqueeze`](Self::unsqueeze) in place.
    pub(crate) fn unsqueeze_(&mut self, axis: usize) -> Result<()> {
        let ndim = self.ndim();
        if axis > ndim {
            return Err(Error::Axis { op: "unsqueeze", axis: axis as isize, ndim: ndim + 1 });
        }
        let stride = if axis < ndim { self.strides[axis].saturating_mul(self.shape[axis].max(1)) } else { 1 };
        self.shape.list_mut().insert(axis, 1);
        self.strides.insert(axis, stride);
        Ok(())
    }

    /// [`broadcast_to`](Self::broadcast_to) in place.
    pub(crate) fn broadcast_to_(&mut self, shape: &Shape, op: &'static str) -> Result<()> {
        let extra = shape.ndim().checked_sub(self.ndim());
        let matches = extra.is_some_and(|extra| {
            self.shape.iter().zip(&shape[extra..]).all(|(&from, &to)| from == to || from == 1)
        });
        let Some(extra) = extra.filter(|_| matches) else {
            return Err(Error::shape(
                op,
                "the first shape does not broadcast to the second",
                [&self.shape, shape],
            ));
        };
        let from = std::mem::replace(&mut self.shape, shape.clone());
        for ((stride, &from), &to) in self.strides.iter_mut().zip(from.iter()).zip(&shape[extra..]) {
            if from != to {
                *stride = 0;
            }
        }
        for _ in 0..extra {
            self.strides.insert(0, 0);
        }
        Ok(())
    }

    /// [`reshape`](Self::reshape) in place; false, and the layout as it was, where that takes a copy.
    pub(crate) fn reshape_(&mut self, shape: &Shape) -> Result<bool> {
        let elements = shape.numel();
        if elements != self.numel() {
            return Err(Error::shape(
                "reshape",
                "the shapes have different numbers of elements",
                [&self.shape, shape],
            ));
        }
        if self.is_contiguous() {
            // Other lengths of an empty shape may reach farther than its own, but there is no element to keep in place.
            let offset = if elements == 0 { 0 } else { self.offset };
            *self = Layout { shape: shape.clone(), strides: shape.contiguous_strides(), offset };
            return Ok(true);
        }
        let Some(strides) = self.strides_of(shape) else { return Ok(false) };
        *self = Layout { shape: shape.clone(), strides, offset: self.offset };
        Ok(true)
    }

    /// The strides with which another shape has the elements of this layout, which is not contiguous; `None` where there are none.
    #[cold]
    fn strides_of(&self, shape: &Shape) -> Option<Dims> {
        // Merge neighbouring dimensions that are contiguous to each other, then cut the merged runs anew.
        let old: SmallVec<[(usize, usize); 6]> =
            self.shape.iter().copied().zip(self.strides.iter().copied()).filter(|&(d, _)| d != 1).collect();
        let mut strides: Dims = SmallVec::from_elem(1, shape.ndim());
        let mut new = (0..shape.ndim()).rev().peekable();
        let mut i = old.len();
        while i > 0 {
            let (mut run, stride) = old[i - 1];
            i -= 1;
            // A stride of 0 may stand before any other, whose product with the length need not be addressable.
            while i > 0 && Some(old[i - 1].1) == stride.checked_mul(run) {
                run *= old[i - 1].0;
                i -= 1;
            }
            let (mut taken, mut step) = (1usize, stride);
            while let Some(&axis) = new.peek() {
                if taken == run && shape[axis] != 1 {
                    break;
                }
                if run % (taken * shape[axis]) != 0 {
                    return None;
                }
                strides[axis] = step;
                step = step.saturating_mul(shape[axis]);
                taken *= shape[axis];
                new.next();
            }
            if taken != run {
                return None;
            }
        }
        Some(strides)
    }

    /// The fewest dimensions with the same elements in the same order: neighbours merged, length 1 dropped.
    ///
    /// Kernels loop over this instead of the shape a person chose.
    pub fn collapsed(&self) -> Layout {
        let mut dims = Dims::new();
        let mut strides = Dims::new();
        for (&dim, &stride) in self.shape.iter().zip(&self.strides) {
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
        Layout { shape: Shape::trusted(dims), strides, offset: self.offset }
    }

    /// The same shape and strides at another offset.
    ///
    /// # Errors
    /// If the farthest element cannot be addressed from there.
    pub fn at_offset(mut self, offset: usize) -> Result<Layout> {
        if self.checked_end(offset).is_none() {
            return Err(Error::argument(
                "layout",
                format!(
                    "the farthest element of shape {} with strides {:?} at offset {offset} cannot be addressed",
                    self.shape,
                    &self.strides[..]
                ),
            ));
        }
        self.offset = offset;
        Ok(self)
    }

    /// One past the index of the farthest element from another offset, with lengths of 0 taken for 1.
    fn checked_end(&self, offset: usize) -> Option<usize> {
        self.shape.iter().zip(&self.strides).try_fold(offset.checked_add(1)?, |end, (&dim, &stride)| {
            dim.saturating_sub(1).checked_mul(stride)?.checked_add(end)
        })
    }

    /// The indices of the elements in row-major order.
    pub fn indices(&self) -> Indices<'_> {
        Indices {
            layout: self,
            position: SmallVec::from_elem(0, self.ndim()),
            next: (self.numel() != 0).then_some(self.offset),
        }
    }
}

/// Iterator over the element indices of a [`Layout`]; see [`Layout::indices`].
pub struct Indices<'a> {
    layout: &'a Layout,
    position: Dims,
    next: Option<usize>,
}

impl Iterator for Indices<'_> {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        let current = self.next?;
        let mut index = current;
        self.next = None;
        for axis in (0..self.layout.ndim()).rev() {
            let stride = self.layout.strides[axis];
            self.position[axis] += 1;
            if self.position[axis] < self.layout.shape[axis] {
                self.next = Some(index + stride);
                break;
            }
            self.position[axis] = 0;
            index -= stride * (self.layout.shape[axis] - 1);
        }
        Some(current)
    }
}
