//! Pseudoinverses, least squares and ranks: what follows from singular values.

use super::{Uplo, eigh, eigvalsh, matrices, svd, svdvals};
use crate::Tensor;
use crate::autograd::{Function, FunctionContext, Gradients};
use rustorch_core::{DType, Error, Result, Shape};
use rustorch_runtime::DeviceGuard;

/// Which singular values count as zero, and whether the matrices are Hermitian: arguments of [`pinv`] and [`matrix_rank`].
///
/// A singular value counts as zero if it is at most the larger one of `atol` and `rtol` times the matrix's largest singular value.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RankOptions {
    /// The absolute tolerance: 0, if it is not given.
    pub atol: Option<f64>,
    /// The relative one. If it is not given, it is 0 where `atol` is given and positive, else the precision of the dtype times the larger one
    /// of rows and columns.
    pub rtol: Option<f64>,
    /// Whether the matrices are Hermitian, which is not checked; only their lower triangles are read. Eigenvalues take less time than singular values.
    pub hermitian: bool,
}

impl RankOptions {
    /// The tolerances for matrices of a shape.
    fn tolerances(&self, a: &Tensor) -> [f64; 2] {
        let rtol = match (self.rtol, self.atol) {
            (Some(rtol), _) => rtol,
            (None, Some(atol)) if atol > 0.0 => 0.0,
            _ => {
                let epsilon = match a.dtype().to_real() {
                    DType::F64 => f64::EPSILON,
                    _ => f64::from(f32::EPSILON),
                };
                epsilon * a.dims()[a.ndim() - 2..].iter().copied().max().unwrap_or(0) as f64
            }
        };
        [self.atol.unwrap_or(0.0), rtol]
    }
}

/// Moore and Penrose's pseudoinverses `[.., n, m]` of matrices `[.., m, n]`.
///
/// For products with one, [`lstsq`] says what it is meant for. The gradient is that of matrices of constant rank.
///
/// ```
/// # use rustorch_tensor::{Tensor, linalg, linalg::RankOptions};
/// let p = linalg::pinv(&Tensor::new([[2.0f64, 0.0], [0.0, 0.0], [0.0, 0.0]])?, &RankOptions::default())?;
/// assert!(p.allclose(&Tensor::new([[0.5f64, 0.0, 0.0], [0.0, 0.0, 0.0]])?, 1e-14, 1e-14, false)?);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
///
/// # Errors
/// If shape or dtype do not fit (Hermitian matrices have to be square), if a matrix has a NaN or an infinity, and without the Cargo feature
/// `linalg`.
pub fn pinv(a: &Tensor, options: &RankOptions) -> Result<Tensor> {
    const NAME: &str = "linalg.pinv";
    check(NAME, a, options.hermitian)?;
    Ok(Pinv { options: *options }.apply(&[a])?.swap_remove(0))
}

/// How many singular values of matrices `[.., m, n]` do not count as zero: `I64`, `[..]`.
///
/// ```
/// # use rustorch_tensor::{Tensor, linalg, linalg::RankOptions};
/// let a = Tensor::new([[1.0f32, 2.0], [2.0, 4.0]])?;
/// assert_eq!(linalg::matrix_rank(&a, &RankOptions::default())?.to_vec::<i64>()?, [1]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
///
/// # Errors
/// As for [`pinv`].
pub fn matrix_rank(a: &Tensor, options: &RankOptions) -> Result<Tensor> {
    check("linalg.matrix_rank", a, options.hermitian)?;
    let a = a.detach();
    let values = match options.hermitian {
        true => eigvalsh(&a, Uplo::Lower)?.abs()?,
        false => svdvals(&a)?,
    };
    counted(&values, options.tolerances(&a))?.to_dtype(DType::I64)?.sum(-1, false)
}

