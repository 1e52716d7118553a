//! Whether two views of one memory share elements.

use crate::Layout;
use smallvec::SmallVec;

/// How the elements of two layouts of one buffer and one dtype meet; see [`Layout::overlap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlap {
    /// They share none.
    None,
    /// Each element of one is the element of the other that has the same index.
    Exact,
    /// They share some, or whether they do would take long to find out.
    Partial,
}

impl Layout {
    /// How the elements of this layout meet those of another one of the same buffer and dtype.
    ///
    /// Parts of one tensor that slices and selections along the same dimensions make are told apart; of views that are less
    /// alike [`Overlap::Partial`] may be said though they share nothing.
    ///
    /// ```
    /// use rustorch_core::{Layout, Overlap, Shape};
    /// let x = Layout::contiguous(Shape::new([4, 4].as_slice())?);
    /// let (left, right) = (x.slice(1, 0, 2, 1)?, x.slice(1, 2, 2, 1)?);
    /// assert_eq!(left.overlap(&right), Overlap::None);
    /// assert_eq!(left.overlap(&left.clone()), Overlap::Exact);
    /// assert_eq!(x.overlap(&x.transpose(0, 1)?), Overlap::Partial);
    /// # Ok::<(), rustorch_core::Error>(())
    /// ```
    pub fn overlap(&self, other: &Layout) -> Overlap {
        let axes = || self.dims().iter().zip(self.strides()).zip(other.strides());
        if self.offset() == other.offset()
            && self.shape() == other.shape()
            && (self.strides() == other.strides() || axes().all(|((&dim, a), b)| dim == 1 || a == b))
        {
            return Overlap::Exact;
        }
        if self.numel() == 0 || other.numel() == 0 {
            return Overlap::None;
        }
        if self.end() <= other.offset() || other.end() <= self.offset() {
            return Overlap::None;
        }
        let (first, second) = if self.offset() <= other.offset() { (self, other) } else { (other, self) };
        if are_apart(first, second) { Overlap::None } else { Overlap::Partial }
    }
}

/// Whether two layouts, of which the second starts no earlier, are blocks of one grid that have no element in common. `false` where
/// they are not found to be blocks of a grid.
fn are_apart(first: &Layout, second: &Layout) -> bool {
    if first.ndim() != second.ndim() {
        return false;
    }
    // Stride and both lengths of each axis of the grid, from the farthest step to the nearest.
    let mut axes: SmallVec<[(usize, usize, usize); 6]> = SmallVec::new();
    for axis in 0..first.ndim() {
        let (a, b) = (first.dims()[axis], second.dims()[axis]);
        let (stride, other) = (first.strides()[axis], second.strides()[axis]);
        match (a, b) {
            (1, 1) => {}
            (1, _) => axes.push((other, a, b)),
            (_, 1) => axes.push((stride, a, b)),
            _ if stride == other => axes.push((stride, a, b)),
            _ => return false,
        }
    }
    axes.sort_unstable_by(|a, b| b.cmp(a));
    // Where in the grid of the first the second starts; what is left of the distance lies between the grid's elements.
    let mut rest = second.offset() - first.offset();
    let mut starts: SmallVec<[usize; 6]> = SmallVec::new();
    for &(stride, ..) in &axes {
        if stride == 0 {
            return false;
        }
        starts.push(rest / stride);
        rest %= stride;
    }
    // An index has one place in the grid, if what the nearer axes reach stays below each step.
    let mut reach = rest;
    for (&(stride, a, b), &start) in axes.iter().zip(&starts).rev() {
        let steps = (a - 1).max(start.saturating_add(b - 1));
        match steps.checked_mul(stride).and_then(|far| far.checked_add(reach)) {
            Some(far) if stride > reach => reach = far,
            _ => return false,
        }
    }
    rest != 0 || axes.iter().zip(&starts).any(|(&(_, a, _), &start)| start >= a)
}
