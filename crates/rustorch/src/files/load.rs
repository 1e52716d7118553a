//! How tensors come out of files.

use rustorch_formats::SharedBytes;
use rustorch_tensor::{Buffer, DType, Tensor};
use std::sync::Arc;

/// How tensors come out of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Load {
    /// Copied to the current device.
    Copied,
    /// As read-only memory that the file keeps.
    Mapped,
}

impl Load {
    /// A tensor of these bytes, row by row.
    pub(super) fn tensor(
        self,
        bytes: SharedBytes,
        dtype: DType,
        shape: &[usize],
    ) -> rustorch_tensor::Result<Tensor> {
        match self {
            Load::Copied => Tensor::from_bytes(&bytes, dtype, shape),
            Load::Mapped => {
                // SAFETY: `SharedBytes` holds its owner, which neither moves nor writes its bytes, by a reference count.
                let buffer = unsafe { Buffer::shared(Arc::new(bytes)) };
                Tensor::from_buffer(buffer, dtype, shape, 0)
            }
        }
    }
}
