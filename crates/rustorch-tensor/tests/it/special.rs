//! erfc, the logarithm of the gamma function and its derivatives, and logaddexp, at ordinary and at hard points: beside roots and poles, at the ends.
//!
//! The fixture was made by `tools/oracle/torch_special.py` with mpmath and PyTorch 2.

#![allow(clippy::unwrap_used, reason = "a failing test panics")]

use crate::common::{Case, distance, fixture};
use rustorch_tensor::autograd::{GradCheck, gradcheck, gradgradcheck};
use rustorch_tensor::{DType, Tensor, fuse};

#[test]
fn they_are_right_in_the_last_places() {
    let lines = fixture("special.jsonl");
    assert_eq!(lines.len(), 10);
    for line in lines {
        let case = Case::new(&line);
        let x = &case.inputs[0];
        let got = match case.op.as_str() {
            "erfc" => x.erfc(),
            "lgamma" => x.lgamma(),
            "digamma" => x.digamma(),
            "trigamma" => x.trigamma(),
            "logaddexp" => x.logaddexp(&case.inputs[1]),
            other => panic!("{other}"),
        }
        .unwrap();
        // Others of singles are computed in doubles and rounded.
        let limit = if x.dtype() == DType::F32 && case.op != "logaddexp" { 1 } else { 4 };
        let doubles = |x: &Tensor| x.to_dtype(DType::F64).unwrap().to_vec::<f64>().unwrap();
        assert_eq!(got.dtype(), x.dtype());
        assert!(x.numel() > 600, "{}", x.numel());
        for (i, (got, want)) in doubles(&got).into_iter().zip(doubles(&case.outputs[0])).enumerate() {
            let off = distance(case.outputs[0].dtype(), got, want, true);
            let at: Vec<f64> = case.inputs.iter().map(|x| doubles(x)[i]).collect();
            assert!(off <= limit, "{}({at:?}) is {got:e}, not {want:e}: {off} units off", case.op);
        }
    }
}

#[test]
fn their_gradients_are_those_of_finite_differences() {
    let x = Tensor::new([-3.3f64, -1.7, -0.4, 0.2, 1.0, 2.5, 7.0, 30.0]).unwrap();
    type Function = fn(&Tensor) -> rustorch_tensor::Result<Tensor>;
    let all: [Function; 6] = [
        Tensor::erfc,
        Tensor::lgamma,
        Tensor::digamma,
        Tensor::trigamma,
        |x| x.polygamma(3),
        // As a step of a fused operation.
        |x| fuse(|[x]| x.trigamma() * x)?.apply(&[x]),
    ];
    for f in all {
        gradcheck(|x| Ok(vec![f(&x[0])?]), &[&x], GradCheck::default()).unwrap();
        gradgradcheck(|x| Ok(vec![f(&x[0])?]), &[&x], GradCheck::default()).unwrap();
    }
}

#[test]
fn gradients_of_logaddexp() {
    let (x, y) =
        (Tensor::new([0.3f64, -1.2, 0.7, 2.0]).unwrap(), Tensor::new([-1.4f64, 0.2, 0.7, 30.0]).unwrap());
    type Function = fn(&Tensor, &Tensor) -> rustorch_tensor::Result<Tensor>;
    let all: [Function; 3] = [
        |x, y| x.logaddexp(y),
        |x, _| x.logaddexp(0.25),
        |x, y| fuse(|[x, y]| y.logaddexp(x) * x)?.apply(&[x, y]),
    ];
    for f in all {
        gradcheck(|x| Ok(vec![f(&x[0], &x[1])?]), &[&x, &y], GradCheck::default()).unwrap();
        gradgradcheck(|x| Ok(vec![f(&x[0], &x[1])?]), &[&x, &y], GradCheck::default()).unwrap();
    }
    // PyTorch's, but for equal infinities, where its are NaN.
    let (inf, none) = (f64::INFINITY, f64::NEG_INFINITY);
    let a = Tensor::new([none, none, inf, inf, 1000.0]).unwrap();
    let b = Tensor::new([none, 1.0, inf, none, 0.0]).unwrap();
    for x in [&a, &b] {
        x.requires_grad_(true).unwrap();
    }
    a.logaddexp(&b).unwrap().sum_all().unwrap().backward().unwrap();
    let grad = |x: &Tensor| x.grad().unwrap().to_vec::<f64>().unwrap();
    assert_eq!(grad(&a), [0.5, 0.0, 0.5, 1.0, 1.0]);
    assert_eq!(grad(&b), [0.5, 1.0, 0.5, 0.0, 0.0]);
}

#[test]
fn polygamma_of_any_order() {
    let lines = fixture("polygamma.jsonl");
    assert_eq!(lines.len(), 12);
    for line in lines {
        let case = Case::new(&line);
        let n = case.attrs["n"].as_u64().unwrap().try_into().unwrap();
        let got = case.inputs[0].polygamma(n).unwrap();
        assert_eq!(got.dtype(), case.inputs[0].dtype());
        // Powers of order n lose a rounding error or two for each; singles are computed in doubles and rounded.
        let limit = if got.dtype() == DType::F32 { 1 } else { 16 + 2 * u64::from(n) };
        let doubles = |x: &Tensor| x.to_dtype(DType::F64).unwrap().to_vec::<f64>().unwrap();
        let all = doubles(&case.inputs[0]).into_iter().zip(doubles(&got)).zip(doubles(&case.outputs[0]));
        for ((x, got), want) in all {
            let off = distance(case.outputs[0].dtype(), got, want, true);
            assert!(off <= limit, "polygamma({n}, {x:e}) is {got:e}, not {want:e}: {off} units off");
        }
    }
    let x = Tensor::new([1i64, 2]).unwrap();
    assert_eq!(x.polygamma(2).unwrap().dtype(), DType::F32);
    let error = x.polygamma(171).unwrap_err().to_string();
    assert_eq!(error, "polygamma: takes orders up to 170, not 171");
}
