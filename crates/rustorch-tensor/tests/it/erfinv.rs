//! The inverse error function at ordinary and at hard points: near 0, ±1, at the ends and beyond.
//!
//! The fixture was made by `tools/oracle/torch_erfinv.py` with mpmath and PyTorch 2.

#![allow(clippy::unwrap_used, reason = "a failing test panics")]

use crate::common::{Case, distance, fixture};
use rustorch_tensor::{DType, Tensor};

#[test]
fn is_right_in_the_last_places() {
    for line in fixture("erfinv.jsonl") {
        let case = Case::new(&line);
        let x = &case.inputs[0];
        // That of singles is computed in doubles and rounded.
        let limit = if x.dtype() == DType::F32 { 1 } else { 4 };
        let doubles = |x: &Tensor| x.to_dtype(DType::F64).unwrap().to_vec::<f64>().unwrap();
        let got = x.erfinv().unwrap();
        assert_eq!(got.dtype(), x.dtype());
        for ((x, got), want) in doubles(x).into_iter().zip(doubles(&got)).zip(doubles(&case.outputs[0])) {
            let off = distance(case.outputs[0].dtype(), got, want, true);
            assert!(off <= limit, "erfinv({x:e}) is {got:e}, not {want:e}: {off} units off");
        }
    }
}
