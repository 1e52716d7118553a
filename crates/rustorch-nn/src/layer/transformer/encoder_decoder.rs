//! A transformer: encoder and decoder.

use super::{
    TransformerDecoder, TransformerDecoderCall, TransformerDecoderLayer, TransformerEncoder,
    TransformerEncoderLayer, TransformerLayerOptions,
};
use crate::layer::options::of_layer;
use crate::{Module, init};
use rustorch_tensor::autograd::no_grad;
use rustorch_tensor::{Error, Result, Tensor, TensorOptions};

/// The masks of a [`Transformer`], none by default, as those of [`MultiheadAttentionCall`](crate::MultiheadAttentionCall).
#[derive(Clone, Copy, Debug, Default)]
pub struct TransformerCall<'a> {
    /// Which positions of the source each of its positions sees.
    pub src_mask: Option<&'a Tensor>,
    /// Which positions of the source are padding.
    pub src_key_padding_mask: Option<&'a Tensor>,
    /// The decoder's masks.
    pub decoder: TransformerDecoderCall<'a>,
}

/// An encoder and a decoder that sees its result, both with a norm after the last layer, as `torch.nn.Transformer`: a source
/// `[m, n, d_model]` and a target `[l, n, d_model]` → `[l, n, d_model]`, or all without `n`.
///
/// All matrices start uniformly within ±√(6 / (rows + columns)) (Xavier). A transformer of other layers is a struct of one's own with the
/// same two fields.
///
/// Vaswani et al.: *Attention Is All You Need*, 2017.
///
/// ```
/// use rustorch_nn::{Module, Transformer, TransformerCall, TransformerDecoderCall, TransformerLayerOptions};
/// use rustorch_tensor::{DType, Tensor};
/// let options = TransformerLayerOptions::default().dim_feedforward(8).dropout(0.0).batch_first(true);
/// let model = Transformer::with(4, 2, 1, 1, options)?;
/// let (src, tgt) = (Tensor::randn([2, 5, 4], DType::F32)?, Tensor::randn([2, 3, 4], DType::F32)?);
/// let causal = Transformer::generate_square_subsequent_mask(3, DType::F32)?;
/// let decoder = TransformerDecoderCall { tgt_mask: Some(&causal), ..Default::default() };
/// let y = model.forward_with(&src, &tgt, &TransformerCall { decoder, ..Default::default() })?;
/// assert_eq!(y.dims(), [2, 3, 4]);
/// // The first position sees itself alone.
/// let first = model.forward(&src, &tgt.narrow(1, 0, 1)?)?;
/// assert!(y.narrow(1, 0, 1)?.allclose(&first, 1e-5, 1e-5, false)?);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Debug, rustorch_macros::Module)]
pub struct Transformer {
    /// What reads the source.
    pub encoder: TransformerEncoder,
    /// What reads the target and the encoder's result.
    pub decoder: TransformerDecoder,
    d_model: usize,
    batch_first: bool,
}

impl Transformer {
    /// Six layers each, with PyTorch's defaults.
    ///
    /// # Errors
    /// If the width is no multiple of the number of heads, or memory does not suffice.
    pub fn new(d_model: usize, nhead: usize) -> Result<Transformer> {
        Transformer::with(d_model, nhead, 6, 6, TransformerLayerOptions::default())
    }

    /// So many layers each.
    ///
    /// # Errors
    /// If there is no layer, the width is no multiple of the number of heads, `dropout` is no probability, the dtype is none of floats, or
    /// memory does not suffice.
    pub fn with(
        d_model: usize,
        nhead: usize,
        num_encoder_layers: usize,
        num_decoder_layers: usize,
        options: TransformerLayerOptions,
    ) -> Result<Transformer> {
        let make = || {
            let encoder = |_| TransformerEncoderLayer::with(d_model, nhead, options.clone());
            let decoder = |_| TransformerDecoderLayer::with(d_model, nhead, options.clone());
            let encoders = (0..num_encoder_layers).map(encoder).collect::<Result<_>>()?;
            let decoders = (0..num_decoder_layers).map(decoder).collect::<Result<_>>()?;
            Ok(Transformer {
                encoder: TransformerEncoder::new(encoders, Some(options.norm(d_model)?))?,
                decoder: TransformerDecoder::new(decoders, Some(options.norm(d_model)?))?,
                d_model,
                batch_first: options.batch_first,
            })
        };
        let model: Transformer = make().map_err(of_layer("Transformer"))?;
        for parameter in model.parameters() {
            let tensor = parameter.tensor();
            if let &[rows, columns] = tensor.dims() {
                let bound = (6.0 / (rows + columns).max(1) as f64).sqrt();
                let values =
                    init::uniform([rows, columns], -bound, bound, (tensor.dtype(), tensor.device()))?;
                no_grad(|| tensor.copy_(&values))?;
            }
        }
        Ok(model)
    }

    /// `[size, size]`, to be added to scores: 0 where position `i` sees position `j ≤ i`, −∞ elsewhere.
    ///
    /// # Errors
    /// If the dtype is none of floats, or memory does not suffice.
    pub fn generate_square_subsequent_mask(size: usize, options: impl Into<TensorOptions>) -> Result<Tensor> {
        Tensor::full([size, size], f64::NEG_INFINITY, options)?.triu(1)
    }

    /// The result for a source and a target, without masks.
    ///
    /// # Errors
    /// If shapes or dtypes do not fit.
    #[rustorch_macros::observed]
    pub fn forward(&self, src: &Tensor, tgt: &Tensor) -> Result<Tensor> {
        self.forward_with(src, tgt, &TransformerCall::default())
    }

    /// The result for a source and a target.
    ///
    /// # Errors
    /// If shapes or dtypes do not fit.
    #[rustorch_macros::observed]
    pub fn forward_with(&self, src: &Tensor, tgt: &Tensor, call: &TransformerCall<'_>) -> Result<Tensor> {
        let (batch, width) = (if self.batch_first { 0 } else { 1 }, self.d_model);
        let fits = matches!(src.ndim(), 2 | 3)
            && src.ndim() == tgt.ndim()
            && [src, tgt].iter().all(|x| x.dims().last() == Some(&width))
            && (src.ndim() == 2 || src.dims()[batch] == tgt.dims()[batch]);
        if !fits {
            let message = format!(
                "takes a source and a target of one batch and width {width}, or both without a batch"
            );
            return Err(Error::shape(self.type_name(), message, [src.shape(), tgt.shape()]));
        }
        let forward = || {
            let memory = self.encoder.forward_with(src, call.src_mask, call.src_key_padding_mask)?;
            self.decoder.forward_with(tgt, &memory, &call.decoder)
        };
        forward().map_err(of_layer(self.type_name()))
    }
}
