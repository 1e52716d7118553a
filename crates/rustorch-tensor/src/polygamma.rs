//! Derivatives of the digamma function of any order, composed of other operations.
//!
//! ψ⁽ⁿ⁾(x) = (−1)ⁿ⁺¹·n!·ζ(n + 1, x). Hurwitz's ζ is that of a larger argument, by Euler and Maclaurin's series, and a term for each step
//! towards it; of negative arguments it follows from the reflection formula.

use crate::autograd::{Function, FunctionContext, Gradients};
use crate::special::float;
use crate::{DType, Error, Result, Tensor};
use rustorch_runtime::DeviceGuard;
use std::f64::consts::PI;

/// The largest order whose factorial is a number.
const MOST: u32 = 170;

/// B₂ₖ / (2k)! of Bernoulli's numbers, from k = 1 on.
const SERIES: [f64; 10] = [
    1.0 / 12.0,
    -1.0 / 720.0,
    1.0 / 30240.0,
    -1.0 / 1209600.0,
    1.0 / 47900160.0,
    -691.0 / 1307674368000.0,
    1.0 / 74724249600.0,
    -3617.0 / 10670622842880000.0,
    43867.0 / 5109094217170944000.0,
    -174611.0 / 802857662698291200000.0,
];

impl Tensor {
    /// The `n`-th derivative of [`digamma`](Self::digamma), which is that of order 0; [`trigamma`](Self::trigamma) is that of order 1.
    /// Infinite at 0 and at negative integers. From order 2 on it is computed in `f64`, and needs memory for n + 12 numbers for each
    /// element.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let x = Tensor::new([1.0f32, 2.5])?;
    /// assert_eq!(x.polygamma(2)?.to_vec::<f32>()?, [-2.4041138, -0.23620406]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the order is larger than 170, whose factorial is the last in the range of `f64`, or the numbers are complex.
    pub fn polygamma(&self, n: u32) -> Result<Tensor> {
        let x = float("polygamma", self)?;
        match n {
            0 => x.digamma(),
            1 => x.trigamma(),
            2..=MOST => {
                let mut results = Polygamma { order: n }.apply(&[&x])?;
                results.pop().ok_or_else(|| Error::argument("polygamma", "has no result"))
            }
            _ => Err(Error::argument("polygamma", format!("takes orders up to {MOST}, not {n}"))),
        }
    }
}

/// ψ of an order from 2 on, whose derivative is that of the next order.
struct Polygamma {
    order: u32,
}

impl Function for Polygamma {
    const NAME: &'static str = "polygamma";

    fn forward(&self, cx: &mut FunctionContext, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        let x = inputs[0];
        cx.save(&[x]);
        let _beside = DeviceGuard::beside(x.storage());
        Ok(vec![value(self.order, &x.to_dtype(DType::F64)?)?.to_dtype(x.dtype())?])
    }

    fn backward(&self, grads: &Gradients<'_>) -> Result<Vec<Option<Tensor>>> {
        let Some(grad) = grads.output(0)? else { return Ok(vec![None]) };
        Ok(vec![Some(grad.mul(&grads.saved(0)?.polygamma(self.order + 1)?)?)])
    }
}

fn value(n: u32, x: &Tensor) -> Result<Tensor> {
    let is_negative = x.lt(0)?;
    let sign = |odd: bool| if odd { -1.0 } else { 1.0 };
    let of_positive = zeta(n + 1, &is_negative.where_cond(&x.rsub(1)?, x)?)?;
    // Of negative numbers: ±ζ(n + 1, 1 − x) and a multiple of the n-th derivative of the cotangent of πx.
    let of_negative =
        derivative_of_cotangent(n, &cotangent(x)?)?.add(&of_positive.mul(sign(!n.is_multiple_of(2)))?)?;
    let factorial: f64 = (1..=n).map(f64::from).product();
    is_negative.where_cond(&of_negative, &of_positive)?.mul(sign(n.is_multiple_of(2)) * factorial)
}

/// The cotangent of πx. Beside its roots it is the tangent of a small angle.
fn cotangent(x: &Tensor) -> Result<Tensor> {
    let turn = x.sub(&x.round()?)?;
    let size = turn.abs()?;
    let beside_root = size.rsub(0.5)?.mul(PI)?.tan()?.copysign(&turn)?;
    size.gt(0.25)?.where_cond(&beside_root, &turn.mul(PI)?.tan()?.reciprocal()?)
}

/// ζ(s, x), the sum of (x + k)⁻ˢ from k = 0 on, of x from 0 on.
fn zeta(s: u32, x: &Tensor) -> Result<Tensor> {
    // So many terms one by one that the series' error is below a rounding.
    let count = s + 11;
    // Small terms first.
    let steps = Tensor::arange_with(f64::from(count) - 1.0, -1.0, -1.0, DType::F64)?;
    let power = -f64::from(s);
    let terms = x.unsqueeze(-1)?.add(&steps)?.pow(power)?.sum(-1, false)?;
    let z = x.add(f64::from(count))?;
    let inverse_square = z.square()?.reciprocal()?;
    // z¹⁻ˢ·(1/(s − 1) + 1/2z + the sum of B₂ₖ/(2k)!·s(s + 1)..(s + 2k − 2)·z⁻²ᵏ)
    let s = f64::from(s);
    let mut rising = s;
    let coefficients = SERIES.iter().zip(1..).map(|(c, k)| {
        let coefficient = c * rising;
        let next = s + 2.0 * f64::from(k);
        rising *= (next - 1.0) * next;
        coefficient
    });
    let coefficients: Vec<f64> = coefficients.collect();
    let mut series = inverse_square.zeros_like()?;
    for coefficient in coefficients.into_iter().rev() {
        series = series.add(coefficient)?.mul(&inverse_square)?;
    }
    let tail = series.add(&z.reciprocal()?.mul(0.5)?)?.add(1.0 / (s - 1.0))?.mul(&z.pow(power + 1.0)?)?;
    terms.add(&tail)
}

/// (−1)ⁿ·π/n! times the n-th derivative of cot πx, as a function of the cotangent c: πⁿ⁺¹ times a polynomial whose coefficients are
/// positive.
fn derivative_of_cotangent(n: u32, c: &Tensor) -> Result<Tensor> {
    // The polynomials follow from each other: by Q(c) → Q′(c)·(1 + c²)/k.
    let mut polynomial = vec![0.0, 1.0];
    for k in 1..=n {
        let mut next = vec![0.0; polynomial.len() + 1];
        for (power, coefficient) in polynomial.iter().enumerate().skip(1) {
            let slope = coefficient * power as f64 / f64::from(k);
            next[power - 1] += slope;
            next[power + 1] += slope;
        }
        polynomial = next;
    }
    // Every second coefficient is zero.
    let is_odd = polynomial.len().is_multiple_of(2);
    let square = c.square()?;
    let mut coefficients = polynomial.into_iter().skip(usize::from(is_odd)).step_by(2).rev();
    let mut sum = c.full_like(coefficients.next().unwrap_or(0.0))?;
    for coefficient in coefficients {
        sum = sum.mul(&square)?.add(coefficient)?;
    }
    let sum = if is_odd { sum.mul(c)? } else { sum };
    sum.mul(PI.powi(n as i32 + 1))
}
