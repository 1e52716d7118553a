//! The `Operation` trait: name, class, `infer` and work of an operation.

use super::{OpType, Work};
use crate::{DType, OutputMeta, Outputs, PhiloxKey, Result, TensorMeta};

/// An operation's parameters, and what follows from them: see the methods of [`Op`](super::Op).
pub(super) trait Operation {
    /// Its class, unless that depends on the parameters or the arguments.
    const CLASS: OpType;

    /// Its class with these arguments.
    fn class(&self, _args: &[TensorMeta<'_>]) -> OpType {
        Self::CLASS
    }

    /// Dtypes and shapes of the results.
    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs>;

    /// How many arguments it takes, if it computes each element of one result from the corresponding elements of its
    /// arguments alone.
    fn pointwise_arity(&self) -> Option<usize> {
        None
    }

    /// Whether a result may be written over an argument.
    fn may_overwrite(&self, _arg: usize, _out: usize) -> bool {
        self.pointwise_arity().is_some()
    }

    /// Whether it may fail for the values of its arguments.
    fn fails_on_values(&self) -> bool {
        false
    }

    /// The key of the random numbers that it draws.
    fn philox_key(&self) -> Option<PhiloxKey> {
        None
    }

    /// The dtype of the result of a pointwise operation on arguments of one dtype and shape: what `infer` finds then.
    fn elementwise_output(&self, _dtype: DType, _args: usize) -> Option<DType> {
        None
    }

    /// The dtype of the results, where the parameters say it.
    fn dtype_parameter(&self) -> Option<DType> {
        None
    }

    /// The argument whose dtype decides how fast the operation is.
    fn leading_argument(&self) -> usize {
        0
    }

    /// Floating-point (or integer) operations for each element of the result of a pointwise operation, roughly.
    fn flops_per_element(&self) -> u64 {
        0
    }

    /// Floating-point (or integer) operations, for arguments and results that `infer` accepted.
    fn flops(&self, _args: &[TensorMeta<'_>], outs: &[OutputMeta]) -> u64 {
        self.flops_per_element() * out_elements(outs)
    }

    /// Bytes read.
    fn bytes_read(&self, args: &[TensorMeta<'_>], _outs: &[OutputMeta]) -> usize {
        args.iter().map(TensorMeta::packed_bytes).sum()
    }

    /// How much work it is, for arguments and results that `infer` accepted.
    fn work(&self, args: &[TensorMeta<'_>], outs: &[OutputMeta]) -> Work {
        let bytes = self.bytes_read(args, outs) + bytes_written(outs);
        Work { flops: self.flops(args, outs), bytes: bytes as u64 }
    }
}

/// Bytes of the results.
pub(super) fn bytes_written(outs: &[OutputMeta]) -> usize {
    outs.iter().map(|out| crate::meta::packed_bytes(out.dtype, out.shape.numel())).sum()
}

/// Elements of the first result.
pub(super) fn out_elements(outs: &[OutputMeta]) -> u64 {
    outs.first().map_or(0, |out| out.shape.numel()) as u64
}

/// Elements of the first argument.
pub(super) fn in_elements(args: &[TensorMeta<'_>]) -> u64 {
    args.first().map_or(0, |x| x.layout.numel()) as u64
}
