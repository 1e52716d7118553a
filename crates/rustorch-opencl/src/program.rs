//! From source to a kernel: building, and the cache of what was built.

use crate::describe;
use crate::open_device::OpenDevice;
use crate::query::{build_log, kernel_parameters, kernel_workgroup, program_devices};
use crate::status::describe as status_name;
use crate::sys::{self, Api, DeviceId, KernelHandle, ProgramHandle, Status};
use rustorch_core::Fault;
use rustorch_kernels::driver::{KernelSignature, shortened};
use rustorch_kernels::{Hardware, KernelCache, KernelSource};
use std::ffi::{CString, c_char};
use std::fmt;
use std::sync::{Arc, Mutex};

/// A kernel of an OpenCL device, ready to run.
pub struct Kernel {
    pub(crate) open_device: Arc<OpenDevice>,
    /// Setting parameters and launching are one step: parameters are the kernel's state.
    pub(crate) handle: Mutex<KernelHandle>,
    pub(crate) form: KernelSignature,
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kernel({} on {})", self.form.label, self.open_device.device)
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        let handle = *self.handle.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        // SAFETY: the handle is this object's alone. OpenCL itself keeps the kernel for commands in the queue.
        unsafe { (self.open_device.api.release_kernel)(handle) };
    }
}

/// A program, released when dropped; kernels made of it keep what they need.
struct Program {
    api: &'static Api,
    handle: ProgramHandle,
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: the handle is this object's alone.
        unsafe { (self.api.release_program)(self.handle) };
    }
}

/// What compiles source to kernels.
pub(crate) struct Builder {
    options: CString,
    /// Device, driver and options: with the source, all that a build depends on.
    identity: String,
    cache: Option<KernelCache>,
    /// The most bytes of all parameters of a kernel.
    parameters: u64,
}

impl Builder {
    pub(crate) fn new(api: &Api, id: DeviceId, hardware: &Hardware, cache: Option<KernelCache>) -> Builder {
        // Nothing that changes numbers: no relaxed math, no contraction, and exact division and root where the device
        // has them. Subgroups are part of later languages only; the kernels need no other version than 1.2.
        let mut options = match hardware.subgroups {
            Some(_) if describe::language(api, id) >= (3, 0) => "-cl-std=CL3.0",
            Some(_) => "-cl-std=CL2.0",
            None => "-cl-std=CL1.2",
        }
        .to_string();
        let rounding = crate::query::device_number(api, id, sys::DEVICE_SINGLE_FP_CONFIG).unwrap_or(0);
        if rounding & sys::FP_CORRECTLY_ROUNDED_DIVIDE_SQRT != 0 {
            options.push_str(" -cl-fp32-correctly-rounded-divide-sqrt");
        }
        let vendor = crate::query::device_text(api, id, sys::DEVICE_VENDOR);
        let identity = format!("{vendor}\n{}\n{}\n{options}\n", hardware.name, hardware.driver);
        let options = CString::new(options).expect("the options above have no zero");
        Builder { options, identity, cache, parameters: hardware.parameters.into() }
    }

    /// Builds a kernel, or takes it from the cache.
    pub(crate) fn kernel(
        &self,
        open_device: &Arc<OpenDevice>,
        text: &KernelSource<'_>,
    ) -> Result<Kernel, Fault> {
        open_device.loss.check()?;
        let form = KernelSignature::of(text, open_device.device, self.parameters)?;
        let refused = |why: String| form.refused(open_device.device, why);
        let program = self.program(open_device, text)?;
        let entry = CString::new(text.entry)
            .map_err(|_| refused("the name of its entry point has a zero in it".to_string()))?;
        let mut status = sys::SUCCESS;
        // SAFETY: the program is built, and the name ends with a zero.
        let handle = unsafe { (open_device.api.create_kernel)(program.handle, entry.as_ptr(), &mut status) };
        if status != sys::SUCCESS {
            return Err(refused(format!(
                "there is no entry point `{}` in it: clCreateKernel says {}",
                text.entry,
                status_name(status)
            )));
        }
        let kernel = Kernel { open_device: Arc::clone(open_device), handle: Mutex::new(handle), form };
        let sizes = if text.checked { text.buffers as u64 } else { 0 };
        let stated = text.buffers as u64 + u64::from(text.parameters > 0) + sizes;
        match kernel_parameters(open_device.api, handle) {
            Some(found) if found != stated => {
                let why = format!("its text has {found} parameters, but {stated} are stated");
                return Err(kernel.form.refused(open_device.device, why));
            }
            _ => {}
        }
        if let Some(most) = kernel_workgroup(open_device.api, handle, open_device.id) {
            kernel.form.check_workgroup(open_device.device, most)?;
        }
        Ok(kernel)
    }

