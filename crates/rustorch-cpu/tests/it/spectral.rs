//! Singular values and eigenvalues: factors multiply to the matrix and are orthonormal, for sizes on both sides of every cut, any
//! number of threads and arrangement.

use crate::linalg::{Matrix, Number, numbers};
use crate::testing::{Tensor, fails, noise, run, run1};
use rustorch_core::{C64, C128, Error, Linalg, MatrixDefect, Op};

/// A diagonal in a matrix of so many rows and columns.
fn diagonal(rows: usize, columns: usize, values: &[C128]) -> Matrix {
    Matrix::make(rows, columns, |i, j| if i == j { values[i] } else { C128::ZERO })
}

fn real<R: Number>(values: &[R]) -> Vec<C128> {
    values.iter().map(|x| C128::new(x.parts().0, 0.0)).collect()
}

fn svd<T: Number<Real: Number>>(m: usize, n: usize) {
    let what = format!("{} {m} {n}", T::DTYPE);
    let a = numbers::<T>((m * 1000 + n) as u64, m * n);
    let (tensor, a) = (Tensor::new(&[m, n], &a), Matrix::new(m, n, &a));
    let k = m.min(n);
    let roundings = 30.0 + 2.0 * m.max(n) as f64;
    let alone = run1::<T::Real>(&Op::Linalg(Linalg::Svd { full: false, vectors: false }), &[&tensor]);
    for full in [false, true] {
        let outs = run(&Op::Linalg(Linalg::Svd { full, vectors: true }), &[&tensor]).unwrap();
        let (lefts, rights) = if full { (m, n) } else { (k, k) };
        let u = Matrix::new(m, lefts, &outs[0].values::<T>());
        let s = real(&outs[1].values::<T::Real>());
        let vh = Matrix::new(rights, n, &outs[2].values::<T>());
        assert!(s.windows(2).all(|s| s[0].re >= s[1].re) && s.iter().all(|s| s.re >= 0.0), "{what}");
        u.adjoint().times(&u).close::<T>(&Matrix::identity(lefts), roundings, &what);
        vh.times(&vh.adjoint()).close::<T>(&Matrix::identity(rights), roundings, &what);
        // Errors are relative to the largest singular value, and elements are smaller.
        let largest = s.first().map_or(1.0, |s| s.re.max(1.0));
        u.times(&diagonal(lefts, rights, &s)).times(&vh).close::<T>(&a, roundings * largest, &what);
        Matrix::make(k, 1, |i, _| s[i]).close::<T>(
            &Matrix::make(k, 1, |i, _| real(&alone)[i]),
            roundings,
            &what,
        );
    }
}

fn eigh<T: Number<Real: Number>>(n: usize) {
    let what = format!("{} {n}", T::DTYPE);
    let x = Matrix::new(n, n, &numbers::<T>(n as u64 + 5, n * n));
    let a = Matrix::make(n, n, |i, j| x.at(i, j) + num_complex::Complex::conj(&x.at(j, i)));
    let roundings = 40.0 + 4.0 * n as f64;
    for upper in [false, true] {
        // The other triangle is not read, nor are imaginary parts of the diagonal.
        let half: Vec<T> = (0..n * n)
            .map(|place| match (place / n, place % n) {
                (i, j) if i == j => T::from_parts(a.at(i, j).re, f64::INFINITY),
                (i, j) if (j > i) == upper => T::from_parts(a.at(i, j).re, a.at(i, j).im),
                _ => T::from_parts(f64::NAN, f64::NAN),
            })
            .collect();
        let tensor = Tensor::new(&[n, n], &half);
        let outs = run(&Op::Linalg(Linalg::Eigh { upper, vectors: true }), &[&tensor]).unwrap();
        let values = real(&outs[0].values::<T::Real>());
        let q = Matrix::new(n, n, &outs[1].values::<T>());
        assert!(values.windows(2).all(|x| x[0].re <= x[1].re), "{what}");
        q.adjoint().times(&q).close::<T>(&Matrix::identity(n), roundings, &what);
        q.times(&diagonal(n, n, &values)).times(&q.adjoint()).close::<T>(&a, roundings, &what);
        let alone = real(&run1::<T::Real>(&Op::Linalg(Linalg::Eigh { upper, vectors: false }), &[&tensor]));
        Matrix::make(n, 1, |i, _| alone[i]).close::<T>(
            &Matrix::make(n, 1, |i, _| values[i]),
            roundings,
            &what,
        );
    }
}

