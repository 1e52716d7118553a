//! The last matrix of attention.

use crate::module::display;
use crate::{ExtraRepr, Layer, Linear, Member, Module};
use rustorch_tensor::{Result, Tensor};
use std::ops::{Deref, DerefMut};

/// A [`Linear`] in all but its name, as `torch.nn.modules.linear.NonDynamicallyQuantizableLinear`: models print with it.
#[derive(Debug)]
pub struct NonDynamicallyQuantizableLinear(pub Linear);

impl Deref for NonDynamicallyQuantizableLinear {
    type Target = Linear;

    fn deref(&self) -> &Linear {
        &self.0
    }
}

impl DerefMut for NonDynamicallyQuantizableLinear {
    fn deref_mut(&mut self) -> &mut Linear {
        &mut self.0
    }
}

impl Module for NonDynamicallyQuantizableLinear {
    fn type_name(&self) -> &'static str {
        "NonDynamicallyQuantizableLinear"
    }

    fn visit_members<'a>(&'a self, visit: &mut dyn FnMut(&str, Member<'a>)) {
        self.0.visit_members(visit);
    }

    fn extra_repr(&self, extra: &mut ExtraRepr) {
        self.0.extra_repr(extra);
    }
}

impl Layer for NonDynamicallyQuantizableLinear {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.0.forward(x)
    }
}

display! { [] NonDynamicallyQuantizableLinear }
