//! Which devices there are, and what is missing where there are none.

use crate::describe::{self, Kind};
use crate::query::{device_text, platform_text};
use crate::status::describe as status_name;
use crate::sys::{self, Api, DeviceId, PlatformId, Status};
use rustorch_core::Device;
use rustorch_kernels::Hardware;

/// What [`discover`] has found.
#[derive(Debug, Default)]
pub struct Discovery {
    /// Devices that can be opened: GPUs, then accelerators, then CPUs, each kind in the order in which OpenCL
    /// names them. The place in the list is the index in [`Device::opencl`].
    pub devices: Vec<Candidate>,
    /// Why there are no others: the library or a driver that is missing and how to get it, or what is wrong with a
    /// device. Sentences for people.
    pub missing: Vec<String>,
}

/// A device that can be opened.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub(crate) platform: PlatformId,
    pub(crate) id: DeviceId,
    /// The devices of its kind on its platform, itself among them, in the platform's order: it shares a context with them.
    pub(crate) siblings: Vec<DeviceId>,
    kind: Kind,
    platform_name: String,
    pub(crate) hardware: Hardware,
}

impl Candidate {
    /// What kind of a device it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The name of the platform, that is, of the driver: one device may be reached by several.
    pub fn platform(&self) -> &str {
        &self.platform_name
    }

    /// What its driver says of it. How it rounds is for the engine to find.
    pub fn hardware(&self) -> &Hardware {
        &self.hardware
    }
}

/// Looks for every device of every platform. Loads the OpenCL library and its drivers, opens no device.
pub fn discover() -> Discovery {
    let mut found = Discovery::default();
    let api = match Api::get() {
        Ok(api) => api,
        Err(missing) => {
            found.missing.push(missing.0);
            return found;
        }
    };
    let _starting = Api::starting();
    match platforms(api) {
        Ok(platforms) => {
            for platform in platforms {
                look_at(api, platform, &mut found);
            }
        }
        Err(sys::PLATFORM_NOT_FOUND) => {}
        Err(status) => {
            found.missing.push(format!("OpenCL does not list its platforms: {}", status_name(status)));
        }
    }
    if found.devices.is_empty() && found.missing.is_empty() {
        found.missing.push(
            "OpenCL is installed, but no driver for it: install the driver of your device's vendor, or package \
             pocl-opencl-icd, which runs on the CPU"
                .to_string(),
        );
    }
    found.devices.sort_by_key(|candidate| candidate.kind);
    while found.devices.len() > 256 {
        let extra = found.devices.pop().expect("the list is longer than 256");
        found
            .missing
            .push(format!("`{}` is left out: it is beyond the first 256 devices", extra.hardware.name));
    }
    for i in 0..found.devices.len() {
        let (platform, kind) = (found.devices[i].platform, found.devices[i].kind);
        let siblings = found.devices.iter().filter(|other| other.platform == platform && other.kind == kind);
        found.devices[i].siblings = siblings.map(|other| other.id).collect();
    }
    for (i, candidate) in found.devices.iter_mut().enumerate() {
        candidate.hardware.device = Device::opencl(u8::try_from(i).expect("at most 256 devices"));
    }
    found
}

/// The platforms of the machine.
fn platforms(api: &Api) -> Result<Vec<PlatformId>, Status> {
    let mut count = 0;
    // SAFETY: a null list of length 0 asks for the number.
    let status = unsafe { (api.get_platform_ids)(0, std::ptr::null_mut(), &mut count) };
    if status != sys::SUCCESS || count == 0 {
        return if status == sys::SUCCESS { Ok(Vec::new()) } else { Err(status) };
    }
    let mut list = vec![PlatformId::default(); count as usize];
    // SAFETY: the list holds `count` entries.
    match unsafe { (api.get_platform_ids)(count, list.as_mut_ptr(), std::ptr::null_mut()) } {
        sys::SUCCESS => Ok(list),
        status => Err(status),
    }
}

/// The devices of a platform.
fn devices(api: &Api, platform: PlatformId) -> Result<Vec<DeviceId>, Status> {
    let mut count = 0;
    // SAFETY: a null list of length 0 asks for the number.
    match unsafe { (api.get_device_ids)(platform, sys::DEVICE_TYPE_ALL, 0, std::ptr::null_mut(), &mut count) }
    {
        sys::SUCCESS => {}
        sys::DEVICE_NOT_FOUND => return Ok(Vec::new()),
        status => return Err(status),
    }
    let mut list = vec![DeviceId::default(); count as usize];
    // SAFETY: the list holds `count` entries.
    match unsafe {
        (api.get_device_ids)(platform, sys::DEVICE_TYPE_ALL, count, list.as_mut_ptr(), std::ptr::null_mut())
    } {
        sys::SUCCESS => Ok(list),
        status => Err(status),
    }
}

/// Adds a platform's devices.
fn look_at(api: &Api, platform: PlatformId, found: &mut Discovery) {
    let name = platform_text(api, platform, sys::PLATFORM_NAME);
    match devices(api, platform) {
        Ok(list) if list.is_empty() => {
            found.missing.push(format!(
                "OpenCL platform `{name}` has no device: is the device there, and may this user open it (group \
                 `render`)?"
            ));
        }
        Ok(list) => {
            for id in list {
                if let Some(reason) = describe::useless(api, id) {
                    let device = device_text(api, id, sys::DEVICE_NAME);
                    found
                        .missing
                        .push(format!("OpenCL device `{device}` of `{name}` cannot be used: {reason}"));
                    continue;
                }
                // The index is set when the list is in order.
                let hardware = describe::hardware(api, platform, id, Device::opencl(0));
                let kind = describe::kind(api, id);
                found.devices.push(Candidate {
                    platform,
                    id,
                    siblings: Vec::new(),
                    kind,
                    platform_name: name.clone(),
                    hardware,
                });
            }
        }
        Err(status) => {
            found
                .missing
                .push(format!("OpenCL platform `{name}` does not list its devices: {}", status_name(status)));
        }
    }
}