fn eig<T: Number, C: Number>(n: usize) {
    let what = format!("{} {n}", T::DTYPE);
    let a = numbers::<T>(n as u64 + 9, n * n);
    let (tensor, a) = (Tensor::new(&[n, n], &a), Matrix::new(n, n, &a));
    let roundings = 60.0 + 8.0 * n as f64;
    let outs = run(&Op::Linalg(Linalg::Eig { vectors: true }), &[&tensor]).unwrap();
    let values = Matrix::new(n, 1, &outs[0].values::<C>()).values;
    let v = Matrix::new(n, n, &outs[1].values::<C>());
    a.times(&v).close::<T>(&v.times(&diagonal(n, n, &values)), roundings, &what);
    for j in 0..n {
        let column: Vec<C128> = (0..n).map(|i| v.at(i, j)).collect();
        let norm = column.iter().map(|z| z.norm_sqr()).sum::<f64>();
        assert!((norm - 1.0).abs() < 1e-5, "{what}: {norm}");
        let top = column
            .iter()
            .fold(C128::ZERO, |top, z| if z.norm() > top.norm() * (1.0 + 1e-6) { *z } else { top });
        assert!(top.im.abs() < 1e-6 && (T::DTYPE.is_float() || top.re > 0.0), "{what}: {top}");
    }
    // Alone, they come in the same order at these sizes; in any case they are the same ones.
    let alone = Matrix::new(n, 1, &run1::<C>(&Op::Linalg(Linalg::Eig { vectors: false }), &[&tensor])).values;
    for value in &values {
        let nearest = alone.iter().map(|z| (z - value).norm()).fold(f64::INFINITY, f64::min);
        assert!(nearest < 1e-4 * n as f64, "{what}: {value} is {nearest} from the nearest one");
    }
}

/// Below, at and above the sizes at which faer divides.
const SIZES: &[usize] = &[0, 1, 2, 3, 5, 16, 33, 80, 150];

#[test]
fn singular_vectors_multiply_to_the_matrix() {
    let long = [(0, 3), (3, 0), (1, 7), (7, 1), (5, 3), (3, 5), (40, 17), (17, 40), (150, 131), (20, 140)];
    for (m, n) in SIZES.iter().map(|&n| (n, n)).chain(long) {
        svd::<f32>(m, n);
        svd::<f64>(m, n);
        svd::<C64>(m, n);
        svd::<C128>(m, n);
    }
}

#[test]
fn eigenvectors_of_hermitian_matrices_multiply_to_them() {
    for &n in SIZES {
        eigh::<f32>(n);
        eigh::<f64>(n);
        eigh::<C64>(n);
        eigh::<C128>(n);
    }
}

#[test]
fn eigenvectors_are_scaled_by_their_eigenvalues() {
    for &n in SIZES {
        eig::<f32, C64>(n);
        eig::<f64, C128>(n);
        eig::<C64, C64>(n);
        eig::<C128, C128>(n);
    }
}

#[test]
fn special_matrices_are_decomposed() {
    for n in [1, 2, 7, 40, 140] {
        for (name, value) in [("zeros", [0.0, 0.0]), ("ones", [1.0, 1.0]), ("identity", [1.0, 0.0])] {
            let a: Vec<f64> = (0..n * n).map(|i| value[usize::from(i / n != i % n)]).collect();
            let (tensor, a) = (Tensor::new(&[n, n], &a), Matrix::new(n, n, &a));
            let what = format!("{name} {n}");
            let outs = run(&Op::Linalg(Linalg::Svd { full: true, vectors: true }), &[&tensor]).unwrap();
            let u = Matrix::new(n, n, &outs[0].values::<f64>());
            let s = real(&outs[1].values::<f64>());
            let vh = Matrix::new(n, n, &outs[2].values::<f64>());
            u.times(&diagonal(n, n, &s)).times(&vh).close::<f64>(&a, 40.0 * n as f64, &what);
            u.adjoint().times(&u).close::<f64>(&Matrix::identity(n), 40.0 * n as f64, &what);
            let outs = run(&Op::Linalg(Linalg::Eigh { upper: false, vectors: true }), &[&tensor]).unwrap();
            let (l, q) = (real(&outs[0].values::<f64>()), Matrix::new(n, n, &outs[1].values::<f64>()));
            q.times(&diagonal(n, n, &l)).times(&q.adjoint()).close::<f64>(&a, 40.0 * n as f64, &what);
            let outs = run(&Op::Linalg(Linalg::Eig { vectors: true }), &[&tensor]).unwrap();
            let values = Matrix::new(n, 1, &outs[0].values::<C128>()).values;
            let v = Matrix::new(n, n, &outs[1].values::<C128>());
            a.times(&v).close::<f64>(&v.times(&diagonal(n, n, &values)), 40.0 * n as f64, &what);
        }
    }
}

