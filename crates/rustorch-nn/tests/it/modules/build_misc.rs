//! Tables, modules of two arguments, dropout, those that move elements of images, and those that PyTorch has not.

use super::build::{Built, called_with, layer};
use super::build_functions;
use super::fixture::{Case, expanding};
use rustorch_nn::*;
use rustorch_tensor::{DType, InterpolateOptions, Interpolation, Result, RopeStyle, Tensor};

/// A module of two tensors.
pub(super) fn of_two<M: Module + 'static>(
    module: M,
    forward: impl Fn(&M, &Tensor, &Tensor) -> Result<Tensor> + 'static,
) -> Result<Built> {
    called_with(module, move |module, inputs| {
        let [x1, x2] = [0, 1].map(|i| inputs[i].as_ref().unwrap());
        Ok(vec![Some(forward(module, x1, x2)?)])
    })
}

pub(super) fn build(case: &Case, dtype: DType) -> Result<Built> {
    let args = &case.args;
    let p = || args[0].as_f64().unwrap();
    match case.module.as_str() {
        "Dropout" => layer(Dropout::new(p())?),
        "FeatureAlphaDropout" => layer(FeatureAlphaDropout::new(p())?),
        "AlphaDropout" => layer(AlphaDropout::new(p())?),
        "RotaryEmbedding" => {
            let float = |name, default| case.option_f64(name).unwrap_or(default);
            let halves = case.option_bool("halves") == Some(true);
            let options = RotaryEmbeddingOptions {
                style: if halves { RopeStyle::Halves } else { RopeStyle::Adjacent },
                base: float("base", 10_000.0),
                position_scaling: float("position_scaling", 1.0),
                base_scaling: float("base_scaling", 1.0),
            };
            let start = case.call["start"].as_u64().unwrap_or(0) as usize;
            called_with(RotaryEmbedding::with(case.size(0), options)?, move |rotary, inputs| {
                Ok(vec![Some(rotary.forward_from(inputs[0].as_ref().unwrap(), start)?)])
            })
        }
        "SwiGLU" => {
            let bias = case.option_bool("bias").unwrap_or(false);
            let options = LinearOptions::default().bias(bias).tensor(dtype);
            layer(SwiGLU::with(case.size(0), case.size(1), options)?)
        }
        "GroupedQueryAttention" => {
            let options = GroupedQueryAttentionOptions::default()
                .head_dim(case.option_usize("head_dim"))
                .bias(case.option_bool("bias").unwrap_or(false))
                .is_causal(case.option_bool("is_causal").unwrap_or(true))
                .rotary(case.option_usize("rotary").map(RotaryEmbedding::new).transpose()?)
                .tensor(dtype);
            let attention = GroupedQueryAttention::with(case.size(0), case.size(1), case.size(2), options)?;
            called_with(attention, |attention, inputs| {
                Ok(vec![Some(attention.forward_with(inputs[0].as_ref().unwrap(), inputs[1].as_ref())?)])
            })
        }
        "Linear" => {
            let bias = case.option_bool("bias").unwrap_or(true);
            layer(Linear::with(
                case.size(0),
                case.size(1),
                LinearOptions::default().bias(bias).tensor(dtype),
            )?)
        }
        "Embedding" => {
            let options = EmbeddingOptions::default()
                .padding_idx(case.option_usize("padding_idx"))
                .max_norm(case.option_f64("max_norm"))
                .norm_type(case.option_f64("norm_type").unwrap_or(2.0))
                .scale_grad_by_freq(case.option_bool("scale_grad_by_freq").unwrap_or(false));
            layer(Embedding::with(case.size(0), case.size(1), options.tensor(dtype))?)
        }
        "EmbeddingBag" => embedding_bag(case, dtype),
        "Bilinear" => {
            let bias = case.option_bool("bias").unwrap_or(true);
            let options = BilinearOptions::default().bias(bias).tensor(dtype);
            let bilinear = Bilinear::with(case.size(0), case.size(1), case.size(2), options)?;
            of_two(bilinear, Bilinear::forward)
        }
        "CosineSimilarity" => {
            let dim = case.options["dim"].as_i64().unwrap_or(1) as isize;
            let eps = case.option_f64("eps").unwrap_or(1e-8);
            of_two(CosineSimilarity::new(dim, eps), CosineSimilarity::forward)
        }
        "PairwiseDistance" => {
            let (p, eps) = (case.option_f64("p").unwrap(), case.option_f64("eps").unwrap_or(1e-6));
            let keepdim = case.option_bool("keepdim").unwrap_or(false);
            of_two(PairwiseDistance::new(p, eps, keepdim), PairwiseDistance::forward)
        }
        "PixelShuffle" => layer(PixelShuffle::new(case.size(0))),
        "PixelUnshuffle" => layer(PixelUnshuffle::new(case.size(0))),
        "ChannelShuffle" => layer(ChannelShuffle::new(case.size(0))),
        "Upsample" => layer(Upsample::new(interpolate(case))),
        "Unfold" => layer(Unfold::new(fold(case, 0))),
        "Fold" => layer(Fold::new(expanding::<2>(&args[0]), fold(case, 1))),
        _ => build_functions::build(case, dtype),
    }
}

fn embedding_bag(case: &Case, dtype: DType) -> Result<Built> {
    let mode = match case.options["mode"].as_str().unwrap() {
        "sum" => EmbeddingBagMode::Sum,
        "max" => EmbeddingBagMode::Max,
        _ => EmbeddingBagMode::Mean,
    };
    let options = EmbeddingBagOptions::default()
        .mode(mode)
        .padding_idx(case.option_usize("padding_idx"))
        .include_last_offset(case.option_bool("include_last_offset").unwrap_or(false))
        .tensor(dtype);
    called_with(EmbeddingBag::with(case.size(0), case.size(1), options)?, |bag, inputs| {
        let [x, offsets, factors] = [0, 1, 2].map(|i| inputs[i].as_ref());
        Ok(vec![Some(bag.forward_with(x.unwrap(), offsets, factors)?)])
    })
}

fn interpolate(case: &Case) -> InterpolateOptions {
    let options = match case.option_f64("scale_factor") {
        Some(factor) => InterpolateOptions::scale_factor(factor),
        None => InterpolateOptions::size(case.option_usize("size").unwrap()),
    };
    let mode = match case.options["mode"].as_str() {
        None => Interpolation::Nearest,
        Some("linear") => Interpolation::Linear,
        Some("bilinear") => Interpolation::Bilinear,
        Some("bicubic") => Interpolation::Bicubic,
        Some("trilinear") => Interpolation::Trilinear,
        Some(other) => panic!("mode {other}"),
    };
    options.mode(mode).align_corners(case.option_bool("align_corners").unwrap_or(false))
}

fn fold(case: &Case, kernel: usize) -> FoldOptions {
    let mut options = FoldOptions::new(expanding::<2>(&case.args[kernel]));
    for (name, value) in case.options.as_object().unwrap() {
        options = match name.as_str() {
            "dilation" => options.dilation(expanding::<2>(value)),
            "padding" => options.padding(expanding::<2>(value)),
            "stride" => options.stride(expanding::<2>(value)),
            other => panic!("option {other}"),
        };
    }
    options
}
