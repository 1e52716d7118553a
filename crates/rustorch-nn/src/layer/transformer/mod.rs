//! Encoders and decoders of transformers.

mod decoder;
mod encoder;
mod encoder_decoder;

pub use decoder::{TransformerDecoder, TransformerDecoderCall, TransformerDecoderLayer};
pub use encoder::{TransformerEncoder, TransformerEncoderLayer};
pub use encoder_decoder::{Transformer, TransformerCall};

use super::options::options;
use crate::{
    Dropout, Layer, LayerNorm, LayerNormOptions, Linear, LinearOptions, MultiheadAttention,
    MultiheadAttentionCall, MultiheadAttentionOptions,
};
use rustorch_tensor::{Result, Tensor};

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
    /// How a [`TransformerEncoderLayer`] or a [`TransformerDecoderLayer`] is made: the optional arguments of PyTorch's with their defaults.
    TransformerLayerOptions {
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

impl TransformerLayerOptions {
    fn attention(&self, d_model: usize, nhead: usize) -> Result<MultiheadAttention> {
        let options = MultiheadAttentionOptions::default()
            .dropout(self.dropout)
            .bias(self.bias)
            .batch_first(self.batch_first)
            .tensor(self.tensor);
        MultiheadAttention::with(d_model, nhead, options)
    }

    fn linear(&self, in_features: usize, out_features: usize) -> Result<Linear> {
        let options = LinearOptions::default().bias(self.bias).tensor(self.tensor);
        Linear::with(in_features, out_features, options)
    }

    fn norm(&self, d_model: usize) -> Result<LayerNorm> {
        let options =
            LayerNormOptions::default().eps(self.layer_norm_eps).bias(self.bias).tensor(self.tensor);
        LayerNorm::with(d_model, options)
    }
}

/// Attention of a sequence to another one, or to itself, whose weights nobody needs.
fn attend(
    attention: &MultiheadAttention,
    x: &Tensor,
    memory: &Tensor,
    mask: Option<&Tensor>,
    key_padding_mask: Option<&Tensor>,
) -> Result<Tensor> {
    let call = MultiheadAttentionCall {
        key_padding_mask,
        attn_mask: mask,
        need_weights: false,
        average_attn_weights: true,
    };
    Ok(attention.forward_with(x, memory, memory, &call)?.0)
}

/// `linear2(dropout(activation(linear1(x))))`
struct FeedForward<'a> {
    linear1: &'a Linear,
    activation: TransformerActivation,
    dropout: &'a Dropout,
    linear2: &'a Linear,
}

impl FeedForward<'_> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let hidden = self.linear1.forward(x)?;
        let hidden = match self.activation {
            TransformerActivation::Relu => hidden.relu()?,
            TransformerActivation::Gelu => hidden.gelu()?,
        };
        self.linear2.forward(&self.dropout.forward(&hidden)?)
    }
}
