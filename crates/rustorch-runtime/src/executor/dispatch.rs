//! Dispatch: runs an op on the first candidate that supports it, and falls back on faults.

use super::arrange::MovedArg;
use super::into::{Aliasing, Places, write};
use super::plan::{Arg, OutputDevice, Plan};
use super::run::{Metas, compute};
use super::{HybridExecutor, OnFault, Operand, Output, OutputVec};
use crate::device_state::DeviceState;
use crate::health::OpKey;
use crate::record::{Interval, Record, thread_number};
use rustorch_core::profile::{current_sequence, host_ns};
use rustorch_core::{Device, DispatchError, Error, Fault, Op, OutputMeta, Result, TensorMeta, Verdict};
use smallvec::SmallVec;
use std::sync::Arc;

/// An operation on its way to a device.
pub(super) struct Request<'a> {
    pub(super) op: &'a Op,
    pub(super) args: &'a [Operand<'a>],
    pub(super) metas: &'a [TensorMeta<'a>],
    pub(super) outs: &'a [OutputMeta],
    pub(super) output_device: OutputDevice,
    /// Where the results go, if they are not to have fresh memory.
    pub(super) places: Option<Places<'a>>,
    /// How the CPU failed already, before planning.
    pub(super) early: Option<Fault>,
}

/// Where the results are.
pub(super) enum DispatchOutcome {
    Fresh(OutputVec),
    /// In the places that the request named.
    InPlace,
}

/// How an attempt failed.
enum Failure {
    /// Before the operation ran: in bringing arguments.
    Moving(Fault),
    /// In making room for the results, or running.
    Running(Fault),
    /// While the result was written over an argument, from which nothing can be computed any more.
    Overwriting(Fault),
}

/// What is known so far about one dispatch.
struct Progress {
    considered: Vec<(Device, Verdict)>,
    moved: u64,
    /// Devices whose results have NaN that the CPU's may not have.
    suspects: SmallVec<[Arc<DeviceState>; 2]>,
    /// When the dispatch began, if somebody wants to know what is dispatched.
    started: Option<u64>,
    /// When the last device that was tried was called.
    run: Option<Interval>,
}

