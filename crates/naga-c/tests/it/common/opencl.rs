//! Just enough OpenCL to run a kernel, through the system's loader. Nothing of it is used where there is no loader, no
//! device, or where the device lacks what a kernel needs.

use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr::{null, null_mut};
use std::sync::OnceLock;

use libloading::Library;
use naga_c::{ArgumentKind, Dialect, Output};
use rustorch_testkit::{Requirement, skip};

type Handle = *mut c_void;

macro_rules! functions {
    ($($name:ident: fn($($argument:ty),*) -> $result:ty;)*) => {
        #[allow(non_snake_case, reason = "the names of the API")]
        struct Api { $($name: unsafe extern "system" fn($($argument),*) -> $result,)* _library: Library }

        impl Api {
            fn load(library: Library) -> Result<Self, libloading::Error> {
                // SAFETY: the signatures are those of OpenCL 1.2's header; the library lives as long as the pointers.
                unsafe { Ok(Self { $($name: *library.get(concat!(stringify!($name), "\0").as_bytes())?,)* _library: library }) }
            }
        }
    };
}

functions! {
    clGetPlatformIDs: fn(u32, *mut Handle, *mut u32) -> i32;
    clGetDeviceIDs: fn(Handle, u64, u32, *mut Handle, *mut u32) -> i32;
    clGetDeviceInfo: fn(Handle, u32, usize, *mut c_void, *mut usize) -> i32;
    clCreateContext: fn(*const isize, u32, *const Handle, Option<extern "system" fn()>, *mut c_void, *mut i32) -> Handle;
    clCreateCommandQueue: fn(Handle, Handle, u64, *mut i32) -> Handle;
    clCreateProgramWithSource: fn(Handle, u32, *const *const c_char, *const usize, *mut i32) -> Handle;
    clBuildProgram: fn(Handle, u32, *const Handle, *const c_char, Option<extern "system" fn()>, *mut c_void) -> i32;
    clGetProgramBuildInfo: fn(Handle, Handle, u32, usize, *mut c_void, *mut usize) -> i32;
    clReleaseProgram: fn(Handle) -> i32;
    clCreateKernel: fn(Handle, *const c_char, *mut i32) -> Handle;
    clReleaseKernel: fn(Handle) -> i32;
    clSetKernelArg: fn(Handle, u32, usize, *const c_void) -> i32;
    clCreateBuffer: fn(Handle, u64, usize, *mut c_void, *mut i32) -> Handle;
    clReleaseMemObject: fn(Handle) -> i32;
    clEnqueueNDRangeKernel: fn(Handle, Handle, u32, *const usize, *const usize, *const usize, u32, *const Handle, *mut Handle) -> i32;
    clEnqueueReadBuffer: fn(Handle, Handle, u32, usize, usize, *mut c_void, u32, *const Handle, *mut Handle) -> i32;
}

/// A device with a context and a queue.
pub(crate) struct Device {
    api: Api,
    device: Handle,
    context: Handle,
    queue: Handle,
    name: String,
    extensions: String,
}

// SAFETY: OpenCL's objects may be used from any thread; kernels, whose arguments are state, are made anew for each run.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

/// The first device, if there is any. `OPENCL_PATH` names another loader or driver than the system's.
pub(crate) fn device() -> Option<&'static Device> {
    static DEVICE: OnceLock<Result<Device, String>> = OnceLock::new();
    let device = DEVICE.get_or_init(|| {
        let device = Device::open()?;
        println!("OpenCL device: {}", device.name);
        Ok(device)
    });
    device.as_ref().map_err(|reason| skip(Requirement::OpenCl, reason)).ok()
}

impl Device {
    fn open() -> Result<Self, String> {
        let path = std::env::var("OPENCL_PATH").unwrap_or_else(|_| {
            if cfg!(windows) {
                "OpenCL.dll"
            } else if cfg!(target_os = "macos") {
                "/System/Library/Frameworks/OpenCL.framework/OpenCL"
            } else {
                "libOpenCL.so.1"
            }
            .into()
        });
        // SAFETY: OpenCL loaders have no initializers that matter to this process.
        let library = unsafe { Library::new(&path) }.map_err(|error| error.to_string())?;
        let api = Api::load(library).map_err(|error| error.to_string())?;
        let check =
            |code: i32, what: &str| if code == 0 { Ok(()) } else { Err(format!("{what}: error {code}")) };
        let (mut platform, mut device, mut code) = (null_mut(), null_mut(), 0);
        // SAFETY: each pointer is to a live variable of the type that the function fills.
        unsafe {
            check((api.clGetPlatformIDs)(1, &mut platform, null_mut()), "no platform")?;
            check((api.clGetDeviceIDs)(platform, 0xffff_ffff, 1, &mut device, null_mut()), "no device")?;
            let context = (api.clCreateContext)(null(), 1, &device, None, null_mut(), &mut code);
            check(code, "no context")?;
            let queue = (api.clCreateCommandQueue)(context, device, 0, &mut code);
            check(code, "no queue")?;
            let mut opened =
                Self { api, device, context, queue, name: String::new(), extensions: String::new() };
            opened.name = opened.info(0x102b);
            opened.extensions = opened.info(0x1030);
            Ok(opened)
        }
    }

