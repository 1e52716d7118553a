//! The libraries, opened at run time, and each found complete before its first use: `cudarc` panics where a library or a
//! function is missing.

use crate::wheels::{self, Names};
use cudarc::{cublaslt, driver, nvrtc};
use libloading::Library;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// What this crate calls of the driver.
const DRIVER: &[&str] = &[
    "cuCtxSetCurrent",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDeviceGetCount",
    "cuDeviceGetDefaultMemPool",
    "cuDeviceGetName",
    "cuDeviceGetPCIBusId",
    "cuDevicePrimaryCtxRelease_v2",
    "cuDevicePrimaryCtxRetain",
    "cuDeviceTotalMem_v2",
    "cuDriverGetVersion",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventElapsedTime",
    "cuEventQuery",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuFuncGetAttribute",
    "cuInit",
    "cuLaunchKernel",
    "cuMemAllocAsync",
    "cuMemAlloc_v2",
    "cuMemFreeAsync",
    "cuMemFreeHost",
    "cuMemFree_v2",
    "cuMemHostAlloc",
    "cuMemPoolSetAttribute",
    "cuMemPoolTrimTo",
    "cuMemcpyDtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuModuleGetFunction",
    "cuModuleLoadData",
    "cuModuleUnload",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamSynchronize",
];

/// What this crate calls of NVRTC.
const NVRTC: &[&str] = &[
    "nvrtcCompileProgram",
    "nvrtcCreateProgram",
    "nvrtcDestroyProgram",
    "nvrtcGetCUBIN",
    "nvrtcGetCUBINSize",
    "nvrtcGetNumSupportedArchs",
    "nvrtcGetPTX",
    "nvrtcGetPTXSize",
    "nvrtcGetProgramLog",
    "nvrtcGetProgramLogSize",
    "nvrtcGetSupportedArchs",
    "nvrtcVersion",
];

/// What this crate calls of cuBLASLt.
const CUBLASLT: &[&str] = &[
    "cublasLtCreate",
    "cublasLtDestroy",
    "cublasLtGetVersion",
    "cublasLtMatmul",
    "cublasLtMatmulAlgoGetHeuristic",
    "cublasLtMatmulDescCreate",
    "cublasLtMatmulDescDestroy",
    "cublasLtMatmulDescSetAttribute",
    "cublasLtMatmulPreferenceCreate",
    "cublasLtMatmulPreferenceDestroy",
    "cublasLtMatmulPreferenceSetAttribute",
    "cublasLtMatrixLayoutCreate",
    "cublasLtMatrixLayoutDestroy",
    "cublasLtMatrixLayoutSetAttribute",
];

