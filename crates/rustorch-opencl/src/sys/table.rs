//! The functions of the OpenCL library, looked up in it when it is opened.

use super::{
    ContextHandle, DeviceId, EventHandle, KernelHandle, MemHandle, PlatformId, ProgramHandle, QueueHandle,
    Status,
};
use libloading::Library;
use std::error::Error;
use std::ffi::{c_char, c_void};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Called by drivers with what goes wrong in a context; always null here.
type ContextNotify = Option<unsafe extern "system" fn(*const c_char, *const c_void, usize, *mut c_void)>;
/// Called when a program is built; always null here.
type BuildNotify = Option<unsafe extern "system" fn(ProgramHandle, *mut c_void)>;

macro_rules! functions {
    ($($field:ident = $symbol:literal: ($($argument:ty),* $(,)?) -> $result:ty;)*) => {
        /// The functions, by their names without `cl`; arguments as in the OpenCL specification.
        pub(crate) struct Api {
            $(pub(crate) $field: unsafe extern "system" fn($($argument),*) -> $result,)*
        }

        impl Api {
            /// Looks every function up. The library is never closed: drivers do not stand it.
            fn load(library: Library) -> Result<Api, &'static str> {
                let library: &'static Library = Box::leak(Box::new(library));
                Ok(Api {$(
                    $field: {
                        // SAFETY: the type is that of the function of this name in the OpenCL specification.
                        let symbol = unsafe {
                            library.get::<unsafe extern "system" fn($($argument),*) -> $result>($symbol)
                        };
                        *symbol.map_err(|_| $symbol)?
                    },
                )*})
            }
        }
    };
}

functions! {
    get_platform_ids = "clGetPlatformIDs": (u32, *mut PlatformId, *mut u32) -> Status;
    get_platform_info = "clGetPlatformInfo": (PlatformId, u32, usize, *mut c_void, *mut usize) -> Status;
    get_device_ids = "clGetDeviceIDs": (PlatformId, u64, u32, *mut DeviceId, *mut u32) -> Status;
    get_device_info = "clGetDeviceInfo": (DeviceId, u32, usize, *mut c_void, *mut usize) -> Status;
    create_context = "clCreateContext":
        (*const isize, u32, *const DeviceId, ContextNotify, *mut c_void, *mut Status) -> ContextHandle;
    release_context = "clReleaseContext": (ContextHandle) -> Status;
    create_command_queue = "clCreateCommandQueue": (ContextHandle, DeviceId, u64, *mut Status) -> QueueHandle;
    release_command_queue = "clReleaseCommandQueue": (QueueHandle) -> Status;
    create_buffer = "clCreateBuffer": (ContextHandle, u64, usize, *mut c_void, *mut Status) -> MemHandle;
    release_mem_object = "clReleaseMemObject": (MemHandle) -> Status;
    create_program_with_source = "clCreateProgramWithSource":
        (ContextHandle, u32, *const *const c_char, *const usize, *mut Status) -> ProgramHandle;
    create_program_with_binary = "clCreateProgramWithBinary":
        (ContextHandle, u32, *const DeviceId, *const usize, *const *const u8, *mut Status, *mut Status) -> ProgramHandle;
    build_program = "clBuildProgram":
        (ProgramHandle, u32, *const DeviceId, *const c_char, BuildNotify, *mut c_void) -> Status;
    get_program_info = "clGetProgramInfo": (ProgramHandle, u32, usize, *mut c_void, *mut usize) -> Status;
    get_program_build_info = "clGetProgramBuildInfo":
        (ProgramHandle, DeviceId, u32, usize, *mut c_void, *mut usize) -> Status;
    release_program = "clReleaseProgram": (ProgramHandle) -> Status;
    create_kernel = "clCreateKernel": (ProgramHandle, *const c_char, *mut Status) -> KernelHandle;
    release_kernel = "clReleaseKernel": (KernelHandle) -> Status;
    set_kernel_arg = "clSetKernelArg": (KernelHandle, u32, usize, *const c_void) -> Status;
    get_kernel_info = "clGetKernelInfo": (KernelHandle, u32, usize, *mut c_void, *mut usize) -> Status;
    get_kernel_work_group_info = "clGetKernelWorkGroupInfo":
        (KernelHandle, DeviceId, u32, usize, *mut c_void, *mut usize) -> Status;
    enqueue_nd_range_kernel = "clEnqueueNDRangeKernel":
        (
            QueueHandle, KernelHandle, u32, *const usize, *const usize, *const usize, u32, *const EventHandle,
            *mut EventHandle,
        ) -> Status;
    enqueue_read_buffer = "clEnqueueReadBuffer":
        (
            QueueHandle, MemHandle, u32, usize, usize, *mut c_void, u32, *const EventHandle, *mut EventHandle,
        ) -> Status;
    enqueue_write_buffer = "clEnqueueWriteBuffer":
        (
            QueueHandle, MemHandle, u32, usize, usize, *const c_void, u32, *const EventHandle, *mut EventHandle,
        ) -> Status;
    enqueue_copy_buffer = "clEnqueueCopyBuffer":
        (
            QueueHandle, MemHandle, MemHandle, usize, usize, usize, u32, *const EventHandle, *mut EventHandle,
        ) -> Status;
    enqueue_fill_buffer = "clEnqueueFillBuffer":
        (
            QueueHandle, MemHandle, *const c_void, usize, usize, usize, u32, *const EventHandle, *mut EventHandle,
        ) -> Status;
    enqueue_marker_with_wait_list = "clEnqueueMarkerWithWaitList":
        (QueueHandle, u32, *const EventHandle, *mut EventHandle) -> Status;
    enqueue_barrier_with_wait_list = "clEnqueueBarrierWithWaitList":
        (QueueHandle, u32, *const EventHandle, *mut EventHandle) -> Status;
    flush = "clFlush": (QueueHandle) -> Status;
    finish = "clFinish": (QueueHandle) -> Status;
    get_event_info = "clGetEventInfo": (EventHandle, u32, usize, *mut c_void, *mut usize) -> Status;
    get_event_profiling_info = "clGetEventProfilingInfo": (EventHandle, u32, usize, *mut c_void, *mut usize) -> Status;
    release_event = "clReleaseEvent": (EventHandle) -> Status;
}

