//! The exponential of matrices, by scaling and squaring a Padé approximant: Higham, *The Scaling and Squaring Method for the Matrix
//! Exponential Revisited*, 2005.

use super::{matrices, solve};
use crate::{Tensor, is_capturing};
use rustorch_core::{DType, Error, Result};
use rustorch_runtime::DeviceGuard;

/// Coefficients of the approximant of degrees 7 and 13, and the largest 1-norm for which it is as precise as `F32` or `F64`.
const SINGLE: (&[f64], f64) =
    (&[17297280.0, 8648640.0, 1995840.0, 277200.0, 25200.0, 1512.0, 56.0, 1.0], 3.925_724_783_138_66);
const DOUBLE: (&[f64], f64) = (
    &[
        64764752532480000.0,
        32382376266240000.0,
        7771770303897600.0,
        1187353796428800.0,
        129060195264000.0,
        10559470521600.0,
        670442572800.0,
        33522128640.0,
        1323241920.0,
        40840800.0,
        960960.0,
        16380.0,
        182.0,
        1.0,
    ],
    5.371_920_351_148_152,
);

/// The exponentials `Σ aᵏ/k!` of matrices `[.., n, n]`. A matrix with a NaN or an infinity has one of NaN.
///
/// ```
/// # use rustorch_tensor::{Tensor, linalg};
/// let a = Tensor::new([[0.0f64, -1.0], [1.0, 0.0]])?;
/// let rotation = Tensor::new([[1f64.cos(), -1f64.sin()], [1f64.sin(), 1f64.cos()]])?;
/// assert!(linalg::matrix_exp(&a)?.allclose(&rotation, 1e-14, 1e-14, false)?);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
///
/// # Errors
/// If the matrices are not square, or of another dtype than `F32`, `F64`, `C64` and `C128`; in a captured function, as the number of
/// squarings depends on the values.
pub fn matrix_exp(a: &Tensor) -> Result<Tensor> {
    const NAME: &str = "linalg.matrix_exp";
    if !matches!(a.dtype(), DType::F32 | DType::F64 | DType::C64 | DType::C128) {
        return Err(Error::dtype(NAME, "needs f32, f64, c64 or c128; cast first", [a.dtype()]));
    }
    matrices(NAME, a)?;
    let [.., rows, n] = *a.dims() else { unreachable!("two dimensions, as just checked") };
    if rows != n {
        let message = format!("needs square matrices, but these are {rows} by {n}");
        return Err(Error::shape(NAME, message, [a.shape()]));
    }
    if a.numel() == 0 {
        return a.copy();
    }
    if is_capturing() {
        let message = "the number of squarings depends on values, which a captured function does not have";
        return Err(Error::argument(NAME, message));
    }
    let _beside = DeviceGuard::beside(a.storage());
    let (coefficients, most) = if a.dtype().to_real() == DType::F64 { DOUBLE } else { SINGLE };
    let norms = a.detach().abs()?.sum(-2, false)?.max(-1, false)?.0;
    let squarings = norms.div(most)?.log2()?.ceil()?.clamp_min(0)?;
    // Of infinities there is no scaling; the result is NaN.
    let squarings = squarings.isfinite()?.where_cond(&squarings, 0)?.unsqueeze(-1)?.unsqueeze(-1)?;
    let mut x = pade(&a.mul(&squarings.neg()?.exp2()?)?, coefficients)?;
    let count = squarings.max_all()?.item_as::<f64>()? as usize;
    let alike = squarings.numel() == 1;
    for i in 0..count {
        if alike {
            x = x.matmul(&x)?;
            continue;
        }
        // Matrices that are done are left out before they are squared, so that no gradient comes of overflow.
        let left = squarings.gt(i as i64)?;
        let some = left.where_cond(&x, 0)?;
        x = left.where_cond(&some.matmul(&some)?, &x)?;
    }
    Ok(x)
}

/// The quotient of the approximant's polynomials, `p(a) / p(−a)`: of even powers and `a` times even powers.
fn pade(a: &Tensor, coefficients: &[f64]) -> Result<Tensor> {
    let n = a.dims()[a.ndim() - 1];
    let first = coefficients[0];
    let mut powers = vec![Tensor::eye(n, n, a.dtype())?, a.matmul(a)?];
    while powers.len() < 4 {
        powers.push(powers[powers.len() - 1].matmul(&powers[1])?);
    }
    let sum = |terms: &[(usize, f64)]| {
        let mut sum: Option<Tensor> = None;
        for &(power, coefficient) in terms {
            let term = powers[power].mul(coefficient / first)?;
            sum = Some(match sum {
                Some(sum) => sum.add(&term)?,
                None => term,
            });
        }
        sum.ok_or_else(|| Error::argument("linalg.matrix_exp", "a polynomial without terms"))
    };
    // Coefficients of a⁰, a², a⁴, a⁶; beyond these of a⁶ times a², a⁴, a⁶.
    let polynomial = |odd: usize| {
        let c = |i: usize| coefficients[2 * i + odd];
        let low = sum(&[(0, c(0)), (1, c(1)), (2, c(2)), (3, c(3))])?;
        if coefficients.len() <= 8 {
            return Ok::<_, Error>(low);
        }
        powers[3].matmul(&sum(&[(1, c(4)), (2, c(5)), (3, c(6))])?)?.add(&low)
    };
    let (odd, even) = (a.matmul(&polynomial(1)?)?, polynomial(0)?);
    solve(&even.sub(&odd)?, &even.add(&odd)?)
}
