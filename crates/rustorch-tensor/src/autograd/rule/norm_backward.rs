//! The gradients of the gradients of layer and RMS normalisation.

use super::norm::wide;
use super::{Recording, Rule, if_needed};
use crate::Tensor;
use crate::autograd::context::{Context, Grads};
use crate::autograd::saved::{Saves, Which};
use rustorch_core::{LayerNormBackward, Result, RmsNormBackward};

/// Rows normalised over some axes.
struct Normalised {
    /// The rows: `(x − mean) · scale`, or `x · scale`.
    hat: Tensor,
    /// One over the standard deviation, or over the root mean square.
    scale: Tensor,
    axes: Vec<isize>,
    /// Whether the mean is subtracted.
    centred: bool,
}

impl Normalised {
    fn new(x: &Tensor, axes: Vec<isize>, eps: f64, centred: bool) -> Result<Normalised> {
        let centre = if centred { x.sub(&x.mean(&axes[..], true)?)? } else { x.clone() };
        let scale = centre.square()?.mean(&axes[..], true)?.add(eps)?.rsqrt()?;
        Ok(Normalised { hat: centre.mul(&scale)?, scale, axes, centred })
    }

    /// The mean of each row of a product.
    fn along(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        a.mul(b)?.mean(&self.axes[..], true)
    }

    /// `v` less what normalisation takes away: its mean, and its part along the normalised row. Symmetric as a linear function;
    /// `scale` times it is the derivative of `hat`.
    fn project(&self, v: &Tensor) -> Result<Tensor> {
        let rest = v.sub(&self.hat.mul(&self.along(v, &self.hat)?)?)?;
        if self.centred { rest.sub(&v.mean(&self.axes[..], true)?) } else { Ok(rest) }
    }
}

/// The sum of what there is.
fn total(terms: impl IntoIterator<Item = Option<Tensor>>) -> Result<Option<Tensor>> {
    let mut terms = terms.into_iter().flatten();
    let Some(first) = terms.next() else { return Ok(None) };
    terms.try_fold(first, |sum, term| sum.add(&term)).map(Some)
}

/// With `P` for [`Normalised::project`], `r` for the scale, `m` for the mean of a row and `a = grad · weight`, the results are
/// `dx = r · P(a)`, `dweight = Σ grad · hat` and `dbias = Σ grad`. For their gradients `g`, `u` and `v`, those of the arguments are:
///
/// - of `grad`: `weight · r · P(g) + hat · u + v`,
/// - of `weight`: `Σ grad · r · P(g)`,
/// - of `x`: `r · P(grad · u) − r² · (hat · m(g · P(a)) + P(g · m(a · hat) + a · m(g · hat)))`, since the derivative of `hat` is
///   `r · P` and that of `r` is `−r² · m(hat · dx)`.
fn backward(cx: &Context<'_>, axes: Vec<isize>, eps: f64, centred: bool, wanted: [bool; 3]) -> Result<Grads> {
    let mut given = cx.grads.iter();
    let mut next = |wanted| match (wanted, if wanted { given.next() } else { None }) {
        (true, Some(Some(grad))) => wide(grad).map(Some),
        _ => Ok(None),
    };
    let (g, u, v) = (next(wanted[0])?, next(wanted[1])?, next(wanted[2])?);
    let (grad, x) = (wide(cx.arg(0)?)?, wide(cx.arg(1)?)?);
    let weight = if cx.inputs() > 2 { Some(wide(cx.arg(2)?)?) } else { None };
    let norm = Normalised::new(&x, axes, eps, centred)?;
    let times_weight = |x: Tensor| match &weight {
        Some(weight) => x.mul(weight),
        None => Ok(x),
    };
    let projected = match &g {
        Some(g) => Some(norm.project(g)?.mul(&norm.scale)?),
        None => None,
    };
    cx.each(|arg| match arg {
        0 => {
            let of_x = projected.clone().map(times_weight).transpose()?;
            let of_weight = u.as_ref().map(|u| norm.hat.mul(u)).transpose()?;
            let sum = total([of_x, of_weight, v.clone()])?;
            // The gradient of the bias alone is repeated for each row.
            sum.map(|sum| sum.expand(x.shape())).transpose()
        }
        1 => {
            let of_x = match &g {
                Some(g) => {
                    let a = times_weight(grad.clone())?;
                    let of_hat =
                        g.mul(&norm.along(&a, &norm.hat)?)?.add(&a.mul(&norm.along(g, &norm.hat)?)?)?;
                    let of_scale = norm.hat.mul(&norm.along(g, &norm.project(&a)?)?)?;
                    Some(norm.project(&of_hat)?.add(&of_scale)?.mul(&norm.scale.square()?)?.neg()?)
                }
                None => None,
            };
            let of_weight = match &u {
                Some(u) => Some(norm.project(&grad.mul(u)?)?.mul(&norm.scale)?),
                None => None,
            };
            total([of_x, of_weight])
        }
        _ => projected.as_ref().map(|projected| grad.mul(projected)).transpose(),
    })
}

/// All arguments.
fn arguments(recording: &Recording<'_>) -> Saves {
    let all: Vec<Which> = (0..recording.args.len()).map(Which::Arg).collect();
    if_needed(recording, &[(0, &all), (1, &all), (2, &all)])
}

impl Rule for LayerNormBackward {
    fn saves(&self, recording: &Recording<'_>) -> Saves {
        arguments(recording)
    }

    fn backward(&self, cx: &Context<'_>) -> Result<Grads> {
        let axes = (1..=self.dims as isize).map(|i| -i).collect();
        backward(cx, axes, self.eps, true, [self.x, self.weight, self.bias])
    }
}

impl Rule for RmsNormBackward {
    fn saves(&self, recording: &Recording<'_>) -> Saves {
        arguments(recording)
    }

    fn backward(&self, cx: &Context<'_>) -> Result<Grads> {
        backward(cx, vec![-1], self.eps, false, [self.x, self.weight, false])
    }
}
