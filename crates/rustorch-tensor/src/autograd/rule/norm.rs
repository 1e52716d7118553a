//! Softmax and normalisations of rows, and their gradients.

use super::{Recording, Rule, if_needed};
use crate::Tensor;
use crate::autograd::context::{Context, Grads};
use crate::autograd::saved::{Saves, Which};
use crate::dispatch::{run, run_all};
use rustorch_core::{
    AddRmsNorm, DType, LayerNorm, LayerNormBackward, Op, Result, RmsNorm, RmsNormBackward, Softmax,
    SoftmaxBackward,
};
use smallvec::SmallVec;

/// A tensor in the dtype in which statistics are computed.
pub(super) fn wide(x: &Tensor) -> Result<Tensor> {
    match x.dtype() {
        DType::F16 | DType::BF16 => x.to_dtype(DType::F32),
        _ => Ok(x.clone()),
    }
}

impl Rule for Softmax {
    fn saves(&self, recording: &Recording<'_>) -> Saves {
        if_needed(recording, &[(0, &[Which::Result(0)])])
    }

    fn backward(&self, cx: &Context<'_>) -> Result<Grads> {
        cx.first(|| {
            let y = cx.result(0)?;
            let op = Op::SoftmaxBackward(SoftmaxBackward { axis: self.axis, log: self.log });
            run(&op, &[&cx.grad()?.to_dtype(y.dtype())?, y])
        })
    }
}

impl Rule for SoftmaxBackward {
    fn saves(&self, recording: &Recording<'_>) -> Saves {
        let (grad, y) = (Which::Arg(0), Which::Arg(1));
        // It is linear in the gradient.
        if_needed(recording, &[(0, &[y]), (1, &[grad, y])])
    }

    /// With `s = Σ grad · y` and the gradient `g` of the result, `y`'s is `g · (grad − s) − grad · Σ g · y`; of the logarithm
    /// `−g · eʸ · Σ grad`.
    fn backward(&self, cx: &Context<'_>) -> Result<Grads> {
        let (g, y) = (wide(cx.grad()?)?, wide(cx.arg(1)?)?);
        // A scalar is its own sum.
        let axes: &[isize] = if y.ndim() == 0 { &[] } else { &[self.axis as isize] };
        let sum = |x: Tensor| if axes.is_empty() { Ok(x) } else { x.sum(axes, true) };
        cx.each(|arg| {
            Ok(Some(match (arg, self.log) {
                (0, false) => y.mul(&g.sub(&sum(g.mul(&y)?)?)?)?,
                (0, true) => g.sub(&sum(g.mul(&y.exp()?)?)?)?,
                (_, false) => {
                    let grad = wide(cx.arg(0)?)?;
                    let along = g.mul(&grad.sub(&sum(grad.mul(&y)?)?)?)?;
                    along.sub(&grad.mul(&sum(g.mul(&y)?)?)?)?
                }
                (_, true) => g.mul(&y.exp()?)?.mul(&sum(wide(cx.arg(0)?)?)?)?.neg()?,
            }))
        })
    }
}

/// Gradients of `(x − mean) · scale` or, uncentred, `x · scale`, normalised over some axes and weighted: of x, and of the weight before
/// it is summed.
pub(super) struct Normalized {
    pub(super) x: Tensor,
    pub(super) weight: Tensor,
}

/// Of a normalisation by mean and variance over axes, or by the root mean square, for the gradient of the result and a weight that
/// broadcasts to it.
pub(super) fn standardized(
    grad: &Tensor,
    x: &Tensor,
    weight: Option<&Tensor>,
    axes: &[isize],
    eps: f64,
    centred: bool,
) -> Result<Normalized> {
    let centered = if centred { x.sub(&x.mean(axes, true)?)? } else { x.clone() };
    let scale = centered.square()?.mean(axes, true)?.add(eps)?.rsqrt()?;
    let y = centered.mul(&scale)?;
    let weighted = match weight {
        Some(weight) => grad.mul(weight)?,
        None => grad.clone(),
    };
    let along = weighted.mul(&y)?.mean(axes, true)?;
    let level = if centred { weighted.sub(&weighted.mean(axes, true)?)? } else { weighted };
    let dx = level.sub(&y.mul(&along)?)?.mul(&scale)?;
    Ok(Normalized { x: dx, weight: grad.mul(&y)? })
}

