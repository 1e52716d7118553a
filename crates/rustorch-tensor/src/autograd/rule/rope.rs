//! Rotary position embedding: the gradient is rotated back.

use super::{Recording, Rule, if_needed};
use crate::autograd::context::{Context, Grads};
use crate::autograd::saved::{Saves, Which};
use crate::dispatch::run_many;
use rustorch_core::{Op, Result, RopeParams};

impl Rule for RopeParams {
    fn saves(&self, recording: &Recording<'_>) -> Saves {
        let factors = recording.args.len() > 2;
        let which: &[Which] = if factors { &[Which::Arg(1), Which::Arg(2)] } else { &[Which::Arg(1)] };
        if_needed(recording, &[(0, which)])
    }

    fn backward(&self, cx: &Context<'_>) -> Result<Grads> {
        cx.first(|| {
            let back = cx.arg(1)?.neg()?;
            let op = Op::Rope(self.clone());
            if cx.inputs() > 2 {
                return run_many(&op, &[cx.grad()?, &back, cx.arg(2)?]);
            }
            run_many(&op, &[cx.grad()?, &back])
        })
    }
}
