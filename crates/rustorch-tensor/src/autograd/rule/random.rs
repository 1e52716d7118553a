//! Dropout.

use super::{Recording, Rule, nothing};
use crate::autograd::context::{Context, Grads};
use crate::autograd::saved::Saves;
use crate::dispatch::run;
use rustorch_core::{Dropout, Op, Result};

impl Rule for Dropout {
    /// The mask follows from the key.
    fn saves(&self, _: &Recording<'_>) -> Saves {
        nothing()
    }

    fn backward(&self, cx: &Context<'_>) -> Result<Grads> {
        cx.first(|| run(&Op::Dropout(self.clone()), &[cx.grad()?]))
    }
}
