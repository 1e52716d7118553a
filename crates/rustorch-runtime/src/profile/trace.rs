//! A profile as a trace in Chrome's JSON array format, for Perfetto and `chrome://tracing`.
//!
//! One process; a track for each thread that dispatched, for each device, and for transfers; a counter of each device's
//! memory. Work of one device that overlaps in time is spread over several tracks, because slices of one track must nest.

use super::json::{arguments, kind, others};
use super::{Operation, Profile};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

/// The one process.
const PID: u32 = 1;

/// A slice of a track, before it is known on which.
struct Slice {
    start_ns: u64,
    end_ns: u64,
    name: String,
    category: &'static str,
    args: Value,
    /// The dispatch from which an arrow leads here.
    cause: Option<u64>,
}

/// Collects events in any order.
#[derive(Default)]
struct Events {
    /// Names of tracks come first.
    names: Vec<Value>,
    /// By time; of slices that begin at the same time, the longer one first, for it holds the other.
    timed: Vec<(u64, u64, Value)>,
    tracks: u32,
}

impl Profile {
    /// Writes the profile as a JSON array of trace events, one a line. Times are in microseconds since its start.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write_chrome_trace(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut events = Events::default();
        events.names.push(json!({
            "ph": "M", "pid": PID, "tid": 0, "name": "process_name", "args": { "name": "rustorch" },
        }));
        self.threads(&mut events);
        self.device_tracks(&mut events);
        let moves = self.transfers.iter().map(|t| Slice {
            start_ns: t.time.start_ns,
            end_ns: t.time.end_ns,
            name: format!("{} → {}", t.from, t.to),
            category: "transfer",
            args: json!({ "method": t.method.to_string(), "bytes": t.bytes, "sequence": t.sequence }),
            cause: None,
        });
        self.lanes(&mut events, "transfers", moves.collect());
        for sample in &self.memory {
            events.timed.push((
                sample.at_ns,
                0,
                json!({
                    "ph": "C", "pid": PID, "tid": 0, "name": format!("memory {}", sample.device),
                    "ts": self.us(sample.at_ns),
                    "args": {
                        "in use": sample.allocated,
                        "kept for reuse": sample.reserved.saturating_sub(sample.allocated),
                    },
                }),
            ));
        }
        events.timed.sort_by_key(|(start, length, _)| (*start, std::cmp::Reverse(*length)));
        let all = events.names.iter().chain(events.timed.iter().map(|(_, _, event)| event));
        out.write_all(b"[")?;
        for (i, event) in all.enumerate() {
            out.write_all(if i == 0 { b"\n" } else { b",\n" })?;
            serde_json::to_writer(&mut *out, event)?;
        }
        out.write_all(b"\n]\n")
    }

    /// What each thread dispatched: the whole call, and in it the call of the device.
    fn threads(&self, events: &mut Events) {
        // Those that something on another device than the CPU names as its cause.
        let away = self.spans.iter().filter(|(device, _)| !device.is_cpu());
        let causes: BTreeSet<u64> = away.map(|(_, span)| span.sequence).collect();
        let threads: BTreeSet<u32> = self.operations.iter().map(|o| o.record.thread).collect();
        for thread in threads {
            let track = events.track(&format!("thread {thread}"));
            for operation in self.operations.iter().filter(|o| o.record.thread == thread) {
                let record = &operation.record;
                let end = record.start_ns + record.time.as_nanos() as u64;
                let mut args = self.details(operation);
                args.insert("moved_bytes".into(), record.moved_bytes.into());
                if let Some(time) = operation.device_time {
                    args.insert("device_us".into(), (time.as_nanos() as f64 / 1e3).into());
                }
                let other = others(operation);
                if !other.is_empty() {
                    args.insert("other devices".into(), other.into());
                }
                self.slice(events, track, record.start_ns, end, record.op.name(), "dispatch", args.into());
                if let Some(run) = record.run {
                    let name = record.device.map_or("run".into(), |device| format!("run on {device}"));
                    // The same readings of the clock, so it cannot stick out.
                    let end = run.end_ns.min(end);
                    self.slice(events, track, run.start_ns, end, &name, "run", json!({}));
                }
                if causes.contains(&record.sequence) {
                    let from = record.run.map_or(record.start_ns, |run| run.start_ns);
                    events.timed.push((
                        from,
                        0,
                        json!({
                            "ph": "s", "pid": PID, "tid": track, "ts": self.us(from), "id": record.sequence,
                            "name": "launch", "cat": "launch",
                        }),
                    ));
                }
            }
        }
    }

    /// What each device ran.
    fn device_tracks(&self, events: &mut Events) {
        let operations: BTreeMap<u64, &Operation> =
            self.operations.iter().map(|o| (o.record.sequence, o)).collect();
        let mut caused = BTreeSet::new();
        for (device, name) in &self.devices {
            let own = self.spans.iter().filter(|(d, _)| d == device).map(|(_, span)| {
                let mut args = Map::new();
                args.insert("sequence".into(), span.sequence.into());
                let operation = operations.get(&span.sequence);
                if let Some(operation) = operation {
                    args.insert("op".into(), operation.record.op.name().into());
                    args.extend(self.details(operation));
                }
                let arrow = !device.is_cpu() && operation.is_some() && caused.insert(span.sequence);
                Slice {
                    start_ns: span.start_ns,
                    end_ns: span.end_ns,
                    name: span.label.to_string(),
                    category: kind(span.kind),
                    args: args.into(),
                    cause: arrow.then_some(span.sequence),
                }
            });
            self.lanes(events, &format!("{device} ({name})"), own.collect());
        }
    }

    fn details(&self, operation: &Operation) -> Map<String, Value> {
        let mut args = Map::new();
        args.insert("class".into(), format!("{:?}", operation.record.class).into());
        args.insert("args".into(), arguments(operation).join(", ").into());
        args.insert("sequence".into(), operation.record.sequence.into());
        args
    }

    /// Lays slices, which begin in order, on as many tracks as keep them apart.
    fn lanes(&self, events: &mut Events, name: &str, slices: Vec<Slice>) {
        // Each track and when it is free.
        let mut lanes: Vec<(u32, u64)> = Vec::new();
        for slice in slices {
            let free = lanes.iter().position(|(_, until)| *until <= slice.start_ns);
            let lane = free.unwrap_or_else(|| {
                let number = lanes.len() + 1;
                let track =
                    if number == 1 { events.track(name) } else { events.track(&format!("{name} #{number}")) };
                lanes.push((track, 0));
                lanes.len() - 1
            });
            let (track, until) = &mut lanes[lane];
            *until = slice.end_ns;
            let (start, end) = (slice.start_ns, slice.end_ns);
            self.slice(events, *track, start, end, &slice.name, slice.category, slice.args);
            if let Some(sequence) = slice.cause {
                events.timed.push((
                    start,
                    0,
                    json!({
                        "ph": "f", "bp": "e", "pid": PID, "tid": *track, "ts": self.us(start), "id": sequence,
                        "name": "launch", "cat": "launch",
                    }),
                ));
            }
        }
    }

    #[allow(clippy::too_many_arguments, reason = "the fields of an event")]
    fn slice(
        &self,
        events: &mut Events,
        track: u32,
        start_ns: u64,
        end_ns: u64,
        name: &str,
        category: &str,
        args: Value,
    ) {
        let length = end_ns.saturating_sub(start_ns);
        let event = json!({
            "ph": "X", "pid": PID, "tid": track, "ts": self.us(start_ns), "dur": length as f64 / 1e3,
            "name": name, "cat": category, "args": args,
        });
        events.timed.push((start_ns, length, event));
    }

    /// Microseconds since the start.
    fn us(&self, at_ns: u64) -> f64 {
        (at_ns as i128 - self.start_ns as i128) as f64 / 1e3
    }
}

impl Events {
    /// A new track.
    fn track(&mut self, name: &str) -> u32 {
        self.tracks += 1;
        let track = self.tracks;
        self.names.push(json!({
            "ph": "M", "pid": PID, "tid": track, "name": "thread_name", "args": { "name": name },
        }));
        self.names.push(json!({
            "ph": "M", "pid": PID, "tid": track, "name": "thread_sort_index", "args": { "sort_index": track },
        }));
        track
    }
}