/// The arguments of a normalisation that are kept: the input, and the weight for the input's gradient.
fn normalised(recording: &Recording<'_>) -> Saves {
    let weighted = recording.args.len() > 1;
    let input: &[Which] = if weighted { &[Which::Arg(0), Which::Arg(1)] } else { &[Which::Arg(0)] };
    if_needed(recording, &[(0, input), (1, &[Which::Arg(0)])])
}

/// Runs the operation of the gradients of a normalisation; they come one after the other, those that `wanted` names.
pub(super) fn gradients(
    op: &Op,
    wanted: [bool; 3],
    grad: &Tensor,
    x: &Tensor,
    more: &[&Tensor],
) -> Result<[Option<Tensor>; 3]> {
    let grad = grad.to_dtype(x.dtype())?;
    let args: SmallVec<[&Tensor; 5]> = [&grad, x].into_iter().chain(more.iter().copied()).collect();
    let mut outs = run_all(op, &args)?.into_iter();
    Ok(wanted.map(|wanted| if wanted { outs.next() } else { None }))
}

impl Rule for LayerNorm {
    fn saves(&self, recording: &Recording<'_>) -> Saves {
        normalised(recording)
    }

    fn backward(&self, cx: &Context<'_>) -> Result<Grads> {
        let [x, weight, bias] = [0, 1, 2].map(|i| cx.needs(i));
        if !(x || weight) {
            return cx.each(|_| Ok(Some(cx.grad()?.clone())));
        }
        let op = Op::LayerNormBackward(LayerNormBackward { dims: self.dims, eps: self.eps, x, weight, bias });
        let factors: &[&Tensor] = if cx.inputs() > 1 && x { &[cx.arg(1)?] } else { &[] };
        let mut grads = gradients(&op, [x, weight, bias], cx.grad()?, cx.arg(0)?, factors)?;
        cx.each(|arg| Ok(grads[arg].take()))
    }
}

impl Rule for RmsNorm {
    fn saves(&self, recording: &Recording<'_>) -> Saves {
        normalised(recording)
    }

    fn backward(&self, cx: &Context<'_>) -> Result<Grads> {
        let [x, weight] = [0, 1].map(|i| cx.needs(i));
        let op = Op::RmsNormBackward(RmsNormBackward { eps: self.eps, x, weight });
        let factors: &[&Tensor] = if cx.inputs() > 1 && x { &[cx.arg(1)?] } else { &[] };
        let mut grads = gradients(&op, [x, weight, false], cx.grad()?, cx.arg(0)?, factors)?;
        cx.each(|arg| Ok(grads[arg].take()))
    }
}

impl Rule for AddRmsNorm {
    fn saves(&self, recording: &Recording<'_>) -> Saves {
        let sum = Which::Result(0);
        let weighted = recording.args.len() > 2;
        let input: &[Which] = if weighted { &[sum, Which::Arg(2)] } else { &[sum] };
        if_needed(recording, &[(0, input), (1, input), (2, &[sum])])
    }

    fn backward(&self, cx: &Context<'_>) -> Result<Grads> {
        let of_sum = cx.grads[0].clone();
        let Some(grad) = &cx.grads[1] else {
            return cx.each(|arg| if arg < 2 { Ok(of_sum.clone()) } else { Ok(None) });
        };
        let (x, weight) = (cx.needs(0) || cx.needs(1), cx.needs(2));
        let op = Op::RmsNormBackward(RmsNormBackward { eps: self.eps, x, weight });
        let factors: &[&Tensor] = if cx.inputs() > 2 && x { &[cx.arg(2)?] } else { &[] };
        let [dx, dweight, _] = gradients(&op, [x, weight, false], grad, cx.result(0)?, factors)?;
        let dx = match (dx, of_sum) {
            (Some(dx), Some(of_sum)) => Some(dx.add(&of_sum.to_dtype(dx.dtype())?)?),
            (dx, _) => dx,
        };
        cx.each(|arg| Ok(if arg < 2 { dx.clone() } else { dweight.clone() }))
    }
}
