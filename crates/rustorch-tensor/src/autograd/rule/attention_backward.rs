//! The gradients of the gradients of attention, from the matrices of scores and of weights.

use super::attention::Scores;
use super::norm::wide;
use super::{Recording, Rule, Saves};
use crate::Tensor;
use crate::autograd::context::{Context, Grads};
use crate::autograd::saved::Which;
use rustorch_core::{AttentionBackward, Result};

/// The sum of what there is.
fn total(terms: impl IntoIterator<Item = Option<Tensor>>) -> Result<Option<Tensor>> {
    let mut terms = terms.into_iter().flatten();
    let Some(first) = terms.next() else { return Ok(None) };
    terms.try_fold(first, |sum, term| sum.add(&term)).map(Some)
}

/// The product of what there is.
fn times(x: &Option<Tensor>, y: &Tensor) -> Result<Option<Tensor>> {
    x.as_ref().map(|x| x.mul(y)).transpose()
}

/// The matmul of what there is.
fn matmul(x: &Option<Tensor>, y: Option<&Tensor>) -> Result<Option<Tensor>> {
    x.as_ref().zip(y).map(|(x, y)| x.matmul(y)).transpose()
}

fn transposed(x: &Option<Tensor>) -> Result<Option<Tensor>> {
    x.as_ref().map(|x| x.transpose(-2, -1)).transpose()
}

impl Rule for AttentionBackward {
    fn saves(&self, recording: &Recording<'_>) -> Saves {
        (0..recording.args.len()).map(Which::Arg).collect()
    }

    /// With `z` for the scores behind all masks, `c` for the derivative of scores by the products `q · kᵀ`, `p = exp(z − lse)`,
    /// `u = grad · vᵀ − Σ grad · out`, `s = p · u` and `r = s · c` the results are `dq = r · k`, `dk = rᵀ · q` and `dv = pᵀ · grad`, where
    /// dropout multiplies `grad · vᵀ`, and `p` in `dv`, with its mask. For their gradients `gq`, `gk` and `gv`:
    ///
    /// - of `r`: `gq · kᵀ + q · gkᵀ`; of `s`: that times `c`; of `u`: that of `s` times `p`; of `p`: that of `s` times `u`, and
    ///   `grad · gvᵀ`; of `z`: that of `p` times `p`,
    /// - of `q · kᵀ`: that of `z` times `c`, and with a soft cap that of `r` times `s` times the derivative of `c`.
    fn backward(&self, cx: &Context<'_>) -> Result<Grads> {
        let mask = if cx.inputs() > 6 { Some(cx.arg(6)?) } else { None };
        let z = Scores::new(&self.attention, [cx.arg(1)?, cx.arg(2)?, cx.arg(3)?], mask)?;
        let (grad, out) = (z.group(&wide(cx.arg(0)?)?)?, z.group(&wide(cx.arg(4)?)?)?);
        let mut given = cx.grads.iter();
        let mut next = |wanted: bool| match if wanted { given.next() } else { None } {
            Some(Some(grad)) => wide(grad).map(Some),
            _ => Ok(None),
        };
        let gq = next(self.q)?.map(|gq| z.group(&gq)).transpose()?;
        let gk = next(self.k)?.map(|gk| gk.unsqueeze(-3)).transpose()?;
        let gv = next(self.v)?.map(|gv| gv.unsqueeze(-3)).transpose()?;

        let p = z.weights(cx.arg(5)?)?;
        let of_weights = z.drop_out(&grad.matmul(&z.v.transpose(-2, -1)?)?)?;
        let u = of_weights.sub(&grad.mul(&out)?.sum(-1, true)?)?;
        let s = p.mul(&u)?;
        let r = z.times_slope(&s)?;
        let of_keys = transposed(&gk)?.map(|gk| z.q.matmul(&gk)).transpose()?;
        let of_r = total([matmul(&gq, Some(&z.k.transpose(-2, -1)?))?, of_keys])?;
        let of_s = of_r.as_ref().map(|of_r| z.times_slope(of_r)).transpose()?;
        let of_u = times(&of_s, &p)?;
        let of_values = transposed(&gv)?.map(|gv| z.drop_out(&grad.matmul(&gv)?)).transpose()?;
        let of_products = of_u.as_ref().map(|of_u| z.drop_out(of_u)).transpose()?;
        let of_z = times(&total([times(&of_s, &u)?, of_values])?, &p)?;
        let through_scores = of_z.as_ref().map(|of_z| z.times_slope(of_z)).transpose()?;
        let through_slope = match (&z.tanh, self.attention.softcap, &of_r) {
            (Some(tanh), Some(cap), Some(of_r)) => {
                let slope =
                    z.times_slope(&tanh.mul(-2.0 * f64::from(self.attention.scale) / f64::from(cap))?)?;
                Some(of_r.mul(&s)?.mul(&slope)?)
            }
            _ => None,
        };
        let of_raw = total([through_scores, through_slope])?;
        let along = of_u.as_ref().map(|of_u| of_u.sum(-1, true)?.neg()).transpose()?;
        cx.each(|arg| {
            let shape = cx.input(arg).shape.clone();
            let flat = |x: Option<Tensor>| x.map(|x| x.reshape_to(shape)).transpose();
            match arg {
                0 => flat(total([
                    gv.as_ref().map(|gv| z.drop_out(&p)?.matmul(gv)).transpose()?,
                    matmul(&of_products, Some(&z.v))?,
                    times(&along, &out)?,
                ])?),
                1 => flat(total([
                    gk.as_ref().map(|gk| r.matmul(gk)).transpose()?,
                    matmul(&of_raw, Some(&z.k))?,
                ])?),
                2 => {
                    let through_products = matmul(&transposed(&of_raw)?, Some(&z.q))?;
                    let sum = total([matmul(&Some(r.transpose(-2, -1)?), gq.as_ref())?, through_products])?;
                    sum.map(|sum| sum.sum(-3, false)).transpose()
                }
                3 => {
                    matmul(&transposed(&of_products)?, Some(&grad))?.map(|sum| sum.sum(-3, false)).transpose()
                }
                4 => flat(times(&along, &grad)?),
                5 => flat(of_z.as_ref().map(|of_z| of_z.sum(-1, false)?.neg()).transpose()?),
                // The mask was broadcast over heads: the pass sums.
                _ => of_z.as_ref().map(|of_z| z.ungroup(of_z)).transpose(),
            }
        })
    }
}
