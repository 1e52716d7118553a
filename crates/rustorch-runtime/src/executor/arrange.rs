//! Moving arguments to a device, in a layout that it supports.

use super::run::compute;
use super::{HybridExecutor, Operand, Output};
use crate::device_state::DeviceState;
use crate::storage::{CopyKey, Storage};
use crate::transfers::TransferMethod;
use rustorch_core::profile::host_ns;
use rustorch_core::{CopyOp, DType, Fault, Layout, Op, OutputMeta, Shape};
use std::sync::Arc;

/// An argument where a device can read it.
pub(super) enum MovedArg<'a> {
    /// It was there.
    There(Operand<'a>),
    /// A copy.
    Moved(Output),
    /// A copy that was there from before.
    Kept(Output),
}

impl MovedArg<'_> {
    pub(super) fn operand(&self) -> Operand<'_> {
        match self {
            MovedArg::There(operand) => *operand,
            MovedArg::Moved(output) | MovedArg::Kept(output) => output.operand(),
        }
    }

    /// The bytes that were moved for it.
    pub(super) fn bytes(&self) -> usize {
        match self {
            MovedArg::There(_) | MovedArg::Kept(_) => 0,
            MovedArg::Moved(output) => output.storage.bytes(),
        }
    }
}

/// What a copy of an argument would be of; none for a device that keeps no copies, the CPU, and for nothing.
pub(super) fn copy_key(arg: &Operand<'_>, slot: &DeviceState) -> Option<CopyKey> {
    let (start, end) = (arg.layout.offset(), arg.layout.end());
    // Read before the elements are: a copy may be newer than its version says, but never older.
    let version = arg.storage.version();
    (!slot.device.is_cpu() && start < end).then_some(CopyKey {
        dtype: arg.dtype,
        start,
        elements: end - start,
        version,
    })
}

/// The layout in which a device will get an argument.
///
/// Block types stay as they are: their arrangement is part of what operations ask of them.
pub(super) fn arranged(slot: &DeviceState, dtype: DType, layout: &Layout) -> Option<Layout> {
    (!slot.backend.capability().strided && !dtype.is_quant() && !layout.is_contiguous())
        .then(|| Layout::contiguous(layout.shape().clone()))
}

impl HybridExecutor {
    /// The device that holds a storage: one of the executor's, or the one that the storage carries.
    pub(crate) fn home(&self, storage: &Storage) -> Arc<DeviceState> {
        let devices = &self.0.shared.devices;
        match storage.state().or_else(|| storage.symbol().map(|symbol| &symbol.state)) {
            Some(state) if !state.device.is_cpu() => devices.own(state).unwrap_or_else(|| Arc::clone(state)),
            // Every CPU works with every other one's memory.
            _ => Arc::clone(devices.cpu()),
        }
    }

    /// Whether a device reads memory of another where it is.
    pub(crate) fn reads(&self, state: &Arc<DeviceState>, home: &Arc<DeviceState>) -> bool {
        Arc::ptr_eq(state, home)
            || state.device.is_cpu() && home.device.kind().info().shares_host_memory
            // Names mean the executor's own devices.
            || state.backend.capability().reaches.contains(&home.device) && self.0.shared.devices.has(home)
    }

    /// The argument where `slot`'s device can read it, and in an arrangement that it takes.
    pub(super) fn move_to<'a>(
        &self,
        arg: &Operand<'a>,
        slot: &Arc<DeviceState>,
    ) -> Result<MovedArg<'a>, Fault> {
        let home = self.home(arg.storage);
        let near = self.reads(slot, &home);
        if arranged(slot, arg.dtype, arg.layout).is_some() {
            let packed = self.packed(arg)?;
            if self.reads(slot, &self.home(&packed.storage)) {
                return Ok(MovedArg::Moved(packed));
            }
            return Ok(MovedArg::Moved(self.move_run(&packed.operand(), slot)?));
        }
        if near {
            if !Arc::ptr_eq(&home, slot) {
                // What its own device still computes must be there before another one reads it.
                let started = host_ns();
                home.noted(home.usable()?.synchronize())?;
                let bytes = arg.meta().packed_bytes();
                self.transferred(arg.device(), slot.device, TransferMethod::Alias, bytes, started);
            }
            return Ok(MovedArg::There(*arg));
        }
        // Transposed and broadcast views travel as the run that they span; only where that has gaps are they packed.
        let span = arg.layout.end() - arg.layout.offset();
        if arg.dtype.is_quant() || span <= arg.layout.numel() {
            return self.copy_on(arg, slot);
        }
        let packed = self.packed(arg)?;
        if Arc::ptr_eq(&self.home(&packed.storage), slot) {
            return Ok(MovedArg::Moved(packed));
        }
        Ok(MovedArg::Moved(self.move_run(&packed.operand(), slot)?))
    }

    /// A copy of everything from the first element to the last, which the device may have kept from before.
    fn copy_on<'a>(&self, arg: &Operand<'a>, slot: &Arc<DeviceState>) -> Result<MovedArg<'a>, Fault> {
        let Some(key) = copy_key(arg, slot) else {
            return Ok(MovedArg::Moved(self.move_span(arg, slot, HybridExecutor::move_run)?));
        };
        if let Some(storage) = arg.storage.kept_copy(key, slot) {
            return Ok(MovedArg::Kept(Output {
                storage,
                dtype: arg.dtype,
                layout: arg.layout.clone().at_offset(0)?,
            }));
        }
        let moved = self.move_span(arg, slot, HybridExecutor::move_run)?;
        arg.storage.keep_copy(key, &moved.storage, slot);
        Ok(MovedArg::Moved(moved))
    }

    /// The elements contiguous in row-major order: by their own device if it can, else by the CPU; also by the CPU where the
    /// executor checks for NaN and the device's copy has some.
    pub(super) fn packed(&self, arg: &Operand<'_>) -> Result<Output, Fault> {
        let outs = [OutputMeta { dtype: arg.dtype, shape: arg.layout.shape().clone() }];
        let slot = &self.home(arg.storage);
        if slot.backend.supports(&Op::Copy(CopyOp), &[arg.meta()]).is_ok()
            && let Ok(mut outputs) = self.retrying(slot, || compute(slot, &Op::Copy(CopyOp), &[*arg], &outs))
            && let Some(output) = outputs.pop()
            && (!self.0.check_numbers || slot.device.is_cpu() || !self.holds_nan(&output.operand())?)
        {
            return Ok(output);
        }
        let there = self.move_span(arg, self.cpu(), HybridExecutor::move_run)?;
        let mut outputs = compute(self.cpu(), &Op::Copy(CopyOp), &[there.operand()], &outs)?;
        Ok(outputs.pop().expect("a copy has one result"))
    }

    /// A copy on `slot`'s device, made by `copy`, of everything from the first element to the last, with the same strides.
    pub(super) fn move_span(
        &self,
        arg: &Operand<'_>,
        slot: &Arc<DeviceState>,
        copy: impl Fn(&HybridExecutor, &Operand<'_>, &Arc<DeviceState>) -> Result<Output, Fault>,
    ) -> Result<Output, Fault> {
        let layout = arg.layout;
        let len = layout.end() - layout.offset();
        let run = Layout::new(Shape::new([len].as_slice())?, [1].as_slice(), layout.offset())?;
        let moved = copy(self, &Operand { layout: &run, ..*arg }, slot)?;
        Ok(Output { layout: layout.clone().at_offset(0)?, ..moved })
    }
}
