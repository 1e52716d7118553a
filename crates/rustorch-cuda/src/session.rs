//! A context with its stream, and what becomes of errors in it.

use crate::fault::{Meaning, meaning, refused, said};
use crate::pinned::Ring;
use crate::spans::Spans;
use cudarc::driver::sys::{self, CUcontext, CUdevice, CUmemoryPool, CUresult, CUstream};
use rustorch_core::{Device, Fault};
use rustorch_kernels::driver::Loss;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What all memories and kernels of an open GPU share: its primary context and one stream.
pub(crate) struct Session {
    pub(crate) device: Device,
    pub(crate) stream: CUstream,
    /// The driver's pool, where it has one.
    pool: Option<CUmemoryPool>,
    id: CUdevice,
    context: CUcontext,
    pub(crate) loss: Loss,
    pub(crate) up: Mutex<Ring>,
    pub(crate) down: Mutex<Ring>,
    pub(crate) spans: Spans,
}

// SAFETY: contexts, streams and pools belong to no thread; every use makes the context current in its thread first.
unsafe impl Send for Session {}
// SAFETY: the driver may be called with them from several threads at once.
unsafe impl Sync for Session {}

/// Slots of the ring for copies to the device, and from it.
const UP: usize = 16;
const DOWN: usize = 4;

impl Session {
    /// Opens a GPU.
    pub(crate) fn open(id: CUdevice, device: Device) -> Result<Session, Fault> {
        let check = |call: &str, result| match result {
            CUresult::CUDA_SUCCESS => Ok(()),
            error => Err(Fault::Backend {
                device,
                message: format!("the device cannot be opened: {}", said(call, error)),
            }),
        };
        let mut context = std::ptr::null_mut();
        // SAFETY: the driver is initialised, or there would be no candidate; the handle goes to a variable.
        check("cuDevicePrimaryCtxRetain", unsafe { sys::cuDevicePrimaryCtxRetain(&mut context, id) })?;
        let release = |fault| {
            // SAFETY: the context was retained above.
            let _ = unsafe { sys::cuDevicePrimaryCtxRelease_v2(id) };
            fault
        };
        // SAFETY: the context lives.
        check("cuCtxSetCurrent", unsafe { sys::cuCtxSetCurrent(context) }).map_err(release)?;
        let mut stream = std::ptr::null_mut();
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: the context is current, and the handle goes to a variable.
        check("cuStreamCreate", unsafe { sys::cuStreamCreate(&mut stream, flags) }).map_err(release)?;
        Ok(Session {
            device,
            stream,
            pool: pool(id),
            id,
            context,
            loss: Loss::new(device),
            up: Mutex::new(Ring::new(UP)),
            down: Mutex::new(Ring::new(DOWN)),
            spans: Spans::default(),
        })
    }

    /// Makes the context current in this thread. Fails if the device is lost.
    pub(crate) fn enter(&self) -> Result<(), Fault> {
        self.loss.check()?;
        // SAFETY: the context lives as long as the session.
        self.check("cuCtxSetCurrent", unsafe { sys::cuCtxSetCurrent(self.context) }, 0)
    }

    /// Fails unless a call has succeeded. `bytes` is what it would have had memory for.
    pub(crate) fn check(&self, call: &str, result: CUresult, bytes: usize) -> Result<(), Fault> {
        if result == CUresult::CUDA_SUCCESS { Ok(()) } else { Err(self.fault(call, result, bytes)) }
    }

    /// What an error means.
    pub(crate) fn fault(&self, call: &str, error: CUresult, bytes: usize) -> Fault {
        match meaning(error) {
            Meaning::OutOfMemory => Fault::OutOfMemory { device: self.device, requested: bytes },
            Meaning::Lost => self.loss.lose(said(call, error)),
            Meaning::Refused => refused(self.device, call, error),
        }
    }

    /// Waits until the stream is empty. The context is current.
    pub(crate) fn finish(&self) -> Result<(), Fault> {
        // SAFETY: the stream lives.
        self.check("cuStreamSynchronize", unsafe { sys::cuStreamSynchronize(self.stream) }, 0)
    }

