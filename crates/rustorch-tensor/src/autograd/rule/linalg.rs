//! Decompositions of matrices and what follows from them.
//!
//! Formulas are those of Giles, *An extended collection of matrix derivative results*, 2008, in the form that PyTorch gives them for
//! complex matrices (`torch/csrc/autograd/FunctionsManual.cpp`). Of a Hermitian argument the gradient is Hermitian where the result's has
//! no part that no Hermitian change reaches: an imaginary part on the diagonal of a Cholesky factor.

use super::{Gradient, Recording, Rule, if_needed, spectral};
use crate::Tensor;
use crate::autograd::context::{Context, Grads};
use crate::autograd::is_grad_enabled;
use crate::autograd::saved::{Saves, Which};
use crate::dispatch::run;
use rustorch_core::{C128, DType, Error, Linalg, Op, Result};

/// The most rows of a singular matrix whose minors are computed.
const LARGEST_MINORS: usize = 16;

/// The conjugate transpose.
pub(super) fn adjoint(x: &Tensor) -> Result<Tensor> {
    x.transpose(-2, -1)?.conj()
}

/// a⁻¹·b of a triangular a.
fn solve(a: &Tensor, b: &Tensor, upper: bool, unit: bool) -> Result<Tensor> {
    run(&Op::Linalg(Linalg::SolveTriangular { upper, unit }), &[a, b])
}

/// b·a⁻ᴴ of a triangular a.
fn solve_right_adjoint(a: &Tensor, b: &Tensor, upper: bool, unit: bool) -> Result<Tensor> {
    adjoint(&solve(a, &adjoint(b)?, upper, unit)?)
}

fn inverse(a: &Tensor) -> Result<Tensor> {
    run(&Op::Linalg(Linalg::Inverse), &[a])
}

impl Rule for Linalg {
    fn gradient(&self, args: &[&Tensor]) -> Gradient {
        match self {
            Linalg::Qr { complete: true }
                if args[0].dims()[args[0].ndim() - 2] > args[0].dims()[args[0].ndim() - 1] =>
            {
                Gradient::Refused(
                    "with a square Q of more rows than the matrix has columns has no gradient, as the added columns are arbitrary; take the reduced mode",
                )
            }
            _ => Gradient::Exists,
        }
    }

    fn saves(&self, recording: &Recording<'_>) -> Saves {
        let (a, x) = (Which::Arg(0), Which::Result(0));
        match self {
            Linalg::Cholesky { .. } | Linalg::Inverse => if_needed(recording, &[(0, &[x])]),
            Linalg::SolveTriangular { .. } | Linalg::Solve => {
                if_needed(recording, &[(0, &[a, x]), (1, &[a])])
            }
            Linalg::Lu => if_needed(recording, &[(0, &[x, Which::Result(2)])]),
            Linalg::Det | Linalg::SlogDet => if_needed(recording, &[(0, &[a, x])]),
            Linalg::Qr { .. } | Linalg::Eigh { vectors: true, .. } | Linalg::Eig { vectors: true } => {
                if_needed(recording, &[(0, &[x, Which::Result(1)])])
            }
            Linalg::Svd { vectors: true, .. } => {
                if_needed(recording, &[(0, &[x, Which::Result(1), Which::Result(2)])])
            }
            // The vectors are computed when a gradient is asked for.
            Linalg::Svd { vectors: false, .. }
            | Linalg::Eigh { vectors: false, .. }
            | Linalg::Eig { vectors: false } => if_needed(recording, &[(0, &[a])]),
        }
    }

