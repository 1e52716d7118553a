//! Who runs an operation: a policy as a value, and the one place where it is applied.

use rustorch_core::{Device, Op, OpType};
use smallvec::SmallVec;
use std::sync::Arc;

/// How devices are chosen among those that can run an operation.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Placement {
    /// The cheapest by measured cost: start, arithmetic or memory, and the bytes to move. The device that holds the
    /// arguments keeps the work unless another one is more than 1.2 times as fast, so that work does not go back and
    /// forth.
    #[default]
    Auto,
    /// This device; the chain where it cannot.
    Prefer(Device),
    /// This device or an error.
    Require(Device),
    /// The first of the chain that can.
    Chain,
    /// Where most bytes of the arguments are; the chain where that device cannot. So whoever puts weights onto devices
    /// decides where a model runs.
    Resident,
    /// By the bytes of arguments and results: below `cpu_below` the processor, below `npu_below` a neural engine (Core
    /// ML), above that the first GPU of the chain. The rest of the chain where these cannot.
    BySize {
        /// Below this many bytes the processor is first.
        cpu_below: usize,
        /// Below this many bytes a neural engine is first.
        npu_below: usize,
    },
    /// By operation; the chain for those that the table does not name.
    ByOp(OpTable),
    /// The chain from this many bytes of arguments and results up, the processor below.
    GpuThreshold(usize),
    /// The chain without the processor, or an error.
    GpuOnly,
    /// The processor alone.
    CpuOnly,
}

impl Placement {
    /// [`Placement::BySize`] with the usual borders of 1 MB and 100 MB.
    pub const fn by_size() -> Placement {
        Placement::BySize { cpu_below: 1 << 20, npu_below: 100 << 20 }
    }

    /// The devices that the policy names; an executor must have them.
    pub fn named(&self) -> SmallVec<[Device; 2]> {
        match self {
            Placement::Prefer(device) | Placement::Require(device) => SmallVec::from_slice(&[*device]),
            Placement::ByOp(table) => table.devices().collect(),
            _ => SmallVec::new(),
        }
    }

    /// Operations on at most so many bytes, all of them on the processor, run there whatever the rest of the chain:
    /// they need no planning.
    pub(crate) fn small(&self, alone: bool) -> usize {
        match self {
            Placement::CpuOnly | Placement::Prefer(Device::Cpu) | Placement::Require(Device::Cpu) => {
                usize::MAX
            }
            Placement::Require(_) | Placement::GpuOnly => 0,
            _ if alone => usize::MAX,
            Placement::Auto => AUTO_SMALL,
            Placement::BySize { cpu_below: n, .. } | Placement::GpuThreshold(n) => n.saturating_sub(1),
            // All of it is on the processor.
            Placement::Resident => usize::MAX,
            Placement::Prefer(_) | Placement::Chain | Placement::ByOp(_) => 0,
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

    /// Puts candidates, given in the order of the chain, into the order in which they are tried.
    ///
    /// `cost` gives the expected microseconds of a candidate, moving included; it is asked only where it matters.
    pub(crate) fn order(
        &self,
        work: &Situation<'_>,
        candidates: &mut [Device],
        mut cost: impl FnMut(Device) -> f64,
    ) {
        if candidates.len() < 2 {
            return;
        }
        let first = |candidates: &mut [Device], chosen: &dyn Fn(Device) -> bool| {
            candidates.sort_by_key(|&d| !chosen(d));
        };
        match self {
            Placement::Auto => {
                if work.home.is_none_or(Device::is_cpu) && work.bytes <= AUTO_SMALL {
                    return first(candidates, &Device::is_cpu);
                }
                let mut costs: SmallVec<[(f64, Device); 4]> = candidates
                    .iter()
                    .map(|&d| (if Some(d) == work.home { cost(d) / HYSTERESIS } else { cost(d) }, d))
                    .collect();
                costs.sort_by(|a, b| a.0.total_cmp(&b.0));
                for (candidate, (_, device)) in candidates.iter_mut().zip(costs) {
                    *candidate = device;
                }
            }
            Placement::Prefer(device) => first(candidates, &|d| d == *device),
            Placement::Resident => {
                let home = work.home.unwrap_or(Device::Cpu);
                first(candidates, &|d| d == home);
            }
            Placement::BySize { cpu_below, npu_below } => {
                if work.bytes < *cpu_below {
                    first(candidates, &Device::is_cpu);
                } else if work.bytes < *npu_below {
                    first(candidates, &is_npu);
                } else {
                    first(candidates, &|d| !is_npu(d) && !d.is_cpu());
                }
            }
            Placement::ByOp(table) => {
                if let Some(device) = table.get(work.op, work.class) {
                    first(candidates, &|d| d == device);
                }
            }
            Placement::GpuThreshold(least) => {
                if work.bytes < *least {
                    first(candidates, &Device::is_cpu);
                }
            }
            Placement::Require(_) | Placement::Chain | Placement::GpuOnly | Placement::CpuOnly => {}
        }
    }
}

/// How many times as fast another device must be to take work away from where its arguments are.
const HYSTERESIS: f64 = 1.2;

/// Work on so few bytes costs less than the start of a kernel on any other device.
const AUTO_SMALL: usize = 16 << 10;

/// What a policy looks at.
pub(crate) struct Situation<'a> {
    pub(crate) op: &'a Op,
    pub(crate) class: OpType,
    /// The bytes of arguments and results.
    pub(crate) bytes: usize,
    /// Where most bytes of the arguments are, or where the result is wanted.
    pub(crate) home: Option<Device>,
}

fn is_npu(device: Device) -> bool {
    matches!(device, Device::CoreML(_))
}

/// Which device runs which operations.
///
/// ```
/// use rustorch_core::{Device, OpType};
/// use rustorch_runtime::OpTable;
/// let table = OpTable::new().class(OpType::LinearAlgebra, Device::Metal(0)).op("softmax", Device::Cpu);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OpTable {
    ops: Arc<Vec<(String, Device)>>,
    classes: Arc<Vec<(OpType, Device)>>,
}

