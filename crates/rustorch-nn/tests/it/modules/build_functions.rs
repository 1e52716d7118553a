//! Activations and losses.

use super::build::{Built, called_with, layer};
use super::build_misc::of_two;
use super::fixture::Case;
use rustorch_nn::functional::{GeluApproximation, KLDivReduction};
use rustorch_nn::*;
use rustorch_tensor::{DType, Error, Reduction, Result, Tensor};

pub(super) fn build(case: &Case, dtype: DType) -> Result<Built> {
    let number = |i: usize, name: &str, default: f64| {
        case.args.get(i).or(case.options.get(name)).and_then(|value| value.as_f64()).unwrap_or(default)
    };
    let dim = |default: Option<i64>| -> Result<isize> {
        let dim = case.options["dim"].as_i64().or(default);
        dim.map(|dim| dim as isize).ok_or_else(|| Error::argument("Softmax", "has no implicit dim"))
    };
    match case.module.as_str() {
        "CELU" => layer(CELU { alpha: number(0, "alpha", 1.0) }),
        "ELU" => layer(ELU { alpha: number(0, "alpha", 1.0) }),
        "GELU" => layer(GELU {
            approximate: match case.options["approximate"].as_str() {
                Some("tanh") => GeluApproximation::Tanh,
                _ => GeluApproximation::None,
            },
        }),
        "GLU" => layer(GLU { dim: dim(Some(-1))? }),
        "Hardshrink" => layer(Hardshrink { lambd: number(0, "lambd", 0.5) }),
        "Hardswish" => layer(Hardswish),
        "Hardtanh" => layer(Hardtanh::default()),
        "LeakyReLU" => layer(LeakyReLU { negative_slope: number(0, "negative_slope", 0.01) }),
        "LogSigmoid" => layer(LogSigmoid),
        "LogSoftmax" => layer(LogSoftmax { dim: dim(None)? }),
        "Mish" => layer(Mish),
        "PReLU" => layer(PReLU::new(case.option_usize("num_parameters").unwrap_or(1), 0.25, dtype)?),
        "ReLU" => layer(ReLU),
        "ReLU6" => layer(ReLU6),
        "SELU" => layer(SELU),
        "SiLU" => layer(SiLU),
        "Sigmoid" => layer(Sigmoid),
        "Softmax" => layer(Softmax { dim: dim(None)? }),
        "Softmax2d" => layer(Softmax2d),
        "Softmin" => layer(Softmin { dim: dim(None)? }),
        "Softplus" => {
            layer(Softplus { beta: number(0, "beta", 1.0), threshold: number(1, "threshold", 20.0) })
        }
        "Softshrink" => layer(Softshrink { lambd: number(0, "lambd", 0.5) }),
        "Softsign" => layer(Softsign),
        "Tanh" => layer(Tanh),
        "Tanhshrink" => layer(Tanhshrink),
        "Threshold" => layer(Threshold { threshold: number(0, "", 0.0), value: number(1, "", 0.0) }),
        _ => loss(case, dtype),
    }
}