    fn backward(&self, cx: &Context<'_>) -> Result<Grads> {
        match *self {
            Linalg::Cholesky { upper } => cx.first(|| cholesky(cx.grad()?, cx.result(0)?, upper)),
            Linalg::SolveTriangular { upper, unit } => {
                let of_b = solve(&adjoint(cx.arg(0)?)?, cx.grad()?, !upper, unit)?;
                cx.each(|arg| {
                    if arg == 1 {
                        return Ok(Some(of_b.clone()));
                    }
                    let of_a = of_b.matmul(&adjoint(cx.result(0)?)?)?.neg()?;
                    let skipped = i64::from(unit);
                    if upper { of_a.triu(skipped).map(Some) } else { of_a.tril(-skipped).map(Some) }
                })
            }
            Linalg::Solve => {
                let of_b = run(&Op::Linalg(Linalg::Solve), &[&adjoint(cx.arg(0)?)?, cx.grad()?])?;
                cx.each(|arg| match arg {
                    0 => of_b.matmul(&adjoint(cx.result(0)?)?)?.neg().map(Some),
                    _ => Ok(Some(of_b.clone())),
                })
            }
            Linalg::Inverse => cx.first(|| {
                let back = adjoint(cx.result(0)?)?;
                back.matmul(cx.grad()?)?.matmul(&back)?.neg()
            }),
            Linalg::Det => cx.first(|| det(cx.grad()?, cx.arg(0)?, cx.result(0)?)),
            Linalg::SlogDet => cx.first(|| slogdet(cx)),
            Linalg::Lu => cx.first(|| lu(cx)),
            Linalg::Qr { .. } => cx.first(|| qr(cx)),
            Linalg::Svd { vectors, .. } => cx.first(|| spectral::svd(cx, vectors)),
            Linalg::Eigh { upper, vectors } => cx.first(|| spectral::eigh(cx, upper, vectors)),
            Linalg::Eig { vectors } => cx.first(|| spectral::eig(cx, vectors)),
        }
    }
}

fn cholesky(grad: &Tensor, factor: &Tensor, upper: bool) -> Result<Tensor> {
    let (l, grad) = if upper { (adjoint(factor)?, adjoint(grad)?) } else { (factor.clone(), grad.clone()) };
    let back = adjoint(&l)?;
    let lower = back.matmul(&grad)?.tril(0)?;
    let inner = lower.add(&adjoint(&lower.tril(-1)?)?)?.mul(0.5)?;
    let left = solve(&back, &inner, true, false)?;
    adjoint(&solve(&back, &adjoint(&left)?, true, false)?)
}

fn det(grad: &Tensor, a: &Tensor, det: &Tensor) -> Result<Tensor> {
    let each = |x: &Tensor| x.unsqueeze(-1)?.unsqueeze(-1);
    if a.numel() == 0 {
        return a.zeros_like();
    }
    let singular = det.eq(0)?.any_all()?.item()?.to_bool();
    let cofactors = match is_grad_enabled() {
        // A second derivative by the inverse has no correct digit near a singular matrix: PyTorch's threshold.
        true if singular
            || a.dims()[a.ndim() - 1] <= LARGEST_MINORS
                && det.abs()?.lt(100.0 * precision(a))?.any_all()?.item()?.to_bool() =>
        {
            minors(a)?
        }
        false if singular => near_cofactors(a)?,
        _ => return each(&grad.mul(&det.conj()?)?)?.mul(&adjoint(&inverse(a)?)?),
    };
    each(grad)?.mul(&cofactors)
}

fn precision(x: &Tensor) -> f64 {
    if x.dtype().to_real() == DType::F64 { f64::EPSILON } else { f64::from(f32::EPSILON) }
}

