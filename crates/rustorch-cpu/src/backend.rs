//! The CPU as a [`Backend`].

use crate::{Isa, Pool, kernels};
use rustorch_core::{
    Backend, Buffer, CostModel, DType, Decline, Device, DeviceCapability, Fault, Op, TensorMeta, View,
    ViewMut, copy_mismatch,
};
use std::sync::OnceLock;

/// The processor: every operation in every dtype, and the reference for every other device.
///
/// Results do not depend on the number of threads.
pub struct CpuBackend {
    pool: Pool,
    capability: DeviceCapability,
    cost: OnceLock<CostModel>,
}

impl CpuBackend {
    /// A backend that computes on `threads` threads; at least 1.
    pub fn new(threads: usize) -> CpuBackend {
        let pool = Pool::new(threads);
        let name = format!("{} threads, {:?}", pool.threads(), Isa::detect());
        CpuBackend { pool, capability: DeviceCapability::complete(name), cost: OnceLock::new() }
    }

    /// The number of threads that compute.
    pub fn threads(&self) -> usize {
        self.pool.threads()
    }
}

impl Backend for CpuBackend {
    fn device(&self) -> Device {
        Device::Cpu
    }

    fn capability(&self) -> &DeviceCapability {
        &self.capability
    }

    fn cost(&self) -> &CostModel {
        self.cost.get_or_init(|| crate::calibrate::measure(&self.pool))
    }

    fn supports(&self, _op: &Op, _args: &[TensorMeta<'_>]) -> Result<(), Decline> {
        Ok(())
    }

    fn alloc(&self, bytes: usize) -> Result<Buffer, Fault> {
        crate::memory::alloc(bytes)
    }

    fn run(&self, op: &Op, args: &[View<'_>], outs: &mut [ViewMut<'_>]) -> Result<(), Fault> {
        kernels::run(&self.pool, op, args, outs)
    }

    unsafe fn run_packed(
        &self,
        op: &Op,
        dtype: DType,
        args: &[*const u8],
        out: *mut u8,
        n: usize,
    ) -> Option<Result<(), Fault>> {
        // SAFETY: this function's contract.
        unsafe { kernels::run_packed(op, dtype, args, out, n) }
    }

    fn copy_in(&self, src: &[u8], dst: &mut ViewMut<'_>) -> Result<(), Fault> {
        if dst.write_bytes(src) { Ok(()) } else { Err(copy_mismatch()) }
    }

    fn copy_out(&self, src: &View<'_>, dst: &mut [u8]) -> Result<(), Fault> {
        match src.as_bytes() {
            Some(bytes) if bytes.len() == dst.len() => {
                dst.copy_from_slice(bytes);
                Ok(())
            }
            _ => Err(copy_mismatch()),
        }
    }

    fn synchronize(&self) -> Result<(), Fault> {
        Ok(())
    }
}
