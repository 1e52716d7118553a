//! Events: marks in a stream.

use cudarc::driver::sys::{self, CUevent, CUresult, CUstream};
use std::sync::OnceLock;

/// A mark that a stream reaches when all earlier work is done; destroyed when dropped. Its context must be current then.
pub(crate) struct Event(CUevent);

// SAFETY: events belong to a context and to no thread.
unsafe impl Send for Event {}
// SAFETY: the driver may be called with an event from several threads at once.
unsafe impl Sync for Event {}

/// `cuEventElapsedTime`, by the name and type that it has in all drivers: `cudarc` offers the later name only.
type Elapsed = unsafe extern "C" fn(*mut f32, CUevent, CUevent) -> CUresult;

fn elapsed() -> Elapsed {
    static ELAPSED: OnceLock<Elapsed> = OnceLock::new();
    *ELAPSED.get_or_init(|| {
        // SAFETY: the library is loaded, which was the first that was asked of the driver, and the type is as documented.
        let symbol = unsafe { sys::culib().get::<Elapsed>("cuEventElapsedTime") };
        *symbol.expect("the driver was found to have the function")
    })
}

impl Event {
    /// A new event of the current context. Those that are `timed` cost more.
    pub(crate) fn new(timed: bool) -> Result<Event, CUresult> {
        let flags = if timed {
            sys::CUevent_flags::CU_EVENT_DEFAULT
        } else {
            sys::CUevent_flags::CU_EVENT_DISABLE_TIMING
        };
        let mut event = std::ptr::null_mut();
        // SAFETY: the driver is loaded, and the handle goes to a variable.
        match unsafe { sys::cuEventCreate(&mut event, flags as u32) } {
            CUresult::CUDA_SUCCESS => Ok(Event(event)),
            error => Err(error),
        }
    }

    /// Puts the mark into a stream of its context.
    pub(crate) fn record(&self, stream: CUstream) -> CUresult {
        // SAFETY: the event lives, and the caller's stream too.
        unsafe { sys::cuEventRecord(self.0, stream) }
    }

    /// Has a stream of its context wait for the mark as it is now.
    pub(crate) fn hold(&self, stream: CUstream) -> CUresult {
        // SAFETY: the event lives, and the caller's stream too.
        unsafe { sys::cuStreamWaitEvent(stream, self.0, 0) }
    }

    /// Waits until the mark is reached.
    pub(crate) fn wait(&self) -> CUresult {
        // SAFETY: the event lives.
        unsafe { sys::cuEventSynchronize(self.0) }
    }

    /// Whether the mark is reached.
    pub(crate) fn is_reached(&self) -> bool {
        // SAFETY: the event lives.
        unsafe { sys::cuEventQuery(self.0) == CUresult::CUDA_SUCCESS }
    }

    /// Nanoseconds from another mark to this one, to half a microsecond, negative if that one was reached later; both are timed
    /// and reached. `None` if the driver does not say.
    pub(crate) fn since(&self, other: &Event) -> Option<i64> {
        let mut milliseconds = 0.0_f32;
        // SAFETY: both events live, and the number goes to a variable.
        match unsafe { elapsed()(&mut milliseconds, other.0, self.0) } {
            CUresult::CUDA_SUCCESS => Some((f64::from(milliseconds) * 1e6).round() as i64),
            _ => None,
        }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: the handle is this object's alone. If the context is gone, so is the event.
        let _ = unsafe { sys::cuEventDestroy_v2(self.0) };
    }
}
