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
        /// Rows of a larger norm are scaled to this one, in the table, when they are looked up.
        max_norm: into Option<f64> = None;
        /// The p of the norm for `max_norm`.
        norm_type: plain f64 = 2.0;
        /// Whether the gradient of each row is divided by how often its index occurs in the call.
        scale_grad_by_freq: plain bool = false;
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
/// `weight: [num_embeddings, embedding_dim]` starts normally distributed. Its gradient is dense: there is no counterpart of PyTorch's
/// `sparse`.
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
    #[module(skip)]
    max_norm: Option<f64>,
    norm_type: f64,
    scale_grad_by_freq: bool,
}

/// Scales those rows at the indices whose norm is larger.
fn renorm(weight: &Tensor, indices: &Tensor, max_norm: f64, norm_type: f64) -> Result<()> {
    // What PyTorch adds to norms.
    const EPS: f64 = 1e-7;
    no_grad(|| {
        let indices = indices.reshape([indices.numel()])?;
        let rows = weight.embedding(&indices)?;
        let norms = rows.norm(norm_type, -1, true)?;
        let scaled = rows.mul(max_norm)?.div(&norms.add(EPS)?)?;
        // A row that is looked up twice is written twice, alike.
        weight.index_copy_(0, &indices, &norms.gt(max_norm)?.where_cond(&scaled, &rows)?)
    })
}

/// How often each index occurs among all, as a float, for a table of so many rows.
fn frequencies(indices: &Tensor, weight: &Tensor) -> Result<Tensor> {
    let flat = indices.reshape([indices.numel()])?;
    let like_weight = (weight.dtype(), weight.device());
    let ones = Tensor::ones(flat.dims(), like_weight)?;
    let counts = Tensor::zeros([weight.dims()[0]], like_weight)?.index_add(0, &flat, &ones)?;
    counts.index_select(0, &flat)?.reshape(indices.dims())
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
    /// If there is no row `padding_idx`, `max_norm` is negative or NaN, the dtype is none of floats, or memory does not suffice.
    pub fn with(num_embeddings: usize, embedding_dim: usize, options: EmbeddingOptions) -> Result<Embedding> {
        let EmbeddingOptions { padding_idx, max_norm, norm_type, scale_grad_by_freq, tensor } = options;
        if let Some(max_norm) = max_norm.filter(|&max_norm| max_norm.is_nan() || max_norm < 0.0) {
            let message = format!("max_norm must be at least 0, and is {max_norm}");
            return Err(Error::argument("Embedding", message));
        }
        let weight = table("Embedding", [num_embeddings, embedding_dim], padding_idx, tensor)?;
        Ok(Embedding { weight, padding_idx, max_norm, norm_type, scale_grad_by_freq })
    }

    fn describe(&self, extra: &mut ExtraRepr) {
        let weight = self.weight.tensor();
        extra.value(&weight.dims()[0]).value(&weight.dims()[1]);
        extra.named_unless("padding_idx", &self.padding_idx, &None);
        extra.named_unless("max_norm", &self.max_norm, &None).named_unless(
            "norm_type",
            &self.norm_type,
            &2.0,
        );
        extra.named_unless("scale_grad_by_freq", &self.scale_grad_by_freq, &false);
    }
}

impl Layer for Embedding {
    #[rustorch_macros::observed]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let forward = || {
            let weight = self.weight.tensor();
            let indices = x.to_device(weight.device())?;
            if let Some(max_norm) = self.max_norm {
                renorm(&weight, &indices, max_norm, self.norm_type)?;
            }
            let rows = weight.embedding(&indices)?;
            if !rows.requires_grad() {
                return Ok(rows);
            }
            if self.scale_grad_by_freq {
                let counts = frequencies(&indices, &weight)?.unsqueeze(-1)?;
                rows.register_hook(move |grad| grad.div(&counts).map(Some))?;
            }
            match self.padding_idx {
                Some(padding) => {
                    let is_padding = indices.eq(padding as i64)?.unsqueeze(-1)?;
                    is_padding.where_cond(&rows.detach(), &rows)
                }
                None => Ok(rows),
            }
        };
        forward().map_err(of_layer(self.type_name()))
    }
}
