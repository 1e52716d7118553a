//! Bringing arguments to a device, in an arrangement that it takes.

use super::run::compute;
use super::{HybridExecutor, Operand, Output, Slot};
use crate::transfers::TransferMethod;
use rustorch_core::profile::host_ns;
use rustorch_core::{DType, Device, Fault, Layout, Op, OutputMeta, Shape};

/// An argument where a device can read it.
pub(super) enum Brought<'a> {
    /// It was there.
    There(Operand<'a>),
    /// A copy.
    Moved(Output),
}

impl Brought<'_> {
    pub(super) fn operand(&self) -> Operand<'_> {
        match self {
            Brought::There(operand) => *operand,
            Brought::Moved(output) => output.operand(),
        }
    }

    /// The bytes that were moved for it.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Brought::There(_) => 0,
            Brought::Moved(output) => output.storage.bytes(),
        }
    }
}

/// Whether a device reads memory of another where it is.
pub(super) fn reads(slot: &Slot, from: Device) -> bool {
    slot.device == from || slot.backend.capability().reaches.contains(&from)
}

/// The layout in which a device will get an argument.
///
/// Block types stay as they are: their arrangement is part of what operations ask of them.
pub(super) fn arranged(slot: &Slot, dtype: DType, layout: &Layout) -> Option<Layout> {
    (!slot.backend.capability().strided && !dtype.is_quant() && !layout.is_contiguous())
        .then(|| Layout::contiguous(layout.shape().clone()))
}

impl HybridExecutor {
    /// The argument where `slot`'s device can read it, and in an arrangement that it takes.
    pub(super) fn bring<'a>(&self, arg: &Operand<'a>, slot: &Slot) -> Result<Brought<'a>, Fault> {
        let near = reads(slot, arg.device());
        if arranged(slot, arg.dtype, arg.layout).is_some() {
            let packed = self.packed(arg)?;
            if reads(slot, packed.storage.device()) {
                return Ok(Brought::Moved(packed));
            }
            return Ok(Brought::Moved(self.move_run(&packed.operand(), slot)?));
        }
        if near {
            if arg.device() != slot.device {
                // What its own device still computes must be there before another one reads it.
                let started = host_ns();
                self.backend_of(arg.device())?.synchronize()?;
                let bytes = arg.meta().packed_bytes();
                self.transferred(arg.device(), slot.device, TransferMethod::Alias, bytes, started);
            }
            return Ok(Brought::There(*arg));
        }
        if arg.layout.is_contiguous() {
            return Ok(Brought::Moved(self.move_run(arg, slot)?));
        }
        // Transposed and broadcast views travel as the run that they span; only where that has gaps are they packed.
        let span = arg.layout.end() - arg.layout.offset();
        if arg.dtype.is_quant() || span <= arg.layout.elements() {
            return Ok(Brought::Moved(self.move_span(arg, slot)?));
        }
        let packed = self.packed(arg)?;
        if packed.storage.device() == slot.device {
            return Ok(Brought::Moved(packed));
        }
        Ok(Brought::Moved(self.move_run(&packed.operand(), slot)?))
    }

    /// The elements contiguous in row-major order: by their own device if it can, else by the processor.
    pub(super) fn packed(&self, arg: &Operand<'_>) -> Result<Output, Fault> {
        let outs = [OutputMeta { dtype: arg.dtype, shape: arg.layout.shape().clone() }];
        let slot = self.slot(arg.device())?;
        if slot.backend.supports(&Op::Copy, &[arg.meta()]).is_ok()
            && let Ok(mut outputs) = self.with_memory(slot, || compute(slot, &Op::Copy, &[*arg], &outs))
            && let Some(output) = outputs.pop()
        {
            return Ok(output);
        }
        let there = self.move_span(arg, self.cpu())?;
        let mut outputs = compute(self.cpu(), &Op::Copy, &[there.operand()], &outs)?;
        Ok(outputs.pop().expect("a copy has one result"))
    }

    /// A copy on `slot`'s device of everything from the first element to the last, with the same strides.
    pub(super) fn move_span(&self, arg: &Operand<'_>, slot: &Slot) -> Result<Output, Fault> {
        let layout = arg.layout;
        let len = layout.end() - layout.offset();
        let run = Layout::new(Shape::new([len].as_slice())?, [1].as_slice(), layout.offset())?;
        let moved = self.move_run(&Operand { layout: &run, ..*arg }, slot)?;
        Ok(Output { layout: Layout::new(layout.shape().clone(), layout.strides(), 0)?, ..moved })
    }
}
