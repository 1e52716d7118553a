//! Matrix products.

use crate::Pool;
use rustorch_core::{Error, Fault, MatMul, View, ViewMut};

pub(super) fn run(_: &Pool, _: &MatMul, _: &[View<'_>], _: &mut [ViewMut<'_>]) -> Result<(), Fault> {
    Err(Error::argument("matmul", "has no kernel").into())
}

pub(super) fn run_experts(_: &Pool, _: &[View<'_>], _: &mut [ViewMut<'_>]) -> Result<(), Fault> {
    Err(Error::argument("expert_matmul", "has no kernel").into())
}
