//! The outer dimensions of a joint loop.

use super::map::Loop;
use rustorch_core::Dims;
use smallvec::SmallVec;
use std::ops::Range;

/// The dimensions of a joint loop but for some, with the strides of its first `N` operands, of which the first is the output.
pub(super) struct Outer<const N: usize> {
    dims: SmallVec<[(usize, [usize; N]); 4]>,
}

impl<const N: usize> Outer<N> {
    pub(super) fn new(joint: &Loop, without: &[usize]) -> Outer<N> {
        let axes = (0..joint.dims.len()).filter(|axis| !without.contains(axis));
        let strides = |axis: usize| std::array::from_fn(|i| joint.operands[i].strides[axis]);
        Outer { dims: axes.map(|axis| (joint.dims[axis], strides(axis))).collect() }
    }

    pub(super) fn count(&self) -> usize {
        self.dims.iter().map(|(dim, _)| dim).product()
    }

    /// Calls a function with the indices of the positions of a range, in row-major order.
    pub(super) fn each(&self, range: Range<usize>, mut each: impl FnMut([usize; N])) {
        let mut position = Dims::from_elem(0, self.dims.len());
        let (mut indices, mut rest) = ([0; N], range.start);
        for (position, (dim, strides)) in position.iter_mut().zip(&self.dims).rev() {
            *position = rest % dim;
            rest /= dim;
            indices = std::array::from_fn(|i| indices[i] + *position * strides[i]);
        }
        for _ in range {
            each(indices);
            for (position, (dim, strides)) in position.iter_mut().zip(&self.dims).rev() {
                *position += 1;
                if *position < *dim {
                    indices = std::array::from_fn(|i| indices[i] + strides[i]);
                    break;
                }
                indices = std::array::from_fn(|i| indices[i] - (*dim - 1) * strides[i]);
                *position = 0;
            }
        }
    }
}
