//! Layers with PyTorch's arguments and defaults, one file for each.

mod dropout;
mod embedding;
mod layer_norm;
mod linear;
mod sequential;

pub use dropout::Dropout;
pub use embedding::Embedding;
pub use layer_norm::LayerNorm;
pub use linear::{Linear, LinearOptions};
pub use sequential::{Function, IntoLayer, OfFunction, OfLayer, Sequential};
