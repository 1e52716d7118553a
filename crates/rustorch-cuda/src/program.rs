//! From source to a kernel: compiling, and the cache of what was compiled.

use crate::context::Context;
use crate::nvrtc::{Nvrtc, NvrtcError, Target};
use cudarc::driver::sys::{self, CUfunction, CUfunction_attribute, CUmodule, CUresult};
use rustorch_core::Fault;
use rustorch_kernels::driver::{KernelSignature, shortened};
use rustorch_kernels::{KernelCache, KernelSource};
use std::ffi::CString;
use std::fmt;
use std::sync::Arc;

/// A kernel of an NVIDIA GPU, ready to run.
pub struct Kernel {
    pub(crate) context: Arc<Context>,
    module: CUmodule,
    pub(crate) function: CUfunction,
    pub(crate) form: KernelSignature,
}

// SAFETY: modules and functions belong to a context and to no thread.
unsafe impl Send for Kernel {}
// SAFETY: the driver may be called with them from several threads at once.
unsafe impl Sync for Kernel {}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kernel({} on {})", self.form.label, self.context.device)
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        // Its code must stay until it has run.
        if self.context.enter().is_ok() && self.context.finish().is_ok() {
            // SAFETY: the module is this object's alone, and nothing of it runs.
            let _ = unsafe { sys::cuModuleUnload(self.module) };
        }
    }
}

/// What compiles source to kernels.
pub(crate) struct Compiler {
    pub(crate) nvrtc: Nvrtc,
    pub(crate) target: Target,
    pub(crate) cache: Option<KernelCache>,
}

/// The most bytes of all parameters of a kernel, which is CUDA's limit before compute capability 7.0 and CUDA 12.1.
const PARAMETERS: u64 = 4096;

impl Compiler {
    /// Compiles source, or takes it from the cache.
    fn image(&self, text: &KernelSource<'_>) -> Result<Vec<u8>, NvrtcError> {
        let Some(cache) = &self.cache else {
            return self.nvrtc.compile(text.label, text.source, self.target);
        };
        let key = key(self.nvrtc.version(), &self.nvrtc.options(self.target), text.source);
        if let Some(image) = cache.load(&key) {
            return Ok(image);
        }
        let image = self.nvrtc.compile(text.label, text.source, self.target)?;
        cache.store(&key, &image);
        Ok(image)
    }

    /// Makes a kernel.
    pub(crate) fn kernel(&self, context: &Arc<Context>, text: &KernelSource<'_>) -> Result<Kernel, Fault> {
        context.enter()?;
        let form = KernelSignature::of(text, context.device, PARAMETERS)?;
        let refused = |why: String| form.refused(context.device, why);
        let entry = CString::new(text.entry)
            .map_err(|_| refused("the name of its entry point has a zero in it".to_string()))?;
        let image = self.image(text).map_err(|error| refused(shortened(&error.to_string())))?;
        let mut module = std::ptr::null_mut();
        // SAFETY: the image is a cubin, whose length it states itself, or PTX that ends with a zero: from NVRTC, or from the
        // cache, which has compared its checksum.
        match unsafe { sys::cuModuleLoadData(&mut module, image.as_ptr().cast()) } {
            CUresult::CUDA_SUCCESS => {}
            CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION | CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU => {
                let (major, minor) = self.nvrtc.version();
                return Err(refused(format!(
                    "NVRTC {major}.{minor} is newer than the GPU's driver: install a newer driver, or an earlier NVRTC, whose \
                     folder NVRTC_PATH is to name"
                )));
            }
            error => {
                context.check("cuModuleLoadData", error, image.len())?;
            }
        }
        let mut kernel =
            Kernel { context: Arc::clone(context), module, function: std::ptr::null_mut(), form };
        // SAFETY: the module lives, the name ends with a zero, and the handle goes to a variable.
        match unsafe { sys::cuModuleGetFunction(&mut kernel.function, module, entry.as_ptr()) } {
            CUresult::CUDA_SUCCESS => {}
            CUresult::CUDA_ERROR_NOT_FOUND => {
                let why = format!("there is no entry point `{}` in it", text.entry);
                return Err(kernel.form.refused(context.device, why));
            }
            error => context.check("cuModuleGetFunction", error, 0)?,
        }
        let stated: Vec<usize> = std::iter::repeat_n(size_of::<u64>(), text.buffers)
            .chain((text.parameters > 0).then_some(text.parameters))
            .chain(std::iter::repeat_n(size_of::<u32>(), if text.checked { text.buffers } else { 0 }))
            .collect();
        match parameters(kernel.function) {
            Some(found) if found != stated => {
                let why = format!("its text has parameters of {found:?} bytes, but {stated:?} are stated");
                return Err(kernel.form.refused(context.device, why));
            }
            _ => {}
        }
        let mut most = 0;
        let what = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK;
        // SAFETY: the function is of a module that lives, and the number goes to a variable.
        let result = unsafe { sys::cuFuncGetAttribute(&mut most, what, kernel.function) };
        context.check("cuFuncGetAttribute", result, 0)?;
        kernel.form.check_workgroup(context.device, u64::try_from(most).unwrap_or(0))?;
        Ok(kernel)
    }
}

/// The sizes of a function's parameters in bytes; `None` if the driver is of CUDA 12.3 or earlier and does not say.
fn parameters(function: CUfunction) -> Option<Vec<usize>> {
    type Info = unsafe extern "C" fn(CUfunction, usize, *mut usize, *mut usize) -> CUresult;
    // SAFETY: the driver is loaded, and the type is as documented.
    let info = unsafe { sys::culib().get::<Info>("cuFuncGetParamInfo") }.ok()?;
    let mut sizes = Vec::new();
    loop {
        let (mut offset, mut size) = (0, 0);
        // SAFETY: the function is of a module that lives, and the numbers go to variables.
        match unsafe { info(function, sizes.len(), &mut offset, &mut size) } {
            CUresult::CUDA_SUCCESS => sizes.push(size),
            CUresult::CUDA_ERROR_INVALID_VALUE => return Some(sizes),
            _ => return None,
        }
    }
}

/// All that an image depends on.
fn key(version: (i32, i32), options: &[String], source: &str) -> String {
    format!("NVRTC {}.{}\n{}\n{source}", version.0, version.1, options.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_differ_by_all_that_matters() {
        let options = ["--gpu-architecture=sm_90".to_string(), "--fmad=false".to_string()];
        let one = key((12, 9), &options, "text");
        assert_ne!(one, key((13, 0), &options, "text"));
        assert_ne!(one, key((12, 9), &options[..1], "text"));
        assert_ne!(one, key((12, 9), &options, "texts"));
        assert_eq!(one, key((12, 9), &options, "text"));
    }
}
