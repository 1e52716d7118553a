//! A table of vectors.

use crate::{Layer, Parameter, init};
use rustorch_tensor::{Result, Tensor, TensorOptions};

/// Rows of a table by their numbers, as `torch.nn.Embedding`: `[..]` of integers → `[.., embedding_dim]`.
///
/// `weight: [num_embeddings, embedding_dim]` starts normally distributed.
///
/// ```
/// use rustorch_nn::{Embedding, Layer};
/// use rustorch_tensor::{DType, Tensor};
/// let embedding = Embedding::new(10, 3, DType::F32)?;
/// assert_eq!(embedding.forward(&Tensor::new([[1i64, 2, 4], [4, 3, 9]])?)?.dims(), [2, 3, 3]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Debug, rustorch_macros::Module)]
pub struct Embedding {
    /// `[num_embeddings, embedding_dim]`
    pub weight: Parameter,
}

impl Embedding {
    /// A table.
    ///
    /// # Errors
    /// If the dtype is none of floats, or memory does not suffice.
    pub fn new(
        num_embeddings: usize,
        embedding_dim: usize,
        options: impl Into<TensorOptions>,
    ) -> Result<Embedding> {
        let weight = init::normal([num_embeddings, embedding_dim], 0.0, 1.0, options)?;
        Ok(Embedding { weight: Parameter::new(weight)? })
    }
}

impl Layer for Embedding {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.weight.tensor().embedding(x)
    }
}
