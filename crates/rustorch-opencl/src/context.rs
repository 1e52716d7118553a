//! Contexts: devices of one context share memory, which is the direct way from one to the other.

use crate::sys::{self, Api, ContextHandle, DeviceId, PlatformId, Status};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// A context, released when dropped.
pub(crate) struct Context {
    api: &'static Api,
    handle: ContextHandle,
    devices: Vec<DeviceId>,
}

/// The contexts of several devices that are in use: whoever opens one of the devices joins.
static SHARED: Mutex<Vec<Weak<Context>>> = Mutex::new(Vec::new());

impl Context {
    /// A context of some devices of a platform. If there are several, it is the same one for all who ask.
    pub(crate) fn of(
        api: &'static Api,
        platform: PlatformId,
        devices: &[DeviceId],
    ) -> Result<Arc<Context>, Status> {
        if devices.len() == 1 {
            return Ok(Arc::new(Context::new(api, platform, devices)?));
        }
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.retain(|context| context.strong_count() > 0);
        if let Some(known) = shared.iter().filter_map(Weak::upgrade).find(|known| known.devices == devices) {
            return Ok(known);
        }
        let context = Arc::new(Context::new(api, platform, devices)?);
        shared.push(Arc::downgrade(&context));
        Ok(context)
    }

    fn new(api: &'static Api, platform: PlatformId, devices: &[DeviceId]) -> Result<Context, Status> {
        // A handle is as wide as a pointer, as is an entry of the list.
        let properties = [sys::CONTEXT_PLATFORM, platform.address(), 0];
        let (count, mut status) = (devices.len() as u32, sys::SUCCESS);
        // SAFETY: the list of properties ends with 0, and the list of devices has the length stated.
        let handle = unsafe {
            (api.create_context)(
                properties.as_ptr(),
                count,
                devices.as_ptr(),
                None,
                std::ptr::null_mut(),
                &mut status,
            )
        };
        if status == sys::SUCCESS {
            Ok(Context { api, handle, devices: devices.to_vec() })
        } else {
            Err(status)
        }
    }

    /// Its handle.
    pub(crate) fn handle(&self) -> ContextHandle {
        self.handle
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: the handle is this object's alone, and queues and memories, which hold it, are gone.
        unsafe { (self.api.release_context)(self.handle) };
    }
}
