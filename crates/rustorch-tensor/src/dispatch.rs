//! The one door to the executor: every operation of every family passes here.

use crate::Tensor;
use rustorch_core::{Device, Op, Result};
use rustorch_runtime::{HybridExecutor, Operand, OutputVec};
use smallvec::SmallVec;

impl Tensor {
    #[inline]
    pub(crate) fn operand(&self) -> Operand<'_> {
        Operand { storage: self.storage(), dtype: self.dtype(), layout: self.layout() }
    }
}

#[inline]
fn first(outs: OutputVec) -> Tensor {
    let out = outs.into_iter().next().expect("every operation has a result");
    Tensor::from_parts(out.storage, out.dtype, out.layout)
}

#[inline]
fn results(op: &Op, args: &[&Tensor]) -> Result<OutputVec> {
    let operands: SmallVec<[Operand<'_>; 4]> = args.iter().map(|x| x.operand()).collect();
    HybridExecutor::with_current(|exec| exec.run(op, &operands))
}

/// Runs an operation that has one result.
#[inline]
pub(crate) fn run(op: &Op, args: &[&Tensor]) -> Result<Tensor> {
    Ok(first(results(op, args)?))
}

/// Runs an operation that has no argument, for a device.
pub(crate) fn run_on(device: Device, op: &Op) -> Result<Tensor> {
    Ok(first(HybridExecutor::with_current(|exec| exec.run_on(device, op, &[]))?))
}

/// Runs an operation that has two results.
pub(crate) fn run_pair(op: &Op, args: &[&Tensor]) -> Result<(Tensor, Tensor)> {
    let mut outs =
        results(op, args)?.into_iter().map(|out| Tensor::from_parts(out.storage, out.dtype, out.layout));
    let mut next = || outs.next().expect("sorting and selection have two results");
    Ok((next(), next()))
}

/// Runs an operation that writes its one result into a tensor.
pub(crate) fn run_into(op: &Op, args: &[&Tensor], out: &Tensor) -> Result<()> {
    let operands: SmallVec<[Operand<'_>; 4]> = args.iter().map(|x| x.operand()).collect();
    HybridExecutor::with_current(|exec| exec.run_into(op, &operands, &[out.operand()]))
}
