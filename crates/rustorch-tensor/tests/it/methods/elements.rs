//! Functions of elements that are composed of others.

use crate::common::Case;
use rustorch_tensor::{Result, Tensor, TensorOrScalar};

pub(super) fn run(case: &Case, op: &str) -> Result<Vec<Tensor>> {
    let x = &case.inputs[0];
    let other = || match case.inputs.get(1) {
        Some(other) => TensorOrScalar::from(other),
        None => case.scalar("scalar").unwrap().into(),
    };
    Ok(vec![match op {
        "exp2" => x.exp2()?,
        "frac" => x.frac()?,
        "nan_to_num" => {
            x.nan_to_num(case.float("nan").unwrap_or(f64::NAN), case.float("posinf"), case.float("neginf"))?
        }
        "fmod" => x.fmod(other())?,
        "hypot" => x.hypot(other())?,
        "logaddexp" => x.logaddexp(other())?,
        "copysign" => x.copysign(other())?,
        "fmin" => x.fmin(other())?,
        "fmax" => x.fmax(other())?,
        "isclose" => {
            let tolerance = |key| case.float(key).unwrap();
            x.isclose(&case.inputs[1], tolerance("rtol"), tolerance("atol"), case.flag("equal_nan"))?
        }
        other => panic!("{other}"),
    }])
}

#[test]
fn signs_of_zeros_are_copied() {
    let zeros = Tensor::new([0.0f64, -0.0, 0.0, -0.0]).unwrap();
    let signs = Tensor::new([-0.0f64, 0.0, -1e-320, f64::NEG_INFINITY]).unwrap();
    let got = zeros.copysign(&signs).unwrap().to_vec::<f64>().unwrap();
    assert_eq!(got.iter().map(|x| x.is_sign_negative()).collect::<Vec<_>>(), [true, false, true, true]);
    let got = zeros.fmod(1).unwrap().to_vec::<f64>().unwrap();
    assert_eq!(got.iter().map(|x| x.is_sign_negative()).collect::<Vec<_>>(), [false, true, false, true]);
}

#[test]
fn hypot_neither_overflows_nor_underflows() {
    for (a, b, want) in [(3e200, 4e200, 5e200), (3e-200, 4e-200, 5e-200), (0.0, 0.0, 0.0)] {
        let x = Tensor::new([a]).unwrap();
        let got = x.hypot(b).unwrap().to_vec::<f64>().unwrap()[0];
        assert!((got - want).abs() <= 4e-16 * want, "{got} {want}");
    }
}
