//! Singular values and eigenvalues, by what does not depend on signs, phases and order of vectors; pseudoinverses, least squares, ranks.

use crate::common::Case;
use rustorch_tensor::linalg::{self, RankOptions, Uplo};
use rustorch_tensor::{DType, Result, Tensor};

pub(super) fn run(case: &Case, op: &str) -> Result<Vec<Tensor>> {
    let a = &case.inputs[0];
    let options =
        RankOptions { atol: case.float("atol"), rtol: case.float("rtol"), hermitian: case.flag("hermitian") };
    let hermitian = |yes: bool| if yes { a.add(&adjoint(a)?)?.mul(0.5) } else { Ok(a.clone()) };
    let uplo = if case.flag("upper") { Uplo::Upper } else { Uplo::Lower };
    Ok(match op {
        "linalg.svd" => {
            let (u, s, vh) = linalg::svd(a, case.flag("full"))?;
            let k = s.dims()[s.ndim() - 1];
            let (thin, rows) = (u.narrow(-1, 0, k)?, vh.narrow(-2, 0, k)?);
            let product = thin.mul(&weights(case, &s)?)?.matmul(&rows)?;
            let orthonormal = [adjoint(&u)?.matmul(&u)?, vh.matmul(&adjoint(&vh)?)?];
            [vec![s, product], orthonormal.to_vec()].concat()
        }
        "linalg.svdvals" => vec![linalg::svdvals(a)?],
        "linalg.eigh" => {
            let (l, q) = linalg::eigh(&hermitian(case.flag("symmetric"))?, uplo)?;
            let product = q.mul(&weights(case, &l)?)?.matmul(&adjoint(&q)?)?;
            vec![l, product, adjoint(&q)?.matmul(&q)?]
        }
        "linalg.eigvalsh" => vec![linalg::eigvalsh(&hermitian(case.flag("symmetric"))?, uplo)?],
        "linalg.eig" => {
            let (l, v) = linalg::eig(a)?;
            let exp = l.exp()?;
            let function = v.mul(&exp.unsqueeze(-2)?)?.matmul(&linalg::inv(&v)?)?;
            let sizes = v.abs()?.square()?.mul(&l.abs()?.unsqueeze(-2)?)?.sum(-1, false)?;
            vec![exp.sum(-1, false)?, function, sizes]
        }
        "linalg.eigvals" => {
            let l = linalg::eigvals(a)?;
            vec![l.exp()?.sum(-1, false)?, l.abs()?.square()?.sum(-1, false)?]
        }
        "linalg.pinv" => vec![linalg::pinv(&hermitian(options.hermitian && is_square(a))?, &options)?],
        "linalg.matrix_rank" => {
            vec![linalg::matrix_rank(&hermitian(options.hermitian && is_square(a))?, &options)?]
        }
        "linalg.lstsq" => {
            let found = linalg::lstsq(a, &case.inputs[1], case.float("rcond"))?;
            let residuals = case.flag("residuals").then_some(found.residuals);
            [found.solution].into_iter().chain(residuals).chain([found.rank, found.singular_values]).collect()
        }
        other => panic!("{other}"),
    })
}

fn adjoint(x: &Tensor) -> Result<Tensor> {
    x.transpose(-2, -1)?.conj()
}

fn is_square(a: &Tensor) -> bool {
    matches!(a.dims(), [.., m, n] if m == n)
}

/// By which each vector counts differently: the values, or their ranks.
fn weights(case: &Case, values: &Tensor) -> Result<Tensor> {
    let n = values.dims()[values.ndim() - 1];
    match case.flag("values_as_weights") {
        true => values.unsqueeze(-2),
        false => Tensor::arange(1, n as i64 + 1, 1)?.to_dtype(values.dtype()),
    }
}

#[test]
fn what_has_no_decomposition_is_refused() {
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let a = Tensor::new([[[1.0, 2.0], [3.0, 4.0]], [[1.0, 2.0], [bad, 4.0]]]).unwrap();
        let options = RankOptions::default();
        for (name, result) in [
            ("linalg.svd", linalg::svd(&a, true).map(drop)),
            ("linalg.svd", linalg::svdvals(&a).map(drop)),
            ("linalg.eigh", linalg::eigh(&a, Uplo::Lower).map(drop)),
            ("linalg.eig", linalg::eigvals(&a).map(drop)),
            ("linalg.svd", linalg::pinv(&a, &options).map(drop)),
            ("linalg.svd", linalg::matrix_rank(&a, &options).map(drop)),
            ("linalg.svd", linalg::lstsq(&a, &a, None).map(drop)),
        ] {
            let message = result.unwrap_err().to_string();
            let want = format!("{name}: the matrix of batch 1 has elements that are NaN or infinite");
            assert!(message.starts_with(&want), "{message}");
        }
        // The other triangle is not read.
        linalg::eigh(&a, Uplo::Upper).unwrap();
    }
}

#[test]
fn losses_that_depend_on_phases_have_no_gradient() {
    let parts = |seed: f64| {
        let x = Tensor::new([[0.3f64, -1.2, 0.7], [1.9, 0.4, -0.6], [-0.8, 1.1, 2.3]]).unwrap();
        x.add(seed).unwrap().sin().unwrap()
    };
    let a = Tensor::complex(&parts(0.0), &parts(1.0)).unwrap();
    type Vectors = fn(&Tensor) -> Result<Tensor>;
    let vectors: [(&str, Vectors); 4] = [
        ("linalg.svd", |a| Ok(linalg::svd(a, false)?.0)),
        ("linalg.svd", |a| Ok(linalg::svd(a, false)?.2)),
        ("linalg.eigh", |a| Ok(linalg::eigh(&a.add(&adjoint(a)?)?, Uplo::Lower)?.1)),
        ("linalg.eig", |a| Ok(linalg::eig(a)?.1)),
    ];
    for (name, vectors) in vectors {
        let a = a.detach();
        a.requires_grad_(true).unwrap();
        let loss = vectors(&a).unwrap().mul(&parts(2.0)).unwrap().sum_all().unwrap();
        let error = loss.imag().unwrap().backward().unwrap_err().to_string();
        assert!(error.contains(name) && error.contains("phases"), "{error}");
    }
}

#[test]
fn equal_values_give_pytorchs_gradients() {
    // torch.linalg.eigh(eye)'s vectors have gradients of NaN, and its values, and the pseudoinverse, those of other matrices.
    let x = Tensor::eye(3, 3, DType::F64).unwrap();
    x.requires_grad_(true).unwrap();
    let weights = Tensor::arange(0, 9, 1).unwrap().reshape([3, 3]).unwrap();
    linalg::eigh(&x, Uplo::Lower).unwrap().1.mul(&weights).unwrap().sum_all().unwrap().backward().unwrap();
    assert!(x.grad().unwrap().isnan().unwrap().any_all().unwrap().item().unwrap().to_bool());
    x.zero_grad();
    linalg::svdvals(&x).unwrap().sum_all().unwrap().backward().unwrap();
    let eye = Tensor::eye(3, 3, DType::F64).unwrap();
    assert!(x.grad().unwrap().allclose(&eye, 1e-12, 1e-12, false).unwrap());
    x.zero_grad();
    linalg::pinv(&x, &RankOptions::default()).unwrap().sum_all().unwrap().backward().unwrap();
    let want = Tensor::full([3, 3], -1.0, DType::F64).unwrap();
    assert!(x.grad().unwrap().allclose(&want, 1e-12, 1e-12, false).unwrap());
}
