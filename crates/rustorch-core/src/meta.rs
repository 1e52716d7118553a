//! Tensor metadata for planning: dtype and layout, without data.

use crate::{DType, Device, Error, Layout, Result, Shape};
use smallvec::SmallVec;

/// An argument of an operation, without its bytes.
#[derive(Clone, Copy, Debug)]
pub struct TensorMeta<'a> {
    /// The dtype.
    pub dtype: DType,
    /// Shape, strides and offset.
    pub layout: &'a Layout,
    /// Where the bytes are.
    pub device: Device,
}

impl<'a> TensorMeta<'a> {
    /// The shape.
    #[inline]
    pub fn shape(&self) -> &'a Shape {
        self.layout.shape()
    }

    /// The lengths.
    #[inline]
    pub fn dims(&self) -> &'a [usize] {
        self.layout.shape().dims()
    }

    /// The bytes of all elements, packed.
    pub fn packed_bytes(&self) -> usize {
        packed_bytes(self.dtype, self.layout.numel())
    }

    /// Checks that the dtype can have this layout: block types need whole blocks along one dimension of stride 1.
    pub fn check(&self, op: &'static str) -> Result<()> {
        let block = self.dtype.block_len();
        if block == 1 || self.layout.numel() == 0 {
            return Ok(());
        }
        let runs = self.layout.offset().is_multiple_of(block)
            && self.layout.dims().iter().zip(self.layout.strides()).filter(|&(&dim, _)| dim != 1).fold(
                (true, false),
                |(valid, row), (&dim, &stride)| match stride {
                    1 => (valid && !row && dim.is_multiple_of(block), true),
                    _ => (valid && stride.is_multiple_of(block), row),
                },
            ) == (true, true);
        if runs {
            return Ok(());
        }
        Err(Error::shape(
            op,
            format!(
                "a {} tensor needs rows of whole blocks of {block}, but has strides {:?} at offset {}",
                self.dtype,
                self.layout.strides(),
                self.layout.offset()
            ),
            [self.shape()],
        ))
    }
}

/// Bytes of `elements` packed elements, block types rounded up to whole blocks.
#[inline]
pub fn packed_bytes(dtype: DType, elements: usize) -> usize {
    if let Some(size) = dtype.size() {
        return elements.saturating_mul(size);
    }
    elements.div_ceil(dtype.block_len()).saturating_mul(dtype.block_bytes())
}

/// A result that an operation will have: contiguous, freshly allocated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputMeta {
    /// The dtype.
    pub dtype: DType,
    /// The shape.
    pub shape: Shape,
}

/// The results that an operation will have; nearly always one.
pub type Outputs = SmallVec<[OutputMeta; 1]>;
