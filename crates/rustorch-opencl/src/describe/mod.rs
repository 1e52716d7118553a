//! What a device says of itself, in the engine's terms.

mod notation;

use crate::query::{device_number, device_numbers, device_sizes, device_text};
use crate::sys::{self, Api, DeviceId, PlatformId};
use notation::{slot, version};
use rustorch_core::Device;
use rustorch_kernels::{Arithmetic, Hardware, Language, SUBGROUP_EXTENSIONS, Subgroups};

/// What kind of a device, in the order of preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A graphics CPU.
    Gpu,
    /// Another CPU beside the machine's own.
    Accelerator,
    /// The machine's own CPU, on which the CPU device is the better choice.
    Cpu,
}

/// 32-bit indices of words reach this far.
const INDEXED: u64 = 4 << 32;
/// Workgroups along a dimension: what WebGPU grants everywhere. OpenCL states no limit, but drivers have some.
const GROUPS: u32 = 65_535;

/// The kind of a device.
pub(crate) fn kind(api: &Api, id: DeviceId) -> Kind {
    let bits = device_number(api, id, sys::DEVICE_TYPE).unwrap_or(0);
    if bits & sys::DEVICE_TYPE_GPU != 0 {
        Kind::Gpu
    } else if bits & sys::DEVICE_TYPE_CPU != 0 {
        Kind::Cpu
    } else {
        Kind::Accelerator
    }
}

/// Why a device is of no use here, if it is not.
pub(crate) fn useless(api: &Api, id: DeviceId) -> Option<&'static str> {
    let yes = |what| device_number(api, id, what).is_some_and(|answer| answer != 0);
    if !yes(sys::DEVICE_AVAILABLE) {
        Some("its driver says that it is not available")
    } else if !yes(sys::DEVICE_COMPILER_AVAILABLE) {
        Some("its driver has no compiler for OpenCL C")
    } else if !yes(sys::DEVICE_ENDIAN_LITTLE) {
        Some("it is big-endian")
    } else if version(&device_text(api, id, sys::DEVICE_VERSION)) < (1, 2) {
        Some("its driver is older than OpenCL 1.2; install a newer one")
    } else {
        None
    }
}

/// The abilities and limits of a device, but how it rounds.
pub(crate) fn hardware(api: &Api, platform: PlatformId, id: DeviceId, device: Device) -> Hardware {
    let number = |what| device_number(api, id, what).unwrap_or(0);
    let small = |what| u32::try_from(number(what)).unwrap_or(u32::MAX);
    let extensions = device_text(api, id, sys::DEVICE_EXTENSIONS);
    let has = |name: &str| extensions.split_ascii_whitespace().any(|extension| extension == name);
    let along_x =
        device_sizes(api, id, sys::DEVICE_MAX_WORK_ITEM_SIZES).first().map_or(1, |&size| size as u64);
    let largest = number(sys::DEVICE_MAX_MEM_ALLOC_SIZE) / 16 * 16;
    Hardware {
        device,
        name: device_text(api, id, sys::DEVICE_NAME),
        driver: format!(
            "{}, {}, driver {}",
            crate::query::platform_text(api, platform, sys::PLATFORM_VERSION),
            device_text(api, id, sys::DEVICE_VERSION),
            device_text(api, id, sys::DRIVER_VERSION)
        ),
        language: Language::OpenClC,
        f64: has("cl_khr_fp64"),
        i64: device_text(api, id, sys::DEVICE_PROFILE) == "FULL_PROFILE" || has("cles_khr_int64"),
        subgroups: subgroups(api, id, has),
        tensor_cores: false,
        software: kind(api, id) == Kind::Cpu,
        workgroup: small(sys::DEVICE_MAX_WORK_GROUP_SIZE).min(u32::try_from(along_x).unwrap_or(u32::MAX)),
        workgroup_memory: small(sys::DEVICE_LOCAL_MEM_SIZE),
        groups: GROUPS,
        max_buffer: largest,
        max_binding: largest.min(INDEXED),
        buffers: u32::MAX,
        // Where a device does not say, what OpenCL promises.
        parameters: device_number(api, id, sys::DEVICE_MAX_PARAMETER_SIZE)
            .map_or(1024, |bytes| u32::try_from(bytes).unwrap_or(u32::MAX)),
        window: None,
        memory: Some(number(sys::DEVICE_GLOBAL_MEM_SIZE)).filter(|&bytes| bytes > 0),
        arithmetic: Arithmetic::default(),
    }
}

/// The range of sizes of subgroups, where there are those of OpenCL and the exchanges that kernels need.
fn subgroups(api: &Api, id: DeviceId, has: impl Fn(&str) -> bool) -> Option<Subgroups> {
    let language = language(api, id);
    // They are an extension of OpenCL 2.0, or a part of later versions that devices may lack. Their functions are part of
    // OpenCL C 2.0 and later only.
    let present = has("cl_khr_subgroups")
        || language >= (3, 0)
            && device_number(api, id, sys::DEVICE_MAX_NUM_SUB_GROUPS).is_some_and(|most| most > 0);
    if !present || language < (2, 0) || !SUBGROUP_EXTENSIONS.iter().all(|extension| has(extension)) {
        return None;
    }
    // Drivers that offer several sizes choose among them for each kernel.
    let mut sizes = device_sizes(api, id, sys::DEVICE_SUB_GROUP_SIZES_INTEL);
    if has("cl_amd_device_attribute_query")
        && let Some(width) = device_number(api, id, sys::DEVICE_WAVEFRONT_WIDTH_AMD)
    {
        sizes = vec![usize::try_from(width).ok()?];
    }
    // Where a driver does not tell, a subgroup may be anything up to the whole workgroup.
    let most = device_number(api, id, sys::DEVICE_MAX_WORK_GROUP_SIZE)?;
    let least = sizes.iter().copied().min().unwrap_or(1);
    let most = sizes.iter().copied().max().unwrap_or(usize::try_from(most).ok()?);
    let size = |size: usize| u32::try_from(size).ok().filter(|&size| size > 0);
    Some(Subgroups { least: size(least)?, most: size(most)? })
}

/// The version of OpenCL C that a device's compiler takes when told none.
pub(crate) fn language(api: &Api, id: DeviceId) -> (u32, u32) {
    version(&device_text(api, id, sys::DEVICE_OPENCL_C_VERSION))
}

/// Where the device is plugged in, if its driver tells.
pub(crate) fn pci_address(api: &Api, id: DeviceId) -> Option<String> {
    slot(&device_numbers(api, id, sys::DEVICE_PCI_BUS_INFO_KHR))
}