/// The first function of the list that a library lacks.
fn lacking(library: &Library, names: &[&'static str]) -> Option<&'static str> {
    names.iter().copied().find(|name| {
        // SAFETY: the symbol is only looked for, not called.
        unsafe { library.get::<unsafe extern "C" fn()>(*name) }.is_err()
    })
}

/// Opens NVIDIA's driver; afterwards each function of [`DRIVER`] may be called through `cudarc`.
///
/// # Errors
/// A sentence for people.
pub(crate) fn driver() -> Result<(), String> {
    static FOUND: OnceLock<Result<(), String>> = OnceLock::new();
    FOUND
        .get_or_init(|| {
            // SAFETY: this runs the initialisation of the machine's own driver library, as linking to it would.
            if !unsafe { driver::sys::is_culib_present() } {
                return Err(
                    "NVIDIA's driver library (libcuda.so.1, nvcuda.dll) is not found: install the driver of \
                            your NVIDIA GPU (Debian: nvidia-driver), if the machine has one"
                        .to_string(),
                );
            }
            // SAFETY: it is present.
            match lacking(unsafe { driver::sys::culib() }, DRIVER) {
                None => Ok(()),
                Some(name) => {
                    Err(format!("NVIDIA's driver has no function {name}: install one for CUDA 11.4 or later"))
                }
            }
        })
        .clone()
}

/// Opens NVRTC; afterwards each function of [`NVRTC`] may be called through `cudarc`.
///
/// # Errors
/// A sentence for people.
pub(crate) fn nvrtc() -> Result<(), String> {
    static FOUND: OnceLock<Result<(), String>> = OnceLock::new();
    FOUND.get_or_init(find_nvrtc).clone()
}

fn find_nvrtc() -> Result<(), String> {
    // SAFETY: this runs the initialisation of the machine's own library, as linking to it would.
    let present = || unsafe { nvrtc::sys::is_culib_present() };
    find("NVRTC", "NVRTC_PATH", &wheels::NVRTC, present)?.ok_or(
        "NVRTC, NVIDIA's compiler for kernels (libnvrtc.so), is not found: install the CUDA toolkit or \
         only NVRTC (Debian: nvidia-cuda-toolkit, Python: pip install nvidia-cuda-nvrtc-cu12), and set \
         NVRTC_PATH to its folder if it is in none that is searched",
    )?;
    // SAFETY: it is present.
    match lacking(unsafe { nvrtc::sys::culib() }, NVRTC) {
        None => Ok(()),
        Some(name) => Err(format!("NVRTC has no function {name}: install one of CUDA 11.2 or later")),
    }
}

/// Opens cuBLASLt; afterwards each function of [`CUBLASLT`] may be called through `cudarc`. It is large, so this is for when
/// the first product comes.
///
/// # Errors
/// A sentence for people.
pub(crate) fn cublaslt() -> Result<(), String> {
    static FOUND: OnceLock<Result<(), String>> = OnceLock::new();
    FOUND.get_or_init(find_cublaslt).clone()
}

fn find_cublaslt() -> Result<(), String> {
    // SAFETY: this runs the initialisation of the machine's own library, as linking to it would.
    let present = || unsafe { cublaslt::sys::is_culib_present() };
    find("cuBLASLt", "CUBLASLT_PATH", &wheels::CUBLASLT, present)?.ok_or(
        "cuBLASLt, NVIDIA's library of matrix products (libcublasLt.so), is not found, so RusTorch's own kernels \
         multiply: for faster products install the CUDA toolkit or only cuBLAS (Debian: libcublaslt12, Python: \
         pip install nvidia-cublas-cu12), and set CUBLASLT_PATH to its folder if it is in none that is searched",
    )?;
    // SAFETY: it is present.
    match lacking(unsafe { cublaslt::sys::culib() }, CUBLASLT) {
        None => Ok(()),
        Some(name) => Err(format!(
            "cuBLASLt has no function {name}, so RusTorch's own kernels multiply: install one of CUDA 11.4 or later"
        )),
    }
}

/// Loads a library, if it is anywhere: where the user says, where the system searches, in toolkits and Python packages.
///
/// # Errors
/// If the user says where it is, and it is not there.
fn find(name: &str, variable: &str, names: &Names, present: impl Fn() -> bool) -> Result<Option<()>, String> {
    if let Some(path) = std::env::var_os(variable).map(PathBuf::from) {
        // What is loaded by its path is found by its name afterwards.
        let files = if path.is_dir() { names.files_in(&path) } else { vec![path.clone()] };
        if !files.iter().any(|file| preload(file)) || !present() {
            return Err(format!(
                "{variable} is {}, but there is no {name} that can be loaded",
                path.display()
            ));
        }
    }
    let found = present()
        || names.folders().iter().flat_map(|folder| names.files_in(folder)).any(|file| preload(&file))
            && present();
    Ok(found.then_some(()))
}

/// Loads a library by its path, for good.
fn preload(path: &Path) -> bool {
    // SAFETY: as for the system's own library: the path is the user's word, or of a package that is NVIDIA's by its name.
    match unsafe { Library::new(path) } {
        Ok(library) => {
            tracing::debug!(path = %path.display(), "loaded");
            std::mem::forget(library);
            true
        }
        Err(error) => {
            tracing::debug!(path = %path.display(), %error, "cannot be loaded");
            false
        }
    }
}
