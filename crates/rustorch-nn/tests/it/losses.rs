//! Losses and their gradients against PyTorch's, as functions and as modules.
//!
//! The fixture was made by `tools/oracle/torch_nn_functional.py` with PyTorch 2.

use crate::common::{Case, check, check_half};
use rustorch_nn::functional::{self as F, KLDivReduction, TripletMarginOptions};
use rustorch_nn::{
    BCELoss, BCEWithLogitsLoss, Buffer, CTCLoss, CosineEmbeddingLoss, CrossEntropyLoss, GaussianNLLLoss,
    HingeEmbeddingLoss, HuberLoss, KLDivLoss, L1Loss, MSELoss, MarginRankingLoss, Module,
    MultiLabelMarginLoss, MultiLabelSoftMarginLoss, MultiMarginLoss, NLLLoss, PoissonNLLLoss, SmoothL1Loss,
    SoftMarginLoss, TripletMarginLoss, TripletMarginWithDistanceLoss,
};
use rustorch_tensor::autograd::autocast;
use rustorch_tensor::{CrossEntropyOptions, DType, Reduction, Result, Tensor, manual_seed};

/// The results of the function and of the module.
fn call(case: &Case<'_>, inputs: &[Tensor]) -> Result<[Tensor; 2]> {
    let reduction = || match case.text("reduction") {
        "none" => Reduction::None,
        "mean" => Reduction::Mean,
        "sum" => Reduction::Sum,
        other => panic!("reduction {other}"),
    };
    let (x, y) = (&inputs[0], &inputs[1]);
    // Weights follow the other inputs.
    let weight = |name: &str| {
        let names = case.list("weights");
        let at = names.iter().position(|weight| weight.as_str() == Some(name))?;
        Some(&inputs[inputs.len() - names.len() + at])
    };
    let buffer = |name: &str| weight(name).map(Buffer::new);
    Ok(match case.op {
        "l1_loss" => {
            let reduction = reduction();
            [F::l1_loss(x, y, reduction)?, L1Loss { reduction }.forward(x, y)?]
        }
        "mse_loss" => {
            let reduction = reduction();
            [F::mse_loss(x, y, reduction)?, MSELoss { reduction }.forward(x, y)?]
        }
        "smooth_l1_loss" => {
            let (beta, reduction) = (case.float("beta"), reduction());
            [F::smooth_l1_loss(x, y, beta, reduction)?, SmoothL1Loss { beta, reduction }.forward(x, y)?]
        }
        "huber_loss" => {
            let (delta, reduction) = (case.float("delta"), reduction());
            [F::huber_loss(x, y, delta, reduction)?, HuberLoss { delta, reduction }.forward(x, y)?]
        }
        "binary_cross_entropy" => {
            let reduction = reduction();
            [
                F::binary_cross_entropy(x, y, weight("weight"), reduction)?,
                BCELoss { weight: buffer("weight"), reduction }.forward(x, y)?,
            ]
        }
        "binary_cross_entropy_with_logits" => {
            let (weight, pos_weight, reduction) = (weight("weight"), weight("pos_weight"), reduction());
            let (of_module, pos) = (buffer("weight"), buffer("pos_weight"));
            [
                F::binary_cross_entropy_with_logits(x, y, weight, pos_weight, reduction)?,
                BCEWithLogitsLoss { weight: of_module, pos_weight: pos, reduction }.forward(x, y)?,
            ]
        }
        "soft_margin_loss" => {
            let reduction = reduction();
            [F::soft_margin_loss(x, y, reduction)?, SoftMarginLoss { reduction }.forward(x, y)?]
        }
        "multilabel_soft_margin_loss" => {
            let reduction = reduction();
            [
                F::multilabel_soft_margin_loss(x, y, weight("weight"), reduction)?,
                MultiLabelSoftMarginLoss { weight: buffer("weight"), reduction }.forward(x, y)?,
            ]
        }
        "nll_loss" => {
            let (ignore_index, reduction) = (case.int("ignore_index"), reduction());
            [
                F::nll_loss(x, y, weight("weight"), ignore_index, reduction)?,
                NLLLoss { weight: buffer("weight"), ignore_index, reduction }.forward(x, y)?,
            ]
        }
        "cross_entropy" => {
            let (ignore_index, reduction) = (case.int("ignore_index"), reduction());
            let label_smoothing = case.float("label_smoothing");
            let given = weight("weight").cloned();
            let options = CrossEntropyOptions { weight: given, ignore_index, reduction, label_smoothing };
            let weight = buffer("weight");
            [
                F::cross_entropy(x, y, &options)?,
                CrossEntropyLoss { weight, ignore_index, reduction, label_smoothing }.forward(x, y)?,
            ]
        }
        "kl_div" => {
            let reduction = match case.text("reduction") {
                "batchmean" => KLDivReduction::BatchMean,
                "none" => KLDivReduction::None,
                "mean" => KLDivReduction::Mean,
                "sum" => KLDivReduction::Sum,
                other => panic!("reduction {other}"),
            };
            let log_target = case.flag("log_target");
            [F::kl_div(x, y, reduction, log_target)?, KLDivLoss { reduction, log_target }.forward(x, y)?]
        }
        "poisson_nll_loss" => {
            let (log_input, full) = (case.flag("log_input"), case.flag("full"));
            let (eps, reduction) = (case.float("eps"), reduction());
            [
                F::poisson_nll_loss(x, y, log_input, full, eps, reduction)?,
                PoissonNLLLoss { log_input, full, eps, reduction }.forward(x, y)?,
            ]
        }
        "gaussian_nll_loss" => {
            let (var, full, eps, reduction) = (&inputs[2], case.flag("full"), case.float("eps"), reduction());
            [
                F::gaussian_nll_loss(x, y, var, full, eps, reduction)?,
                GaussianNLLLoss { full, eps, reduction }.forward(x, y, var)?,
            ]
        }
        "margin_ranking_loss" => {
            let (target, margin, reduction) = (&inputs[2], case.float("margin"), reduction());
            [
                F::margin_ranking_loss(x, y, target, margin, reduction)?,
                MarginRankingLoss { margin, reduction }.forward(x, y, target)?,
            ]
        }
        "cosine_embedding_loss" => {
            let (target, margin, reduction) = (&inputs[2], case.float("margin"), reduction());
            [
                F::cosine_embedding_loss(x, y, target, margin, reduction)?,
                CosineEmbeddingLoss { margin, reduction }.forward(x, y, target)?,
            ]
        }
        "hinge_embedding_loss" => {
            let (margin, reduction) = (case.float("margin"), reduction());
            [
                F::hinge_embedding_loss(x, y, margin, reduction)?,
                HingeEmbeddingLoss { margin, reduction }.forward(x, y)?,
            ]
        }
        "multi_margin_loss" => {
            let (p, margin, reduction) = (case.int("p"), case.float("margin"), reduction());
            [
                F::multi_margin_loss(x, y, p, margin, weight("weight"), reduction)?,
                MultiMarginLoss { p, margin, weight: buffer("weight"), reduction }.forward(x, y)?,
            ]
        }
        "multilabel_margin_loss" => {
            let reduction = reduction();
            [F::multilabel_margin_loss(x, y, reduction)?, MultiLabelMarginLoss { reduction }.forward(x, y)?]
        }
        "triplet_margin_loss" => {
            let (margin, p, eps) = (case.float("margin"), case.float("p"), case.float("eps"));
            let (negative, swap, reduction) = (&inputs[2], case.flag("swap"), reduction());
            let options = TripletMarginOptions { margin, p, eps, swap, reduction };
            [
                F::triplet_margin_loss(x, y, negative, &options)?,
                TripletMarginLoss { options }.forward(x, y, negative)?,
            ]
        }
        "triplet_margin_with_distance_loss" => {
            let distance = |a: &Tensor, b: &Tensor| a.sub(b)?.square()?.sum(-1, false);
            let (negative, margin) = (&inputs[2], case.float("margin"));
            let (swap, reduction) = (case.flag("swap"), reduction());
            let module = TripletMarginWithDistanceLoss {
                margin,
                swap,
                reduction,
                ..TripletMarginWithDistanceLoss::new(distance)
            };
            [
                F::triplet_margin_with_distance_loss(x, y, negative, distance, margin, swap, reduction)?,
                module.forward(x, y, negative)?,
            ]
        }
        "ctc_loss" => {
            // PyTorch's gradient is that before log_softmax.
            let log_probs = F::log_softmax(x, -1)?;
            let lengths = |name: &str| -> Vec<usize> {
                case.list(name).iter().map(|length| length.as_u64().unwrap() as usize).collect()
            };
            let (of_inputs, of_targets) = (lengths("input_lengths"), lengths("target_lengths"));
            let (blank, reduction) = (case.int("blank") as usize, reduction());
            let zero_infinity = case.flag("zero_infinity");
            let module = CTCLoss { blank, reduction, zero_infinity };
            [
                F::ctc_loss(&log_probs, y, &of_inputs, &of_targets, blank, reduction, zero_infinity)?,
                module.forward(&log_probs, y, &of_inputs, &of_targets)?,
            ]
        }
        other => panic!("no loss {other}"),
    })
}

