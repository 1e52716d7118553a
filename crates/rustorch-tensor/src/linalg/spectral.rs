//! Singular values and eigenvalues.

use crate::Tensor;
use crate::dispatch::{run, run_pair, run_triple};
use rustorch_core::{Linalg, Op, Result};

/// `(U, S, Vᴴ)` with `a = U·S·Vᴴ` for matrices `[.., m, n]`: columns of `U` and rows of `Vᴴ` are orthonormal, singular values `S`
/// (real, `[.., min(m, n)]`) descend. With `full_matrices`, `U` and `Vᴴ` are square, else they have `min(m, n)` columns and rows.
///
/// Signs (of complex matrices, phases) of singular vectors are arbitrary, and so are those of equal singular values among each other.
/// Gradients are PyTorch's: of a loss that depends on such a choice they mean nothing, and are an error where that shows in the phases of complex
/// vectors; equal or vanishing singular values make those of a loss of the vectors infinite or NaN; columns of `U` and rows of `Vᴴ`
/// beyond `min(m, n)` have none. [`svdvals`] has a gradient in any case.
///
/// ```
/// # use rustorch_tensor::{Tensor, linalg};
/// let a = Tensor::new([[3.0f64, 0.0], [0.0, -2.0], [0.0, 0.0]])?;
/// let (u, s, vh) = linalg::svd(&a, false)?;
/// assert_eq!((u.dims(), s.to_vec::<f64>()?, vh.dims()), (&[3, 2][..], vec![3.0, 2.0], &[2, 2][..]));
/// assert!(u.mul(&s)?.matmul(&vh)?.allclose(&a, 1e-12, 1e-12, false)?);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
///
/// # Errors
/// If shape or dtype do not fit, if a matrix has a NaN or an infinity, and without the Cargo feature `linalg`.
pub fn svd(a: &Tensor, full_matrices: bool) -> Result<(Tensor, Tensor, Tensor)> {
    let op = Op::Linalg(Linalg::Svd { full: full_matrices, vectors: true });
    run_triple(&op, &[a]).map(|[u, s, vh]| (u, s, vh))
}

/// The singular values of matrices `[.., m, n]`, in descending order: what [`svd`] gives beside the vectors, at a fraction of the time.
///
/// ```
/// # use rustorch_tensor::{Tensor, linalg};
/// let a = Tensor::new([[3.0f64, 4.0], [0.0, 0.0]])?;
/// assert!(linalg::svdvals(&a)?.allclose(&Tensor::new([5.0f64, 0.0])?, 1e-14, 1e-14, false)?);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
///
/// # Errors
/// As for [`svd`].
pub fn svdvals(a: &Tensor) -> Result<Tensor> {
    run(&Op::Linalg(Linalg::Svd { full: false, vectors: false }), &[a])
}

/// Which triangle of a Hermitian matrix is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Uplo {
    /// The lower one, with the diagonal: PyTorch's `UPLO="L"`.
    #[default]
    Lower,
    /// The upper one, with the diagonal: `UPLO="U"`.
    Upper,
}

/// `(L, Q)` with `a = Q·L·Qᴴ` for Hermitian matrices `[.., n, n]`: the eigenvalues `L` (real, `[.., n]`) ascend, the columns of `Q` are
/// orthonormal eigenvectors. Only one triangle is read, and of the diagonal only the real part.
///
/// Signs (of complex matrices, phases) of eigenvectors are arbitrary; what [`svd`] says of gradients holds here, too. The gradient of `a` is Hermitian.
///
/// ```
/// # use rustorch_tensor::{Tensor, linalg, linalg::Uplo};
/// let a = Tensor::new([[2.0f64, 1.0], [1.0, 2.0]])?;
/// let (l, q) = linalg::eigh(&a, Uplo::Lower)?;
/// assert!(l.allclose(&Tensor::new([1.0f64, 3.0])?, 1e-12, 1e-12, false)?);
/// assert!(q.mul(&l)?.matmul(&q.t()?)?.allclose(&a, 1e-12, 1e-12, false)?);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
///
/// # Errors
/// If the matrices are not square, or their dtype does not fit, if the triangle has a NaN or an infinity, and without the Cargo feature
/// `linalg`.
pub fn eigh(a: &Tensor, uplo: Uplo) -> Result<(Tensor, Tensor)> {
    run_pair(&Op::Linalg(Linalg::Eigh { upper: uplo == Uplo::Upper, vectors: true }), &[a])
}

/// The eigenvalues of Hermitian matrices `[.., n, n]`, in ascending order: what [`eigh`] gives beside the vectors, at a fraction of the time.
///
/// ```
/// # use rustorch_tensor::{Tensor, linalg, linalg::Uplo};
/// let a = Tensor::new([[0.0f64, 2.0], [2.0, 0.0]])?;
/// let l = linalg::eigvalsh(&a, Uplo::Upper)?;
/// assert!(l.allclose(&Tensor::new([-2.0f64, 2.0])?, 1e-14, 1e-14, false)?);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
///
/// # Errors
/// As for [`eigh`].
pub fn eigvalsh(a: &Tensor, uplo: Uplo) -> Result<Tensor> {
    run(&Op::Linalg(Linalg::Eigh { upper: uplo == Uplo::Upper, vectors: false }), &[a])
}

/// `(L, V)` with `a·V = V·L` for matrices `[.., n, n]`: eigenvalues `L` (`[.., n]`), in no particular order, and in the columns of `V`
/// eigenvectors of norm 1. Both are complex, also those of a real matrix.
///
/// Phases of eigenvectors are arbitrary; here, the largest element of each is real. A gradient needs distinct eigenvalues, and is
/// an error if the loss depends on phases.
///
/// ```
/// # use rustorch_tensor::{C64, Tensor, linalg};
/// // A quarter turn.
/// let (l, v) = linalg::eig(&Tensor::new([[0.0f32, -1.0], [1.0, 0.0]])?)?;
/// let mut angles: Vec<f32> = l.to_vec::<C64>()?.iter().map(|z| z.im).collect();
/// angles.sort_by(f32::total_cmp);
/// assert!((angles[0] + 1.0).abs() < 1e-6 && (angles[1] - 1.0).abs() < 1e-6);
/// assert_eq!(v.dims(), [2, 2]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
///
/// # Errors
/// If the matrices are not square, or their dtype does not fit, if one has a NaN or an infinity, if one has so few independent
/// eigenvectors that computing them overflows, and without the Cargo feature `linalg`.
pub fn eig(a: &Tensor) -> Result<(Tensor, Tensor)> {
    run_pair(&Op::Linalg(Linalg::Eig { vectors: true }), &[a])
}

/// The eigenvalues of matrices `[.., n, n]`, complex and in no particular order: what [`eig`] gives beside the vectors, at a fraction of the
/// time.
///
/// ```
/// # use rustorch_tensor::{C128, Tensor, linalg};
/// let l = linalg::eigvals(&Tensor::new([[2.0f64, 1.0], [0.0, 2.0]])?)?;
/// assert_eq!(l.to_vec::<C128>()?, [C128::new(2.0, 0.0); 2]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
///
/// # Errors
/// As for [`eig`], but that there are always eigenvalues.
pub fn eigvals(a: &Tensor) -> Result<Tensor> {
    run(&Op::Linalg(Linalg::Eig { vectors: false }), &[a])
}
