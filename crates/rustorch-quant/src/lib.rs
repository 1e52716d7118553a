//! ggml block formats: layout, bit-exact decoding, encoding.

mod activation;
mod block;
mod decode;
mod encode;
mod error;
mod grid;
mod le;

pub use activation::{quantize_q8_0, quantize_q8_1, quantize_q8_k};
pub use block::*;
pub use decode::{decode, decode_blocks, expand};
pub use encode::{ENCODABLE, encode};
pub use error::QuantError;
pub use le::{F16Le, F32Le, I16Le, U16Le};
