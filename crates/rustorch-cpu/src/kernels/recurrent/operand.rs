//! Operands of recurrences as matrices.

use crate::kernels::strided::{self, Matrices};
use rustorch_core::{Element, Fault, Layout, View};

/// The layout of an operand `[batch, seq, heads, d]` as `[batch, heads, seq, d]`: a matrix for each head of each sequence.
pub(super) fn by_head(x: &View<'_>) -> Result<Layout, Fault> {
    Ok(x.layout().permute(&[0, 2, 1, 3])?)
}

/// The matrices of an operand in another layout of its own.
pub(super) fn matrices<'b, T: Element>(x: &View<'b>, layout: &'b Layout) -> Result<Matrices<'b, T>, Fault> {
    Matrices::new(&strided::part(x, layout))
}
