//! Pooling, interpolation, and their gradients.

use super::{Recording, Rule, if_needed, nothing};
use crate::autograd::context::{Context, Grads};
use crate::autograd::saved::{Saves, Which};
use crate::dispatch::run;
use rustorch_core::{
    AdaptiveAvgPool, AdaptiveAvgPoolBackward, AdaptiveMaxPool, AvgPool, AvgPoolBackward, Dims, Interpolate,
    InterpolateBackward, MaxPool, MaxPoolBackward, Op, Result,
};

/// The spatial dimensions of the input, the last `n`.
fn spatial(cx: &Context<'_>, n: usize) -> Dims {
    let dims = cx.input(0).shape.dims();
    dims[dims.len() - n..].into()
}

macro_rules! max_pools {
    ($($op:ty, $spatial:expr;)*) => {$(
        impl Rule for $op {
            fn saves(&self, recording: &Recording<'_>) -> Saves {
                if_needed(recording, &[(0, &[Which::Result(1)])])
            }

            fn backward(&self, cx: &Context<'_>) -> Result<Grads> {
                let count: fn(&$op) -> usize = $spatial;
                let op = Op::MaxPoolBackward(MaxPoolBackward { spatial: spatial(cx, count(self)) });
                cx.first(|| run(&op, &[cx.grad()?, cx.result(1)?]))
            }
        }
    )*};
}

max_pools! {
    MaxPool, |op| op.window.kernel.len();
    AdaptiveMaxPool, |op| op.size.len();
}

impl Rule for MaxPoolBackward {
    fn saves(&self, recording: &Recording<'_>) -> Saves {
        if_needed(recording, &[(0, &[Which::Arg(1)])])
    }

    /// The elements that the maxima were.
    fn backward(&self, cx: &Context<'_>) -> Result<Grads> {
        cx.first(|| {
            let (grad, indices) = (cx.grad()?, cx.arg(1)?);
            let n = self.spatial.len() as isize;
            let (flat, places) = (grad.flatten(-n, -1)?, indices.flatten(-n, -1)?);
            let none = places.lt(0)?;
            let chosen = flat.gather(-1, &places.clamp_min(0)?)?.masked_fill(&none, 0)?;
            chosen.reshape_to(indices.shape().clone())
        })
    }
}

/// Operations that are linear in their one argument, with the operation that is their gradient.
macro_rules! linear {
    ($($op:ty, |$this:ident, $cx:ident| $gradient:expr;)*) => {$(
        impl Rule for $op {
            fn saves(&self, _: &Recording<'_>) -> Saves {
                nothing()
            }

            fn backward(&self, $cx: &Context<'_>) -> Result<Grads> {
                let $this = self;
                let op = $gradient;
                $cx.first(|| run(&op, &[$cx.grad()?]))
            }
        }
    )*};
}

linear! {
    AvgPool, |pool, cx| Op::from(AvgPoolBackward {
        pool: pool.clone(),
        spatial: spatial(cx, pool.window.kernel.len()),
    });
    AvgPoolBackward, |backward, _cx| Op::from(backward.pool.clone());
    AdaptiveAvgPool, |pool, cx| Op::AdaptiveAvgPoolBackward(AdaptiveAvgPoolBackward {
        spatial: spatial(cx, pool.size.len()),
    });
    AdaptiveAvgPoolBackward, |backward, cx| Op::AdaptiveAvgPool(AdaptiveAvgPool {
        size: spatial(cx, backward.spatial.len()),
    });
    Interpolate, |interpolate, cx| Op::from(InterpolateBackward {
        interpolate: interpolate.clone(),
        spatial: spatial(cx, interpolate.size.len()),
    });
    InterpolateBackward, |backward, _cx| Op::from(backward.interpolate.clone());
}
