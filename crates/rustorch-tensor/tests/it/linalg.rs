//! Linear algebra against PyTorch's answers: values, shapes and dtypes, and what it refuses.
//!
//! The fixture was made by `tools/oracle/torch_linalg.py` with PyTorch 2. Errors may be as large as rounding the matrix
//! makes them: `8·n` units of the last place times the condition number, relative to the largest element of the result.

#![allow(clippy::unwrap_used, reason = "a failing test panics")]

use crate::common::{Case, complexes, fixture};
use rustorch_tensor::linalg::{self, QrMode, TriangularOptions};
use rustorch_tensor::{DType, Error, MatrixDefect, Result, Tensor};

pub(crate) fn compute(case: &Case, op: &str) -> Result<Vec<Tensor>> {
    let inputs: Vec<&Tensor> = case.inputs.iter().collect();
    let pair = |(a, b)| vec![a, b];
    let left = case.attrs["left"].as_bool().unwrap_or(true);
    Ok(match (op, inputs.as_slice()) {
        ("cholesky", [a]) if case.flag("upper") => vec![linalg::cholesky_upper(a)?],
        ("cholesky", [a]) => vec![linalg::cholesky(a)?],
        ("cholesky_solve", [b, l]) => vec![linalg::cholesky_solve(b, l)?],
        ("solve", [a, b]) if left => vec![linalg::solve(a, b)?],
        ("solve", [a, b]) => vec![linalg::solve_right(a, b)?],
        ("solve_triangular", [a, b]) => {
            let triangle = match case.flag("upper") {
                true => TriangularOptions::upper(),
                false => TriangularOptions::lower(),
            };
            vec![linalg::solve_triangular(a, b, &triangle.left(left).unitriangular(case.flag("unit")))?]
        }
        ("inv", [a]) => vec![linalg::inv(a)?],
        ("det", [a]) => vec![linalg::det(a)?],
        ("slogdet", [a]) => pair(linalg::slogdet(a)?),
        ("qr", [a]) if case.attrs["mode"] == "complete" => pair(linalg::qr(a, QrMode::Complete)?),
        ("qr", [a]) => pair(linalg::qr(a, QrMode::Reduced)?),
        ("lu", [a]) => {
            let (p, l, u) = linalg::lu(a)?;
            vec![p, l, u]
        }
        ("lu_factor", [a]) => pair(linalg::lu_factor(a)?),
        (other, _) => panic!("{other}"),
    })
}

/// How two results differ, if by more than rounding the arguments explains.
fn difference(case: &Case, got: &Tensor, want: &Tensor) -> Option<String> {
    if (got.dtype(), got.dims()) != (want.dtype(), want.dims()) {
        let of = |x: &Tensor| format!("{}{}", x.dtype(), x.shape());
        return Some(format!("gave {}, PyTorch gives {}", of(got), of(want)));
    }
    if want.dtype() == DType::I32 {
        let same = got.to_vec::<i32>().unwrap() == want.to_vec::<i32>().unwrap();
        return (!same).then(|| format!("gave {got}, PyTorch gives {want}"));
    }
    let unit = match want.dtype() {
        DType::F32 | DType::C64 => 2f64.powi(-24),
        _ => 2f64.powi(-53),
    };
    let n = case.inputs[0].dims().iter().rev().take(2).max().copied().unwrap_or(1) as f64;
    let (got, want) = (complexes(got), complexes(want));
    let largest = want.iter().map(|z| z.norm()).filter(|x| x.is_finite()).fold(0.0, f64::max);
    let allowed = 8.0 * n * unit * case.float("cond").unwrap() * largest.max(1e-3);
    got.iter()
        .zip(&want)
        .enumerate()
        .find(|(_, (a, b))| a != b && (*a - *b).norm().partial_cmp(&allowed).is_none_or(|o| o.is_gt()))
        .map(|(i, (a, b))| format!("element {i} is {a}, PyTorch gives {b}, {allowed:e} apart is allowed"))
}

#[test]
fn results_are_those_of_pytorch() {
    let (mut count, mut failures) = (0, Vec::new());
    for line in fixture("linalg.jsonl").iter().filter(|line| line["op"] != "refused") {
        let case = Case::new(line);
        let got = compute(&case, &case.op).unwrap_or_else(|error| panic!("{}: {error}", case.label));
        assert_eq!(got.len(), case.outputs.len(), "{}", case.label);
        for (got, want) in got.iter().zip(&case.outputs) {
            failures.extend(difference(&case, got, want).map(|how| format!("{}: {how}", case.label)));
        }
        count += 1;
    }
    assert!(failures.is_empty(), "{} of {count} differ:\n{}", failures.len(), failures.join("\n"));
    assert!(count > 120, "{count}");
}

#[test]
fn what_pytorch_refuses_is_refused_with_the_same_place() {
    let mut named = 0;
    for line in fixture("linalg.jsonl").iter().filter(|line| line["op"] == "refused") {
        let case = Case::new(line);
        let op = case.attrs["op"].as_str().unwrap();
        let error = compute(&case, op).err().unwrap_or_else(|| panic!("{} is not refused", case.label));
        assert!(error.to_string().starts_with(&format!("linalg.{op}: ")), "{}: {error}", case.label);
        if let Some(number) = case.int("batch") {
            let place = matches!(&error, Error::Matrix { batch, .. } if *batch == [number as usize]);
            assert!(place, "{}: {error}", case.label);
            named += 1;
        }
        if let Some(order) = case.int("order") {
            let order = order as usize;
            let fits = matches!(&error, Error::Matrix { defect, .. }
                if matches!(*defect, MatrixDefect::NotPositiveDefinite { minor } if minor == order)
                    || matches!(*defect, MatrixDefect::Singular { pivot } if pivot == order));
            assert!(fits, "{}: {error}", case.label);
            named += 1;
        }
    }
    assert!(named >= 10, "{named}");
}

#[test]
fn the_message_names_the_matrix_and_the_minor() {
    let good = Tensor::eye(3, 3, DType::F64).unwrap();
    let bad = Tensor::new([[1.0f64, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]]).unwrap();
    let all = Tensor::stack(&[good.clone(), good.clone(), good, bad], 0).unwrap();
    assert_eq!(
        linalg::cholesky(&all).unwrap_err().to_string(),
        "linalg.cholesky: the matrix of batch 3 is not positive-definite (the leading minor of order 2 is not positive)"
    );
    let error = linalg::lu_factor(&Tensor::zeros([2, 2, 3, 3], DType::F32).unwrap()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "linalg.lu_factor: the matrix of batch [0, 0] is singular (pivot 1 is zero)"
    );
}
