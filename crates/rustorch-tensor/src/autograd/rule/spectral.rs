//! Singular values and eigenvalues: PyTorch's formulas (`svd_backward` and `linalg_eig_backward` of `torch/csrc/autograd/FunctionsManual.cpp`).
//!
//! They divide by differences of the values, so that repeated ones give infinities and NaN where the gradient of a vector is asked for.

use super::linalg::adjoint;
use crate::autograd::context::Context;
use crate::dispatch::{run, run_pair, run_triple};
use crate::{Tensor, is_capturing};
use rustorch_core::{Error, Linalg, Op, Result};
use rustorch_runtime::DeviceGuard;

/// How much of a gradient that depends on phases is rounding: PyTorch's tolerance.
const PHASE: f64 = 1e-2;

pub(super) fn svd(cx: &Context<'_>, vectors: bool) -> Result<Tensor> {
    let shape = &cx.input(0).shape;
    let (m, n) = (shape.dims()[shape.ndim() - 2], shape.dims()[shape.ndim() - 1]);
    let k = m.min(n);
    if shape.numel() == 0 {
        return nothing(cx);
    }
    let ([u, s, vh], [of_u, of_s, of_vh]) = if vectors {
        // Vectors beyond the singular values are arbitrary, and their gradients do not count.
        let thin = |grad: &Option<Tensor>, dim| grad.as_ref().map(|grad| grad.narrow(dim, 0, k)).transpose();
        let results =
            [cx.result(0)?.narrow(-1, 0, k)?, cx.result(1)?.clone(), cx.result(2)?.narrow(-2, 0, k)?];
        (results, [thin(&cx.grads[0], -1)?, cx.grads[1].clone(), thin(&cx.grads[2], -2)?])
    } else {
        let op = Op::Linalg(Linalg::Svd { full: false, vectors: true });
        (run_triple(&op, &[cx.arg(0)?])?, [None, cx.grads[0].clone(), None])
    };
    if of_u.is_none() && of_vh.is_none() {
        let of_s = of_s.map_or_else(|| s.zeros_like(), Ok)?;
        return u.mul(&of_s.unsqueeze(-2)?)?.matmul(&vh);
    }
    let skew = |x: Tensor| x.sub(&adjoint(&x)?);
    let left = of_u.as_ref().map(|grad| skew(adjoint(&u)?.matmul(grad)?)).transpose()?;
    let right = of_vh.as_ref().map(|grad| skew(vh.matmul(&adjoint(grad)?)?)).transpose()?;
    if u.dtype().is_complex() {
        // What one side's phases add, the other's take away.
        let imaginary = |x: &Option<Tensor>| x.as_ref().map(|x| x.diagonal(0, -2, -1)?.imag()).transpose();
        free_of_phases("linalg.svd", "singular vectors", imaginary(&left)?, imaginary(&right)?)?;
    }
    let (rows, columns) = (s.unsqueeze(-1)?, s.unsqueeze(-2)?);
    let mut inner = match (&left, &right) {
        (Some(left), Some(right)) => left.mul(&columns)?.add(&rows.mul(right)?)?,
        (Some(left), None) => left.mul(&columns)?,
        (None, Some(right)) => rows.mul(right)?,
        (None, None) => unreachable!("one of the gradients, as checked above"),
    };
    inner = inner.div(&differences(&s.square()?)?)?;
    if let (Some(left), Some(_)) = (&left, &right)
        && u.dtype().is_complex()
    {
        let halves = left.diagonal(0, -2, -1)?.div(&s.mul(2)?)?;
        inner = inner.add(&in_diagonal(&halves)?)?;
    }
    if let Some(of_s) = of_s {
        inner = inner.add(&in_diagonal(&of_s)?)?;
    }
    let mut of_a = u.matmul(&inner)?;
    if let Some(of_u) = of_u.filter(|_| m > k) {
        let scaled = of_u.div(&columns)?;
        of_a = of_a.add(&scaled.sub(&u.matmul(&adjoint(&u)?.matmul(&scaled)?)?)?)?;
    }
    of_a = of_a.matmul(&vh)?;
    if let Some(of_vh) = of_vh.filter(|_| n > k) {
        let scaled = of_vh.div(&rows)?;
        let outside = scaled.sub(&scaled.matmul(&adjoint(&vh)?)?.matmul(&vh)?)?;
        of_a = of_a.add(&u.matmul(&outside)?)?;
    }
    Ok(of_a)
}

