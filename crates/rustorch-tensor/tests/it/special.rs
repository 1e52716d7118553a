//! erfc, the logarithm of the gamma function and its derivatives, at ordinary and at hard points: beside roots and poles, at the ends.
//!
//! The fixture was made by `tools/oracle/torch_special.py` with mpmath and PyTorch 2.

#![allow(clippy::unwrap_used, reason = "a failing test panics")]

use crate::common::{Case, distance, fixture};
use rustorch_tensor::autograd::{GradCheck, gradcheck, gradgradcheck};
use rustorch_tensor::{DType, Tensor};

#[test]
fn they_are_right_in_the_last_places() {
    let lines = fixture("special.jsonl");
    assert_eq!(lines.len(), 8);
    for line in lines {
        let case = Case::new(&line);
        let x = &case.inputs[0];
        let got = match case.op.as_str() {
            "erfc" => x.erfc(),
            "lgamma" => x.lgamma(),
            "digamma" => x.digamma(),
            "trigamma" => x.trigamma(),
            other => panic!("{other}"),
        }
        .unwrap();
        // Those of singles are computed in doubles and rounded.
        let limit = if x.dtype() == DType::F32 { 1 } else { 4 };
        let doubles = |x: &Tensor| x.to_dtype(DType::F64).unwrap().to_vec::<f64>().unwrap();
        assert_eq!(got.dtype(), x.dtype());
        assert!(x.numel() > 600, "{}", x.numel());
        for ((x, got), want) in doubles(x).into_iter().zip(doubles(&got)).zip(doubles(&case.outputs[0])) {
            let off = distance(case.outputs[0].dtype(), got, want, true);
            assert!(off <= limit, "{}({x:e}) is {got:e}, not {want:e}: {off} units off", case.op);
        }
    }
}

#[test]
fn their_gradients_are_those_of_finite_differences() {
    let x = Tensor::new([-3.3f64, -1.7, -0.4, 0.2, 1.0, 2.5, 7.0, 30.0]).unwrap();
    type Function = fn(&Tensor) -> rustorch_tensor::Result<Tensor>;
    let all: [Function; 3] = [Tensor::erfc, Tensor::lgamma, Tensor::digamma];
    for f in all {
        gradcheck(|x| Ok(vec![f(&x[0])?]), &[&x], GradCheck::default()).unwrap();
    }
    for f in &all[..2] {
        gradgradcheck(|x| Ok(vec![f(&x[0])?]), &[&x], GradCheck::default()).unwrap();
    }
    x.requires_grad_(true).unwrap();
    let error = x.trigamma().unwrap_err().to_string();
    assert!(error.contains("polygamma is built up to order 1"), "{error}");
}
