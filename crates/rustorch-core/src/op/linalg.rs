//! Decompositions of matrices, and what they give: solutions, inverses, determinants.
//!
//! Matrices are the last two dimensions; the leading ones are a batch. Dtypes are `F32`, `F64`, `C64` and `C128`. A
//! transposed system, and one whose unknown stands on the left (`X·A = B`), is this one seen through transposed views, so
//! neither is a parameter here.

use super::{OpType, Operation, expect_args, one, same_dense};
use crate::{DType, Dims, Error, OutputMeta, Outputs, Result, Shape, TensorMeta};
use smallvec::smallvec;
use std::fmt;

op_kinds! {
    /// A decomposition, or what is computed by way of one.
    ///
    /// Whether a matrix is regular, or positive-definite, depends on its values: a device that finds that it is not returns
    /// [`Error::Matrix`](crate::Error::Matrix), which never falls back, as every device would find the same.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    Linalg, LinalgKind {
        /// `(a: [.., n, n]) →` the triangular factor of a Hermitian positive-definite matrix: `L` with `a = L·Lᴴ`, or, if
        /// `upper`, `U` with `a = Uᴴ·U`. Only that triangle of `a` is read, and of its diagonal only the real part.
        Cholesky {
            /// Whether the upper triangle is read and written.
            upper: bool,
        } = "linalg.cholesky",
        /// `(a: [.., n, n], b: [.., n, k]) → x` with `a·x = b`, where of `a` one triangle counts and the other is not read.
        /// Batches broadcast. A zero on the diagonal gives infinities, no error, as in PyTorch.
        SolveTriangular {
            /// Whether the upper triangle counts.
            upper: bool,
            /// Whether the diagonal counts as ones and is not read.
            unit: bool,
        } = "linalg.solve_triangular",
        /// `(a: [.., m, n]) →` (both factors in one matrix `[.., m, n]`, pivots, permutation), by partial pivoting: `U` from
        /// the diagonal on, below it `L`, whose diagonal of ones is not stored.
        ///
        /// Pivots (`I32`, `[.., min(m, n)]`) are LAPACK's: row `i` was swapped with row `pivots[i]`, counted from 1, in this
        /// order. The permutation (`I64`, `[.., m]`) says the same of the whole: row `i` of `L·U` is row `permutation[i]` of
        /// `a`. A singular matrix has such factors, too.
        Lu = "linalg.lu",
        /// `(a: [.., n, n], b: [.., n, k]) → x` with `a·x = b`, by partial pivoting. Batches broadcast.
        Solve = "linalg.solve",
        /// `(a: [.., n, n]) → a⁻¹`.
        Inverse = "linalg.inv",
        /// `(a: [.., n, n]) →` the determinants `[..]`; 0 of a singular matrix, 1 of an empty one.
        Det = "linalg.det",
        /// `(a: [.., n, n]) →` (sign, natural logarithm of the absolute value) of the determinants. The sign has the dtype of
        /// `a` and modulus 1, the logarithm is real; of a singular matrix they are 0 and −∞.
        SlogDet = "linalg.slogdet",
        /// `(a: [.., m, n]) → (Q, R)` with `a = Q·R`, columns of `Q` orthonormal, `R` upper triangular, by Householder's
        /// reflections with LAPACK's signs: `Q` is `[.., m, k]`, `R` is `[.., k, n]`, `k = min(m, n)`.
        Qr {
            /// Whether `Q` is square: `k = m`.
            complete: bool,
        } = "linalg.qr",
        /// `(a: [.., m, n]) → (U, S, Vᴴ)` with `a = U·S·Vᴴ`, columns of `U` and rows of `Vᴴ` orthonormal, the singular values `S`
        /// (`[.., min(m, n)]`, real) in descending order: `U` is `[.., m, k]`, `Vᴴ` is `[.., k, n]`, `k = min(m, n)`.
        Svd {
            /// Whether `U` and `Vᴴ` are square.
            full: bool,
            /// Whether all three are results, or `S` alone.
            vectors: bool,
        } = "linalg.svd",
        /// `(a: [.., n, n]) → (L, Q)` with `a = Q·L·Qᴴ` for Hermitian `a`: the eigenvalues `L` (`[.., n]`, real) in ascending
        /// order, and in the columns of `Q` orthonormal eigenvectors. Only one triangle of `a` is read, and of its diagonal only the
        /// real part.
        Eigh {
            /// Whether the upper triangle is read.
            upper: bool,
            /// Whether both are results, or `L` alone.
            vectors: bool,
        } = "linalg.eigh",
        /// `(a: [.., n, n]) → (L, V)` with `a·V = V·L`: the eigenvalues `L` (`[.., n]`), in no particular order, and in the columns
        /// of `V` eigenvectors of norm 1. Both are complex, also those of a real matrix.
        Eig {
            /// Whether both are results, or `L` alone.
            vectors: bool,
        } = "linalg.eig",
    }
}

