//! The one entry to the executor: every operation of every family passes here, and so does every view ([`try_view`]) and every
//! transfer to another device ([`transfer`]).

use crate::Tensor;
use rustorch_core::{DType, Device, Op, Result, Scalar, Shape, ViewOp};
use rustorch_runtime::{FromOutput, HybridExecutor, Operand, OutputVec, TargetDevice};
use smallvec::SmallVec;

impl Tensor {
    #[inline]
    pub(crate) fn operand(&self) -> Operand<'_> {
        Operand { storage: self.storage(), dtype: self.dtype(), layout: self.layout() }
    }
}

#[inline]
fn first(mut outs: OutputVec) -> Tensor {
    Tensor::output(outs.pop().expect("every operation has a result"))
}

#[inline]
fn operands<'a, const N: usize>(args: &[&'a Tensor; N]) -> [Operand<'a>; N] {
    std::array::from_fn(|i| args[i].operand())
}

/// Runs an operation that has one result.
#[inline]
pub(crate) fn run<const N: usize>(op: &Op, args: &[&Tensor; N]) -> Result<Tensor> {
    HybridExecutor::with_current(|exec| exec.run_one(op, &operands(args)))
}

/// Runs a binary op of a tensor and a scalar of its dtype: the second operand, or the first.
#[inline]
pub(crate) fn run_with_scalar(op: &Op, x: &Tensor, number: Scalar, is_first: bool) -> Result<Tensor> {
    HybridExecutor::with_current(|exec| exec.run_with_scalar(op, x.operand(), number, is_first))
}

/// Runs an operation that takes any number of arguments and has one result.
pub(crate) fn run_many(op: &Op, args: &[&Tensor]) -> Result<Tensor> {
    let operands: SmallVec<[Operand<'_>; 8]> = args.iter().map(|x| x.operand()).collect();
    Ok(first(HybridExecutor::with_current(|exec| exec.run(op, &operands))?))
}

/// Runs an operation that has no argument, for a device or, without one, for that of new tensors.
pub(crate) fn create(device: Option<Device>, op: &Op) -> Result<Tensor> {
    Ok(first(HybridExecutor::with_current(|exec| exec.run_on(device, op, &[]))?))
}

/// Runs an operation that has two results.
pub(crate) fn run_pair<const N: usize>(op: &Op, args: &[&Tensor; N]) -> Result<(Tensor, Tensor)> {
    let outs = HybridExecutor::with_current(|exec| exec.run(op, &operands(args)))?;
    let mut outs = outs.into_iter().map(Tensor::output);
    let mut next = || outs.next().expect("callers name operations of two results");
    Ok((next(), next()))
}

/// Runs an operation that has three results.
pub(crate) fn run_triple(op: &Op, args: &[&Tensor]) -> Result<[Tensor; 3]> {
    let operands: SmallVec<[Operand<'_>; 8]> = args.iter().map(|x| x.operand()).collect();
    let outs = HybridExecutor::with_current(|exec| exec.run(op, &operands))?;
    let mut outs = outs.into_iter().map(Tensor::output);
    Ok(std::array::from_fn(|_| outs.next().expect("normalisation by the batch has three results")))
}

/// Runs an operation of any number of arguments and results; without arguments, for the device of new tensors.
pub(crate) fn run_all(op: &Op, args: &[&Tensor]) -> Result<Vec<Tensor>> {
    let operands: SmallVec<[Operand<'_>; 8]> = args.iter().map(|x| x.operand()).collect();
    let outs = HybridExecutor::with_current(|exec| match &operands[..] {
        [] => exec.run_on(None, op, &[]),
        operands => exec.run(op, operands),
    })?;
    Ok(outs.into_iter().map(Tensor::output).collect())
}

/// Runs an operation that writes its one result into a tensor.
pub(crate) fn run_into(op: &Op, args: &[&Tensor], out: &Tensor) -> Result<()> {
    let operands: SmallVec<[Operand<'_>; 4]> = args.iter().map(|x| x.operand()).collect();
    HybridExecutor::with_current(|exec| exec.run_into(op, &operands, &[out.operand()]))
}

/// The view of a tensor's memory that an operation on its layout gives, `None` where that takes a copy: the one place where views
/// are made.
#[inline(always)]
pub(crate) fn try_view(x: &Tensor, op: &ViewOp) -> Result<Option<Tensor>> {
    op.try_apply_with(x.dtype(), x.layout(), |dtype, layout| {
        Tensor::from_parts(x.storage().clone(), dtype, layout)
    })
}

/// As [`try_view`], an error where a copy would be needed.
#[inline(always)]
pub(crate) fn view(x: &Tensor, op: &ViewOp) -> Result<Tensor> {
    match try_view(x, op)? {
        Some(view) => Ok(view),
        None => Err(op.needs_copy(x.layout())),
    }
}

/// A tensor on a device: itself, or a copy.
pub(crate) fn transfer<'a>(x: &Tensor, target_device: impl Into<TargetDevice<'a>>) -> Result<Tensor> {
    let target_device = target_device.into();
    HybridExecutor::with_current(|exec| match exec.is_at(x.storage(), target_device)? {
        true => Ok(x.clone()),
        false => exec.transfer(&x.operand(), target_device).map(Tensor::output),
    })
}

/// A tensor of these packed elements on a device or, without one, on that of new tensors.
pub(crate) fn upload(bytes: &[u8], dtype: DType, shape: &Shape, device: Option<Device>) -> Result<Tensor> {
    HybridExecutor::with_current(|exec| exec.upload(bytes, dtype, shape, device)).map(Tensor::output)
}
