//! The kernels, a file or folder for each family of operations.
//!
//! Every kernel takes the pool, the operation's parameters, and views that `Op::infer` has accepted; outputs may be
//! strided. Loops over strides live in `strided`, so that kernels themselves see slices.

use crate::Pool;
use rustorch_core::{Fault, Op, View, ViewMut};

/// Runs any operation.
pub(crate) fn run(pool: &Pool, op: &Op, args: &[View<'_>], outs: &mut [ViewMut<'_>]) -> Result<(), Fault> {
    let _ = (pool, op, args, outs);
    Err(rustorch_core::Error::argument(op.name(), "no kernel").into())
}
