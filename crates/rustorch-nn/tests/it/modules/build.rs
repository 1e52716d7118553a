//! Our modules of the fixture's constructors.

use super::fixture::{Case, each, expanding, numbers};
use super::{build_misc, build_recurrent};
use rustorch_nn::*;
use rustorch_tensor::{AvgPoolOptions, DType, MaxPoolOptions, Result, Tensor};
use serde_json::Value;
use std::rc::Rc;

/// A module's call: arguments and results may be left out.
type Forward = Box<dyn Fn(&[Option<Tensor>]) -> Result<Vec<Option<Tensor>>>>;

/// A module and how it is called.
pub(crate) struct Built {
    pub(crate) module: Rc<dyn Module>,
    pub(super) forward: Forward,
}

pub(super) fn layer(layer: impl Layer + 'static) -> Result<Built> {
    called(layer, |layer, x| Ok(vec![Some(layer.forward(x)?)]))
}

/// A module of one argument with several results.
fn called<M: Module + 'static>(
    module: M,
    forward: impl Fn(&M, &Tensor) -> Result<Vec<Option<Tensor>>> + 'static,
) -> Result<Built> {
    called_with(module, move |module, inputs| forward(module, inputs[0].as_ref().unwrap()))
}

/// A module of several arguments.
pub(super) fn called_with<M: Module + 'static>(
    module: M,
    forward: impl Fn(&M, &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> + 'static,
) -> Result<Built> {
    let module = Rc::new(module);
    let same = module.clone();
    Ok(Built { module, forward: Box::new(move |inputs| forward(&same, inputs)) })
}

pub(super) fn pair((a, b): (Tensor, Tensor)) -> Result<Vec<Option<Tensor>>> {
    Ok(vec![Some(a), Some(b)])
}

pub(crate) fn build(case: &Case, dtype: DType) -> Result<Built> {
    match case.module.strip_suffix('d').and_then(|name| name.split_at_checked(name.len() - 1)) {
        Some(("Softmax", _)) => other(case, dtype),
        Some((name, "1")) => spatial::<1>(name, case, dtype),
        Some((name, "2")) => spatial::<2>(name, case, dtype),
        Some((name, "3")) => spatial::<3>(name, case, dtype),
        _ => other(case, dtype),
    }
}

/// Modules that there are for one to three spatial dimensions.
fn spatial<const N: usize>(name: &str, case: &Case, dtype: DType) -> Result<Built> {
    let args = &case.args;
    let indices = case.option_bool("return_indices") == Some(true);
    match name {
        "Conv" => layer(Conv::<N>::with(case.size(0), case.size(1), each(&args[2]), conv(case, dtype))?),
        "ConvTranspose" => {
            layer(ConvTranspose::<N>::with(case.size(0), case.size(1), each(&args[2]), conv(case, dtype))?)
        }
        "MaxPool" => {
            let pool = MaxPool::<N>::with(expanding(&args[0]), max_pool(case));
            match indices {
                true => called(pool, |pool, x| pair(pool.forward_with_indices(x)?)),
                false => layer(pool),
            }
        }
        "AvgPool" => layer(AvgPool::<N>::with(expanding(&args[0]), avg_pool(case))),
        "AdaptiveAvgPool" => layer(AdaptiveAvgPool::<N>::new(numbers(&args[0]))),
        "AdaptiveMaxPool" => {
            let pool = AdaptiveMaxPool::<N>::new(numbers(&args[0]));
            match indices {
                true => called(pool, |pool, x| pair(pool.forward_with_indices(x)?)),
                false => layer(pool),
            }
        }
        "BatchNorm" => layer(BatchNorm::<N>::with(case.size(0), batch_norm(case, dtype))?),
        "InstanceNorm" => layer(InstanceNorm::<N>::with(case.size(0), instance_norm(case, dtype))?),
        "MaxUnpool" => {
            let kernel = case.size(0);
            let options = [("stride", kernel), ("padding", 0)]
                .map(|(name, default)| case.option_usize(name).unwrap_or(default));
            let unpool = MaxUnpool::<N>::new(kernel).stride(options[0]).padding(options[1]);
            let size = case.call.get("output_size").map(each::<N>);
            called_with(unpool, move |unpool, inputs| {
                let [x, indices] = [0, 1].map(|i| inputs[i].as_ref().unwrap());
                Ok(vec![Some(match size {
                    Some(size) => unpool.forward_to(x, indices, size)?,
                    None => unpool.forward(x, indices)?,
                })])
            })
        }
        "LPPool" => {
            let mut pool = LPPool::<N>::new(args[0].as_f64().unwrap(), expanding(&args[1]))
                .ceil_mode(case.option_bool("ceil_mode").unwrap_or(false));
            if let Some(stride) = case.options.get("stride") {
                pool = pool.stride(expanding::<N>(stride));
            }
            layer(pool)
        }
        "Dropout" => layer(ChannelDropout::<N>::new(args[0].as_f64().unwrap())?),
        "ZeroPad" => layer(ZeroPad::<N>::new(sides(&args[0]))),
        "ReflectionPad" => layer(ReflectionPad::<N>::new(sides(&args[0]))),
        "ReplicationPad" => layer(ReplicationPad::<N>::new(sides(&args[0]))),
        "CircularPad" => layer(CircularPad::<N>::new(sides(&args[0]))),
        "ConstantPad" => layer(ConstantPad::<N>::new(sides(&args[0]), args[1].as_f64().unwrap())),
        other => panic!("no module {other}"),
    }
}

