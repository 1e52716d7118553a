//! Tensors of a file.

use crate::SharedBytes;
use rustorch_core::DType;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// What the tensor table says of a tensor, checked.
#[derive(Clone, Debug)]
pub(super) struct TensorInfo {
    pub(super) name: Arc<str>,
    /// Outermost dimension first.
    pub(super) shape: Vec<usize>,
    pub(super) dtype: DType,
    /// The place of the file that holds it among the parts.
    pub(super) part: usize,
    /// Where in that file its data is; within the file, and as long as shape and dtype say.
    pub(super) range: Range<usize>,
}

/// A tensor of a [`File`](super::File): its name, shape, dtype and bytes.
#[derive(Clone, Copy)]
pub struct TensorRef<'a> {
    info: &'a TensorInfo,
    file: &'a SharedBytes,
}

impl<'a> TensorRef<'a> {
    /// `file` must be the bytes of the part that `info` was read from.
    pub(super) fn new(info: &'a TensorInfo, file: &'a SharedBytes) -> Self {
        Self { info, file }
    }

    /// The name.
    pub fn name(&self) -> &'a str {
        &self.info.name
    }

    /// The shape in row-major order, outermost dimension first; at most four dimensions, none of length zero.
    ///
    /// The weight of a linear layer has the shape `[out, in]`.
    pub fn shape(&self) -> &'a [usize] {
        &self.info.shape
    }

    /// The dtype.
    pub fn dtype(&self) -> DType {
        self.info.dtype
    }

    /// The number of values.
    pub fn numel(&self) -> usize {
        // Checked when the file was parsed.
        self.info.shape.iter().product()
    }

    /// The number of bytes.
    pub fn nbytes(&self) -> usize {
        self.info.range.len()
    }

    /// The data, row by row: little-endian scalars, or blocks. No page of it is read before its first use.
    pub fn bytes(&self) -> &'a [u8] {
        &self.file[self.info.range.clone()]
    }

    /// The data with a share in the mapping or buffer that holds it, so that it may outlive the file object.
    pub fn shared_bytes(&self) -> SharedBytes {
        self.file.slice(self.info.range.clone()).expect("ranges are checked when the file is parsed")
    }

    /// Where the data begins, in bytes from the start of the file (of its part, if the file is split).
    pub fn offset(&self) -> usize {
        self.info.range.start
    }

    /// The part of a split file that holds the tensor, from 0.
    pub fn part(&self) -> usize {
        self.info.part
    }
}

impl fmt::Debug for TensorRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TensorRef")
            .field("name", &self.name())
            .field("shape", &self.shape())
            .field("dtype", &self.dtype())
            .field("part", &self.part())
            .field("offset", &self.offset())
            .finish()
    }
}
