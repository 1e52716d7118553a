//! Texts as vectors, and the scores that a reranker gives texts for a query, as llama.cpp computes them.
//!
//! ```no_run
//! use rustorch_llm::LanguageModel;
//! use rustorch_llm::embedding::{Normalization, normalize};
//! use rustorch_llm::tokenizer::EncodeOptions;
//!
//! let model = LanguageModel::open("bge-small-en-v1.5-f16.gguf")?;
//! let pooling = model.model().pooling();
//! let vectors = model.embed("The king of the grey sea", pooling, EncodeOptions::default())?.vectors;
//! let mut vector = vectors.to_vec::<f32>()?;
//! normalize(&mut vector, Normalization::EUCLIDEAN);
//!
//! let reranker = LanguageModel::open("bge-reranker-v2-m3-Q8_0.gguf")?;
//! let score = reranker.relevance("Who is the king?", "Nobody knows.")?;
//! # Ok::<(), rustorch_llm::Error>(())
//! ```

mod normalization;
mod rerank;

pub use normalization::{Normalization, normalize};

use crate::model::Pooling;
use crate::tokenizer::EncodeOptions;
use crate::{Error, LanguageModel, Result};
use rustorch_tensor::Tensor;

/// What a text becomes.
#[derive(Clone, Debug)]
pub struct Embedding {
    /// `[1, width]` in `f32`, or with [`Pooling::None`] a row for each token; with [`Pooling::Rank`] the scores of all labels.
    pub vectors: Tensor,
    /// How many tokens the text has.
    pub tokens: usize,
}

impl LanguageModel {
    /// The vector of a text, or what else `pooling` makes of it: [`Model::pooling`](crate::model::Model::pooling) is what the file says.
    ///
    /// # Errors
    /// If the model has no tokenizer or, for [`Pooling::Rank`], no classifier; if the text has no tokens, or more than the model's context; if
    /// an operation fails.
    pub fn embed(&self, text: &str, pooling: Pooling, encode: EncodeOptions) -> Result<Embedding> {
        let ids = self.tokenizer()?.encode(text, encode);
        Ok(Embedding { vectors: self.pooled(&ids, pooling)?, tokens: ids.len() })
    }

    /// What `pooling` makes of the hidden states of these tokens.
    fn pooled(&self, ids: &[u32], pooling: Pooling) -> Result<Tensor> {
        let (model, context) = (self.model(), self.model().config().context);
        match ids.len() {
            0 => Err(Error::Request("an empty text has no tokens to embed".into())),
            n if n > context => {
                let message =
                    format!("a text of {n} tokens is longer than the {context} that the model reads");
                Err(Error::Request(message))
            }
            _ => model.pool(&model.hidden_states(ids)?, pooling),
        }
    }
}
