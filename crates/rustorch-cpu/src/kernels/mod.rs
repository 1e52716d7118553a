//! The kernels, a file or folder for each family of operations.
//!
//! Every kernel takes the pool, the operation's parameters, and views that `Op::infer` has accepted; outputs may be
//! strided. Loops over strides live in `strided`, so that kernels themselves see slices.

mod matmul;

use crate::Pool;
use rustorch_core::{Fault, Op, View, ViewMut};

/// Runs any operation.
pub(crate) fn run(pool: &Pool, op: &Op, args: &[View<'_>], outs: &mut [ViewMut<'_>]) -> Result<(), Fault> {
    match op {
        Op::MatMul(op) => matmul::run(pool, op, args, outs),
        Op::ExpertMatMul => matmul::run_experts(pool, args, outs),
        _ => Err(rustorch_core::Error::argument(op.name(), "no kernel").into()),
    }
}
