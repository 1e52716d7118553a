//! What holds of every matrix: factors multiply to it, `Q` is orthonormal, solutions solve, determinants multiply.

#![allow(clippy::unwrap_used, reason = "a failing test panics")]

use proptest::prelude::*;
use rustorch_tensor::linalg::{self, QrMode, TriangularOptions, Uplo};
use rustorch_tensor::{DType, Generator, Tensor};

const DTYPES: [DType; 4] = [DType::F32, DType::F64, DType::C64, DType::C128];

/// Normally distributed matrices; of complex dtype in both parts. `turned` ones are views of their transposes.
fn noise(dims: &[usize], dtype: DType, turned: bool, seed: u64) -> Tensor {
    let mut dims = dims.to_vec();
    let ndim = dims.len();
    if turned {
        dims.swap(ndim - 1, ndim - 2);
    }
    let generator = Generator::new(seed);
    let draw = || generator.randn(dims.as_slice(), dtype.to_real()).unwrap();
    let x = match dtype.is_complex() {
        true => Tensor::complex(&draw(), &draw()).unwrap(),
        false => draw(),
    };
    if turned { x.transpose(-2, -1).unwrap() } else { x }
}

fn adjoint(x: &Tensor) -> Tensor {
    x.transpose(-2, -1).unwrap().conj().unwrap()
}

fn identity_like(x: &Tensor) -> Tensor {
    let n = x.dims()[x.ndim() - 1];
    Tensor::eye(n, n, x.dtype()).unwrap().broadcast_to(x.shape()).unwrap()
}

/// The largest modulus.
fn largest(x: &Tensor) -> f64 {
    if x.dims().contains(&0) {
        return 0.0;
    }
    x.abs().unwrap().to_dtype(DType::F64).unwrap().max_all().unwrap().item().unwrap().to_f64()
}

