//! Placement policies, and the one place where they are applied.

use rustorch_core::{Device, Error, Op, OpKind, OpType, Result};
use smallvec::SmallVec;
use std::str::FromStr;
use std::sync::Arc;

/// How devices are chosen among those that can run an operation.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Placement {
    /// The cheapest by measured cost: start, arithmetic or memory, and the bytes to move. The device that holds the
    /// arguments keeps the work unless another one is more than 1.2 times as fast, so that work does not go back and
    /// forth.
    Auto,
    /// This device; the fallback order where it cannot.
    Prefer(Device),
    /// These devices, the first that can; the fallback order where none can.
    Order(SmallVec<[Device; 2]>),
    /// This device or an error.
    Require(Device),
    /// The first of the fallback order that can.
    FirstSupported,
    /// Where most bytes of the arguments are; the fallback order where that device cannot, as far as its devices are open. So
    /// whoever puts weights onto devices decides where a model runs.
    #[default]
    Resident,
    /// By operation; the fallback order for those that the table does not name.
    ByOp(OpTable),
    /// The fallback order from this many bytes of arguments and results up, the CPU below.
    GpuThreshold(usize),
    /// The fallback order without the CPU, or an error.
    GpuOnly,
    /// The CPU alone.
    CpuOnly,
}

impl Placement {
    /// The devices that the policy names; an executor must have them.
    pub fn named(&self) -> SmallVec<[Device; 2]> {
        match self {
            Placement::Prefer(device) | Placement::Require(device) => SmallVec::from_slice(&[*device]),
            Placement::Order(devices) => devices.clone(),
            Placement::ByOp(table) => table.devices().collect(),
            _ => SmallVec::new(),
        }
    }

    /// Operations on at most so many bytes, all of them on the CPU, run there whatever the rest of the fallback order:
    /// they need no planning.
    pub(crate) fn small(&self, alone: bool) -> usize {
        match self {
            Placement::CpuOnly | Placement::Prefer(Device::CPU) | Placement::Require(Device::CPU) => {
                usize::MAX
            }
            Placement::Require(_) | Placement::GpuOnly => 0,
            _ if alone => usize::MAX,
            Placement::Auto => AUTO_SMALL,
            Placement::GpuThreshold(n) => n.saturating_sub(1),
            // All of it is on the CPU.
            Placement::Resident => usize::MAX,
            Placement::Prefer(_) | Placement::Order(_) | Placement::FirstSupported | Placement::ByOp(_) => 0,
        }
    }

    /// Whether the policy rules a device out.
    pub(crate) fn excludes(&self, device: Device) -> bool {
        match self {
            Placement::Require(only) => device != *only,
            Placement::GpuOnly => device.is_cpu(),
            Placement::CpuOnly => !device.is_cpu(),
            _ => false,
        }
    }

    /// Whether the policy chooses among all devices of the fallback order, so that they have to be looked for.
    pub(crate) fn asks_for_all(&self) -> bool {
        match self {
            Placement::Auto
            | Placement::Order(_)
            | Placement::FirstSupported
            | Placement::ByOp(_)
            | Placement::GpuThreshold(_)
            | Placement::GpuOnly => true,
            Placement::Resident | Placement::Prefer(_) | Placement::Require(_) | Placement::CpuOnly => false,
        }
    }

    /// Puts candidates, given in the fallback order, into the order in which they are tried.
    ///
    /// `cost` gives the expected microseconds of a candidate, moving included; it is asked only where it matters.
    pub(crate) fn order<C: Candidate>(
        &self,
        work: &Situation<'_, C>,
        candidates: &mut [C],
        mut cost: impl FnMut(&C) -> f64,
    ) {
        if candidates.len() < 2 {
            return;
        }
        let first = |candidates: &mut [C], chosen: &dyn Fn(&C) -> bool| {
            candidates.sort_by_key(|c| !chosen(c));
        };
        let is_cpu = |c: &C| c.device().is_cpu();
        let is_home = |c: &C| work.home.as_ref().is_some_and(|home| home.is(c));
        match self {
            Placement::Auto => {
                if work.home.as_ref().is_none_or(is_cpu) && work.bytes <= AUTO_SMALL {
                    return first(candidates, &is_cpu);
                }
                let mut costs: SmallVec<[(f64, C); 4]> = candidates
                    .iter()
                    .map(|c| (if is_home(c) { cost(c) / HYSTERESIS } else { cost(c) }, c.clone()))
                    .collect();
                costs.sort_by(|a, b| a.0.total_cmp(&b.0));
                for (candidate, (_, cheapest)) in candidates.iter_mut().zip(costs) {
                    *candidate = cheapest;
                }
            }
            Placement::Prefer(device) => first(candidates, &|c| c.device() == *device),
            Placement::Order(devices) => candidates.sort_by_key(|c| {
                devices.iter().position(|device| c.device() == *device).unwrap_or(devices.len())
            }),
            Placement::Resident if work.home.is_none() => first(candidates, &is_cpu),
            Placement::Resident => first(candidates, &is_home),
            Placement::ByOp(table) => {
                if let Some(device) = table.get(work.op, work.class) {
                    first(candidates, &|c| c.device() == device);
                }
            }
            Placement::GpuThreshold(least) => {
                if work.bytes < *least {
                    first(candidates, &is_cpu);
                }
            }
            Placement::Require(_) | Placement::FirstSupported | Placement::GpuOnly | Placement::CpuOnly => {}
        }
    }
}

