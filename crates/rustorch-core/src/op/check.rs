//! Argument checks that several operations share.

use crate::{DType, Error, OutputMeta, Outputs, Result, Shape, TensorMeta};
use smallvec::smallvec;
use std::ops::RangeInclusive;

/// One result of this dtype and shape.
pub(super) fn one(dtype: DType, shape: Shape) -> Result<Outputs> {
    Ok(smallvec![OutputMeta { dtype, shape }])
}

/// Checks the number of arguments.
pub(super) fn expect_args(
    op: &'static str,
    args: &[TensorMeta<'_>],
    counts: RangeInclusive<usize>,
) -> Result<()> {
    if counts.contains(&args.len()) {
        return Ok(());
    }
    Err(Error::argument(
        op,
        format!("takes {} to {} arguments, {} were given", counts.start(), counts.end(), args.len()),
    ))
}

/// Checks the number of arguments, that none is of a block type, and that all have the first one's dtype, which is
/// returned.
pub(super) fn same_dense(
    op: &'static str,
    args: &[TensorMeta<'_>],
    counts: RangeInclusive<usize>,
) -> Result<DType> {
    expect_args(op, args, counts)?;
    dense(op, args)?;
    let dtype = args[0].dtype;
    if args.iter().any(|x| x.dtype != dtype) {
        return Err(Error::dtype(
            op,
            "operands must have one dtype; cast them",
            args.iter().map(|x| x.dtype),
        ));
    }
    Ok(dtype)
}

/// Checks that no argument is of a block type.
pub(super) fn dense(op: &'static str, args: &[TensorMeta<'_>]) -> Result<()> {
    match args.iter().find(|x| x.dtype.is_quant()) {
        None => Ok(()),
        Some(x) => {
            Err(Error::dtype(op, "does not take a block-quantized tensor; cast it to f32 first", [x.dtype]))
        }
    }
}

/// Checks that an argument is real floating-point.
pub(super) fn float(op: &'static str, dtype: DType) -> Result<()> {
    if dtype.is_float() { Ok(()) } else { Err(Error::dtype(op, "needs a floating-point dtype", [dtype])) }
}

/// Checks that an argument is an index: `I32` or `I64`.
pub(super) fn index_dtype(op: &'static str, x: &TensorMeta<'_>) -> Result<()> {
    match x.dtype {
        DType::I32 | DType::I64 => Ok(()),
        other => Err(Error::dtype(op, "indices must be i32 or i64", [other])),
    }
}

/// Checks that an axis exists in a shape (a scalar has axis 0, as in PyTorch).
pub(super) fn axis_in(op: &'static str, axis: usize, shape: &Shape) -> Result<()> {
    if axis < shape.ndim().max(1) {
        Ok(())
    } else {
        Err(Error::Axis { op, axis: axis as isize, ndim: shape.ndim() })
    }
}

/// The length of an axis; 1 for the axis 0 of a scalar.
pub(super) fn axis_len(shape: &Shape, axis: usize) -> usize {
    shape.get(axis).copied().unwrap_or(1)
}