fn other(case: &Case, dtype: DType) -> Result<Built> {
    let args = &case.args;
    let int = |i: usize| args[i].as_i64().unwrap() as isize;
    match case.module.as_str() {
        "Flatten" if args.is_empty() => layer(Flatten::default()),
        "Flatten" => layer(Flatten::new(int(0), int(1))),
        "Unflatten" => layer(Unflatten::new(int(0), ints(&args[1]))),
        "Identity" => layer(Identity),
        "GroupNorm" => {
            let options = GroupNormOptions::default()
                .eps(case.option_f64("eps").unwrap_or(1e-5))
                .affine(case.option_bool("affine").unwrap_or(true))
                .bias(case.option_bool("bias").unwrap_or(true));
            layer(GroupNorm::with(case.size(0), case.size(1), options.tensor(dtype))?)
        }
        "LayerNorm" => {
            let options = LayerNormOptions::default()
                .eps(case.option_f64("eps").unwrap_or(1e-5))
                .elementwise_affine(case.option_bool("elementwise_affine").unwrap_or(true))
                .bias(case.option_bool("bias").unwrap_or(true));
            layer(LayerNorm::with(sizes(&args[0]), options.tensor(dtype))?)
        }
        // The machine epsilon that PyTorch adds is that of its f64.
        "RMSNorm" => {
            let options = RMSNormOptions::default()
                .eps(case.option_f64("eps"))
                .elementwise_affine(case.option_bool("elementwise_affine").unwrap_or(true));
            layer(RMSNorm::with(sizes(&args[0]), options.tensor(dtype))?)
        }
        "RNNCell" | "GRUCell" | "LSTMCell" | "RNN" | "GRU" | "LSTM" => build_recurrent::build(case, dtype),
        "MultiheadAttention" => attention(case, dtype),
        "TransformerEncoderLayer" => called_with(encoder_layer(case, dtype)?, |layer, inputs| {
            let [x, mask, padding] = [0, 1, 2].map(|i| inputs[i].as_ref());
            Ok(vec![Some(layer.forward_with(x.unwrap(), mask, padding)?)])
        }),
        "TransformerEncoder" => {
            let layers = (0..case.size(3)).map(|_| encoder_layer(case, dtype)).collect::<Result<_>>()?;
            called_with(TransformerEncoder::new(layers, last_norm(case, dtype)?)?, |encoder, inputs| {
                let [x, mask, padding] = [0, 1, 2].map(|i| inputs[i].as_ref());
                Ok(vec![Some(encoder.forward_with(x.unwrap(), mask, padding)?)])
            })
        }
        "TransformerDecoderLayer" => called_with(decoder_layer(case, dtype)?, |layer, inputs| {
            decode(inputs, |x, memory, call| layer.forward_with(x, memory, call))
        }),
        "TransformerDecoder" => {
            let layers = (0..case.size(3)).map(|_| decoder_layer(case, dtype)).collect::<Result<_>>()?;
            let decoder = TransformerDecoder::new(layers, last_norm(case, dtype)?)?;
            called_with(decoder, |decoder, inputs| {
                decode(inputs, |x, memory, call| decoder.forward_with(x, memory, call))
            })
        }
        "Transformer" => {
            let options = transformer_options(case, 4, dtype);
            let [d_model, nhead, encoders, decoders] = [0, 1, 2, 3].map(|i| case.size(i));
            called_with(Transformer::with(d_model, nhead, encoders, decoders, options)?, transform)
        }
        "LocalResponseNorm" => layer(
            LocalResponseNorm::new(case.size(0))?
                .alpha(case.option_f64("alpha").unwrap_or(1e-4))
                .beta(case.option_f64("beta").unwrap_or(0.75))
                .k(case.option_f64("k").unwrap_or(1.0)),
        ),
        _ => build_misc::build(case, dtype),
    }
}

