//! Attention with several heads.

mod attend;
mod call;
mod out_proj;

pub use call::{MultiheadAttentionCall, MultiheadAttentionOptions};
pub use out_proj::NonDynamicallyQuantizableLinear;

use super::options::of_layer;
use crate::{Linear, LinearOptions, Module, Parameter, Training, init};
use rustorch_tensor::{Error, Result, Tensor, TensorOptions};

/// `Concat(head₁, ..) · out_projᵀ` with `headᵢ = softmax(qᵢ · kᵢᵀ / √head_dim) · vᵢ`, where qᵢ, kᵢ and vᵢ are parts of the projected queries, keys
/// and values, as `torch.nn.MultiheadAttention`: `[queries, n, embed_dim]`, `[keys, n, kdim]` and `[keys, n, vdim]` → `[queries, n, embed_dim]`,
/// or all without `n`.
///
/// The projections are the rows of `in_proj_weight` one after the other, or `q_proj_weight`, `k_proj_weight` and `v_proj_weight` where their
/// widths differ. They start uniformly within ±√(6 / (rows + columns)) (Xavier), biases at zero, and `bias_k` and `bias_v` normally with
/// variance 1 / embed_dim.
///
/// Vaswani et al.: *Attention Is All You Need*, 2017.
///
/// ```
/// use rustorch_nn::{MultiheadAttention, MultiheadAttentionOptions};
/// use rustorch_tensor::{DType, Tensor};
/// let attention = MultiheadAttention::with(4, 2, MultiheadAttentionOptions::default().batch_first(true))?;
/// let x = Tensor::ones([1, 3, 4], DType::F32)?;
/// let (y, weights) = attention.forward(&x, &x, &x)?;
/// assert_eq!(y.dims(), [1, 3, 4]);
/// // All keys are the same.
/// assert!(weights.allclose(&Tensor::full([1, 3, 3], 1.0 / 3.0, DType::F32)?, 1e-6, 0.0, false)?);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Debug, rustorch_macros::Module)]
pub struct MultiheadAttention {
    /// `[embed_dim, embed_dim]`, if widths differ.
    pub q_proj_weight: Option<Parameter>,
    /// `[embed_dim, kdim]`, if widths differ.
    pub k_proj_weight: Option<Parameter>,
    /// `[embed_dim, vdim]`, if widths differ.
    pub v_proj_weight: Option<Parameter>,
    /// `[3 · embed_dim, embed_dim]`, unless widths differ.
    pub in_proj_weight: Option<Parameter>,
    /// `[3 · embed_dim]`
    pub in_proj_bias: Option<Parameter>,
    /// `[1, 1, embed_dim]`: one more key of every sequence, with `add_bias_kv`.
    pub bias_k: Option<Parameter>,
    /// `[1, 1, embed_dim]`: the value of this key.
    pub bias_v: Option<Parameter>,
    /// `[embed_dim, embed_dim]`, and its bias.
    pub out_proj: NonDynamicallyQuantizableLinear,
    embed_dim: usize,
    num_heads: usize,
    widths: [usize; 3],
    dropout: f64,
    add_zero_attn: bool,
    batch_first: bool,
    training: Training,
}

/// A matrix uniform within ±√(6 / (rows + columns)).
fn xavier_uniform(rows: usize, columns: usize, options: TensorOptions) -> Result<Parameter> {
    let weight = Tensor::zeros([rows, columns], options)?;
    init::xavier_uniform_(&weight, 1.0)?;
    Parameter::new(weight)
}

impl MultiheadAttention {
    /// Attention with biases and without dropout, over `[l, n, embed_dim]`.
    ///
    /// # Errors
    /// If the width is no multiple of the number of heads, or memory does not suffice.
    pub fn new(embed_dim: usize, num_heads: usize) -> Result<MultiheadAttention> {
        MultiheadAttention::with(embed_dim, num_heads, MultiheadAttentionOptions::default())
    }

