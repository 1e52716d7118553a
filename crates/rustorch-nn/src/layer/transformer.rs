//! Encoders of transformers.

use super::multihead_attention::{MultiheadAttention, MultiheadAttentionCall, MultiheadAttentionOptions};
use super::options::{of_layer, options};
use crate::{Dropout, Layer, LayerNorm, LayerNormOptions, Linear, LinearOptions, Module};
use rustorch_tensor::{Error, Result, Tensor};

/// The activation between the two linear layers of a transformer's layer, by PyTorch's names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TransformerActivation {
    /// max(x, 0).
    #[default]
    Relu,
    /// x·Φ(x), by the error function.
    Gelu,
}

options! {
    /// How a [`TransformerEncoderLayer`] is made: the optional arguments of `torch.nn.TransformerEncoderLayer` with their defaults.
    TransformerEncoderLayerOptions {
        /// The width between the two linear layers.
        dim_feedforward: plain usize = 2048;
        /// The probability with which elements become zero while training.
        dropout: plain f64 = 0.1;
        /// The activation between the two linear layers.
        activation: plain TransformerActivation = TransformerActivation::Relu;
        /// What the norms add to variances.
        layer_norm_eps: plain f64 = 1e-5;
        /// Whether the batch is the first dimension of argument and result, and the sequence the second.
        batch_first: plain bool = false;
        /// Whether norms come before attention and linear layers, or after them.
        norm_first: plain bool = false;
        /// Whether norms and linear layers have biases.
        bias: plain bool = true;
    }
}

/// Self-attention and a feed-forward network, each with dropout, a residual connection and a norm, as
/// `torch.nn.TransformerEncoderLayer`: `[l, n, d_model] → [l, n, d_model]`, or without `n`.
///
/// `x = norm1(x + attention(x))`, `x = norm2(x + linear2(activation(linear1(x))))`, or with `norm_first`: `x = x + attention(norm1(x))`,
/// `x = x + linear2(activation(linear1(norm2(x))))`.
///
/// Vaswani et al.: *Attention Is All You Need*, 2017.
///
/// ```
/// use rustorch_nn::{Layer, TransformerEncoderLayer, TransformerEncoderLayerOptions};
/// use rustorch_tensor::{DType, Tensor};
/// let options = TransformerEncoderLayerOptions::default().dim_feedforward(8).batch_first(true);
/// let layer = TransformerEncoderLayer::with(4, 2, options)?;
/// let y = layer.forward(&Tensor::randn([2, 3, 4], DType::F32)?)?;
/// assert_eq!(y.dims(), [2, 3, 4]);
/// // The last norm.
/// assert!(y.mean(-1, false)?.allclose(&Tensor::zeros([2, 3], DType::F32)?, 0.0, 1e-6, false)?);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Debug, rustorch_macros::Module)]
pub struct TransformerEncoderLayer {
    /// The attention of the sequence to itself.
    pub self_attn: MultiheadAttention,
    /// From `d_model` to `dim_feedforward`.
    pub linear1: Linear,
    /// After the activation.
    pub dropout: Dropout,
    /// From `dim_feedforward` to `d_model`.
    pub linear2: Linear,
    /// The norm beside attention.
    pub norm1: LayerNorm,
    /// The norm beside the linear layers.
    pub norm2: LayerNorm,
    /// After attention.
    pub dropout1: Dropout,
    /// After the linear layers.
    pub dropout2: Dropout,
    #[module(skip)]
    activation: TransformerActivation,
    norm_first: bool,
}

impl TransformerEncoderLayer {
    /// A layer with PyTorch's defaults.
    ///
    /// # Errors
    /// If the width is no multiple of the number of heads, or memory does not suffice.
    pub fn new(d_model: usize, nhead: usize) -> Result<TransformerEncoderLayer> {
        TransformerEncoderLayer::with(d_model, nhead, TransformerEncoderLayerOptions::default())
    }

