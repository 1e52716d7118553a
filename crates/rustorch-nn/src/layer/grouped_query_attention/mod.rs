//! Attention whose queries share keys and values.

mod cache;

pub use cache::KeyValueCache;

use super::options::{of_layer, options};
use crate::{Layer, Linear, LinearOptions, Module, RotaryEmbedding, Training};
use rustorch_tensor::autograd::no_grad;
use rustorch_tensor::{AttentionOptions, DType, Error, Result, Tensor};

options! {
    /// How a [`GroupedQueryAttention`] is made.
    GroupedQueryAttentionOptions {
        /// The width of a head; `None` is `embed_dim / num_heads`.
        head_dim: into Option<usize> = None;
        /// Whether the projections have biases.
        bias: plain bool = false;
        /// The probability with which a weight becomes zero while training.
        dropout: plain f64 = 0.0;
        /// Whether each position sees itself and those before it only.
        is_causal: plain bool = true;
        /// What turns queries and keys by their positions.
        rotary: into Option<RotaryEmbedding> = None;
    }
}

/// Self-attention in which `num_heads / num_kv_heads` heads of queries share one head of keys and values, whose cache is that much smaller:
/// `[n, l, embed_dim] → [n, l, embed_dim]`, or without `n`. One head of keys for each of queries is ordinary attention, one for all
/// multi-query attention.
///
/// Fields have the names of LLaMA's checkpoints. PyTorch has no such module, but the function, `scaled_dot_product_attention` with
/// `enable_gqa`.
///
/// Ainslie et al.: *GQA: Training Generalized Multi-Query Transformer Models from Multi-Head Checkpoints*, 2023.
///
/// ```
/// use rustorch_nn::{GroupedQueryAttention, GroupedQueryAttentionOptions, KeyValueCache, Layer, RotaryEmbedding};
/// use rustorch_tensor::{DType, Tensor};
/// let options = GroupedQueryAttentionOptions::default().rotary(RotaryEmbedding::new(4)?);
/// let attention = GroupedQueryAttention::with(16, 4, 2, options)?;
/// let x = Tensor::randn([1, 5, 16], DType::F32)?;
/// let whole = attention.forward(&x)?;
/// // The same, position by position.
/// let mut cache = KeyValueCache::new();
/// for i in 0..5 {
///     let y = attention.forward_cached(&x.narrow(1, i, 1)?, &mut cache)?;
///     assert!(y.allclose(&whole.narrow(1, i, 1)?, 1e-4, 1e-5, false)?);
/// }
/// assert_eq!(cache.len(), 5);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Debug, rustorch_macros::Module)]
pub struct GroupedQueryAttention {
    /// From `embed_dim` to `num_heads · head_dim`.
    pub q_proj: Linear,
    /// From `embed_dim` to `num_kv_heads · head_dim`.
    pub k_proj: Linear,
    /// From `embed_dim` to `num_kv_heads · head_dim`.
    pub v_proj: Linear,
    /// From `num_heads · head_dim` to `embed_dim`.
    pub o_proj: Linear,
    rotary: Option<RotaryEmbedding>,
    embed_dim: usize,
    head_dim: usize,
    dropout: f64,
    is_causal: bool,
    training: Training,
}

impl GroupedQueryAttention {
    /// Causal attention without biases and without rotary embedding.
    ///
    /// # Errors
    /// If the width is no multiple of `num_heads`, or that none of `num_kv_heads`, or memory does not suffice.
    pub fn new(embed_dim: usize, num_heads: usize, num_kv_heads: usize) -> Result<GroupedQueryAttention> {
        GroupedQueryAttention::with(
            embed_dim,
            num_heads,
            num_kv_heads,
            GroupedQueryAttentionOptions::default(),
        )
    }