/// The conjugate cofactors of square matrices, by the determinants of their minors: n² of them, for a second derivative where a
/// matrix is singular, which has no inverse to compute it by.
fn minors(a: &Tensor) -> Result<Tensor> {
    let n = a.dims()[a.ndim() - 1];
    if n > LARGEST_MINORS {
        return Err(Error::argument(
            "linalg.det",
            format!(
                "the second derivative at a singular matrix is computed for at most {LARGEST_MINORS} rows, not {n}"
            ),
        ));
    }
    let without = |x: &Tensor, axis: isize, i: usize| {
        Tensor::cat(&[x.narrow(axis, 0, i)?, x.narrow(axis, i + 1, n - 1 - i)?], axis)
    };
    let mut cofactors = Vec::with_capacity(n * n);
    for i in 0..n {
        let rows = without(a, -2, i)?;
        for j in 0..n {
            let det = run(&Op::Linalg(Linalg::Det), &[&without(&rows, -1, j)?])?;
            cofactors.push(if (i + j) % 2 == 0 { det } else { det.neg()? });
        }
    }
    Tensor::stack(&cofactors, -1)?.reshape_to(a.shape().clone())?.conj()
}

/// The conjugate cofactors of a regular matrix near a singular one: of its inverse and its determinant the product is as near. Zeros on
/// the diagonal of the factor U are replaced by the dtype's precision.
fn near_cofactors(a: &Tensor) -> Result<Tensor> {
    let [factors, _, order] = crate::dispatch::run_triple(&Op::Linalg(Linalg::Lu), &[a])?;
    let (lower, upper) = unpacked(&factors)?;
    let n = a.dims()[a.ndim() - 1];
    let eye = Tensor::eye(n, n, (a.dtype(), a.device()))?;
    let missing = upper.eq(0)?.to_dtype(a.dtype())?.mul(&eye)?.mul(precision(a))?;
    let upper = upper.add(&missing)?;
    let even = run(&Op::Linalg(Linalg::Det), &[&unpermuted(&eye.broadcast_to(a.shape())?, &order)?])?;
    let det = upper.diagonal(0, -2, -1)?.prod(-1, false)?.mul(&even)?;
    let inverse = solve(&upper, &solve(&lower, &eye, false, true)?, true, false)?;
    det.conj()?.unsqueeze(-1)?.unsqueeze(-1)?.mul(&unpermuted(&adjoint(&inverse)?, &order)?)
}

/// Rows in the order that they had before pivoting.
fn unpermuted(rows: &Tensor, order: &Tensor) -> Result<Tensor> {
    let index = order.unsqueeze(-1)?.broadcast_to(rows.shape())?;
    rows.zeros_like()?.scatter(-2, &index, rows)
}

/// L and U of both in one matrix `[.., m, n]`: `[.., m, k]` and `[.., k, n]`, `k = min(m, n)`.
fn unpacked(factors: &Tensor) -> Result<(Tensor, Tensor)> {
    let (m, n) = (factors.dims()[factors.ndim() - 2], factors.dims()[factors.ndim() - 1]);
    let k = m.min(n);
    let eye = Tensor::eye(m, k, (factors.dtype(), factors.device()))?;
    Ok((factors.narrow(-1, 0, k)?.tril(-1)?.add(&eye)?, factors.narrow(-2, 0, k)?.triu(0)?))
}

fn slogdet(cx: &Context<'_>) -> Result<Tensor> {
    let (a, sign) = (cx.arg(0)?, cx.result(0)?);
    if a.numel() == 0 {
        return a.zeros_like();
    }
    let mut factor = match &cx.grads[1] {
        Some(of_log) => of_log.to_dtype(a.dtype())?,
        None => sign.zeros_like()?,
    };
    // Real signs are constant.
    if let Some(of_sign) = &cx.grads[0]
        && a.dtype().is_complex()
    {
        let turn = sign.conj()?.mul(of_sign)?.imag()?.to_dtype(a.dtype())?;
        factor = factor.add(&turn.mul(C128::new(0.0, 1.0))?)?;
    }
    factor.unsqueeze(-1)?.unsqueeze(-1)?.mul(&adjoint(&inverse(a)?)?)
}

