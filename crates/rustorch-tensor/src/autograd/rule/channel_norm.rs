//! Batch and group normalisation.

use super::norm::{standardized, wide};
use super::{Recording, Rule, if_needed};
use crate::Tensor;
use crate::autograd::context::{Context, Grads};
use crate::autograd::saved::{Saves, Which};
use rustorch_core::{BatchNorm, GroupNorm, Result};

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
            let weighted = recording.args.len() > 1;
            let input: &[Which] = if weighted { &[x, Which::Arg(1)] } else { &[x] };
            return if_needed(recording, &[(0, input), (1, &[x])]);
        }
        let (mean, variance, weight) = (Which::Arg(1), Which::Arg(2), Which::Arg(3));
        let weighted = recording.args.len() > 3;
        let input: &[Which] = if weighted { &[variance, weight] } else { &[variance] };
        let spread: &[Which] = if weighted { &[x, mean, variance, weight] } else { &[x, mean, variance] };
        if_needed(recording, &[(0, input), (1, input), (2, spread), (3, &[x, mean, variance])])
    }

    fn backward(&self, cx: &Context<'_>) -> Result<Grads> {
        if self.training { of_batch(self, cx) } else { of_given(self, cx) }
    }
}

/// By the statistics of the batch.
fn of_batch(norm: &BatchNorm, cx: &Context<'_>) -> Result<Grads> {
    let ndim = cx.input(0).shape.ndim();
    let axes = others(ndim);
    let x = if cx.needs(0) || cx.needs(1) { Some(wide(cx.arg(0)?)?) } else { None };
    let grad = cx.grads[0].as_ref().map(wide).transpose()?;
    let weight = if cx.inputs() > 1 && cx.needs(0) { Some(by_channel(cx.arg(1)?, ndim)?) } else { None };
    let parts = match (&grad, &x) {
        (Some(grad), Some(x)) => Some(standardized(grad, x, weight.as_ref(), &axes, norm.eps)?),
        _ => None,
    };
    let mut dx = parts.as_ref().map(|parts| parts.x.clone());
    // Mean and variance are results, and may have gradients of their own.
    if let Some(x) = x.filter(|_| cx.needs(0)) {
        let n = (x.numel() / x.dims()[1].max(1)) as f64;
        let mut add = |more: Tensor| -> Result<()> {
            dx = Some(match &dx {
                Some(dx) => dx.add(&more)?,
                None => more.broadcast_to(x.shape())?,
            });
            Ok(())
        };
        if let Some(of_mean) = &cx.grads[1] {
            add(by_channel(of_mean, ndim)?.div(n)?)?;
        }
        if let Some(of_variance) = &cx.grads[2] {
            let centered = x.sub(&x.mean(&axes[..], true)?)?;
            add(centered.mul(&by_channel(of_variance, ndim)?)?.mul(2.0 / n)?)?;
        }
    }
    cx.each(|arg| match arg {
        0 => Ok(dx.clone()),
        1 => parts.as_ref().map(|parts| channel_sum(&parts.weight)).transpose(),
        _ => grad.as_ref().map(channel_sum).transpose(),
    })
}

/// By given statistics.
fn of_given(norm: &BatchNorm, cx: &Context<'_>) -> Result<Grads> {
    let ndim = cx.input(0).shape.ndim();
    let grad = wide(cx.grad()?)?;
    let scale = || by_channel(cx.arg(2)?, ndim)?.add(norm.eps)?.rsqrt();
    let weighted = || match cx.inputs() > 3 {
        true => grad.mul(&by_channel(cx.arg(3)?, ndim)?),
        false => Ok(grad.clone()),
    };
    let centered = || wide(cx.arg(0)?)?.sub(&by_channel(cx.arg(1)?, ndim)?);
    cx.each(|arg| {
        Ok(Some(match arg {
            0 => weighted()?.mul(&scale()?)?,
            1 => channel_sum(&weighted()?.mul(&scale()?)?.neg()?)?,
            2 => {
                let scale = scale()?;
                let cube = scale.mul(&scale)?.mul(&scale)?.mul(-0.5)?;
                channel_sum(&weighted()?.mul(&centered()?)?.mul(&cube)?)?
            }
            3 => channel_sum(&grad.mul(&centered()?)?.mul(&scale()?)?)?,
            _ => channel_sum(&grad)?,
        }))
    })
}

impl Rule for GroupNorm {
    fn saves(&self, recording: &Recording<'_>) -> Saves {
        let weighted = recording.args.len() > 1;
        let input: &[Which] = if weighted { &[Which::Arg(0), Which::Arg(1)] } else { &[Which::Arg(0)] };
        if_needed(recording, &[(0, input), (1, &[Which::Arg(0)])])
    }

    fn backward(&self, cx: &Context<'_>) -> Result<Grads> {
        let shape = &cx.input(0).shape;
        let (ndim, dims) = (shape.ndim(), shape.dims());
        let grad = wide(cx.grad()?)?;
        let mut parts = None;
        if (cx.needs(0) || cx.needs(1)) && shape.numel() != 0 {
            // A row for each group.
            let rows = [dims[0], self.groups, shape.numel() / (dims[0] * self.groups)];
            let weighted = match cx.inputs() > 1 && cx.needs(0) {
                true => grad.mul(&by_channel(cx.arg(1)?, ndim)?)?,
                false => grad.clone(),
            };
            let x = wide(cx.arg(0)?)?.reshape(rows)?;
            let of_x = standardized(&weighted.reshape(rows)?, &x, None, &[-1], self.eps)?.x;
            let of_weight = standardized(&grad.reshape(rows)?, &x, None, &[-1], self.eps)?.weight;
            parts = Some((of_x.reshape_to(shape.clone())?, of_weight.reshape_to(shape.clone())?));
        }
        cx.each(|arg| match (arg, &parts) {
            (0, Some((x, _))) => Ok(Some(x.clone())),
            (0, None) => grad.zeros_like().map(Some),
            (1, Some((_, weight))) => channel_sum(weight).map(Some),
            _ => channel_sum(&grad).map(Some),
        })
    }
}