/// What a matrix lacks that an operation needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MatrixDefect {
    /// It is not positive-definite.
    NotPositiveDefinite {
        /// The order of its first leading minor that is not positive.
        minor: usize,
    },
    /// It is singular: elimination meets a zero.
    Singular {
        /// The number of the pivot that is zero, counted from 1.
        pivot: usize,
    },
    /// It has elements that are NaN or infinite, of which there is no such decomposition.
    NotFinite,
    /// The iteration for its eigenvalues or singular values did not converge.
    NotConverged,
    /// It has not as many independent eigenvectors as rows, and computing them overflows.
    Defective,
}

impl fmt::Display for MatrixDefect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MatrixDefect::NotPositiveDefinite { minor } => {
                write!(f, "is not positive-definite (the leading minor of order {minor} is not positive)")
            }
            MatrixDefect::Singular { pivot } => write!(f, "is singular (pivot {pivot} is zero)"),
            MatrixDefect::NotFinite => {
                write!(f, "has elements that are NaN or infinite, so it cannot be decomposed")
            }
            MatrixDefect::NotConverged => {
                write!(f, "has a spectrum to which the algorithm did not converge; is it badly scaled?")
            }
            MatrixDefect::Defective => {
                write!(
                    f,
                    "has too few independent eigenvectors to compute them; ask for its eigenvalues alone"
                )
            }
        }
    }
}

