//! Activations and their gradients against PyTorch's, as functions and as layers.
//!
//! The fixture was made by `tools/oracle/torch_nn_functional.py` with PyTorch 2.

use crate::common::{Case, check, check_half};
use rustorch_nn::functional::{self as F, GeluApproximation};
use rustorch_nn::{
    CELU, ELU, GELU, GLU, Hardshrink, Hardsigmoid, Hardswish, Hardtanh, Layer, LeakyReLU, LogSigmoid,
    LogSoftmax, Mish, Module, PReLU, Parameter, RReLU, ReLU, ReLU6, SELU, SiLU, Sigmoid, Softmax, Softmax2d,
    Softmin, Softplus, Softshrink, Softsign, Tanh, Tanhshrink, Threshold,
};
use rustorch_tensor::{DType, Result, Tensor, manual_seed};

/// The results of the function and of the layer.
fn call(case: &Case<'_>, inputs: &[Tensor]) -> Result<[Tensor; 2]> {
    let x = &inputs[0];
    let dim = || case.int("dim") as isize;
    Ok(match case.op {
        "relu" => [F::relu(x)?, ReLU.forward(x)?],
        "relu6" => [F::relu6(x)?, ReLU6.forward(x)?],
        "selu" => [F::selu(x)?, SELU.forward(x)?],
        "silu" => [F::silu(x)?, SiLU.forward(x)?],
        "mish" => [F::mish(x)?, Mish.forward(x)?],
        "hardswish" => [F::hardswish(x)?, Hardswish.forward(x)?],
        "hardsigmoid" => [F::hardsigmoid(x)?, Hardsigmoid.forward(x)?],
        "sigmoid" => [F::sigmoid(x)?, Sigmoid.forward(x)?],
        "tanh" => [F::tanh(x)?, Tanh.forward(x)?],
        "tanhshrink" => [F::tanhshrink(x)?, Tanhshrink.forward(x)?],
        "softsign" => [F::softsign(x)?, Softsign.forward(x)?],
        "logsigmoid" => [F::logsigmoid(x)?, LogSigmoid.forward(x)?],
        "leaky_relu" => {
            let negative_slope = case.float("negative_slope");
            [F::leaky_relu(x, negative_slope)?, LeakyReLU { negative_slope }.forward(x)?]
        }
        "elu" => {
            let alpha = case.float("alpha");
            [F::elu(x, alpha)?, ELU { alpha }.forward(x)?]
        }
        "celu" => {
            let alpha = case.float("alpha");
            [F::celu(x, alpha)?, CELU { alpha }.forward(x)?]
        }
        "gelu" => {
            let approximate = match case.text("approximate") {
                "none" => GeluApproximation::None,
                "tanh" => GeluApproximation::Tanh,
                other => panic!("approximate {other}"),
            };
            [F::gelu(x, approximate)?, GELU { approximate }.forward(x)?]
        }
        "hardtanh" => {
            let (min_val, max_val) = (case.float("min_val"), case.float("max_val"));
            [F::hardtanh(x, min_val, max_val)?, Hardtanh { min_val, max_val }.forward(x)?]
        }
        "hardshrink" => {
            let lambd = case.float("lambd");
            [F::hardshrink(x, lambd)?, Hardshrink { lambd }.forward(x)?]
        }
        "softshrink" => {
            let lambd = case.float("lambd");
            [F::softshrink(x, lambd)?, Softshrink { lambd }.forward(x)?]
        }
        "softplus" => {
            let (beta, threshold) = (case.float("beta"), case.float("threshold"));
            [F::softplus(x, beta, threshold)?, Softplus { beta, threshold }.forward(x)?]
        }
        "threshold" => {
            let (threshold, value) = (case.float("threshold"), case.float("value"));
            [F::threshold(x, threshold, value)?, Threshold { threshold, value }.forward(x)?]
        }
        "rrelu" => {
            let (lower, upper) = (case.float("lower"), case.float("upper"));
            assert!(!case.flag("training"));
            let layer = RReLU::new(lower, upper)?;
            layer.eval();
            [F::rrelu(x, lower, upper, false)?, layer.forward(x)?]
        }
        "prelu" => {
            let weight = Parameter::new(inputs[1].detach())?;
            [F::prelu(x, &inputs[1])?, PReLU { weight }.forward(x)?]
        }
        "softmax" => [F::softmax(x, dim())?, Softmax { dim: dim() }.forward(x)?],
        "softmin" => [F::softmin(x, dim())?, Softmin { dim: dim() }.forward(x)?],
        "log_softmax" => [F::log_softmax(x, dim())?, LogSoftmax { dim: dim() }.forward(x)?],
        "softmax2d" => [F::softmax2d(x)?, Softmax2d.forward(x)?],
        "glu" => [F::glu(x, dim())?, GLU { dim: dim() }.forward(x)?],
        other => panic!("no activation {other}"),
    })
}