/// What [`lstsq`] returns.
#[derive(Clone, Debug)]
pub struct LeastSquares {
    /// `x` of the least `‖a·x − b‖`, and of those the one of least norm: `[.., n, k]`, or `[.., n]` if `b` was of vectors.
    pub solution: Tensor,
    /// The sums of squares of the columns of `a·x − b`, `[.., k]`, where there are more rows than columns; else empty, `[0]`.
    pub residuals: Tensor,
    /// The ranks of `a`, `I64`, `[..]`.
    pub rank: Tensor,
    /// The singular values of `a`, in descending order.
    pub singular_values: Tensor,
}

/// Solves `a·x ≈ b` in the sense of least squares, for matrices `a: [.., m, n]` of any rank: `torch.linalg.lstsq` with the driver `gelsd`,
/// by singular values.
///
/// `b` is a batch of matrices `[.., m, k]` of as many dimensions as `a`, or of vectors `[.., m]` of one dimension less. Batches broadcast.
/// Singular values of at most `rcond` times the largest one count as zero; without it, of the dtype's precision times the larger one of rows and
/// columns. Solution and residuals have gradients. PyTorch's residuals are empty if the rank of any matrix is not full; here shapes do not depend on
/// values.
///
/// ```
/// # use rustorch_tensor::{Tensor, linalg};
/// // The line through (0, 1), (1, 3), (2, 5).
/// let a = Tensor::new([[0.0f64, 1.0], [1.0, 1.0], [2.0, 1.0]])?;
/// let line = linalg::lstsq(&a, &Tensor::new([1.0f64, 3.0, 5.0])?, None)?;
/// assert!(line.solution.allclose(&Tensor::new([2.0f64, 1.0])?, 1e-12, 1e-12, false)?);
/// assert_eq!(line.rank.to_vec::<i64>()?, [2]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
///
/// # Errors
/// If shapes or dtypes do not fit, if `a` has a NaN or an infinity, and without the Cargo feature `linalg`.
pub fn lstsq(a: &Tensor, b: &Tensor, rcond: Option<f64>) -> Result<LeastSquares> {
    const NAME: &str = "linalg.lstsq";
    check(NAME, a, false)?;
    if a.dtype() != b.dtype() {
        return Err(Error::dtype(
            NAME,
            "needs matrices and right sides of one dtype",
            [a.dtype(), b.dtype()],
        ));
    }
    let vectors = b.ndim() + 1 == a.ndim();
    if b.ndim() != a.ndim() && !vectors {
        let message = "right sides have as many dimensions as the matrices, or one less if they are vectors";
        return Err(Error::shape(NAME, message, [a.shape(), b.shape()]));
    }
    let right = if vectors { b.unsqueeze(-1)? } else { b.clone() };
    let (m, n) = (a.dims()[a.ndim() - 2], a.dims()[a.ndim() - 1]);
    if right.dims()[right.ndim() - 2] != m {
        let message = format!("right sides do not have the {m} rows of the matrices");
        return Err(Error::shape(NAME, message, [a.shape(), b.shape()]));
    }
    let leading = |x: &Tensor| Shape::new(&x.dims()[..x.ndim() - 2]);
    leading(a)?.broadcast(&leading(&right)?, NAME)?;
    let options = RankOptions { atol: None, rtol: rcond, hermitian: false };
    let results = Pinv { options }.apply(&[a])?;
    let [pinv, values, rank] = &results[..] else { unreachable!("the results of `Pinv::forward`") };
    let solution = pinv.matmul(&right)?;
    let residuals = match m > n {
        true => a.matmul(&solution)?.sub(&right)?.abs()?.square()?.sum(-2, false)?,
        false => Tensor::zeros([0], (a.dtype().to_real(), a.device()))?,
    };
    Ok(LeastSquares {
        solution: if vectors { solution.squeeze(-1)? } else { solution },
        residuals,
        rank: rank.clone(),
        singular_values: values.clone(),
    })
}

