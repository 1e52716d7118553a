//! Running an op: without planning if it plainly belongs on the CPU, else by dispatch.

use super::dispatch::{DispatchOutcome, Request};
use super::plan::OutputDevice;
use super::{FromOutput, HybridExecutor, Operand, Output, OutputVec, TargetDevice};
use crate::device_state::DeviceState;
use crate::memory::thread_cache;
use crate::storage::{FreshMemory, ReadGuard, Storage};
use rustorch_core::{
    DType, Fault, Layout, Op, OutputMeta, Outputs, Result, Shape, TensorMeta, View, ViewMut, copy_mismatch,
    packed_bytes,
};
use smallvec::SmallVec;
use std::sync::Arc;

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

    /// Runs an operation for the sake of a device, where the results will be: for operations without arguments, which
    /// nothing else ties to a device. Where it declines, another device computes and the results move.
    ///
    /// # Errors
    /// As [`run`](Self::run), and if the executor does not have the device.
    pub fn run_on<'a>(
        &self,
        target_device: impl Into<TargetDevice<'a>>,
        op: &Op,
        args: &[Operand<'_>],
    ) -> Result<OutputVec> {
        self.run_asked(op, args, Some(self.place(target_device.into())?))
    }

    pub(super) fn run_asked(
        &self,
        op: &Op,
        args: &[Operand<'_>],
        asked: Option<Arc<DeviceState>>,
    ) -> Result<OutputVec> {
        let (metas, outs, needs_no_plan) = self.inferred(op, args, asked.as_ref())?;
        let mut early = None;
        if needs_no_plan {
            let mut outputs = OutputVec::new();
            match compute_to(self.cpu(), op, args, &outs, &mut outputs) {
                Ok(()) => return Ok(outputs),
                Err(Fault::Invalid(error)) => return Err(*error),
                Err(fault) => early = Some(fault),
            }
        }
        let output_device = asked.map_or(OutputDevice::Anywhere, OutputDevice::At);
        let request = Request { op, args, metas: &metas, outs: &outs, output_device, places: None, early };
        self.dispatch_fresh(request)
    }

    /// As [`run_on`](Self::run_on), for an operation that has one result.
    ///
    /// # Errors
    /// As there.
    pub fn run_one_on<'a, R: FromOutput>(
        &self,
        target_device: impl Into<TargetDevice<'a>>,
        op: &Op,
        args: &[Operand<'_>],
    ) -> Result<R> {
        self.run_single(op, args, Some(self.place(target_device.into())?))
    }

    /// As [`run_asked`](Self::run_asked), for an operation that has one result: on the CPU, where that needs no planning, it is made
    /// where it stays.
    #[inline(never)]
    pub(super) fn run_single<R: FromOutput>(
        &self,
        op: &Op,
        args: &[Operand<'_>],
        asked: Option<Arc<DeviceState>>,
    ) -> Result<R> {
        let (metas, outs, needs_no_plan) = self.inferred(op, args, asked.as_ref())?;
        let mut early = None;
        if needs_no_plan && let [out] = &outs[..] {
            match compute_single(self.cpu(), op, args, out) {
                Ok(storage) => return Ok(R::packed(storage, out.dtype, &out.shape)),
                Err(Fault::Invalid(error)) => return Err(*error),
                Err(fault) => early = Some(fault),
            }
        }
        let output_device = asked.map_or(OutputDevice::Anywhere, OutputDevice::At);
        let request = Request { op, args, metas: &metas, outs: &outs, output_device, places: None, early };
        let mut outputs = self.dispatch_fresh(request)?;
        Ok(R::output(outputs.pop().expect("every operation has a result")))
    }

    #[cold]
    fn dispatch_fresh(&self, request: Request<'_>) -> Result<OutputVec> {
        match self.dispatch(request)? {
            DispatchOutcome::Fresh(outputs) => Ok(outputs),
            DispatchOutcome::InPlace => unreachable!("no places were given"),
        }
    }

    /// Checks that the elements of an argument may be read, or that they are those of a capture's symbolic tensor.
    #[inline(always)]
    pub(super) fn check(&self, arg: &Operand<'_>, op: &Op) -> Result<()> {
        if arg.is_valid() { Ok(()) } else { self.check_symbolic(arg, op) }
    }

    /// What planning sees of arguments that may be read and of results, and whether the operation plainly belongs on the CPU.
    #[inline(always)]
    fn inferred<'a>(
        &self,
        op: &Op,
        args: &[Operand<'a>],
        asked: Option<&Arc<DeviceState>>,
    ) -> Result<(Metas<'a>, Outputs, bool)> {
        let mut metas = Metas::new();
        let mut on_cpu = asked.is_none_or(|state| state.device.is_cpu());
        for arg in args {
            self.check(arg, op)?;
            let meta = arg.meta();
            on_cpu &= meta.device.is_cpu();
            metas.push(meta);
        }
        let outs = op.infer(&metas)?;
        let needs_no_plan = on_cpu && self.is_small(&metas, &outs);
        Ok((metas, outs, needs_no_plan))
    }

    /// Whether so little data, on the CPU, stays there without planning.
    #[inline]
    pub(super) fn is_small(&self, args: &[TensorMeta<'_>], outs: &[OutputMeta]) -> bool {
        self.needs_no_plan(|| total_bytes(args, outs))
    }

    /// Whether an operation on so many bytes, all on the CPU, runs there without planning.
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
pub(crate) fn total_bytes(args: &[TensorMeta<'_>], outs: &[OutputMeta]) -> usize {
    let read = args.iter().map(TensorMeta::packed_bytes);
    let written = outs.iter().map(|o| packed_bytes(o.dtype, o.shape.numel()));
    read.chain(written).fold(0, usize::saturating_add)
}

/// Fresh memory on a device for one result, which nobody else sees until it is initialised.
pub(super) struct FreshOutput {
    pub(super) memory: FreshMemory,
    pub(super) dtype: DType,
    /// Contiguous from the start of the memory.
    pub(super) layout: Layout,
}

impl FreshOutput {
    #[inline]
    pub(super) fn new(slot: &Arc<DeviceState>, dtype: DType, shape: &Shape) -> Result<FreshOutput, Fault> {
        let memory = slot.fresh(packed_bytes(dtype, shape.numel()), dtype == DType::Bool)?;
        Ok(FreshOutput { memory, dtype, layout: Layout::contiguous(shape.clone()) })
    }

    /// Memory for the result of an operation, and whether the result is there: zeros that nobody has to write.
    #[inline]
    fn of(slot: &Arc<DeviceState>, op: &Op, out: &OutputMeta) -> Result<(FreshOutput, bool), Fault> {
        match op {
            Op::Fill(fill) if fill.value.is_zero_bits() => FreshOutput::zeros(slot, out),
            _ => Ok((FreshOutput::new(slot, out.dtype, &out.shape)?, false)),
        }
    }

    #[cold]
    fn zeros(slot: &Arc<DeviceState>, out: &OutputMeta) -> Result<(FreshOutput, bool), Fault> {
        let bytes = packed_bytes(out.dtype, out.shape.numel());
        if bytes <= thread_cache::LARGEST {
            return Ok((FreshOutput::new(slot, out.dtype, &out.shape)?, false));
        }
        let (memory, is_zeroed) = slot.fresh_zeroed(bytes, out.dtype == DType::Bool)?;
        let layout = Layout::contiguous(out.shape.clone());
        Ok((FreshOutput { memory, dtype: out.dtype, layout }, is_zeroed))
    }

    /// A window for writing.
    #[inline]
    pub(super) fn place(&mut self) -> ViewMut<'_> {
        // SAFETY: the memory has room for the layout, which does not overlap itself, is aligned to every dtype and may be written
        // (`memory::allocate`); and nobody else has a handle, ours being borrowed.
        unsafe { ViewMut::from_shared(self.memory.buffer(), self.dtype, &self.layout) }
    }

    /// The bytes of host memory, set to zero.
    pub(super) fn host_bytes(&mut self) -> Result<&mut [u8], Fault> {
        let (address, bytes) = self.place().byte_range().ok_or_else(copy_mismatch)?;
        // SAFETY: the range is ours as above. Writing zeros makes it a valid slice of bytes.
        unsafe {
            address.write_bytes(0, bytes);
            Ok(std::slice::from_raw_parts_mut(address, bytes))
        }
    }

    /// # Safety
    /// Every element was written.
    #[inline]
    pub(super) unsafe fn assume_init(self) -> Output {
        // SAFETY: the elements fill the memory.
        Output { storage: unsafe { self.memory.assume_init() }, dtype: self.dtype, layout: self.layout }
    }
}

/// Runs an operation on a device whose backend can read every argument where it is.
pub(super) fn compute(
    slot: &Arc<DeviceState>,
    op: &Op,
    args: &[Operand<'_>],
    outs: &[OutputMeta],
) -> Result<OutputVec, Fault> {
    let mut outputs = OutputVec::new();
    compute_to(slot, op, args, outs, &mut outputs)?;
    Ok(outputs)
}

/// [`compute`], for an operation that has one result: its memory.
#[inline]
fn compute_single(
    slot: &Arc<DeviceState>,
    op: &Op,
    args: &[Operand<'_>],
    out: &OutputMeta,
) -> Result<Storage, Fault> {
    let (mut result, is_there) = FreshOutput::of(slot, op, out)?;
    if is_there {
        // SAFETY: all of its bytes are zero, which is what the operation writes.
        return Ok(unsafe { result.memory.assume_init() });
    }
    let (_guards, views) = read(args);
    // SAFETY: the result was inferred from the arguments, which were checked.
    slot.noted(unsafe { slot.backend.run(op, &views, &mut [result.place()]) })?;
    // SAFETY: the operation has written every element.
    Ok(unsafe { result.memory.assume_init() })
}

/// Windows onto arguments, which `run_asked` or `run_single` checked or the executor made, with the guards that outlive them.
#[inline(always)]
fn read<'a>(args: &[Operand<'a>]) -> (SmallVec<[ReadGuard<'a>; 4]>, SmallVec<[View<'a>; 4]>) {
    let mut guards = SmallVec::new();
    let mut views = SmallVec::new();
    for arg in args {
        guards.push(arg.storage.read());
        // SAFETY: checked, as this function's contract says, and callers keep the guard for as long as the view.
        views.push(unsafe { arg.view() });
    }
    (guards, views)
}

/// [`compute`], with the results added to a list: they are too large to be handed from function to function where a
/// tenth of a microsecond counts.
#[inline]
fn compute_to(
    slot: &Arc<DeviceState>,
    op: &Op,
    args: &[Operand<'_>],
    outs: &[OutputMeta],
    outputs: &mut OutputVec,
) -> Result<(), Fault> {
    let mut results: SmallVec<[FreshOutput; 1]> = SmallVec::new();
    let mut are_there = !outs.is_empty();
    for out in outs {
        let (result, is_there) = FreshOutput::of(slot, op, out)?;
        are_there &= is_there;
        results.push(result);
    }
    if are_there {
        // SAFETY: all of their bytes are zero, which is what the operation writes.
        outputs.extend(results.into_iter().map(|result| unsafe { result.assume_init() }));
        return Ok(());
    }
    let (_guards, views) = read(args);
    let mut places: SmallVec<[ViewMut<'_>; 1]> = results.iter_mut().map(FreshOutput::place).collect();
    // SAFETY: the results were inferred from the arguments by `run_asked`, or are those of a copy that the executor makes.
    slot.noted(unsafe { slot.backend.run(op, &views, &mut places) })?;
    drop(places);
    // SAFETY: the operation has written every element.
    outputs.extend(results.into_iter().map(|result| unsafe { result.assume_init() }));
    Ok(())
}
