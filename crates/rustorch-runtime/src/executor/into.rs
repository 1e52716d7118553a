//! Writing outputs into existing storages: caches, optimizers, assignment to slices.

use super::dispatch::{DispatchOutcome, Request};
use super::plan::OutputDevice;
use super::run::{FreshOutput, Metas};
use super::{HybridExecutor, Operand, Output};
use crate::device_state::DeviceState;
use crate::storage::{ReadGuard, Storage, WriteClaim, WriteGuard};
use crate::sync::Backoff;
use rustorch_core::{CopyOp, Error, Fault, Layout, Op, Overlap, Result, View, ViewMut};
use smallvec::SmallVec;
use std::sync::Arc;

impl HybridExecutor {
    /// Runs an operation and writes its results into views of existing storages.
    ///
    /// This is one change of the destinations, also where they are arguments: no other write comes between reading and
    /// writing, and several threads that add to one tensor lose nothing.
    ///
    /// A destination may share memory with arguments. Where an argument is the destination itself, element for element, a
    /// device that can ([`Backend::overwrites`](rustorch_core::Backend::overwrites)) writes the result over it.
    /// Otherwise, and where they overlap in another way, the result is computed apart and copied.
    ///
    /// After an error the destinations are as they were, unless the device failed while it wrote to them: then they may be partly
    /// written. Operations that a value may make fail (an index out of range, a division by zero) find that out before they
    /// write over an argument.
    ///
    /// # Errors
    /// As [`run`](Self::run); and if a destination has not the result's dtype and shape, reaches elements twice, or is
    /// read-only.
    pub fn run_into(&self, op: &Op, args: &[Operand<'_>], destinations: &[Operand<'_>]) -> Result<()> {
        let metas: Metas<'_> = args
            .iter()
            .map(|arg| {
                self.check(arg, op)?;
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
            self.check(to, op)?;
            to.check_destination(op.name())?;
        }
        let _claims = claim(destinations);
        let aliasing = Aliasing::of(op, args, destinations);
        let on_cpu = args.iter().chain(destinations).all(|x| x.device().is_cpu());
        let cpu = self.cpu();
        let mut early = None;
        if on_cpu && aliasing.allows(cpu, op) && self.is_small(&metas, &outs) {
            match write(cpu, op, args, destinations) {
                Ok(()) => return Ok(()),
                Err(Fault::Invalid(error)) => return Err(*error),
                // What was overwritten cannot be computed from again.
                Err(fault) if aliasing == Aliasing::InPlace => return Err(fault.into()),
                Err(fault) => early = Some(fault),
            }
        }
        for to in destinations {
            // A device that is gone takes nothing.
            self.home(to.storage).usable()?;
        }
        let _sequence = self.sequence();
        let output_device =
            destinations.first().map_or(OutputDevice::Anywhere, |to| OutputDevice::At(self.home(to.storage)));
        let places = Some(Places { destinations, aliasing });
        let request = Request { op, args, metas: &metas, outs: &outs, output_device, places, early };
        match self.dispatch(request)? {
            DispatchOutcome::InPlace => Ok(()),
            DispatchOutcome::Fresh(outputs) => {
                for (output, to) in outputs.iter().zip(destinations) {
                    self.store_one(output, to)?;
                }
                Ok(())
            }
        }
    }

    /// Copies a result to its destination, wherever either is.
    fn store_one(&self, output: &Output, to: &Operand<'_>) -> Result<(), Fault> {
        if to.layout.numel() == 0 {
            return Ok(());
        }
        let slot = &self.home(to.storage);
        let moved;
        let output = if Arc::ptr_eq(&self.home(&output.storage), slot) {
            output
        } else {
            moved = self.retrying(slot, || self.move_run(&output.operand(), slot))?;
            &moved
        };
        let copies = slot.backend.supports(&Op::Copy(CopyOp), &[output.operand().meta()]).is_ok()
            && (slot.backend.capability().strided || to.layout.is_contiguous());
        if copies && write(slot, &Op::Copy(CopyOp), &[output.operand()], &[*to]).is_ok() {
            return Ok(());
        }
        // By way of the CPU: everything from the first element to the last is fetched, changed and put back.
        let cpu = self.cpu();
        let len = to.layout.end() - to.layout.offset();
        let run =
            Layout::new(rustorch_core::Shape::new([len].as_slice())?, [1].as_slice(), to.layout.offset())?;
        let span = Operand { layout: &run, ..*to };
        let value = self.move_run(&output.operand(), cpu)?;
        // Nobody may write the gaps between fetching and putting back.
        let to_storage = std::slice::from_ref(to);
        let (_, _writing) = lock(&[], to_storage, &Storages::of(to_storage));
        let mut around = FreshOutput::new(cpu, to.dtype, run.shape())?;
        // SAFETY: checked by `run_into`; the guard keeps everybody else out.
        let view = unsafe { span.view() };
        slot.noted(slot.backend.copy_out(&view, around.host_bytes()?))?;
        // SAFETY: every byte was copied there.
        let around = unsafe { around.assume_init() };
        let strided = to.layout.clone().at_offset(0)?;
        let place = Operand { storage: &around.storage, dtype: to.dtype, layout: &strided };
        let claim = around.storage.claim();
        write(cpu, &Op::Copy(CopyOp), &[value.operand()], &[place])?;
        drop(claim);
        // SAFETY: fresh, and nobody else has a handle.
        let bytes = unsafe { around.operand().view() }.as_bytes().ok_or_else(rustorch_core::copy_mismatch)?;
        // SAFETY: checked by `run_into`; the guard keeps everybody else out.
        let mut place = unsafe { ViewMut::from_shared(to.storage.buffer(), to.dtype, &run) };
        slot.noted(slot.backend.copy_in(bytes, &mut place))
    }
}

/// Where results are to be written.
#[derive(Clone, Copy)]
pub(super) struct Places<'a> {
    pub(super) destinations: &'a [Operand<'a>],
    pub(super) aliasing: Aliasing,
}

