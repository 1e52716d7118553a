//! A profile as a table.

use super::Profile;
use crate::text::{Bytes, Time, table};
use std::fmt;

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operations = self.by_operation();
        let untimed = operations.iter().any(|group| group.timed < group.count);
        let rows: Vec<[String; 8]> = operations
            .iter()
            .map(|group| {
                let mark = if group.timed < group.count { "~" } else { "" };
                [
                    group.label(),
                    group.count.to_string(),
                    format!("{mark}{}", Time(group.time)),
                    format!("{mark}{}", Time(group.mean())),
                    format!("{:.1} %", 100.0 * group.share),
                    Time(group.host_time).to_string(),
                    Bytes(group.moved_bytes).to_string(),
                    group.device.map_or("none".into(), |device| device.to_string()),
                ]
            })
            .collect();
        let head = ["operation", "calls", "time", "mean", "share", "with dispatch", "moved", "device"];
        table(f, head, &rows, |column| (1..7).contains(&column))?;
        if untimed {
            writeln!(f, "~ as the caller saw it: the device does not tell its own time")?;
        }

        let rows: Vec<[String; 7]> = self
            .by_device()
            .iter()
            .map(|total| {
                let part = total.compute.map_or("?".into(), |time| {
                    format!("{:.1} %", 100.0 * time.as_secs_f64() / self.duration().as_secs_f64().max(1e-12))
                });
                [
                    total.device.to_string(),
                    total.operations.to_string(),
                    total.compute.map_or("?".into(), |time| Time(time).to_string()),
                    part,
                    Bytes(total.received).to_string(),
                    Bytes(total.sent).to_string(),
                    Bytes(total.peak_allocated).to_string(),
                ]
            })
            .collect();
        writeln!(f)?;
        let head = ["device", "operations", "computing", "of the time", "received", "sent", "peak memory"];
        table(f, head, &rows, |column| column > 0)?;

        let transfers = self.by_transfer();
        if !transfers.is_empty() {
            let rows: Vec<[String; 5]> = transfers
                .iter()
                .map(|total| {
                    [
                        format!("{} → {}", total.from, total.to),
                        total.method.to_string(),
                        total.count.to_string(),
                        Bytes(total.bytes).to_string(),
                        Time(total.time).to_string(),
                    ]
                })
                .collect();
            writeln!(f)?;
            table(f, ["transfer", "method", "count", "bytes", "time"], &rows, |column| column > 1)?;
        }

        let fallbacks = self.fallbacks();
        if !fallbacks.is_empty() {
            let rows: Vec<[String; 4]> = fallbacks
                .into_iter()
                .map(|fallback| {
                    let ran = fallback.ran_on.map_or("nothing".into(), |device| device.to_string());
                    let way = format!("{} → {ran}", fallback.device);
                    [fallback.op.to_string(), fallback.count.to_string(), way, fallback.reason]
                })
                .collect();
            writeln!(f)?;
            table(f, ["fallback", "calls", "from → to", "reason"], &rows, |column| column == 1)?;
        }
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        let count = self.operations.len();
        let plural = if count == 1 { "" } else { "s" };
        writeln!(
            f,
            "\n{count} operation{plural} in {}, {} moved between devices",
            Time(self.duration()),
            Bytes(self.moved_bytes())
        )
    }
}
