//! Encoders of transformers.

use super::{FeedForward, TransformerActivation, TransformerLayerOptions, attend};
use crate::layer::options::of_layer;
use crate::{Dropout, Layer, LayerNorm, Linear, Module, MultiheadAttention};
use rustorch_tensor::{Error, Result, Tensor};

/// Self-attention and a feed-forward network, each with dropout, a residual connection and a norm, as
/// `torch.nn.TransformerEncoderLayer`: `[l, n, d_model] → [l, n, d_model]`, or without `n`.
///
/// `x = norm1(x + attention(x))`, `x = norm2(x + linear2(activation(linear1(x))))`, or with `norm_first`: `x = x + attention(norm1(x))`,
/// `x = x + linear2(activation(linear1(norm2(x))))`.
///
/// Vaswani et al.: *Attention Is All You Need*, 2017.
///
/// ```
/// use rustorch_nn::{Layer, TransformerEncoderLayer, TransformerLayerOptions};
/// use rustorch_tensor::{DType, Tensor};
/// let options = TransformerLayerOptions::default().dim_feedforward(8).batch_first(true);
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
        TransformerEncoderLayer::with(d_model, nhead, TransformerLayerOptions::default())
    }

    /// A layer.
    ///
    /// # Errors
    /// If the width is no multiple of the number of heads, `dropout` is no probability, the dtype is none of floats, or memory does not
    /// suffice.
    pub fn with(
        d_model: usize,
        nhead: usize,
        options: TransformerLayerOptions,
    ) -> Result<TransformerEncoderLayer> {
        let name = "TransformerEncoderLayer";
        Ok(TransformerEncoderLayer {
            self_attn: options.attention(d_model, nhead).map_err(of_layer(name))?,
            linear1: options.linear(d_model, options.dim_feedforward)?,
            dropout: Dropout::new(options.dropout)?,
            linear2: options.linear(options.dim_feedforward, d_model)?,
            norm1: options.norm(d_model)?,
            norm2: options.norm(d_model)?,
            dropout1: Dropout::new(options.dropout)?,
            dropout2: Dropout::new(options.dropout)?,
            activation: options.activation,
            norm_first: options.norm_first,
        })
    }

    /// The result with masks, as those of [`MultiheadAttentionCall`](crate::MultiheadAttentionCall): which positions each position sees, and which are padding.
    ///
    /// # Errors
    /// If shapes or dtypes do not fit.
    #[rustorch_macros::observed]
    pub fn forward_with(
        &self,
        x: &Tensor,
        src_mask: Option<&Tensor>,
        src_key_padding_mask: Option<&Tensor>,
    ) -> Result<Tensor> {
        let attention = |x: &Tensor| {
            self.dropout1.forward(&attend(&self.self_attn, x, x, src_mask, src_key_padding_mask)?)
        };
        let feed_forward = FeedForward {
            linear1: &self.linear1,
            activation: self.activation,
            dropout: &self.dropout,
            linear2: &self.linear2,
        };
        let feed_forward = |x: &Tensor| self.dropout2.forward(&feed_forward.forward(x)?);
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
    #[rustorch_macros::observed]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.forward_with(x, None, None)
    }
}

/// Layers one after another, and a norm after the last one, as `torch.nn.TransformerEncoder`. PyTorch copies one layer with its parameters;
/// here each is made on its own.
///
/// ```
/// use rustorch_nn::{Module, TransformerEncoder, TransformerEncoderLayer, TransformerLayerOptions};
/// let options = TransformerLayerOptions::default().dim_feedforward(8).bias(false);
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
    #[rustorch_macros::observed]
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
    #[rustorch_macros::observed]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.forward_with(x, None, None)
    }
}
