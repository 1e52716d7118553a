//! A context with its streams, and what becomes of errors in it.

use crate::blas::Blas;
use crate::fault::{Meaning, meaning, refused, said};
use crate::spans::Spans;
use crate::stream::Stream;
use cudarc::driver::sys::{self, CUcontext, CUdevice, CUmemoryPool, CUresult};
use rustorch_core::{Device, Fault, current_stream};
use rustorch_kernels::driver::{DeviceLossFlag, STREAMS};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

/// What all memories and kernels of an open GPU share: its primary context and its streams.
pub(crate) struct Context {
    pub(crate) device: Device,
    /// Those that were ever used; the first always is.
    streams: [OnceLock<Stream>; STREAMS],
    /// How many of them are.
    active_streams: AtomicUsize,
    /// The driver's pool, where it has one.
    pub(crate) pool: Option<CUmemoryPool>,
    pub(crate) id: CUdevice,
    pub(crate) handle: CUcontext,
    /// The GPUs whose memory this one was let reach, where it can.
    pub(crate) met: Mutex<Vec<CUdevice>>,
    pub(crate) loss: DeviceLossFlag,
    pub(crate) spans: Spans,
    pub(crate) blas: Blas,
}

// SAFETY: contexts and pools belong to no thread; every use makes the context current in its thread first.
unsafe impl Send for Context {}
// SAFETY: the driver may be called with them from several threads at once.
unsafe impl Sync for Context {}

impl Context {
    /// Opens a GPU.
    pub(crate) fn open(id: CUdevice, device: Device) -> Result<Context, Fault> {
        let fault = |call: &str, error| Fault::Backend {
            device,
            message: format!("the device cannot be opened: {}", said(call, error)),
        };
        let check = |call: &str, result| match result {
            CUresult::CUDA_SUCCESS => Ok(()),
            error => Err(fault(call, error)),
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
        let stream = Stream::new().map_err(|error| release(fault("cuStreamCreate", error)))?;
        let streams: [OnceLock<Stream>; STREAMS] = Default::default();
        let _ = streams[0].set(stream);
        Ok(Context {
            device,
            streams,
            active_streams: AtomicUsize::new(1),
            pool: pool(id),
            id,
            handle: context,
            met: Mutex::default(),
            loss: DeviceLossFlag::new(device),
            spans: Spans::default(),
            blas: Blas::default(),
        })
    }

    /// The stream of this thread.
    pub(crate) fn stream(&self) -> &Stream {
        self.stream_of(current_stream(self.active_streams.load(Ordering::Relaxed)))
    }

    /// A stream by its number.
    pub(crate) fn stream_of(&self, stream: usize) -> &Stream {
        self.streams[stream].get().expect("every stream that is counted was made before")
    }

    /// All streams that there ever were.
    fn streams(&self) -> impl Iterator<Item = &Stream> {
        self.streams.iter().filter_map(OnceLock::get)
    }

    /// Has so many streams from now on. No work is on its way, and the context is current.
    pub(crate) fn set_streams(&self, streams: usize) -> Result<usize, Fault> {
        let streams = streams.clamp(1, STREAMS);
        for place in &self.streams[..streams] {
            if place.get().is_none() {
                let stream = Stream::new().map_err(|error| self.fault("cuStreamCreate", error, 0))?;
                let _ = place.set(stream);
            }
        }
        self.active_streams.store(streams, Ordering::Relaxed);
        Ok(streams)
    }

    /// Makes the context current in this thread. Fails if the device is lost.
    pub(crate) fn enter(&self) -> Result<(), Fault> {
        self.loss.check()?;
        // SAFETY: the context lives as long as this struct.
        self.check("cuCtxSetCurrent", unsafe { sys::cuCtxSetCurrent(self.handle) }, 0)
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

    /// Waits until all streams are empty. The context is current.
    pub(crate) fn finish(&self) -> Result<(), Fault> {
        self.streams().try_for_each(|stream| stream.finish(self))
    }

    /// New memory, in the order of this thread's stream where the driver has a pool. The context is current.
    pub(crate) fn allocate(&self, bytes: usize) -> Result<u64, Fault> {
        let mut address = 0;
        let (call, result) = match self.pool {
            None => {
                // SAFETY: the address goes to a variable.
                ("cuMemAlloc", unsafe { sys::cuMemAlloc_v2(&mut address, bytes) })
            }
            Some(pool) => {
                let stream = self.stream().handle;
                // SAFETY: the stream lives, and the address goes to a variable.
                let take = |address: &mut u64| unsafe { sys::cuMemAllocAsync(address, bytes, stream) };
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

    /// Gives memory back when earlier work of this thread's stream is done.
    pub(crate) fn free(&self, address: u64) {
        // A lost device has no memory to give back.
        if self.enter().is_err() {
            return;
        }
        let result = match self.pool {
            // SAFETY: the address is from `allocate`, by the same way, and no later work uses it.
            Some(_) => unsafe { sys::cuMemFreeAsync(address, self.stream().handle) },
            // SAFETY: as above; this waits for the device.
            None => unsafe { sys::cuMemFree_v2(address) },
        };
        if let Err(fault) = self.check("cuMemFree", result, 0) {
            tracing::debug!(%fault, "memory is not given back");
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: the context is still retained.
        if unsafe { sys::cuCtxSetCurrent(self.handle) } == CUresult::CUDA_SUCCESS {
            // No one is left to use the streams: memories and kernels hold an Arc of this struct.
            self.streams().for_each(Stream::close);
            self.spans.clear();
            self.blas.close();
        } else {
            self.streams().for_each(Stream::leak);
        }
        // SAFETY: the context was retained once when it was opened.
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
