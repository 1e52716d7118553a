//! Linear algebra: `torch.linalg`.
//!
//! Matrices are the last two dimensions, the leading ones a batch. Dtypes are `F32`, `F64`, `C64` and `C128`. What a matrix
//! lacks is an [`Error::Matrix`] that names its index in the batch. Singular values, eigenvalues and what follows from them
//! stand behind the Cargo feature `linalg`.
//!
//! ```
//! use rustorch_tensor::{Tensor, linalg};
//! let a = Tensor::new([[4.0f64, 2.0], [2.0, 3.0]])?;
//! let b = Tensor::new([2.0f64, 5.0])?;
//! let x = linalg::solve(&a, &b)?;
//! assert!(a.matmul(&x)?.allclose(&b, 1e-12, 0.0, false)?);
//! let l = linalg::cholesky(&a)?;
//! assert!(l.matmul(&l.t()?)?.allclose(&a, 1e-12, 0.0, false)?);
//! assert_eq!(
//!     linalg::inv(&Tensor::new([[1.0f32, 2.0], [2.0, 4.0]])?).unwrap_err().to_string(),
//!     "linalg.inv: the matrix is singular (pivot 2 is zero)"
//! );
//! # Ok::<(), rustorch_tensor::Error>(())
//! ```

mod matrix_exp;
mod pinv;
mod spectral;

pub use matrix_exp::matrix_exp;
pub use pinv::{LeastSquares, RankOptions, lstsq, matrix_rank, pinv};
pub use spectral::{Uplo, eig, eigh, eigvals, eigvalsh, svd, svdvals};

use crate::Tensor;
use crate::dispatch::{run, run_pair, run_triple};
use rustorch_core::{Error, Linalg, MatrixDefect, Op, Result};
use rustorch_runtime::DeviceGuard;

/// The lower triangular `L` with `a = L·Lᴴ`, of Hermitian positive-definite matrices `[.., n, n]`. Only their lower
/// triangles are read.
///
/// ```
/// # use rustorch_tensor::{Tensor, linalg};
/// let l = linalg::cholesky(&Tensor::new([[4.0f32, 2.0], [2.0, 10.0]])?)?;
/// assert_eq!(l.to_vec::<f32>()?, [2.0, 0.0, 1.0, 3.0]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
///
/// # Errors
/// If a matrix is not square or not positive-definite.
pub fn cholesky(a: &Tensor) -> Result<Tensor> {
    run(&Op::Linalg(Linalg::Cholesky { upper: false }), &[a])
}

/// The upper triangular `U` with `a = Uᴴ·U`: `torch.linalg.cholesky(a, upper=True)`. Only upper triangles are read.
///
/// # Errors
/// As for [`cholesky`].
pub fn cholesky_upper(a: &Tensor) -> Result<Tensor> {
    run(&Op::Linalg(Linalg::Cholesky { upper: true }), &[a])
}

/// `x` with `a·x = b`, given the factor `l` of `a` that [`cholesky`] returns: `torch.cholesky_solve(b, l)`, for `b: [.., n, k]`.
/// Batches broadcast.
///
/// ```
/// # use rustorch_tensor::{Tensor, linalg};
/// let a = Tensor::new([[4.0f64, 2.0], [2.0, 10.0]])?;
/// let b = Tensor::new([[2.0f64], [1.0]])?;
/// let x = linalg::cholesky_solve(&b, &linalg::cholesky(&a)?)?;
/// assert!(a.matmul(&x)?.allclose(&b, 1e-12, 0.0, false)?);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
///
/// # Errors
/// If shapes or dtypes do not fit.
pub fn cholesky_solve(b: &Tensor, l: &Tensor) -> Result<Tensor> {
    let half = solve_triangular(l, b, &TriangularOptions::lower())?;
    matrices("cholesky_solve", l)?;
    solve_triangular(&l.transpose(-2, -1)?.conj()?, &half, &TriangularOptions::upper())
}

