//! Features and limits of a device, as its driver reports them or a probe has measured them.

use rustorch_core::Device;

/// The language in which a driver takes kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Language {
    /// WGSL, which wgpu translates to SPIR-V, MSL or HLSL.
    Wgsl,
    /// OpenCL C.
    OpenClC,
    /// CUDA C.
    CudaC,
}

/// A device's abilities and limits.
#[derive(Clone, Debug, PartialEq)]
pub struct Hardware {
    /// Which device.
    pub device: Device,
    /// Its name as the driver gives it.
    pub name: String,
    /// The driver and its version: what compiled kernels and measurements are cached under.
    pub driver: String,
    /// The language of its kernels.
    pub language: Language,
    /// Whether kernels may compute in `f64`.
    pub f64: bool,
    /// Whether kernels may compute in 64-bit integers.
    pub i64: bool,
    /// Subgroup sizes. From a driver: what the device has; from an engine: what its kernels use, see
    /// [`SubgroupUse`](crate::SubgroupUse).
    pub subgroups: Option<Subgroups>,
    /// Whether the 32 threads of a subgroup multiply small matrices together, at a higher rate than each by itself. Kernels do so
    /// only where they use subgroups.
    pub tensor_cores: bool,
    /// Whether it is a software renderer that runs on the CPU.
    pub software: bool,
    /// Maximum invocations per workgroup.
    pub workgroup: u32,
    /// Maximum workgroup (shared) memory in bytes.
    pub workgroup_memory: u32,
    /// Maximum workgroups per dimension of a launch.
    pub groups: u32,
    /// Maximum buffer size in bytes.
    pub max_buffer: u64,
    /// Maximum size of a buffer binding in bytes.
    pub max_binding: u64,
    /// Maximum number of buffer bindings of a kernel.
    pub buffers: u32,
    /// Maximum bytes of kernel arguments: the parameter block and 8 bytes per buffer address.
    pub parameters: u32,
    /// Alignment of buffer binding offsets in bytes; `None` if only whole buffers can be bound.
    pub window: Option<u32>,
    /// Memory in bytes, if known.
    pub memory: Option<u64>,
    /// Floating-point behaviour.
    pub arithmetic: Arithmetic,
}

impl Hardware {
    /// Whether attention, and matmuls of many rows with quantized weights, add in the CPU's order, to the last bit. Software
    /// devices do, which would gain little by another, unless they are to use subgroups.
    pub fn keeps_order(&self) -> bool {
        self.software && self.subgroups.is_none()
    }
}

/// The range of subgroup sizes: powers of two, chosen by the compiler per kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Subgroups {
    /// Minimum size, except for the last subgroup of a workgroup.
    pub least: u32,
    /// Maximum size.
    pub most: u32,
}

/// Floating-point behaviour of a device, measured by running kernels; of `f32` unless stated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Arithmetic {
    /// Whether `fma(a, b, c)` rounds once. If not, kernels that depend on it emulate it.
    pub fused: bool,
    /// Whether the compiler contracts `a * b + c` to an fma.
    pub contracts: bool,
    /// Whether division and square root are correctly rounded.
    pub divides: bool,
    /// The same for `f64`; false if there is none.
    pub divides_doubles: bool,
    /// Whether subnormals are preserved.
    pub subnormals: bool,
    /// Whether the compiler keeps the order of additions and recognises NaN where kernels need it. If not, compensated sums do not
    /// work, and results may differ from the CPU's in the last places.
    pub faithful: bool,
}

impl Default for Arithmetic {
    /// The most conservative assumptions.
    fn default() -> Arithmetic {
        Arithmetic {
            fused: false,
            contracts: true,
            divides: false,
            divides_doubles: false,
            subnormals: false,
            faithful: false,
        }
    }
}
