//! Which adapters there are, and opening them.

use crate::cache::Cache;
use crate::driver::WgpuDriver;
use crate::faults::Faults;
use crate::parameters::Slots;
use rustorch_core::{Device, cache_dir};
use rustorch_kernels::{Arithmetic, Hardware, Language, Subgroups};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// Why no device was opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// There is no adapter at all.
    #[error("no GPU was found: {reason}")]
    None {
        /// What is missing and how to get it.
        reason: String,
    },
    /// There are adapters, but not so many.
    #[error("{device} does not exist; there are {}", .present.join(", "))]
    Absent {
        /// The device asked for.
        device: Device,
        /// The devices that exist, with their names.
        present: Vec<String>,
    },
    /// The adapter's driver refused.
    #[error("{device} ({name}) cannot be opened: {message}")]
    Refused {
        /// The device.
        device: Device,
        /// Its name.
        name: String,
        /// What was said.
        message: String,
    },
}

/// A GPU, or a driver that acts as one, not yet opened.
#[derive(Clone, Debug)]
pub struct Adapter {
    wgpu: wgpu::Adapter,
    info: wgpu::AdapterInfo,
    device: Device,
}

/// wgpu's library of drivers. One for the process: loading drivers takes tens of milliseconds.
static INSTANCE: LazyLock<wgpu::Instance> = LazyLock::new(|| {
    wgpu::Instance::new(wgpu::InstanceDescriptor {
        backends: BACKENDS,
        // Vulkan's validation layers only where `WGPU_VALIDATION` asks for them, also in debug builds.
        flags: wgpu::InstanceFlags::empty().with_env(),
        ..wgpu::InstanceDescriptor::new_without_display_handle()
    })
});

/// The interfaces that are used: Metal on Apple's systems, Vulkan elsewhere, on Windows Direct3D 12 besides.
const BACKENDS: wgpu::Backends =
    wgpu::Backends::VULKAN.union(wgpu::Backends::METAL).union(wgpu::Backends::DX12);

/// The adapters of this machine: discrete GPUs first, then integrated, virtual and software ones, each kind in the order of
/// the system. A GPU that two drivers of one interface offer is listed once.
///
/// # Errors
///
/// [`OpenError::None`] if there is none, which says why.
pub fn adapters() -> Result<Vec<Adapter>, OpenError> {
    let mut found: Vec<(wgpu::Adapter, wgpu::AdapterInfo)> = Vec::new();
    for adapter in pollster::block_on(INSTANCE.enumerate_adapters(BACKENDS)) {
        let info = adapter.get_info();
        let computes =
            adapter.get_downlevel_capabilities().flags.contains(wgpu::DownlevelFlags::COMPUTE_SHADERS);
        if computes && !found.iter().any(|(_, other)| same(other, &info)) {
            found.push((adapter, info));
        }
    }
    if found.is_empty() {
        let family = if cfg!(target_vendor = "apple") { "metal" } else { "vulkan" };
        return Err(OpenError::None { reason: why_none(family) });
    }
    found.sort_by_key(|(_, info)| rank(info.device_type));
    let [mut vulkan, mut metal, mut dx12] = [(); 3].map(|()| 0..=u8::MAX);
    Ok(found
        .into_iter()
        .filter_map(|(wgpu, info)| {
            let device = match info.backend {
                wgpu::Backend::Metal => Device::metal(metal.next()?),
                wgpu::Backend::Dx12 => Device::dx12(dx12.next()?),
                _ => Device::vulkan(vulkan.next()?),
            };
            Some(Adapter { wgpu, info, device })
        })
        .collect())
}

/// Opens a device by name, `Vulkan(i)`, `Metal(i)` or `Dx12(i)`.
///
/// # Errors
///
/// [`OpenError`] says what there is instead.
pub fn open(device: Device) -> Result<WgpuDriver, OpenError> {
    let adapters = adapters()?;
    match adapters.iter().find(|adapter| adapter.device == device) {
        Some(adapter) => adapter.open(),
        None => Err(OpenError::Absent {
            device,
            present: adapters.iter().map(|a| format!("{} ({})", a.device, a.info.name)).collect(),
        }),
    }
}

impl Adapter {
    /// What it is called in RusTorch.
    pub fn device(&self) -> Device {
        self.device
    }

    /// Its name as the driver gives it.
    pub fn name(&self) -> &str {
        &self.info.name
    }

    /// The driver and its version.
    pub fn driver(&self) -> String {
        format!("{} {}", self.info.driver, self.info.driver_info).trim().to_owned()
    }

    /// Whether it is a software renderer on the CPU, slower than the CPU's own kernels.
    pub fn is_software(&self) -> bool {
        self.info.device_type == wgpu::DeviceType::Cpu
    }

