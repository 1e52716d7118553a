//! Decoders of transformers.

use super::{FeedForward, TransformerActivation, TransformerLayerOptions, attend};
use crate::layer::options::of_layer;
use crate::{Dropout, Layer, LayerNorm, Linear, Module, MultiheadAttention};
use rustorch_tensor::{Error, Result, Tensor};

/// The masks of a decoder, none by default, as those of [`MultiheadAttentionCall`](crate::MultiheadAttentionCall).
#[derive(Clone, Copy, Debug, Default)]
pub struct TransformerDecoderCall<'a> {
    /// Which positions of the sequence each of its positions sees.
    pub tgt_mask: Option<&'a Tensor>,
    /// Which positions of the encoder's result each position sees.
    pub memory_mask: Option<&'a Tensor>,
    /// Which positions of the sequence are padding.
    pub tgt_key_padding_mask: Option<&'a Tensor>,
    /// Which positions of the encoder's result are padding.
    pub memory_key_padding_mask: Option<&'a Tensor>,
}

/// Self-attention, attention to an encoder's result, and a feed-forward network, each with dropout, a residual connection and a norm, as
/// `torch.nn.TransformerDecoderLayer`: `[l, n, d_model]` and `[m, n, d_model]` → `[l, n, d_model]`, or all without `n`.
///
/// Vaswani et al.: *Attention Is All You Need*, 2017.
///
/// ```
/// use rustorch_nn::{TransformerDecoderCall, TransformerDecoderLayer, TransformerLayerOptions};
/// use rustorch_tensor::{DType, Tensor};
/// let layer = TransformerDecoderLayer::with(4, 2, TransformerLayerOptions::default().dim_feedforward(8).dropout(0.0))?;
/// let (x, memory) = (Tensor::randn([3, 4], DType::F32)?, Tensor::randn([5, 4], DType::F32)?);
/// let causal = Tensor::ones([3, 3], DType::Bool)?.triu(1)?;
/// let call = TransformerDecoderCall { tgt_mask: Some(&causal), ..Default::default() };
/// let y = layer.forward_with(&x, &memory, &call)?;
/// // The first position sees itself alone.
/// let first = layer.forward(&x.narrow(0, 0, 1)?, &memory)?;
/// assert!(y.narrow(0, 0, 1)?.allclose(&first, 1e-5, 1e-5, false)?);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Debug, rustorch_macros::Module)]
pub struct TransformerDecoderLayer {
    /// The attention of the sequence to itself.
    pub self_attn: MultiheadAttention,
    /// The attention of the sequence to the encoder's result.
    pub multihead_attn: MultiheadAttention,
    /// From `d_model` to `dim_feedforward`.
    pub linear1: Linear,
    /// After the activation.
    pub dropout: Dropout,
    /// From `dim_feedforward` to `d_model`.
    pub linear2: Linear,
    /// The norm beside self-attention.
    pub norm1: LayerNorm,
    /// The norm beside the attention to the encoder's result.
    pub norm2: LayerNorm,
    /// The norm beside the linear layers.
    pub norm3: LayerNorm,
    /// After self-attention.
    pub dropout1: Dropout,
    /// After the attention to the encoder's result.
    pub dropout2: Dropout,
    /// After the linear layers.
    pub dropout3: Dropout,
    #[module(skip)]
    activation: TransformerActivation,
    norm_first: bool,
}

impl TransformerDecoderLayer {
    /// A layer with PyTorch's defaults.
    ///
    /// # Errors
    /// If the width is no multiple of the number of heads, or memory does not suffice.
    pub fn new(d_model: usize, nhead: usize) -> Result<TransformerDecoderLayer> {
        TransformerDecoderLayer::with(d_model, nhead, TransformerLayerOptions::default())
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
    ) -> Result<TransformerDecoderLayer> {
        let name = "TransformerDecoderLayer";
        Ok(TransformerDecoderLayer {
            self_attn: options.attention(d_model, nhead).map_err(of_layer(name))?,
            multihead_attn: options.attention(d_model, nhead).map_err(of_layer(name))?,
            linear1: options.linear(d_model, options.dim_feedforward)?,
            dropout: Dropout::new(options.dropout)?,
            linear2: options.linear(options.dim_feedforward, d_model)?,
            norm1: options.norm(d_model)?,
            norm2: options.norm(d_model)?,
            norm3: options.norm(d_model)?,
            dropout1: Dropout::new(options.dropout)?,
            dropout2: Dropout::new(options.dropout)?,
            dropout3: Dropout::new(options.dropout)?,
            activation: options.activation,
            norm_first: options.norm_first,
        })
    }

