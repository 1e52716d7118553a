//! What a GPU says of itself, in the engine's terms.

use cudarc::driver::sys::{self, CUdevice, CUdevice_attribute as Attribute, CUresult};
use rustorch_core::Device;
use rustorch_kernels::{Arithmetic, Hardware, Language, Subgroups};
use std::ffi::{CStr, c_char};

/// 32-bit indices of words reach this far.
const INDEXED: u64 = 4 << 32;
/// Along y and z; along x it would be 2³¹ − 1.
const GROUPS: u32 = 65_535;
/// Bytes of all parameters of a kernel; from CUDA 12.1 on more, but not on every GPU.
const PARAMETERS: u32 = 4096;
/// The alignment of parameters that are read as vectors of four words.
const WINDOW: u32 = 16;

/// A number that describes a device.
pub(crate) fn attribute(device: CUdevice, what: Attribute) -> Result<i32, CUresult> {
    let mut value = 0;
    // SAFETY: the driver is loaded and initialised, and the answer goes to a variable.
    match unsafe { sys::cuDeviceGetAttribute(&mut value, what, device) } {
        CUresult::CUDA_SUCCESS => Ok(value),
        error => Err(error),
    }
}

/// The compute capability, as in 90 for 9.0.
pub(crate) fn capability(device: CUdevice) -> Result<i32, CUresult> {
    let major = attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
    let minor = attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
    Ok(10 * major + minor)
}

/// Where a GPU is plugged in, as the system writes it; `None` if the driver does not say.
pub(crate) fn pci_address(device: CUdevice) -> Option<String> {
    let mut text = [0_u8; 32];
    // SAFETY: the driver is loaded and initialised, and the source goes to a buffer of the length stated.
    let result =
        unsafe { sys::cuDeviceGetPCIBusId(text.as_mut_ptr().cast::<c_char>(), text.len() as i32, device) };
    let text = CStr::from_bytes_until_nul(&text).ok()?.to_str().ok()?;
    (result == CUresult::CUDA_SUCCESS && !text.is_empty()).then(|| text.to_ascii_lowercase())
}

/// The abilities and limits of a GPU, but how it rounds.
pub(crate) fn hardware(device: CUdevice, place: Device, driver: &str) -> Result<Hardware, CUresult> {
    let mut name = [0_u8; 256];
    let mut memory = 0_usize;
    // SAFETY: the driver is loaded and initialised; the name goes to a buffer of the length stated, the size to a variable.
    unsafe {
        match sys::cuDeviceGetName(name.as_mut_ptr().cast::<c_char>(), name.len() as i32, device) {
            CUresult::CUDA_SUCCESS => {}
            error => return Err(error),
        }
        match sys::cuDeviceTotalMem_v2(&mut memory, device) {
            CUresult::CUDA_SUCCESS => {}
            error => return Err(error),
        }
    }
    let end = name.iter().position(|&b| b == 0).unwrap_or(name.len());
    let count = |what| attribute(device, what).map(|value| u32::try_from(value).unwrap_or(0));
    let capability = capability(device)?;
    let memory = memory as u64;
    let warp = count(Attribute::CU_DEVICE_ATTRIBUTE_WARP_SIZE)?;
    Ok(Hardware {
        device: place,
        name: String::from_utf8_lossy(&name[..end]).into_owned(),
        driver: format!("{driver}, compute capability {}.{}", capability / 10, capability % 10),
        language: Language::CudaC,
        f64: true,
        i64: true,
        subgroups: Some(Subgroups { least: warp, most: warp }),
        tensor_cores: capability >= 80,
        software: false,
        workgroup: count(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
        workgroup_memory: count(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK)?,
        groups: GROUPS,
        max_buffer: memory / 16 * 16,
        max_binding: (memory / 16 * 16).min(INDEXED),
        buffers: u32::MAX,
        parameters: PARAMETERS,
        window: Some(WINDOW),
        memory: Some(memory),
        arithmetic: Arithmetic::default(),
    })
}
