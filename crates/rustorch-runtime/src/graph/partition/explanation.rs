//! Where the operations of a program run, why not elsewhere, and what goes from one device to another.

use super::forecast::{Forecast, Parts};
use super::plan::{Crossing, PartitionPlan, RegionPlan, crossings};
use super::reason::{Reason, microseconds};
use super::{Crossings, Sides};
use crate::device_state::DeviceState;
use crate::executor::HybridExecutor;
use crate::graph::regions::RegionReport;
use crate::text::{Bytes, Time, table};
use crate::transfers::TransferMethod;
use rustorch_core::{Decline, Device, Error, Result, Source, Verdict};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Where the operations of a program are expected to run, why not elsewhere, what goes from one device to another, and what became of its
/// regions so far: see [`Program::explain`](crate::Program::explain).
///
/// Prints as tables, in which equal operations on one device for the same reasons are one row; `{:#}` gives each operation a row.
#[derive(Clone, Debug)]
pub struct ProgramExplanation {
    /// Every operation, as in [`Program::graph`](crate::Program::graph).
    pub nodes: Vec<ExplainedNode>,
    /// What devices compiled, in the order in which it runs.
    pub regions: Vec<ExplainedRegion>,
    /// What a run is expected to copy from one device to another, each value once for each device that reads it there.
    pub copies: Vec<Crossing>,
    /// The devices that compile parts of graphs; no others can have regions.
    pub compilers: Vec<Device>,
}

/// An operation of a program.
#[derive(Clone, Debug, PartialEq)]
pub struct ExplainedNode {
    /// The operation.
    pub op: &'static str,
    /// The index of its region, if it is in one.
    pub region: Option<usize>,
    /// The device that is expected to run it, by itself or in the region; none if the placement policy allows none that can.
    pub device: Option<Device>,
    /// How long it is expected to take by itself, moving of its arguments included, by the measured cost model; none in a region, and where
    /// that is not known.
    pub expected: Option<Duration>,
    /// What the other devices say of running it, in the order in which they would be tried; nothing of those that merely come later.
    pub considered: SmallVec<[(Device, Verdict); 1]>,
    /// Why it is in no region, for each device that compiles.
    pub reasons: SmallVec<[(Device, Reason); 1]>,
}

/// A part of a program that a device compiled.
#[derive(Clone, Debug, PartialEq)]
pub struct ExplainedRegion {
    /// What was expected of it, and what crosses into it and out of it.
    pub plan: RegionPlan,
    /// What became of it.
    pub report: RegionReport,
}

