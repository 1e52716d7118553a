//! `explain`: records as a table.

use crate::record::Record;
use crate::text::{Bytes, Time, table};
use rustorch_core::{Device, Verdict};
use std::fmt;
use std::time::Duration;

/// Every operation that a piece of code dispatched, in order. Prints as an aligned table.
#[derive(Clone, Debug)]
pub struct Explanation {
    records: Vec<Record>,
}

impl Explanation {
    pub(crate) fn new(records: Vec<Record>) -> Explanation {
        Explanation { records }
    }

    /// The records.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// How many operations ran on a device.
    pub fn ran_on(&self, device: Device) -> usize {
        self.records.iter().filter(|r| r.device == Some(device)).count()
    }

    /// The bytes that were moved in all.
    pub fn moved_bytes(&self) -> u64 {
        self.records.iter().map(|r| r.moved_bytes).sum()
    }

    /// The floating-point operations of all.
    pub fn flops(&self) -> u64 {
        self.records.iter().map(|r| r.work.flops).sum()
    }

    /// The time of all operations.
    pub fn time(&self) -> Duration {
        self.records.iter().map(|r| r.time).sum()
    }
}

const HEAD: [&str; 6] = ["operation", "arguments", "device", "moved", "time", "other devices"];

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows: Vec<[String; 6]> = self.records.iter().map(row).collect();
        table(f, HEAD, &rows, |column| column == 3 || column == 4)?;
        let operations = self.records.len();
        writeln!(
            f,
            "{operations} operation{}, {} moved, {}",
            if operations == 1 { "" } else { "s" },
            Bytes(self.moved_bytes()),
            Time(self.time())
        )
    }
}

fn row(record: &Record) -> [String; 6] {
    let args: Vec<String> = record.args.iter().map(|(dtype, shape)| format!("{dtype}{shape}")).collect();
    let device = match (record.device, record.returned_to) {
        (None, _) => "none".to_owned(),
        (Some(ran), None) => ran.to_string(),
        (Some(ran), Some(home)) => format!("{ran} → {home}"),
    };
    let others: Vec<String> = record
        .considered
        .iter()
        .filter(|(_, verdict)| *verdict != Verdict::Ran)
        .map(|(device, verdict)| format!("{device} {verdict}"))
        .collect();
    [
        record.op.to_string(),
        args.join(", "),
        device,
        Bytes(record.moved_bytes).to_string(),
        Time(record.time).to_string(),
        others.join("; "),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustorch_core::{BinaryOp, DType, Decline, OpKind, OpType, Shape, Work};

    #[test]
    fn the_table_is_aligned_and_says_why() {
        let shape = Shape::new([2, 3].as_slice()).unwrap();
        let record = Record {
            op: OpKind::MatMul,
            class: OpType::LinearAlgebra,
            args: vec![(DType::F32, shape.clone()), (DType::F32, shape)],
            work: Work::default(),
            device: Some(Device::CPU),
            returned_to: Some(Device::cuda(0)),
            moved_bytes: 1536,
            time: Duration::from_micros(1500),
            sequence: 1,
            thread: 0,
            start_ns: 0,
            run: None,
            considered: vec![
                (Device::cuda(0), Verdict::Declined(Decline::DType(DType::F64))),
                (Device::CPU, Verdict::Ran),
            ],
        };
        let short = Record {
            op: BinaryOp::Add.into(),
            args: vec![],
            returned_to: None,
            considered: vec![],
            ..record.clone()
        };
        let text = Explanation::new(vec![record, short]).to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "operation  arguments             device          moved    time  other devices",
                "matmul     f32[2, 3], f32[2, 3]  cpu → cuda:0  1.5 KiB  1.5 ms  cuda:0 declined: dtype f64 is not supported",
                "add                              cpu           1.5 KiB  1.5 ms",
                "2 operations, 3.0 KiB moved, 3.0 ms",
            ]
        );
    }
}