    /// A layer.
    ///
    /// # Errors
    /// If the width is no multiple of the number of heads, `dropout` is no probability, the dtype is none of floats, or memory does not
    /// suffice.
    pub fn with(
        d_model: usize,
        nhead: usize,
        options: TransformerEncoderLayerOptions,
    ) -> Result<TransformerEncoderLayer> {
        let TransformerEncoderLayerOptions { dim_feedforward, dropout, bias, tensor, .. } = options;
        let attention = MultiheadAttentionOptions::default()
            .dropout(dropout)
            .bias(bias)
            .batch_first(options.batch_first)
            .tensor(tensor);
        let linear = LinearOptions::default().bias(bias).tensor(tensor);
        let norm = LayerNormOptions::default().eps(options.layer_norm_eps).bias(bias).tensor(tensor);
        Ok(TransformerEncoderLayer {
            self_attn: MultiheadAttention::with(d_model, nhead, attention)
                .map_err(of_layer("TransformerEncoderLayer"))?,
            linear1: Linear::with(d_model, dim_feedforward, linear)?,
            dropout: Dropout::new(dropout)?,
            linear2: Linear::with(dim_feedforward, d_model, linear)?,
            norm1: LayerNorm::with(d_model, norm.clone())?,
            norm2: LayerNorm::with(d_model, norm)?,
            dropout1: Dropout::new(dropout)?,
            dropout2: Dropout::new(dropout)?,
            activation: options.activation,
            norm_first: options.norm_first,
        })
    }

    /// The result with masks, as those of [`MultiheadAttentionCall`]: which positions each position sees, and which are padding.
    ///
    /// # Errors
    /// If shapes or dtypes do not fit.
    pub fn forward_with(
        &self,
        x: &Tensor,
        src_mask: Option<&Tensor>,
        src_key_padding_mask: Option<&Tensor>,
    ) -> Result<Tensor> {
        let call = MultiheadAttentionCall {
            key_padding_mask: src_key_padding_mask,
            attn_mask: src_mask,
            need_weights: false,
            average_attn_weights: true,
        };
        let attention = |x: &Tensor| {
            let (y, _) = self.self_attn.forward_with(x, x, x, &call)?;
            self.dropout1.forward(&y)
        };
        let feed_forward = |x: &Tensor| {
            let hidden = self.linear1.forward(x)?;
            let hidden = match self.activation {
                TransformerActivation::Relu => hidden.relu()?,
                TransformerActivation::Gelu => hidden.gelu()?,
            };
            self.dropout2.forward(&self.linear2.forward(&self.dropout.forward(&hidden)?)?)
        };
        let forward = || match self.norm_first {
            true => {
                let x = x.add(&attention(&self.norm1.forward(x)?)?)?;
                x.add(&feed_forward(&self.norm2.forward(&x)?)?)
            }
            false => {
                let x = self.norm1.forward(&x.add(&attention(x)?)?)?;
                self.norm2.forward(&x.add(&feed_forward(&x)?)?)
            }
        };
        forward().map_err(of_layer(self.type_name()))
    }
}

impl Layer for TransformerEncoderLayer {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.forward_with(x, None, None)
    }
}

/// Layers one after another, and a norm after the last one, as `torch.nn.TransformerEncoder`. PyTorch copies one layer with its parameters;
/// here each is made on its own.
///
/// ```
/// use rustorch_nn::{Module, TransformerEncoder, TransformerEncoderLayer, TransformerEncoderLayerOptions};
/// let options = TransformerEncoderLayerOptions::default().dim_feedforward(8).bias(false);
/// let layer = || TransformerEncoderLayer::with(4, 2, options.clone());
/// let encoder = TransformerEncoder::new(vec![layer()?, layer()?], None)?;
/// assert_eq!(encoder.named_parameters()[0].0, "layers.0.self_attn.in_proj_weight");
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Debug, rustorch_macros::Module)]
pub struct TransformerEncoder {
    /// The layers.
    pub layers: Vec<TransformerEncoderLayer>,
    /// What comes after the last one.
    pub norm: Option<LayerNorm>,
}

impl TransformerEncoder {
    /// # Errors
    /// If there is no layer.
    pub fn new(layers: Vec<TransformerEncoderLayer>, norm: Option<LayerNorm>) -> Result<TransformerEncoder> {
        if layers.is_empty() {
            return Err(Error::argument("TransformerEncoder", "needs one layer at least"));
        }
        Ok(TransformerEncoder { layers, norm })
    }

    /// The result with masks for all layers, as [`TransformerEncoderLayer::forward_with`] takes them.
    ///
    /// # Errors
    /// If shapes or dtypes do not fit.
    pub fn forward_with(
        &self,
        x: &Tensor,
        mask: Option<&Tensor>,
        src_key_padding_mask: Option<&Tensor>,
    ) -> Result<Tensor> {
        let step =
            |x: Tensor, layer: &TransformerEncoderLayer| layer.forward_with(&x, mask, src_key_padding_mask);
        let y = self.layers.iter().try_fold(x.clone(), step).map_err(of_layer(self.type_name()))?;
        match &self.norm {
            Some(norm) => norm.forward(&y),
            None => Ok(y),
        }
    }
}

impl Layer for TransformerEncoder {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.forward_with(x, None, None)
    }
}
