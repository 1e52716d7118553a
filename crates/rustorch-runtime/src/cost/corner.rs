//! The rates of an operation.

use super::probe::Of;
use rustorch_core::DType;

/// Rates of one kind of operation in the making.
pub(super) struct Corner {
    pub(super) of: Of,
    pub(super) dtype: DType,
    pub(super) flops: Option<f64>,
    pub(super) bandwidth: Option<f64>,
}

impl Corner {
    /// What it is the rate of, for people.
    pub(super) fn label(&self) -> String {
        match self.of {
            Of::All => format!("{} in general", self.dtype),
            Of::Op(name) => format!("{} {name}", self.dtype),
            Of::Class(class) => format!("{} {class:?}", self.dtype),
        }
    }
}