fn lu(cx: &Context<'_>) -> Result<Tensor> {
    let (grad, factors, order) = (cx.grad()?, cx.result(0)?, cx.result(2)?);
    let (m, n) = (factors.dims()[factors.ndim() - 2], factors.dims()[factors.ndim() - 1]);
    let k = m.min(n);
    if factors.numel() == 0 {
        return grad.zeros_like();
    }
    let (lower, upper) = unpacked(factors)?;
    let (square_l, square_u) = (lower.narrow(-2, 0, k)?, upper.narrow(-1, 0, k)?);
    let of_square = grad.narrow(-2, 0, k)?.narrow(-1, 0, k)?;
    let (mut of_l, mut of_u) = (of_square.tril(-1)?, of_square.triu(0)?);
    let mut rest = None;
    let back = adjoint(&square_l)?;
    if n > k {
        // Columns beyond the square: U₂ = L⁻¹·A₂.
        let (u, of_rest) = (upper.narrow(-1, k, n - k)?, grad.narrow(-1, k, n - k)?);
        let of_a = solve(&back, &of_rest, true, true)?;
        of_l = of_l.sub(&of_a.matmul(&adjoint(&u)?)?.tril(-1)?)?;
        rest = Some((of_a, -1));
    } else if m > k {
        // Rows beyond the square: L₂ = A₂·U⁻¹.
        let (l, of_rest) = (lower.narrow(-2, k, m - k)?, grad.narrow(-2, k, m - k)?);
        let of_a = solve_right_adjoint(&square_u, &of_rest, true, false)?;
        of_u = of_u.sub(&adjoint(&l)?.matmul(&of_a)?.triu(0)?)?;
        rest = Some((of_a, -2));
    }
    let inner = back.matmul(&of_l)?.tril(-1)?.add(&of_u.matmul(&adjoint(&square_u)?)?.triu(0)?)?;
    let square = solve_right_adjoint(&square_u, &solve(&back, &inner, true, true)?, true, false)?;
    let all = match rest {
        Some((rest, dim)) => Tensor::cat(&[&square, &rest], dim)?,
        None => square,
    };
    unpermuted(&all, order)
}

fn qr(cx: &Context<'_>) -> Result<Tensor> {
    let (q, r) = (cx.result(0)?, cx.result(1)?);
    let shape = &cx.input(0).shape;
    let (m, n) = (shape.dims()[shape.ndim() - 2], shape.dims()[shape.ndim() - 1]);
    let of = |i: usize, like: &Tensor| match &cx.grads[i] {
        Some(grad) => Ok(grad.clone()),
        None => like.zeros_like(),
    };
    let (of_q, of_r) = (of(0, q)?, of(1, r)?);
    if m >= n {
        return qr_tall(q, r, &of_q, &of_r);
    }
    // A = [X | Y]: Q and the square of R are those of X, and the rest of R is Qᴴ·Y.
    let (square, wide) = (r.narrow(-1, 0, m)?, r.narrow(-1, m, n - m)?);
    let of_wide = of_r.narrow(-1, m, n - m)?;
    let of_q = of_q.add(&q.matmul(&wide)?.matmul(&adjoint(&of_wide)?)?)?;
    let of_x = qr_tall(q, &square, &of_q, &of_r.narrow(-1, 0, m)?)?;
    Tensor::cat(&[&of_x, &q.matmul(&of_wide)?], -1)
}

fn qr_tall(q: &Tensor, r: &Tensor, of_q: &Tensor, of_r: &Tensor) -> Result<Tensor> {
    let upper = of_r.matmul(&adjoint(r)?)?.sub(&adjoint(q)?.matmul(of_q)?)?.triu(0)?;
    // Hermitian, by the upper triangle; the diagonal counts once, and its imaginary part is nothing.
    let off = upper.triu(1)?;
    let diagonal = upper.sub(&off)?;
    let real = diagonal.add(&adjoint(&diagonal)?)?.mul(0.5)?;
    let hermitian = off.add(&adjoint(&off)?)?.add(&real)?;
    solve_right_adjoint(r, &of_q.add(&q.matmul(&hermitian)?)?, true, false)
}