impl HybridExecutor {
    #[cold]
    #[inline(never)]
    pub(super) fn dispatch(&self, request: Request<'_>) -> Result<DispatchOutcome> {
        if let Some(capture) = &self.0.capture {
            return self.record_in(capture, &request);
        }
        let recovered = self.recover(request.op, request.args)?;
        if recovered.is_empty() {
            return self.dispatch_reachable(request);
        }
        let args: SmallVec<[Operand<'_>; 4]> = request
            .args
            .iter()
            .zip(&recovered)
            .map(|(arg, copy)| copy.as_ref().map_or(*arg, Output::operand))
            .collect();
        let metas: Metas<'_> = args.iter().map(Operand::meta).collect();
        self.dispatch_reachable(Request { args: &args, metas: &metas, ..request })
    }

    fn dispatch_reachable(&self, mut request: Request<'_>) -> Result<DispatchOutcome> {
        if let Some(refusal) = &self.0.refusal {
            return Err(refusal.clone());
        }
        let _sequence = self.sequence();
        let started = self.clock();
        let args: SmallVec<[Arg<'_>; 4]> = (request.args.iter().zip(request.metas))
            .map(|(arg, &meta)| Arg { meta, operand: Some(*arg), home: self.home(arg.storage) })
            .collect();
        let Plan { order, considered, home } =
            self.plan(request.op, request.metas, &args, request.outs, &request.output_device)?;
        let mut progress = Progress { considered, moved: 0, suspects: SmallVec::new(), started, run: None };
        for (position, slot) in order.iter().enumerate() {
            match self.attempt(slot, &mut request, &mut progress) {
                Ok(outcome) => {
                    if let Some(fault) = self.doubt(slot, &request, &outcome) {
                        progress.suspects.push(Arc::clone(slot));
                        self.note_fault(slot, request.op, &fault, &mut progress);
                    } else {
                        self.settle_suspicions(&request, &outcome, &progress);
                        slot.counters.ran(request.op.work(request.metas, request.outs));
                        progress.considered.push((slot.device, Verdict::Ran));
                        if self.chooses_by_cost() {
                            let rest = order[position + 1..].iter().map(|state| state.device);
                            progress.considered.extend(rest.map(|d| (d, Verdict::Costlier)));
                        }
                        return self.finish(slot, &request, outcome, home, progress);
                    }
                }
                Err(
                    Failure::Moving(Fault::Invalid(error))
                    | Failure::Running(Fault::Invalid(error))
                    | Failure::Overwriting(Fault::Invalid(error)),
                ) => return Err(*error),
                Err(failure) => {
                    let (fault, running, lost) = match failure {
                        Failure::Moving(fault) => (fault, false, false),
                        Failure::Running(fault) => (fault, true, false),
                        Failure::Overwriting(fault) => (fault, true, true),
                    };
                    self.learn(slot, &request, &fault, running);
                    self.note_fault(slot, request.op, &fault, &mut progress);
                    if lost {
                        self.record(&request, None, None, &progress);
                        return Err(fault.into());
                    }
                    // The data of a device that is gone now cannot be had for the next one either.
                    if matches!(fault, Fault::DeviceLost { .. })
                        && request.args.iter().any(|arg| arg.storage.is_lost())
                        && self.0.on_fault == OnFault::FallBack
                    {
                        return self.dispatch(request);
                    }
                }
            }
            if self.0.on_fault == OnFault::Error {
                break;
            }
        }
        self.record(&request, None, None, &progress);
        Err(Box::new(DispatchError {
            op: request.op.name(),
            args: request.metas.iter().map(|x| (x.dtype, x.shape().clone())).collect(),
            considered: progress.considered,
        })
        .into())
    }

    /// Moves the arguments to a device and runs the operation there; again after memory has been made free, if it ran
    /// out.
    fn attempt(
        &self,
        slot: &Arc<DeviceState>,
        request: &mut Request<'_>,
        progress: &mut Progress,
    ) -> Result<DispatchOutcome, Failure> {
        let early = request.early.take_if(|_| slot.device.is_cpu());
        let mut early = early.map(Failure::Running);
        let attempt = || match early.take() {
            Some(failure) => Err(failure),
            None => self.attempt_once(slot, request, progress),
        };
        self.with_memory(slot, attempt, |failure| match failure {
            Failure::Moving(fault) | Failure::Running(fault) => Some(fault),
            Failure::Overwriting(_) => None,
        })
    }

    fn attempt_once(
        &self,
        slot: &Arc<DeviceState>,
        request: &Request<'_>,
        progress: &mut Progress,
    ) -> Result<DispatchOutcome, Failure> {
        let mut moved_args: SmallVec<[MovedArg<'_>; 4]> = SmallVec::new();
        for arg in request.args {
            let arg = self.move_to(arg, slot).map_err(Failure::Moving)?;
            progress.moved += arg.bytes() as u64;
            moved_args.push(arg);
        }
        let args: SmallVec<[Operand<'_>; 4]> = moved_args.iter().map(MovedArg::operand).collect();
        if let Some(Places { destinations, aliasing }) = request.places
            && aliasing.allows(slot, request.op)
            && destinations.iter().all(|to| {
                Arc::ptr_eq(&self.home(to.storage), slot)
                    && (slot.backend.capability().strided || to.layout.is_contiguous())
            })
        {
            let called = progress.started.map(|_| host_ns());
            write(slot, request.op, &args, destinations).map_err(match aliasing {
                Aliasing::InPlace => Failure::Overwriting,
                _ => Failure::Running,
            })?;
            progress.run = called.map(Interval::since);
            return Ok(DispatchOutcome::InPlace);
        }
        let called = progress.started.map(|_| host_ns());
        let outputs = compute(slot, request.op, &args, request.outs).map_err(Failure::Running)?;
        progress.run = called.map(Interval::since);
        Ok(DispatchOutcome::Fresh(outputs))
    }

    /// Moves results to where they are wanted, and records.
    fn finish(
        &self,
        slot: &Arc<DeviceState>,
        request: &Request<'_>,
        outcome: DispatchOutcome,
        home: Option<Arc<DeviceState>>,
        mut progress: Progress,
    ) -> Result<DispatchOutcome> {
        let goal = match &request.output_device {
            OutputDevice::At(state) => Some(Arc::clone(state)),
            OutputDevice::Anywhere if self.0.is_partitioned => None,
            // Another device stood in for the one that holds the arguments.
            OutputDevice::Anywhere => home.filter(|home| {
                progress.considered.iter().any(|(device, verdict)| {
                    *device == home.device && matches!(verdict, Verdict::Declined(_) | Verdict::Failed(_))
                })
            }),
        };
        let goal = goal.filter(|goal| !Arc::ptr_eq(goal, slot) && !goal.health.is_lost());
        let (outcome, returned) = match (outcome, goal) {
            (DispatchOutcome::Fresh(outputs), Some(goal)) if request.places.is_none() => {
                match self.send(&outputs, &goal) {
                    Ok(sent) => {
                        let bytes: usize = sent.iter().map(|output| output.storage.bytes()).sum();
                        progress.moved += bytes as u64;
                        (DispatchOutcome::Fresh(sent), Some(goal.device))
                    }
                    Err(fault) => match request.output_device {
                        OutputDevice::At(_) => return Err(fault.into()),
                        // It serves as well from where it is.
                        OutputDevice::Anywhere => (DispatchOutcome::Fresh(outputs), None),
                    },
                }
            }
            (outcome, _) => (outcome, None),
        };
        self.record(request, Some(slot.device), returned, &progress);
        Ok(outcome)
    }

    fn send(&self, outputs: &[Output], slot: &Arc<DeviceState>) -> Result<OutputVec, Fault> {
        outputs.iter().map(|output| self.retrying(slot, || self.move_run(&output.operand(), slot))).collect()
    }

    /// Draws the consequences of a failure for later operations.
    fn learn(&self, state: &DeviceState, request: &Request<'_>, fault: &Fault, running: bool) {
        if running && matches!(fault, Fault::Backend { .. } | Fault::Numeric { .. } | Fault::Timeout { .. }) {
            self.quarantine(state, request);
        }
    }

    /// Keeps an operation away from a device for some time; not from the CPU, behind which there is none.
    fn quarantine(&self, state: &DeviceState, request: &Request<'_>) {
        if !state.device.is_cpu() {
            let key = OpKey::new(request.op, request.metas, request.outs);
            state.health.quarantine(key, self.0.shared.quarantine);
        }
    }

    fn note_fault(&self, state: &DeviceState, op: &Op, fault: &Fault, progress: &mut Progress) {
        progress.considered.push((state.device, Verdict::Failed(fault.clone())));
        self.warn_once(state, op, fault);
    }

    /// Counts a failure, and warns of the first of its kind.
    pub(crate) fn warn_once(&self, state: &DeviceState, op: &Op, fault: &Fault) {
        let device = state.device;
        state.counters.failed();
        if self.0.shared.warnings.first(Some(op.kind()), device, kind(fault)) {
            tracing::warn!(op = op.name(), %device, "{fault}");
        } else {
            tracing::debug!(op = op.name(), %device, "{fault}");
        }
    }

    /// Where asked for: a fault if a device's results have NaN.
    fn doubt(&self, slot: &DeviceState, request: &Request<'_>, outcome: &DispatchOutcome) -> Option<Fault> {
        if !self.0.check_numbers || slot.device.is_cpu() {
            return None;
        }
        match self.has_nan(request, outcome) {
            Ok(false) => None,
            Ok(true) => {
                Some(Fault::Numeric { device: slot.device, message: "the result has NaN".to_owned() })
            }
            Err(fault) => Some(fault),
        }
    }

    /// Devices whose NaN the CPU does not confirm lose the operation.
    fn settle_suspicions(&self, request: &Request<'_>, outcome: &DispatchOutcome, progress: &Progress) {
        if progress.suspects.is_empty() || self.has_nan(request, outcome) != Ok(false) {
            return;
        }
        for state in &progress.suspects {
            self.quarantine(state, request);
        }
    }

    fn has_nan(&self, request: &Request<'_>, outcome: &DispatchOutcome) -> Result<bool, Fault> {
        let fresh: SmallVec<[Operand<'_>; 1]>;
        let results = match outcome {
            DispatchOutcome::Fresh(outputs) => {
                fresh = outputs.iter().map(Output::operand).collect();
                &fresh[..]
            }
            DispatchOutcome::InPlace => request.places.map_or(&[][..], |places| places.destinations),
        };
        for result in results {
            if self.holds_nan(result)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Copies, found elsewhere, of arguments whose device is gone; empty if all devices are there.
    ///
    /// # Errors
    /// If there is no copy.
    fn recover(&self, op: &Op, args: &[Operand<'_>]) -> Result<SmallVec<[Option<Output>; 4]>> {
        if !args.iter().any(|arg| arg.storage.is_lost()) {
            return Ok(SmallVec::new());
        }
        args.iter()
            .map(|arg| match arg.storage.is_lost() {
                false => Ok(None),
                true => self.copy_elsewhere(arg).map(Some).ok_or_else(|| lost_data(op.name(), arg.device())),
            })
            .collect()
    }

    fn record(
        &self,
        request: &Request<'_>,
        device: Option<Device>,
        returned_to: Option<Device>,
        progress: &Progress,
    ) {
        let op = request.op.kind();
        let shown = device.map_or("none", |device| device.kind().name());
        tracing::trace!(op = op.name(), device = shown, moved = progress.moved, "dispatched");
        let Some(start_ns) = progress.started else { return };
        self.0.shared.recorder.push(Record {
            op,
            class: request.op.class(request.metas),
            work: request.op.work(request.metas, request.outs),
            args: request.metas.iter().map(|x| (x.dtype, x.shape().clone())).collect(),
            device,
            returned_to,
            moved_bytes: progress.moved,
            time: Interval::since(start_ns).duration(),
            sequence: current_sequence(),
            thread: thread_number(),
            start_ns,
            run: progress.run.filter(|_| device.is_some()),
            considered: progress.considered.clone(),
        });
        self.sample_memory();
    }
}

pub(super) fn lost_data(op: &'static str, device: Device) -> Error {
    let message = format!("it held the data of an argument of {op}, of which there is no copy elsewhere");
    Fault::DeviceLost { device, message }.into()
}

pub(super) fn kind(fault: &Fault) -> &'static str {
    match fault {
        Fault::Invalid(_) => "invalid",
        Fault::OutOfMemory { .. } => "out of memory",
        Fault::DeviceLost { .. } => "lost",
        Fault::Numeric { .. } => "numeric",
        Fault::Backend { .. } => "backend",
        Fault::Timeout { .. } => "timeout",
    }
}
