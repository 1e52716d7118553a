//! Dropout, and draws from distributions.

use super::{Gradient, Recording, Rule, if_needed, nothing};
use crate::Tensor;
use crate::autograd::context::{Context, Grads};
use crate::autograd::saved::{Saves, Which};
use crate::dispatch::run;
use rustorch_core::{Dropout, LogGammaGrad, Op, Result, Sample, SampleKind};

impl Rule for Dropout {
    /// The mask follows from the key.
    fn saves(&self, _: &Recording<'_>) -> Saves {
        nothing()
    }

    fn backward(&self, cx: &Context<'_>) -> Result<Grads> {
        cx.first(|| run(&Op::Dropout(self.clone()), &[cx.grad()?]))
    }
}

impl Rule for Sample {
    /// That of the quantile; integers have none.
    fn gradient(&self, _: &[&Tensor]) -> Gradient {
        match self.distribution {
            SampleKind::LogGamma => Gradient::Exists,
            SampleKind::Poisson | SampleKind::Binomial => Gradient::None,
        }
    }

    fn saves(&self, recording: &Recording<'_>) -> Saves {
        if_needed(recording, &[(0, &[Which::Arg(0), Which::Result(0)])])
    }

    fn backward(&self, cx: &Context<'_>) -> Result<Grads> {
        cx.first(|| cx.grad()?.mul(&run(&Op::LogGammaGrad(LogGammaGrad), &[cx.arg(0)?, cx.result(0)?])?))
    }
}

impl Rule for LogGammaGrad {
    fn gradient(&self, _: &[&Tensor]) -> Gradient {
        Gradient::Refused("is the gradient of a random draw, which has no gradient of its own; detach it")
    }

    fn saves(&self, _: &Recording<'_>) -> Saves {
        nothing()
    }

    fn backward(&self, cx: &Context<'_>) -> Result<Grads> {
        cx.each(|_| Ok(None))
    }
}
