//! Functions of matrices.

use crate::common::Case;
use rustorch_tensor::{Result, Tensor, linalg};

pub(super) fn run(case: &Case, op: &str) -> Result<Vec<Tensor>> {
    Ok(vec![match (op, case.inputs.as_slice()) {
        ("linalg.matrix_exp", [a]) => linalg::matrix_exp(a)?,
        (other, _) => panic!("{other}"),
    }])
}

#[test]
fn commuting_exponents_add() {
    // exp(2a) = exp(a)², for norms that take from no to many squarings.
    let a = Tensor::new([[0.3f64, -1.2, 0.7], [0.9, 0.4, -0.6], [-0.8, 1.1, -0.3]]).unwrap();
    for factor in [1e-9, 0.1, 1.0, 3.0, 10.0] {
        let a = a.mul(factor).unwrap();
        let once = linalg::matrix_exp(&a).unwrap();
        let twice = linalg::matrix_exp(&a.mul(2).unwrap()).unwrap();
        assert!(once.matmul(&once).unwrap().allclose(&twice, 1e-9, 1e-12, false).unwrap(), "{factor}");
    }
}

#[test]
fn large_exponents_overflow_without_end() {
    let a = Tensor::new([[1e30f32, 0.0], [0.0, 1.0]]).unwrap();
    assert!(
        !linalg::matrix_exp(&a).unwrap().isfinite().unwrap().all_all().unwrap().item().unwrap().to_bool()
    );
}