#[test]
fn results_and_gradients_equal_pytorch() {
    check("losses.jsonl", call);
}

#[test]
fn half_precision_is_rounded_once() {
    // The distance of the test is of 16 bits.
    check_half("losses.jsonl", &["ctc_loss", "triplet_margin_with_distance_loss"], call);
}

/// PyTorch's autocast computes and returns losses in single precision.
#[test]
fn losses_stay_in_single_precision_with_autocast() -> Result<()> {
    let x = Tensor::new([[0.1f32, 0.7], [0.3, -0.9]])?.to_dtype(DType::BF16)?;
    let y = Tensor::new([[0.0f32, 1.0], [1.0, 1.0]])?;
    let exact = F::mse_loss(&x.to_dtype(DType::F32)?, &y, Reduction::Mean)?;
    let half = y.to_dtype(DType::BF16)?;
    let loss = autocast(DType::BF16, || F::mse_loss(&x, &half, Reduction::Mean))??;
    assert_eq!((loss.dtype(), loss.item()?), (DType::F32, exact.item()?));
    assert_eq!(F::mse_loss(&x, &half, Reduction::Mean)?.dtype(), DType::BF16);
    Ok(())
}

/// What the error of a result says.
#[track_caller]
fn refused<T>(result: Result<T>, parts: &[&str]) {
    let text = result.err().expect("this should be refused").to_string();
    for part in parts {
        assert!(text.contains(part), "`{text}` does not say `{part}`");
    }
}