fn attention(case: &Case, dtype: DType) -> Result<Built> {
    let options = MultiheadAttentionOptions::default()
        .dropout(case.option_f64("dropout").unwrap_or(0.0))
        .bias(case.option_bool("bias").unwrap_or(true))
        .add_bias_kv(case.option_bool("add_bias_kv").unwrap_or(false))
        .add_zero_attn(case.option_bool("add_zero_attn").unwrap_or(false))
        .kdim(case.option_usize("kdim"))
        .vdim(case.option_usize("vdim"))
        .batch_first(case.option_bool("batch_first").unwrap_or(false))
        .tensor(dtype);
    let is_default = case.call.as_object().is_none_or(|call| call.is_empty());
    let flag = |name: &str| case.call[name].as_bool().unwrap_or(true);
    let (need_weights, average_attn_weights) = (flag("need_weights"), flag("average_attn_weights"));
    called_with(MultiheadAttention::with(case.size(0), case.size(1), options)?, move |attention, inputs| {
        let [q, k, v] = [0, 1, 2].map(|i| inputs[i].as_ref().unwrap());
        let [key_padding_mask, attn_mask] = [3, 4].map(|i| inputs[i].as_ref());
        if is_default && key_padding_mask.is_none() && attn_mask.is_none() {
            return pair(attention.forward(q, k, v)?);
        }
        let call = MultiheadAttentionCall { key_padding_mask, attn_mask, need_weights, average_attn_weights };
        let (y, weights) = attention.forward_with(q, k, v, &call)?;
        Ok(vec![Some(y), weights])
    })
}

fn encoder_layer(case: &Case, dtype: DType) -> Result<TransformerEncoderLayer> {
    TransformerEncoderLayer::with(case.size(0), case.size(1), transformer_options(case, 2, dtype))
}

fn decoder_layer(case: &Case, dtype: DType) -> Result<TransformerDecoderLayer> {
    TransformerDecoderLayer::with(case.size(0), case.size(1), transformer_options(case, 2, dtype))
}

