//! Which devices are tried in which order, as a pure function of what was found on the machine.

use rustorch_core::Device;

/// The kind of platform that the program runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Platform {
    /// macOS, iOS and their kin.
    Apple,
    /// A web browser.
    Browser,
    /// Everything else.
    Other,
}

impl Platform {
    /// The platform that this program was compiled for.
    pub const fn here() -> Platform {
        if cfg!(target_vendor = "apple") {
            Platform::Apple
        } else if cfg!(all(target_family = "wasm", target_os = "unknown")) {
            Platform::Browser
        } else {
            Platform::Other
        }
    }
}

/// What was found on the machine: everything that the default chain depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The platform.
    pub platform: Platform,
    /// Every device that has a backend and answers.
    pub devices: Vec<Device>,
}

impl Probe {
    /// These devices on the platform that this program was compiled for.
    pub fn here(devices: impl Into<Vec<Device>>) -> Probe {
        Probe { platform: Platform::here(), devices: devices.into() }
    }

    /// The default chain: first choice first, the processor last.
    ///
    /// Apple: Core ML, Metal, OpenCL, processor. With an NVIDIA GPU (a CUDA device): CUDA, OpenCL, processor. Browsers:
    /// WebGPU, processor. Else: Vulkan (or, where there is none, Direct3D 12), OpenCL, processor. Of several devices of one kind, lower indices come first.
    /// Devices outside the chain are used where somebody names them.
    pub fn chain(&self) -> Vec<Device> {
        let has = |family: &str| self.devices.iter().any(|d| d.family() == family);
        let families: &[&str] = match self.platform {
            Platform::Apple => &["coreml", "metal", "opencl"],
            Platform::Browser => &["webgpu"],
            Platform::Other if has("cuda") => &["cuda", "opencl"],
            Platform::Other if has("vulkan") => &["vulkan", "opencl"],
            Platform::Other => &["dx12", "opencl"],
        };
        let mut chain = Vec::new();
        for family in families {
            let mut found: Vec<Device> =
                self.devices.iter().copied().filter(|d| d.family() == *family).collect();
            found.sort_unstable();
            found.dedup();
            chain.extend(found);
        }
        chain.push(Device::Cpu);
        chain
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Device::*;

    fn chain(platform: Platform, devices: &[Device]) -> Vec<Device> {
        Probe { platform, devices: devices.into() }.chain()
    }

    #[test]
    fn each_platform_has_its_order_and_ends_with_the_processor() {
        let all =
            [Cpu, WebGpu, OpenCL(0), Dx12(0), Vulkan(1), Vulkan(0), Metal(0), CoreML(0), Cuda(1), Cuda(0)];
        assert_eq!(chain(Platform::Apple, &all), [CoreML(0), Metal(0), OpenCL(0), Cpu]);
        assert_eq!(chain(Platform::Browser, &all), [WebGpu, Cpu]);
        assert_eq!(chain(Platform::Other, &all), [Cuda(0), Cuda(1), OpenCL(0), Cpu]);
        assert_eq!(chain(Platform::Other, &all[..6]), [Vulkan(0), Vulkan(1), OpenCL(0), Cpu]);
        assert_eq!(chain(Platform::Other, &all[..4]), [Dx12(0), OpenCL(0), Cpu]);
        for platform in [Platform::Apple, Platform::Browser, Platform::Other] {
            assert_eq!(chain(platform, &[]), [Cpu]);
        }
    }
}
