//! Core ML as a device: it compiles regions of graphs, and runs no operation by itself.

mod accepts;
mod memory;
mod price;
mod region;
mod resident;

pub use price::Assumptions;

use crate::admission::{AdmissionOptions, Examiner, ModelCache, Reference, verdicts};
use crate::runtime::{ComputeUnits, Runtime};
use memory::HostMemory;
use region::Region;
use rustorch_core::{
    Backend, Buffer, CompiledRegion, Compiler, CostModel, DTypeSet, Decline, Device, DeviceCapability,
    Extensions, Fault, Graph, Link, Op, OpType, RegionPrice, Remarks, TensorMeta, UpdatedInput, Value, View,
    ViewMut, copy_mismatch,
};
use std::borrow::Cow;
use std::sync::Arc;

/// How Core ML is used.
#[derive(Clone, Debug, Default)]
pub struct DeviceOptions {
    /// Which compute units it may use.
    pub units: ComputeUnits,
    /// Whether programs may compute in `f16`, as [`CoreMlOptions::allow_f16`](crate::CoreMlOptions::allow_f16) says. Programs in `f32` do not reach
    /// the Neural Engine.
    pub allow_f16: bool,
    /// Where compiled programs are kept. Without it none is admitted.
    pub cache: Option<ModelCache>,
    /// How programs are examined.
    pub admission: AdmissionOptions,
    /// What the time of a program is taken to be before it was measured.
    pub assumptions: Assumptions,
}

/// Core ML as a device.
///
/// It declines every operation, and [compiles](Backend::compiler) regions of graphs. A region is ready once its program was
/// [admitted](crate::admission), which goes on in the background; until then, or if it is refused, its operations run on other devices. Its memory is
/// host memory, which the CPU reads where it is.
pub struct CoreMlDevice {
    capability: DeviceCapability,
    cost: CostModel,
    examiner: Arc<Examiner>,
    assumptions: Assumptions,
}

impl CoreMlDevice {
    /// The device of a runtime. Programs are compared with what `reference` computes.
    pub fn new(
        runtime: Arc<dyn Runtime>,
        reference: Arc<dyn Reference>,
        options: DeviceOptions,
    ) -> CoreMlDevice {
        let DeviceOptions { units, allow_f16, cache, admission, assumptions } = options;
        let precision = if allow_f16 { "f16" } else { "f32" };
        let capability = DeviceCapability {
            driver: runtime.system(),
            dtypes: [DTypeSet::EMPTY; OpType::ALL.len()],
            max_ndim: crate::layout::MAX_RANK,
            reaches: vec![Device::CPU],
            ..DeviceCapability::complete(format!("Core ML, compute units {units}, {precision}"))
        };
        let link = Link { start_us: 0.0, bandwidth: assumptions.bandwidth };
        // Of what it does beside regions: copies between host memory.
        let cost = CostModel {
            launch_us: 0.0,
            flops: assumptions.flops,
            bandwidth: assumptions.bandwidth,
            rates: Vec::new(),
            upload: link,
            download: link,
        };
        let options = admission;
        let examiner = Arc::new(Examiner { runtime, reference, cache, options, units, allow_f16 });
        CoreMlDevice { capability, cost, examiner, assumptions }
    }
}

const NO_OPERATIONS: &str = "Core ML runs regions of captured graphs, and no single operations";

// SAFETY: memory is zeroed host memory of the size asked for, which nobody else has. No operation is ever run. Copies are of the bytes of contiguous
// views, and are done when they return.
unsafe impl Backend for CoreMlDevice {
    fn device(&self) -> Device {
        Device::COREML
    }

    fn capability(&self) -> &DeviceCapability {
        &self.capability
    }

    fn cost(&self) -> Option<&CostModel> {
        Some(&self.cost)
    }

    fn supports(&self, _op: &Op, _args: &[TensorMeta<'_>]) -> Result<(), Decline> {
        Err(Decline::Program(NO_OPERATIONS.into()))
    }

    fn alloc(&self, bytes: usize) -> Result<Buffer, Fault> {
        HostMemory::buffer(bytes)
    }

    unsafe fn run(&self, op: &Op, _args: &[View<'_>], _outs: &mut [ViewMut<'_>]) -> Result<(), Fault> {
        let message = format!("{} was given to it; {NO_OPERATIONS}", op.name());
        Err(Fault::Backend { device: Device::COREML, message })
    }

    fn copy_in(&self, src: &[u8], dst: &mut ViewMut<'_>) -> Result<(), Fault> {
        if dst.write_bytes(src) { Ok(()) } else { Err(copy_mismatch()) }
    }

    fn copy_out(&self, src: &View<'_>, dst: &mut [u8]) -> Result<(), Fault> {
        let bytes = src.as_bytes().filter(|bytes| bytes.len() == dst.len()).ok_or_else(copy_mismatch)?;
        dst.copy_from_slice(bytes);
        Ok(())
    }

    fn synchronize(&self) -> Result<(), Fault> {
        Ok(())
    }

    fn compiler(&self) -> Option<&dyn Compiler> {
        Some(self)
    }

    fn extensions(&self) -> Extensions<'_> {
        Extensions { remarks: Some(self), ..Extensions::default() }
    }
}

impl Compiler for CoreMlDevice {
    fn accepts(&self, graph: &Graph, node: usize) -> Result<(), Cow<'static, str>> {
        accepts::accepts(graph, node, self.examiner.allow_f16)
    }

    fn price(&self, region: &Graph) -> Option<RegionPrice> {
        Some(self.assumptions.price(region))
    }

    fn takes_states(&self) -> bool {
        true
    }

    fn keeps(&self, input: &Value) -> bool {
        resident::keeps(input)
    }

    fn rewrites(&self) -> &[rustorch_core::Rewrite] {
        &[rustorch_core::Rewrite::ReflectPad]
    }

    unsafe fn compile(
        &self,
        region: &Graph,
        updates: &[UpdatedInput],
        constants: &[View<'_>],
    ) -> Result<Box<dyn CompiledRegion>, Fault> {
        // Somebody may write to them once this has returned.
        let copies = constants.iter().map(|constant| constant.as_bytes().map(<[u8]>::to_vec));
        let constants = copies.collect::<Option<Vec<_>>>().ok_or_else(copy_mismatch)?;
        Ok(Box::new(Region::start(Arc::clone(&self.examiner), region, updates, constants)?))
    }
}

impl Remarks for CoreMlDevice {
    fn remarks(&self) -> Vec<String> {
        let Some(cache) = &self.examiner.cache else { return Vec::new() };
        let found = verdicts(cache);
        let refused: Vec<&str> = found.iter().filter_map(|(_, verdict)| verdict.refused.as_deref()).collect();
        let mut remarks = vec![format!(
            "{} programs admitted, {} refused; `rustorch-cli coreml list` shows them",
            found.len() - refused.len(),
            refused.len()
        )];
        remarks.extend(refused.iter().map(|reason| format!("refused: {reason}")));
        remarks
    }
}
