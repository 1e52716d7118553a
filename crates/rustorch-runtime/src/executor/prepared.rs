//! Operations that a device made ready: they run there without planning, while nothing says otherwise.

use super::into::{claim, write_by};
use super::plan::Arg;
use super::{HybridExecutor, Operand};
use crate::device_state::DeviceState;
use crate::placement::Placement;
use rustorch_core::{Fault, Op, PrepareRequest, PreparedOp, View, ViewMut, Work};
use smallvec::SmallVec;
use std::sync::Arc;

/// An operation that its device made ready.
pub(crate) struct ReadyOp {
    op: PreparedOp,
    work: Work,
}

impl HybridExecutor {
    /// Whether an operation whose operands are all on a device runs there, if the device supports it, and nobody watches.
    pub(crate) fn runs_plainly_on(&self, state: &DeviceState) -> bool {
        let is_first = match self.0.placement {
            Placement::Resident => true,
            Placement::Prefer(device) | Placement::Require(device) => device == state.device,
            _ => false,
        };
        is_first
            && self.0.refusal.is_none()
            && self.0.capture.is_none()
            && self.0.avoided.is_none()
            && !self.0.check_numbers
            && !self.0.shared.recorder.is_watched()
            && !state.health.is_lost()
            && !state.health.has_quarantine()
    }

    /// What a device makes of an operation whose operands are all there; `None` if it cannot, or has nothing to gain.
    pub(crate) fn make_ready(
        &self,
        state: &Arc<DeviceState>,
        request: &PrepareRequest<'_>,
    ) -> Option<ReadyOp> {
        let &PrepareRequest { op, args, .. } = request;
        let inferred = op.infer(args).ok()?;
        let seen: SmallVec<[Arg<'_>; 4]> =
            args.iter().map(|&meta| Arg { meta, operand: None, home: Arc::clone(state) }).collect();
        self.ability(state, op, args, &seen, &inferred).ok()?;
        if !state.backend.capability().strided {
            return None;
        }
        let op = state.backend.prepare(request)?;
        Some(ReadyOp { op, work: request.op.work(args, &inferred) })
    }
}

impl ReadyOp {
    /// Runs it where its device made it ready.
    ///
    /// # Safety
    /// The device is the one that made it ready, dtypes and layouts are those that it was made ready for, and every operand was checked.
    /// Destinations are in distinct storages, and share memory with arguments only where these are `aliased`, element for element.
    pub(crate) unsafe fn run(
        &self,
        state: &DeviceState,
        args: &[Operand<'_>],
        destinations: &[Operand<'_>],
    ) -> Result<(), Fault> {
        let _claims = claim(destinations);
        state.noted(write_by(args, destinations, |args: &[View<'_>], outs: &mut [ViewMut<'_>]| {
            // SAFETY: this function's contract.
            unsafe { state.backend.run_prepared(&self.op, args, outs) }
        }))?;
        state.counters.ran(self.work);
        Ok(())
    }
}

/// Whether a result of the operation may be written over an argument by this device.
pub(crate) fn may_overwrite(state: &DeviceState, op: &Op, arg: usize, out: usize) -> bool {
    op.may_overwrite(arg, out) && state.backend.overwrites(op)
}