/// `x` with `a·x = b`, for regular `a: [.., n, n]`. Batches broadcast.
///
/// `b` is a batch of matrices `[.., n, k]`, or of vectors: it counts as vectors if it has one dimension, or the shape of
/// `a` without the last dimension.
///
/// # Errors
/// If a matrix is singular, or shapes or dtypes do not fit.
pub fn solve(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    matrices("linalg.solve", a)?;
    let op = Op::Linalg(Linalg::Solve);
    if b.ndim() == 1 || b.dims() == &a.dims()[..a.ndim() - 1] {
        return run(&op, &[a, &b.unsqueeze(-1)?])?.squeeze(-1);
    }
    run(&op, &[a, b])
}

/// `x` with `x·a = b`: `torch.linalg.solve(a, b, left=False)`, for `b: [.., k, n]`.
///
/// ```
/// # use rustorch_tensor::{Tensor, linalg};
/// let a = Tensor::new([[1.0f64, 2.0], [3.0, 4.0]])?;
/// let b = Tensor::new([[5.0f64, 6.0]])?;
/// assert!(linalg::solve_right(&a, &b)?.matmul(&a)?.allclose(&b, 1e-12, 0.0, false)?);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
///
/// # Errors
/// As for [`solve`].
pub fn solve_right(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    matrices("linalg.solve", a)?;
    matrices("linalg.solve", b)?;
    let op = Op::Linalg(Linalg::Solve);
    run(&op, &[&a.transpose(-2, -1)?, &b.transpose(-2, -1)?])?.transpose(-2, -1)
}

/// Which triangle counts, and on which side the unknown stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TriangularOptions {
    upper: bool,
    left: bool,
    unitriangular: bool,
}

impl TriangularOptions {
    /// The upper triangle, with its diagonal; `a·x = b`.
    pub fn upper() -> TriangularOptions {
        TriangularOptions { upper: true, left: true, unitriangular: false }
    }

    /// The lower triangle, with its diagonal; `a·x = b`.
    pub fn lower() -> TriangularOptions {
        TriangularOptions { upper: false, ..Self::upper() }
    }

    /// Whether the system is `a·x = b`, the default, or `x·a = b`.
    pub fn left(mut self, left: bool) -> Self {
        self.left = left;
        self
    }

    /// Whether the diagonal counts as ones and is not read.
    pub fn unitriangular(mut self, unitriangular: bool) -> Self {
        self.unitriangular = unitriangular;
        self
    }
}

/// `x` with `a·x = b` (or `x·a = b`) for triangular `a: [.., n, n]` and matrices `b`. Batches broadcast. The other
/// triangle of `a` is not read; a zero on the diagonal gives infinities, no error, as in PyTorch.
///
/// ```
/// # use rustorch_tensor::{Tensor, linalg, linalg::TriangularOptions};
/// let a = Tensor::new([[2.0f32, 0.0], [1.0, 4.0]])?;
/// let b = Tensor::new([[2.0f32], [9.0]])?;
/// let x = linalg::solve_triangular(&a, &b, &TriangularOptions::lower())?;
/// assert_eq!(x.to_vec::<f32>()?, [1.0, 2.0]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
///
/// # Errors
/// If shapes or dtypes do not fit.
pub fn solve_triangular(a: &Tensor, b: &Tensor, options: &TriangularOptions) -> Result<Tensor> {
    let &TriangularOptions { upper, left, unitriangular: unit } = options;
    if left {
        return run(&Op::Linalg(Linalg::SolveTriangular { upper, unit }), &[a, b]);
    }
    matrices("linalg.solve_triangular", a)?;
    matrices("linalg.solve_triangular", b)?;
    // Transposed, the unknown stands on the right, and the other triangle counts.
    let op = Op::Linalg(Linalg::SolveTriangular { upper: !upper, unit });
    run(&op, &[&a.transpose(-2, -1)?, &b.transpose(-2, -1)?])?.transpose(-2, -1)
}