    fn info(&self, what: u32) -> String {
        let mut bytes = vec![0_u8; 1 << 16];
        // SAFETY: the buffer is as long as said.
        unsafe {
            (self.api.clGetDeviceInfo)(
                self.device,
                what,
                bytes.len() - 1,
                bytes.as_mut_ptr().cast(),
                null_mut(),
            )
        };
        CStr::from_bytes_until_nul(&bytes).map(|text| text.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// Whether the device has all extensions that a program needs.
    pub(crate) fn can_run(&self, output: &Output) -> bool {
        let has = |name: &str| self.extensions.split_whitespace().any(|have| have == name);
        let subgroups = !output.subgroups || has("cl_khr_subgroups") || has("cl_intel_subgroups");
        subgroups && output.extensions.iter().all(|name| has(name))
    }

    /// Builds a program.
    fn build(&self, output: &Output) -> Result<Handle, String> {
        let source = CString::new(output.source.as_str()).unwrap();
        let version = if output.subgroups { "-cl-std=CL2.0" } else { "-cl-std=CL1.2" };
        let flags = CString::new([&[version], Dialect::OpenCl.compiler_flags()].concat().join(" ")).unwrap();
        let (pointer, mut code) = (source.as_ptr(), 0);
        // SAFETY: one source that ends with zero; the log's buffer is as long as said.
        unsafe {
            let program = (self.api.clCreateProgramWithSource)(self.context, 1, &pointer, null(), &mut code);
            assert_eq!(code, 0, "clCreateProgramWithSource");
            let code = (self.api.clBuildProgram)(program, 1, &self.device, flags.as_ptr(), None, null_mut());
            let mut log = vec![0_u8; 1 << 16];
            let length = log.len() - 1;
            (self.api.clGetProgramBuildInfo)(
                program,
                self.device,
                0x1183,
                length,
                log.as_mut_ptr().cast(),
                null_mut(),
            );
            let log = CStr::from_bytes_until_nul(&log).unwrap().to_string_lossy().into_owned();
            if code == 0 { Ok(program) } else { Err(format!("error {code}\n{log}\n{}", output.source)) }
        }
    }

    /// Only compiles.
    pub(crate) fn compile(&self, output: &Output) -> Result<(), String> {
        let program = self.build(output)?;
        // SAFETY: the program was just made.
        unsafe { (self.api.clReleaseProgram)(program) };
        Ok(())
    }
}

impl super::Runner for Device {
    fn dialect(&self) -> Dialect {
        Dialect::OpenCl
    }

    fn run_output(&self, output: &Output, groups: [u32; 3], buffers: &mut [Vec<u8>]) {
        let program = self.build(output).unwrap_or_else(|log| panic!("{log}"));
        let kernel_info = &output.entry_points[0];
        let name = CString::new(kernel_info.name.as_str()).unwrap();
        let mut code = 0;
        // SAFETY: sizes and pointers of all arguments are those of live vectors; the queue is in order and each read blocks.
        unsafe {
            let kernel = (self.api.clCreateKernel)(program, name.as_ptr(), &mut code);
            assert_eq!(code, 0, "clCreateKernel");
            let mut device_buffers = Vec::new();
            for (index, argument) in kernel_info.arguments.iter().enumerate() {
                let bytes = &mut buffers[argument.binding as usize];
                let code = match argument.kind {
                    ArgumentKind::Storage { .. } => {
                        // CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR
                        let buffer = (self.api.clCreateBuffer)(
                            self.context,
                            1 | 32,
                            bytes.len(),
                            bytes.as_mut_ptr().cast(),
                            &mut code,
                        );
                        assert_eq!(code, 0, "clCreateBuffer");
                        device_buffers.push((argument.binding as usize, buffer));
                        (self.api.clSetKernelArg)(
                            kernel,
                            index as u32,
                            size_of::<Handle>(),
                            (&raw const buffer).cast(),
                        )
                    }
                    ArgumentKind::Uniform { size } => {
                        assert_eq!(size as usize, bytes.len(), "a uniform's size");
                        (self.api.clSetKernelArg)(kernel, index as u32, bytes.len(), bytes.as_ptr().cast())
                    }
                    ArgumentKind::StorageSize => {
                        let size = bytes.len() as u32;
                        (self.api.clSetKernelArg)(kernel, index as u32, 4, (&raw const size).cast())
                    }
                };
                assert_eq!(code, 0, "clSetKernelArg {index}\n{}", output.source);
            }
            let local = kernel_info.workgroup_size.map(|n| n as usize);
            let global = [0, 1, 2].map(|axis| groups[axis] as usize * local[axis]);
            let code = (self.api.clEnqueueNDRangeKernel)(
                self.queue,
                kernel,
                3,
                null(),
                global.as_ptr(),
                local.as_ptr(),
                0,
                null(),
                null_mut(),
            );
            assert_eq!(code, 0, "clEnqueueNDRangeKernel");
            for (binding, buffer) in device_buffers {
                let bytes = &mut buffers[binding];
                let (length, pointer) = (bytes.len(), bytes.as_mut_ptr().cast());
                let code = (self.api.clEnqueueReadBuffer)(
                    self.queue,
                    buffer,
                    1,
                    0,
                    length,
                    pointer,
                    0,
                    null(),
                    null_mut(),
                );
                assert_eq!(code, 0, "clEnqueueReadBuffer");
                (self.api.clReleaseMemObject)(buffer);
            }
            (self.api.clReleaseKernel)(kernel);
            (self.api.clReleaseProgram)(program);
        }
    }
}