/// Refuses what has no singular values.
fn check(op: &'static str, a: &Tensor, hermitian: bool) -> Result<()> {
    if !matches!(a.dtype(), DType::F32 | DType::F64 | DType::C64 | DType::C128) {
        return Err(Error::dtype(op, "needs f32, f64, c64 or c128; cast first", [a.dtype()]));
    }
    matrices(op, a)?;
    let (m, n) = (a.dims()[a.ndim() - 2], a.dims()[a.ndim() - 1]);
    if hermitian && m != n {
        let message = format!("Hermitian matrices are square, but these are {m} by {n}");
        return Err(Error::shape(op, message, [a.shape()]));
    }
    Ok(())
}

/// Which values, absolute ones, do not count as zero.
fn counted(values: &Tensor, [atol, rtol]: [f64; 2]) -> Result<Tensor> {
    if values.dims().last() == Some(&0) {
        return values.gt(0);
    }
    values.gt(&values.amax(-1, true)?.mul(rtol)?.maximum(&atol_like(values, atol)?)?)
}

fn atol_like(values: &Tensor, atol: f64) -> Result<Tensor> {
    let _beside = DeviceGuard::beside(values.storage());
    Tensor::full(Shape::scalar(), atol, values.dtype())
}

/// The pseudoinverse, with a gradient that does not divide by differences of singular values. Beside it, singular values (absolute eigenvalues of
/// Hermitian matrices) and the rank.
struct Pinv {
    options: RankOptions,
}

impl Function for Pinv {
    const NAME: &'static str = "linalg.pinv";

    fn forward(&self, cx: &mut FunctionContext, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        let a = inputs[0];
        let (left, values, right) = match self.options.hermitian {
            true => {
                let (values, vectors) = eigh(a, Uplo::Lower)?;
                let right = adjoint(&vectors)?;
                (vectors, values, right)
            }
            false => {
                let (u, values, vh) = svd(a, false)?;
                (adjoint(&vh)?, values, adjoint(&u)?)
            }
        };
        let sizes = if self.options.hermitian { values.abs()? } else { values.clone() };
        let counted = counted(&sizes, self.options.tolerances(a))?;
        let zero = values.zeros_like()?;
        let inverse = counted.where_cond(&values.reciprocal()?, &zero)?;
        let pinv = left.mul(&inverse.unsqueeze(-2)?)?.matmul(&right)?;
        let rank = counted.to_dtype(DType::I64)?.sum(-1, false)?;
        cx.save(&[a, &pinv]);
        cx.mark_non_differentiable(1);
        cx.mark_non_differentiable(2);
        Ok(vec![pinv, sizes, rank])
    }

    /// Golub and Pereyra's formula, multiplied so that the smaller products come first.
    fn backward(&self, grads: &Gradients<'_>) -> Result<Vec<Option<Tensor>>> {
        let Some(grad) = grads.output(0)? else { return Ok(vec![None]) };
        let (a, pinv) = (grads.saved(0)?, grads.saved(1)?);
        let (back, grad) = (adjoint(pinv)?, adjoint(grad)?);
        let (m, n) = (a.dims()[a.ndim() - 2], a.dims()[a.ndim() - 1]);
        let of_a = if m <= n {
            let k = grad.matmul(pinv)?;
            let k_back = k.matmul(&back)?;
            let rest = back.matmul(pinv)?.matmul(&grad.sub(&k.matmul(a)?)?)?;
            k_back.sub(&adjoint(&pinv.matmul(&k)?)?)?.sub(&a.matmul(pinv)?.matmul(&k_back)?)?.add(&rest)?
        } else {
            let k = pinv.matmul(&grad)?;
            let back_k = back.matmul(&k)?;
            let rest = grad.sub(&a.matmul(&k)?)?.matmul(pinv)?.matmul(&back)?;
            rest.sub(&adjoint(&k.matmul(pinv)?)?)?.add(&back_k)?.sub(&back_k.matmul(pinv)?.matmul(a)?)?
        };
        Ok(vec![Some(of_a)])
    }
}

/// The conjugate transpose.
fn adjoint(x: &Tensor) -> Result<Tensor> {
    x.transpose(-2, -1)?.conj()
}
