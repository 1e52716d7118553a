//! Matmul.

use super::{Emit, Emitter, MAX_MADE, known};
use crate::builder::Var;
use crate::layout;
use crate::support::Condition;
use rustorch_core::{MatMul, Node};

impl Emitter<'_> {
    pub(super) fn matmul(&mut self, op: &MatMul, node: &Node) -> Emit {
        let (a, transpose_a) = self.matrix(node, 0)?;
        let (b, transpose_b) = self.matrix(node, 1)?;
        if node.args[0].dtype != node.args[1].dtype && op.numerics.rounds_activations() {
            return Err(Condition::ExactNumerics.into());
        }
        // A weight of fewer bits.
        let b = self.float_as(&b, a.dtype);
        let dims = self.result_dims(node, 0);
        let mut y = self.product(&a, transpose_a, &b, transpose_b, &dims);
        if let Some(bias) = self.optional_arg(node, 2)? {
            y = self.bin("add", &y, &bias);
        }
        self.activated(op.activation, y)
    }

    pub(super) fn product(
        &mut self,
        a: &Var,
        transpose_a: bool,
        b: &Var,
        transpose_b: bool,
        dims: &[usize],
    ) -> Var {
        let (x, y) = (self.b.bool(transpose_a), self.b.bool(transpose_b));
        let inputs = [("x", a), ("y", b), ("transpose_x", &x), ("transpose_y", &y)];
        self.b.op("matmul", &inputs, a.dtype, dims)
    }

    /// A matrix, or its transpose where that is the shorter chain of operations.
    fn matrix(&mut self, node: &Node, i: usize) -> Emit<(Var, bool)> {
        let operand = &node.args[i];
        let rank = operand.layout.ndim();
        let transposed = operand.layout.transpose(rank - 2, rank - 1)?;
        let value = &self.graph.values[operand.value.index()];
        let steps = |layout| layout::chain(value.shape.dims(), layout, MAX_MADE).map(|steps| steps.len());
        let is_expressible = super::expressible_constant(value.dtype, value.shape.dims()).is_ok()
            && super::expressible_constant(operand.dtype, operand.layout.dims()).is_ok();
        if is_expressible && steps(&transposed) < steps(&operand.layout) && steps(&transposed).is_some() {
            let var = self.view(operand.value, operand.dtype, &transposed)?;
            known(&var, &format!("argument {i}"))?;
            return Ok((var, true));
        }
        self.arg(node, i).map(|var| (var, false))
    }
}
