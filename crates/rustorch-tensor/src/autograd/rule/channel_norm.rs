//! Batch and group normalisation, and their gradients.

use super::norm::{gradients, standardized, wide};
use super::{Recording, Rule, all_if_needed, if_needed, unfused};
use crate::Tensor;
use crate::autograd::context::{Context, Grads};
use crate::autograd::saved::{Saves, Which};
use rustorch_core::{BatchNorm, BatchNormBackward, GroupNorm, GroupNormBackward, Op, Result};
use smallvec::SmallVec;

/// A value for each channel, as it broadcasts to `[n, c, ..]`.
fn by_channel(x: &Tensor, ndim: usize) -> Result<Tensor> {
    let mut dims = vec![1; ndim];
    dims[1] = x.numel();
    wide(x)?.reshape(dims)
}

/// All axes but that of channels.
fn others(ndim: usize) -> Vec<isize> {
    (0..ndim as isize).filter(|&axis| axis != 1).collect()
}

/// The sum for each channel.
fn channel_sum(x: &Tensor) -> Result<Tensor> {
    x.sum(others(x.ndim()), false)
}

impl Rule for BatchNorm {
    fn saves(&self, recording: &Recording<'_>) -> Saves {
        let x = Which::Arg(0);
        if self.training {
            let (mean, variance) = (Which::Result(1), Which::Result(2));
            let spread = [x, mean, variance, Which::Arg(1)];
            let weighted = recording.args.len() > 1;
            let input = if weighted { &spread[..] } else { &spread[..3] };
            return if_needed(recording, &[(0, input), (1, &spread[..3])]);
        }
        let (mean, variance, weight) = (Which::Arg(1), Which::Arg(2), Which::Arg(3));
        let spread = [x, mean, variance, weight];
        let input = if recording.args.len() > 3 { &spread[..] } else { &spread[..3] };
        if_needed(recording, &[(0, input), (1, input), (2, input), (3, &spread[..3])])
    }

    fn backward(&self, cx: &Context<'_>) -> Result<Grads> {
        // Of the input, the weight and the bias.
        let first = if self.training { 1 } else { 3 };
        let [x, weight, bias] = [0, first, first + 1].map(|arg| cx.needs(arg));
        let mut grads: [Option<Tensor>; 3] = Default::default();
        match &cx.grads[0] {
            Some(grad) if x || weight => {
                let statistics = match self.training {
                    true => [cx.result(1)?, cx.result(2)?],
                    false => [cx.arg(1)?, cx.arg(2)?],
                };
                let factors = match x && cx.inputs() > first {
                    true => Some(cx.arg(first)?.to_dtype(statistics[0].dtype())?),
                    false => None,
                };
                let (training, eps) = (self.training, self.eps);
                let op = Op::BatchNormBackward(BatchNormBackward { training, eps, x, weight, bias });
                let more: SmallVec<[&Tensor; 3]> = statistics.into_iter().chain(factors.as_ref()).collect();
                grads = gradients(&op, [x, weight, bias], grad, cx.arg(0)?, &more)?;
            }
            Some(grad) if bias => grads[2] = Some(channel_sum(&wide(grad)?)?),
            _ => {}
        }
        if self.training {
            grads[0] = with_statistics(cx, grads[0].take())?;
        }
        cx.each(|arg| match arg {
            0 => Ok(grads[0].take()),
            1 | 2 if !self.training => of_given(self, cx, arg).map(Some),
            _ => Ok(grads[arg - first + 1].take()),
        })
    }
}

/// The gradient of the input with what comes through mean and variance, which are results, and may have gradients of their own.
fn with_statistics(cx: &Context<'_>, mut dx: Option<Tensor>) -> Result<Option<Tensor>> {
    if !cx.needs(0) || (cx.grads[1].is_none() && cx.grads[2].is_none()) {
        return Ok(dx);
    }
    let x = wide(cx.arg(0)?)?;
    let ndim = x.ndim();
    let n = (x.numel() / x.dims()[1].max(1)) as f64;
    let mut add = |more: Tensor| -> Result<()> {
        dx = Some(match &dx {
            Some(dx) => wide(dx)?.add(&more)?,
            None => more.broadcast_to(x.shape())?,
        });
        Ok(())
    };
    if let Some(of_mean) = &cx.grads[1] {
        add(by_channel(of_mean, ndim)?.div(n)?)?;
    }
    if let Some(of_variance) = &cx.grads[2] {
        let centered = x.sub(&x.mean(others(ndim), true)?)?;
        add(centered.mul(&by_channel(of_variance, ndim)?)?.mul(2.0 / n)?)?;
    }
    Ok(dx)
}

