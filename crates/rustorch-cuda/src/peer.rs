//! From one GPU to another.

use crate::context::Context;
use crate::fault::said;
use crate::memory::Memory;
use cudarc::driver::sys::{self, CUresult};
use rustorch_core::Fault;
use rustorch_core::profile::SpanKind;

impl Context {
    /// Copies from another GPU's memory, by itself where the GPUs reach each other, else by way of the driver's own staging, and
    /// waits until it is done. Both memories have the bytes, and the context is current.
    pub(crate) fn copy_from_peer(
        &self,
        (src, from): (&Memory, usize),
        (dst, to): (&Memory, usize),
        bytes: usize,
    ) -> Result<(), Fault> {
        self.meet(&src.context);
        let (to, from) = (dst.address + to as u64, src.address + from as u64);
        let stream = self.stream();
        self.spans.measure(self, SpanKind::Copy, "copy from peer", || {
            // SAFETY: both memories live in their contexts and have the bytes, and the other GPU has finished with its own.
            let result = unsafe {
                sys::cuMemcpyPeerAsync(to, self.handle, from, src.context.handle, bytes, stream.handle)
            };
            self.check("cuMemcpyPeerAsync", result, bytes)
        })?;
        stream.finish(self)
    }

    /// Lets this GPU reach the other one's memory, if they can, the first time that they meet.
    fn meet(&self, other: &Context) {
        let mut met = self.met.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if met.contains(&other.id) || self.id == other.id {
            return;
        }
        met.push(other.id);
        let mut reaches = 0;
        // SAFETY: the driver is initialised, and the answer goes to a variable.
        match unsafe { sys::cuDeviceCanAccessPeer(&mut reaches, self.id, other.id) } {
            CUresult::CUDA_SUCCESS if reaches != 0 => {}
            result => {
                tracing::debug!(from = %other.device, to = %self.device, ?result, "no direct way");
                return;
            }
        }
        let (call, result) = match other.pool {
            Some(pool) => {
                let location = sys::CUmemLocation {
                    type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
                    __bindgen_anon_1: sys::CUmemLocation_st__bindgen_ty_1 { id: self.id },
                };
                let flags = sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
                let access = sys::CUmemAccessDesc { location, flags };
                // SAFETY: the pool lives as long as its GPU, and the list has one entry.
                ("cuMemPoolSetAccess", unsafe { sys::cuMemPoolSetAccess(pool, &access, 1) })
            }
            // SAFETY: both contexts live, and this GPU's is current.
            None => ("cuCtxEnablePeerAccess", unsafe { sys::cuCtxEnablePeerAccess(other.handle, 0) }),
        };
        match result {
            CUresult::CUDA_SUCCESS | CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED => {}
            // The driver stages then.
            error => {
                tracing::debug!(from = %other.device, to = %self.device, "{}", said(call, error));
            }
        }
    }
}
