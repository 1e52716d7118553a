//! A stream, and what belongs to it.

use crate::context::Context;
use crate::event::Event;
use crate::fault::said;
use crate::pinned::Ring;
use cudarc::driver::sys::{self, CUresult, CUstream};
use rustorch_core::Fault;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One of a GPU's streams.
pub(crate) struct Stream {
    pub(crate) handle: CUstream,
    /// What others wait for; made when one does.
    mark: Mutex<Option<Event>>,
    up: Mutex<Ring>,
    down: Mutex<Ring>,
}

// SAFETY: streams belong to no thread; every use makes their context current in its thread first.
unsafe impl Send for Stream {}
// SAFETY: the driver may be called with a stream from several threads at once.
unsafe impl Sync for Stream {}

/// Slots of the ring for copies to the device, and from it.
const UP: usize = 16;
const DOWN: usize = 4;

impl Stream {
    /// A new stream of the current context.
    pub(crate) fn new() -> Result<Stream, CUresult> {
        let mut stream = std::ptr::null_mut();
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: a context is current, and the handle goes to a variable.
        match unsafe { sys::cuStreamCreate(&mut stream, flags) } {
            CUresult::CUDA_SUCCESS => Ok(Stream {
                handle: stream,
                mark: Mutex::default(),
                up: Mutex::new(Ring::new(UP)),
                down: Mutex::new(Ring::new(DOWN)),
            }),
            error => Err(error),
        }
    }

    /// Waits until the stream is empty. The context is current.
    pub(crate) fn finish(&self, context: &Context) -> Result<(), Fault> {
        // SAFETY: the stream lives.
        context.check("cuStreamSynchronize", unsafe { sys::cuStreamSynchronize(self.handle) }, 0)
    }

    /// Has later work wait for what another stream was given so far. The context is current.
    pub(crate) fn wait(&self, context: &Context, other: &Stream) -> Result<(), Fault> {
        // Held until the wait is given, since the next mark takes this one's place. A wait is for the mark as it was then.
        let mut mark = lock(&other.mark);
        if mark.is_none() {
            *mark = Some(Event::new(false).map_err(|error| context.fault("cuEventCreate", error, 0))?);
        }
        let mark = mark.as_ref().expect("it was made above");
        context.check("cuEventRecord", mark.record(other.handle), 0)?;
        context.check("cuStreamWaitEvent", mark.hold(self.handle), 0)
    }

    /// The ring for copies to the device.
    pub(crate) fn up(&self) -> MutexGuard<'_, Ring> {
        lock(&self.up)
    }

    /// The ring for copies from the device.
    pub(crate) fn down(&self) -> MutexGuard<'_, Ring> {
        lock(&self.down)
    }

    /// Waits for the work and gives everything back. The context is current, and no one is left to use the stream.
    pub(crate) fn close(&self) {
        // Copies that have not begun use the rings. On a broken context this fails at once: nothing runs there.
        // SAFETY: the stream lives.
        let _ = unsafe { sys::cuStreamSynchronize(self.handle) };
        self.up().release();
        self.down().release();
        *lock(&self.mark) = None;
        // SAFETY: by the contract of this function.
        match unsafe { sys::cuStreamDestroy_v2(self.handle) } {
            CUresult::CUDA_SUCCESS => {}
            error => tracing::debug!("{}", said("cuStreamDestroy", error)),
        }
    }

    /// Gives everything up: the context cannot be used any more.
    pub(crate) fn leak(&self) {
        self.up().leak();
        self.down().leak();
        std::mem::forget(lock(&self.mark).take());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
