//! The optional arguments of attention, and its masks.

use crate::layer::options::options;
use rustorch_tensor::{DType, Error, Result, Tensor};

const NAME: &str = "MultiheadAttention";

options! {
    /// How a [`MultiheadAttention`](crate::MultiheadAttention) is made: the optional arguments of `torch.nn.MultiheadAttention` with their defaults.
    MultiheadAttentionOptions {
        /// The probability with which a weight becomes zero while training.
        dropout: plain f64 = 0.0;
        /// Whether the projections have biases.
        bias: plain bool = true;
        /// Whether a learned key and value are added to every sequence.
        add_bias_kv: plain bool = false;
        /// Whether a key and a value of zeros are added to every sequence.
        add_zero_attn: plain bool = false;
        /// The width of keys; `None` is `embed_dim`.
        kdim: into Option<usize> = None;
        /// The width of values; `None` is `embed_dim`.
        vdim: into Option<usize> = None;
        /// Whether the batch is the first dimension of arguments and result, and the sequence the second.
        batch_first: plain bool = false;
    }
}

/// The optional arguments of [`MultiheadAttention::forward_with`](crate::MultiheadAttention::forward_with), with PyTorch's names and defaults. Masks are `Bool`, where true is what does
/// **not** take part, or floats, which are added to the scores.
#[derive(Clone, Copy, Debug)]
pub struct MultiheadAttentionCall<'a> {
    /// `[n, keys]`, or `[keys]` without a batch: which keys are padding.
    pub key_padding_mask: Option<&'a Tensor>,
    /// `[queries, keys]`, or `[n · heads, queries, keys]`: which keys each query sees.
    pub attn_mask: Option<&'a Tensor>,
    /// Whether the weights are returned, too.
    pub need_weights: bool,
    /// Whether these are the means over all heads.
    pub average_attn_weights: bool,
}

impl Default for MultiheadAttentionCall<'_> {
    fn default() -> Self {
        MultiheadAttentionCall {
            key_padding_mask: None,
            attn_mask: None,
            need_weights: true,
            average_attn_weights: true,
        }
    }
}

impl MultiheadAttentionCall<'_> {
    /// What is added to the scores of queries and keys `[n, heads, l, head_dim]`.
    pub(super) fn mask(&self, q: &Tensor, k: &Tensor) -> Result<Option<Tensor>> {
        let (n, heads, queries, keys) = (q.dims()[0], q.dims()[1], q.dims()[2], k.dims()[2]);
        let added = |mask: &Tensor| match mask.dtype() {
            DType::Bool => {
                Tensor::zeros(mask.dims(), (q.dtype(), q.device()))?.masked_fill(mask, f64::NEG_INFINITY)
            }
            dtype if dtype.is_float() => mask.to_dtype(q.dtype()),
            dtype => Err(Error::dtype(NAME, "masks are bool or floats", [dtype])),
        };
        let wrong = |what: &str, mask: &Tensor, message: String| {
            Err(Error::shape(NAME, format!("{what} must have shape {message}"), [mask.shape()]))
        };
        let padding = match self.key_padding_mask {
            None => None,
            Some(mask) if mask.dims() == [n, keys] || n == 1 && mask.dims() == [keys] => {
                Some(added(mask)?.reshape([n, 1, 1, keys])?)
            }
            Some(mask) => return wrong("key_padding_mask", mask, format!("[{n}, {keys}]")),
        };
        let attention = match self.attn_mask {
            None => None,
            Some(mask) if mask.dims() == [queries, keys] => {
                Some(added(mask)?.reshape([1, 1, queries, keys])?)
            }
            Some(mask) if mask.dims() == [n * heads, queries, keys] => {
                Some(added(mask)?.reshape([n, heads, queries, keys])?)
            }
            Some(mask) => {
                let message = format!("[{queries}, {keys}] or [{}, {queries}, {keys}]", n * heads);
                return wrong("attn_mask", mask, message);
            }
        };
        match (padding, attention) {
            (Some(padding), Some(attention)) => padding.add(&attention).map(Some),
            (padding, attention) => Ok(padding.or(attention)),
        }
    }
}
