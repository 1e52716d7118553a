//! Foreseeing where an operation of a graph will run, and whether placement would give it to a device that could compile it.

use super::arrange::MovedArg;
use super::plan::{Arg, OutputDevice, residence};
use super::run::{Metas, total_bytes};
use super::{HybridExecutor, Operand, Output};
use crate::device_state::DeviceState;
use crate::placement::{Placement, Situation};
use crate::storage::Storage;
use rustorch_core::{DType, Device, Fault, Layout, Op, OpType, OutputMeta, Result, TensorMeta, Verdict};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::sync::Arc;

/// An argument that is not there yet.
pub(crate) struct ForeseenArg<'a> {
    pub(crate) dtype: DType,
    pub(crate) layout: &'a Layout,
    /// The device that will hold it.
    pub(crate) home: Arc<DeviceState>,
    /// The memory, of a constant.
    pub(crate) storage: Option<&'a Storage>,
}

/// What is foreseen of an operation.
pub(crate) struct Foresight {
    /// The device that placement tries first; none if no device can run it by itself.
    pub(crate) runs_on: Option<Arc<DeviceState>>,
    /// Where the results will be.
    pub(crate) home: Option<Arc<DeviceState>>,
    /// The expected time, moving included, in microseconds; infinite if a device's time is unknown.
    pub(crate) us: f64,
    /// What the other devices say, in the order in which they are tried; nothing of those that merely come later.
    pub(crate) considered: SmallVec<[(Device, Verdict); 1]>,
    /// For each device that compiles: whether placement would give it the operation.
    pub(crate) sent: SmallVec<[Result<(), Verdict>; 2]>,
    /// Whether it is heavy enough to grow a region from.
    pub(crate) is_heavy: bool,
}

/// Arithmetic from which an operation of any class is heavy.
const HEAVY_FLOPS: u64 = 1 << 20;

impl HybridExecutor {
    /// The devices that compile parts of graphs, in the order in which they are tried, and those that do not: those of the policy, of the
    /// fallback order, and `others`, which hold some of a graph's tensors.
    ///
    /// # Errors
    /// If the environment asks for a fallback order that makes no sense.
    pub(crate) fn compilers(
        &self,
        others: impl IntoIterator<Item = Arc<DeviceState>>,
    ) -> Result<(Vec<Arc<DeviceState>>, Vec<Device>)> {
        let mut devices: Vec<Arc<DeviceState>> = Vec::new();
        for state in self.0.named.iter().cloned().chain(self.fallback()?.iter().cloned()).chain(others) {
            if !devices.iter().any(|known| Arc::ptr_eq(known, &state)) {
                devices.push(state);
            }
        }
        let (compiling, rest): (Vec<_>, Vec<_>) =
            devices.into_iter().partition(|state| state.backend.compiler().is_some() && !self.avoids(state));
        Ok((compiling, rest.iter().map(|state| state.device).collect()))
    }

    /// Whether some device may compile parts of a captured graph, and nobody watches single operations.
    pub fn compiles_regions(&self) -> bool {
        self.0.refusal.is_none()
            && self.0.capture.is_none()
            && !self.0.shared.recorder.is_watched()
            && self.compilers([]).is_ok_and(|(compilers, _)| !compilers.is_empty())
    }

