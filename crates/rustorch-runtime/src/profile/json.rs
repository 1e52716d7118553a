//! A profile as JSON.

use super::{Operation, Profile, SpanKind};
use rustorch_core::Verdict;
use serde_json::{Value, json};
use std::time::Duration;

/// Nanoseconds: whole numbers, so that sums are exact.
fn ns(time: Duration) -> u64 {
    time.as_nanos() as u64
}

impl Profile {
    /// The profile as JSON. Times are in nanoseconds, points in time since its start.
    ///
    /// `summary`: operations by name, dtypes and device, the slowest first. `devices`, `transfers`, `fallbacks`: sums.
    /// `memory`: `[time, device, allocated, reserved]` for each change. `operations`, `spans` and each single transfer
    /// (`moves`) only with `all`, for there may be many.
    pub fn to_json(&self, all: bool) -> Value {
        let since = |at: u64| at.saturating_sub(self.start_ns);
        let mut value = json!({
            "duration_ns": ns(self.duration()),
            "moved_bytes": self.moved_bytes(),
            "summary": self.by_operation().iter().map(|group| json!({
                "op": group.op.name(),
                "class": format!("{:?}", group.class),
                "dtypes": group.dtypes.iter().map(|dtype| dtype.name()).collect::<Vec<_>>(),
                "device": group.device.map(|device| device.to_string()),
                "count": group.count,
                "time_ns": ns(group.time),
                "mean_ns": ns(group.mean()),
                "share": group.share,
                "device_timed": group.timed,
                "host_ns": ns(group.host_time),
                "moved_bytes": group.moved_bytes,
            })).collect::<Vec<_>>(),
            "devices": self.by_device().iter().map(|total| json!({
                "device": total.device.to_string(),
                "name": total.name,
                "operations": total.operations,
                "compute_ns": total.compute.map(ns),
                "copy_ns": ns(total.copy),
                "received_bytes": total.received,
                "sent_bytes": total.sent,
                "peak_allocated_bytes": total.peak_allocated,
            })).collect::<Vec<_>>(),
            "transfers": self.by_transfer().iter().map(|total| json!({
                "from": total.from.to_string(),
                "to": total.to.to_string(),
                "method": total.method.to_string(),
                "count": total.count,
                "bytes": total.bytes,
                "time_ns": ns(total.time),
            })).collect::<Vec<_>>(),
            "fallbacks": self.fallbacks().iter().map(|fallback| json!({
                "op": fallback.op.name(),
                "device": fallback.device.to_string(),
                "ran_on": fallback.ran_on.map(|device| device.to_string()),
                "reason": fallback.reason,
                "count": fallback.count,
            })).collect::<Vec<_>>(),
            "memory": self.memory.iter().map(|sample| json!([
                since(sample.at_ns), sample.device.to_string(), sample.allocated, sample.reserved,
            ])).collect::<Vec<_>>(),
            "notes": self.notes,
        });
        if all {
            value["operations"] = self.operations.iter().map(|o| operation(o, &since)).collect();
            value["moves"] = self
                .transfers
                .iter()
                .map(|t| {
                    json!({
                        "sequence": t.sequence,
                        "thread": t.thread,
                        "from": t.from.to_string(),
                        "to": t.to.to_string(),
                        "method": t.method.to_string(),
                        "bytes": t.bytes,
                        "start_ns": since(t.time.start_ns),
                        "time_ns": ns(t.time.duration()),
                    })
                })
                .collect();
            value["spans"] = self
                .spans
                .iter()
                .map(|(device, span)| {
                    json!({
                        "sequence": span.sequence,
                        "device": device.to_string(),
                        "label": span.label,
                        "kind": kind(span.kind),
                        "start_ns": since(span.start_ns),
                        "time_ns": ns(super::duration(span)),
                    })
                })
                .collect();
        }
        value
    }
}

/// The kind of a span in files.
pub(super) fn kind(kind: SpanKind) -> &'static str {
    match kind {
        SpanKind::Compute => "compute",
        SpanKind::Copy => "copy",
    }
}

/// The arguments of an operation, as `f32[2, 3]`.
pub(super) fn arguments(operation: &Operation) -> Vec<String> {
    operation.record.args.iter().map(|(dtype, shape)| format!("{dtype}{shape}")).collect()
}

/// The devices that did not run an operation, with their reasons.
pub(super) fn others(operation: &Operation) -> Vec<String> {
    let others = operation.record.considered.iter().filter(|(_, verdict)| *verdict != Verdict::Ran);
    others.map(|(device, verdict)| format!("{device} {verdict}")).collect()
}

fn operation(operation: &Operation, since: &impl Fn(u64) -> u64) -> Value {
    let record = &operation.record;
    json!({
        "sequence": record.sequence,
        "thread": record.thread,
        "op": record.op.name(),
        "class": format!("{:?}", record.class),
        "args": arguments(operation),
        "device": record.device.map(|device| device.to_string()),
        "returned_to": record.returned_to.map(|device| device.to_string()),
        "start_ns": since(record.start_ns),
        "host_ns": ns(record.time),
        "device_ns": operation.device_time.map(ns),
        "moved_bytes": record.moved_bytes,
        "others": others(operation),
    })
}
