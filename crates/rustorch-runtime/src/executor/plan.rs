//! Planning: candidate devices in placement order, and why the others declined.

use super::arrange::{arranged, copy_key};
use super::run::total_bytes;
use super::{HybridExecutor, Operand};
use crate::device_set::FallbackOrder;
use crate::device_state::DeviceState;
use crate::placement::{Placement, Situation};
use rustorch_core::{Decline, Device, Layout, Op, OutputMeta, Result, TensorMeta, Verdict, packed_bytes};
use smallvec::SmallVec;
use std::sync::Arc;

/// Where the results of an operation are wanted.
#[derive(Clone)]
pub(super) enum OutputDevice {
    /// Where the arguments are, or wherever the policy puts the operation.
    Anywhere,
    /// On this device.
    At(Arc<DeviceState>),
}

/// An argument as planning sees it.
pub(super) struct Arg<'a> {
    pub(super) meta: TensorMeta<'a>,
    /// Itself, where there is more than its description.
    pub(super) operand: Option<Operand<'a>>,
    /// The device that holds it.
    pub(super) home: Arc<DeviceState>,
}

/// What planning found.
pub(super) struct Plan {
    /// Those that can, first choice first.
    pub(super) order: SmallVec<[Arc<DeviceState>; 4]>,
    /// Those that cannot, with their reasons.
    pub(super) considered: Vec<(Device, Verdict)>,
    /// Where most bytes of the arguments are, or where the result is wanted.
    pub(super) home: Option<Arc<DeviceState>>,
}

/// How often memory that never changes is expected to be read on a device: a model's weights are, for each token.
const USES_OF_A_WEIGHT: f64 = 100.0;

/// A device that can run an operation, and how long that is expected to take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The device.
    pub device: Device,
    /// The expected time, the moving of arguments included, in microseconds; infinite where the device could not be
    /// measured.
    pub us: f64,
}

