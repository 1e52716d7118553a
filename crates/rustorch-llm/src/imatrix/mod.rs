//! Activation statistics: the squares of what each weight is multiplied with, from which importance matrices are made.
//!
//! Collected while texts run through a model, and kept in the file format of llama.cpp's `llama-imatrix`.
//!
//! ```no_run
//! use rustorch_llm::LanguageModel;
//! use rustorch_llm::evaluate::Chunks;
//! use rustorch_llm::imatrix::{ActivationStatistics, CollectOptions, collect};
//!
//! let model = LanguageModel::open("model.gguf")?;
//! let chunks = Chunks::of_text(&model, &std::fs::read_to_string("text.txt")?, 512, None)?;
//! let mut statistics = ActivationStatistics::new(chunks.context());
//! collect(&model, &chunks, &CollectOptions::default(), &mut statistics, &mut |_| {})?;
//! statistics.add_dataset("text.txt");
//! statistics.write("imatrix.gguf")?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod collect;
mod error;
mod file;
mod legacy;
mod statistics;

pub use collect::{CollectOptions, collect};
pub use error::ImatrixError;
pub use statistics::{ActivationStatistics, SquareSums};