    /// New memory, in the order of the stream where the driver has a pool. The context is current.
    pub(crate) fn allocate(&self, bytes: usize) -> Result<u64, Fault> {
        let mut address = 0;
        let (call, result) = match self.pool {
            None => {
                // SAFETY: the address goes to a variable.
                ("cuMemAlloc", unsafe { sys::cuMemAlloc_v2(&mut address, bytes) })
            }
            Some(pool) => {
                // SAFETY: the stream lives, and the address goes to a variable.
                let take = |address: &mut u64| unsafe { sys::cuMemAllocAsync(address, bytes, self.stream) };
                let mut result = take(&mut address);
                if result == CUresult::CUDA_ERROR_OUT_OF_MEMORY {
                    // What was freed may not be free before earlier work is done, or lie in the pool in pieces.
                    self.finish()?;
                    // SAFETY: the pool is the device's own.
                    let _ = unsafe { sys::cuMemPoolTrimTo(pool, 0) };
                    result = take(&mut address);
                }
                ("cuMemAllocAsync", result)
            }
        };
        self.check(call, result, bytes)?;
        Ok(address)
    }

    /// Gives memory back when earlier work is done.
    pub(crate) fn free(&self, address: u64) {
        // A lost device has no memory to give back.
        if self.enter().is_err() {
            return;
        }
        let result = match self.pool {
            // SAFETY: the address is from `allocate`, by the same way, and no later work uses it.
            Some(_) => unsafe { sys::cuMemFreeAsync(address, self.stream) },
            // SAFETY: as above; this waits for the device.
            None => unsafe { sys::cuMemFree_v2(address) },
        };
        if let Err(fault) = self.check("cuMemFree", result, 0) {
            tracing::debug!(%fault, "memory is not given back");
        }
    }

    /// A ring, locked.
    pub(crate) fn lock<'a>(&self, ring: &'a Mutex<Ring>) -> MutexGuard<'a, Ring> {
        ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // SAFETY: the context is still retained.
        if unsafe { sys::cuCtxSetCurrent(self.context) } == CUresult::CUDA_SUCCESS {
            // Copies that have not begun use the rings. On a broken context this fails at once: nothing runs there.
            // SAFETY: the stream lives.
            let _ = unsafe { sys::cuStreamSynchronize(self.stream) };
            self.up.get_mut().unwrap_or_else(PoisonError::into_inner).release();
            self.down.get_mut().unwrap_or_else(PoisonError::into_inner).release();
            self.spans.clear();
            // SAFETY: no one is left to use the stream: memories and kernels hold the session.
            let _ = unsafe { sys::cuStreamDestroy_v2(self.stream) };
        } else {
            self.up.get_mut().unwrap_or_else(PoisonError::into_inner).leak();
            self.down.get_mut().unwrap_or_else(PoisonError::into_inner).leak();
        }
        // SAFETY: the context was retained once by this session.
        let _ = unsafe { sys::cuDevicePrimaryCtxRelease_v2(self.id) };
    }
}

/// The driver's pool of a device, which keeps what is freed; `None` where it has none.
fn pool(id: CUdevice) -> Option<CUmemoryPool> {
    let what = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED;
    if crate::describe::attribute(id, what) != Ok(1) {
        return None;
    }
    let mut pool = std::ptr::null_mut();
    // SAFETY: the driver is initialised, and the handle goes to a variable.
    if unsafe { sys::cuDeviceGetDefaultMemPool(&mut pool, id) } != CUresult::CUDA_SUCCESS {
        return None;
    }
    // By default the pool gives everything back whenever the stream is waited for, which is after each token.
    let mut kept = u64::MAX;
    let what = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
    // SAFETY: the pool lives as long as the device, and this attribute is a 64-bit number. If it is refused, the pool is only
    // slower.
    let _ = unsafe { sys::cuMemPoolSetAttribute(pool, what, (&raw mut kept).cast()) };
    Some(pool)
}
