//! Shapes, axes and broadcasting.

use crate::{Error, Result};
use smallvec::SmallVec;
use std::fmt;
use std::mem::MaybeUninit;
use std::ops::Deref;

/// A short list of sizes, strides or axes, held inline up to rank 6.
pub type Dims = SmallVec<[usize; 6]>;

/// The lengths of a tensor's dimensions, outermost first. Rank 0 is a scalar; a zero length makes an empty tensor.
///
/// The product of the lengths always fits in `usize`, so [`numel`](Shape::numel) cannot overflow.
#[derive(PartialEq, Eq, Hash, Default)]
pub struct Shape(Dims);

impl Clone for Shape {
    #[inline]
    fn clone(&self) -> Shape {
        Shape(copied(&self.0))
    }
}

/// A copy of a list: a few moves where it is inline, while the derived clone goes from element to element.
#[inline]
pub(crate) fn copied(list: &Dims) -> Dims {
    if list.spilled() {
        return Dims::from_slice(list);
    }
    // SAFETY: an inline list is plain numbers and their count; it owns nothing, so a second one of the same bits is a list of
    // its own.
    unsafe { std::ptr::read(list) }
}

/// Copies a list to where it is to stay. A list that is returned by value goes over the stack in pieces of other sizes than it is
/// read in, which costs more than the copy.
#[inline(always)]
pub(crate) fn copy_in<'a>(list: &Dims, place: &'a mut MaybeUninit<Dims>) -> &'a mut Dims {
    if list.spilled() {
        return place.write(Dims::from_slice(list));
    }
    // SAFETY: as in `copied`; the place is another list's, and initialised by this.
    unsafe {
        std::ptr::copy_nonoverlapping(list, place.as_mut_ptr(), 1);
        place.assume_init_mut()
    }
}

impl Shape {
    /// Writes a copy of the shape to where it is to stay.
    #[inline(always)]
    pub fn copy_in(&self, place: &mut MaybeUninit<Shape>) {
        // SAFETY: a shape is its list, which is initialised by this.
        copy_in(&self.0, unsafe { &mut *(&raw mut (*place.as_mut_ptr()).0).cast() });
    }

    /// A shape of the given lengths.
    ///
    /// # Errors
    /// If the number of elements overflows `usize`.
    pub fn new(dims: impl Into<Dims>) -> Result<Shape> {
        let dims = dims.into();
        let mut elements = 1usize;
        // Zero lengths are left out of the product, so that no reordering of an accepted shape can overflow.
        for &d in dims.iter().filter(|&&d| d != 0) {
            elements = elements.checked_mul(d).ok_or_else(|| {
                Error::argument(
                    "shape",
                    format!("a tensor of shape {:?} has more elements than can be addressed", &dims[..]),
                )
            })?;
        }
        Ok(Shape(dims))
    }

    /// The shape of a scalar.
    pub fn scalar() -> Shape {
        Shape::default()
    }

    /// A shape whose lengths are a subset, a permutation or a product-preserving regrouping of an existing shape's,
    /// so that no overflow is possible.
    pub(crate) fn trusted(dims: Dims) -> Shape {
        Shape(dims)
    }

    /// The lengths as they are kept.
    #[inline]
    pub(crate) fn list(&self) -> &Dims {
        &self.0
    }

    /// The lengths, to be made a subset, a permutation or a regrouping of what they are; see [`trusted`](Self::trusted).
    #[inline]
    pub(crate) fn list_mut(&mut self) -> &mut Dims {
        &mut self.0
    }

    /// Whether the lengths are on the heap, as above rank 6.
    #[inline]
    pub fn is_spilled(&self) -> bool {
        self.0.spilled()
    }

    /// The lengths.
    #[inline]
    pub fn dims(&self) -> &[usize] {
        &self.0
    }

    /// The number of dimensions.
    #[inline]
    pub fn ndim(&self) -> usize {
        self.0.len()
    }

    /// The number of elements: the product of the lengths, 1 for a scalar.
    #[inline]
    pub fn numel(&self) -> usize {
        self.0.iter().product()
    }

    /// The row-major strides, in elements.
    #[inline]
    pub fn contiguous_strides(&self) -> Dims {
        // The lengths are overwritten: copying them at once makes room faster than pushing.
        let mut strides = copied(&self.0);
        let mut step = 1usize;
        for (stride, &dim) in strides.iter_mut().zip(self.0.iter()).rev() {
            *stride = step;
            step = step.saturating_mul(dim.max(1));
        }
        strides
    }

    /// Turns an axis that may count from the end (−1 is the last) into an index.
    ///
    /// # Errors
    /// [`Error::Axis`] if it is out of range. A scalar accepts 0 and −1, as in PyTorch.
    pub fn axis(&self, op: &'static str, axis: isize) -> Result<usize> {
        resolve_axis(op, axis, self.ndim())
    }

    /// The shape to which both broadcast: aligned at the last dimension, lengths equal or 1.
    pub fn broadcast(&self, other: &Shape, op: &'static str) -> Result<Shape> {
        if self == other {
            return Ok(self.clone());
        }
        let ndim = self.ndim().max(other.ndim());
        let mut dims: Dims = SmallVec::from_elem(1, ndim);
        for (i, dim) in dims.iter_mut().enumerate() {
            let a = self.dim_from_end(ndim - i);
            let b = other.dim_from_end(ndim - i);
            *dim = match (a, b) {
                (a, b) if a == b => a,
                (1, b) => b,
                (a, 1) => a,
                _ => {
                    return Err(Error::shape(
                        op,
                        format!(
                            "sizes {a} and {b} of dimension {i} do not broadcast; they must be equal or one of them 1"
                        ),
                        [self, other],
                    ));
                }
            };
        }
        Shape::new(dims)
    }

    /// The length `n` places from the end (1 is the last), 1 beyond the first.
    #[inline]
    fn dim_from_end(&self, n: usize) -> usize {
        if n <= self.ndim() { self.0[self.ndim() - n] } else { 1 }
    }

    /// The shape with dimension `axis` given another length.
    pub fn with_dim(&self, axis: usize, len: usize) -> Result<Shape> {
        let mut dims = self.0.clone();
        dims[axis] = len;
        Shape::new(dims)
    }

    /// The shape that a reduction over `axes` leaves; `keepdim` keeps them with length 1.
    pub fn reduced(&self, axes: &[usize], keepdim: bool) -> Shape {
        let kept = self.0.iter().enumerate();
        Shape(if keepdim {
            kept.map(|(i, &d)| if axes.contains(&i) { 1 } else { d }).collect()
        } else {
            kept.filter(|(i, _)| !axes.contains(i)).map(|(_, &d)| d).collect()
        })
    }
}

/// Turns an axis that may count from the end into an index below `rank`; a scalar accepts 0 and −1.
pub fn resolve_axis(op: &'static str, axis: isize, ndim: usize) -> Result<usize> {
    let n = ndim.max(1) as isize;
    if axis < -n || axis >= n {
        return Err(Error::Axis { op, axis, ndim });
    }
    Ok(if axis < 0 { axis + n } else { axis } as usize)
}

impl Deref for Shape {
    type Target = [usize];
    #[inline]
    fn deref(&self) -> &[usize] {
        &self.0
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0[..], f)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0[..], f)
    }
}