    /// A built program.
    fn program(&self, open_device: &OpenDevice, text: &KernelSource<'_>) -> Result<Program, Fault> {
        let Some(cache) = &self.cache else { return self.build(open_device, text) };
        let key = format!("{}{}", self.identity, text.source);
        if let Some(binary) = cache.load(&key) {
            match self.load(open_device, &binary) {
                Ok(program) => return Ok(program),
                Err(status) => tracing::debug!(
                    kernel = text.label,
                    status = %status_name(status),
                    "the driver does not take what it built earlier: building again"
                ),
            }
        }
        let program = self.build(open_device, text)?;
        match binary(open_device, program.handle) {
            Ok(binary) if !binary.is_empty() => cache.store(&key, &binary),
            Ok(_) => {}
            Err(status) => tracing::debug!(
                kernel = text.label,
                status = %status_name(status),
                "the driver does not give out what it built"
            ),
        }
        Ok(program)
    }

    /// Builds source.
    fn build(&self, open_device: &OpenDevice, text: &KernelSource<'_>) -> Result<Program, Fault> {
        let api = open_device.api;
        let mut status = sys::SUCCESS;
        let source: *const c_char = text.source.as_ptr().cast();
        let length = text.source.len();
        // SAFETY: one source of the length stated.
        let handle = unsafe {
            (api.create_program_with_source)(open_device.context(), 1, &source, &length, &mut status)
        };
        if status != sys::SUCCESS {
            return Err(open_device.refused("clCreateProgramWithSource", status));
        }
        let program = Program { api, handle };
        let status = self.run(open_device, &program);
        if status == sys::SUCCESS {
            return Ok(program);
        }
        let mut message = format!("kernel `{}` does not build", text.label);
        if status != sys::BUILD_PROGRAM_FAILURE {
            message.push_str(&format!(": clBuildProgram says {}", status_name(status)));
        }
        let log = build_log(api, program.handle, open_device.id);
        tracing::debug!(kernel = text.label, %log, source = text.source, "does not build");
        message.push_str(&format!(":\n{}", shortened(&log)));
        Err(Fault::Backend { device: open_device.device, message })
    }

    /// Makes a program of what was built earlier.
    fn load(&self, open_device: &OpenDevice, binary: &[u8]) -> Result<Program, Status> {
        let (mut status, mut taken) = (sys::SUCCESS, sys::SUCCESS);
        let (start, length) = (binary.as_ptr(), binary.len());
        // SAFETY: one device, and one binary of the length stated.
        let handle = unsafe {
            (open_device.api.create_program_with_binary)(
                open_device.context(),
                1,
                &open_device.id,
                &length,
                &start,
                &mut taken,
                &mut status,
            )
        };
        if status != sys::SUCCESS {
            return Err(status);
        }
        let program = Program { api: open_device.api, handle };
        if taken != sys::SUCCESS {
            return Err(taken);
        }
        match self.run(open_device, &program) {
            sys::SUCCESS => Ok(program),
            status => Err(status),
        }
    }

    /// Runs the compiler.
    fn run(&self, open_device: &OpenDevice, program: &Program) -> Status {
        // SAFETY: one device, options that end with a zero, and no function to call.
        unsafe {
            (open_device.api.build_program)(
                program.handle,
                1,
                &open_device.id,
                self.options.as_ptr(),
                None,
                std::ptr::null_mut(),
            )
        }
    }
}

/// What was built, in the driver's own format.
fn binary(open_device: &OpenDevice, program: ProgramHandle) -> Result<Vec<u8>, Status> {
    let api = open_device.api;
    // A program is of all devices of its context, and lists are in their order.
    let devices = program_devices(api, program)?;
    let index = devices.iter().position(|&id| id == open_device.id).ok_or(sys::INVALID_DEVICE)?;
    let mut lengths = vec![0_usize; devices.len()];
    // SAFETY: the answer is one `size_t` for each device.
    let status = unsafe {
        (api.get_program_info)(
            program,
            sys::PROGRAM_BINARY_SIZES,
            size_of_val(&*lengths),
            lengths.as_mut_ptr().cast(),
            std::ptr::null_mut(),
        )
    };
    if status != sys::SUCCESS {
        return Err(status);
    }
    let mut binary = vec![0_u8; lengths[index]];
    if binary.is_empty() {
        return Ok(binary);
    }
    // Null stands for a device whose binary is not wanted.
    let mut starts = vec![std::ptr::null_mut::<u8>(); devices.len()];
    starts[index] = binary.as_mut_ptr();
    // SAFETY: the argument is a list of a pointer for each device, which is null or leads to as many bytes as the driver has
    // stated.
    let status = unsafe {
        (api.get_program_info)(
            program,
            sys::PROGRAM_BINARIES,
            size_of_val(&*starts),
            starts.as_mut_ptr().cast(),
            std::ptr::null_mut(),
        )
    };
    if status == sys::SUCCESS { Ok(binary) } else { Err(status) }
}