    /// Attention.
    ///
    /// # Errors
    /// If the width is no multiple of the number of heads, `dropout` is no probability, the dtype is none of floats, or memory does not
    /// suffice.
    pub fn with(
        embed_dim: usize,
        num_heads: usize,
        options: MultiheadAttentionOptions,
    ) -> Result<MultiheadAttention> {
        let wrong = |message| Err(Error::argument("MultiheadAttention", message));
        let MultiheadAttentionOptions {
            dropout,
            bias,
            add_bias_kv,
            add_zero_attn,
            kdim,
            vdim,
            batch_first,
            tensor,
        } = options;
        if num_heads == 0 || embed_dim == 0 || !embed_dim.is_multiple_of(num_heads) {
            return wrong(format!("embed_dim {embed_dim} must be a multiple of num_heads {num_heads}"));
        }
        if !(0.0..=1.0).contains(&dropout) {
            return wrong(format!("dropout must be a probability, from 0 to 1, and is {dropout}"));
        }
        let widths = [embed_dim, kdim.unwrap_or(embed_dim), vdim.unwrap_or(embed_dim)];
        let is_packed = widths == [embed_dim; 3];
        let separate = |width| match is_packed {
            true => Ok(None),
            false => xavier_uniform(embed_dim, width, tensor).map(Some),
        };
        let [q_proj_weight, k_proj_weight, v_proj_weight] = widths.map(separate);
        let in_proj_weight =
            if is_packed { Some(xavier_uniform(3 * embed_dim, embed_dim, tensor)?) } else { None };
        let zeros = |n: usize| Parameter::new(Tensor::zeros([n], tensor)?);
        let one_more = || match add_bias_kv {
            true => {
                let std = 1.0 / (embed_dim as f64).sqrt();
                Parameter::new(init::normal([1, 1, embed_dim], 0.0, std, tensor)?).map(Some)
            }
            false => Ok(None),
        };
        let mut out_proj =
            Linear::with(embed_dim, embed_dim, LinearOptions::default().bias(false).tensor(tensor))?;
        out_proj.bias = if bias { Some(zeros(embed_dim)?) } else { None };
        Ok(MultiheadAttention {
            q_proj_weight: q_proj_weight?,
            k_proj_weight: k_proj_weight?,
            v_proj_weight: v_proj_weight?,
            in_proj_weight,
            in_proj_bias: if bias { Some(zeros(3 * embed_dim)?) } else { None },
            bias_k: one_more()?,
            bias_v: one_more()?,
            out_proj: NonDynamicallyQuantizableLinear(out_proj),
            embed_dim,
            num_heads,
            widths,
            dropout,
            add_zero_attn,
            batch_first,
            training: Training::default(),
        })
    }

    /// The result, and the weights `[n, queries, keys]`, means over all heads.
    ///
    /// # Errors
    /// If shapes or dtypes do not fit.
    #[rustorch_macros::observed]
    pub fn forward(&self, query: &Tensor, key: &Tensor, value: &Tensor) -> Result<(Tensor, Tensor)> {
        let call = MultiheadAttentionCall::default();
        self.attend([query, key, value], &call).map_err(of_layer(self.type_name()))
    }

    /// The result, and the weights if they are asked for: `[n, queries, keys]` or `[n, heads, queries, keys]`. Without them, scores are
    /// not kept in memory.
    ///
    /// # Errors
    /// If shapes or dtypes do not fit.
    #[rustorch_macros::observed]
    pub fn forward_with(
        &self,
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
        call: &MultiheadAttentionCall<'_>,
    ) -> Result<(Tensor, Option<Tensor>)> {
        let arguments = [query, key, value];
        match call.need_weights {
            true => self.attend(arguments, call).map(|(y, weights)| (y, Some(weights))),
            false => self.attend_fused(arguments, call).map(|y| (y, None)),
        }
        .map_err(of_layer(self.type_name()))
    }
}
