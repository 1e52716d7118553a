//! Functions of complex numbers at ordinary and at hard points: near branch points, on branch cuts with zeros of both signs,
//! of tiny and huge numbers, infinities and NaN.
//!
//! The fixture was made by `tools/oracle/torch_complex.py` with PyTorch 2 and mpmath.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a failing test panics")]

use crate::common::{Case, complexes, distance, fixture};
use rustorch_tensor::{C64, C128, DType, Result, Tensor};

type Function = fn(&Tensor) -> Result<Tensor>;

const FUNCTIONS: &[(&str, Function)] = &[
    ("asin", Tensor::asin),
    ("acos", Tensor::acos),
    ("atan", Tensor::atan),
    ("asinh", Tensor::asinh),
    ("acosh", Tensor::acosh),
    ("atanh", Tensor::atanh),
    ("log", Tensor::log),
    ("sqrt", Tensor::sqrt),
    ("tan", Tensor::tan),
    ("tanh", Tensor::tanh),
];

#[test]
fn both_parts_are_right_in_the_last_places() {
    let mut wrong = Vec::new();
    for line in fixture("complex.jsonl") {
        let case = Case::new(&line);
        let (x, dtype) = (&case.inputs[0], case.inputs[0].dtype());
        // Those of singles are computed in doubles and rounded.
        let limit = if dtype == DType::C64 { 1 } else { 4 };
        let names: Vec<&str> =
            case.attrs["functions"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
        assert_eq!(names, FUNCTIONS.iter().map(|row| row.0).collect::<Vec<_>>());
        let points = complexes(x);
        for ((name, function), want) in FUNCTIONS.iter().zip(&case.outputs) {
            let got = complexes(&function(x).unwrap());
            let want = complexes(want);
            assert_eq!(got.len(), want.len());
            let mut worst = 0;
            for ((z, a), b) in points.iter().zip(got).zip(want) {
                // Beside NaN signs are not specified.
                let signs = !z.is_nan();
                let off = distance(dtype, a.re, b.re, signs).max(distance(dtype, a.im, b.im, signs));
                worst = worst.max(off);
                if off > limit {
                    wrong.push(format!("{name} of {dtype} {z:e} is {a:e}, not {b:e}"));
                }
            }
            eprintln!("{name} of {dtype}: {worst} ulp");
        }
    }
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// Other bases take the logarithm times a constant, so that ends of the range and the circle are well for them, too.
#[test]
fn logarithms_to_other_bases_are_as_good() {
    // numpy.log10(z), numpy.log(z) / numpy.log(2)
    let ends = Tensor::new([C128::new(1.5e308, -1.5e308), C128::new(-1e-310, 0.0)]).unwrap();
    let near = Tensor::new([C64::new(0.6, 0.8)]).unwrap();
    for (got, want) in [
        (ends.log10(), &[(308.32660626, -0.34109409), (-310.0, 1.36437635)][..]),
        (ends.log2(), &[(1024.23881573, -1.13309004), (-1029.79770942, 4.53236014)]),
        (near.log10(), &[(1.0354387236126818e-8, 0.4027191910961796)]),
        (near.log2(), &[(3.439652986503279e-8, 1.3378041952527115)]),
    ] {
        for (z, &(re, im)) in complexes(&got.unwrap()).into_iter().zip(want) {
            assert!(
                (z.re / re - 1.0).abs() < 1e-7 && (z.im / im - 1.0).abs() < 1e-7,
                "{z} is not {re}+{im}i"
            );
        }
    }
}
