//! Checks of values while a program runs.

use super::{OpType, Operation, expect_args, one};
use crate::{DType, Error, OutputMeta, Outputs, Result, TensorMeta};
use std::sync::Arc;

/// Fails unless every element of its argument, a `Bool`, is true, as `torch._assert_async`; the result is a copy of the argument.
///
/// In a captured function it takes the place of a branch in Rust that would return an error.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct Assert {
    /// What is said where an element is false.
    pub message: Arc<str>,
}

impl Assert {
    /// The operation's name.
    pub const NAME: &'static str = "assert";
}

impl Operation for Assert {
    const CLASS: OpType = OpType::Elementwise;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        expect_args(Self::NAME, args, 1..=1)?;
        let condition = &args[0];
        if condition.dtype != DType::Bool {
            return Err(Error::dtype(Self::NAME, "the condition must be bool", [condition.dtype]));
        }
        one(DType::Bool, condition.shape().clone())
    }

    fn fails_on_values(&self) -> bool {
        true
    }

    fn flops(&self, args: &[TensorMeta<'_>], _: &[OutputMeta]) -> u64 {
        args.iter().map(|x| x.layout.numel() as u64).sum()
    }
}