/// The gradient of a mean or variance that was given.
fn of_given(norm: &BatchNorm, cx: &Context<'_>, arg: usize) -> Result<Tensor> {
    let ndim = cx.input(0).shape.ndim();
    let grad = wide(cx.grad()?)?;
    let weighted = match cx.inputs() > 3 {
        true => grad.mul(&by_channel(cx.arg(3)?, ndim)?)?,
        false => grad,
    };
    let scale = by_channel(cx.arg(2)?, ndim)?.add(norm.eps)?.rsqrt()?;
    if arg == 1 {
        return channel_sum(&weighted.mul(&scale)?.neg()?);
    }
    let centered = wide(cx.arg(0)?)?.sub(&by_channel(cx.arg(1)?, ndim)?)?;
    let cube = scale.mul(&scale)?.mul(&scale)?.mul(-0.5)?;
    channel_sum(&weighted.mul(&centered)?.mul(&cube)?)
}

impl Rule for BatchNormBackward {
    fn saves(&self, recording: &Recording<'_>) -> Saves {
        all_if_needed(recording)
    }

    fn backward(&self, cx: &Context<'_>) -> Result<Grads> {
        unfused(cx, |args| {
            let (grad, x) = (wide(&args[0])?, wide(&args[1])?);
            let ndim = x.ndim();
            let scale = by_channel(&args[3], ndim)?.add(self.eps)?.rsqrt()?;
            let hat = x.sub(&by_channel(&args[2], ndim)?)?.mul(&scale)?;
            let mut results = Vec::new();
            if self.x {
                let weighted = match args.get(4) {
                    Some(weight) => grad.mul(&by_channel(weight, ndim)?)?,
                    None => grad.clone(),
                };
                let mean = |x: &Tensor| x.mean(others(ndim), true);
                let projected = match self.training {
                    true => weighted.sub(&mean(&weighted)?)?.sub(&hat.mul(&mean(&weighted.mul(&hat)?)?)?)?,
                    false => weighted,
                };
                results.push(projected.mul(&scale)?.to_dtype(args[1].dtype())?);
            }
            if self.weight {
                results.push(channel_sum(&grad.mul(&hat)?)?);
            }
            if self.bias {
                results.push(channel_sum(&grad)?);
            }
            Ok(results)
        })
    }
}

impl Rule for GroupNorm {
    fn saves(&self, recording: &Recording<'_>) -> Saves {
        let weighted = recording.args.len() > 1;
        let input: &[Which] = if weighted { &[Which::Arg(0), Which::Arg(1)] } else { &[Which::Arg(0)] };
        if_needed(recording, &[(0, input), (1, &[Which::Arg(0)])])
    }

    fn backward(&self, cx: &Context<'_>) -> Result<Grads> {
        let [x, weight, bias] = [0, 1, 2].map(|arg| cx.needs(arg));
        if !(x || weight) {
            return cx.each(|_| channel_sum(&wide(cx.grad()?)?).map(Some));
        }
        let (groups, eps) = (self.groups, self.eps);
        let op = Op::GroupNormBackward(GroupNormBackward { groups, eps, x, weight, bias });
        let factors = if x && cx.inputs() > 1 { Some(cx.arg(1)?) } else { None };
        let more: SmallVec<[&Tensor; 3]> = factors.into_iter().collect();
        let mut grads = gradients(&op, [x, weight, bias], cx.grad()?, cx.arg(0)?, &more)?;
        cx.each(|arg| Ok(grads[arg].take()))
    }
}

impl Rule for GroupNormBackward {
    fn saves(&self, recording: &Recording<'_>) -> Saves {
        all_if_needed(recording)
    }

    fn backward(&self, cx: &Context<'_>) -> Result<Grads> {
        unfused(cx, |args| {
            let (grad, x) = (wide(&args[0])?, wide(&args[1])?);
            let (shape, dims) = (x.shape(), x.dims());
            // A row for each group; of no elements there is none.
            let len = x.numel() / (dims[0] * self.groups).max(1);
            let rows = |x: &Tensor| x.reshape([dims[0], self.groups, len]);
            let weighted = match args.get(2) {
                Some(weight) => grad.mul(&by_channel(weight, x.ndim())?)?,
                None => grad.clone(),
            };
            let mut results = Vec::new();
            if self.x {
                let dx = standardized(&rows(&weighted)?, &rows(&x)?, None, &[-1], self.eps, true)?.x;
                results.push(dx.reshape_to(shape.clone())?.to_dtype(args[1].dtype())?);
            }
            if self.weight {
                let products = standardized(&rows(&grad)?, &rows(&x)?, None, &[-1], self.eps, true)?.weight;
                results.push(channel_sum(&products.reshape_to(shape.clone())?)?);
            }
            if self.bias {
                results.push(channel_sum(&grad)?);
            }
            Ok(results)
        })
    }
}
