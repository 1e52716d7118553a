//! Sums over a profile.

use super::{Operation, Profile, duration};
use crate::transfers::TransferMethod;
use rustorch_core::profile::SpanKind;
use rustorch_core::{DType, Device, OpKind, OpType, Verdict};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

/// All operations of one name on arguments of the same dtypes on one device.
#[derive(Clone, Debug, PartialEq)]
pub struct OpSummary {
    /// The operation's name.
    pub op: OpKind,
    /// Its class.
    pub class: OpType,
    /// The dtypes of its arguments.
    pub dtypes: Vec<DType>,
    /// The device; none if all failed.
    pub device: Option<Device>,
    /// How often.
    pub count: usize,
    /// The time in all: the device's where it is known, else the caller's.
    pub time: Duration,
    /// Of how many the device's time is known.
    pub timed: usize,
    /// The part of all operations' time, from 0 to 1.
    pub share: f64,
    /// From the calls to the results, as the caller saw it.
    pub host_time: Duration,
    /// The bytes that were moved for them.
    pub moved_bytes: u64,
}

impl OpSummary {
    /// The time of one.
    pub fn mean(&self) -> Duration {
        Duration::from_nanos((self.time.as_nanos() / self.count.max(1) as u128) as u64)
    }

    /// The operation and the dtypes that it met, as `matmul(f32, q8_0)`.
    pub fn label(&self) -> String {
        let dtypes: Vec<&str> = self.dtypes.iter().map(|dtype| dtype.name()).collect();
        format!("{}({})", self.op, dtypes.join(", "))
    }
}

/// What one device did.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceTotal {
    /// The device.
    pub device: Device,
    /// Its name.
    pub name: String,
    /// The operations that it ran.
    pub operations: usize,
    /// How long it computed; `None` if it ran something and does not tell how long.
    pub compute: Option<Duration>,
    /// How long it copied, by its own word; the CPU's copies are among the transfers.
    pub copy: Duration,
    /// The bytes that were moved to it.
    pub received: u64,
    /// The bytes that were moved from it.
    pub sent: u64,
    /// The most memory that was seen in use.
    pub peak_allocated: u64,
}

/// What was copied from one device to another by one method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferTotal {
    /// Where it was.
    pub from: Device,
    /// Where it went.
    pub to: Device,
    /// How.
    pub method: TransferMethod,
    /// How often.
    pub count: usize,
    /// The bytes in all.
    pub bytes: u64,
    /// The time in all, as callers saw it.
    pub time: Duration,
}

/// Why a device did not run an operation that came to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fallback {
    /// The operation's name.
    pub op: OpKind,
    /// The device that did not run it.
    pub device: Device,
    /// The device that did; none if all failed.
    pub ran_on: Option<Device>,
    /// What it said.
    pub reason: String,
    /// How often.
    pub count: usize,
}

impl Profile {
    /// The operations summed up, those that took longest first.
    pub fn by_operation(&self) -> Vec<OpSummary> {
        type Key = (OpKind, Vec<DType>, Option<Device>);
        let mut groups: Vec<OpSummary> = Vec::new();
        let mut places: BTreeMap<(OpKind, String, Option<Device>), usize> = BTreeMap::new();
        for Operation { record, device_time } in &self.operations {
            let (op, dtypes, device): Key =
                (record.op, record.args.iter().map(|(dtype, _)| *dtype).collect(), record.device);
            let names: Vec<&str> = dtypes.iter().map(|dtype| dtype.name()).collect();
            let place = *places.entry((op, names.join(","), device)).or_insert_with(|| {
                groups.push(OpSummary {
                    op,
                    class: record.class,
                    dtypes,
                    device,
                    count: 0,
                    time: Duration::ZERO,
                    timed: 0,
                    share: 0.0,
                    host_time: Duration::ZERO,
                    moved_bytes: 0,
                });
                groups.len() - 1
            });
            let group = &mut groups[place];
            group.count += 1;
            group.time += device_time.unwrap_or(record.time);
            group.timed += usize::from(device_time.is_some());
            group.host_time += record.time;
            group.moved_bytes += record.moved_bytes;
        }
        let total: Duration = groups.iter().map(|group| group.time).sum();
        for group in &mut groups {
            group.share = group.time.as_secs_f64() / total.as_secs_f64().max(1e-12);
        }
        groups.sort_by_key(|group| Reverse(group.time));
        groups
    }

    /// What each device did, in the executor's order.
    pub fn by_device(&self) -> Vec<DeviceTotal> {
        let totals = self.devices.iter().map(|(device, name)| {
            let device = *device;
            let ran = self.operations.iter().filter(|o| o.record.device == Some(device));
            let known = ran.clone().all(|o| o.device_time.is_some());
            let busy = |kind: SpanKind| -> Duration {
                let own = self.spans.iter().filter(|(d, span)| *d == device && span.kind == kind);
                own.map(|(_, span)| duration(span)).sum()
            };
            let moved = self.transfers.iter().filter(|t| t.method != TransferMethod::Alias);
            DeviceTotal {
                device,
                name: name.clone(),
                operations: ran.count(),
                compute: known.then(|| busy(SpanKind::Compute)),
                copy: busy(SpanKind::Copy),
                received: moved.clone().filter(|t| t.to == device).map(|t| t.bytes).sum(),
                sent: moved.filter(|t| t.from == device).map(|t| t.bytes).sum(),
                peak_allocated: self
                    .memory
                    .iter()
                    .filter(|sample| sample.device == device)
                    .map(|sample| sample.allocated)
                    .max()
                    .unwrap_or(0),
            }
        });
        totals.collect()
    }

    /// The transfers summed up by source, destination and method.
    pub fn by_transfer(&self) -> Vec<TransferTotal> {
        let mut totals: BTreeMap<(Device, Device, TransferMethod), TransferTotal> = BTreeMap::new();
        for t in &self.transfers {
            let total = totals.entry((t.from, t.to, t.method)).or_insert(TransferTotal {
                from: t.from,
                to: t.to,
                method: t.method,
                count: 0,
                bytes: 0,
                time: Duration::ZERO,
            });
            total.count += 1;
            total.bytes += t.bytes;
            total.time += t.time.duration();
        }
        totals.into_values().collect()
    }

    /// Why devices did not run what came to them: declined, failed or lost. Devices that were merely costlier, or that
    /// the policy excludes, are not among them.
    pub fn fallbacks(&self) -> Vec<Fallback> {
        let mut counts: BTreeMap<(OpKind, Device, Option<Device>, String), usize> = BTreeMap::new();
        for Operation { record, .. } in &self.operations {
            for (device, verdict) in &record.considered {
                if matches!(verdict, Verdict::Declined(_) | Verdict::Failed(_) | Verdict::Lost) {
                    *counts.entry((record.op, *device, record.device, verdict.to_string())).or_default() += 1;
                }
            }
        }
        let fallbacks = counts.into_iter().map(|((op, device, ran_on, reason), count)| Fallback {
            op,
            device,
            ran_on,
            reason,
            count,
        });
        fallbacks.collect()
    }

    /// The bytes that were moved between devices; aliases move none.
    pub fn moved_bytes(&self) -> u64 {
        self.transfers.iter().filter(|t| t.method != TransferMethod::Alias).map(|t| t.bytes).sum()
    }
}
