//! How well a model predicts a text: perplexity, and how far a quantized model is from the one that it was made of.
//!
//! Both are what llama.cpp's `llama-perplexity` computes: a text's tokens go in [`Chunks`] of one length through an empty context each, and the
//! tokens of the second half of each chunk are scored, so that every scored token has a context of half a chunk at least.
//!
//! ```no_run
//! use rustorch_llm::LanguageModel;
//! use rustorch_llm::evaluate::{Chunks, perplexity};
//!
//! let model = LanguageModel::open("model.gguf")?;
//! let chunks = Chunks::of_text(&model, &std::fs::read_to_string("text.txt")?, 512, None)?;
//! let result = perplexity(&model, &chunks, None, &mut |chunk, so_far| {
//!     println!("[{chunk}] {:.4}", so_far.estimate().value);
//! })?;
//! println!("{:.4} ± {:.4}", result.estimate().value, result.estimate().uncertainty);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod chunks;
mod error;
mod kl_divergence;
mod log_probs;
mod moments;
mod perplexity;

pub use chunks::Chunks;
pub use error::EvaluateError;
pub use kl_divergence::{Distribution, KlDivergence, kl_divergence};
pub use log_probs::{LogProbsReader, LogProbsWriter};
pub use moments::Estimate;
pub use perplexity::{Perplexity, perplexity};

pub(crate) use chunks::ChunkRunner;
