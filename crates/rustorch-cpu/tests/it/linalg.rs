//! Factors multiplied together again, for sizes on both sides of every cut, any number of threads and arrangement.

use crate::testing::{Tensor, fails, noise, run, run1};
use rustorch_core::{C64, C128, Element, Error, Linalg, MatrixDefect, Op};

/// Sizes around panels and blocks, and small ones.
const SIZES: &[usize] = &[0, 1, 2, 5, 16, 17, 33, 70, 150];

/// Real and complex elements by their parts.
pub(crate) trait Number: Element + std::ops::Mul<Output = Self> {
    /// What moduli are.
    type Real;

    /// Of a real number the second part is left out.
    fn from_parts(re: f64, im: f64) -> Self;
    fn parts(self) -> (f64, f64);
}

macro_rules! numbers {
    ($($real:ty, $complex:ident);*) => {$(
        impl Number for $real {
            type Real = $real;
            fn from_parts(re: f64, _: f64) -> $real {
                re as $real
            }
            fn parts(self) -> (f64, f64) {
                (self.into(), 0.0)
            }
        }

        impl Number for $complex {
            type Real = $real;
            fn from_parts(re: f64, im: f64) -> $complex {
                $complex::new(re as $real, im as $real)
            }
            fn parts(self) -> (f64, f64) {
                (self.re.into(), self.im.into())
            }
        }
    )*};
}

numbers!(f32, C64; f64, C128);

pub(crate) fn numbers<T: Number>(seed: u64, n: usize) -> Vec<T> {
    let parts = noise(seed, 2 * n);
    parts.chunks(2).map(|part| T::from_parts(part[0].into(), part[1].into())).collect()
}

/// A matrix in rows.
#[derive(Clone)]
pub(crate) struct Matrix {
    rows: usize,
    columns: usize,
    pub(crate) values: Vec<C128>,
}

impl Matrix {
    pub(crate) fn new<T: Number>(rows: usize, columns: usize, values: &[T]) -> Matrix {
        let values: Vec<C128> = values.iter().map(|x| C128::new(x.parts().0, x.parts().1)).collect();
        assert_eq!(values.len(), rows * columns);
        Matrix { rows, columns, values }
    }

    pub(crate) fn make(rows: usize, columns: usize, value: impl Fn(usize, usize) -> C128) -> Matrix {
        let values = (0..rows * columns).map(|i| value(i / columns, i % columns)).collect();
        Matrix { rows, columns, values }
    }

    pub(crate) fn at(&self, i: usize, j: usize) -> C128 {
        self.values[i * self.columns + j]
    }

    pub(crate) fn times(&self, other: &Matrix) -> Matrix {
        assert_eq!(self.columns, other.rows);
        Matrix::make(self.rows, other.columns, |i, j| {
            (0..self.columns).map(|p| self.at(i, p) * other.at(p, j)).sum()
        })
    }

    pub(crate) fn adjoint(&self) -> Matrix {
        Matrix::make(self.columns, self.rows, |i, j| num_complex::Complex::conj(&self.at(j, i)))
    }

    pub(crate) fn identity(n: usize) -> Matrix {
        Matrix::make(n, n, |i, j| C128::new(f64::from(u8::from(i == j)), 0.0))
    }

    /// Asserts equality within so many roundings of a sum of products of the sizes that these matrices have.
    #[track_caller]
    pub(crate) fn close<T: Number>(&self, want: &Matrix, roundings: f64, what: &str) {
        assert_eq!((self.rows, self.columns), (want.rows, want.columns), "{what}");
        let unit = if size_of::<T::Real>() == 4 { 2f64.powi(-24) } else { 2f64.powi(-53) };
        let scale = want.values.iter().map(|z| z.norm()).fold(1.0, f64::max);
        for (i, (a, b)) in self.values.iter().zip(&want.values).enumerate() {
            assert!((a - b).norm() <= roundings * unit * scale, "{what}: element {i} is {a}, not {b}");
        }
    }
}

