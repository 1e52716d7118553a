//! Moving bytes between devices.

use super::dispatch::lost_data;
use super::run::fresh;
use super::{HybridExecutor, Operand, Output, Slot};
use crate::storage::{Origin, Storage};
use crate::transfers::TransferMethod;
use rustorch_core::profile::host_ns;
use rustorch_core::{
    DType, DTypeKind, Device, Error, Fault, Layout, Result, Shape, View, ViewMut, bf16, copy_mismatch, f16,
    packed_bytes,
};

impl HybridExecutor {
    /// New memory on `device` with a copy of `bytes`: packed elements of `dtype` in row-major order.
    ///
    /// # Errors
    /// If the number of bytes does not fit the shape, bytes of `Bool` are neither 0 nor 1, the executor does not have
    /// the device, or the device fails.
    pub fn upload(&self, bytes: &[u8], dtype: DType, shape: &Shape, device: Device) -> Result<Output> {
        const NAME: &str = "upload";
        let layout = Layout::contiguous(shape.clone());
        rustorch_core::TensorMeta { dtype, layout: &layout, device }.check(NAME)?;
        let want = packed_bytes(dtype, shape.elements());
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
        let slot = self.slot(device)?;
        self.backend_of(device)?;
        let _sequence = self.sequence();
        let (output, started) = self.noting_loss(self.with_memory(slot, || {
            let output = fresh(slot, dtype, layout.clone())?;
            let started = host_ns();
            copy_in(slot, bytes, &output)?;
            Ok((output, started))
        }))?;
        if !device.is_cpu() {
            self.transferred(Device::Cpu, device, TransferMethod::Copy, bytes.len(), started);
        }
        self.sample_memory();
        Ok(output)
    }

    /// Copies the elements of `source`, packed in row-major order, to `bytes`.
    ///
    /// # Errors
    /// If the number of bytes does not fit the operand, or its device fails.
    pub fn download(&self, source: &Operand<'_>, bytes: &mut [u8]) -> Result<()> {
        const NAME: &str = "download";
        source.check_for(NAME)?;
        source.meta().check(NAME)?;
        let have = packed_bytes(source.dtype, source.layout.elements());
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
        let source = if self.0.shared.health.is_lost(source.device()) {
            copy = self.copy_elsewhere(source).ok_or_else(|| lost_data(NAME, source.device()))?;
            copy.operand()
        } else {
            *source
        };
        if source.layout.is_contiguous() {
            return Ok(self.noting_loss(self.copy_out(&source, bytes))?);
        }
        let packed = self.noting_loss(self.packed(&source))?;
        Ok(self.noting_loss(self.copy_out(&packed.operand(), bytes))?)
    }

    /// A copy of `source` on `device`, packed and in row-major order (a transposed matrix of a block type stays
    /// transposed); also where it is there already.
    ///
    /// # Errors
    /// If the executor does not have the device, or one of the devices fails.
    pub fn transfer(&self, source: &Operand<'_>, device: Device) -> Result<Output> {
        const NAME: &str = "transfer";
        source.check_for(NAME)?;
        source.meta().check(NAME)?;
        let slot = self.slot(device)?;
        self.backend_of(device)?;
        let _sequence = self.sequence();
        let copy;
        let source = if self.0.shared.health.is_lost(source.device()) {
            copy = self.copy_elsewhere(source).ok_or_else(|| lost_data(NAME, source.device()))?;
            &copy.operand()
        } else {
            source
        };
        if source.layout.is_contiguous() {
            return Ok(self.noting_loss(self.with_memory(slot, || self.move_run(source, slot)))?);
        }
        if source.dtype.is_quant() {
            // The rows of a block type cannot be turned into columns.
            return Ok(self.noting_loss(self.with_memory(slot, || self.move_span(source, slot)))?);
        }
        let packed = self.noting_loss(self.packed(source))?;
        if packed.storage.device() == device {
            return Ok(packed);
        }
        Ok(self.noting_loss(self.with_memory(slot, || self.move_run(&packed.operand(), slot)))?)
    }

    /// Remembers a device that turned out to be gone.
    fn noting_loss<T>(&self, result: Result<T, Fault>) -> Result<T, Fault> {
        if let Err(Fault::DeviceLost { device, .. }) = &result {
            self.0.shared.health.lose(*device);
        }
        result
    }

    /// Tries again, with what the device keeps for reuse given back, where memory runs out.
    pub(super) fn with_memory<T>(
        &self,
        slot: &Slot,
        mut f: impl FnMut() -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        match f() {
            Err(Fault::OutOfMemory { device, .. }) => {
                self.0.shared.memory.release_cached(device);
                if device != slot.device {
                    slot.pool.release_cached();
                }
                f()
            }
            other => other,
        }
    }