/// How destinations share memory with arguments and with each other.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Aliasing {
    /// No element of a destination is another operand's.
    None,
    /// Arguments are destinations, which the operation may overwrite.
    InPlace,
    /// In another way: results have to be computed apart.
    Other,
}

impl Aliasing {
    fn of(op: &Op, args: &[Operand<'_>], destinations: &[Operand<'_>]) -> Aliasing {
        let mut found = Aliasing::None;
        let storages = Storages::of(destinations);
        // Guards are of whole storages.
        if storages.are_shared() {
            return Aliasing::Other;
        }
        for (j, arg) in args.iter().enumerate() {
            let Some(i) = storages.find(arg.storage) else { continue };
            match overlap(arg, &destinations[i]) {
                Overlap::None => {}
                Overlap::Exact if op.may_overwrite(j, i) => found = Aliasing::InPlace,
                _ => return Aliasing::Other,
            }
        }
        found
    }

    /// Whether a device may write straight to the destinations.
    pub(super) fn allows(self, slot: &DeviceState, op: &Op) -> bool {
        match self {
            Aliasing::None => true,
            Aliasing::InPlace => slot.backend.overwrites(op),
            Aliasing::Other => false,
        }
    }
}

/// The storages of destinations, to look them up by: an optimizer's step has hundreds.
struct Storages(SmallVec<[(*const (), usize); 4]>);