/// The names by which `RUSTORCH_PLACEMENT` and the like choose a policy.
const NAMES: &str = "auto, resident, first-supported, cpu-only, gpu-only, prefer=DEVICE, order=DEVICE,.., require=DEVICE, gpu-threshold=BYTES";

impl FromStr for Placement {
    type Err = Error;

    /// Parses `auto`, `resident`, `first-supported`, `cpu-only`, `gpu-only`, `prefer=cuda:1`, `order=coreml,metal`,
    /// `require=vulkan` and `gpu-threshold=1048576`, ignoring ASCII case.
    fn from_str(text: &str) -> Result<Placement> {
        let lower = text.trim().to_ascii_lowercase();
        let (name, value) = match lower.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (lower.as_str(), None),
        };
        let unknown =
            || Error::argument("placement", format!("`{text}` is no placement policy; there is {NAMES}"));
        Ok(match (name, value) {
            ("auto", None) => Placement::Auto,
            ("resident", None) => Placement::Resident,
            // What this policy was called in earlier versions.
            ("first-supported" | "chain", None) => Placement::FirstSupported,
            ("cpu-only", None) => Placement::CpuOnly,
            ("gpu-only", None) => Placement::GpuOnly,
            ("prefer", Some(device)) => Placement::Prefer(device.parse()?),
            ("order", Some(devices)) => {
                Placement::Order(devices.split(',').map(str::parse).collect::<Result<_>>()?)
            }
            ("require", Some(device)) => Placement::Require(device.parse()?),
            ("gpu-threshold", Some(bytes)) => Placement::GpuThreshold(bytes.parse().map_err(|_| unknown())?),
            _ => return Err(unknown()),
        })
    }
}

/// A device that could run an operation.
pub(crate) trait Candidate: Clone {
    fn device(&self) -> Device;

    /// Whether both are the same device, whatever it is called.
    fn is(&self, other: &Self) -> bool;
}

/// How many times as fast another device must be to take work away from where its arguments are.
const HYSTERESIS: f64 = 1.2;

/// Work on so few bytes costs less than the start of a kernel on any other device.
const AUTO_SMALL: usize = 16 << 10;

/// What a policy looks at.
pub(crate) struct Situation<'a, C> {
    pub(crate) op: &'a Op,
    pub(crate) class: OpType,
    /// The bytes of arguments and results.
    pub(crate) bytes: usize,
    /// Where most bytes of the arguments are, or where the result is wanted.
    pub(crate) home: Option<C>,
}

/// Which device runs which operations.
///
/// ```
/// use rustorch_core::{Device, OpType, SoftmaxKind};
/// use rustorch_runtime::OpTable;
/// let table = OpTable::new().class(OpType::LinearAlgebra, Device::metal(0)).op(SoftmaxKind::Softmax, Device::CPU);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OpTable {
    ops: Arc<Vec<(OpKind, Device)>>,
    classes: Arc<Vec<(OpType, Device)>>,
}

impl OpTable {
    /// A table that names nothing.
    pub fn new() -> OpTable {
        OpTable::default()
    }

    /// Assigns an operation; this counts before its class.
    pub fn op(mut self, op: impl Into<OpKind>, device: Device) -> OpTable {
        Arc::make_mut(&mut self.ops).push((op.into(), device));
        self
    }

    /// Assigns a class of operations.
    pub fn class(mut self, class: OpType, device: Device) -> OpTable {
        Arc::make_mut(&mut self.classes).push((class, device));
        self
    }

    /// The device for an operation. Of several assignments, the last counts.
    fn get(&self, op: &Op, class: OpType) -> Option<Device> {
        let by_op = self.ops.iter().rev().find(|(kind, _)| *kind == op.kind()).map(|&(_, d)| d);
        by_op.or_else(|| self.classes.iter().rev().find(|(c, _)| *c == class).map(|&(_, d)| d))
    }

    fn devices(&self) -> impl Iterator<Item = Device> + '_ {
        self.ops.iter().map(|&(_, d)| d).chain(self.classes.iter().map(|&(_, d)| d))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustorch_core::MatMul;

