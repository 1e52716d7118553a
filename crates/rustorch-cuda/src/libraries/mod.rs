//! The libraries, opened at run time, and each found complete before its first use.
//!
//! The driver is the machine's, and is called through `cudarc`, which panics where it or a function is missing. Of the others
//! there may be several versions: the one that is taken is found here, and its functions are called by tables of our own.

mod folders;
mod functions;

use cudarc::driver;
use folders::Names;
pub(crate) use functions::{CublasLt, Nvrtc};
use libloading::Library;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::OnceLock;

/// What this crate calls of the driver.
const DRIVER: &[&str] = &[
    "cuCtxEnablePeerAccess",
    "cuCtxSetCurrent",
    "cuDeviceCanAccessPeer",
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
    "cuMemPoolSetAccess",
    "cuMemPoolSetAttribute",
    "cuMemPoolTrimTo",
    "cuMemcpyDtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyPeerAsync",
    "cuModuleGetFunction",
    "cuModuleLoadData",
    "cuModuleUnload",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
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

/// NVRTC, opened.
///
/// # Errors
/// A sentence for people.
pub(crate) fn nvrtc() -> Result<&'static Nvrtc, String> {
    static FOUND: OnceLock<Result<Nvrtc, String>> = OnceLock::new();
    FOUND.get_or_init(find_nvrtc).as_ref().map_err(Clone::clone)
}

fn find_nvrtc() -> Result<Nvrtc, String> {
    let library = find("NVRTC", "NVRTC_PATH", &folders::NVRTC)?.ok_or(
        "NVRTC, NVIDIA's compiler for kernels (libnvrtc.so), is not found: install the CUDA toolkit or \
         only NVRTC (Debian: nvidia-cuda-toolkit, Python: pip install nvidia-cuda-nvrtc-cu12), and set \
         NVRTC_PATH to its folder if it is in none that is searched",
    )?;
    Nvrtc::of(library)
        .map_err(|name| format!("NVRTC has no function {name}: install one of CUDA 11.2 or later"))
}

/// cuBLASLt, opened. It is large, so this is for when the first matmul comes.
///
/// # Errors
/// A sentence for people.
pub(crate) fn cublaslt() -> Result<&'static CublasLt, String> {
    static FOUND: OnceLock<Result<CublasLt, String>> = OnceLock::new();
    FOUND.get_or_init(find_cublaslt).as_ref().map_err(Clone::clone)
}

fn find_cublaslt() -> Result<CublasLt, String> {
    let library = find("cuBLASLt", "CUBLASLT_PATH", &folders::CUBLASLT)?.ok_or(
        "cuBLASLt, NVIDIA's BLAS library (libcublasLt.so), is not found, so RusTorch's own kernels \
         multiply: for faster matmuls install the CUDA toolkit or only cuBLAS (Debian: libcublaslt12, Python: \
         pip install nvidia-cublas-cu12), and set CUBLASLT_PATH to its folder if it is in none that is searched",
    )?;
    CublasLt::of(library).map_err(|name| {
        format!(
            "cuBLASLt has no function {name}, so RusTorch's own kernels multiply: install one of CUDA 11.4 or later"
        )
    })
}

/// Which file cuBLASLt would be opened from, and how long it is, without opening it: that takes half a second. `None` where there
/// is none to be seen.
pub(crate) fn cublaslt_file() -> Option<String> {
    let names = &folders::CUBLASLT;
    let whole = |file: &PathBuf| folders::length(file) > 0;
    let file = match users("CUBLASLT_PATH", names) {
        Some((_, files)) => files.into_iter().find(whole),
        None => names.file_in_system(&folders::of_system()).or_else(|| {
            let mut searched = names.folders().into_iter().flat_map(|folder| names.files_in(&folder));
            searched.find(whole)
        }),
    }?;
    // Its own name tells its version, where it has one.
    let file = file.canonicalize().ok()?;
    Some(format!("{} of {} bytes", folders::name(&file), folders::length(&file)))
}

/// Where the user says that a library is, and the files there.
fn users(variable: &str, names: &Names) -> Option<(PathBuf, Vec<PathBuf>)> {
    let path = PathBuf::from(std::env::var_os(variable)?);
    let files = if path.is_dir() { names.files_in(&path) } else { vec![path.clone()] };
    Some((path, files))
}

/// Opens a library, if it is anywhere: where the user says and nowhere else, or else where the system searches, in toolkits
/// and in Python packages.
///
/// # Errors
/// If the user says where it is, and it is not there.
fn find(name: &str, variable: &str, names: &Names) -> Result<Option<Library>, String> {
    if let Some((path, files)) = users(variable, names) {
        return match files.iter().find_map(open) {
            Some(library) => Ok(Some(library)),
            None => {
                Err(format!("{variable} is {}, but there is no {name} that can be loaded", path.display()))
            }
        };
    }
    let searched = || names.folders().into_iter().flat_map(|folder| names.files_in(&folder));
    Ok(names.in_system().iter().find_map(open).or_else(|| searched().find_map(open)))
}

/// Opens a library by its path, or by its name where the system searches.
fn open(file: impl AsRef<OsStr>) -> Option<Library> {
    let path = file.as_ref();
    // SAFETY: this runs the initialisation of a library that is NVIDIA's by its name, or the user's word, as linking to it
    // would.
    match unsafe { Library::new(path) } {
        Ok(library) => {
            tracing::debug!(path = %path.display(), "loaded");
            Some(library)
        }
        Err(error) => {
            tracing::debug!(path = %path.display(), %error, "cannot be loaded");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    /// The source of all of this crate.
    fn text(folder: &Path) -> String {
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        entries
            .map(|path| if path.is_dir() { text(&path) } else { std::fs::read_to_string(path).unwrap() })
            .collect()
    }

    #[test]
    fn every_function_of_the_driver_that_is_called_is_looked_for() {
        let text = text(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
        // Types begin with a capital letter after the mark.
        let mark = ["sys", "::", "cu"].concat();
        let calls = text.match_indices(&mark).map(|(at, _)| {
            let name = &text[at + "sys::".len()..];
            let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
            (&name[..end], &name[end..])
        });
        let mut called: BTreeSet<&str> =
            calls.filter(|(_, rest)| rest.starts_with('(')).map(|(name, _)| name).collect();
        // By a type of our own.
        called.insert("cuEventElapsedTime");
        assert!(called.len() > 30, "{called:?}");
        called.remove("culib");
        assert_eq!(called, DRIVER.iter().copied().collect());
    }
}
