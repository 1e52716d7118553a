//! Data to train on: tensors whose rows belong together, in shuffled batches.

mod dataset;

pub use dataset::{Batches, TensorDataset};