#[test]
fn errors_say_what_is_wrong() -> Result<()> {
    let (x, y) = (Tensor::zeros([3, 4], DType::F32)?, Tensor::zeros([4], DType::F32)?);
    let integers = x.to_dtype(DType::I64)?;
    refused(L1Loss::default().forward(&x, &y), &["l1_loss", "[3, 4]", "[4]"]);
    refused(MSELoss::default().forward(&integers, &integers), &["mse_loss", "floating-point", "i64"]);
    let negative = SmoothL1Loss { beta: -1.0, ..Default::default() };
    refused(negative.forward(&x, &x), &["smooth_l1_loss", "beta", "-1"]);
    refused(HuberLoss { delta: 0.0, ..Default::default() }.forward(&x, &x), &["huber_loss", "delta", "0"]);
    let bce = BCELoss::default();
    refused(bce.forward(&x, &y), &["binary_cross_entropy", "[3, 4]", "[4]"]);
    refused(bce.forward(&x, &x.to_dtype(DType::F64)?), &["binary_cross_entropy", "f32", "f64"]);
    refused(bce.forward(&x.add(1.5)?, &x), &["binary_cross_entropy", "input", "from 0 to 1", "logits"]);
    refused(bce.forward(&x, &x.sub(0.5)?), &["binary_cross_entropy", "target", "from 0 to 1"]);
    let wide = Some(Buffer::new(&Tensor::ones([5], DType::F32)?));
    let weighted = BCEWithLogitsLoss { pos_weight: wide.clone(), ..Default::default() };
    refused(weighted.forward(&x, &x), &["binary_cross_entropy_with_logits", "pos_weight", "[3, 4]", "[5]"]);
    let scalar = Tensor::zeros([], DType::F32)?;
    refused(MultiLabelSoftMarginLoss::default().forward(&scalar, &scalar), &["multilabel_soft_margin_loss"]);
    let nll = NLLLoss::default();
    refused(nll.forward(&x, &Tensor::new([0i64, 4, 1])?), &["nll_loss", "class 4", "4 classes"]);
    refused(nll.forward(&x, &Tensor::new([0i64, 1])?), &["nll_loss", "shape [3]", "[2]"]);
    refused(nll.forward(&x, &Tensor::zeros([3], DType::F32)?), &["nll_loss", "integers", "f32"]);
    let weighted = NLLLoss { weight: wide, ..Default::default() };
    refused(weighted.forward(&x, &Tensor::new([0i64, 1, 2])?), &["nll_loss", "weight", "4 classes", "[5]"]);
    let kl_div = KLDivLoss::default();
    refused(kl_div.forward(&x, &Tensor::zeros([3], DType::F32)?), &["kl_div", "[3, 4]", "[3]"]);
    let gaussian = GaussianNLLLoss::default();
    refused(gaussian.forward(&x, &x, &y), &["gaussian_nll_loss", "var", "[3, 4]", "[4]"]);
    refused(gaussian.forward(&x, &x, &x.sub(1)?), &["gaussian_nll_loss", "negative"]);
    let eps = GaussianNLLLoss { eps: 0.0, ..Default::default() };
    refused(eps.forward(&x, &x, &x), &["gaussian_nll_loss", "eps"]);
    Ok(())
}

