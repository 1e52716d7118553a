//! Moving bytes between devices.

use super::dispatch::lost_data;
use super::run::FreshOutput;
use super::{HybridExecutor, Operand, Output, TargetDevice};
use crate::device_state::DeviceState;
use crate::scope::default_state;
use crate::storage::{Origin, Storage};
use crate::transfers::TransferMethod;
use rustorch_core::profile::host_ns;
use rustorch_core::{
    DType, DTypeKind, Device, Error, Fault, Layout, Result, Shape, View, bf16, copy_mismatch, f16,
    packed_bytes,
};
use std::sync::Arc;

impl HybridExecutor {
    /// New memory with a copy of `bytes`: packed elements of `dtype` in row-major order.
    ///
    /// # Errors
    /// If the number of bytes does not fit the shape, bytes of `Bool` are neither 0 nor 1, the executor does not have
    /// the device, or the device fails.
    pub fn upload<'a>(
        &self,
        bytes: &[u8],
        dtype: DType,
        shape: &Shape,
        target_device: impl Into<TargetDevice<'a>>,
    ) -> Result<Output> {
        const NAME: &str = "upload";
        let slot = &self.place(target_device.into())?;
        let device = slot.device;
        let layout = Layout::contiguous(shape.clone());
        rustorch_core::TensorMeta { dtype, layout: &layout, device }.check(NAME)?;
        let want = packed_bytes(dtype, shape.numel());
        if bytes.len() != want {
            return Err(Error::shape(
                NAME,
                format!("{dtype} values of this shape take {want} bytes, {} were given", bytes.len()),
                [shape],
            ));
        }
        if dtype == DType::Bool
            && let Some(bad) = bytes.iter().find(|&&b| b > 1)
        {
            return Err(Error::argument(NAME, format!("the byte {bad} is no bool; it must be 0 or 1")));
        }
        slot.usable()?;
        let _sequence = self.sequence();
        let (output, started) = self.retrying(slot, || {
            let mut output = FreshOutput::new(slot, dtype, shape)?;
            let started = host_ns();
            slot.noted(slot.backend.copy_in(bytes, &mut output.place()))?;
            // SAFETY: every element was copied there; those of `Bool` are booleans.
            Ok((unsafe { output.assume_init() }, started))
        })?;
        if !device.is_cpu() {
            self.transferred(Device::CPU, device, TransferMethod::Copy, bytes.len(), started);
        }
        self.sample_memory();
        if let Some(capture) = &self.0.capture {
            capture.note_made(&output.operand())?;
        }
        Ok(output)
    }

    /// Copies the elements of `source`, packed in row-major order, to `bytes`.
    ///
    /// # Errors
    /// If the number of bytes does not fit the operand, or its device fails.
    pub fn download(&self, source: &Operand<'_>, bytes: &mut [u8]) -> Result<()> {
        const NAME: &str = "download";
        source.check_for(NAME)?;
        if let Some(capture) = &self.0.capture {
            capture.check_unwritten(source.storage, NAME)?;
        }
        source.meta().check(NAME)?;
        let have = packed_bytes(source.dtype, source.layout.numel());
        if bytes.len() != have {
            return Err(Error::shape(
                NAME,
                format!(
                    "{} values of this shape take {have} bytes, room for {} was given",
                    source.dtype,
                    bytes.len()
                ),
                [source.layout.shape()],
            ));
        }
        let _sequence = self.sequence();
        let copy;
        let source = if source.storage.is_lost() {
            copy = self.copy_elsewhere(source).ok_or_else(|| lost_data(NAME, source.device()))?;
            copy.operand()
        } else {
            *source
        };
        if source.layout.is_contiguous() {
            return Ok(self.copy_out(&source, bytes)?);
        }
        let packed = self.packed(&source)?;
        Ok(self.copy_out(&packed.operand(), bytes)?)
    }

    /// Whether a storage is where [`transfer`](Self::transfer) would move it.
    ///
    /// # Errors
    /// If the executor does not have the device.
    pub fn is_at<'a>(&self, storage: &Storage, target_device: impl Into<TargetDevice<'a>>) -> Result<bool> {
        Ok(Arc::ptr_eq(&self.place(target_device.into())?, &self.home(storage)))
    }

    /// A copy of `source` on another device, packed and in row-major order (a transposed matrix of a block type stays
    /// transposed); also where it is there already.
    ///
    /// # Errors
    /// If the executor does not have the device, or one of the devices fails.
    pub fn transfer<'a>(
        &self,
        source: &Operand<'_>,
        target_device: impl Into<TargetDevice<'a>>,
    ) -> Result<Output> {
        const NAME: &str = "transfer";
        if let Some(capture) = &self.0.capture {
            return self.record_transfer_in(capture, source, &self.place(target_device.into())?);
        }
        source.check_for(NAME)?;
        source.meta().check(NAME)?;
        let slot = &self.place(target_device.into())?;
        slot.usable()?;
        let _sequence = self.sequence();
        let copy;
        let source = if source.storage.is_lost() {
            copy = self.copy_elsewhere(source).ok_or_else(|| lost_data(NAME, source.device()))?;
            &copy.operand()
        } else {
            source
        };
        if source.layout.is_contiguous() {
            return Ok(self.retrying(slot, || self.move_owned(source, slot))?);
        }
        if source.dtype.is_quant() {
            // The rows of a block type cannot be turned into columns.
            return Ok(self.retrying(slot, || self.move_span(source, slot, HybridExecutor::move_owned))?);
        }
        let packed = self.packed(source)?;
        if Arc::ptr_eq(&self.home(&packed.storage), slot) {
            return Ok(packed);
        }
        Ok(self.retrying(slot, || self.move_run(&packed.operand(), slot))?)
    }

    /// The device where something new goes.
    pub(super) fn place(&self, target_device: TargetDevice<'_>) -> Result<Arc<DeviceState>> {
        match target_device {
            TargetDevice::Default => {
                let default = default_state().map(|state| self.0.shared.devices.own(&state).unwrap_or(state));
                Ok(default.unwrap_or_else(|| Arc::clone(self.cpu())))
            }
            TargetDevice::Device(device) => self.state(device),
            TargetDevice::Beside(storage) => Ok(self.home(storage)),
        }
    }

    /// Makes room where memory is short: on the device that takes part, which may be one that the executor does not have, or on
    /// another one of this name, by way of whose memory data go; returns how many bytes were given back.
    fn make_room(&self, device: Device, slot: &DeviceState, bytes: usize) -> usize {
        match slot.device == device {
            true => slot.make_room(bytes),
            false => self.0.shared.memory.make_room(device, bytes) + slot.make_room(0),
        }
    }

    /// Tries again where memory runs out: with what the device keeps for reuse given back and room made for what was asked for, then
    /// without any copy of other devices' memory.
    pub(super) fn with_memory<T, E>(
        &self,
        slot: &Arc<DeviceState>,
        mut f: impl FnMut() -> Result<T, E>,
        fault: impl Fn(&E) -> Option<&Fault>,
    ) -> Result<T, E> {
        let mut result = f();
        for most in [0, usize::MAX] {
            let Err(error) = &result else { break };
            let Some(Fault::OutOfMemory { device, requested }) = fault(error) else { break };
            if most > 0 && slot.copies.is_empty() {
                break;
            }
            let freed = self.make_room(*device, slot, most.max(*requested).max(1));
            tracing::debug!(%device, freed, "out of memory; trying again");
            result = f();
        }
        result
    }

    /// [`with_memory`](Self::with_memory) for what fails by a fault.
    pub(super) fn retrying<T>(
        &self,
        slot: &Arc<DeviceState>,
        f: impl FnMut() -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        self.with_memory(slot, f, |fault| Some(fault))
    }

    /// [`move_run`](Self::move_run) for somebody who keeps it: should the device be lost, a file that is still there has the same.
    fn move_owned(&self, source: &Operand<'_>, slot: &Arc<DeviceState>) -> Result<Output, Fault> {
        let output = self.move_run(source, slot)?;
        if source.device().is_cpu() && !slot.device.is_cpu() && source.storage.is_read_only() {
            output.storage.set_origin(Origin {
                storage: source.storage.clone(),
                dtype: source.dtype,
                start: source.layout.offset(),
            });
        }
        Ok(output)
    }

    /// A copy on `slot`'s device of elements that lie in one run.
    pub(super) fn move_run(&self, source: &Operand<'_>, slot: &Arc<DeviceState>) -> Result<Output, Fault> {
        let mut output = FreshOutput::new(slot, source.dtype, source.layout.shape())?;
        let home = &self.home(source.storage);
        let (from, to) = (home.device, slot.device);
        let moves = !Arc::ptr_eq(home, slot);
        let bytes = output.memory.bytes();
        if bytes == 0 {
            // SAFETY: there is nothing to write.
            return Ok(unsafe { output.assume_init() });
        }
        let _guard = source.storage.read();
        // SAFETY: checked by whoever was given it by the caller; the guard is held to the end of this function.
        let view = unsafe { source.view() };
        if !from.is_cpu() && !to.is_cpu() && moves {
            // What the source still computes must be there before another device reads it, and is no part of the transfer.
            home.noted(home.usable()?.synchronize())?;
        }
        let started = host_ns();
        let method = if from.is_cpu() {
            slot.noted(
                slot.backend.copy_in(view.as_bytes().ok_or_else(copy_mismatch)?, &mut output.place()),
            )?;
            TransferMethod::Copy
        } else if to.is_cpu() {
            home.noted(home.usable()?.copy_out(&view, output.host_bytes()?))?;
            TransferMethod::Copy
        } else if moves && self.copy_from_peer(&view, home, slot, &mut output)? {
            TransferMethod::Peer
        } else {
            let mut stage = FreshOutput::new(self.cpu(), output.dtype, output.layout.shape())?;
            let stage = stage.host_bytes()?;
            home.noted(home.usable()?.copy_out(&view, stage))?;
            slot.noted(slot.backend.copy_in(stage, &mut output.place()))?;
            TransferMethod::Staging
        };
        // SAFETY: every element was copied there, by one of the ways.
        let output = unsafe { output.assume_init() };
        if moves {
            self.transferred(from, to, method, bytes, started);
        }
        Ok(output)
    }

    /// Copies elements that lie in one run to host memory.
    pub(super) fn copy_out(&self, source: &Operand<'_>, bytes: &mut [u8]) -> Result<(), Fault> {
        if bytes.is_empty() {
            return Ok(());
        }
        let started = host_ns();
        let _guard = source.storage.read();
        // SAFETY: as in `move_run`.
        let view = unsafe { source.view() };
        let home = self.home(source.storage);
        home.noted(home.usable()?.copy_out(&view, bytes))?;
        if !source.device().is_cpu() {
            self.transferred(source.device(), Device::CPU, TransferMethod::Copy, bytes.len(), started);
        }
        Ok(())
    }

    /// Copies directly from a device that has finished everything, if there is a way that has not failed before. Remembers
    /// whether there is.
    fn copy_from_peer(
        &self,
        view: &View<'_>,
        home: &Arc<DeviceState>,
        slot: &Arc<DeviceState>,
        output: &mut FreshOutput,
    ) -> Result<bool, Fault> {
        let (from, to) = (home.device, slot.device);
        let transfers = self.0.shared.memory.transfers();
        let own = |state| self.0.shared.devices.has(state);
        // What is known of ways goes by names, which mean the executor's own devices.
        if !own(home) || !own(slot) || transfers.method(from, to) == Some(TransferMethod::Staging) {
            return Ok(false);
        }
        let copied = slot.backend.copy_from_peer(view, &mut output.place());
        match copied.map(|result| home.noted(slot.noted(result))) {
            Some(Ok(())) => {
                transfers.choose(from, to, TransferMethod::Peer);
                return Ok(true);
            }
            // A way that does not work is none; whatever it has left in fresh memory is overwritten.
            Some(Err(fault @ Fault::Backend { .. })) => {
                tracing::warn!(%from, %to, %fault, "the direct way fails: from now on by way of the CPU's memory");
                transfers.choose(from, to, TransferMethod::Staging);
            }
            Some(Err(fault)) => return Err(fault),
            // There may be a way for whole words only: then this says nothing of other transfers.
            None if view.layout().offset() == 0 && output.memory.bytes().is_multiple_of(4) => {
                transfers.choose(from, to, TransferMethod::Staging);
            }
            None => {}
        }
        Ok(false)
    }

    /// A view, on another device, of the same elements, where the memory is a copy of a file that is still there.
    pub(super) fn copy_elsewhere(&self, source: &Operand<'_>) -> Option<Output> {
        let origin = source.storage.origin().filter(|origin| origin.dtype == source.dtype)?;
        let offset = source.layout.offset().checked_add(origin.start)?;
        let layout = source.layout.clone().at_offset(offset).ok()?;
        Some(Output { storage: origin.storage.clone(), dtype: source.dtype, layout })
    }

    /// Whether elements that lie in one run have NaN among them.
    pub(super) fn holds_nan(&self, source: &Operand<'_>) -> Result<bool, Fault> {
        if !matches!(source.dtype.kind(), DTypeKind::Float | DTypeKind::Complex) {
            return Ok(false);
        }
        let mut bytes = vec![0; packed_bytes(source.dtype, source.layout.numel())];
        match source.layout.is_contiguous() {
            true => self.copy_out(source, &mut bytes)?,
            false => self.copy_out(&self.packed(source)?.operand(), &mut bytes)?,
        }
        Ok(match source.dtype {
            DType::F16 => any_nan(&bytes, |b| f16::from_ne_bytes(b).is_nan()),
            DType::BF16 => any_nan(&bytes, |b| bf16::from_ne_bytes(b).is_nan()),
            DType::F32 | DType::C64 => any_nan(&bytes, |b| f32::from_ne_bytes(b).is_nan()),
            _ => any_nan(&bytes, |b| f64::from_ne_bytes(b).is_nan()),
        })
    }
}

fn any_nan<const N: usize>(bytes: &[u8], is_nan: impl Fn([u8; N]) -> bool) -> bool {
    bytes.as_chunks().0.iter().any(|&b| is_nan(b))
}
