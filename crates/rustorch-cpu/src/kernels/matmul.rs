//! Matrix products.

use crate::Pool;
use rustorch_core::{Error, Fault, Op, View, ViewMut};

pub(super) fn run(_: &Pool, op: &Op, _: &[View<'_>], _: &mut [ViewMut<'_>]) -> Result<(), Fault> {
    Err(Error::argument(op.name(), "has no kernel").into())
}

pub(super) fn run_experts(_: &Pool, _: &[View<'_>], _: &mut [ViewMut<'_>]) -> Result<(), Fault> {
    Err(Error::argument("expert_matmul", "has no kernel").into())
}