#[test]
fn errors_of_margins_say_what_is_wrong() -> Result<()> {
    let (x, y) = (Tensor::zeros([3, 4], DType::F32)?, Tensor::zeros([4], DType::F32)?);
    let classes = Tensor::new([0i64, 1, 2])?;
    refused(MarginRankingLoss::default().forward(&x, &x, &y), &["margin_ranking_loss", "dimensions", "[4]"]);
    let wide = Tensor::zeros([3, 5], DType::F32)?;
    refused(HingeEmbeddingLoss::default().forward(&x, &wide), &["hinge_embedding_loss", "[3, 4]", "[3, 5]"]);
    let cosine = CosineEmbeddingLoss::default();
    refused(cosine.forward(&x, &x, &x), &["cosine_embedding_loss", "[n, features]", "[3, 4]"]);
    let multi = MultiMarginLoss::default();
    refused(multi.forward(&x, &Tensor::new([0i64, 4, 1])?), &["multi_margin_loss", "class 4", "4 classes"]);
    refused(multi.forward(&x, &Tensor::new([0i64, 1])?), &["multi_margin_loss", "[3]", "[2]"]);
    refused(multi.forward(&x, &x), &["multi_margin_loss", "integers", "f32"]);
    refused(
        MultiMarginLoss { p: 3, ..multi }.forward(&x, &classes),
        &["multi_margin_loss", "p must be", "3"],
    );
    let lists = Tensor::full([3, 4], -2, DType::I64)?;
    refused(MultiLabelMarginLoss::default().forward(&x, &lists), &["multilabel_margin_loss", "class -2"]);
    let triplet = TripletMarginLoss::default();
    refused(triplet.forward(&x, &x, &y), &["triplet_margin_loss", "dimensions", "[4]"]);
    let options = TripletMarginOptions { margin: 0.0, ..Default::default() };
    refused(TripletMarginLoss { options }.forward(&x, &x, &x), &["triplet_margin_loss", "margin", "0"]);
    refused(F::pairwise_distance(&x, &wide, 2.0, 1e-6), &["pairwise_distance", "[3, 4]", "[3, 5]"]);
    Ok(())
}

