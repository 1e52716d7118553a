//! Sorting: each value's gradient goes where the value came from.

use super::{Recording, Rule, if_needed};
use crate::Tensor;
use crate::autograd::context::{Context, Grads};
use crate::autograd::saved::{Saves, Which};
use rustorch_core::{Result, Sort, TopK};

fn backward_along(axis: usize, cx: &Context<'_>) -> Result<Grads> {
    cx.first(|| {
        let (grad, shape) = (cx.grad()?, &cx.input(0).shape);
        if shape.ndim() == 0 {
            return grad.reshape_to(shape.clone());
        }
        let zeros = Tensor::zeros(shape.clone(), (grad.dtype(), grad.device()))?;
        zeros.scatter(axis as isize, cx.result(1)?, grad)
    })
}

impl Rule for Sort {
    fn saves(&self, recording: &Recording<'_>) -> Saves {
        if_needed(recording, &[(0, &[Which::Result(1)])])
    }

    fn backward(&self, cx: &Context<'_>) -> Result<Grads> {
        backward_along(self.axis, cx)
    }
}

impl Rule for TopK {
    fn saves(&self, recording: &Recording<'_>) -> Saves {
        if_needed(recording, &[(0, &[Which::Result(1)])])
    }

    fn backward(&self, cx: &Context<'_>) -> Result<Grads> {
        backward_along(self.axis, cx)
    }
}
