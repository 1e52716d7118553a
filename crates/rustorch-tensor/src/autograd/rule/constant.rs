//! Operations whose results have no gradient, and those that have none of their own yet.

use super::{Gradient, Recording, Rule, nothing};
use crate::Tensor;
use crate::autograd::context::{Context, Grads};
use crate::autograd::saved::Saves;
use rustorch_core::{Arange, CompareOp, CustomOp, Fill, Random, Result};

macro_rules! without_gradient {
    ($($op:ty),*) => {$(
        impl Rule for $op {
            fn gradient(&self, _: &[&Tensor]) -> Gradient {
                Gradient::None
            }

            fn saves(&self, _: &Recording<'_>) -> Saves {
                nothing()
            }

            fn backward(&self, cx: &Context<'_>) -> Result<Grads> {
                cx.each(|_| Ok(None))
            }
        }
    )*};
}

without_gradient!(Fill, Arange, Random, CompareOp);

impl Rule for CustomOp {
    fn gradient(&self, _: &[&Tensor]) -> Gradient {
        Gradient::Refused("is a custom op without a gradient (an autograd::Function around it has one)")
    }

    fn saves(&self, _: &Recording<'_>) -> Saves {
        nothing()
    }

    fn backward(&self, cx: &Context<'_>) -> Result<Grads> {
        cx.each(|_| Ok(None))
    }
}