    /// Where an operation will run, and whether placement would give it to devices that could compile it.
    ///
    /// # Errors
    /// As [`compilers`](Self::compilers).
    pub(crate) fn foresee(
        &self,
        op: &Op,
        args: &[ForeseenArg<'_>],
        outs: &[OutputMeta],
        at: Option<&Arc<DeviceState>>,
        compilers: &[Arc<DeviceState>],
    ) -> Result<Foresight> {
        let args: SmallVec<[Arg<'_>; 4]> = (args.iter())
            .map(|arg| Arg {
                meta: TensorMeta { dtype: arg.dtype, layout: arg.layout, device: arg.home.device },
                operand: arg.storage.map(|storage| Operand { storage, dtype: arg.dtype, layout: arg.layout }),
                home: Arc::clone(&arg.home),
            })
            .collect();
        let metas: Metas<'_> = args.iter().map(|arg| arg.meta).collect();
        let output_device = at.map_or(OutputDevice::Anywhere, |state| OutputDevice::At(Arc::clone(state)));
        let home = at.cloned().or_else(|| residence(&args));
        let candidates = self.candidates(&args, &output_device)?;
        let verdicts: SmallVec<[Result<(), Verdict>; 8]> =
            candidates.iter().map(|state| self.ability(state, op, &metas, &args, outs)).collect();
        let class = op.class(&metas);
        let work = Situation { op, class, bytes: total_bytes(&metas, outs), home };
        // Asked more than once, and dear where many rates are known.
        let known: RefCell<SmallVec<[(*const DeviceState, f64); 4]>> = RefCell::default();
        let cost = |state: &Arc<DeviceState>| {
            let at = Arc::as_ptr(state);
            let found = known.borrow().iter().find(|(known, _)| *known == at).map(|(_, us)| *us);
            found.unwrap_or_else(|| {
                let us = self.cost_us(state, op, &metas, &args, outs);
                known.borrow_mut().push((at, us));
                us
            })
        };
        // As planning orders those that can, and one more.
        let first = |more: Option<&Arc<DeviceState>>| {
            let able = candidates.iter().zip(&verdicts);
            let able = able.filter(|(state, verdict)| {
                verdict.is_ok() || more.is_some_and(|more| Arc::ptr_eq(more, state))
            });
            let mut able: SmallVec<[Arc<DeviceState>; 4]> =
                able.map(|(state, _)| Arc::clone(state)).collect();
            self.0.placement.order(&work, &mut able, cost);
            if args.is_empty()
                && let Some(wanted) = at
            {
                able.sort_by_key(|state| !Arc::ptr_eq(state, wanted));
            }
            able.into_iter().next()
        };
        let runs_on = first(None);
        let sent = compilers.iter().map(|state| {
            if self.0.placement.excludes(state.device) {
                return Err(Verdict::Excluded);
            }
            if state.health.is_lost() {
                return Err(Verdict::Lost);
            }
            match self.0.placement == Placement::Auto
                || first(Some(state)).is_some_and(|first| Arc::ptr_eq(&first, state))
            {
                true => Ok(()),
                false => Err(Verdict::Costlier),
            }
        });
        let sent = sent.collect();
        let home = at.cloned().or_else(|| runs_on.clone());
        let us = runs_on.as_ref().map_or(f64::INFINITY, cost);
        let others = candidates.iter().zip(verdicts);
        let others = others
            .filter(|(state, _)| runs_on.as_ref().is_none_or(|runs_on| !Arc::ptr_eq(runs_on, state)))
            .filter_map(|(state, verdict)| match verdict {
                Err(verdict) => Some((state.device, verdict)),
                Ok(()) => self.chooses_by_cost().then_some((state.device, Verdict::Costlier)),
            });
        let considered = others.collect();
        let is_heavy = matches!(class, OpType::LinearAlgebra | OpType::Convolution | OpType::Attention)
            || op.work(&metas, outs).flops >= HEAVY_FLOPS;
        Ok(Foresight { runs_on, home, us, considered, sent, is_heavy })
    }

    /// The expected time of moving so many bytes, in microseconds; none where the device reads them where they are.
    pub(crate) fn crossing_us(&self, from: &Arc<DeviceState>, to: &Arc<DeviceState>, bytes: u64) -> f64 {
        if self.reads(to, from) {
            return 0.0;
        }
        let down = if from.device.is_cpu() { 0.0 } else { self.cost_of(from).download.us(bytes) };
        let up = if to.device.is_cpu() { 0.0 } else { self.cost_of(to).upload.us(bytes) };
        down + up
    }

    /// An operand where a device reads it: a copy of its own, if it was elsewhere.
    pub(crate) fn copy_for(
        &self,
        source: &Operand<'_>,
        state: &Arc<DeviceState>,
    ) -> Result<Option<Output>, Fault> {
        if self.reads(state, &self.home(source.storage)) {
            return Ok(None);
        }
        match self.retrying(state, || self.move_to(source, state))? {
            MovedArg::There(_) => Ok(None),
            MovedArg::Moved(output) | MovedArg::Kept(output) => Ok(Some(output)),
        }
    }
}
