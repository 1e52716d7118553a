//! Running an operation: the short way for what plainly belongs on the processor, else planning.

use super::dispatch::{Done, Request};
use super::plan::Wish;
use super::{HybridExecutor, Operand, Output, OutputVec, Slot};
use crate::storage::ReadGuard;
use rustorch_core::{
    DType, Device, Fault, Layout, Op, OutputMeta, Result, TensorMeta, View, ViewMut, packed_bytes,
};
use smallvec::SmallVec;

/// What planning sees of the arguments.
pub(super) type Metas<'a> = SmallVec<[TensorMeta<'a>; 4]>;

impl HybridExecutor {
    /// Runs an operation and returns its results in fresh memory.
    ///
    /// The placement policy decides where. A result that another device had to compute returns to the device that holds
    /// the arguments.
    ///
    /// # Errors
    /// If the arguments do not fit the operation, or no device runs it (the error lists each with its reason).
    #[inline]
    pub fn run(&self, op: &Op, args: &[Operand<'_>]) -> Result<OutputVec> {
        self.run_asked(op, args, None)
    }

    /// Runs an operation for the sake of `device`, where the results will be: for operations without arguments, which
    /// nothing else ties to a device. Where it declines, another device computes and the results move.
    ///
    /// # Errors
    /// As [`run`](Self::run), and if the executor does not have the device.
    pub fn run_on(&self, device: Device, op: &Op, args: &[Operand<'_>]) -> Result<OutputVec> {
        self.index(device)?;
        self.run_asked(op, args, Some(device))
    }

    pub(super) fn run_asked(
        &self,
        op: &Op,
        args: &[Operand<'_>],
        asked: Option<Device>,
    ) -> Result<OutputVec> {
        let mut metas = Metas::new();
        let mut on_cpu = asked.is_none_or(Device::is_cpu);
        for arg in args {
            arg.check(op)?;
            let meta = arg.meta();
            on_cpu &= meta.device.is_cpu();
            metas.push(meta);
        }
        let outs = op.infer(&metas)?;
        let mut early = None;
        if on_cpu && self.is_small(&metas, &outs) {
            let mut outputs = OutputVec::new();
            match compute_to(self.cpu(), op, args, &outs, &mut outputs) {
                Ok(()) => return Ok(outputs),
                Err(Fault::Invalid(error)) => return Err(*error),
                Err(fault) => early = Some(fault),
            }
        }
        let wish = asked.map_or(Wish::Anywhere, Wish::At);
        let request = Request { op, args, metas: &metas, outs: &outs, wish, places: None, early };
        match self.dispatch(request)? {
            Done::Fresh(outputs) => Ok(outputs),
            Done::InPlace => unreachable!("no places were given"),
        }
    }

    /// Whether so little data, on the processor, stays there without planning.
    #[inline]
    pub(super) fn is_small(&self, args: &[TensorMeta<'_>], outs: &[OutputMeta]) -> bool {
        self.needs_no_plan(|| total_bytes(args, outs))
    }

    /// Whether an operation on so many bytes, all on the processor, runs there without planning.
    #[inline]
    pub(super) fn needs_no_plan(&self, bytes: impl FnOnce() -> usize) -> bool {
        if self.0.shared.recorder.is_watched() {
            return false;
        }
        match self.0.fast_bytes {
            usize::MAX => true,
            0 => false,
            limit => bytes() <= limit,
        }
    }
}

/// The bytes of all operands and results, packed.
pub(super) fn total_bytes(args: &[TensorMeta<'_>], outs: &[OutputMeta]) -> usize {
    let read = args.iter().map(TensorMeta::packed_bytes);
    let written = outs.iter().map(|o| packed_bytes(o.dtype, o.shape.elements()));
    read.chain(written).fold(0, usize::saturating_add)
}

/// Fresh memory on a device for one result.
#[inline]
pub(super) fn fresh(slot: &Slot, dtype: DType, layout: Layout) -> Result<Output, Fault> {
    let bytes = packed_bytes(dtype, layout.elements());
    Ok(Output { storage: slot.pool.storage(bytes, dtype == DType::Bool)?, dtype, layout })
}

/// Runs an operation on a device whose backend can read every argument where it is.
pub(super) fn compute(
    slot: &Slot,
    op: &Op,
    args: &[Operand<'_>],
    outs: &[OutputMeta],
) -> Result<OutputVec, Fault> {
    let mut outputs = OutputVec::new();
    compute_to(slot, op, args, outs, &mut outputs)?;
    Ok(outputs)
}

/// [`compute`], with the results added to a list: they are too large to be handed from function to function where a
/// tenth of a microsecond counts.
#[inline]
fn compute_to(
    slot: &Slot,
    op: &Op,
    args: &[Operand<'_>],
    outs: &[OutputMeta],
    outputs: &mut OutputVec,
) -> Result<(), Fault> {
    for out in outs {
        let bytes = packed_bytes(out.dtype, out.shape.elements());
        let storage = slot.pool.storage(bytes, out.dtype == DType::Bool)?;
        outputs.push(Output { storage, dtype: out.dtype, layout: Layout::contiguous(out.shape.clone()) });
    }
    let mut guards: SmallVec<[ReadGuard<'_>; 4]> = SmallVec::new();
    let mut views: SmallVec<[View<'_>; 4]> = SmallVec::new();
    for arg in args {
        guards.push(arg.storage.read());
        // SAFETY: checked by `run_asked` or made by the executor, and the guard outlives the view.
        views.push(unsafe { arg.view() });
    }
    let mut places: SmallVec<[ViewMut<'_>; 1]> = SmallVec::new();
    for out in outputs.iter() {
        // SAFETY: fresh memory of the layout's size, of which nobody else has a handle; contiguous layouts do not
        // overlap themselves.
        places.push(unsafe { ViewMut::from_shared(out.storage.buffer(), out.dtype, &out.layout) });
    }
    slot.backend.run(op, &views, &mut places)
}
