//! The one entry to the executor: every operation of every family passes here, and so does every view ([`try_view`]) and every
//! transfer to another device ([`transfer`]). Here gradients are recorded, too, of whatever has a tensor with a history among its
//! arguments.

use crate::autograd::record::{self, Results, is_tracked, only};
use crate::autograd::{autocast, is_grad_enabled};
use crate::{Tensor, TensorOptions, attention};
use rustorch_core::{DType, Device, Error, Op, Result, Scalar, Shape, ViewOp};
use rustorch_runtime::{FromOutput, HybridExecutor, NotedWrite, Operand, OutputVec, TargetDevice};
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

/// Whether an operation of these arguments is to run and no more: nothing is recorded, nothing cast.
#[inline(always)]
fn is_plain(args: &[&Tensor]) -> bool {
    !is_tracked(args) && !autocast::is_anywhere()
}

/// Runs an operation that has one result.
#[inline]
pub(crate) fn run<const N: usize>(op: &Op, args: &[&Tensor; N]) -> Result<Tensor> {
    if is_plain(args) {
        return HybridExecutor::with_current(|exec| exec.run_one(op, &operands(args)));
    }
    run_watched(op, args)
}

/// Runs an operation that has one result and may have to be recorded, or its arguments cast.
#[inline(never)]
fn run_watched(op: &Op, args: &[&Tensor]) -> Result<Tensor> {
    if autocast::is_active()
        && let Some(args) = autocast::arguments(op, args)?
    {
        return run_watched(op, &args.iter().collect::<SmallVec<[&Tensor; 4]>>());
    }
    record::run_one(op, None, args, || {
        HybridExecutor::with_current(|exec| match *args {
            [x] => exec.run_one(op, &operands(&[x])),
            [x, y] => exec.run_one(op, &operands(&[x, y])),
            [x, y, z] => exec.run_one(op, &operands(&[x, y, z])),
            _ => exec.run(op, &args.iter().map(|x| x.operand()).collect::<SmallVec<[_; 4]>>()).map(first),
        })
    })
}

/// Runs a binary op of a tensor and a scalar of its dtype: the second operand, or the first.
#[inline]
pub(crate) fn run_with_scalar(op: &Op, x: &Tensor, number: Scalar, is_first: bool) -> Result<Tensor> {
    if is_plain(&[x]) {
        return HybridExecutor::with_current(|exec| exec.run_with_scalar(op, x.operand(), number, is_first));
    }
    run_with_scalar_watched(op, x, number, is_first)
}

#[inline(never)]
fn run_with_scalar_watched(op: &Op, x: &Tensor, number: Scalar, is_first: bool) -> Result<Tensor> {
    if autocast::is_active()
        && let Some(args) = autocast::arguments(op, &[x])?
    {
        return run_with_scalar_watched(op, &args[0], number, is_first);
    }
    record::run_one(op, Some((number, is_first)), &[x], || {
        HybridExecutor::with_current(|exec| exec.run_with_scalar(op, x.operand(), number, is_first))
    })
}

/// Runs an operation that takes any number of arguments and has one result.
pub(crate) fn run_many(op: &Op, args: &[&Tensor]) -> Result<Tensor> {
    run_all(op, args).map(only)
}

/// Runs an operation that has no argument, for a device or, without one, for that of new tensors.
pub(crate) fn create(options: TensorOptions, op: &Op) -> Result<Tensor> {
    options.finish(HybridExecutor::with_current(|exec| exec.run_one_on(options.device, op, &[]))?)
}

/// Runs an operation that has no argument, for the device of a tensor.
pub(crate) fn create_beside(x: &Tensor, op: &Op) -> Result<Tensor> {
    HybridExecutor::with_current(|exec| exec.run_one_on(x.storage(), op, &[]))
}

/// Runs an operation that has two results.
pub(crate) fn run_pair(op: &Op, args: &[&Tensor]) -> Result<(Tensor, Tensor)> {
    let mut outs = run_all(op, args)?.into_iter();
    let mut next = || outs.next().expect("callers name operations of two results");
    Ok((next(), next()))
}

/// Runs an operation that has three results.
pub(crate) fn run_triple(op: &Op, args: &[&Tensor]) -> Result<[Tensor; 3]> {
    let mut outs = run_all(op, args)?.into_iter();
    Ok(std::array::from_fn(|_| outs.next().expect("normalisation by the batch has three results")))
}