/// A Hermitian matrix with eigenvalues from about 1 up.
fn positive<T: Number>(seed: u64, n: usize) -> Vec<T> {
    let x = Matrix::new(n, n, &numbers::<T>(seed, n * n));
    let square = x.times(&x.adjoint());
    (0..n * n)
        .map(|i| {
            let value = square.values[i] / (n as f64) + f64::from(u8::from(i / n == i % n));
            T::from_parts(value.re, value.im)
        })
        .collect()
}

fn each_dtype(test: impl Fn(&dyn Check)) {
    test(&Of::<f32>(std::marker::PhantomData));
    test(&Of::<f64>(std::marker::PhantomData));
    test(&Of::<C64>(std::marker::PhantomData));
    test(&Of::<C128>(std::marker::PhantomData));
}

struct Of<T>(std::marker::PhantomData<T>);

/// What is asserted of each dtype.
trait Check {
    fn cholesky(&self, n: usize);
    fn elimination(&self, n: usize);
    fn rectangles(&self, m: usize, n: usize);
}

impl<T: Number> Check for Of<T> {
    fn cholesky(&self, n: usize) {
        let a = positive::<T>(n as u64, n);
        for upper in [false, true] {
            // The other triangle is not read, nor are imaginary parts of the diagonal.
            let mut half = a.clone();
            for i in 0..n {
                half[i * n + i] = T::from_parts(a[i * n + i].parts().0, 7.0);
                for j in 0..n {
                    if if upper { j < i } else { j > i } {
                        half[i * n + j] = T::from_parts(f64::NAN, f64::NAN);
                    }
                }
            }
            let op = Op::Linalg(Linalg::Cholesky { upper });
            let factor = run1::<T>(&op, &[&Tensor::new(&[n, n], &half)]);
            let factor = Matrix::new(n, n, &factor);
            for i in 0..n {
                assert!(factor.at(i, i).re > 0.0 && factor.at(i, i).im == 0.0);
                for j in 0..n {
                    assert!(if upper { j >= i } else { j <= i } || factor.at(i, j) == C128::ZERO);
                }
            }
            let product = match upper {
                true => factor.adjoint().times(&factor),
                false => factor.times(&factor.adjoint()),
            };
            product.close::<T>(&Matrix::new(n, n, &a), 30.0, &format!("cholesky {n} {upper}"));
        }
    }

    fn elimination(&self, n: usize) {
        let a = numbers::<T>(n as u64 + 7, n * n);
        let columns = [1, 3, 80][n % 3];
        let b = numbers::<T>(n as u64 + 8, n * columns);
        let (ma, mb) = (Matrix::new(n, n, &a), Matrix::new(n, columns, &b));
        let t = |values: &[T], columns| Tensor::new(&[n, columns], values);
        let x = run1::<T>(&Op::Linalg(Linalg::Solve), &[&t(&a, n), &t(&b, columns)]);
        let x = Matrix::new(n, columns, &x);
        let size = x.values.iter().map(|z| z.norm()).fold(1.0, f64::max);
        ma.times(&x).close::<T>(&mb, 30.0 * n as f64 * size, &format!("solve {n}"));
        let inverse = Matrix::new(n, n, &run1::<T>(&Op::Linalg(Linalg::Inverse), &[&t(&a, n)]));
        let size = inverse.values.iter().map(|z| z.norm()).fold(1.0, f64::max);
        ma.times(&inverse).close::<T>(&Matrix::identity(n), 30.0 * n as f64 * size, "inverse");
        // Triangles of a matrix of moderate growth: a strong diagonal.
        let mut strong = a;
        for i in 0..n {
            strong[i * n + i] = T::from_parts(3.0 + n as f64, 1.0);
        }
        for (upper, unit) in [(false, false), (true, false), (false, true), (true, true)] {
            let scale = if unit { 1.0 / (3.0 + n as f64) } else { 1.0 };
            let scaled: Vec<T> = strong.iter().map(|&x| x * T::from_parts(scale, 0.0)).collect();
            let op = Op::Linalg(Linalg::SolveTriangular { upper, unit });
            let x = run1::<T>(&op, &[&t(&scaled, n), &t(&b, columns)]);
            let all = Matrix::new(n, n, &scaled);
            let triangle = Matrix::make(n, n, |i, j| match () {
                () if i == j && unit => C128::new(1.0, 0.0),
                () if i == j || (j > i) == upper => all.at(i, j),
                () => C128::ZERO,
            });
            let x = Matrix::new(n, columns, &x);
            let what = format!("triangle {n} {upper} {unit}");
            triangle.times(&x).close::<T>(&mb, 40.0 * (n + 1) as f64, &what);
        }
    }