    /// The result for a sequence and an encoder's result, without masks.
    ///
    /// # Errors
    /// If shapes or dtypes do not fit.
    #[rustorch_macros::observed]
    pub fn forward(&self, x: &Tensor, memory: &Tensor) -> Result<Tensor> {
        self.forward_with(x, memory, &TransformerDecoderCall::default())
    }

    /// The result for a sequence and an encoder's result.
    ///
    /// # Errors
    /// If shapes or dtypes do not fit.
    #[rustorch_macros::observed]
    pub fn forward_with(
        &self,
        x: &Tensor,
        memory: &Tensor,
        call: &TransformerDecoderCall<'_>,
    ) -> Result<Tensor> {
        let itself = |x: &Tensor| {
            let y = attend(&self.self_attn, x, x, call.tgt_mask, call.tgt_key_padding_mask)?;
            self.dropout1.forward(&y)
        };
        let encoder = |x: &Tensor| {
            let (mask, padding) = (call.memory_mask, call.memory_key_padding_mask);
            self.dropout2.forward(&attend(&self.multihead_attn, x, memory, mask, padding)?)
        };
        let feed_forward = FeedForward {
            linear1: &self.linear1,
            activation: self.activation,
            dropout: &self.dropout,
            linear2: &self.linear2,
        };
        let feed_forward = |x: &Tensor| self.dropout3.forward(&feed_forward.forward(x)?);
        let forward = || match self.norm_first {
            true => {
                let x = x.add(&itself(&self.norm1.forward(x)?)?)?;
                let x = x.add(&encoder(&self.norm2.forward(&x)?)?)?;
                x.add(&feed_forward(&self.norm3.forward(&x)?)?)
            }
            false => {
                let x = self.norm1.forward(&x.add(&itself(x)?)?)?;
                let x = self.norm2.forward(&x.add(&encoder(&x)?)?)?;
                self.norm3.forward(&x.add(&feed_forward(&x)?)?)
            }
        };
        forward().map_err(of_layer(self.type_name()))
    }
}

/// Layers one after another, which all see an encoder's result, and a norm after the last one, as `torch.nn.TransformerDecoder`. PyTorch
/// copies one layer with its parameters; here each is made on its own.
///
/// ```
/// use rustorch_nn::{Module, TransformerDecoder, TransformerDecoderLayer, TransformerLayerOptions};
/// let options = TransformerLayerOptions::default().dim_feedforward(8);
/// let layer = || TransformerDecoderLayer::with(4, 2, options.clone());
/// let decoder = TransformerDecoder::new(vec![layer()?, layer()?], None)?;
/// assert_eq!(decoder.named_parameters()[4].0, "layers.0.multihead_attn.in_proj_weight");
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Debug, rustorch_macros::Module)]
pub struct TransformerDecoder {
    /// The layers.
    pub layers: Vec<TransformerDecoderLayer>,
    /// What comes after the last one.
    pub norm: Option<LayerNorm>,
}

impl TransformerDecoder {
    /// # Errors
    /// If there is no layer.
    pub fn new(layers: Vec<TransformerDecoderLayer>, norm: Option<LayerNorm>) -> Result<TransformerDecoder> {
        if layers.is_empty() {
            return Err(Error::argument("TransformerDecoder", "needs one layer at least"));
        }
        Ok(TransformerDecoder { layers, norm })
    }

    /// The result for a sequence and an encoder's result, without masks.
    ///
    /// # Errors
    /// If shapes or dtypes do not fit.
    #[rustorch_macros::observed]
    pub fn forward(&self, x: &Tensor, memory: &Tensor) -> Result<Tensor> {
        self.forward_with(x, memory, &TransformerDecoderCall::default())
    }

    /// The result for a sequence and an encoder's result, with masks for all layers.
    ///
    /// # Errors
    /// If shapes or dtypes do not fit.
    #[rustorch_macros::observed]
    pub fn forward_with(
        &self,
        x: &Tensor,
        memory: &Tensor,
        call: &TransformerDecoderCall<'_>,
    ) -> Result<Tensor> {
        let step = |x: Tensor, layer: &TransformerDecoderLayer| layer.forward_with(&x, memory, call);
        let y = self.layers.iter().try_fold(x.clone(), step).map_err(of_layer(self.type_name()))?;
        match &self.norm {
            Some(norm) => norm.forward(&y),
            None => Ok(y),
        }
    }
}