impl OpTable {
    /// A table that names nothing.
    pub fn new() -> OpTable {
        OpTable::default()
    }

    /// Assigns an operation by its [name](Op::name); this counts before its class.
    pub fn op(mut self, name: impl Into<String>, device: Device) -> OpTable {
        Arc::make_mut(&mut self.ops).push((name.into(), device));
        self
    }

    /// Assigns a class of operations.
    pub fn class(mut self, class: OpType, device: Device) -> OpTable {
        Arc::make_mut(&mut self.classes).push((class, device));
        self
    }

    /// The device for an operation. Of several assignments, the last counts.
    fn get(&self, op: &Op, class: OpType) -> Option<Device> {
        let by_name = self.ops.iter().rev().find(|(name, _)| name == op.name()).map(|&(_, d)| d);
        by_name.or_else(|| self.classes.iter().rev().find(|(c, _)| *c == class).map(|&(_, d)| d))
    }

    fn devices(&self) -> impl Iterator<Item = Device> + '_ {
        self.ops.iter().map(|&(_, d)| d).chain(self.classes.iter().map(|&(_, d)| d))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustorch_core::MatMul;

    const CHAIN: [Device; 3] = [Device::CoreML(0), Device::Metal(0), Device::Cpu];
    const NPU: Device = CHAIN[0];
    const GPU: Device = CHAIN[1];
    const CPU: Device = CHAIN[2];

    fn order(policy: &Placement, bytes: usize, home: Device, cost: [f64; 3]) -> Vec<Device> {
        let op = Op::MatMul(MatMul::default());
        let work = Situation { op: &op, class: OpType::LinearAlgebra, bytes, home: Some(home) };
        let mut candidates = CHAIN;
        policy.order(&work, &mut candidates, |d| cost[CHAIN.iter().position(|&c| c == d).unwrap()]);
        candidates.to_vec()
    }

    #[test]
    fn auto_is_cheapest_but_slow_to_move() {
        let auto = |home, cost| order(&Placement::Auto, 1 << 20, home, cost);
        assert_eq!(auto(CPU, [30.0, 10.0, 20.0]), [GPU, CPU, NPU]);
        assert_eq!(auto(CPU, [30.0, 10.0, 11.9]), [CPU, GPU, NPU]);
        assert_eq!(auto(CPU, [30.0, 10.0, 12.1]), [GPU, CPU, NPU]);
        assert_eq!(auto(GPU, [30.0, 11.9, 10.0]), [GPU, CPU, NPU]);
        assert_eq!(order(&Placement::Auto, 64, CPU, [0.0, 0.0, 9.0]), [CPU, NPU, GPU]);
    }

    #[test]
    fn sizes_choose_the_kind_of_device() {
        let by_size = |bytes| order(&Placement::by_size(), bytes, CPU, [0.0; 3]);
        assert_eq!(by_size(1000), [CPU, NPU, GPU]);
        assert_eq!(by_size(2 << 20), [NPU, GPU, CPU]);
        assert_eq!(by_size(200 << 20), [GPU, NPU, CPU]);
        let threshold = |bytes| order(&Placement::GpuThreshold(4096), bytes, CPU, [0.0; 3]);
        assert_eq!(threshold(4095), [CPU, NPU, GPU]);
        assert_eq!(threshold(4096), CHAIN);
    }

    #[test]
    fn tables_and_names_come_first() {
        assert_eq!(order(&Placement::Prefer(GPU), 1, CPU, [0.0; 3]), [GPU, NPU, CPU]);
        assert_eq!(order(&Placement::Chain, 1, CPU, [0.0; 3]), CHAIN);
        assert_eq!(order(&Placement::Resident, 1, GPU, [0.0; 3]), [GPU, NPU, CPU]);
        assert_eq!(order(&Placement::Resident, 1 << 30, CPU, [0.0; 3]), [CPU, NPU, GPU]);
        let class = OpTable::new().class(OpType::LinearAlgebra, GPU);
        assert_eq!(order(&Placement::ByOp(class.clone()), 1, CPU, [0.0; 3]), [GPU, NPU, CPU]);
        let name = class.op("matmul", CPU);
        assert_eq!(order(&Placement::ByOp(name), 1, CPU, [0.0; 3]), [CPU, NPU, GPU]);
    }

    #[test]
    fn strict_policies_exclude() {
        let left = |policy: Placement| CHAIN.into_iter().filter(|&d| !policy.excludes(d)).collect::<Vec<_>>();
        assert_eq!(left(Placement::Require(GPU)), [GPU]);
        assert_eq!(left(Placement::GpuOnly), [NPU, GPU]);
        assert_eq!(left(Placement::CpuOnly), [CPU]);
        assert_eq!(left(Placement::Prefer(GPU)), CHAIN);
    }
}