    fn rectangles(&self, m: usize, n: usize) {
        let a = numbers::<T>((m * 1000 + n) as u64, m * n);
        let (ma, k) = (Matrix::new(m, n, &a), m.min(n));
        let tensor = Tensor::new(&[m, n], &a);
        let outs = run(&Op::Linalg(Linalg::Lu), &[&tensor]).unwrap();
        let (both, pivots) = (outs[0].values::<T>(), outs[1].values::<i32>());
        let permutation = outs[2].values::<i64>();
        let both = Matrix::new(m, n, &both);
        let lower = Matrix::make(m, k, |i, j| match () {
            () if i == j => C128::new(1.0, 0.0),
            () if i > j => both.at(i, j),
            () => C128::ZERO,
        });
        let upper = Matrix::make(k, n, |i, j| if i <= j { both.at(i, j) } else { C128::ZERO });
        // By LAPACK's measure every pivot is the largest; its modulus may be smaller by the root of two.
        assert!(lower.values.iter().all(|z| z.norm() <= 2f64.sqrt() + 1e-6));
        let permuted = Matrix::make(m, n, |i, j| ma.at(permutation[i] as usize, j));
        lower.times(&upper).close::<T>(&permuted, 60.0, &format!("lu {m} {n}"));
        let mut rows: Vec<i64> = (0..m as i64).collect();
        for (i, &pivot) in pivots.iter().enumerate() {
            rows.swap(i, pivot as usize - 1);
        }
        assert_eq!(rows, permutation);
        for complete in [false, true] {
            let outs = run(&Op::Linalg(Linalg::Qr { complete }), &[&tensor]).unwrap();
            let k = if complete { m } else { k };
            let q = Matrix::new(m, k, &outs[0].values::<T>());
            let r = Matrix::new(k, n, &outs[1].values::<T>());
            q.adjoint().times(&q).close::<T>(&Matrix::identity(k), 60.0, &format!("q {m} {n} {complete}"));
            q.times(&r).close::<T>(&ma, 60.0, &format!("qr {m} {n} {complete}"));
            for i in 0..k {
                assert!((0..n.min(i)).all(|j| r.at(i, j) == C128::ZERO));
                assert!(i >= n || r.at(i, i).im == 0.0);
            }
        }
    }
}

#[test]
fn cholesky_factors_multiply_to_the_matrix() {
    each_dtype(|check| SIZES.iter().for_each(|&n| check.cholesky(n)));
}

#[test]
fn solutions_and_inverses_fit() {
    each_dtype(|check| SIZES.iter().for_each(|&n| check.elimination(n)));
}

#[test]
fn factors_of_rectangles_multiply_to_the_matrix() {
    let sizes =
        [(0, 0), (0, 3), (3, 0), (1, 1), (4, 4), (5, 3), (3, 5), (40, 17), (17, 40), (70, 70), (150, 90)];
    each_dtype(|check| sizes.iter().for_each(|&(m, n)| check.rectangles(m, n)));
}

