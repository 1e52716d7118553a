//! Tensors with PyTorch's semantics on the hybrid executor.
