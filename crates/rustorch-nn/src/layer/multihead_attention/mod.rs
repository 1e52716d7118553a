//! Attention with several heads.

mod call;
mod out_proj;

pub use call::{MultiheadAttentionCall, MultiheadAttentionOptions};
pub use out_proj::NonDynamicallyQuantizableLinear;

use super::options::of_layer;
use crate::{Linear, LinearOptions, Module, Parameter, Training, init};
use rustorch_tensor::{AttentionOptions, Error, Result, Tensor, TensorOptions};

/// `Concat(head₁, ..) · out_projᵀ` with `headᵢ = softmax(qᵢ · kᵢᵀ / √head_dim) · vᵢ`, where qᵢ, kᵢ and vᵢ are parts of the projected queries, keys
/// and values, as `torch.nn.MultiheadAttention`: `[queries, n, embed_dim]`, `[keys, n, kdim]` and `[keys, n, vdim]` → `[queries, n, embed_dim]`,
/// or all without `n`.
///
/// The projections are the rows of `in_proj_weight` one after the other, or `q_proj_weight`, `k_proj_weight` and `v_proj_weight` where their
/// widths differ. They start uniformly within ±√(6 / (rows + columns)) (Xavier), biases at zero.
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
    /// `[embed_dim, embed_dim]`, and its bias.
    pub out_proj: NonDynamicallyQuantizableLinear,
    embed_dim: usize,
    num_heads: usize,
    widths: [usize; 3],
    dropout: f64,
    batch_first: bool,
    training: Training,
}

/// A matrix uniform within ±√(6 / (rows + columns)).
fn xavier_uniform(rows: usize, columns: usize, options: TensorOptions) -> Result<Parameter> {
    let weight = Tensor::zeros([rows, columns], options)?;
    init::xavier_uniform_(&weight, 1.0)?;
    Parameter::new(weight)
}

/// The parts of what is packed for queries, keys and values.
fn thirds(packed: &Tensor) -> Result<[Tensor; 3]> {
    let len = packed.dims()[0] / 3;
    Ok([packed.narrow(0, 0, len)?, packed.narrow(0, len, len)?, packed.narrow(0, 2 * len, len)?])
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
        let MultiheadAttentionOptions { dropout, bias, kdim, vdim, batch_first, tensor } = options;
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
        let mut out_proj =
            Linear::with(embed_dim, embed_dim, LinearOptions::default().bias(false).tensor(tensor))?;
        out_proj.bias = if bias { Some(zeros(embed_dim)?) } else { None };
        Ok(MultiheadAttention {
            q_proj_weight: q_proj_weight?,
            k_proj_weight: k_proj_weight?,
            v_proj_weight: v_proj_weight?,
            in_proj_weight,
            in_proj_bias: if bias { Some(zeros(3 * embed_dim)?) } else { None },
            out_proj: NonDynamicallyQuantizableLinear(out_proj),
            embed_dim,
            num_heads,
            widths,
            dropout,
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

    /// Attention whose weights are a tensor.
    fn attend(&self, arguments: [&Tensor; 3], call: &MultiheadAttentionCall<'_>) -> Result<(Tensor, Tensor)> {
        let is_single = arguments[0].ndim() == 2;
        let [q, k, v] = self.heads(arguments)?;
        let scale = 1.0 / ((self.embed_dim / self.num_heads) as f64).sqrt();
        let mut scores = q.mul(scale)?.matmul(&k.transpose(-2, -1)?)?;
        if let Some(mask) = call.mask(&q, &k)? {
            scores = scores.add(&mask)?;
        }
        let mut weights = scores.softmax(-1)?;
        weights = weights.dropout(self.dropout, self.training.get())?;
        let y = self.join(&weights.matmul(&v)?, is_single)?;
        if call.average_attn_weights {
            weights = weights.mean(1, false)?;
        }
        Ok((y, if is_single { weights.squeeze(0)? } else { weights }))
    }

    /// Attention in one operation.
    fn attend_fused(&self, arguments: [&Tensor; 3], call: &MultiheadAttentionCall<'_>) -> Result<Tensor> {
        let is_single = arguments[0].ndim() == 2;
        let [q, k, v] = self.heads(arguments)?;
        let mask = call.mask(&q, &k)?;
        let dropout_p = if self.training.get() { self.dropout } else { 0.0 };
        let options = AttentionOptions { mask: mask.as_ref(), dropout_p, ..Default::default() };
        self.join(&Tensor::scaled_dot_product_attention_with(&q, &k, &v, &options)?, is_single)
    }

    /// Projected queries, keys and values, `[n, heads, l, head_dim]`.
    fn heads(&self, arguments: [&Tensor; 3]) -> Result<[Tensor; 3]> {
        let ndim = arguments[0].ndim();
        for (x, width) in arguments.iter().zip(self.widths) {
            if !matches!(ndim, 2 | 3) || x.ndim() != ndim || x.dims()[ndim - 1] != width {
                let [q, k, v] = self.widths;
                let message = format!(
                    "takes queries, keys and values of 3 dimensions, or all of 2 without a batch, the last {q}, {k} and {v}"
                );
                return Err(Error::shape(self.type_name(), message, arguments.map(Tensor::shape)));
            }
        }
        let batches = arguments.map(|x| match (ndim, self.batch_first) {
            (2, _) => x.unsqueeze(0),
            (_, true) => Ok(x.clone()),
            (_, false) => x.transpose(0, 1),
        });
        let [wq, wk, wv] = self.in_proj_weights()?;
        let [bq, bk, bv] = match &self.in_proj_bias {
            Some(packed) => thirds(&packed.tensor())?.map(Some),
            None => [None, None, None],
        };
        let head_dim = self.embed_dim / self.num_heads;
        let project = |x: Result<Tensor>, weight: &Tensor, bias: Option<Tensor>| {
            let y = x?.linear(weight, bias.as_ref())?;
            y.unflatten(-1, [self.num_heads, head_dim])?.transpose(1, 2)
        };
        let [q, k, v] = batches;
        Ok([project(q, &wq, bq)?, project(k, &wk, bk)?, project(v, &wv, bv)?])
    }

    /// The weights of queries, keys and values.
    fn in_proj_weights(&self) -> Result<[Tensor; 3]> {
        match (&self.in_proj_weight, &self.q_proj_weight, &self.k_proj_weight, &self.v_proj_weight) {
            (Some(packed), ..) => thirds(&packed.tensor()),
            (None, Some(q), Some(k), Some(v)) => Ok([q.tensor(), k.tensor(), v.tensor()]),
            _ => {
                let message = "needs in_proj_weight, or q_proj_weight, k_proj_weight and v_proj_weight";
                Err(Error::argument(self.type_name(), message))
            }
        }
    }

    /// The output projection of all heads side after side, in the order of the arguments.
    fn join(&self, heads: &Tensor, is_single: bool) -> Result<Tensor> {
        let bias = self.out_proj.bias.as_ref().map(Parameter::tensor);
        let joined = heads.transpose(1, 2)?.flatten(2, -1)?;
        let y = joined.linear(&self.out_proj.weight.tensor(), bias.as_ref())?;
        match (is_single, self.batch_first) {
            (true, _) => y.squeeze(0),
            (false, true) => Ok(y),
            (false, false) => y.transpose(0, 1),
        }
    }
}
