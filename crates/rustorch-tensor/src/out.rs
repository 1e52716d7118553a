//! Results written to a given tensor, PyTorch's `out=`: the methods whose names end in `_into`.
//!
//! `out` has the result's shape, and a dtype of its family or a higher one, to which the result is converted on the way. It may be
//! an operand, or a view of one's memory. One operation computes and writes, conversions included; there is a temporary only
//! where `out` shares memory with an operand in another way than being that operand.

use crate::binary::{BinaryPromotion, Side, binary_promotion, expect_fits, promote};
use crate::dispatch::run_into;
use crate::pointwise::{UnaryPromotion, unary_promotion};
use crate::{Tensor, TensorOrScalar};
use rustorch_core::{
    BinaryOp, Cast, CompareOp, DType, Error, FusedBuilder, FusedPointwise, FusedValue, Op, Result, UnaryOp,
};
use smallvec::SmallVec;

/// The documentation of a method that writes what another one returns.
macro_rules! out_doc {
    ($name:ident) => {
        concat!(
            "As [`", stringify!($name), "`](Self::", stringify!($name), "), written to `out`: a tensor of the result's shape, of which \
             the dtype is of the result's family or a higher one. It may be an operand.\n\n\
             # Errors\n\
             Also if `out` has another shape or a dtype of a lower family, is read-only, or reaches an element twice."
        )
    };
}
pub(crate) use out_doc;

/// Writes a binary op. At least one operand is a tensor.
#[cfg_attr(debug_assertions, track_caller)]
pub(crate) fn binary_into(
    op: BinaryOp,
    a: TensorOrScalar<'_>,
    b: TensorOrScalar<'_>,
    out: &Tensor,
) -> Result<()> {
    let BinaryPromotion { compute, result } = binary_promotion(op, [a.side(), b.side()])?;
    pair_into(&Op::Binary(op), compute, [compute, result], [a, b], out)
}

/// Writes a comparison.
#[cfg_attr(debug_assertions, track_caller)]
pub(crate) fn compare_into(op: CompareOp, a: &Tensor, b: TensorOrScalar<'_>, out: &Tensor) -> Result<()> {
    let a = TensorOrScalar::from(a);
    let compute = promote(op.name(), &[a.side(), b.side()].map(Side::with_category))?;
    pair_into(&Op::Compare(op), compute, [DType::Bool; 2], [a, b], out)
}

/// Writes a function of two operands that meet in `compute`; it gives the first dtype of `results`, which becomes the second.
#[cfg_attr(debug_assertions, track_caller)]
fn pair_into(
    op: &Op,
    compute: DType,
    [gives, result]: [DType; 2],
    args: [TensorOrScalar<'_>; 2],
    out: &Tensor,
) -> Result<()> {
    let name = op.name();
    expect_no_loss(name, result, out)?;
    let fits = |arg: &TensorOrScalar<'_>| match arg {
        TensorOrScalar::Tensor(x) => x.dtype() == compute,
        TensorOrScalar::Scalar(_) => true,
    };
    if gives == out.dtype() && gives == result && args.iter().all(fits) {
        let [a, b] = args;
        let (a, b) = (a.to_tensor(name, compute, out)?, b.to_tensor(name, compute, out)?);
        return run_into(op, &[&a, &b], out);
    }
    let is_tensor = |arg: &&TensorOrScalar<'_>| matches!(arg, TensorOrScalar::Tensor(_));
    let mut fused = FusedPointwise::builder(args.iter().filter(is_tensor).count())?;
    let mut inputs: SmallVec<[&Tensor; 2]> = SmallVec::new();
    let mut values: SmallVec<[FusedValue; 2]> = SmallVec::new();
    for arg in args {
        values.push(match arg {
            TensorOrScalar::Tensor(x) => {
                let input = fused.input(inputs.len())?;
                inputs.push(x);
                cast(&mut fused, input, x.dtype(), compute)?
            }
            TensorOrScalar::Scalar(number) => {
                expect_fits(name, number, compute)?;
                fused.constant(number, compute)?
            }
        });
    }
    let computed = fused.step(op.clone(), &values)?;
    let result_value = cast(&mut fused, computed, gives, result)?;
    let last = cast(&mut fused, result_value, result, out.dtype())?;
    run_into(&Op::FusedPointwise(fused.finish(last)?), &inputs, out)
}

/// Writes a unary op.
#[cfg_attr(debug_assertions, track_caller)]
pub(crate) fn unary_into(op: UnaryOp, x: &Tensor, out: &Tensor) -> Result<()> {
    let compute = match unary_promotion(op, x.dtype()) {
        UnaryPromotion::Direct => x.dtype(),
        UnaryPromotion::Same => {
            expect_no_loss(op.name(), x.dtype(), out)?;
            return out.copy_(x);
        }
        UnaryPromotion::Float => DType::F32,
    };
    let result = op.output(compute).unwrap_or(compute);
    expect_no_loss(op.name(), result, out)?;
    if x.dtype() == compute && out.dtype() == result {
        return run_into(&Op::Unary(op), &[x], out);
    }
    let mut fused = FusedPointwise::builder(1)?;
    let input = fused.input(0)?;
    let arg = cast(&mut fused, input, x.dtype(), compute)?;
    let value = fused.step(Op::Unary(op), &[arg])?;
    let last = cast(&mut fused, value, result, out.dtype())?;
    run_into(&Op::FusedPointwise(fused.finish(last)?), &[x], out)
}

fn cast(fused: &mut FusedBuilder, value: FusedValue, from: DType, to: DType) -> Result<FusedValue> {
    if from == to { Ok(value) } else { fused.step(Op::Cast(Cast { to }), &[value]) }
}

/// Checks that a result is not of a higher family than the tensor that it goes to.
fn expect_no_loss(op: &'static str, result: DType, out: &Tensor) -> Result<()> {
    if result.kind() <= out.dtype().kind() {
        return Ok(());
    }
    Err(Error::dtype(op, "the result cannot be written to this dtype without loss", [out.dtype(), result]))
}
