//! What the driver's results mean.

use cudarc::driver::sys::CUresult;
use rustorch_core::{Device, Fault};

/// What becomes of a device after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// Memory ran out.
    OutOfMemory,
    /// Every later call will fail: the context is broken, or the GPU gone.
    Lost,
    /// Only this call has failed.
    Refused,
}

/// What an error means. Most errors of running kernels break the context for good (CUDA driver API, `CUresult`: "the process
/// must be terminated and relaunched").
pub(crate) fn meaning(result: CUresult) -> Meaning {
    match result {
        CUresult::CUDA_ERROR_OUT_OF_MEMORY => Meaning::OutOfMemory,
        CUresult::CUDA_ERROR_ILLEGAL_ADDRESS
        | CUresult::CUDA_ERROR_LAUNCH_TIMEOUT
        | CUresult::CUDA_ERROR_LAUNCH_FAILED
        | CUresult::CUDA_ERROR_ASSERT
        | CUresult::CUDA_ERROR_HARDWARE_STACK_ERROR
        | CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION
        | CUresult::CUDA_ERROR_MISALIGNED_ADDRESS
        | CUresult::CUDA_ERROR_INVALID_ADDRESS_SPACE
        | CUresult::CUDA_ERROR_INVALID_PC
        | CUresult::CUDA_ERROR_TENSOR_MEMORY_LEAK
        | CUresult::CUDA_ERROR_EXTERNAL_DEVICE
        | CUresult::CUDA_ERROR_CONTAINED
        | CUresult::CUDA_ERROR_ECC_UNCORRECTABLE
        | CUresult::CUDA_ERROR_NVLINK_UNCORRECTABLE
        | CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED
        | CUresult::CUDA_ERROR_INVALID_CONTEXT
        | CUresult::CUDA_ERROR_NOT_INITIALIZED
        | CUresult::CUDA_ERROR_DEINITIALIZED
        | CUresult::CUDA_ERROR_DEVICE_UNAVAILABLE
        | CUresult::CUDA_ERROR_NO_DEVICE
        | CUresult::CUDA_ERROR_INVALID_DEVICE
        | CUresult::CUDA_ERROR_SYSTEM_NOT_READY
        | CUresult::CUDA_ERROR_MPS_CLIENT_TERMINATED
        | CUresult::CUDA_ERROR_MPS_RPC_FAILURE
        | CUresult::CUDA_ERROR_UNKNOWN => Meaning::Lost,
        _ => Meaning::Refused,
    }
}

/// What a call said.
pub(crate) fn said(call: &str, result: CUresult) -> String {
    format!("{call} says {result:?} ({})", result as u32)
}

/// An error that has no class of its own.
pub(crate) fn refused(device: Device, call: &str, result: CUresult) -> Fault {
    Fault::Backend { device, message: said(call, result) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_kernels_are_for_good() {
        assert_eq!(meaning(CUresult::CUDA_ERROR_ILLEGAL_ADDRESS), Meaning::Lost);
        assert_eq!(meaning(CUresult::CUDA_ERROR_OUT_OF_MEMORY), Meaning::OutOfMemory);
        // Too many registers for the workgroup: another kernel may well run.
        assert_eq!(meaning(CUresult::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES), Meaning::Refused);
        assert_eq!(meaning(CUresult::CUDA_ERROR_INVALID_VALUE), Meaning::Refused);
        assert_eq!(
            said("cuLaunchKernel", CUresult::CUDA_ERROR_INVALID_VALUE),
            "cuLaunchKernel says CUDA_ERROR_INVALID_VALUE (1)"
        );
    }
}
