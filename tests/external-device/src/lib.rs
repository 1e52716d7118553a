//! A device of one's own: `dummy` computes on the CPU, in memory that it counts as its own, and does no matmuls.

use rustorch_core::{
    Backend, Buffer, DTypeSet, Decline, Device, DeviceCapability, DeviceKind, Fault, KindInfo, Op, OpType,
    Result, TensorMeta, View, ViewMut,
};
use rustorch_cpu::CpuBackend;
use rustorch_runtime::registry::{self, DeviceCandidate, Discovery, Provider};
use std::sync::Arc;

/// What the process knows of the kind.
const KIND: KindInfo = KindInfo { fallback_rank: 5, shares_host_memory: true, ..KindInfo::new("dummy") };

/// Makes `dummy:0` and `dummy:1` known to the process.
///
/// # Errors
/// If there is another kind of the name.
pub fn register() -> Result<DeviceKind> {
    let kind = DeviceKind::register(KIND)?;
    registry::register(Provider { kind, discover })?;
    Ok(kind)
}

fn discover() -> Discovery {
    let devices = (0..2).map(|index| DeviceCandidate::hardware(move || Ok(Arc::new(Dummy::new(index)?))));
    Discovery { devices: devices.collect(), missing: Vec::new() }
}

struct Dummy {
    device: Device,
    capability: DeviceCapability,
    cpu: CpuBackend,
}

impl Dummy {
    fn new(index: u8) -> Result<Dummy, String> {
        let kind = DeviceKind::from_name(KIND.name).ok_or("the kind is not registered")?;
        let mut capability = DeviceCapability::complete("a dummy");
        capability.dtypes[OpType::LinearAlgebra as usize] = DTypeSet::EMPTY;
        capability.reaches = vec![Device::CPU];
        Ok(Dummy { device: Device::new(kind, index), capability, cpu: CpuBackend::new(1) })
    }
}

// SAFETY: memory is host memory of the size asked for, which is the device's alone, and everything else is the CPU's backend's.
unsafe impl Backend for Dummy {
    fn device(&self) -> Device {
        self.device
    }

    fn capability(&self) -> &DeviceCapability {
        &self.capability
    }

    fn supports(&self, op: &Op, args: &[TensorMeta<'_>]) -> Result<(), Decline> {
        self.capability.check(op, args)
    }

    fn alloc(&self, bytes: usize) -> Result<Buffer, Fault> {
        let memory = Buffer::host(bytes)?;
        let address = memory.host_address();
        // SAFETY: the address is that of the host buffer, which has this size and lives as long as the new one.
        Ok(unsafe { Buffer::device(self.device, bytes, address, Box::new(memory)) })
    }

    unsafe fn run(&self, op: &Op, args: &[View<'_>], outs: &mut [ViewMut<'_>]) -> Result<(), Fault> {
        // SAFETY: this function's contract.
        unsafe { self.cpu.run(op, args, outs) }
    }

    fn copy_in(&self, src: &[u8], dst: &mut ViewMut<'_>) -> Result<(), Fault> {
        self.cpu.copy_in(src, dst)
    }

    fn copy_out(&self, src: &View<'_>, dst: &mut [u8]) -> Result<(), Fault> {
        self.cpu.copy_out(src, dst)
    }

    fn synchronize(&self) -> Result<(), Fault> {
        Ok(())
    }
}
