//! Layers and optimizers with PyTorch's names.

mod parameter;

pub use parameter::{Buffer, Parameter};