/// Runs an operation of any number of arguments and results; without arguments, for the device of new tensors.
pub(crate) fn run_all(op: &Op, args: &[&Tensor]) -> Result<Results> {
    if autocast::is_active()
        && let Some(args) = autocast::arguments(op, args)?
    {
        return run_all(op, &args.iter().collect::<SmallVec<[&Tensor; 4]>>());
    }
    let execute = || {
        let operands: SmallVec<[Operand<'_>; 8]> = args.iter().map(|x| x.operand()).collect();
        if let Op::Attention(_) = op
            && let Some(places) = attention::places(op, args)?
        {
            {
                let places: SmallVec<[Operand<'_>; 2]> = places.iter().map(Tensor::operand).collect();
                HybridExecutor::with_current(|exec| exec.run_into(op, &operands, &places))?;
            }
            return Ok(places);
        }
        let outs = HybridExecutor::with_current(|exec| match &operands[..] {
            [] => exec.run_on(None, op, &[]),
            operands => exec.run(op, operands),
        })?;
        Ok(outs.into_iter().map(Tensor::output).collect())
    };
    if is_tracked(args) {
        return record::run(op, args, execute);
    }
    execute()
}

/// Runs an operation that writes its one result into a tensor.
#[cfg_attr(debug_assertions, track_caller)]
pub(crate) fn run_into(op: &Op, args: &[&Tensor], out: &Tensor) -> Result<()> {
    // No closure, which would be its own caller.
    #[cfg(debug_assertions)]
    let caller = Some(std::panic::Location::caller());
    #[cfg(not(debug_assertions))]
    let caller = None;
    let execute = || {
        let operands: SmallVec<[Operand<'_>; 4]> = args.iter().map(|x| x.operand()).collect();
        HybridExecutor::with_current(|exec| exec.run_into(op, &operands, &[out.operand()]))?;
        note_write(op, out, caller);
        Ok(())
    };
    if is_tracked(args) || is_tracked(&[out]) {
        return record::run_into(op, args, out, execute);
    }
    execute()
}

/// Runs an operation that writes its results into tensors, and has no gradient.
#[cfg_attr(debug_assertions, track_caller)]
pub(crate) fn run_into_all(op: &Op, args: &[&Tensor], outs: &[&Tensor]) -> Result<()> {
    #[cfg(debug_assertions)]
    let caller = Some(std::panic::Location::caller());
    #[cfg(not(debug_assertions))]
    let caller = None;
    if (is_tracked(args) || is_tracked(outs)) && is_grad_enabled() {
        return Err(Error::argument(op.name(), "writes in place and has no gradient: run it under no_grad"));
    }
    let args: SmallVec<[Operand<'_>; 8]> = args.iter().map(|x| x.operand()).collect();
    let destinations: SmallVec<[Operand<'_>; 8]> = outs.iter().map(|x| x.operand()).collect();
    HybridExecutor::with_current(|exec| exec.run_into(op, &args, &destinations))?;
    outs.iter().for_each(|out| note_write(op, out, caller));
    Ok(())
}

/// Notes a write in place for tensors that were saved for gradients: these have passive handles.
fn note_write(op: &Op, out: &Tensor, caller: Option<&'static std::panic::Location<'static>>) {
    if out.storage().passive_handles() != 0 {
        out.storage().note_write(NotedWrite { op: op.name(), caller });
    }
}

/// The view of a tensor's memory that an operation on its layout gives, `None` where that takes a copy: the one place where views
/// are made.
#[inline(always)]
pub(crate) fn try_view(x: &Tensor, op: &ViewOp) -> Result<Option<Tensor>> {
    let Some(view) = Tensor::changed_view(x, |dtype, layout| op.apply_(dtype, layout))? else {
        return Ok(None);
    };
    if is_tracked(&[x]) { record::view(op, x, view).map(Some) } else { Ok(Some(view)) }
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
    let copy = HybridExecutor::with_current(|exec| match exec.is_at(x.storage(), target_device)? {
        true => Ok(None),
        false => exec.transfer(&x.operand(), target_device).map(|copy| Some(Tensor::output(copy))),
    })?;
    let Some(copy) = copy else { return Ok(x.clone()) };
    if is_tracked(&[x]) {
        record::transfer(x, &copy)?;
    }
    Ok(copy)
}

/// A tensor of these packed elements on a device or, without one, on that of new tensors.
pub(crate) fn upload(bytes: &[u8], dtype: DType, shape: &Shape, device: Option<Device>) -> Result<Tensor> {
    HybridExecutor::with_current(|exec| exec.upload(bytes, dtype, shape, device)).map(Tensor::output)
}
