//! Devices that another machine would have, for planning on this one.

use crate::HybridExecutor;
use rustorch_core::{
    Backend, Buffer, CostModel, Decline, Device, DeviceCapability, Fault, Graph, Link, Op, Result,
    TensorMeta, View, ViewMut,
};
use rustorch_coreml::admission::{AdmissionOptions, PreparedReference, Reference};
use rustorch_coreml::runtime::{ComputeUnits, LoadedModel, PlanShares, Runtime, RuntimeError, Signature};
use rustorch_coreml::{CoreMlDevice, DeviceOptions};
use rustorch_kernels::family::table;
use rustorch_kernels::{Arithmetic, Hardware, Language, Subgroups};
use std::path::Path;
use std::sync::Arc;

/// An executor over what a Mac with Apple's silicon has: Core ML, Metal, and the CPU, which is this machine's. It is for
/// [plans](crate::PartitionPlan): Core ML's device and Metal's compute nothing, and how long they take is assumed and not measured: as long as an
/// Apple M1 does by its data sheet, at half of its peak rate.
///
/// # Errors
/// If the CPU computes for no thread at all.
pub fn apple(threads: Option<usize>, options: DeviceOptions) -> Result<HybridExecutor> {
    let admission =
        AdmissionOptions { launcher: Arc::new(|_| Err(NOT_HERE.to_owned())), ..options.admission };
    let options = DeviceOptions { admission, ..options };
    let core_ml = CoreMlDevice::new(Arc::new(NoRuntime), Arc::new(NoReference), options);
    let builder = HybridExecutor::builder().backend(Arc::new(core_ml)).backend(Arc::new(AssumedMetal::new()));
    match threads {
        Some(threads) => builder.threads(threads).build(),
        None => builder.build(),
    }
}

const NOT_HERE: &str = "the device is assumed, for a plan, and not here";

/// Metal, as far as planning sees it.
struct AssumedMetal {
    hardware: Hardware,
    capability: DeviceCapability,
    cost: CostModel,
}

impl AssumedMetal {
    fn new() -> AssumedMetal {
        const GIB: u64 = 1 << 30;
        // The limits that wgpu gives on an M1.
        let hardware = Hardware {
            device: Device::metal(0),
            name: "Apple M1 (assumed)".to_owned(),
            driver: String::new(),
            language: Language::Wgsl,
            f64: false,
            i64: true,
            subgroups: Some(Subgroups { least: 32, most: 32 }),
            tensor_cores: false,
            software: false,
            workgroup: 1024,
            workgroup_memory: 32 << 10,
            groups: 65535,
            max_buffer: 4 * GIB,
            max_binding: 4 * GIB - 16,
            buffers: 29,
            parameters: 4096,
            window: Some(32),
            memory: None,
            arithmetic: Arithmetic::default(),
        };
        let link = Link { start_us: 10.0, bandwidth: 2e10 };
        let cost = CostModel {
            launch_us: 10.0,
            flops: 1.3e12,
            bandwidth: 3.4e10,
            rates: Vec::new(),
            upload: link,
            download: link,
        };
        AssumedMetal { capability: table::capability(&hardware), hardware, cost }
    }
}

fn not_here() -> Fault {
    Fault::Backend { device: Device::metal(0), message: NOT_HERE.to_owned() }
}

// SAFETY: it has no memory and runs nothing.
unsafe impl Backend for AssumedMetal {
    fn device(&self) -> Device {
        Device::metal(0)
    }

    fn capability(&self) -> &DeviceCapability {
        &self.capability
    }

    fn cost(&self) -> Option<&CostModel> {
        Some(&self.cost)
    }

    fn supports(&self, op: &Op, args: &[TensorMeta<'_>]) -> Result<(), Decline> {
        self.capability.check(op, args)?;
        table::supports(op, args, &self.hardware)
    }

    fn alloc(&self, _bytes: usize) -> Result<Buffer, Fault> {
        Err(not_here())
    }

    unsafe fn run(&self, _op: &Op, _args: &[View<'_>], _outs: &mut [ViewMut<'_>]) -> Result<(), Fault> {
        Err(not_here())
    }

    fn copy_in(&self, _src: &[u8], _dst: &mut ViewMut<'_>) -> Result<(), Fault> {
        Err(not_here())
    }

    fn copy_out(&self, _src: &View<'_>, _dst: &mut [u8]) -> Result<(), Fault> {
        Err(not_here())
    }

    fn synchronize(&self) -> Result<(), Fault> {
        Ok(())
    }
}

/// Core ML, which is not here.
struct NoRuntime;

impl Runtime for NoRuntime {
    fn system(&self) -> String {
        "assumed".to_owned()
    }

    fn compile(&self, _: &Path, _: &Path) -> Result<(), RuntimeError> {
        Err(RuntimeError::Refused(NOT_HERE.to_owned()))
    }

    fn plan(&self, _: &Path, _: ComputeUnits) -> Result<Option<PlanShares>, RuntimeError> {
        Ok(None)
    }

    fn load(&self, _: &Path, _: ComputeUnits, _: &Signature) -> Result<Box<dyn LoadedModel>, RuntimeError> {
        Err(RuntimeError::Refused(NOT_HERE.to_owned()))
    }
}

struct NoReference;

impl Reference for NoReference {
    fn prepare(&self, _: &Graph, _: &[Vec<u8>]) -> Result<Box<dyn PreparedReference>, String> {
        Err(NOT_HERE.to_owned())
    }
}