    /// Opens it, with everything useful that it is able to do. Compiled kernels are kept in the
    /// [cache folder](crate#compiled-kernels).
    ///
    /// # Errors
    ///
    /// [`OpenError::Refused`] if its driver refuses.
    pub fn open(&self) -> Result<WgpuDriver, OpenError> {
        self.open_with_cache(cache_dir().as_deref())
    }

    /// As [`open`](Self::open), with compiled kernels kept in `folder`, or nowhere.
    ///
    /// # Errors
    ///
    /// [`OpenError::Refused`] if its driver refuses.
    pub fn open_with_cache(&self, folder: Option<&Path>) -> Result<WgpuDriver, OpenError> {
        self.open_within(u64::MAX, folder)
    }

    /// As [`open_with_cache`](Self::open_with_cache), with kernels that see so many bytes of a buffer at once at the most:
    /// as on a GPU that allows no more. For tests of what is cut then.
    ///
    /// # Errors
    ///
    /// [`OpenError::Refused`] if its driver refuses.
    pub fn open_within(&self, max_binding: u64, folder: Option<&Path>) -> Result<WgpuDriver, OpenError> {
        let refused =
            |message| OpenError::Refused { device: self.device, name: self.info.name.clone(), message };
        let features = self.wgpu.features() & USEFUL;
        let mut limits = self.wgpu.limits();
        limits.max_storage_buffer_binding_size = limits.max_storage_buffer_binding_size.min(max_binding);
        let (wgpu, queue) = pollster::block_on(self.wgpu.request_device(&wgpu::DeviceDescriptor {
            label: Some("rustorch"),
            required_features: features,
            required_limits: limits.clone(),
            memory_hints: wgpu::MemoryHints::Performance,
            ..wgpu::DeviceDescriptor::default()
        }))
        .map_err(|error| refused(error.to_string()))?;
        let faults = Faults::listen(self.device, &wgpu);
        let hardware = self.hardware(features, &limits);
        let cache = Cache::open(&wgpu, &self.info, &hardware.driver, folder);
        let driver = WgpuDriver::new(wgpu, queue, hardware, faults.clone(), cache);
        faults.check().map_err(|fault| refused(fault.to_string()))?;
        Ok(driver)
    }

    fn hardware(&self, features: wgpu::Features, limits: &wgpu::Limits) -> Hardware {
        let info = &self.info;
        // wgpu gives the range of all Macs; SIMD groups of Apple's own GPUs have 32 threads.
        let apple = info.backend == wgpu::Backend::Metal && info.name.starts_with("Apple");
        let [least, most] = if apple { [32; 2] } else { [info.subgroup_min_size, info.subgroup_max_size] };
        let subgroups = (1..=most).contains(&least).then_some(Subgroups { least, most });
        Hardware {
            device: self.device,
            name: info.name.clone(),
            driver: self.driver(),
            language: Language::Wgsl,
            f64: features.contains(wgpu::Features::SHADER_F64),
            i64: features.contains(wgpu::Features::SHADER_INT64),
            subgroups: subgroups.filter(|_| features.contains(wgpu::Features::SUBGROUP)),
            tensor_cores: false,
            software: self.is_software(),
            workgroup: limits.max_compute_invocations_per_workgroup.min(limits.max_compute_workgroup_size_x),
            workgroup_memory: limits.max_compute_workgroup_storage_size,
            groups: limits.max_compute_workgroups_per_dimension,
            // The limits are whatever a driver says; sizes are multiples of 16.
            max_buffer: limits.max_buffer_size / 16 * 16,
            max_binding: limits.max_storage_buffer_binding_size.min(limits.max_buffer_size) / 16 * 16,
            // Metal counts them together with the uniform buffer that large parameters are.
            buffers: limits
                .max_storage_buffers_per_shader_stage
                .min(limits.max_buffers_and_acceleration_structures_per_shader_stage.saturating_sub(1)),
            parameters: u32::try_from(limits.max_uniform_buffer_binding_size.min(Slots::CAPACITY as u64))
                .unwrap_or(u32::MAX),
            window: Some(limits.min_storage_buffer_offset_alignment),
            memory: self.memory(),
            arithmetic: Arithmetic::default(),
        }
    }