    /// A copy on `slot`'s device of elements that lie in one run.
    pub(super) fn move_run(&self, source: &Operand<'_>, slot: &Slot) -> Result<Output, Fault> {
        let output = fresh(slot, source.dtype, Layout::contiguous(source.layout.shape().clone()))?;
        let (from, to) = (source.device(), slot.device);
        let bytes = output.storage.bytes();
        if bytes == 0 {
            return Ok(output);
        }
        let _guard = source.storage.read();
        // SAFETY: checked by whoever was given it by the caller; the guard is held to the end of this function.
        let view = unsafe { source.view() };
        if !from.is_cpu() && !to.is_cpu() && from != to {
            // What the source still computes must be there before another device reads it, and is no part of the transfer.
            self.backend_of(from)?.synchronize()?;
        }
        let started = host_ns();
        let method = if from.is_cpu() {
            copy_in(slot, host_bytes(&view)?, &output)?;
            TransferMethod::Copy
        } else if to.is_cpu() {
            self.backend_of(from)?.copy_out(&view, host_bytes_mut(&output.storage)?)?;
            TransferMethod::Copy
        } else if from != to && self.copy_from_peer(&view, slot, &output)? {
            TransferMethod::Peer
        } else {
            let stage = fresh(self.cpu(), output.dtype, output.layout.clone())?;
            let stage = host_bytes_mut(&stage.storage)?;
            self.backend_of(from)?.copy_out(&view, stage)?;
            copy_in(slot, stage, &output)?;
            TransferMethod::Staging
        };
        if from != to {
            self.transferred(from, to, method, bytes, started);
        }
        if from.is_cpu() && !to.is_cpu() && source.storage.is_read_only() {
            output.storage.set_origin(Origin {
                storage: source.storage.clone(),
                dtype: source.dtype,
                start: source.layout.offset(),
            });
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
        self.backend_of(source.device())?.copy_out(&view, bytes)?;
        if !source.device().is_cpu() {
            self.transferred(source.device(), Device::Cpu, TransferMethod::Copy, bytes.len(), started);
        }
        Ok(())
    }

    /// Copies directly from a device that has finished everything, if there is a way that has not failed before. Remembers
    /// whether there is.
    fn copy_from_peer(&self, view: &View<'_>, slot: &Slot, output: &Output) -> Result<bool, Fault> {
        let (from, to) = (view.device(), slot.device);
        let transfers = self.0.shared.memory.transfers();
        if transfers.method(from, to) == Some(TransferMethod::Staging) {
            return Ok(false);
        }
        // SAFETY: fresh memory of the layout's size, of which nobody else has a handle.
        let mut place =
            unsafe { ViewMut::from_shared(output.storage.buffer(), output.dtype, &output.layout) };
        match slot.backend.copy_from_peer(view, &mut place) {
            Some(Ok(())) => {
                transfers.choose(from, to, TransferMethod::Peer);
                return Ok(true);
            }
            // A way that does not work is none; whatever it has left in fresh memory is overwritten.
            Some(Err(fault @ Fault::Backend { .. })) => {
                tracing::warn!(%from, %to, %fault, "the direct way fails: from now on by way of the processor's memory");
                transfers.choose(from, to, TransferMethod::Staging);
            }
            Some(Err(fault)) => return Err(fault),
            // There may be a way for whole words only: then this says nothing of other transfers.
            None if view.layout().offset() == 0 && output.storage.bytes().is_multiple_of(4) => {
                transfers.choose(from, to, TransferMethod::Staging);
            }
            None => {}
        }
        Ok(false)
    }

    /// A device's backend; a fault if the device is gone.
    pub(super) fn backend_of(&self, device: Device) -> Result<&dyn rustorch_core::Backend, Fault> {
        if self.0.shared.health.is_lost(device) {
            let message = "it failed earlier in this process".to_owned();
            return Err(Fault::DeviceLost { device, message });
        }
        self.backend(device).map_err(Fault::from)
    }

    /// A view, on another device, of the same elements, where the memory is a copy of a file that is still there.
    pub(super) fn copy_elsewhere(&self, source: &Operand<'_>) -> Option<Output> {
        let origin = source.storage.origin().filter(|origin| origin.dtype == source.dtype)?;
        let layout = Layout::new(
            source.layout.shape().clone(),
            source.layout.strides(),
            source.layout.offset() + origin.start,
        )
        .ok()?;
        Some(Output { storage: origin.storage.clone(), dtype: source.dtype, layout })
    }

    /// Whether elements that lie in one run have NaN among them.
    pub(super) fn holds_nan(&self, source: &Operand<'_>) -> Result<bool, Fault> {
        if !matches!(source.dtype.kind(), DTypeKind::Float | DTypeKind::Complex) {
            return Ok(false);
        }
        let mut bytes = vec![0; packed_bytes(source.dtype, source.layout.elements())];
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

/// Copies host bytes to fresh memory.
fn copy_in(slot: &Slot, bytes: &[u8], output: &Output) -> Result<(), Fault> {
    // SAFETY: fresh memory of the layout's size, of which nobody else has a handle.
    let mut place = unsafe { ViewMut::from_shared(output.storage.buffer(), output.dtype, &output.layout) };
    slot.backend.copy_in(bytes, &mut place)
}

fn host_bytes<'a>(view: &View<'a>) -> Result<&'a [u8], Fault> {
    view.as_bytes().ok_or_else(copy_mismatch)
}

/// The bytes of fresh host memory, set to zero.
#[allow(clippy::mut_from_ref, reason = "the memory is fresh, and its one handle is borrowed")]
pub(super) fn host_bytes_mut(storage: &Storage) -> Result<&mut [u8], Fault> {
    let address = storage.buffer().host_address().ok_or_else(copy_mismatch)?.as_ptr();
    // SAFETY: the storage has at least so many bytes, is fresh, and nobody else has a handle (callers make it right
    // before). Writing zeros makes it a valid slice of bytes.
    unsafe {
        address.write_bytes(0, storage.bytes());
        Ok(std::slice::from_raw_parts_mut(address, storage.bytes()))
    }
}