fn loss(case: &Case, dtype: DType) -> Result<Built> {
    let float = |name: &str, default: f64| case.option_f64(name).unwrap_or(default);
    let flag = |name: &str, default: bool| case.option_bool(name).unwrap_or(default);
    let reduction = match case.options["reduction"].as_str() {
        Some("none") => Reduction::None,
        Some("sum") => Reduction::Sum,
        _ => Reduction::Mean,
    };
    // Its numbers come with the state.
    let weight = case.options.get("weight").filter(|weight| weight.is_object()).map(|weight| {
        let shape: Vec<usize> =
            weight["shape"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as usize).collect();
        let dtype = if weight["dtype"] == "f16" { DType::F16 } else { dtype };
        Buffer::new(&Tensor::ones(shape, dtype).unwrap())
    });
    let ignore_index = case.options["ignore_index"].as_i64();
    match case.module.as_str() {
        "BCELoss" => of_two(BCELoss { weight, reduction }, BCELoss::forward),
        "BCEWithLogitsLoss" => {
            let pos_weight = None;
            of_two(BCEWithLogitsLoss { weight, pos_weight, reduction }, BCEWithLogitsLoss::forward)
        }
        "CosineEmbeddingLoss" => {
            let loss = CosineEmbeddingLoss { margin: float("margin", 0.0), reduction };
            of_three(loss, CosineEmbeddingLoss::forward)
        }
        "CrossEntropyLoss" => {
            let (ignore_index, label_smoothing) =
                (ignore_index.unwrap_or(-100), float("label_smoothing", 0.0));
            let loss = CrossEntropyLoss { weight, ignore_index, reduction, label_smoothing };
            of_two(loss, CrossEntropyLoss::forward)
        }
        "LinearCrossEntropyLoss" => {
            let out_features: Vec<usize> = case.options["out_features"]
                .as_array()
                .map_or(&[][..], Vec::as_slice)
                .iter()
                .map(|n| n.as_u64().unwrap() as usize)
                .collect();
            let options = LinearCrossEntropyLossOptions::default()
                .out_features(out_features)
                .bias(flag("bias", false))
                .weight(weight)
                .reduction(reduction)
                .ignore_index(ignore_index)
                .label_smoothing(float("label_smoothing", 0.0))
                .tensor(dtype);
            let loss = LinearCrossEntropyLoss::with(case.size(0), case.size(1), options)?;
            of_two(loss, LinearCrossEntropyLoss::forward)
        }
        "GaussianNLLLoss" => {
            of_three(GaussianNLLLoss { reduction, ..Default::default() }, GaussianNLLLoss::forward)
        }
        "HingeEmbeddingLoss" => of_two(
            HingeEmbeddingLoss { margin: float("margin", 1.0), reduction },
            HingeEmbeddingLoss::forward,
        ),
        "HuberLoss" => of_two(HuberLoss { delta: float("delta", 1.0), reduction }, HuberLoss::forward),
        "KLDivLoss" => {
            let reduction = match case.options["reduction"].as_str() {
                Some("none") => KLDivReduction::None,
                Some("sum") => KLDivReduction::Sum,
                Some("batchmean") => KLDivReduction::BatchMean,
                _ => KLDivReduction::Mean,
            };
            of_two(KLDivLoss { reduction, log_target: flag("log_target", false) }, KLDivLoss::forward)
        }
        "L1Loss" => of_two(L1Loss { reduction }, L1Loss::forward),
        "MSELoss" => of_two(MSELoss { reduction }, MSELoss::forward),
        "MarginRankingLoss" => of_three(
            MarginRankingLoss { margin: float("margin", 0.0), reduction },
            MarginRankingLoss::forward,
        ),
        "MultiLabelMarginLoss" => of_two(MultiLabelMarginLoss { reduction }, MultiLabelMarginLoss::forward),
        "MultiLabelSoftMarginLoss" => {
            of_two(MultiLabelSoftMarginLoss { weight, reduction }, MultiLabelSoftMarginLoss::forward)
        }
        "MultiMarginLoss" => {
            let p = case.options["p"].as_i64().unwrap_or(1);
            let loss = MultiMarginLoss { p, margin: float("margin", 1.0), weight, reduction };
            of_two(loss, MultiMarginLoss::forward)
        }
        "NLLLoss" => of_two(
            NLLLoss { weight, ignore_index: ignore_index.unwrap_or(-100), reduction },
            NLLLoss::forward,
        ),
        "PoissonNLLLoss" => {
            let (log_input, full) = (flag("log_input", true), flag("full", false));
            let loss = PoissonNLLLoss { log_input, full, reduction, ..Default::default() };
            of_two(loss, PoissonNLLLoss::forward)
        }
        "SmoothL1Loss" => of_two(SmoothL1Loss { reduction, ..Default::default() }, SmoothL1Loss::forward),
        "SoftMarginLoss" => of_two(SoftMarginLoss { reduction }, SoftMarginLoss::forward),
        "CTCLoss" => {
            let loss =
                CTCLoss { blank: case.option_usize("blank").unwrap_or(0), reduction, zero_infinity: false };
            called_with(loss, |loss, inputs| {
                let [log_probs, targets] = [0, 1].map(|i| inputs[i].as_ref().unwrap());
                let lengths = |i: usize| -> Result<Vec<usize>> {
                    let lengths = inputs[i].as_ref().unwrap().to_vec::<i64>()?;
                    Ok(lengths.into_iter().map(|n| n as usize).collect())
                };
                // PyTorch's gradient is that before log_softmax, which changes nothing else.
                let log_probs = &log_probs.log_softmax(-1)?;
                Ok(vec![Some(loss.forward(log_probs, targets, &lengths(2)?, &lengths(3)?)?)])
            })
        }
        other => panic!("no module {other}"),
    }
}

/// A module of three tensors.
fn of_three<M: Module + 'static>(
    module: M,
    forward: impl Fn(&M, &Tensor, &Tensor, &Tensor) -> Result<Tensor> + 'static,
) -> Result<Built> {
    called_with(module, move |module, inputs| {
        let [a, b, c] = [0, 1, 2].map(|i| inputs[i].as_ref().unwrap());
        Ok(vec![Some(forward(module, a, b, c)?)])
    })
}