    /// The memory of the device in bytes, where its interface tells.
    fn memory(&self) -> Option<u64> {
        #[cfg(windows)]
        if self.info.backend == wgpu::Backend::Dx12 {
            // SAFETY: the handle is only used to ask for properties, while `hal` keeps the adapter alive.
            let hal = unsafe { self.wgpu.as_hal::<wgpu::hal::api::Dx12>() }?;
            // SAFETY: as above.
            let told = unsafe { hal.raw_adapter().GetDesc1() }.ok()?;
            let own = told.DedicatedVideoMemory as u64;
            // What an integrated GPU has of its own is a small part of what it may use.
            let shared = self.info.device_type != wgpu::DeviceType::DiscreteGpu;
            return Some(if shared { own + told.SharedSystemMemory as u64 } else { own });
        }
        #[cfg(not(target_vendor = "apple"))]
        {
            // SAFETY: the handles are only used to ask for properties, while `hal` keeps the adapter alive.
            let hal = unsafe { self.wgpu.as_hal::<wgpu::hal::api::Vulkan>() }?;
            let instance = hal.shared_instance().raw_instance();
            // SAFETY: the physical device is this instance's.
            let memory = unsafe { instance.get_physical_device_memory_properties(hal.raw_physical_device()) };
            let heaps = memory.memory_heaps.iter().take(memory.memory_heap_count as usize);
            // VK_MEMORY_HEAP_DEVICE_LOCAL_BIT
            heaps.filter(|heap| heap.flags.as_raw() & 1 != 0).map(|heap| heap.size).max()
        }
        #[cfg(target_vendor = "apple")]
        {
            use objc2_metal::MTLDevice;
            // SAFETY: the handle is only used to ask for a property, while `hal` keeps the adapter alive.
            let hal = unsafe { self.wgpu.as_hal::<wgpu::hal::api::Metal>() }?;
            Some(hal.raw_device().recommendedMaxWorkingSetSize())
        }
    }
}

/// What kernels and this crate make use of where an adapter has it.
const USEFUL: wgpu::Features = wgpu::Features::SHADER_F64
    .union(wgpu::Features::SHADER_INT64)
    .union(wgpu::Features::SHADER_I16)
    .union(wgpu::Features::SHADER_FLOAT32_ATOMIC)
    .union(wgpu::Features::SUBGROUP)
    .union(wgpu::Features::SUBGROUP_BARRIER)
    .union(wgpu::Features::IMMEDIATES)
    .union(wgpu::Features::TIMESTAMP_QUERY)
    .union(wgpu::Features::TIMESTAMP_QUERY_INSIDE_ENCODERS)
    .union(wgpu::Features::PIPELINE_CACHE);

/// Whether two entries are one GPU. Without a bus address only software devices are compared, by everything else: two
/// equal cards may lack addresses, one CPU is listed twice only by two lists of drivers.
fn same(a: &wgpu::AdapterInfo, b: &wgpu::AdapterInfo) -> bool {
    match bus_address(a) {
        None => a == b && a.device_type == wgpu::DeviceType::Cpu && a.backend != wgpu::Backend::Dx12,
        address => a.backend == b.backend && address == bus_address(b),
    }
}

/// Where an adapter is plugged in, where that is known: for Direct3D, which lists each adapter once, wgpu gives the place of the
/// first of several equal cards.
pub(crate) fn bus_address(info: &wgpu::AdapterInfo) -> Option<&str> {
    let known = info.backend != wgpu::Backend::Dx12 && !info.device_pci_bus_id.is_empty();
    known.then_some(info.device_pci_bus_id.as_str())
}

/// The order of kinds of adapters.
fn rank(kind: wgpu::DeviceType) -> u8 {
    match kind {
        wgpu::DeviceType::DiscreteGpu => 0,
        wgpu::DeviceType::IntegratedGpu => 1,
        wgpu::DeviceType::VirtualGpu => 2,
        wgpu::DeviceType::Other => 3,
        wgpu::DeviceType::Cpu => 4,
    }
}

/// What a person can do who has no adapter of a family of devices: `vulkan`, `metal` or `dx12`.
pub fn why_none(family: &str) -> String {
    match family {
        "metal" => return "Metal has no device here".to_owned(),
        "dx12" => return "Direct3D 12 has no device here; Windows 10 and later have it".to_owned(),
        _ => {}
    }
    let chosen = ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"]
        .into_iter()
        .find_map(|name| Some((name, PathBuf::from(std::env::var_os(name).filter(|v| !v.is_empty())?))));
    if let Some((name, files)) = chosen {
        return format!(
            "Vulkan found no driver in {name}={}; unset it, or let it name the .json file of an installed driver",
            files.display()
        );
    }
    let how = if cfg!(windows) {
        "install the driver of the GPU's vendor"
    } else {
        "install the driver of the GPU's vendor, or Mesa's, and the loader libvulkan.so.1 (Debian and Ubuntu: apt-get \
         install libvulkan1 mesa-vulkan-drivers, which also has a software device)"
    };
    format!("Vulkan or a driver for it is not installed; {how}")
}
