//! Custom operations: closures on contiguous operands.

use super::copy::copy;
use super::strided::{part_mut, unreachable_memory};
use crate::ThreadPool;
use rustorch_core::{
    Buffer, CustomInput, CustomOp, CustomOutput, DType, Device, Fault, Layout, Shape, View, ViewMut,
    packed_bytes,
};

/// A contiguous copy of an operand that is not contiguous.
struct Packed {
    buffer: Buffer,
    dtype: DType,
    layout: Layout,
}

impl Packed {
    fn new(dtype: DType, shape: &Shape) -> Result<Packed, Fault> {
        let layout = Layout::contiguous(shape.clone());
        Ok(Packed { buffer: Buffer::host(packed_bytes(dtype, layout.numel()))?, dtype, layout })
    }

    fn view_mut(&mut self) -> ViewMut<'_> {
        // SAFETY: the buffer was made for the layout, is ours alone, and is aligned to every dtype.
        unsafe { ViewMut::new(&mut self.buffer, self.dtype, &self.layout) }
    }

    /// # Safety
    /// Every element was written.
    unsafe fn view(&self) -> View<'_> {
        // SAFETY: as above; the elements are valid by this function's contract.
        unsafe { View::new(&self.buffer, self.dtype, &self.layout) }
    }
}

pub(super) fn run(
    pool: &ThreadPool,
    op: &CustomOp,
    args: &[View<'_>],
    outs: &mut [ViewMut<'_>],
) -> Result<(), Fault> {
    if !op.has_cpu() {
        // A failure of this device alone: others may have a kernel.
        let message = format!("`{}` has no kernel for the CPU", op.name());
        return Err(Fault::Backend { device: Device::CPU, message });
    }
    let gather = |x: &View<'_>| {
        if x.layout().is_contiguous() {
            return Ok(None);
        }
        let mut packed = Packed::new(x.dtype(), x.layout().shape())?;
        copy(pool, x, &mut packed.view_mut())?;
        Ok(Some(packed))
    };
    let gathered = args.iter().map(gather).collect::<Result<Vec<_>, Fault>>()?;
    let mut inputs = Vec::with_capacity(args.len());
    for (x, packed) in args.iter().zip(&gathered) {
        // SAFETY: the copy has written every element.
        let view = packed.as_ref().map_or(*x, |packed| unsafe { packed.view() });
        inputs.push(CustomInput::new(view).ok_or_else(unreachable_memory)?);
    }

    let aside = |out: &ViewMut<'_>| match out.layout().is_contiguous() {
        true => Ok(None),
        false => Packed::new(out.dtype(), out.layout().shape()).map(Some),
    };
    let mut staged = outs.iter().map(aside).collect::<Result<Vec<_>, Fault>>()?;
    let mut views: Vec<ViewMut<'_>> = Vec::with_capacity(outs.len());
    for (out, staged) in outs.iter_mut().zip(&mut staged) {
        let layout = out.layout();
        views.push(staged.as_mut().map_or_else(|| part_mut(out, layout), Packed::view_mut));
    }
    let mut outputs = Vec::with_capacity(views.len());
    for view in &mut views {
        outputs.push(CustomOutput::zeroed(view).ok_or_else(unreachable_memory)?);
    }
    op.run_on_cpu(&inputs, &mut outputs)?;

    for (out, staged) in outs.iter_mut().zip(&staged) {
        if let Some(staged) = staged {
            // SAFETY: `CustomOutput::zeroed` has written every element.
            copy(pool, &unsafe { staged.view() }, out)?;
        }
    }
    Ok(())
}
