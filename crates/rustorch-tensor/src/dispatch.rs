//! The one door to the executor: every operation of every family passes here.

use crate::Tensor;
use rustorch_core::{Device, Op, Result, Scalar};
use rustorch_runtime::{HybridExecutor, Operand, OutputVec, Receive};
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

/// Runs a function of pairs, of a tensor and a number of its dtype: the second operand, or the first.
#[inline]
pub(crate) fn run_with_number(op: &Op, x: &Tensor, number: Scalar, is_first: bool) -> Result<Tensor> {
    HybridExecutor::with_current(|exec| exec.run_with_number(op, x.operand(), number, is_first))
}

/// Runs an operation that takes any number of arguments and has one result.
pub(crate) fn run_many(op: &Op, args: &[&Tensor]) -> Result<Tensor> {
    let operands: SmallVec<[Operand<'_>; 8]> = args.iter().map(|x| x.operand()).collect();
    Ok(first(HybridExecutor::with_current(|exec| exec.run(op, &operands))?))
}

/// Runs an operation that has no argument, for a device.
pub(crate) fn run_on(device: Device, op: &Op) -> Result<Tensor> {
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
    let mut outs = outs.into_iter().map(|out| Tensor::from_parts(out.storage, out.dtype, out.layout));
    Ok(std::array::from_fn(|_| outs.next().expect("normalisation by the batch has three results")))
}

/// Runs an operation that writes its one result into a tensor.
pub(crate) fn run_into<const N: usize>(op: &Op, args: &[&Tensor; N], out: &Tensor) -> Result<()> {
    HybridExecutor::with_current(|exec| exec.run_into(op, &operands(args), &[out.operand()]))
}