impl Storages {
    fn of(destinations: &[Operand<'_>]) -> Storages {
        let identities = destinations.iter().enumerate().map(|(i, to)| (to.storage.identity(), i));
        let mut storages = Storages(identities.collect());
        storages.0.sort_unstable();
        storages
    }

    /// Whether two destinations have one storage.
    fn are_shared(&self) -> bool {
        self.0.windows(2).any(|pair| pair[0].0 == pair[1].0)
    }

    /// The number of a destination in a storage.
    fn find(&self, storage: &Storage) -> Option<usize> {
        let found = self.0.binary_search_by_key(&storage.identity(), |&(identity, _)| identity);
        found.ok().map(|at| self.0[at].1)
    }
}

fn overlap(a: &Operand<'_>, b: &Operand<'_>) -> Overlap {
    match (a.storage.same(b.storage), a.dtype == b.dtype) {
        (false, _) => Overlap::None,
        (true, true) => a.layout.overlap(b.layout),
        (true, false) => Overlap::Partial,
    }
}

/// Runs an operation on a device that holds all arguments and destinations, straight into the destinations, which the caller has
/// claimed, and which share memory with arguments only as the device and the operation allow.
pub(super) fn write(
    slot: &DeviceState,
    op: &Op,
    args: &[Operand<'_>],
    destinations: &[Operand<'_>],
) -> Result<(), Fault> {
    // SAFETY: `run_into` has compared the destinations with what is inferred from the arguments; copies are of one dtype and shape.
    let run = |args: &[View<'_>], outs: &mut [ViewMut<'_>]| unsafe { slot.backend.run(op, args, outs) };
    slot.noted(write_by(args, destinations, run))
}

/// Hands windows onto arguments, and onto destinations, which the caller has claimed, to what writes there.
pub(super) fn write_by(
    args: &[Operand<'_>],
    destinations: &[Operand<'_>],
    run: impl FnOnce(&[View<'_>], &mut [ViewMut<'_>]) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let storages = Storages::of(destinations);
    let (_reading, _writing) = lock(args, destinations, &storages);
    let views: SmallVec<[View<'_>; 4]> = args
        .iter()
        .map(|arg| {
            let destination = storages.find(arg.storage).map(|i| &destinations[i]);
            let aliased = destination.is_some_and(|to| overlap(arg, to) == Overlap::Exact);
            // SAFETY: checked by `run_into` or made by the executor, and guarded: where by a destination's guard, the elements are
            // either none of the destination's or the same.
            unsafe { if aliased { arg.aliased_view() } else { arg.view() } }
        })
        .collect();
    let mut places: SmallVec<[ViewMut<'_>; 1]> = destinations
        .iter()
        // SAFETY: checked to be inside, writable and without overlap by `run_into`; exclusive by the guard.
        .map(|to| unsafe { ViewMut::from_shared(to.storage.buffer(), to.dtype, to.layout) })
        .collect();
    run(&views, &mut places)
}

/// Claims of all destinations' storages.
pub(super) fn claim<'a>(destinations: &[Operand<'a>]) -> SmallVec<[WriteClaim<'a>; 1]> {
    let mut storages: SmallVec<[&Storage; 1]> = destinations.iter().map(|to| to.storage).collect();
    storages.sort_unstable_by_key(|storage| storage.identity());
    storages.dedup_by(|a, b| a.same(b));
    storages.into_iter().map(Storage::claim).collect()
}

type ReadGuards<'a> = SmallVec<[ReadGuard<'a>; 4]>;
type WriteGuards<'a> = SmallVec<[WriteGuard<'a>; 1]>;

/// Guards for all arguments and destinations. The storages of destinations are claimed and distinct; an argument in one of them
/// needs no guard of its own.
fn lock<'a>(
    args: &[Operand<'a>],
    destinations: &[Operand<'a>],
    storages: &Storages,
) -> (ReadGuards<'a>, WriteGuards<'a>) {
    let mut wait = Backoff::default();
    let others = || args.iter().filter(|arg| storages.find(arg.storage).is_none());
    loop {
        // Writers take all or nothing, so that nobody waits for one who waits.
        let writing: Option<WriteGuards<'_>> = destinations.iter().map(|to| to.storage.try_write()).collect();
        if let Some(writing) = writing {
            let reading: Option<ReadGuards<'_>> = others().map(|arg| arg.storage.try_read()).collect();
            if let Some(reading) = reading {
                return (reading, writing);
            }
        }
        wait.pause();
    }
}