/// The masks of a decoder are the last arguments.
fn decode(
    inputs: &[Option<Tensor>],
    forward: impl FnOnce(&Tensor, &Tensor, &TransformerDecoderCall<'_>) -> Result<Tensor>,
) -> Result<Vec<Option<Tensor>>> {
    let [x, memory] = [0, 1].map(|i| inputs[i].as_ref().unwrap());
    let [tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask] =
        [2, 3, 4, 5].map(|i| inputs[i].as_ref());
    let call =
        TransformerDecoderCall { tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask };
    Ok(vec![Some(forward(x, memory, &call)?)])
}

/// The masks are the last arguments.
fn transform(model: &Transformer, inputs: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
    let [src, tgt] = [0, 1].map(|i| inputs[i].as_ref().unwrap());
    let [src_mask, tgt_mask, memory_mask] = [2, 3, 4].map(|i| inputs[i].as_ref());
    let [src_key_padding_mask, tgt_key_padding_mask, memory_key_padding_mask] =
        [5, 6, 7].map(|i| inputs[i].as_ref());
    let decoder =
        TransformerDecoderCall { tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask };
    let call = TransformerCall { src_mask, src_key_padding_mask, decoder };
    Ok(vec![Some(model.forward_with(src, tgt, &call)?)])
}

/// A norm after the last layer, if the constructor asks for one.
fn last_norm(case: &Case, dtype: DType) -> Result<Option<LayerNorm>> {
    match case.args[4].as_bool() {
        Some(true) => LayerNorm::new(case.size(0), 1e-5, dtype).map(Some),
        _ => Ok(None),
    }
}

/// `width` is the position of `dim_feedforward` among the arguments.
fn transformer_options(case: &Case, width: usize, dtype: DType) -> TransformerLayerOptions {
    let activation = match case.options["activation"].as_str() {
        Some("gelu") => TransformerActivation::Gelu,
        _ => TransformerActivation::Relu,
    };
    TransformerLayerOptions::default()
        .dim_feedforward(case.size(width))
        .dropout(case.option_f64("dropout").unwrap_or(0.1))
        .activation(activation)
        .layer_norm_eps(case.option_f64("layer_norm_eps").unwrap_or(1e-5))
        .batch_first(case.option_bool("batch_first").unwrap_or(false))
        .norm_first(case.option_bool("norm_first").unwrap_or(false))
        .bias(case.option_bool("bias").unwrap_or(true))
        .tensor(dtype)
}

fn ints(value: &Value) -> Vec<isize> {
    value.as_array().unwrap().iter().map(|n| n.as_i64().unwrap() as isize).collect()
}

fn sizes(value: &Value) -> Vec<usize> {
    ints(value).into_iter().map(isize::unsigned_abs).collect()
}

/// PyTorch lists the last dimension first.
fn sides<const N: usize>(value: &Value) -> PaddingSides<N> {
    match value {
        Value::Array(_) => {
            let list = ints(value);
            let of = |i: usize| (list[2 * (N - 1 - i)], list[2 * (N - 1 - i) + 1]);
            PaddingSides::from(std::array::from_fn(of))
        }
        all => (all.as_i64().unwrap() as isize).into(),
    }
}

fn conv<const N: usize>(case: &Case, dtype: DType) -> ConvNdOptions<N> {
    let mut options = ConvNdOptions::default().tensor(dtype);
    for (name, value) in case.options.as_object().unwrap() {
        options = match (name.as_str(), value.as_str()) {
            ("stride", _) => options.stride(each(value)),
            ("dilation", _) => options.dilation(each(value)),
            ("output_padding", _) => options.output_padding(each(value)),
            ("padding", Some("same")) => options.padding(ConvPadding::Same),
            ("padding", Some("valid")) => options.padding(ConvPadding::Valid),
            ("padding", _) => options.padding(each(value)),
            ("groups", _) => options.groups(value.as_u64().unwrap() as usize),
            ("bias", _) => options.bias(value.as_bool().unwrap()),
            ("padding_mode", Some("reflect")) => options.padding_mode(PaddingMode::Reflect),
            ("padding_mode", Some("replicate")) => options.padding_mode(PaddingMode::Replicate),
            ("padding_mode", Some("circular")) => options.padding_mode(PaddingMode::Circular),
            other => panic!("option {other:?}"),
        };
    }
    options
}

fn max_pool(case: &Case) -> MaxPoolOptions {
    let mut options = MaxPoolOptions::new();
    for (name, value) in case.options.as_object().unwrap() {
        options = match name.as_str() {
            "stride" => options.stride(numbers(value)),
            "padding" => options.padding(numbers(value)),
            "dilation" => options.dilation(numbers(value)),
            "ceil_mode" => options.ceil_mode(value.as_bool().unwrap()),
            "return_indices" => options,
            other => panic!("option {other}"),
        };
    }
    options
}

fn avg_pool(case: &Case) -> AvgPoolOptions {
    let mut options = AvgPoolOptions::new();
    for (name, value) in case.options.as_object().unwrap() {
        options = match name.as_str() {
            "stride" => options.stride(numbers(value)),
            "padding" => options.padding(numbers(value)),
            "ceil_mode" => options.ceil_mode(value.as_bool().unwrap()),
            "count_include_pad" => options.count_include_pad(value.as_bool().unwrap()),
            "divisor_override" => options.divisor_override(value.as_u64().unwrap() as usize),
            other => panic!("option {other}"),
        };
    }
    options
}

fn batch_norm(case: &Case, dtype: DType) -> BatchNormOptions {
    let momentum = match case.options.get("momentum") {
        Some(momentum) => momentum.as_f64(),
        None => Some(0.1),
    };
    BatchNormOptions::default()
        .eps(case.option_f64("eps").unwrap_or(1e-5))
        .momentum(momentum)
        .affine(case.option_bool("affine").unwrap_or(true))
        .bias(case.option_bool("bias").unwrap_or(true))
        .track_running_stats(case.option_bool("track_running_stats").unwrap_or(true))
        .tensor(dtype)
}

fn instance_norm(case: &Case, dtype: DType) -> InstanceNormOptions {
    InstanceNormOptions::default()
        .eps(case.option_f64("eps").unwrap_or(1e-5))
        .momentum(case.option_f64("momentum").unwrap_or(0.1))
        .affine(case.option_bool("affine").unwrap_or(false))
        .bias(case.option_bool("bias").unwrap_or(true))
        .track_running_stats(case.option_bool("track_running_stats").unwrap_or(false))
        .tensor(dtype)
}
