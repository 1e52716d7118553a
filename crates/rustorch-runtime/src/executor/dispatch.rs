//! Trying devices until one has run the operation.

use super::arrange::Brought;
use super::run::{Metas, compute};
use super::{HybridExecutor, OnFault, Operand, OutputVec, Slot};
use rustorch_core::{Device, DispatchError, Fault, Op, OutputMeta, Result, Verdict};
use smallvec::SmallVec;

impl HybridExecutor {
    #[cold]
    #[inline(never)]
    pub(super) fn dispatch(
        &self,
        op: &Op,
        args: &[Operand<'_>],
        metas: &Metas<'_>,
        outs: &[OutputMeta],
        _asked: Option<Device>,
        early: Option<Fault>,
    ) -> Result<OutputVec> {
        let shared = &self.0.shared;
        let mut early = early;
        let mut considered = Vec::new();
        for &index in &shared.chain {
            let slot = &shared.slots[index];
            if let Err(decline) = slot.backend.supports(op, metas) {
                considered.push((slot.device, Verdict::Declined(decline)));
                continue;
            }
            let first = early.take_if(|_| slot.device.is_cpu());
            match self.attempt(slot, op, args, outs, first) {
                Ok(outputs) => return Ok(outputs),
                Err(Fault::Invalid(error)) => return Err(*error),
                Err(fault) => considered.push((slot.device, Verdict::Failed(fault))),
            }
            if self.0.on_fault == OnFault::Error {
                break;
            }
        }
        Err(Box::new(DispatchError {
            op: op.name(),
            args: metas.iter().map(|x| (x.dtype, x.shape().clone())).collect(),
            considered,
        })
        .into())
    }

    fn attempt(
        &self,
        slot: &Slot,
        op: &Op,
        args: &[Operand<'_>],
        outs: &[OutputMeta],
        first: Option<Fault>,
    ) -> Result<OutputVec, Fault> {
        let mut first = first;
        self.with_memory(slot, || {
            if let Some(fault) = first.take() {
                return Err(fault);
            }
            let brought: SmallVec<[Brought<'_>; 4]> =
                args.iter().map(|arg| self.bring(arg, slot)).collect::<Result<_, Fault>>()?;
            let operands: SmallVec<[Operand<'_>; 4]> = brought.iter().map(Brought::operand).collect();
            compute(slot, op, &operands, outs)
        })
    }
}