impl Operation for Linalg {
    const CLASS: OpType = OpType::Decomposition;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        let name = self.name();
        let system = matches!(self, Linalg::SolveTriangular { .. } | Linalg::Solve);
        let count = if system { 2 } else { 1 };
        expect_args(name, args, count..=count)?;
        let dtype = same_dense(name, args, count..=count)?;
        if !matches!(dtype, DType::F32 | DType::F64 | DType::C64 | DType::C128) {
            return Err(Error::dtype(name, "needs f32, f64, c64 or c128; cast first", [dtype]));
        }
        let a = args[0].shape();
        let [m, n] = matrix(name, a)?;
        let batch = &a[..a.ndim() - 2];
        let with = |tail: &[usize]| -> Result<Shape> {
            let mut dims = Dims::from_slice(batch);
            dims.extend_from_slice(tail);
            Shape::new(dims)
        };
        let rectangular = matches!(self, Linalg::Lu | Linalg::Qr { .. } | Linalg::Svd { .. });
        if m != n && !rectangular {
            return Err(Error::shape(
                name,
                format!("needs square matrices, but these are {m} by {n}"),
                args.iter().map(|x| x.shape()),
            ));
        }
        match *self {
            Linalg::Cholesky { .. } | Linalg::Inverse => one(dtype, a.clone()),
            Linalg::SolveTriangular { .. } | Linalg::Solve => {
                let b = args[1].shape();
                let [rows, columns] = matrix(name, b)?;
                if rows != n {
                    let message = format!("a right side of {rows} rows does not fit matrices of {n} by {n}");
                    return Err(Error::shape(name, message, [a, b]));
                }
                let batch = Shape::new(batch)?.broadcast(&Shape::new(&b[..b.ndim() - 2])?, name)?;
                let mut dims = Dims::from_slice(batch.dims());
                dims.extend_from_slice(&[rows, columns]);
                one(dtype, Shape::new(dims)?)
            }
            Linalg::Lu => Ok(smallvec![
                OutputMeta { dtype, shape: a.clone() },
                OutputMeta { dtype: DType::I32, shape: with(&[m.min(n)])? },
                OutputMeta { dtype: DType::I64, shape: with(&[m])? },
            ]),
            Linalg::Det => one(dtype, with(&[])?),
            Linalg::SlogDet => Ok(smallvec![
                OutputMeta { dtype, shape: with(&[])? },
                OutputMeta { dtype: dtype.to_real(), shape: with(&[])? },
            ]),
            Linalg::Qr { complete } => {
                let k = if complete { m } else { m.min(n) };
                Ok(smallvec![
                    OutputMeta { dtype, shape: with(&[m, k])? },
                    OutputMeta { dtype, shape: with(&[k, n])? },
                ])
            }
            Linalg::Svd { full, vectors } => {
                let k = m.min(n);
                let values = OutputMeta { dtype: dtype.to_real(), shape: with(&[k])? };
                if !vectors {
                    return Ok(smallvec![values]);
                }
                let [left, right] = if full { [m, n] } else { [k, k] };
                Ok(smallvec![
                    OutputMeta { dtype, shape: with(&[m, left])? },
                    values,
                    OutputMeta { dtype, shape: with(&[right, n])? },
                ])
            }
            Linalg::Eigh { vectors, .. } | Linalg::Eig { vectors } => {
                let hermitian = matches!(self, Linalg::Eigh { .. });
                let [of_values, of_vectors] =
                    if hermitian { [dtype.to_real(), dtype] } else { [dtype.to_complex(); 2] };
                let mut outs: Outputs = smallvec![OutputMeta { dtype: of_values, shape: with(&[n])? }];
                if vectors {
                    outs.push(OutputMeta { dtype: of_vectors, shape: a.clone() });
                }
                Ok(outs)
            }
        }
    }

    fn fails_on_values(&self) -> bool {
        true
    }

    /// Multiplications and additions, by the leading terms of LAPACK's counts.
    fn flops(&self, args: &[TensorMeta<'_>], outs: &[OutputMeta]) -> u64 {
        let Ok([m, n]) = matrix(self.name(), args[0].shape()) else { return 0 };
        let out = outs[0].shape.numel();
        let batch = args[0].shape()[..args[0].shape().ndim() - 2].iter().product::<usize>() as f64;
        let (m, n, out) = (m as f64, n as f64, out as f64);
        let k = m.min(n);
        let elimination = batch * 2.0 * (m * n * k - (m + n) * k * k / 2.0 + k * k * k / 3.0);
        let flops = match self {
            Linalg::Cholesky { .. } => batch * n * n * n / 3.0,
            Linalg::SolveTriangular { .. } => out * n,
            Linalg::Lu | Linalg::Det | Linalg::SlogDet => elimination,
            Linalg::Solve => elimination + 2.0 * out * n,
            Linalg::Inverse => elimination + 2.0 * batch * n * n * n,
            // As much again for the columns of Q.
            Linalg::Qr { .. } => 2.0 * elimination + 2.0 * out * k,
            // Golub and Van Loan's counts: reduction to two diagonals, or to Hessenberg form, and as many iterations as are usual.
            Linalg::Svd { vectors: false, .. } => batch * (4.0 * m * n * k - 4.0 / 3.0 * k * k * k),
            Linalg::Svd { vectors: true, .. } => batch * (6.0 * m * n * k + 16.0 * k * k * k),
            Linalg::Eigh { vectors: false, .. } => batch * 4.0 / 3.0 * n * n * n,
            Linalg::Eigh { vectors: true, .. } => batch * 9.0 * n * n * n,
            Linalg::Eig { vectors: false } => batch * 10.0 * n * n * n,
            Linalg::Eig { vectors: true } => batch * 25.0 * n * n * n,
        };
        flops as u64
    }
}

impl Linalg {
    /// Whether it is a decomposition by singular values or eigenvalues.
    pub fn is_spectral(&self) -> bool {
        matches!(self, Linalg::Svd { .. } | Linalg::Eigh { .. } | Linalg::Eig { .. })
    }
}

/// Rows and columns of a shape's matrices.
fn matrix(name: &'static str, shape: &Shape) -> Result<[usize; 2]> {
    match shape.dims() {
        [.., m, n] => Ok([*m, *n]),
        _ => Err(Error::shape(name, "needs a matrix, or a batch of them: two dimensions at least", [shape])),
    }
}
