//! What a device is able to do, as its driver reports it or as a probe has found.

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
    /// Whether kernels may compute in `f16`. Data in `f16` is always possible.
    pub f16: bool,
    /// Whether kernels may compute in `f64`.
    pub f64: bool,
    /// Whether kernels may compute in 64-bit integers.
    pub i64: bool,
    /// The subgroups of its workgroups, where invocations exchange values directly. Of a driver: what there is; of an
    /// engine: what its kernels use, see [`SubgroupUse`](crate::SubgroupUse).
    pub subgroups: Option<Subgroups>,
    /// Whether it is a processor in disguise, such as a software renderer.
    pub software: bool,
    /// The most invocations of a workgroup.
    pub workgroup: u32,
    /// The most bytes that a workgroup may share.
    pub workgroup_memory: u32,
    /// The most workgroups along one dimension of a launch.
    pub groups: u32,
    /// The largest buffer, in bytes.
    pub max_buffer: u64,
    /// The most bytes of a buffer that a kernel sees at once.
    pub max_binding: u64,
    /// The most buffers that a kernel binds.
    pub buffers: u32,
    /// The most bytes that a launch's numbers and the addresses of its buffers, 8 bytes each, may take together.
    pub parameters: u32,
    /// The alignment in bytes of a window onto part of a buffer; `None` where kernels see whole buffers only.
    pub window: Option<u32>,
    /// Memory in bytes, if known.
    pub memory: Option<u64>,
    /// How it rounds.
    pub arithmetic: Arithmetic,
}

/// How many invocations a subgroup has: one of the powers of two of this range, for each kernel as its compiler likes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Subgroups {
    /// At least, the last of a workgroup excepted.
    pub least: u32,
    /// At most.
    pub most: u32,
}

/// How a device rounds, found by running kernels; `f32` where nothing else is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Arithmetic {
    /// Whether `fma(a, b, c)` rounds once. Where not, kernels whose results depend on it compute it by hand.
    pub fused: bool,
    /// Whether the compiler turns `a * b + c` into a fused operation.
    pub contracts: bool,
    /// Whether quotients and square roots are correctly rounded.
    pub divides: bool,
    /// Whether those of `f64` are; not where it has none.
    pub divides_doubles: bool,
    /// Whether subnormal numbers are kept.
    pub subnormals: bool,
    /// Whether the compiler computes sums as they are written, and knows NaN, where kernels ask for it. Where not, there is
    /// no help: what a sum has lost is not found, and results may differ from the processor's in the last places.
    pub faithful: bool,
}

impl Default for Arithmetic {
    /// What nothing is known of: the worst.
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
