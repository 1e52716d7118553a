//! Tables of the functions that this crate calls of a library that it has opened itself.
//!
//! `cudarc` would open one by a name of its own choice, whatever the user says: these tables belong to the file that was found.

use cudarc::cublaslt::sys::{
    cublasComputeType_t, cublasLtHandle_t, cublasLtMatmulAlgo_t, cublasLtMatmulDesc_t,
    cublasLtMatmulDescAttributes_t, cublasLtMatmulHeuristicResult_t, cublasLtMatmulPreference_t,
    cublasLtMatmulPreferenceAttributes_t, cublasLtMatrixLayout_t, cublasLtMatrixLayoutAttribute_t,
    cublasStatus_t, cudaDataType_t, cudaStream_t,
};
use cudarc::nvrtc::sys::{nvrtcProgram, nvrtcResult};
use libloading::Library;
use std::ffi::{c_char, c_int, c_void};

macro_rules! functions {
    ($(#[$doc:meta])* $table:ident: $($(#[$which:meta])* $name:ident($($argument:ty),* $(,)?) -> $result:ty;)*) => {
        $(#[$doc])*
        #[allow(non_snake_case, reason = "these are the library's own names")]
        pub(crate) struct $table {
            $($(#[$which])* pub(crate) $name: unsafe extern "C" fn($($argument),*) -> $result,)*
        }

        impl $table {
            /// Looks every function up; the first that is missing is the error. The library is never closed: it may have
            /// threads of its own.
            pub(super) fn of(library: Library) -> Result<$table, &'static str> {
                let library: &'static Library = Box::leak(Box::new(library));
                Ok($table {$(
                    $(#[$which])*
                    $name: {
                        // SAFETY: the type is that of the function of this name in NVIDIA's header.
                        let symbol = unsafe {
                            library.get::<unsafe extern "C" fn($($argument),*) -> $result>(stringify!($name))
                        };
                        *symbol.map_err(|_| stringify!($name))?
                    },
                )*})
            }
        }
    };
}

functions! {
    /// NVRTC's functions.
    Nvrtc:
    nvrtcCompileProgram(nvrtcProgram, c_int, *const *const c_char) -> nvrtcResult;
    nvrtcCreateProgram(
        *mut nvrtcProgram,
        *const c_char,
        *const c_char,
        c_int,
        *const *const c_char,
        *const *const c_char,
    ) -> nvrtcResult;
    nvrtcDestroyProgram(*mut nvrtcProgram) -> nvrtcResult;
    nvrtcGetCUBIN(nvrtcProgram, *mut c_char) -> nvrtcResult;
    nvrtcGetCUBINSize(nvrtcProgram, *mut usize) -> nvrtcResult;
    nvrtcGetNumSupportedArchs(*mut c_int) -> nvrtcResult;
    nvrtcGetPTX(nvrtcProgram, *mut c_char) -> nvrtcResult;
    nvrtcGetPTXSize(nvrtcProgram, *mut usize) -> nvrtcResult;
    nvrtcGetProgramLog(nvrtcProgram, *mut c_char) -> nvrtcResult;
    nvrtcGetProgramLogSize(nvrtcProgram, *mut usize) -> nvrtcResult;
    nvrtcGetSupportedArchs(*mut c_int) -> nvrtcResult;
    nvrtcVersion(*mut c_int, *mut c_int) -> nvrtcResult;
}

functions! {
    /// cuBLASLt's functions.
    CublasLt:
    cublasLtCreate(*mut cublasLtHandle_t) -> cublasStatus_t;
    cublasLtDestroy(cublasLtHandle_t) -> cublasStatus_t;
    cublasLtGetVersion() -> usize;
    cublasLtMatmul(
        cublasLtHandle_t,
        cublasLtMatmulDesc_t,
        *const c_void,
        *const c_void,
        cublasLtMatrixLayout_t,
        *const c_void,
        cublasLtMatrixLayout_t,
        *const c_void,
        *const c_void,
        cublasLtMatrixLayout_t,
        *mut c_void,
        cublasLtMatrixLayout_t,
        *const cublasLtMatmulAlgo_t,
        *mut c_void,
        usize,
        cudaStream_t,
    ) -> cublasStatus_t;
    cublasLtMatmulAlgoGetHeuristic(
        cublasLtHandle_t,
        cublasLtMatmulDesc_t,
        cublasLtMatrixLayout_t,
        cublasLtMatrixLayout_t,
        cublasLtMatrixLayout_t,
        cublasLtMatrixLayout_t,
        cublasLtMatmulPreference_t,
        c_int,
        *mut cublasLtMatmulHeuristicResult_t,
        *mut c_int,
    ) -> cublasStatus_t;
    cublasLtMatmulDescCreate(*mut cublasLtMatmulDesc_t, cublasComputeType_t, cudaDataType_t) -> cublasStatus_t;
    cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t) -> cublasStatus_t;
    #[cfg(test)]
    cublasLtMatmulDescGetAttribute(
        cublasLtMatmulDesc_t,
        cublasLtMatmulDescAttributes_t,
        *mut c_void,
        usize,
        *mut usize,
    ) -> cublasStatus_t;
    cublasLtMatmulDescSetAttribute(
        cublasLtMatmulDesc_t,
        cublasLtMatmulDescAttributes_t,
        *const c_void,
        usize,
    ) -> cublasStatus_t;
    cublasLtMatmulPreferenceCreate(*mut cublasLtMatmulPreference_t) -> cublasStatus_t;
    cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t) -> cublasStatus_t;
    #[cfg(test)]
    cublasLtMatmulPreferenceGetAttribute(
        cublasLtMatmulPreference_t,
        cublasLtMatmulPreferenceAttributes_t,
        *mut c_void,
        usize,
        *mut usize,
    ) -> cublasStatus_t;
    cublasLtMatmulPreferenceSetAttribute(
        cublasLtMatmulPreference_t,
        cublasLtMatmulPreferenceAttributes_t,
        *const c_void,
        usize,
    ) -> cublasStatus_t;
    cublasLtMatrixLayoutCreate(
        *mut cublasLtMatrixLayout_t,
        cudaDataType_t,
        u64,
        u64,
        i64,
    ) -> cublasStatus_t;
    cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t) -> cublasStatus_t;
    #[cfg(test)]
    cublasLtMatrixLayoutGetAttribute(
        cublasLtMatrixLayout_t,
        cublasLtMatrixLayoutAttribute_t,
        *mut c_void,
        usize,
        *mut usize,
    ) -> cublasStatus_t;
    cublasLtMatrixLayoutSetAttribute(
        cublasLtMatrixLayout_t,
        cublasLtMatrixLayoutAttribute_t,
        *const c_void,
        usize,
    ) -> cublasStatus_t;
}
