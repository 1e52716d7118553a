//! Which GPUs there are, and what is missing where there are none.

use crate::fault::said;
use crate::libraries;
use crate::nvrtc::Nvrtc;
use crate::{describe, nvrtc::Target};
use cudarc::driver::sys::{self, CUdevice, CUresult};
use rustorch_core::Device;
use rustorch_kernels::Hardware;

/// What [`discover`] has found.
#[derive(Debug, Default)]
pub struct Discovery {
    /// GPUs that can be opened, in the driver's order. The place in the list is the index in [`Device::cuda`].
    pub devices: Vec<Candidate>,
    /// Why there are no others: the library that is missing and how to get it, or what is wrong with a device. Sentences for
    /// people.
    pub missing: Vec<String>,
}

/// A GPU that can be opened.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub(crate) id: CUdevice,
    pub(crate) nvrtc: Nvrtc,
    pub(crate) target: Target,
    pub(crate) hardware: Hardware,
}

impl Candidate {
    /// What its driver says of it. How it rounds is for the engine to find.
    pub fn hardware(&self) -> &Hardware {
        &self.hardware
    }
}

/// Looks for every GPU. Loads NVIDIA's libraries, opens no device.
pub fn discover() -> Discovery {
    let mut found = Discovery::default();
    if let Err(reason) = look(&mut found) {
        found.missing.push(reason);
    }
    found
}

fn look(found: &mut Discovery) -> Result<(), String> {
    libraries::driver()?;
    // SAFETY: the driver is loaded.
    match unsafe { sys::cuInit(0) } {
        CUresult::CUDA_SUCCESS => {}
        CUresult::CUDA_ERROR_NO_DEVICE => {
            return Err("NVIDIA's driver finds no GPU (CUDA_VISIBLE_DEVICES may hide it)".to_string());
        }
        CUresult::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH => {
            return Err(
                "NVIDIA's driver library and kernel module are of different versions: restart the machine"
                    .to_string(),
            );
        }
        CUresult::CUDA_ERROR_STUB_LIBRARY => {
            return Err("the CUDA toolkit's stub of the driver library is found instead of the driver: take it out of \
                        the library path"
                .to_string());
        }
        error => {
            return Err(format!(
                "NVIDIA's driver does not start: {}; is its kernel module loaded, and may this user open \
                 /dev/nvidia0?",
                said("cuInit", error)
            ));
        }
    }
    let (mut version, mut count) = (0, 0);
    // SAFETY: the driver is initialised, and the numbers go to variables.
    let results = unsafe {
        [
            ("cuDriverGetVersion", sys::cuDriverGetVersion(&mut version)),
            ("cuDeviceGetCount", sys::cuDeviceGetCount(&mut count)),
        ]
    };
    for (call, result) in results {
        if result != CUresult::CUDA_SUCCESS {
            return Err(said(call, result));
        }
    }
    if count == 0 {
        return Err("NVIDIA's driver finds no GPU (CUDA_VISIBLE_DEVICES may hide it)".to_string());
    }
    let nvrtc = Nvrtc::find().map_err(|error| format!("there are {count} NVIDIA GPUs, but {error}"))?;
    let (major, minor) = nvrtc.version();
    // What is measured of a device holds for these.
    let products =
        libraries::cublaslt_file().map_or("without cuBLASLt".to_owned(), |file| format!("cuBLASLt {file}"));
    let (cuda, minor_cuda) = (version / 1000, version % 1000 / 10);
    let driver = format!("CUDA {cuda}.{minor_cuda}, NVRTC {major}.{minor}, {products}");
    for ordinal in 0..count {
        if let Err(reason) = look_at(ordinal, &nvrtc, &driver, found) {
            found.missing.push(format!("NVIDIA GPU {ordinal} cannot be used: {reason}"));
        }
    }
    Ok(())
}

/// Adds a GPU.
fn look_at(ordinal: i32, nvrtc: &Nvrtc, driver: &str, found: &mut Discovery) -> Result<(), String> {
    let mut id: CUdevice = 0;
    // SAFETY: the driver is initialised, and the handle goes to a variable.
    match unsafe { sys::cuDeviceGet(&mut id, ordinal) } {
        CUresult::CUDA_SUCCESS => {}
        error => return Err(said("cuDeviceGet", error)),
    }
    let index = u8::try_from(found.devices.len()).map_err(|_| "it is beyond the first 256".to_string())?;
    let capability = describe::capability(id).map_err(|error| said("cuDeviceGetAttribute", error))?;
    let target = nvrtc.target(capability).map_err(|error| error.to_string())?;
    let hardware = describe::hardware(id, Device::cuda(index), driver)
        .map_err(|error| format!("its driver does not describe it: {error:?}"))?;
    found.devices.push(Candidate { id, nvrtc: nvrtc.clone(), target, hardware });
    Ok(())
}
