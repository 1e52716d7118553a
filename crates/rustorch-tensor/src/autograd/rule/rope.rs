//! Rotary position embedding: the gradient is rotated back.

use super::{Recording, Rule, if_needed};
use crate::autograd::context::{Context, Grads};
use crate::autograd::saved::{Saves, Which};
use crate::dispatch::run_many;
use rustorch_core::{Op, Result, Rope};

impl Rule for Rope {
    fn saves(&self, recording: &Recording<'_>) -> Saves {
        let factors = recording.args.len() > 2;
        let which: &[Which] = if factors { &[Which::Arg(1), Which::Arg(2)] } else { &[Which::Arg(1)] };
        if_needed(recording, &[(0, which)])
    }

    fn backward(&self, cx: &Context<'_>) -> Result<Grads> {
        cx.first(|| {
            // Of 16 bits made of f32 the gradient is f32's.
            let grad = cx.grad()?.to_dtype(cx.input(0).dtype)?;
            let back = cx.arg(1)?.neg()?;
            let op = Op::Rope(Rope { params: self.params.clone(), to: grad.dtype() });
            if cx.inputs() > 2 {
                return run_many(&op, &[&grad, &back, cx.arg(2)?]);
            }
            run_many(&op, &[&grad, &back])
        })
    }
}
