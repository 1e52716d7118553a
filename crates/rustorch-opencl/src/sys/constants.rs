//! Numbers of the Khronos headers `cl.h` and `cl_ext.h`.

use super::Status;

pub(crate) const SUCCESS: Status = 0;
pub(crate) const DEVICE_NOT_FOUND: Status = -1;
pub(crate) const DEVICE_NOT_AVAILABLE: Status = -2;
pub(crate) const MEM_OBJECT_ALLOCATION_FAILURE: Status = -4;
pub(crate) const OUT_OF_RESOURCES: Status = -5;
pub(crate) const OUT_OF_HOST_MEMORY: Status = -6;
pub(crate) const BUILD_PROGRAM_FAILURE: Status = -11;
pub(crate) const INVALID_DEVICE: Status = -33;
pub(crate) const INVALID_CONTEXT: Status = -34;
pub(crate) const INVALID_COMMAND_QUEUE: Status = -36;
pub(crate) const INVALID_BUFFER_SIZE: Status = -61;
pub(crate) const PLATFORM_NOT_FOUND: Status = -1001;

pub(crate) const DEVICE_TYPE_CPU: u64 = 1 << 1;
pub(crate) const DEVICE_TYPE_GPU: u64 = 1 << 2;
pub(crate) const DEVICE_TYPE_ALL: u64 = 0xFFFF_FFFF;

pub(crate) const PLATFORM_VERSION: u32 = 0x0901;
pub(crate) const PLATFORM_NAME: u32 = 0x0902;

pub(crate) const DEVICE_TYPE: u32 = 0x1000;
pub(crate) const DEVICE_MAX_WORK_GROUP_SIZE: u32 = 0x1004;
pub(crate) const DEVICE_MAX_WORK_ITEM_SIZES: u32 = 0x1005;
pub(crate) const DEVICE_MAX_MEM_ALLOC_SIZE: u32 = 0x1010;
pub(crate) const DEVICE_MAX_PARAMETER_SIZE: u32 = 0x1017;
pub(crate) const DEVICE_SINGLE_FP_CONFIG: u32 = 0x101B;
pub(crate) const DEVICE_GLOBAL_MEM_SIZE: u32 = 0x101F;
pub(crate) const DEVICE_LOCAL_MEM_SIZE: u32 = 0x1023;
pub(crate) const DEVICE_ENDIAN_LITTLE: u32 = 0x1026;
pub(crate) const DEVICE_AVAILABLE: u32 = 0x1027;
pub(crate) const DEVICE_COMPILER_AVAILABLE: u32 = 0x1028;
pub(crate) const DEVICE_NAME: u32 = 0x102B;
pub(crate) const DEVICE_VENDOR: u32 = 0x102C;
pub(crate) const DRIVER_VERSION: u32 = 0x102D;
pub(crate) const DEVICE_PROFILE: u32 = 0x102E;
pub(crate) const DEVICE_VERSION: u32 = 0x102F;
pub(crate) const DEVICE_EXTENSIONS: u32 = 0x1030;
pub(crate) const DEVICE_OPENCL_C_VERSION: u32 = 0x103D;
/// Of OpenCL 2.1.
pub(crate) const DEVICE_MAX_NUM_SUB_GROUPS: u32 = 0x105C;
/// Of `cl_amd_device_attribute_query`.
pub(crate) const DEVICE_WAVEFRONT_WIDTH_AMD: u32 = 0x4043;
/// Of `cl_khr_pci_bus_info`.
pub(crate) const DEVICE_PCI_BUS_INFO_KHR: u32 = 0x410F;
/// Of `cl_intel_required_subgroup_size`.
pub(crate) const DEVICE_SUB_GROUP_SIZES_INTEL: u32 = 0x4108;

pub(crate) const FP_CORRECTLY_ROUNDED_DIVIDE_SQRT: u64 = 1 << 7;

pub(crate) const CONTEXT_PLATFORM: isize = 0x1084;
pub(crate) const QUEUE_PROFILING_ENABLE: u64 = 1 << 1;
pub(crate) const MEM_READ_WRITE: u64 = 1 << 0;

pub(crate) const PROGRAM_DEVICES: u32 = 0x1163;
pub(crate) const PROGRAM_BINARY_SIZES: u32 = 0x1165;
pub(crate) const PROGRAM_BINARIES: u32 = 0x1166;
pub(crate) const PROGRAM_BUILD_LOG: u32 = 0x1183;

pub(crate) const KERNEL_NUM_ARGS: u32 = 0x1191;
pub(crate) const KERNEL_WORK_GROUP_SIZE: u32 = 0x11B0;

pub(crate) const EVENT_COMMAND_EXECUTION_STATUS: u32 = 0x11D3;
pub(crate) const COMPLETE: Status = 0;
pub(crate) const PROFILING_COMMAND_QUEUED: u32 = 0x1280;
pub(crate) const PROFILING_COMMAND_START: u32 = 0x1282;
pub(crate) const PROFILING_COMMAND_END: u32 = 0x1283;
