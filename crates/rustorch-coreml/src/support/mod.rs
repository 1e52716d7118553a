//! Which operations have a form in a program, of which dtypes and on which conditions: one table, by operation.
//!
//! The emitter asks it about each node before it writes anything, and an emitter that declines for a condition which the operation's row lacks reports
//! a bug. So `docs/coreml.md`, which shows the table, says what is emitted.

mod condition;
mod table;

pub use condition::Condition;
pub use table::support;

use crate::builder::Specification;
use rustorch_core::{DTypeKind, OpKind};

/// What Core ML programs have of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Support {
    /// A form: for what.
    Form(Row),
    /// None.
    Missing {
        /// Why.
        reason: &'static str,
        /// Where that is said, if it is a limit of Core ML.
        source: Option<Source>,
    },
}

/// For what an operation has a form.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Row {
    /// Of which families of dtypes the operand is that is computed with: the first, but the second of `where`, and the result of what has no operands. Of
    /// floats a program has `f16`, `bf16` and `f32`; of integers `i32`, and `i64` whose values are known to fit; [`DTypeKind::Quant`] is a constant of a
    /// block type. Empty where operands of several dtypes go together.
    pub dtypes: &'static [DTypeKind],
    /// The least and the largest number of dimensions of that operand.
    pub rank: (usize, usize),
    /// What else has to hold.
    pub conditions: &'static [Condition],
    /// The lowest version of the model format that has the form.
    pub specification: Specification,
    /// Where it is said that Core ML has no other dtypes, if RusTorch's operation has them.
    pub source: Option<Source>,
}

impl Row {
    /// Which operand it speaks of.
    pub(crate) fn operand(op: OpKind) -> usize {
        if op == OpKind::Where { 1 } else { 0 }
    }
}

/// A page that says what Core ML lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Source {
    /// Its address.
    pub url: &'static str,
    /// When it said so.
    pub date: &'static str,
}