    /// Attention.
    ///
    /// # Errors
    /// If `head_dim` is not given and the width is no multiple of `num_heads`, that is none of `num_kv_heads`, `dropout` is no probability,
    /// the dtype is none of floats, or memory does not suffice.
    pub fn with(
        embed_dim: usize,
        num_heads: usize,
        num_kv_heads: usize,
        options: GroupedQueryAttentionOptions,
    ) -> Result<GroupedQueryAttention> {
        let wrong = |message| Err(Error::argument("GroupedQueryAttention", message));
        let GroupedQueryAttentionOptions { head_dim, bias, dropout, is_causal, rotary, tensor } = options;
        if num_kv_heads == 0 || num_heads == 0 || !num_heads.is_multiple_of(num_kv_heads) {
            return wrong(format!("num_heads {num_heads} must be a multiple of num_kv_heads {num_kv_heads}"));
        }
        let head_dim = match head_dim {
            Some(0) => return wrong("head_dim must be at least 1".into()),
            Some(head_dim) => head_dim,
            None if embed_dim == 0 || !embed_dim.is_multiple_of(num_heads) => {
                return wrong(format!("embed_dim {embed_dim} must be a multiple of num_heads {num_heads}"));
            }
            None => embed_dim / num_heads,
        };
        if !(0.0..=1.0).contains(&dropout) {
            return wrong(format!("dropout must be a probability, from 0 to 1, and is {dropout}"));
        }
        let linear = |from, to| Linear::with(from, to, LinearOptions::default().bias(bias).tensor(tensor));
        Ok(GroupedQueryAttention {
            q_proj: linear(embed_dim, num_heads * head_dim)?,
            k_proj: linear(embed_dim, num_kv_heads * head_dim)?,
            v_proj: linear(embed_dim, num_kv_heads * head_dim)?,
            o_proj: linear(num_heads * head_dim, embed_dim)?,
            rotary,
            embed_dim,
            head_dim,
            dropout,
            is_causal,
            training: Training::default(),
        })
    }

    /// The result with a mask that broadcasts to `[n, num_heads, l, l]`: where `Bool`, true takes part, as in
    /// [`Tensor::scaled_dot_product_attention`]; else it is added to the scores.
    ///
    /// # Errors
    /// If shapes or dtypes do not fit.
    #[rustorch_macros::observed]
    pub fn forward_with(&self, x: &Tensor, mask: Option<&Tensor>) -> Result<Tensor> {
        let forward = || {
            let [q, k, v] = self.heads(x, 0)?;
            self.attend(&q, &k, &v, mask, self.is_causal)
        };
        forward().map_err(of_layer(self.type_name()))
    }

    /// The result for positions after those in a cache, which takes their keys and values: all at once or position after position, the
    /// results are the same. This is for generating: no gradient is recorded.
    ///
    /// # Errors
    /// If shapes or dtypes do not fit, or not those in the cache, or the attention is not causal: earlier positions would have to see
    /// later ones.
    #[rustorch_macros::observed]
    pub fn forward_cached(&self, x: &Tensor, cache: &mut KeyValueCache) -> Result<Tensor> {
        if !self.is_causal {
            return Err(Error::argument(self.type_name(), "only causal attention has a cache"));
        }
        let forward = || {
            let before = cache.len();
            let [q, k, v] = self.heads(x, before)?;
            let [k, v] = cache.append(&k, &v)?;
            let new = q.dims()[q.ndim() - 2];
            if before == 0 || new == 1 {
                return self.attend(&q, &k, &v, None, before == 0);
            }
            let seen = Tensor::ones([new, before + new], (DType::Bool, x.device()))?.tril(before as i64)?;
            self.attend(&q, &k, &v, Some(&seen), false)
        };
        no_grad(forward).map_err(of_layer(self.type_name()))
    }

    /// Queries, keys and values, `[.., heads, l, head_dim]`, of positions from `start` on.
    fn heads(&self, x: &Tensor, start: usize) -> Result<[Tensor; 3]> {
        if !matches!(x.ndim(), 2 | 3) || x.dims().last() != Some(&self.embed_dim) {
            let width = self.embed_dim;
            let message = format!("takes [n, l, {width}], or [l, {width}] for a single sequence");
            return Err(Error::shape(self.type_name(), message, [x.shape()]));
        }
        let heads = |linear: &Linear| {
            let y = linear.forward(x)?;
            let count = y.dims()[y.ndim() - 1] / self.head_dim;
            y.unflatten(-1, [count, self.head_dim])?.transpose(-3, -2)
        };
        let turned = |x: Tensor| match &self.rotary {
            Some(rotary) => rotary.forward_from(&x, start),
            None => Ok(x),
        };
        Ok([turned(heads(&self.q_proj)?)?, turned(heads(&self.k_proj)?)?, heads(&self.v_proj)?])
    }

    fn attend(
        &self,
        q: &Tensor,
        k: &Tensor,
        v: &Tensor,
        mask: Option<&Tensor>,
        is_causal: bool,
    ) -> Result<Tensor> {
        let dropout_p = if self.training.get() { self.dropout } else { 0.0 };
        let options = AttentionOptions { mask, dropout_p, is_causal, scale: None };
        let y = Tensor::scaled_dot_product_attention_with(q, k, v, &options)?;
        self.o_proj.forward(&y.transpose(-3, -2)?.flatten(-2, -1)?)
    }
}

impl Layer for GroupedQueryAttention {
    #[rustorch_macros::observed]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.forward_with(x, None)
    }
}