/// The inverses of regular matrices `[.., n, n]`. To multiply by one, [`solve`] is faster and more precise.
///
/// ```
/// # use rustorch_tensor::{Tensor, linalg};
/// let inverse = linalg::inv(&Tensor::new([[0.0f32, 2.0], [4.0, 0.0]])?)?;
/// assert_eq!(inverse.to_vec::<f32>()?, [0.0, 0.25, 0.5, 0.0]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
///
/// # Errors
/// If a matrix is singular or not square.
pub fn inv(a: &Tensor) -> Result<Tensor> {
    run(&Op::Linalg(Linalg::Inverse), &[a])
}

/// The determinants of matrices `[.., n, n]`, of shape `[..]`: 0 of a singular matrix, 1 of an empty one.
///
/// ```
/// # use rustorch_tensor::{Tensor, linalg};
/// let a = Tensor::new([[[0.0f32, 2.0], [4.0, 1.0]], [[1.0, 2.0], [2.0, 4.0]]])?;
/// assert_eq!(linalg::det(&a)?.to_vec::<f32>()?, [-8.0, 0.0]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
///
/// # Errors
/// If the matrices are not square.
pub fn det(a: &Tensor) -> Result<Tensor> {
    run(&Op::Linalg(Linalg::Det), &[a])
}

/// Sign (of modulus 1) and natural logarithm of the absolute value (real) of the determinants of matrices `[.., n, n]`:
/// 0 and −∞ of a singular one. Where determinants overflow, these do not.
///
/// # Errors
/// If the matrices are not square.
pub fn slogdet(a: &Tensor) -> Result<(Tensor, Tensor)> {
    run_pair(&Op::Linalg(Linalg::SlogDet), &[a])
}

/// Which columns of `Q` are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QrMode {
    /// `min(m, n)` of them.
    #[default]
    Reduced,
    /// All `m`.
    Complete,
}

/// `(Q, R)` with `a = Q·R` for matrices `[.., m, n]`: `Q` has orthonormal columns, `R` is upper triangular. Signs are
/// LAPACK's.
///
/// ```
/// # use rustorch_tensor::{Tensor, linalg, linalg::QrMode};
/// let a = Tensor::new([[3.0f64, 1.0], [4.0, 2.0], [0.0, 1.0]])?;
/// let (q, r) = linalg::qr(&a, QrMode::Reduced)?;
/// assert_eq!((q.dims(), r.dims()), (&[3, 2][..], &[2, 2][..]));
/// assert!(q.matmul(&r)?.allclose(&a, 1e-12, 1e-14, false)?);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
///
/// # Errors
/// If shape or dtype do not fit.
pub fn qr(a: &Tensor, mode: QrMode) -> Result<(Tensor, Tensor)> {
    run_pair(&Op::Linalg(Linalg::Qr { complete: mode == QrMode::Complete }), &[a])
}

/// `(P, L, U)` with `a = P·L·U` for matrices `[.., m, n]`, singular or not: `P` a permutation, `L: [.., m, k]` with ones on
/// its diagonal, `U: [.., k, n]`, `k = min(m, n)`.
///
/// ```
/// # use rustorch_tensor::{Tensor, linalg};
/// let (p, l, u) = linalg::lu(&Tensor::new([[1.0f32, 4.0], [2.0, 2.0]])?)?;
/// assert_eq!(p.to_vec::<f32>()?, [0.0, 1.0, 1.0, 0.0]);
/// assert_eq!(l.to_vec::<f32>()?, [1.0, 0.0, 0.5, 1.0]);
/// assert_eq!(u.to_vec::<f32>()?, [2.0, 2.0, 0.0, 3.0]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
///
/// # Errors
/// If shape or dtype do not fit.
pub fn lu(a: &Tensor) -> Result<(Tensor, Tensor, Tensor)> {
    let [both, _, permutation] = run_triple(&Op::Linalg(Linalg::Lu), &[a])?;
    let (m, n) = (both.dims()[a.ndim() - 2], both.dims()[a.ndim() - 1]);
    let k = m.min(n);
    let _beside = DeviceGuard::beside(a.storage());
    let lower = both.narrow(-1, 0, k)?.tril(-1)?.add(&Tensor::eye(m, k, a.dtype())?)?;
    let upper = both.narrow(-2, 0, k)?.triu(0)?;
    // P has a one in column j where row j of L·U comes from.
    let rows = Tensor::arange(0, m as i64, 1)?.unsqueeze(-1)?;
    let p = permutation.unsqueeze(-2)?.eq(&rows)?.to_dtype(a.dtype())?;
    Ok((p, lower, upper))
}