/// Asserts that two tensors differ by at most so many units of the last place of the largest number involved.
#[track_caller]
fn close(a: &Tensor, b: &Tensor, units: f64, scale: f64) {
    assert_eq!((a.dtype(), a.dims()), (b.dtype(), b.dims()));
    let unit = match a.dtype() {
        DType::F32 | DType::C64 => 2f64.powi(-24),
        _ => 2f64.powi(-53),
    };
    let far = largest(&a.sub(b).unwrap());
    let allowed = units * unit * scale.max(1.0);
    assert!(far <= allowed, "{far:e} apart, {allowed:e} allowed ({units} units)");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn rectangles_are_their_factors(
        batch in prop::collection::vec(0usize..3, 0..3), m in 0usize..70, n in 0usize..70,
        kind in 0usize..4, turned: bool, complete: bool, seed: u64,
    ) {
        let dims = [batch.as_slice(), &[m, n]].concat();
        let a = noise(&dims, DTYPES[kind], turned, seed);
        let units = 40.0 * (m.max(n) as f64 + 1.0);
        let (p, l, u) = linalg::lu(&a).unwrap();
        close(&p.matmul(&l).unwrap().matmul(&u).unwrap(), &a, units, largest(&a));
        close(&l.triu(1).unwrap(), &l.zeros_like().unwrap(), 0.0, 1.0);
        let mode = if complete { QrMode::Complete } else { QrMode::Reduced };
        let (q, r) = linalg::qr(&a, mode).unwrap();
        close(&q.matmul(&r).unwrap(), &a, units, largest(&a));
        let square = adjoint(&q).matmul(&q).unwrap();
        close(&square, &identity_like(&square), units, 1.0);
        close(&r.triu(0).unwrap(), &r, 0.0, 1.0);
    }

    #[test]
    fn squares_of_matrices_have_cholesky_factors(
        batch in 0usize..4, n in 0usize..80, kind in 0usize..4, turned: bool, seed: u64,
    ) {
        let x = noise(&[batch, n, n], DTYPES[kind], turned, seed);
        let a = x.matmul(&adjoint(&x)).unwrap().add(&identity_like(&x)).unwrap();
        let units = 40.0 * (n as f64 + 1.0);
        let l = linalg::cholesky(&a).unwrap();
        close(&l.matmul(&adjoint(&l)).unwrap(), &a, units, largest(&a));
        let u = linalg::cholesky_upper(&a).unwrap();
        close(&adjoint(&u).matmul(&u).unwrap(), &a, units, largest(&a));
        let b = noise(&[n, 3], DTYPES[kind], turned, seed ^ 1);
        let solved = linalg::cholesky_solve(&b, &l).unwrap();
        let product = a.matmul(&solved).unwrap();
        let scale = largest(&a) * largest(&solved) * n as f64;
        close(&product, &b.broadcast_to(product.shape()).unwrap(), units, scale);
    }

    #[test]
    fn solutions_solve_and_determinants_multiply(
        batch in 1usize..4, n in 0usize..60, k in 0usize..5, kind in 0usize..4, turned: bool, seed: u64,
    ) {
        // A right side of the shape of the matrices' rows is a batch of vectors, as in PyTorch.
        prop_assume!((batch, n, k) != (2, 1, 1));
        let dtype = DTYPES[kind];
        let a = noise(&[batch, 1, n, n], dtype, turned, seed);
        let b = noise(&[2, n, k], dtype, !turned, seed ^ 1);
        let units = 40.0 * (n as f64 + 1.0);
        let x = linalg::solve(&a, &b).unwrap();
        prop_assert_eq!(x.dims(), &[batch, 2, n, k][..]);
        let product = a.matmul(&x).unwrap();
        // The residual is small whatever the condition of the matrix.
        let scale = largest(&a) * largest(&x) * n as f64;
        close(&product, &b.broadcast_to(product.shape()).unwrap(), units, scale);
        let right = linalg::solve_right(&a, &b.transpose(-2, -1).unwrap()).unwrap();
        let scale = largest(&a) * largest(&right) * n as f64;
        let product = right.matmul(&a).unwrap();
        close(&product, &b.transpose(-2, -1).unwrap().broadcast_to(product.shape()).unwrap(), units, scale);
        let inverse = linalg::inv(&a).unwrap();
        let product = a.matmul(&inverse).unwrap();
        close(&product, &identity_like(&product), units, largest(&a) * largest(&inverse) * n as f64);
        let (sign, logarithm) = linalg::slogdet(&a).unwrap();
        let (other, opposite) = linalg::slogdet(&inverse).unwrap();
        let condition = largest(&a) * largest(&inverse) * n as f64;
        close(&sign.mul(&other).unwrap(), &sign.ones_like().unwrap(), units, condition);
        close(&logarithm, &opposite.neg().unwrap(), units, condition);
        if n < 6 {
            let det = linalg::det(&a).unwrap();
            let size = logarithm.exp().unwrap().to_dtype(dtype).unwrap();
            close(&sign.mul(&size).unwrap(), &det, units, largest(&det) * condition);
        }
    }

    #[test]
    fn triangles_solve(
        n in 1usize..70, k in 0usize..40, kind in 0usize..4, turned: bool,
        upper: bool, left: bool, unit: bool, seed: u64,
    ) {
        let dtype = DTYPES[kind];
        // A strong diagonal, relative to which the rest is small.
        let noise_part = noise(&[n, n], dtype, turned, seed).div(4.0 * n as f64).unwrap();
        let a = noise_part.add(&identity_like(&noise_part)).unwrap();
        let b = match left {
            true => noise(&[n, k], dtype, turned, seed ^ 1),
            false => noise(&[k, n], dtype, turned, seed ^ 1),
        };
        let options = if upper { TriangularOptions::upper() } else { TriangularOptions::lower() };
        let x = linalg::solve_triangular(&a, &b, &options.left(left).unitriangular(unit)).unwrap();
        let mut triangle = if upper { a.triu(i64::from(unit)) } else { a.tril(-i64::from(unit)) }.unwrap();
        if unit {
            triangle = triangle.add(&identity_like(&a)).unwrap();
        }
        let product = if left { triangle.matmul(&x) } else { x.matmul(&triangle) }.unwrap();
        close(&product, &b, 40.0 * (n as f64 + 1.0), largest(&x));
    }
}

#[test]
fn eigenvalues_alone_are_those_of_the_decomposition() {
    for dtype in DTYPES {
        for n in [1, 2, 33, 150] {
            let a = noise(&[n, n], dtype, false, 5);
            // With a zero diagonal, with eigenvalues of every size, and with few distinct ones.
            let sizes = Tensor::linspace(-20.0, 0.0, n, DType::F64).unwrap().exp2().unwrap();
            let graded = a.mul(&sizes.to_dtype(dtype).unwrap()).unwrap();
            let path = Tensor::eye(n, n, dtype).unwrap().roll(&[1], &[0]).unwrap().tril(0).unwrap();
            let ones = Tensor::ones([n, n], dtype).unwrap();
            for x in
                [a, graded.mul(&sizes.unsqueeze(-1).unwrap().to_dtype(dtype).unwrap()).unwrap(), path, ones]
            {
                let x = x.add(&adjoint(&x)).unwrap();
                for uplo in [Uplo::Lower, Uplo::Upper] {
                    let (want, _) = linalg::eigh(&x, uplo).unwrap();
                    let got = linalg::eigvalsh(&x, uplo).unwrap();
                    close(&got, &want, 8.0 * n as f64, largest(&want));
                }
            }
        }
    }
}