/// The explanation of a graph with these regions, of which there are as many reports.
///
/// # Errors
/// If a tensor of the graph is on a device that is not here any more, or the environment asks for a fallback order that makes no sense.
pub(in super::super) fn explain(
    parts: Parts<'_>,
    executor: &HybridExecutor,
    plan: Option<&PartitionPlan>,
    (sides, reports): (&[Sides<'_>], Vec<RegionReport>),
) -> Result<ProgramExplanation> {
    let graph = parts.graph;
    let count = graph.nodes.len();
    let mut region_of: Vec<Option<usize>> = vec![None; count];
    for (i, region) in sides.iter().enumerate() {
        region_of[region.nodes.clone()].fill(Some(i));
    }
    let state_of = |node: usize| region_of[node].map(|region| Arc::clone(sides[region].state));
    let forecast = Forecast::new(parts, executor, &[], state_of)?.ok_or_else(|| missing(parts, executor))?;
    let is_inside: Vec<bool> = region_of.iter().map(Option::is_some).collect();
    let copies = Crossings { graph, executor, forecast: &forecast }.copies(&is_inside);
    let Forecast { runs_on, us, considered, .. } = forecast;
    let mut outside = plan.map_or(&[][..], |plan| &plan.outside).iter().peekable();
    let device = |state: &Option<Arc<DeviceState>>| state.as_ref().map(|state| state.device);
    let nodes = (0..count).zip(&region_of).zip(&runs_on).zip(us.iter().zip(considered));
    let nodes = nodes.map(|(((n, region), state), (us, considered))| ExplainedNode {
        op: graph.nodes[n].op.name(),
        region: *region,
        device: device(state),
        // Of what is not known the forecast says 0.
        expected: (us.is_finite() && *us > 0.0 && region.is_none()).then(|| microseconds(*us).0),
        considered,
        reasons: outside
            .next_if(|outside| outside.node == n)
            .map_or_else(SmallVec::new, |o| o.reasons.clone()),
    });
    let nodes = nodes.collect();
    let regions = plan.map_or(&[][..], |plan| &plan.regions).iter().cloned();
    let regions = regions.zip(reports).map(|(plan, report)| ExplainedRegion { plan, report });
    let compilers = plan.map_or_else(Vec::new, |plan| plan.compilers.clone());
    Ok(ProgramExplanation { nodes, regions: regions.collect(), copies, compilers })
}

/// Which device is not here.
fn missing(parts: Parts<'_>, executor: &HybridExecutor) -> Error {
    let of_values = parts.graph.values.iter().filter(|value| matches!(value.source, Source::Input(_)));
    let devices = of_values.map(|value| value.device);
    let mut devices = devices.chain(parts.graph.nodes.iter().filter_map(|node| node.device));
    let error = devices.find_map(|device| executor.state(device).err());
    error.unwrap_or_else(|| Error::argument("explain", "a device of the graph is not here any more"))
}

impl ExplainedNode {
    /// Why it is where it is, in the devices' words.
    fn why(&self) -> String {
        let reasons = self.reasons.iter().map(|(device, reason)| format!("{device}: {reason}"));
        // A device that runs regions alone says so of every operation; why this one is in none is the reason.
        let is_plain = |(device, verdict): &&(Device, Verdict)| {
            let says_so = matches!(verdict, Verdict::Declined(Decline::Program(_)));
            !says_so || !self.reasons.iter().any(|(of, _)| of == device)
        };
        let considered = self.considered.iter().filter(is_plain);
        let verdicts = considered.map(|(device, verdict)| format!("{device} {verdict}"));
        reasons.chain(verdicts).collect::<Vec<_>>().join("; ")
    }

    fn place(&self) -> String {
        self.device.map_or_else(|| "none".to_owned(), |device| device.to_string())
    }
}

impl ExplainedRegion {
    /// How long a run took on the average, moving of inputs included; none before the first.
    pub fn measured(&self) -> Option<Duration> {
        let runs = u32::try_from(self.report.runs).unwrap_or(u32::MAX);
        (runs > 0).then(|| self.report.time / runs)
    }

    fn row(&self, index: usize) -> [String; 9] {
        let RegionPlan { device, nodes, run_us, outside_us, crossing_us, inputs, outputs, .. } = &self.plan;
        let time = |us: f64| match us.is_finite() {
            true => microseconds(us).to_string(),
            false => "nowhere".to_owned(),
        };
        let plural = if self.report.runs == 1 { "" } else { "s" };
        let measured =
            self.measured().map(|time| format!("{} in {} run{plural}", Time(time), self.report.runs));
        [
            index.to_string(),
            device.to_string(),
            format!("{} to {}", nodes.start, nodes.end.saturating_sub(1)),
            time(run_us + crossing_us),
            measured.unwrap_or_else(|| "not yet".to_owned()),
            time(*outside_us),
            crossings(inputs),
            crossings(outputs),
            self.trouble(),
        ]
    }

    /// What is wrong with it.
    fn trouble(&self) -> String {
        let RegionReport { faults, declined, quarantined, .. } = &self.report;
        let mut parts = Vec::new();
        if let Some(decline) = declined {
            parts.push(decline.to_string());
        }
        if *faults > 0 {
            parts.push(format!("{faults} fault{}", if *faults == 1 { "" } else { "s" }));
        }
        if *quarantined {
            parts.push("quarantined".to_owned());
        }
        parts.join(", ")
    }
}

impl fmt::Display for ProgramExplanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.regions.is_empty() {
            let rows: Vec<_> = self.regions.iter().enumerate().map(|(i, region)| region.row(i)).collect();
            let head =
                ["region", "device", "nodes", "expected", "measured", "one by one", "in", "out", "trouble"];
            table(f, head, &rows, |column| matches!(column, 3..6))?;
            writeln!(f)?;
        }
        match f.alternate() {
            true => self.write_each(f)?,
            false => self.write_alike(f)?,
        }
        self.write_copies(f)?;
        self.write_devices(f)
    }
}