/// Both factors of [`lu`] in one matrix `[.., m, n]`, without the ones, and LAPACK's pivots (`I32`, from 1): row `i` was
/// swapped with row `pivots[i]`, in this order.
///
/// # Errors
/// If shape or dtype do not fit; and if a matrix is singular, as in PyTorch, since the factors are of no use for solving
/// then. [`lu`] takes singular matrices.
pub fn lu_factor(a: &Tensor) -> Result<(Tensor, Tensor)> {
    let [both, pivots, _] = run_triple(&Op::Linalg(Linalg::Lu), &[a])?;
    let zero = both.diagonal(0, -2, -1)?.eq(0)?;
    if zero.any_all()?.item()?.to_bool() {
        let place = zero.nonzero()?.select(0, 0)?.to_vec::<i64>()?;
        let (pivot, batch) = place.split_last().expect("a diagonal has a dimension");
        return Err(Error::Matrix {
            op: "linalg.lu_factor",
            batch: batch.iter().map(|&i| i as usize).collect(),
            defect: MatrixDefect::Singular { pivot: *pivot as usize + 1 },
        });
    }
    Ok((both, pivots))
}

/// The `n`-th power of square matrices `[.., k, k]`: by repeated squaring, of the inverse if `n` is negative, the identity if it is 0.
///
/// ```
/// # use rustorch_tensor::{Tensor, linalg};
/// let a = Tensor::new([[1.0f32, 1.0], [0.0, 1.0]])?;
/// assert_eq!(linalg::matrix_power(&a, 5)?.to_vec::<f32>()?, [1.0, 5.0, 0.0, 1.0]);
/// assert_eq!(linalg::matrix_power(&a, -1)?.to_vec::<f32>()?, [1.0, -1.0, 0.0, 1.0]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
///
/// # Errors
/// If the matrices are not square, or singular where `n` is negative.
pub fn matrix_power(a: &Tensor, n: i64) -> Result<Tensor> {
    let name = "linalg.matrix_power";
    matrices(name, a)?;
    let [.., rows, columns] = *a.dims() else { unreachable!("`matrices` checks for two dimensions") };
    if rows != columns {
        return Err(Error::shape(name, "the matrices must be square", [a.shape()]));
    }
    let mut power = if n < 0 { inv(a)? } else { a.clone() };
    let mut rest = n.unsigned_abs();
    if rest == 0 {
        let _beside = DeviceGuard::beside(a.storage());
        return Tensor::eye(rows, rows, a.dtype())?.broadcast_to(a.shape())?.copy();
    }
    // The lowest power of two, from which the result starts.
    while rest.is_multiple_of(2) {
        power = power.matmul(&power)?;
        rest /= 2;
    }
    let mut result = power.clone();
    while rest > 1 {
        rest /= 2;
        power = power.matmul(&power)?;
        if rest % 2 == 1 {
            result = result.matmul(&power)?;
        }
    }
    Ok(result)
}

/// Refuses what is no matrix before its last two dimensions are spoken of.
fn matrices(op: &'static str, a: &Tensor) -> Result<()> {
    if a.ndim() >= 2 {
        return Ok(());
    }
    Err(Error::shape(op, "needs a matrix, or a batch of them: two dimensions at least", [a.shape()]))
}
