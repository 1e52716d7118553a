//! Convolutions, which are linear in the input and in the weight, and their gradients, which are so, too.

use super::{Gradient, Recording, Rule, if_needed};
use crate::Tensor;
use crate::autograd::context::{Context, Grads};
use crate::autograd::saved::{Saves, Which};
use crate::dispatch::run;
use rustorch_core::{Conv, ConvBackwardData, ConvBackwardWeight, ConvParams, Op, Result};

fn forward(params: &ConvParams, x: &Tensor, weight: &Tensor) -> Result<Tensor> {
    run(&Op::from(Conv { params: params.clone(), activation: None }), &[x, weight])
}

fn backward_data(params: &ConvParams, size: &[usize], grad: &Tensor, weight: &Tensor) -> Result<Tensor> {
    run(&Op::from(ConvBackwardData { params: params.clone(), size: size.into() }), &[grad, weight])
}

fn backward_weight(params: &ConvParams, kernel: &[usize], x: &Tensor, grad: &Tensor) -> Result<Tensor> {
    run(&Op::from(ConvBackwardWeight { params: params.clone(), kernel: kernel.into() }), &[x, grad])
}

/// The sum over everything but channels.
fn bias(grad: &Tensor) -> Result<Tensor> {
    let axes: Vec<isize> = (0..grad.ndim() as isize).filter(|&axis| axis != 1).collect();
    grad.sum(axes, false)
}

const BOTH: &[(usize, &[Which])] = &[(0, &[Which::Arg(1)]), (1, &[Which::Arg(0)])];

impl Rule for Conv {
    fn gradient(&self, _: &[&Tensor]) -> Gradient {
        if self.activation.is_some() { Gradient::Steps } else { Gradient::Exists }
    }

    fn saves(&self, recording: &Recording<'_>) -> Saves {
        if_needed(recording, BOTH)
    }

    fn backward(&self, cx: &Context<'_>) -> Result<Grads> {
        let grad = cx.grad()?;
        cx.each(|arg| {
            let spatial = &cx.input(arg).shape.dims();
            match arg {
                0 => backward_data(&self.params, &spatial[2..], grad, &cx.arg(1)?.conj()?),
                1 => backward_weight(&self.params, &spatial[2..], &cx.arg(0)?.conj()?, grad),
                _ => bias(grad),
            }
            .map(Some)
        })
    }
}

impl Rule for ConvBackwardData {
    fn saves(&self, recording: &Recording<'_>) -> Saves {
        if_needed(recording, BOTH)
    }

    fn backward(&self, cx: &Context<'_>) -> Result<Grads> {
        let grad = cx.grad()?;
        cx.each(|arg| {
            match arg {
                0 => {
                    let all = forward(&self.params, grad, &cx.arg(1)?.conj()?)?;
                    // A result with output padding has room for more positions.
                    let lengths = cx.input(0).shape.dims().iter().enumerate().skip(2);
                    lengths.into_iter().try_fold(all, |part, (axis, &len)| part.narrow(axis as isize, 0, len))
                }
                1 => backward_weight(&self.params, &cx.input(1).shape.dims()[2..], grad, &cx.arg(0)?.conj()?),
                _ => bias(grad),
            }
            .map(Some)
        })
    }
}

impl Rule for ConvBackwardWeight {
    fn saves(&self, recording: &Recording<'_>) -> Saves {
        if_needed(recording, BOTH)
    }

    fn backward(&self, cx: &Context<'_>) -> Result<Grads> {
        let grad = cx.grad()?;
        cx.each(|arg| {
            match arg {
                0 => backward_data(&self.params, &cx.input(0).shape.dims()[2..], &cx.arg(1)?.conj()?, grad),
                _ => forward(&self.params, &cx.arg(0)?.conj()?, grad),
            }
            .map(Some)
        })
    }
}