impl ProgramExplanation {
    /// A row for each operation in no region.
    fn write_each(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outside = self.nodes.iter().enumerate().filter(|(_, node)| node.region.is_none());
        let rows: Vec<[String; 5]> = outside
            .map(|(n, node)| {
                let expected = node.expected.map_or_else(String::new, |time| Time(time).to_string());
                [n.to_string(), node.op.to_owned(), node.place(), expected, node.why()]
            })
            .collect();
        let head = ["node", "operation", "device", "expected", "why not elsewhere"];
        if rows.is_empty() { Ok(()) } else { table(f, head, &rows, |column| matches!(column, 0 | 3)) }
    }

    /// A row for the operations of one kind in no region, on one device for the same reasons: those that take longest first.
    fn write_alike(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut alike: BTreeMap<(&str, String, String), (usize, Option<Duration>)> = BTreeMap::new();
        for node in self.nodes.iter().filter(|node| node.region.is_none()) {
            let (count, sum) =
                alike.entry((node.op, node.place(), node.why())).or_insert((0, Some(Duration::ZERO)));
            *count += 1;
            *sum = added(*sum, node.expected);
        }
        let mut alike: Vec<_> = alike.into_iter().collect();
        alike.sort_by_key(|(_, (count, sum))| (std::cmp::Reverse(*sum), std::cmp::Reverse(*count)));
        let rows: Vec<[String; 5]> = alike
            .into_iter()
            .map(|((op, place, why), (count, sum))| {
                let sum = sum.map_or_else(String::new, |time| Time(time).to_string());
                [op.to_owned(), count.to_string(), place, sum, why]
            })
            .collect();
        let head = ["operation", "count", "device", "expected", "why not elsewhere"];
        if rows.is_empty() { Ok(()) } else { table(f, head, &rows, |column| matches!(column, 1 | 3)) }
    }

    /// What is copied, by devices and method.
    fn write_copies(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut ways: BTreeMap<(Device, Device, TransferMethod), (usize, u64)> = BTreeMap::new();
        for copy in &self.copies {
            let (count, bytes) = ways.entry((copy.from, copy.to, copy.method)).or_default();
            *count += 1;
            *bytes = bytes.saturating_add(copy.bytes);
        }
        for ((from, to, method), (count, bytes)) in ways {
            let plural = if count == 1 { "value" } else { "values" };
            writeln!(f, "from {from} to {to} in each run: {count} {plural} of {} by {method}", Bytes(bytes))?;
        }
        Ok(())
    }

    /// How much each device has to do.
    fn write_devices(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut devices: BTreeMap<String, (usize, Option<Duration>)> = BTreeMap::new();
        for node in self.nodes.iter().filter(|node| node.region.is_none()) {
            let (count, sum) = devices.entry(node.place()).or_insert((0, Some(Duration::ZERO)));
            *count += 1;
            *sum = added(*sum, node.expected);
        }
        let mut parts: Vec<String> = devices
            .into_iter()
            .map(|(device, (count, sum))| match sum {
                Some(sum) => format!("{count} on {device} ({})", Time(sum)),
                None => format!("{count} on {device}"),
            })
            .collect();
        let inside = self.nodes.iter().filter(|node| node.region.is_some()).count();
        if inside > 0 {
            let plural = if self.regions.len() == 1 { "region" } else { "regions" };
            parts.push(format!("{inside} in {} {plural}", self.regions.len()));
        }
        let plural = if self.nodes.len() == 1 { "operation" } else { "operations" };
        writeln!(f, "{} {plural}: {}", self.nodes.len(), parts.join(", "))?;
        match self.compilers.is_empty() {
            true => writeln!(f, "no device compiles regions: each operation is a kernel of its own"),
            false => Ok(()),
        }
    }
}

/// The sum of times, if all are known.
fn added(sum: Option<Duration>, time: Option<Duration>) -> Option<Duration> {
    sum?.checked_add(time?)
}
