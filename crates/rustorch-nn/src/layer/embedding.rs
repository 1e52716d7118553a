//! A table of vectors.

use super::options::{of_layer, options};
use crate::{ExtraRepr, Layer, Module, Parameter, init};
use rustorch_tensor::autograd::no_grad;
use rustorch_tensor::{Error, Result, Tensor, TensorOptions};

options! {
    /// How an [`Embedding`] is made: optional arguments of `torch.nn.Embedding` with their defaults.
    EmbeddingOptions {
        /// A row that gets no gradient; zeros at first.
        padding_idx: into Option<usize> = None;
    }
}

/// A normally distributed table `[rows, columns]`, whose padding row is zeros.
pub(super) fn table(
    layer: &'static str,
    shape: [usize; 2],
    padding_idx: Option<usize>,
    options: TensorOptions,
) -> Result<Parameter> {
    let weight = init::normal(shape, 0.0, 1.0, options)?;
    if let Some(row) = padding_idx {
        if row >= shape[0] {
            let message = format!("padding_idx {row} is outside of {} rows", shape[0]);
            return Err(Error::argument(layer, message));
        }
        no_grad(|| weight.select(0, row as isize)?.zero_())?;
    }
    Parameter::new(weight)
}

/// Rows of a table by their indices, as `torch.nn.Embedding`: `[..]` of integers → `[.., embedding_dim]`.
///
/// `weight: [num_embeddings, embedding_dim]` starts normally distributed.
///
/// ```
/// use rustorch_nn::{Embedding, EmbeddingOptions, Layer};
/// use rustorch_tensor::{DType, Tensor};
/// let embedding = Embedding::new(10, 3, DType::F32)?;
/// assert_eq!(embedding.forward(&Tensor::new([[1i64, 2, 4], [4, 3, 9]])?)?.dims(), [2, 3, 3]);
/// let padded = Embedding::with(10, 3, EmbeddingOptions::default().padding_idx(0))?;
/// assert_eq!(padded.forward(&Tensor::new([0i64])?)?.to_vec::<f32>()?, [0.0; 3]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Debug, rustorch_macros::Module)]
#[module(extra_repr = Self::describe)]
pub struct Embedding {
    /// `[num_embeddings, embedding_dim]`
    pub weight: Parameter,
    #[module(skip)]
    padding_idx: Option<usize>,
}

impl Embedding {
    /// A table without a padding row.
    ///
    /// # Errors
    /// If the dtype is none of floats, or memory does not suffice.
    pub fn new(
        num_embeddings: usize,
        embedding_dim: usize,
        options: impl Into<TensorOptions>,
    ) -> Result<Embedding> {
        Embedding::with(num_embeddings, embedding_dim, EmbeddingOptions::default().tensor(options))
    }

    /// A table.
    ///
    /// # Errors
    /// If there is no row `padding_idx`, the dtype is none of floats, or memory does not suffice.
    pub fn with(num_embeddings: usize, embedding_dim: usize, options: EmbeddingOptions) -> Result<Embedding> {
        let EmbeddingOptions { padding_idx, tensor } = options;
        let weight = table("Embedding", [num_embeddings, embedding_dim], padding_idx, tensor)?;
        Ok(Embedding { weight, padding_idx })
    }

    fn describe(&self, extra: &mut ExtraRepr) {
        let weight = self.weight.tensor();
        extra.value(&weight.dims()[0]).value(&weight.dims()[1]);
        extra.named_unless("padding_idx", &self.padding_idx, &None);
    }
}

impl Layer for Embedding {
    #[rustorch_macros::observed]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let forward = || {
            let rows = self.weight.tensor().embedding(x)?;
            match self.padding_idx {
                Some(padding) if rows.requires_grad() => {
                    let is_padding = x.to_device(rows.device())?.eq(padding as i64)?.unsqueeze(-1)?;
                    is_padding.where_cond(&rows.detach(), &rows)
                }
                _ => Ok(rows),
            }
        };
        forward().map_err(of_layer(self.type_name()))
    }
}
