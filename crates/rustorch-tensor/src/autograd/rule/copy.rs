//! Copies.

use super::{Recording, Rule, nothing};
use crate::autograd::context::{Context, Grads};
use crate::autograd::saved::Saves;
use rustorch_core::{CopyOp, Result};

impl Rule for CopyOp {
    fn saves(&self, _: &Recording<'_>) -> Saves {
        nothing()
    }

    fn backward(&self, cx: &Context<'_>) -> Result<Grads> {
        cx.first(|| cx.grad().cloned())
    }
}
