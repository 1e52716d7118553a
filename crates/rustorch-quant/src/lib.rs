//! ggml block formats: layout, bit-exact decoding, encoding.

mod block;
mod decode;
mod error;
mod grid;
mod le;

pub use block::*;
pub use decode::{decode, decode_blocks, expand};
pub use error::QuantError;
pub use le::{F16Le, F32Le, I16Le, U16Le};