pub(super) fn eigh(cx: &Context<'_>, upper: bool, vectors: bool) -> Result<Tensor> {
    let Some((l, v, of_v)) = eigenvectors(cx, Linalg::Eigh { upper, vectors: true }, vectors)? else {
        return nothing(cx);
    };
    let of_l = &cx.grads[0];
    let Some(of_v) = of_v else {
        let of_l = of_l.clone().map_or_else(|| l.zeros_like(), Ok)?;
        return v.mul(&of_l.unsqueeze(-2)?)?.matmul(&adjoint(&v)?);
    };
    let inner = adjoint(&v)?.matmul(&of_v)?;
    if v.dtype().is_complex() {
        let imaginary = inner.diagonal(0, -2, -1)?.imag()?;
        free_of_phases("linalg.eigh", "eigenvectors", Some(imaginary), None)?;
    }
    let skew = inner.sub(&adjoint(&inner)?)?.mul(0.5)?;
    let mut inner = skew.div(&differences(&l)?)?;
    if let Some(of_l) = of_l {
        inner = inner.add(&in_diagonal(of_l)?)?;
    }
    v.matmul(&inner)?.matmul(&adjoint(&v)?)
}

pub(super) fn eig(cx: &Context<'_>, vectors: bool) -> Result<Tensor> {
    let Some((l, v, of_v)) = eigenvectors(cx, Linalg::Eig { vectors: true }, vectors)? else {
        return nothing(cx);
    };
    let back = adjoint(&v)?;
    let of_l = &cx.grads[0];
    let inner = match of_v {
        None => {
            let of_l = of_l.clone().map_or_else(|| l.zeros_like(), Ok)?;
            return run(&Op::Linalg(Linalg::Solve), &[&back, &of_l.unsqueeze(-1)?.mul(&back)?]);
        }
        Some(of_v) => {
            let inner = back.matmul(&of_v)?;
            let diagonal = inner.diagonal(0, -2, -1)?;
            free_of_phases("linalg.eig", "eigenvectors", Some(diagonal.imag()?), None)?;
            // Of norm 1 they stay.
            let scaled = v.mul(&diagonal.real()?.unsqueeze(-2)?)?;
            inner.sub(&back.matmul(&scaled)?)?.div(&differences(&l.conj()?)?)?
        }
    };
    let inner = match of_l {
        Some(of_l) => inner.add(&in_diagonal(of_l)?)?,
        None => inner,
    };
    run(&Op::Linalg(Linalg::Solve), &[&back, &inner.matmul(&back)?])
}

/// Eigenvalues, eigenvectors and the latter's gradient: as they were saved, or by the operation that computes them. None of empty matrices.
fn eigenvectors(
    cx: &Context<'_>,
    with_vectors: Linalg,
    saved: bool,
) -> Result<Option<(Tensor, Tensor, Option<Tensor>)>> {
    if cx.input(0).shape.numel() == 0 {
        return Ok(None);
    }
    if saved {
        return Ok(Some((cx.result(0)?.clone(), cx.result(1)?.clone(), cx.grads[1].clone())));
    }
    let (l, v) = run_pair(&Op::Linalg(with_vectors), &[cx.arg(0)?])?;
    Ok(Some((l, v, None)))
}

/// The gradient of an empty matrix.
fn nothing(cx: &Context<'_>) -> Result<Tensor> {
    let input = cx.input(0);
    Tensor::zeros(input.shape.clone(), (input.dtype, input.device))
}

/// `xⱼ − xᵢ` in row i and column j, with ones in the diagonal.
fn differences(x: &Tensor) -> Result<Tensor> {
    x.unsqueeze(-2)?.sub(&x.unsqueeze(-1)?)?.add(&identity(x)?)
}

/// Matrices with these diagonals.
fn in_diagonal(x: &Tensor) -> Result<Tensor> {
    x.unsqueeze(-1)?.mul(&identity(x)?)
}

fn identity(diagonal: &Tensor) -> Result<Tensor> {
    let n = diagonal.dims()[diagonal.ndim() - 1];
    let _beside = DeviceGuard::beside(diagonal.storage());
    Tensor::eye(n, n, diagonal.dtype())
}

/// Refuses the gradient of what depends on the vectors' phases, which are arbitrary. A captured function has no values to tell it by.
fn free_of_phases(op: &'static str, vectors: &str, one: Option<Tensor>, other: Option<Tensor>) -> Result<()> {
    let Some(some) = one.as_ref().or(other.as_ref()).filter(|_| !is_capturing()) else { return Ok(()) };
    let or_zero = |x: &Option<Tensor>| x.as_ref().map_or_else(|| some.zeros_like(), |x| Ok(x.detach()));
    if or_zero(&one)?.allclose(&or_zero(&other)?.neg()?, PHASE, PHASE, false)? {
        return Ok(());
    }
    let message = format!(
        "the loss depends on the phases of {vectors}, which are arbitrary (each may be multiplied by any e^(iφ)), so it has no gradient"
    );
    Err(Error::argument(op, message))
}
