//! Planning: who could run an operation, in which order, and why the others could not.

use super::arrange::{arranged, reads};
use super::run::total_bytes;
use super::{HybridExecutor, Slot};
use crate::placement::{Placement, Situation};
use rustorch_core::{Decline, Device, Layout, Op, OutputMeta, Result, TensorMeta, Verdict, packed_bytes};
use smallvec::SmallVec;

/// Where the results of an operation are wanted.
#[derive(Clone, Copy)]
pub(super) enum Wish {
    /// Where the arguments are, or wherever the policy puts the operation.
    Anywhere,
    /// On this device.
    At(Device),
}

/// What planning found.
pub(super) struct Plan {
    /// Those that can, first choice first: indices into the slots.
    pub(super) order: SmallVec<[usize; 4]>,
    /// Those that cannot, with their reasons.
    pub(super) considered: Vec<(Device, Verdict)>,
    /// Where most bytes of the arguments are, or where the result is wanted.
    pub(super) home: Option<Device>,
}

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
    /// If the arguments do not fit the operation.
    pub fn estimate(&self, op: &Op, args: &[TensorMeta<'_>]) -> Result<Vec<Estimate>> {
        let outs = op.infer(args)?;
        let plan = self.plan(op, args, &outs, Wish::Anywhere);
        let devices = plan.order.iter().map(|&index| self.0.shared.slots[index].device);
        Ok(devices.map(|device| Estimate { device, us: self.cost_us(device, op, args, &outs) }).collect())
    }

    pub(super) fn plan(&self, op: &Op, args: &[TensorMeta<'_>], outs: &[OutputMeta], wish: Wish) -> Plan {
        let shared = &self.0.shared;
        let home = match wish {
            Wish::At(device) => Some(device),
            Wish::Anywhere => residence(args),
        };
        let mut considered = Vec::new();
        let mut able: SmallVec<[Device; 4]> = SmallVec::new();
        for index in self.candidates(wish) {
            let slot = &shared.slots[index];
            match self.ability(slot, op, args, outs) {
                Ok(()) => able.push(slot.device),
                Err(verdict) => {
                    if matches!(verdict, Verdict::Declined(_)) {
                        shared.recorder.declined(index);
                    }
                    considered.push((slot.device, verdict));
                }
            }
        }
        let work = Situation { op, class: op.class(args), bytes: total_bytes(args, outs), home };
        self.0.placement.order(&work, &mut able, |device| self.cost_us(device, op, args, outs));
        if args.is_empty()
            && let Wish::At(device) = wish
        {
            // Nothing but the wish ties it to a device.
            able.sort_by_key(|&d| d != device);
        }
        let order = able
            .iter()
            .filter_map(|&device| shared.slots.iter().position(|slot| slot.device == device))
            .collect();
        Plan { order, considered, home }
    }

    /// The chain, preceded by devices outside it that the policy or the caller names.
    fn candidates(&self, wish: Wish) -> SmallVec<[usize; 8]> {
        let shared = &self.0.shared;
        let mut candidates: SmallVec<[usize; 8]> = SmallVec::new();
        let mut named = self.0.placement.named();
        if let Wish::At(device) = wish {
            named.push(device);
        }
        for device in named {
            let slot = shared.slots.iter().position(|slot| slot.device == device);
            candidates.extend(slot.filter(|i| !shared.chain.contains(i) && !candidates.contains(i)));
        }
        candidates.extend_from_slice(&shared.chain);
        candidates
    }

    fn ability(
        &self,
        slot: &Slot,
        op: &Op,
        args: &[TensorMeta<'_>],
        outs: &[OutputMeta],
    ) -> Result<(), Verdict> {
        if self.0.placement.excludes(slot.device) {
            return Err(Verdict::Excluded);
        }
        if self.0.shared.health.is_lost(slot.device) {
            return Err(Verdict::Lost);
        }
        if self.0.shared.health.is_quarantined(slot.device, op, args) {
            return Err(Verdict::Declined(Decline::Quarantined));
        }
        let capability = slot.backend.capability();
        if let Some(most) = capability.max_buffer {
            let copied = args.iter().filter(|x| !reads(slot, x.device)).map(TensorMeta::packed_bytes);
            let made = outs.iter().map(|o| packed_bytes(o.dtype, o.shape.elements()));
            if copied.chain(made).any(|bytes| bytes as u64 > most) {
                return Err(Verdict::Declined(Decline::Attr("an operand exceeds its largest buffer")));
            }
        }
        // The device is asked about what it will get, not about what is there now.
        let layouts: SmallVec<[Option<Layout>; 4]> =
            args.iter().map(|x| arranged(slot, x.dtype, x.layout)).collect();
        let metas: SmallVec<[TensorMeta<'_>; 4]> = args
            .iter()
            .zip(&layouts)
            .map(|(x, layout)| TensorMeta {
                layout: layout.as_ref().unwrap_or(x.layout),
                device: if reads(slot, x.device) { x.device } else { slot.device },
                ..*x
            })
            .collect();
        slot.backend.supports(op, &metas).map_err(Verdict::Declined)
    }

    /// The expected time of an operation on a device, with the moving of arguments, in microseconds.
    fn cost_us(&self, device: Device, op: &Op, args: &[TensorMeta<'_>], outs: &[OutputMeta]) -> f64 {
        let Ok(slot) = self.slot(device) else { return f64::INFINITY };
        let model = self.cost_of(slot);
        let moving: f64 =
            args.iter().filter(|x| !reads(slot, x.device)).map(|x| self.moving_us(x, slot)).sum();
        model.run_us(op, args, outs) + moving
    }

    /// The expected time of bringing an argument to a device, by way of the processor's memory, in microseconds.
    fn moving_us(&self, arg: &TensorMeta<'_>, to: &Slot) -> f64 {
        let bytes = arg.packed_bytes() as u64;
        let down = match self.slot(arg.device) {
            Ok(from) if !from.device.is_cpu() => self.cost_of(from).download.us(bytes),
            _ => 0.0,
        };
        let up = if to.device.is_cpu() { 0.0 } else { self.cost_of(to).upload.us(bytes) };
        down + up
    }

    /// Whether devices that could run an operation but were not chosen were costlier, or merely later in the chain.
    pub(super) fn chooses_by_cost(&self) -> bool {
        self.0.placement == Placement::Auto
    }
}

/// The device with most bytes of the arguments. Of equals another one than the processor, then the first: what was
/// computed away from the processor is where the work has gone, and the processor's share follows it rather than call it
/// back at every step.
fn residence(args: &[TensorMeta<'_>]) -> Option<Device> {
    let mut bytes: SmallVec<[(Device, usize); 4]> = SmallVec::new();
    for x in args {
        match bytes.iter_mut().find(|(device, _)| *device == x.device) {
            Some((_, sum)) => *sum = sum.saturating_add(x.packed_bytes()),
            None => bytes.push((x.device, x.packed_bytes())),
        }
    }
    bytes.iter().rev().max_by_key(|(device, sum)| (*sum, !device.is_cpu())).map(|&(device, _)| device)
}