#[test]
fn results_and_gradients_equal_pytorch() {
    check("activations.jsonl", call);
}

#[test]
fn half_precision_is_rounded_once() {
    check_half("activations.jsonl", &[], call);
}

#[test]
fn defaults_are_pytorch_s() {
    assert_eq!(LeakyReLU::default().negative_slope, 0.01);
    assert_eq!((ELU::default().alpha, CELU::default().alpha), (1.0, 1.0));
    assert_eq!(GELU::default().approximate, GeluApproximation::None);
    assert_eq!((Hardtanh::default().min_val, Hardtanh::default().max_val), (-1.0, 1.0));
    assert_eq!((Hardshrink::default().lambd, Softshrink::default().lambd), (0.5, 0.5));
    assert_eq!((Softplus::default().beta, Softplus::default().threshold), (1.0, 20.0));
    assert_eq!(GLU::default().dim, -1);
}

/// PyTorch's slopes are other random numbers; those of each element show in the gradient.
#[test]
fn rrelu_has_random_slopes_while_training() -> Result<()> {
    manual_seed(7);
    let x = Tensor::full([1000], -2.0, DType::F64)?;
    x.requires_grad_(true)?;
    let y = RReLU::default().forward(&x)?;
    y.sum_all()?.backward()?;
    let slopes = x.grad().unwrap().to_vec::<f64>()?;
    assert!(slopes.iter().all(|slope| (1.0 / 8.0..=1.0 / 3.0).contains(slope)));
    let mean = slopes.iter().sum::<f64>() / 1000.0;
    // Five standard errors: the deviation of one slope is (1/3 − 1/8)/√12.
    assert!((mean - 11.0 / 48.0).abs() < 5.0 * 0.0602 / 1000f64.sqrt(), "{mean}");
    for (y, slope) in y.to_vec::<f64>()?.into_iter().zip(slopes) {
        assert_eq!(y, -2.0 * slope);
    }
    let positive = RReLU::default().forward(&Tensor::new([3.0f64, f64::INFINITY])?)?;
    assert_eq!(positive.to_vec::<f64>()?, [3.0, f64::INFINITY]);
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
    let integers = Tensor::new([1i64, 2])?;
    refused(F::mish(&integers), &["mish", "floating-point", "i64"]);
    refused(F::rrelu(&integers, 0.1, 0.2, true), &["rrelu", "i64"]);
    refused(F::gelu(&integers, GeluApproximation::None), &["gelu", "i64"]);
    let x = Tensor::zeros([3, 4], DType::F32)?;
    refused(Hardtanh { min_val: 2.0, max_val: 1.0 }.forward(&x), &["hardtanh", "min_val", "2 and 1"]);
    refused(Softshrink { lambd: -1.0 }.forward(&x), &["softshrink", "lambd", "-1"]);
    refused(CELU { alpha: 0.0 }.forward(&x), &["celu", "alpha"]);
    refused(RReLU::new(0.5, 0.25), &["RReLU", "0.5 and 0.25"]);
    refused(RReLU::new(0.5, f64::INFINITY), &["RReLU", "finite"]);
    refused(PReLU::new(0, 0.25, DType::F32), &["PReLU", "num_parameters"]);
    refused(PReLU::new(3, 0.25, DType::F32)?.forward(&x), &["prelu", "4 channels", "[3, 4]", "[3]"]);
    refused(PReLU::new(1, 0.25, DType::F64)?.forward(&x), &["prelu", "f32", "f64"]);
    refused(GLU { dim: 0 }.forward(&x), &["glu", "dimension 0", "even", "3"]);
    refused(Softmax2d.forward(&x), &["softmax2d", "channels", "[3, 4]"]);
    refused(Softmax { dim: 2 }.forward(&x), &["softmax", "dimension 2"]);
    Ok(())
}

#[test]
fn prelu_learns_its_weight() -> Result<()> {
    let layer = PReLU::new(2, 0.25, DType::F32)?;
    assert_eq!(layer.named_parameters()[0].0, "weight");
    layer.forward(&Tensor::new([[-2.0f32, 3.0], [-1.0, -5.0]])?)?.sum_all()?.backward()?;
    assert_eq!(layer.weight.grad().unwrap().to_vec::<f32>()?, [-3.0, -5.0]);
    Ok(())
}