/// Why there is no OpenCL: a sentence for people, with what to do.
#[derive(Clone, Debug)]
pub(crate) struct Missing(pub(crate) String);

impl Api {
    /// The machine's OpenCL library, opened at the first call.
    pub(crate) fn get() -> Result<&'static Api, Missing> {
        static API: OnceLock<Result<Api, Missing>> = OnceLock::new();
        API.get_or_init(open).as_ref().map_err(Clone::clone)
    }

    /// To be held while drivers and devices start up, which is done by the first calls about them: OpenCL allows those from
    /// several threads, but PoCL 3.1 crashes.
    pub(crate) fn starting() -> MutexGuard<'static, ()> {
        static STARTING: Mutex<()> = Mutex::new(());
        STARTING.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where the loader of OpenCL drivers is found, by platform.
const LIBRARIES: &[&str] = if cfg!(windows) {
    &["OpenCL.dll"]
} else if cfg!(target_vendor = "apple") {
    &["/System/Library/Frameworks/OpenCL.framework/OpenCL"]
} else {
    &["libOpenCL.so.1", "libOpenCL.so"]
};

fn open() -> Result<Api, Missing> {
    let mut said = Vec::new();
    for name in LIBRARIES {
        // SAFETY: this runs the initialisation of the machine's own OpenCL library, as linking to it would.
        match unsafe { Library::new(*name) } {
            Ok(library) => {
                return Api::load(library).map_err(|symbol| {
                    Missing(format!(
                        "{name} has no function {symbol}: OpenCL 1.2 or later is needed; install a newer package \
                         ocl-icd-libopencl1, or a newer driver of your device's vendor"
                    ))
                });
            }
            // The outer error names the call only.
            Err(error) => said.push(match error.source() {
                Some(source) => source.to_string(),
                None => error.to_string(),
            }),
        }
    }
    Err(Missing(format!(
        "the OpenCL library is not found ({}): install package ocl-icd-libopencl1 and a driver, or the driver of your \
         device's vendor",
        said.join("; ")
    )))
}
