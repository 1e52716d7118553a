//! A partition as plain data.

use super::reason::{Reason, microseconds};
use crate::text::{Bytes, table};
use crate::transfers::TransferMethod;
use rustorch_core::{Device, Graph, ValueId};
use smallvec::SmallVec;
use std::fmt;
use std::ops::Range;

/// Which parts of a graph devices run as compiled regions, and why not the rest. The same graph, devices and options give the same plan.
/// Prints as a listing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PartitionPlan {
    /// How often the program is expected to run.
    pub expected_runs: u64,
    /// The regions, in the order in which they run.
    pub regions: Vec<RegionPlan>,
    /// The nodes in no region, in order.
    pub outside: Vec<OutsideNode>,
    /// What a run is expected to copy from one device to another, each value once for each device that reads it there.
    pub copies: Vec<Crossing>,
    /// The devices that compile, in the order in which they are tried.
    pub compilers: Vec<Device>,
    /// The devices that run only single operations.
    pub others: Vec<Device>,
}

/// A part of a graph that a device runs as one program.
#[derive(Clone, Debug, PartialEq)]
pub struct RegionPlan {
    /// The device.
    pub device: Device,
    /// The nodes of [`Program::graph`](crate::Program::graph).
    pub nodes: Range<usize>,
    /// How long a run is expected to take, in microseconds, without the moving of inputs and outputs.
    pub run_us: f64,
    /// How long the nodes would take one by one, each where placement puts it, and the moving of what others need elsewhere; infinite if it
    /// puts some nowhere.
    pub outside_us: f64,
    /// How long it takes to compile, in microseconds.
    pub compile_us: f64,
    /// The moving of inputs and outputs, in microseconds.
    pub crossing_us: f64,
    /// The inputs that come from another device.
    pub inputs: Vec<Crossing>,
    /// The outputs that another device needs.
    pub outputs: Vec<Crossing>,
}

/// A value that is needed on another device than that which holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Crossing {
    /// The value.
    pub value: ValueId,
    /// The device that holds it.
    pub from: Device,
    /// The device that needs it.
    pub to: Device,
    /// Its bytes.
    pub bytes: u64,
    /// How they get there.
    pub method: TransferMethod,
}

/// A node in no region.
#[derive(Clone, Debug, PartialEq)]
pub struct OutsideNode {
    /// The node of [`Program::graph`](crate::Program::graph).
    pub node: usize,
    /// Its operation.
    pub op: &'static str,
    /// The device that is expected to run it; none if the placement policy allows none that can.
    pub device: Option<Device>,
    /// Why it is in no region, for each device that compiles.
    pub reasons: SmallVec<[(Device, Reason); 1]>,
}

impl PartitionPlan {
    /// How many nodes there are.
    pub fn nodes(&self) -> usize {
        self.outside.len() + self.regions.iter().map(|region| region.nodes.len()).sum::<usize>()
    }

    /// Takes out a region that could not be compiled.
    pub(in super::super) fn drop_region(&mut self, at: usize, graph: &Graph, fault: String) {
        let region = self.regions.remove(at);
        let nodes = region.nodes.map(|node| OutsideNode {
            node,
            op: graph.nodes[node].op.name(),
            device: None,
            reasons: SmallVec::from_iter([(region.device, Reason::Fault(fault.clone()))]),
        });
        self.outside.extend(nodes);
        self.outside.sort_by_key(|outside| outside.node);
    }
}

impl RegionPlan {
    /// The bytes that come from other devices, and those that go there; what is read where it is does not move.
    pub fn moved_bytes(&self) -> (u64, u64) {
        let sum = |crossings: &[Crossing]| {
            let moved = crossings.iter().filter(|crossing| crossing.method != TransferMethod::Alias);
            moved.map(|crossing| crossing.bytes).sum()
        };
        (sum(&self.inputs), sum(&self.outputs))
    }
}

impl fmt::Display for PartitionPlan {
    /// The regions as a table, and the nodes outside by device and reason.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows: Vec<[String; 7]> = self.regions.iter().map(row).collect();
        if !rows.is_empty() {
            let head = ["device", "nodes", "a run", "one by one", "to compile", "in", "out"];
            table(f, head, &rows, |column| (2..5).contains(&column))?;
        }
        let inside = self.nodes() - self.outside.len();
        writeln!(
            f,
            "{} of {} nodes in {} region{}, for {} runs; {} copied in each",
            inside,
            self.nodes(),
            self.regions.len(),
            if self.regions.len() == 1 { "" } else { "s" },
            self.expected_runs,
            Bytes(self.copies.iter().map(|copy| copy.bytes).sum()),
        )?;
        if !self.others.is_empty() {
            let names: Vec<String> = self.others.iter().map(Device::to_string).collect();
            writeln!(f, "without a compiler: {}", names.join(", "))?;
        }
        for node in &self.outside {
            let device = node.device.map_or_else(|| "none".to_owned(), |device| device.to_string());
            let reasons: Vec<String> =
                node.reasons.iter().map(|(device, reason)| format!("{device}: {reason}")).collect();
            writeln!(f, "node {} ({}) on {device}: {}", node.node, node.op, reasons.join("; "))?;
        }
        Ok(())
    }
}

fn row(region: &RegionPlan) -> [String; 7] {
    let time = |us: f64| match us.is_finite() {
        true => microseconds(us).to_string(),
        false => "nowhere".to_owned(),
    };
    [
        region.device.to_string(),
        format!("{} to {}", region.nodes.start, region.nodes.end.saturating_sub(1)),
        time(region.run_us),
        time(region.outside_us),
        time(region.compile_us),
        crossings(&region.inputs),
        crossings(&region.outputs),
    ]
}

/// The bytes by method.
pub(super) fn crossings(crossings: &[Crossing]) -> String {
    let methods =
        [TransferMethod::Alias, TransferMethod::Copy, TransferMethod::Peer, TransferMethod::Staging];
    let parts = methods.iter().filter_map(|method| {
        let these = crossings.iter().filter(|crossing| crossing.method == *method);
        let (count, bytes) =
            these.fold((0, 0u64), |(count, sum), one| (count + 1, sum.saturating_add(one.bytes)));
        (count > 0).then(|| format!("{} by {method}", Bytes(bytes)))
    });
    let parts: Vec<String> = parts.collect();
    if parts.is_empty() { "0".to_owned() } else { parts.join(", ") }
}
