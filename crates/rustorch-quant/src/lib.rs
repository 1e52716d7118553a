//! ggml block formats: layout, bit-exact decoding, encoding.

mod block;
mod error;
mod le;

pub use block::*;
pub use error::QuantError;
pub use le::{F16Le, F32Le, I16Le, U16Le};