#[test]
fn batches_broadcast_and_strides_do_not_matter() {
    let (n, k) = (6, 4);
    let a = noise(1, 3 * n * n);
    let b = noise(2, 2 * n * k);
    let op = Op::Linalg(Linalg::Solve);
    let ta = Tensor::new(&[3, 1, n, n], &a);
    let tb = Tensor::new(&[2, n, k], &b);
    let got = run1::<f32>(&op, &[&ta, &tb]);
    for (i, a) in a.chunks(n * n).enumerate() {
        for (j, b) in b.chunks(n * k).enumerate() {
            let one = run1::<f32>(&op, &[&Tensor::new(&[n, n], a), &Tensor::new(&[n, k], b)]);
            assert_eq!(got[(i * 2 + j) * n * k..][..n * k], one, "{i} {j}");
        }
    }
    // The same matrices, seen as transposes of their transposes, and every second column.
    let swapped: Vec<f32> = a.chunks(n * n).flat_map(|a| (0..n * n).map(|i| a[i % n * n + i / n])).collect();
    let ta = Tensor::new(&[3, 1, n, n], &swapped).with(|l| l.transpose(2, 3).unwrap());
    let spread: Vec<f32> = b.iter().flat_map(|&x| [x, f32::NAN]).collect();
    let tb = Tensor::new(&[2, n, 2 * k], &spread).with(|l| l.slice(2, 0, k, 2).unwrap());
    assert_eq!(run1::<f32>(&op, &[&ta, &tb]), got);
    for upper in [false, true] {
        let op = Op::Linalg(Linalg::Cholesky { upper });
        let (one, two) = (positive::<C64>(3, n), positive::<C64>(4, n));
        let both = [one.clone(), two.clone()].concat();
        let got = run1::<C64>(&op, &[&Tensor::new(&[2, n, n], &both)]);
        let swapped: Vec<C64> =
            both.chunks(n * n).flat_map(|a| (0..n * n).map(|i| a[i % n * n + i / n])).collect();
        let view = Tensor::new(&[2, n, n], &swapped).with(|l| l.transpose(1, 2).unwrap());
        assert_eq!(run1::<C64>(&op, &[&view]), got);
        assert_eq!(run1::<C64>(&op, &[&Tensor::new(&[n, n], &two)]), got[n * n..]);
    }
}

#[test]
fn determinants_have_their_sign() {
    // Three rows in a circle are an even permutation, two swapped ones an odd one.
    let even = [0.0, 2.0, 0.0, 0.0, 0.0, 3.0, 4.0, 0.0, 0.0];
    let odd = [0.0, 2.0, 0.0, 3.0, 0.0, 0.0, 0.0, 0.0, 4.0];
    let singular = [1.0, 2.0, 3.0, 2.0, 4.0, 6.0, 0.0, 0.0, 1.0];
    let all = Tensor::new(&[3, 3, 3], &[even, odd, singular].concat());
    assert_eq!(run1::<f64>(&Op::Linalg(Linalg::Det), &[&all]), [24.0, -24.0, 0.0]);
    let outs = run(&Op::Linalg(Linalg::SlogDet), &[&all]).unwrap();
    assert_eq!(outs[0].values::<f64>(), [1.0, -1.0, 0.0]);
    let logarithms = outs[1].values::<f64>();
    assert!((logarithms[0] - 24f64.ln()).abs() < 1e-15 && logarithms[2] == f64::NEG_INFINITY);
    let turned = Tensor::new(&[1, 1], &[C64::new(0.0, -2.0)]);
    let outs = run(&Op::Linalg(Linalg::SlogDet), &[&turned]).unwrap();
    assert_eq!(
        (outs[0].values::<C64>(), outs[1].values::<f32>()),
        (vec![C64::new(0.0, -1.0)], vec![2f32.ln()])
    );
    for (dims, want) in [(&[0, 0][..], vec![1.0]), (&[2, 0, 0], vec![1.0, 1.0]), (&[0, 3, 3], vec![])] {
        let empty = Tensor::new(dims, &[0f32; 0]);
        assert_eq!(run1::<f32>(&Op::Linalg(Linalg::Det), &[&empty]), want);
    }
}