#[test]
fn errors_of_ctc_say_what_is_wrong() -> Result<()> {
    let x = F::log_softmax(&Tensor::zeros([5, 2, 4], DType::F32)?, -1)?;
    let y = Tensor::new([[1i64, 2], [3, 3]])?;
    let ctc = CTCLoss::default();
    assert!(ctc.forward(&x, &y, &[5, 5], &[2, 2]).is_ok());
    refused(ctc.forward(&x.to_dtype(DType::F16)?, &y, &[5, 5], &[2, 2]), &["ctc_loss", "f32 or f64", "f16"]);
    refused(ctc.forward(&x, &y, &[5, 6], &[2, 2]), &["ctc_loss", "input length is 6", "5 times"]);
    refused(ctc.forward(&x, &y, &[5], &[2, 2]), &["ctc_loss", "input_lengths", "2 sequences, not 1"]);
    refused(ctc.forward(&x, &y, &[5, 5], &[2, 3]), &["ctc_loss", "targets", "[2, 3 or more]", "[2, 2]"]);
    let wrong = |y| ctc.forward(&x, &Tensor::new(y)?, &[5, 5], &[2, 1]);
    refused(wrong([[1i64, 4], [1, 1]]), &["ctc_loss", "class 4", "4 classes"]);
    refused(wrong([[1i64, -1], [1, 1]]), &["ctc_loss", "class -1"]);
    refused(wrong([[1i64, 0], [1, 1]]), &["ctc_loss", "blank"]);
    // Padding may be anything.
    assert!(wrong([[1i64, 2], [1, 0]]).is_ok() && wrong([[1i64, 2], [1, 99]]).is_ok());
    refused(CTCLoss { blank: 4, ..ctc }.forward(&x, &y, &[5, 5], &[2, 2]), &["ctc_loss", "blank is 4"]);
    Ok(())
}

/// Sums over all alignments, counted one by one.
#[test]
fn ctc_sums_over_all_alignments() -> Result<()> {
    manual_seed(3);
    let log_probs = F::log_softmax(&Tensor::randn([5, 1, 3], DType::F64)?, -1)?;
    let p: Vec<f64> = log_probs.exp()?.to_vec()?;
    let mut total = 0.0;
    for path in 0..3usize.pow(5) {
        let classes: Vec<usize> = (0..5).map(|t| path / 3usize.pow(t) % 3).collect();
        let mut labels = classes.clone();
        labels.dedup();
        labels.retain(|&class| class != 0);
        if labels == [2, 1, 1] {
            total += classes.iter().enumerate().map(|(t, &class)| p[t * 3 + class]).product::<f64>();
        }
    }
    let loss = CTCLoss { reduction: Reduction::Sum, ..Default::default() }.forward(
        &log_probs,
        &Tensor::new([[2i64, 1, 1]])?,
        &[5],
        &[3],
    )?;
    assert!((loss.item()?.to_f64() + total.ln()).abs() < 1e-12);
    Ok(())
}

#[test]
fn weights_are_in_state_dicts() -> Result<()> {
    let weight = Some(Buffer::new(&Tensor::new([1.0f32, 3.0])?));
    let loss = CrossEntropyLoss { weight, ..Default::default() };
    assert_eq!(loss.named_buffers()[0].0, "weight");
    assert_eq!(loss.state_dict().len(), 1);
    Ok(())
}

/// Gradients of gradients, also of the functions that have gradients of their own.
#[test]
fn second_gradients_equal_finite_differences() -> Result<()> {
    use rustorch_tensor::autograd::{GradCheck, gradgradcheck};
    let x = Tensor::new([0.25f64, 0.5, 0.875])?;
    let y = Tensor::new([0.125f64, 0.75, 0.5])?;
    let mean = Reduction::Mean;
    gradgradcheck(
        |x| Ok(vec![F::binary_cross_entropy(&x[0], &x[1], None, mean)?]),
        &[&x, &y],
        GradCheck::default(),
    )?;
    gradgradcheck(|x| Ok(vec![F::huber_loss(&x[0], &x[1], 0.5, mean)?]), &[&x, &y], GradCheck::default())
}
