//! Which tensors share memory.

use rustorch_tensor::Tensor;

/// What tells a tensor's storage from those of others while it lives.
pub(super) fn storage_id(tensor: &Tensor) -> usize {
    tensor.storage().identity().addr()
}

/// The elements of the storage from the tensor's first to behind its last.
pub(super) fn span(tensor: &Tensor) -> std::ops::Range<usize> {
    tensor.layout().offset()..tensor.layout().end()
}
