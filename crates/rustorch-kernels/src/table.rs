//! Rows of the support table: which operations have kernels for which dtypes.
//!
//! Each family keeps its rows beside its kernels, in a constant `ROWS`; [`family::table`](crate::family::table) joins them. A row
//! says in which dtypes a few operations are computed: on every device, and with 64-bit floats or integers in addition. What
//! a row cannot say in dtypes, it checks.

mod dtypes;
pub mod sets;

pub use dtypes::{Blocks, DTypes};

use crate::Hardware;
use rustorch_core::{DType, Decline, Op, OpKind, OpType, TensorMeta};

/// Decides what dtypes alone do not: shapes, layouts, parameters.
pub type Check = fn(&Op, &[TensorMeta<'_>], &Hardware) -> Result<(), Decline>;

/// Operations that are computed in the same dtypes.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub(crate) class: OpType,
    pub(crate) ops: &'static [OpKind],
    pub(crate) dtypes: DTypes,
    pub(crate) subject: usize,
    pub(crate) beside: &'static [DType],
    pub(crate) check: Option<Check>,
    pub(crate) remark: &'static str,
}

/// A row: operations, their class, their dtypes.
pub const fn row(class: OpType, ops: &'static [OpKind], dtypes: DTypes) -> Row {
    Row { class, ops, dtypes, subject: 0, beside: &[], check: None, remark: "" }
}

impl Row {
    /// Argument `i` is of the row's dtypes, not the first one. (Operations without arguments: the result is.)
    pub const fn subject(self, i: usize) -> Row {
        Row { subject: i, ..self }
    }

    /// Other arguments are of these dtypes: indices, conditions.
    pub const fn beside(self, dtypes: &'static [DType]) -> Row {
        Row { beside: dtypes, ..self }
    }

    /// Whether an operation is computed depends on more.
    pub const fn check(self, check: Check) -> Row {
        Row { check: Some(check), ..self }
    }

    /// What people should know of it, in a few words of Markdown.
    pub const fn remark(self, remark: &'static str) -> Row {
        Row { remark, ..self }
    }

    pub(crate) fn supports(
        &self,
        op: &Op,
        args: &[TensorMeta<'_>],
        hardware: &Hardware,
    ) -> Result<(), Decline> {
        let dtype = args.get(self.subject).map(|x| x.dtype).or(op.dtype_parameter());
        let Some(dtype) = dtype else { return Err(Decline::Op(op.name())) };
        if !self.dtypes.on(hardware).contains(dtype) {
            return Err(Decline::DType(dtype));
        }
        self.check.map_or(Ok(()), |check| check(op, args, hardware))
    }
}
