//! Writing results into existing memory: caches, optimizers, assignment to slices.

use super::dispatch::{Done, Request};
use super::plan::Wish;
use super::run::Metas;
use super::transfer::host_bytes_mut;
use super::{HybridExecutor, Operand, Output, Slot};
use crate::storage::{Backoff, ReadGuard, WriteGuard};
use rustorch_core::{Error, Fault, Layout, Op, Result, View, ViewMut};
use smallvec::SmallVec;

impl HybridExecutor {
    /// Runs an operation and writes its results into views of existing storages.
    ///
    /// A destination may share memory with arguments: results are computed apart then, and copied. After an error the
    /// contents of destinations are as they were or partly written.
    ///
    /// # Errors
    /// As [`run`](Self::run); and if a destination has not the result's dtype and shape, reaches elements twice, or is
    /// read-only.
    pub fn run_into(&self, op: &Op, args: &[Operand<'_>], destinations: &[Operand<'_>]) -> Result<()> {
        let metas: Metas<'_> = args
            .iter()
            .map(|arg| {
                arg.check(op)?;
                Ok(arg.meta())
            })
            .collect::<Result<_>>()?;
        let outs = op.infer(&metas)?;
        if outs.len() != destinations.len() {
            return Err(Error::argument(
                op.name(),
                format!("has {} results, {} destinations were given", outs.len(), destinations.len()),
            ));
        }
        for (out, to) in outs.iter().zip(destinations) {
            if to.dtype != out.dtype {
                return Err(Error::dtype(
                    op.name(),
                    "the destination must have the result's dtype",
                    [out.dtype, to.dtype],
                ));
            }
            if *to.layout.shape() != out.shape {
                return Err(Error::shape(
                    op.name(),
                    "the destination must have the result's shape",
                    [&out.shape, to.layout.shape()],
                ));
            }
            to.check_destination(op)?;
        }
        let apart = destinations.iter().enumerate().all(|(i, to)| {
            args.iter().chain(&destinations[..i]).all(|other| !other.storage.same(to.storage))
        });
        let on_cpu = args.iter().chain(destinations).all(|x| x.device().is_cpu());
        let mut early = None;
        if apart && on_cpu && self.is_small(&metas, &outs) {
            match write(self.cpu(), op, args, destinations) {
                Ok(()) => return Ok(()),
                Err(Fault::Invalid(error)) => return Err(*error),
                Err(fault) => early = Some(fault),
            }
        }
        for to in destinations {
            // A device that is gone takes nothing.
            self.backend_of(to.device())?;
        }
        let _sequence = self.sequence();
        let wish = destinations.first().map_or(Wish::Anywhere, |to| Wish::At(to.device()));
        let places = apart.then_some(destinations);
        let request = Request { op, args, metas: &metas, outs: &outs, wish, places, early };
        match self.dispatch(request)? {
            Done::InPlace => Ok(()),
            Done::Fresh(outputs) => {
                for (output, to) in outputs.iter().zip(destinations) {
                    self.store_one(output, to)?;
                }
                Ok(())
            }
        }
    }

    /// Copies a result to its destination, wherever either is.
    fn store_one(&self, output: &Output, to: &Operand<'_>) -> Result<(), Fault> {
        if to.layout.elements() == 0 {
            return Ok(());
        }
        let slot = self.slot(to.device())?;
        let moved;
        let output = if output.storage.device() == slot.device {
            output
        } else {
            moved = self.with_memory(slot, || self.move_run(&output.operand(), slot))?;
            &moved
        };
        let copies = slot.backend.supports(&Op::Copy, &[output.operand().meta()]).is_ok()
            && (slot.backend.capability().strided || to.layout.is_contiguous());
        if copies && write(slot, &Op::Copy, &[output.operand()], &[*to]).is_ok() {
            return Ok(());
        }
        // By way of the processor: everything from the first element to the last is fetched, changed and put back.
        let cpu = self.cpu();
        let len = to.layout.end() - to.layout.offset();
        let run =
            Layout::new(rustorch_core::Shape::new([len].as_slice())?, [1].as_slice(), to.layout.offset())?;
        let span = Operand { layout: &run, ..*to };
        let value = self.move_run(&output.operand(), cpu)?;
        // Nobody may write the gaps between fetching and putting back.
        let (_, _writing) = lock(&[], std::slice::from_ref(to));
        let around = super::run::fresh(cpu, to.dtype, Layout::contiguous(run.shape().clone()))?;
        // SAFETY: checked by `run_into`; the guard keeps everybody else out.
        let view = unsafe { span.view() };
        slot.backend.copy_out(&view, host_bytes_mut(&around.storage)?)?;
        let strided = Layout::new(to.layout.shape().clone(), to.layout.strides(), 0)?;
        write(
            cpu,
            &Op::Copy,
            &[value.operand()],
            &[Operand { storage: &around.storage, dtype: to.dtype, layout: &strided }],
        )?;
        // SAFETY: fresh, and nobody else has a handle.
        let bytes = unsafe { around.operand().view() }.as_bytes().ok_or_else(rustorch_core::copy_mismatch)?;
        // SAFETY: checked by `run_into`; the guard keeps everybody else out.
        let mut place = unsafe { ViewMut::from_shared(to.storage.buffer(), to.dtype, &run) };
        slot.backend.copy_in(bytes, &mut place)
    }
}

/// Runs an operation on a device that holds all arguments and destinations, straight into the destinations.
pub(super) fn write(
    slot: &Slot,
    op: &Op,
    args: &[Operand<'_>],
    destinations: &[Operand<'_>],
) -> Result<(), Fault> {
    let (_reading, _writing) = lock(args, destinations);
    // SAFETY: checked by `run_into` or made by the executor, and guarded.
    let views: SmallVec<[View<'_>; 4]> = args.iter().map(|arg| unsafe { arg.view() }).collect();
    let mut places: SmallVec<[ViewMut<'_>; 1]> = destinations
        .iter()
        // SAFETY: checked to be inside, writable and without overlap by `run_into`; exclusive by the guard.
        .map(|to| unsafe { ViewMut::from_shared(to.storage.buffer(), to.dtype, to.layout) })
        .collect();
    slot.backend.run(op, &views, &mut places)
}

type Reading<'a> = SmallVec<[ReadGuard<'a>; 4]>;
type Writing<'a> = SmallVec<[WriteGuard<'a>; 1]>;

/// Guards for all arguments and destinations. The storages of destinations must be distinct, and distinct from those of
/// arguments.
fn lock<'a>(args: &[Operand<'a>], destinations: &[Operand<'a>]) -> (Reading<'a>, Writing<'a>) {
    let mut wait = Backoff::default();
    loop {
        // Writers take all or nothing, so that nobody waits for one who waits.
        let writing: Option<Writing<'_>> = destinations.iter().map(|to| to.storage.try_write()).collect();
        if let Some(writing) = writing {
            let reading: Option<Reading<'_>> = args.iter().map(|arg| arg.storage.try_read()).collect();
            if let Some(reading) = reading {
                return (reading, writing);
            }
        }
        wait.pause();
    }
}