impl HybridExecutor {
    /// Which devices would run an operation on such arguments, in the order in which they would be tried, without
    /// running anything. Devices whose cost is not known yet are measured.
    ///
    /// # Errors
    /// If the arguments do not fit the operation, or are on devices that are not here.
    pub fn estimate(&self, op: &Op, args: &[TensorMeta<'_>]) -> Result<Vec<Estimate>> {
        let outs = op.infer(args)?;
        let seen: SmallVec<[Arg<'_>; 4]> = args
            .iter()
            .map(|&meta| Ok(Arg { meta, operand: None, home: self.state(meta.device)? }))
            .collect::<Result<_>>()?;
        let plan = self.plan(op, args, &seen, &outs, &OutputDevice::Anywhere)?;
        let estimate = |state: &Arc<DeviceState>| Estimate {
            device: state.device,
            us: self.cost_us(state, op, args, &seen, &outs),
        };
        Ok(plan.order.iter().map(estimate).collect())
    }

    pub(super) fn plan(
        &self,
        op: &Op,
        metas: &[TensorMeta<'_>],
        args: &[Arg<'_>],
        outs: &[OutputMeta],
        output_device: &OutputDevice,
    ) -> Result<Plan> {
        let home = match output_device {
            OutputDevice::At(state) => Some(Arc::clone(state)),
            OutputDevice::Anywhere => residence(args),
        };
        let mut considered = Vec::new();
        let mut able: SmallVec<[Arc<DeviceState>; 4]> = SmallVec::new();
        for state in self.candidates(args, output_device)? {
            match self.ability(&state, op, metas, args, outs) {
                Ok(()) => able.push(state),
                Err(verdict) => {
                    if matches!(verdict, Verdict::Declined(_)) {
                        state.counters.declined(op.work(metas, outs));
                    }
                    considered.push((state.device, verdict));
                }
            }
        }
        let work = Situation { op, class: op.class(metas), bytes: total_bytes(metas, outs), home };
        self.0.placement.order(&work, &mut able, |state| self.cost_us(state, op, metas, args, outs));
        if args.is_empty()
            && let OutputDevice::At(wanted) = output_device
        {
            // Nothing but the wish ties it to a device.
            able.sort_by_key(|state| !Arc::ptr_eq(state, wanted));
        }
        Ok(Plan { order: able, considered, home: work.home })
    }

    /// The fallback order, preceded by devices outside it that the policy or the caller names; before the CPU, which is last,
    /// the devices of arguments that are in neither.
    pub(super) fn candidates(
        &self,
        args: &[Arg<'_>],
        output_device: &OutputDevice,
    ) -> Result<SmallVec<[Arc<DeviceState>; 8]>> {
        let order = self.fallback()?;
        let (cpu, others) = order.split_last().expect("the CPU is in every order");
        let mut candidates: SmallVec<[Arc<DeviceState>; 8]> = SmallVec::new();
        let wanted = match output_device {
            OutputDevice::At(state) => Some(state),
            OutputDevice::Anywhere => None,
        };
        let named =
            self.0.named.iter().chain(wanted).filter(|state| !order.iter().any(|s| Arc::ptr_eq(s, state)));
        for state in named.chain(others).chain(args.iter().map(|arg| &arg.home)) {
            if !state.device.is_cpu() && !candidates.iter().any(|known| Arc::ptr_eq(known, state)) {
                candidates.push(Arc::clone(state));
            }
        }
        candidates.push(Arc::clone(cpu));
        Ok(candidates)
    }

    /// The devices that stand in for each other under the policy.
    pub(super) fn fallback(&self) -> Result<FallbackOrder> {
        let devices = &self.0.shared.devices;
        if self.0.placement.asks_for_all() { devices.order() } else { Ok(devices.open_order()) }
    }

    pub(super) fn ability(
        &self,
        state: &Arc<DeviceState>,
        op: &Op,
        metas: &[TensorMeta<'_>],
        args: &[Arg<'_>],
        outs: &[OutputMeta],
    ) -> Result<(), Verdict> {
        if self.0.placement.excludes(state.device) {
            return Err(Verdict::Excluded);
        }
        if state.health.is_lost() {
            return Err(Verdict::Lost);
        }
        if self.avoids(state) || state.health.is_quarantined(op, metas, outs) {
            return Err(Verdict::Declined(Decline::Quarantined));
        }
        let capability = state.backend.capability();
        if let Some(most) = capability.max_buffer {
            let copied = args.iter().filter(|x| !self.reads(state, &x.home)).map(|x| x.meta.packed_bytes());
            let made = outs.iter().map(|o| packed_bytes(o.dtype, o.shape.numel()));
            if copied.chain(made).any(|bytes| bytes as u64 > most) {
                return Err(Verdict::Declined(Decline::Attr("an operand exceeds its largest buffer")));
            }
        }
        // The device is asked about what it will get, not about what is there now.
        let layouts: SmallVec<[Option<Layout>; 4]> =
            metas.iter().map(|x| arranged(state, x.dtype, x.layout)).collect();
        let asked: SmallVec<[TensorMeta<'_>; 4]> = args
            .iter()
            .zip(&layouts)
            .map(|(x, layout)| TensorMeta {
                layout: layout.as_ref().unwrap_or(x.meta.layout),
                device: if self.reads(state, &x.home) { x.meta.device } else { state.device },
                ..x.meta
            })
            .collect();
        state.backend.supports(op, &asked).map_err(Verdict::Declined)
    }

    /// The expected time of an operation on a device, with the moving of arguments, in microseconds.
    pub(super) fn cost_us(
        &self,
        state: &Arc<DeviceState>,
        op: &Op,
        metas: &[TensorMeta<'_>],
        args: &[Arg<'_>],
        outs: &[OutputMeta],
    ) -> f64 {
        let moved = args.iter().filter(|x| !self.reads(state, &x.home));
        let moving: f64 = moved.map(|x| self.moving_us(x, state)).sum();
        self.cost_of(state).run_us(op, metas, outs) + moving
    }

    /// The expected time of bringing an argument to a device, by way of the CPU's memory, in microseconds.
    ///
    /// What the device keeps a copy of need not be moved. Of what never changes, such as weights in a file, each use pays its
    /// share, as long as there is room for the copy.
    fn moving_us(&self, arg: &Arg<'_>, to: &Arc<DeviceState>) -> f64 {
        let mut uses = 1.0;
        if let Some(operand) = &arg.operand
            && let Some(key) = copy_key(operand, to)
        {
            if operand.storage.kept_copy(key, to).is_some() {
                return 0.0;
            }
            if operand.storage.is_read_only() && to.copies.has_room_for(arg.meta.packed_bytes()) {
                uses = USES_OF_A_WEIGHT;
            }
        }
        let bytes = arg.meta.packed_bytes() as u64;
        let down = if arg.home.device.is_cpu() { 0.0 } else { self.cost_of(&arg.home).download.us(bytes) };
        let up = if to.device.is_cpu() { 0.0 } else { self.cost_of(to).upload.us(bytes) };
        (down + up) / uses
    }

    /// Whether devices that could run an operation but were not chosen were costlier, or merely later in the order.
    pub(super) fn chooses_by_cost(&self) -> bool {
        self.0.placement == Placement::Auto
    }
}

/// The device with most bytes of the arguments. Of equals another one than the CPU, then the first: what was computed away
/// from the CPU is where the work has gone, and the CPU's share follows it rather than call it back at every step.
pub(super) fn residence(args: &[Arg<'_>]) -> Option<Arc<DeviceState>> {
    let mut bytes: SmallVec<[(&Arc<DeviceState>, usize); 4]> = SmallVec::new();
    for x in args {
        match bytes.iter_mut().find(|(home, _)| Arc::ptr_eq(home, &x.home)) {
            Some((_, sum)) => *sum = sum.saturating_add(x.meta.packed_bytes()),
            None => bytes.push((&x.home, x.meta.packed_bytes())),
        }
    }
    let most = bytes.iter().rev().max_by_key(|(home, sum)| (*sum, !home.device.is_cpu()));
    most.map(|(home, _)| Arc::clone(home))
}