#[test]
fn the_first_matrix_that_lacks_something_is_named() {
    let n = 40;
    let good = positive::<f64>(5, n);
    let mut bad = good.clone();
    bad[37 * n + 37] = -1.0;
    let mut stack = vec![good.clone(); 6];
    (stack[3], stack[5]) = (bad, vec![f64::NAN; n * n]);
    let all = Tensor::new(&[2, 3, n, n], &stack.concat());
    for upper in [false, true] {
        let error = fails(&Op::Linalg(Linalg::Cholesky { upper }), &[&all]);
        let defect = MatrixDefect::NotPositiveDefinite { minor: 38 };
        assert_eq!(error, Error::Matrix { op: "linalg.cholesky", batch: vec![1, 0], defect });
        assert_eq!(
            error.to_string(),
            "linalg.cholesky: the matrix of batch [1, 0] is not positive-definite (the leading minor of order \
             38 is not positive)"
        );
    }
    let singular = Tensor::new(&[2, 2], &[1f32, 2.0, 2.0, 4.0]);
    let error = fails(&Op::Linalg(Linalg::Inverse), &[&singular]);
    assert_eq!(error.to_string(), "linalg.inv: the matrix is singular (pivot 2 is zero)");
    let two = Tensor::new(&[2, 2, 2], &[1f32, 0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 4.0]);
    let error = fails(&Op::Linalg(Linalg::Solve), &[&two, &Tensor::new(&[2, 1], &[1f32, 1.0])]);
    assert_eq!(error.to_string(), "linalg.solve: the matrix of batch 1 is singular (pivot 2 is zero)");
    // Elimination itself has a result for it.
    run(&Op::Linalg(Linalg::Lu), &[&singular]).unwrap();
}

#[test]
fn extreme_numbers_keep_their_digits() {
    for scale in [1e-300, 1e-160, 1e160, 1e300] {
        let a = [3.0 * scale, 1.0 * scale, 4.0 * scale, 2.0 * scale];
        let outs = run(&Op::Linalg(Linalg::Qr { complete: false }), &[&Tensor::new(&[2, 2], &a)]).unwrap();
        let (q, r) = (outs[0].values::<f64>(), outs[1].values::<f64>());
        assert!((q[0] + 0.6).abs() < 1e-14 && (r[0] / scale + 5.0).abs() < 1e-14, "{scale}: {q:?} {r:?}");
    }
    let tiny = f32::MIN_POSITIVE / 64.0;
    let a = Tensor::new(&[2, 2], &[tiny, 0.0, tiny, tiny]);
    let outs = run(&Op::Linalg(Linalg::Lu), &[&a]).unwrap();
    assert_eq!(outs[0].values::<f32>(), [tiny, 0.0, 1.0, tiny]);
    // A zero column needs no reflection, and leaves the sign of what stands there.
    let outs =
        run(&Op::Linalg(Linalg::Qr { complete: true }), &[&Tensor::new(&[2, 1], &[2f32, 0.0])]).unwrap();
    assert_eq!(
        (outs[0].values::<f32>(), outs[1].values::<f32>()),
        (vec![1.0, 0.0, 0.0, 1.0], vec![2.0, 0.0])
    );
}

/// Quotients whose terms or divisors have squares that overflow or vanish.
#[test]
fn quotients_far_from_one() {
    for scale in [1e-160, 1.0, 1e160] {
        let (a, b) = (C128::new(3.0, -1.0) * scale, C128::new(1.0, 2.0) * scale);
        let solved = |a: C128, b: C128| {
            let op = Op::Linalg(Linalg::Solve);
            run1::<C128>(&op, &[&Tensor::new(&[1, 1], &[b]), &Tensor::new(&[1, 1], &[a])])[0]
        };
        assert!((solved(a, b) - C128::new(0.2, -1.4)).norm() < 1e-15, "{scale}");
        assert!((solved(a, b.conj() * C128::new(0.0, 1.0)) - C128::new(1.0, -1.0)).norm() < 1e-15);
    }
}
