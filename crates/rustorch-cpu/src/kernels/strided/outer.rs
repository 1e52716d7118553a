//! The outer dimensions of a joint loop.

use super::map::Loop;
use rustorch_core::Dims;
use smallvec::SmallVec;
use std::ops::Range;

/// The dimensions of a joint loop but for some, with the strides of its output and its argument.
pub(super) struct Outer {
    dims: SmallVec<[(usize, [usize; 2]); 4]>,
}

impl Outer {
    pub(super) fn new(joint: &Loop, without: &[usize]) -> Outer {
        let axes = (0..joint.dims.len()).filter(|axis| !without.contains(axis));
        let strides = |axis: usize| [0, 1].map(|i: usize| joint.operands[i].strides[axis]);
        Outer { dims: axes.map(|axis| (joint.dims[axis], strides(axis))).collect() }
    }

    pub(super) fn count(&self) -> usize {
        self.dims.iter().map(|(dim, _)| dim).product()
    }

    /// Calls a function with the indices of the positions of a range, in row-major order.
    pub(super) fn each(&self, range: Range<usize>, mut each: impl FnMut([usize; 2])) {
        let mut position = Dims::from_elem(0, self.dims.len());
        let (mut indices, mut rest) = ([0; 2], range.start);
        for (position, (dim, strides)) in position.iter_mut().zip(&self.dims).rev() {
            *position = rest % dim;
            rest /= dim;
            indices = [0, 1].map(|i| indices[i] + *position * strides[i]);
        }
        for _ in range {
            each(indices);
            for (position, (dim, strides)) in position.iter_mut().zip(&self.dims).rev() {
                *position += 1;
                if *position < *dim {
                    indices = [0, 1].map(|i| indices[i] + strides[i]);
                    break;
                }
                indices = [0, 1].map(|i| indices[i] - (*dim - 1) * strides[i]);
                *position = 0;
            }
        }
    }
}