#[test]
fn matrices_far_from_one_keep_their_digits() {
    for scale in [1e-320f64, 1e-300, 1e-160, 1e160, 1e300] {
        let a = [3.0 * scale, 4.0 * scale, 0.0, 0.0];
        let s = run1::<f64>(
            &Op::Linalg(Linalg::Svd { full: false, vectors: false }),
            &[&Tensor::new(&[2, 2], &a)],
        );
        assert!(
            (s[0] / scale - 5.0).abs() < if scale < 1e-307 { 1e-3 } else { 1e-14 } && s[1] == 0.0,
            "{scale}: {s:?}"
        );
        let a = [1.0 * scale, 2.0 * scale, 2.0 * scale, 1.0 * scale];
        let tensor = Tensor::new(&[2, 2], &a);
        let l = run1::<f64>(&Op::Linalg(Linalg::Eigh { upper: true, vectors: false }), &[&tensor]);
        let close = |x: f64, want: f64| (x / scale - want).abs() < if scale < 1e-307 { 1e-3 } else { 1e-14 };
        assert!(close(l[0], -1.0) && close(l[1], 3.0), "{scale}: {l:?}");
        let mut l: Vec<f64> = run1::<C128>(&Op::Linalg(Linalg::Eig { vectors: false }), &[&tensor])
            .iter()
            .map(|z| z.re)
            .collect();
        l.sort_by(f64::total_cmp);
        assert!(close(l[0], -1.0) && close(l[1], 3.0), "{scale}: {l:?}");
    }
    let tiny = f32::MIN_POSITIVE / 64.0;
    let s = run1::<f32>(
        &Op::Linalg(Linalg::Svd { full: false, vectors: false }),
        &[&Tensor::new(&[2, 2], &[tiny, 0.0, 0.0, 2.0 * tiny])],
    );
    assert_eq!(s, [2.0 * tiny, tiny]);
}

#[test]
fn what_has_no_decomposition_is_named() {
    let bad = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
    for n in [1, 2, 7, 140] {
        for bad in bad {
            for (name, op) in [
                ("linalg.svd", Linalg::Svd { full: false, vectors: true }),
                ("linalg.svd", Linalg::Svd { full: false, vectors: false }),
                ("linalg.eigh", Linalg::Eigh { upper: false, vectors: true }),
                ("linalg.eigh", Linalg::Eigh { upper: true, vectors: false }),
                ("linalg.eig", Linalg::Eig { vectors: true }),
                ("linalg.eig", Linalg::Eig { vectors: false }),
            ] {
                let mut a: Vec<f64> = noise(3, 2 * n * n).into_iter().map(f64::from).collect();
                a[2 * n * n - 1] = bad;
                let error = fails(&Op::Linalg(op), &[&Tensor::new(&[2, n, n], &a)]);
                assert_eq!(
                    error,
                    Error::Matrix { op: name, batch: vec![1], defect: MatrixDefect::NotFinite }
                );
            }
        }
    }
}

#[test]
fn defective_matrices_have_eigenvalues() {
    // Jordan blocks, whose eigenvectors are all the same one.
    for n in [2, 3, 8, 40] {
        let block: Vec<f64> = (0..n * n).map(|i| f64::from(u8::from(i / n + 1 == i % n))).collect();
        let tensor = Tensor::new(&[n, n], &block);
        let values = run1::<C128>(&Op::Linalg(Linalg::Eig { vectors: false }), &[&tensor]);
        assert_eq!(values, vec![C128::ZERO; n]);
        match run(&Op::Linalg(Linalg::Eig { vectors: true }), &[&tensor]) {
            Ok(outs) => {
                let v = Matrix::new(n, n, &outs[1].values::<C128>());
                assert!((0..n).all(|j| (v.at(0, j).norm() - 1.0).abs() < 1e-12), "{n}");
            }
            // They overflow.
            Err(error) => {
                assert!(n > 20, "{n}: {error}");
                assert!(error.to_string().contains("too few independent eigenvectors"), "{error}");
            }
        }
    }
}

#[test]
fn batches_and_strides_do_not_matter() {
    let n = 6;
    let a = noise(1, 6 * n * n);
    let swapped: Vec<f32> = a.chunks(n * n).flat_map(|a| (0..n * n).map(|i| a[i % n * n + i / n])).collect();
    for op in [
        Linalg::Svd { full: false, vectors: true },
        Linalg::Eigh { upper: false, vectors: true },
        Linalg::Eigh { upper: true, vectors: true },
        Linalg::Eig { vectors: true },
    ] {
        let op = Op::Linalg(op);
        let bytes = |outs: Vec<Tensor>| outs.iter().map(Tensor::bytes).collect::<Vec<_>>();
        let all = run(&op, &[&Tensor::new(&[2, 3, n, n], &a)]).unwrap();
        let turned = Tensor::new(&[2, 3, n, n], &swapped).with(|l| l.transpose(2, 3).unwrap());
        assert_eq!(bytes(run(&op, &[&turned]).unwrap()), bytes(all), "{op:?}");
    }
}
