//! Questions to platforms, devices, programs and kernels, with typed answers.

use crate::sys::{self, Api, DeviceId, KernelHandle, PlatformId, ProgramHandle, SUCCESS, Status};
use std::ffi::c_void;

/// The bytes that an information function answers with: asked once for how many, once for them.
fn bytes(ask: impl Fn(usize, *mut c_void, *mut usize) -> Status) -> Result<Vec<u8>, Status> {
    let mut size = 0;
    match ask(0, std::ptr::null_mut(), &mut size) {
        SUCCESS => {}
        status => return Err(status),
    }
    let mut answer = vec![0_u8; size];
    if size > 0 {
        match ask(size, answer.as_mut_ptr().cast(), &mut size) {
            SUCCESS => answer.truncate(size),
            status => return Err(status),
        }
    }
    Ok(answer)
}

/// Text without the zero at its end and blanks around it.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).trim().to_string()
}

/// An unsigned number of 4 or 8 bytes, as `cl_uint`, `cl_ulong`, `cl_bool`, `size_t` and bit fields are.
fn number(bytes: &[u8]) -> Option<u64> {
    match bytes.len() {
        4 => Some(u32::from_ne_bytes(bytes.try_into().ok()?).into()),
        8 => Some(u64::from_ne_bytes(bytes.try_into().ok()?)),
        _ => None,
    }
}

/// What a platform answers in words; empty where it does not.
pub(crate) fn platform_text(api: &Api, platform: PlatformId, what: u32) -> String {
    // SAFETY: `bytes` asks with a null pointer and 0, or with a buffer and its size.
    let answer = bytes(|size, to, wrote| unsafe { (api.get_platform_info)(platform, what, size, to, wrote) });
    text(&answer.unwrap_or_default())
}

/// What a device answers in bytes.
fn device_bytes(api: &Api, device: DeviceId, what: u32) -> Result<Vec<u8>, Status> {
    // SAFETY: `bytes` asks with a null pointer and 0, or with a buffer and its size.
    bytes(|size, to, wrote| unsafe { (api.get_device_info)(device, what, size, to, wrote) })
}

/// What a device answers in words; empty where it does not.
pub(crate) fn device_text(api: &Api, device: DeviceId, what: u32) -> String {
    text(&device_bytes(api, device, what).unwrap_or_default())
}

/// What a device answers by a number; `None` where it does not know the question.
pub(crate) fn device_number(api: &Api, device: DeviceId, what: u32) -> Option<u64> {
    number(&device_bytes(api, device, what).ok()?)
}

/// What a device answers by several numbers of type `size_t`; empty where it does not know the question.
pub(crate) fn device_sizes(api: &Api, device: DeviceId, what: u32) -> Vec<usize> {
    let answer = device_bytes(api, device, what).unwrap_or_default();
    let (sizes, _) = answer.as_chunks::<{ size_of::<usize>() }>();
    sizes.iter().map(|size| usize::from_ne_bytes(*size)).collect()
}

/// What a device answers by several numbers of type `cl_uint`; empty where it does not know the question.
pub(crate) fn device_numbers(api: &Api, device: DeviceId, what: u32) -> Vec<u32> {
    let answer = device_bytes(api, device, what).unwrap_or_default();
    let (numbers, _) = answer.as_chunks::<4>();
    numbers.iter().map(|number| u32::from_ne_bytes(*number)).collect()
}

/// The log of a build.
pub(crate) fn build_log(api: &Api, program: ProgramHandle, device: DeviceId) -> String {
    let what = crate::sys::PROGRAM_BUILD_LOG;
    let answer = bytes(|size, to, wrote| {
        // SAFETY: `bytes` asks with a null pointer and 0, or with a buffer and its size.
        unsafe { (api.get_program_build_info)(program, device, what, size, to, wrote) }
    });
    text(&answer.unwrap_or_default())
}

/// How many parameters a kernel takes.
pub(crate) fn kernel_parameters(api: &Api, kernel: KernelHandle) -> Option<u64> {
    let what = crate::sys::KERNEL_NUM_ARGS;
    // SAFETY: `bytes` asks with a null pointer and 0, or with a buffer and its size.
    let answer = bytes(|size, to, wrote| unsafe { (api.get_kernel_info)(kernel, what, size, to, wrote) });
    number(&answer.ok()?)
}

/// How many invocations a workgroup of a kernel may have on a device.
pub(crate) fn kernel_workgroup(api: &Api, kernel: KernelHandle, device: DeviceId) -> Option<u64> {
    let what = crate::sys::KERNEL_WORK_GROUP_SIZE;
    let answer = bytes(|size, to, wrote| {
        // SAFETY: `bytes` asks with a null pointer and 0, or with a buffer and its size.
        unsafe { (api.get_kernel_work_group_info)(kernel, device, what, size, to, wrote) }
    });
    number(&answer.ok()?)
}

/// The devices that a program is of.
pub(crate) fn program_devices(api: &Api, program: ProgramHandle) -> Result<Vec<DeviceId>, Status> {
    let mut size = 0;
    let ask = |size: usize, to: *mut c_void, wrote: *mut usize| {
        // SAFETY: a null pointer and 0, or a list of as many handles as its size states.
        unsafe { (api.get_program_info)(program, sys::PROGRAM_DEVICES, size, to, wrote) }
    };
    match ask(0, std::ptr::null_mut(), &mut size) {
        SUCCESS => {}
        status => return Err(status),
    }
    let mut list = vec![DeviceId::default(); size / size_of::<DeviceId>()];
    match ask(size_of_val(&*list), list.as_mut_ptr().cast(), std::ptr::null_mut()) {
        SUCCESS => Ok(list),
        status => Err(status),
    }
}
