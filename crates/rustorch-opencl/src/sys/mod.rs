//! OpenCL's C interface: what this crate uses of it, by the Khronos headers' names without their prefix.

mod constants;
mod table;

pub(crate) use constants::*;
pub(crate) use table::Api;

use std::ffi::c_void;

/// A status code: [`SUCCESS`] or one of the negative ones that [`crate::status`] names.
pub(crate) type Status = i32;

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) struct $name(*mut c_void);

        impl Default for $name {
            /// No object.
            fn default() -> $name {
                $name(std::ptr::null_mut())
            }
        }

        // SAFETY: OpenCL's objects belong to no thread, and its functions may be called with them from several at once, but
        // `clSetKernelArg` on one kernel, which `Kernel` keeps under a lock (OpenCL 1.2 specification, appendix A.2).
        unsafe impl Send for $name {}
        // SAFETY: as for `Send`.
        unsafe impl Sync for $name {}
    )*};
}

impl PlatformId {
    /// Its address, as an entry of a list of properties.
    pub(crate) fn address(self) -> isize {
        self.0 as isize
    }
}

handles! {
    /// `cl_platform_id`
    PlatformId
    /// `cl_device_id`
    DeviceId
    /// `cl_context`
    ContextHandle
    /// `cl_command_queue`
    QueueHandle
    /// `cl_mem`
    MemHandle
    /// `cl_program`
    ProgramHandle
    /// `cl_kernel`
    KernelHandle
    /// `cl_event`
    EventHandle
}
