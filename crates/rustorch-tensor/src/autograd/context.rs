//! What a rule sees of a node in a backward pass.

use super::node::{Kind, Meta, NodeRef};
use super::saved::Which;
use crate::Tensor;
use rustorch_core::{Error, Result, Scalar};
use smallvec::SmallVec;

/// The gradients of a node's arguments, as a rule returns them. Broadcast ones may have the shape of the result, and complex ones of
/// real arguments be complex: the pass sums and converts.
pub(crate) type Grads = SmallVec<[Option<Tensor>; 3]>;

/// A node in a backward pass.
pub(crate) struct Context<'a> {
    pub(crate) node: &'a NodeRef,
    /// The gradients of the results; none where nothing depends on one.
    pub(crate) grads: &'a [Option<Tensor>],
    /// Which arguments' gradients are asked for.
    pub(crate) needed: &'a [bool],
    pub(crate) tensors: &'a [(Which, Tensor)],
}

impl Context<'_> {
    /// The gradient of the first result.
    pub(crate) fn grad(&self) -> Result<&Tensor> {
        match self.grads.first() {
            Some(Some(grad)) => Ok(grad),
            _ => Err(Error::argument(
                "backward",
                format!("{} has no gradient of its result", self.node.name()),
            )),
        }
    }

    /// Whether the gradient of an argument is asked for.
    #[inline]
    pub(crate) fn needs(&self, arg: usize) -> bool {
        self.needed.get(arg).copied().unwrap_or(false)
    }

    /// A saved argument.
    pub(crate) fn arg(&self, i: usize) -> Result<&Tensor> {
        self.tensor(Which::Arg(i))
    }

    /// A saved result.
    pub(crate) fn result(&self, i: usize) -> Result<&Tensor> {
        self.tensor(Which::Result(i))
    }

    pub(crate) fn tensor(&self, which: Which) -> Result<&Tensor> {
        let found = self.tensors.iter().find(|(have, _)| *have == which);
        found.map(|(_, x)| x).ok_or_else(|| {
            Error::argument(
                "backward",
                format!("{} did not save {which:?}: a fault in its rule", self.node.name()),
            )
        })
    }

    /// Shape, dtype and device of an argument.
    pub(crate) fn input(&self, i: usize) -> &Meta {
        self.node.input(i)
    }

    /// How many arguments there are.
    pub(crate) fn inputs(&self) -> usize {
        self.node.inputs.len()
    }

    /// The scalar of a binary operation of a tensor and a scalar, and whether it is the first operand.
    pub(crate) fn scalar(&self) -> Option<(Scalar, bool)> {
        match &self.node.kind {
            Kind::Op { scalar, .. } => *scalar,
            _ => None,
        }
    }

    /// Gradients of as many arguments as there are, each made where it is asked for.
    pub(crate) fn each(&self, mut f: impl FnMut(usize) -> Result<Option<Tensor>>) -> Result<Grads> {
        let mut grads = Grads::new();
        for i in 0..self.inputs() {
            grads.push(if self.needs(i) { f(i)? } else { None });
        }
        Ok(grads)
    }

    /// The gradient of the only argument that can have one, the first.
    pub(crate) fn first(&self, f: impl FnOnce() -> Result<Tensor>) -> Result<Grads> {
        let mut grads: Grads = SmallVec::from_elem(None, self.inputs());
        if self.needs(0) {
            grads[0] = Some(f()?);
        }
        Ok(grads)
    }
}
