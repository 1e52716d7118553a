//! Operations made ready: planned once, with their kernels and what the driver keeps of their launches.

use super::Engine;
use super::memory::Memory;
use super::run::Planned;
use crate::family::Plan;
use crate::plan::Request;
use crate::{Driver, LaunchCache, family};
use rustorch_core::{Fault, Op, PrepareRequest, PreparedOp, TensorMeta, View, ViewMut, packed_bytes};
use smallvec::SmallVec;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// What the engine makes of an operation for [`Backend::run_prepared`](rustorch_core::Backend::run_prepared).
struct Prepared<D: Driver> {
    op: Op,
    plan: Plan,
    kept: Kept<D>,
}

/// What is kept of a plan's launches from one run to the next.
pub(super) struct Kept<D: Driver> {
    /// By step, from the first run on.
    kernels: OnceLock<SmallVec<[Arc<D::Kernel>; 2]>>,
    /// By step; `None` where memory is another one each time.
    caches: Option<Mutex<SmallVec<[Option<Bound>; 2]>>>,
}

/// What the driver keeps of a launch with certain memory.
struct Bound {
    /// Which memory, by binding.
    numbers: SmallVec<[u64; 6]>,
    cache: Arc<LaunchCache>,
}

impl<D: Driver> Kept<D> {
    /// The kernels of the plan, compiled if they are new.
    pub(super) fn kernels(&self, engine: &Engine<D>, plan: &Plan) -> Result<&[Arc<D::Kernel>], Fault> {
        if let Some(kernels) = self.kernels.get() {
            return Ok(kernels);
        }
        let kernels = plan.steps.iter().map(|step| engine.kernel(&step.kernel));
        let kernels = kernels.collect::<Result<_, Fault>>()?;
        Ok(self.kernels.get_or_init(|| kernels))
    }

    /// The driver's cache for a step with this memory, in place of that for other memory.
    pub(super) fn cache<'a>(
        &self,
        step: usize,
        memory: impl Iterator<Item = &'a Memory<D>>,
    ) -> Option<Arc<LaunchCache>> {
        let mut caches = self.caches.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        let numbers: SmallVec<[u64; 6]> = memory.map(|memory| memory.number).collect();
        let bound = &mut caches[step];
        if bound.as_ref().is_none_or(|bound| bound.numbers != numbers) {
            *bound = Some(Bound { numbers, cache: Arc::default() });
        }
        bound.as_ref().map(|bound| Arc::clone(&bound.cache))
    }
}

impl<D: Driver> Engine<D> {
    /// Stands for [`Backend::prepare`](rustorch_core::Backend::prepare).
    pub(super) fn prepared(&self, request: &PrepareRequest<'_>) -> Option<PreparedOp> {
        let &PrepareRequest { op, args, aliased, outs, fresh, stays } = request;
        let is_direct = |(out, &is_fresh): (&TensorMeta<'_>, &bool)| {
            // Behind other results there may be other data in their last word.
            let bytes = if is_fresh { packed_bytes(out.dtype, out.layout.numel()) } else { usize::MAX };
            out.layout.numel() != 0 && self.is_direct(op, out, bytes)
        };
        if !outs.iter().zip(fresh).all(is_direct) {
            return None;
        }
        let overwrites = |i| aliased.iter().enumerate().any(|(arg, &is)| is && op.may_overwrite(arg, i));
        let in_place: SmallVec<[bool; 4]> = (0..outs.len()).map(overwrites).collect();
        let request = Request { in_place: &in_place, ..Request::new(op, args, outs, &self.hardware) };
        if self.may_multiply(&request) {
            return None;
        }
        let plan = family::plan(&request).ok()?;
        let caches = stays.then(|| Mutex::new(plan.steps.iter().map(|_| None).collect()));
        let kept = Kept { kernels: OnceLock::new(), caches };
        Some(PreparedOp::new(Prepared::<D> { op: op.clone(), plan, kept }))
    }

    /// Stands for [`Backend::run_prepared`](rustorch_core::Backend::run_prepared).
    pub(super) fn run_prepared_op(
        &self,
        prepared: &PreparedOp,
        args: &[View<'_>],
        outs: &[ViewMut<'_>],
    ) -> Result<(), Fault> {
        let device = self.hardware.device;
        let not_ours = || Fault::Backend { device, message: format!("{prepared:?} is another backend's") };
        let Prepared { op, plan, kept } = prepared.get::<Prepared<D>>().ok_or_else(not_ours)?;
        let args = args.iter().map(|x| self.memory(x.buffer()));
        let args = args.collect::<Result<SmallVec<[&Memory<D>; 4]>, Fault>>()?;
        let outs = outs.iter().map(|out| self.memory(out.buffer()));
        let outs = outs.collect::<Result<SmallVec<[&Memory<D>; 2]>, Fault>>()?;
        let planned = Planned { op, plan, kept: Some(kept) };
        self.launch(&self.shared.sync.submission(), &planned, &args, &outs)
    }
}
