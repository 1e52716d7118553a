//! Operations whose results have no gradient, and those that have none of their own yet.

use super::{Gradient, Recording, Rule, nothing};
use crate::Tensor;
use crate::autograd::context::{Context, Grads};
use crate::autograd::custom;
use crate::autograd::saved::Saves;
use rustorch_core::{
    Arange, Assert, CachedAttention, CompareOp, CustomOp, Fill, ForeachMul, IntMm, OptimizerStep, Random,
    Result, SliceUpdate, TotalNorm,
};

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

without_gradient!(Fill, Arange, Random, CompareOp, IntMm, Assert);

macro_rules! refused {
    ($($op:ty: $reason:literal),*) => {$(
        impl Rule for $op {
            fn gradient(&self, _: &[&Tensor]) -> Gradient {
                Gradient::Refused($reason)
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

refused!(
    OptimizerStep: "is a step of an optimizer, which has no gradient",
    TotalNorm: "is for gradients and has none of its own, as Tensor::norm has",
    ForeachMul: "is for gradients and has none of its own, as Tensor::mul has",
    CachedAttention: "is for decoding, and has no gradient; Attention has",
    SliceUpdate: "is for caches, and has no gradient; Tensor::slice_assign has"
);

impl Rule for CustomOp {
    /// Recorded as a function of the user's.
    fn gradient(&self, _: &[&Tensor]) -> Gradient {
        match custom::backward(self) {
            Some(_) => Gradient::Steps,
            None => Gradient::Refused(
                "is a custom op without a backward (CustomOpBuilder::backward gives it one, or an autograd::Function around it)",
            ),
        }
    }

    fn saves(&self, _: &Recording<'_>) -> Saves {
        nothing()
    }

    fn backward(&self, cx: &Context<'_>) -> Result<Grads> {
        cx.each(|_| Ok(None))
    }
}