    impl Candidate for Device {
        fn device(&self) -> Device {
            *self
        }

        fn is(&self, other: &Device) -> bool {
            self == other
        }
    }

    #[test]
    fn policies_are_parsed() {
        let parse = |text: &str| text.parse::<Placement>();
        assert_eq!(parse("Auto").unwrap(), Placement::Auto);
        assert_eq!(parse(" first-supported ").unwrap(), Placement::FirstSupported);
        assert_eq!(parse("chain").unwrap(), Placement::FirstSupported);
        assert_eq!(parse("prefer=cuda:1").unwrap(), Placement::Prefer(Device::cuda(1)));
        assert_eq!(parse("gpu-threshold=4096").unwrap(), Placement::GpuThreshold(4096));
        let order = [Device::COREML, Device::metal(0)];
        assert_eq!(parse("order=coreml,metal").unwrap(), Placement::Order(SmallVec::from_slice(&order)));
        for bad in ["", "best", "prefer", "order=", "order=metal,", "prefer=gpu", "auto=1", "gpu-threshold=x"]
        {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    const CHAIN: [Device; 3] = [Device::opencl(0), Device::metal(0), Device::CPU];
    const OTHER: Device = CHAIN[0];
    const GPU: Device = CHAIN[1];
    const CPU: Device = CHAIN[2];

    fn order(policy: &Placement, bytes: usize, home: Device, cost: [f64; 3]) -> Vec<Device> {
        let op = Op::MatMul(MatMul::default());
        let work = Situation { op: &op, class: OpType::LinearAlgebra, bytes, home: Some(home) };
        let mut candidates = CHAIN;
        policy.order(&work, &mut candidates, |&d| cost[CHAIN.iter().position(|&c| c == d).unwrap()]);
        candidates.to_vec()
    }

    #[test]
    fn auto_is_cheapest_but_slow_to_move() {
        let auto = |home, cost| order(&Placement::Auto, 1 << 20, home, cost);
        assert_eq!(auto(CPU, [30.0, 10.0, 20.0]), [GPU, CPU, OTHER]);
        assert_eq!(auto(CPU, [30.0, 10.0, 11.9]), [CPU, GPU, OTHER]);
        assert_eq!(auto(CPU, [30.0, 10.0, 12.1]), [GPU, CPU, OTHER]);
        assert_eq!(auto(GPU, [30.0, 11.9, 10.0]), [GPU, CPU, OTHER]);
        assert_eq!(order(&Placement::Auto, 64, CPU, [0.0, 0.0, 9.0]), [CPU, OTHER, GPU]);
    }

    #[test]
    fn sizes_choose_the_kind_of_device() {
        let threshold = |bytes| order(&Placement::GpuThreshold(4096), bytes, CPU, [0.0; 3]);
        assert_eq!(threshold(4095), [CPU, OTHER, GPU]);
        assert_eq!(threshold(4096), CHAIN);
    }

    #[test]
    fn tables_and_names_come_first() {
        assert_eq!(order(&Placement::Prefer(GPU), 1, CPU, [0.0; 3]), [GPU, OTHER, CPU]);
        assert_eq!(order(&Placement::FirstSupported, 1, CPU, [0.0; 3]), CHAIN);
        let first = |devices: &[Device]| Placement::Order(SmallVec::from_slice(devices));
        assert_eq!(order(&first(&[CPU, GPU]), 1, OTHER, [0.0; 3]), [CPU, GPU, OTHER]);
        assert_eq!(order(&first(&[GPU]), 1, CPU, [0.0; 3]), [GPU, OTHER, CPU]);
        assert_eq!(order(&Placement::Resident, 1, GPU, [0.0; 3]), [GPU, OTHER, CPU]);
        assert_eq!(order(&Placement::Resident, 1 << 30, CPU, [0.0; 3]), [CPU, OTHER, GPU]);
        let class = OpTable::new().class(OpType::LinearAlgebra, GPU);
        assert_eq!(order(&Placement::ByOp(class.clone()), 1, CPU, [0.0; 3]), [GPU, OTHER, CPU]);
        let name = class.op(OpKind::MatMul, CPU);
        assert_eq!(order(&Placement::ByOp(name), 1, CPU, [0.0; 3]), [CPU, OTHER, GPU]);
    }

    #[test]
    fn strict_policies_exclude() {
        let left = |policy: Placement| CHAIN.into_iter().filter(|&d| !policy.excludes(d)).collect::<Vec<_>>();
        assert_eq!(left(Placement::Require(GPU)), [GPU]);
        assert_eq!(left(Placement::GpuOnly), [OTHER, GPU]);
        assert_eq!(left(Placement::CpuOnly), [CPU]);
        assert_eq!(left(Placement::Prefer(GPU)), CHAIN);
    }
}
