//! ggml block formats: layout, bit-exact dequantization, quantization.
//!
//! A GGUF file stores most tensors as blocks: 32 to 256 values packed with their scales. This crate has, for each of the
//! 27 types of [`QuantType`](rustorch_core::QuantType):
//!
//! - the block as a struct with ggml's field names and alignment 1, such as [`BlockQ4K`], and [`blocks_of`] to see bytes
//!   as such blocks without a copy;
//! - [`dequantize`](fn@dequantize): its values, bit for bit those of gguf-py and ggml;
//! - [`expand`]: the same as `i8` codes with a scale and a minimum for each 16, for kernels on integers;
//! - [`quantize`](fn@quantize), with an importance matrix if there is one.
//!
//! [`quantize_q8_0`] and its siblings quantize activations as llama.cpp's CPU backend does on x86. Code that is
//! generic over the block types implements [`Visitor`] and is called by [`visit`].
//!
//! ```
//! use rustorch_core::QuantType;
//! use rustorch_quant::{BlockQ8_0, blocks_of, dequantize, quantize};
//!
//! let values: Vec<f32> = (0..64).map(|i| (i as f32 - 31.5) / 8.0).collect();
//! let mut blocks = vec![0; QuantType::Q8_0.bytes_for(values.len()).expect("64 is a multiple of 32")];
//! quantize(QuantType::Q8_0, &values, None, &mut blocks)?;
//! assert_eq!(blocks_of::<BlockQ8_0>(&blocks)?[1].qs[31], 127);
//!
//! let mut dequantized = vec![0.0; values.len()];
//! dequantize(QuantType::Q8_0, &blocks, &mut dequantized)?;
//! assert!(values.iter().zip(&dequantized).all(|(x, y)| (x - y).abs() < 0.02));
//! # Ok::<(), rustorch_quant::QuantError>(())
//! ```

mod activation;
mod block;
mod dequantize;
mod error;
mod grid;
mod le;
mod quantize;

pub use activation::{quantize_q8_0, quantize_q8_1, quantize_q8_k};
pub use block::*;
pub use dequantize::{dequantize, dequantize_blocks, expand};
pub use error::QuantError;
pub use le::{F16Le, F32Le, I16Le, U16Le};
pub use quantize::quantize;
