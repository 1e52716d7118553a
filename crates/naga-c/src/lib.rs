//! Writes the compute shaders of a [`naga::Module`] as **OpenCL C** and as **CUDA C++** (for NVRTC).
//!
//! Kernels written once in WGSL (or GLSL, or SPIR-V: whatever naga reads) so run on devices that naga's own back ends do not
//! reach. Both dialects come from one writer and look alike; they differ in a table of spellings. The source needs no header
//! and no include path.
//!
//! ```
//! use naga_c::{ArgumentKind, Dialect, Options};
//!
//! let shader = "
//!     @group(0) @binding(0) var<storage, read> x: array<f32>;
//!     @group(0) @binding(1) var<storage, read_write> y: array<f32>;
//!     @group(0) @binding(2) var<uniform> scale: f32;
//!
//!     @compute @workgroup_size(64)
//!     fn scale_add(@builtin(global_invocation_id) id: vec3<u32>) {
//!         y[id.x] = fma(x[id.x], scale, y[id.x]);
//!     }";
//! # let module = naga::front::wgsl::parse_str(shader).unwrap();
//! # let mut validator = naga::valid::Validator::new(Default::default(), naga::valid::Capabilities::all());
//! # let info = validator.validate(&module).unwrap();
//! // `module` is the parsed shader, `info` what naga's validator said about it.
//! let output = naga_c::write(&module, &info, Some("scale_add"), &Options::new(Dialect::Cuda))?;
//! assert!(output.source.contains("fmaf("));
//! let kernel = &output.entry_points[0];
//! assert_eq!(kernel.workgroup_size, [64, 1, 1]);
//! assert_eq!(kernel.arguments[2].kind, ArgumentKind::Uniform { size: 4 });
//! # Ok::<(), naga_c::Error>(())
//! ```
//!
//! # Numbers
//!
//! The source does not change how results are rounded, if it is compiled with [`Dialect::compiler_flags`]: `fma` is the fused
//! operation, `a * b + c` is not (OpenCL: `FP_CONTRACT OFF` stands in the source; CUDA: **compile with `--fmad=false`**), sums
//! of dot products run from the first component to the last, literals are exact.
//!
//! Where C leaves behaviour undefined, WGSL's rule is written out: signed arithmetic wraps, shifts take their amount modulo
//! the width, `x / 0` is `x`, `x % 0` is `0`, `MIN / -1` is `MIN`, floats become integers by truncation and saturation at
//! the last value that both types have (a NaN becomes the lowest value). `inverseSqrt(x)` is `1 / sqrt(x)` with its
//! two roundings, the same on all devices; `%` of floats is C's exact `fmod`. Other functions (`exp`, `sin`, ...) are the
//! device's own and differ in the last places.
//!
//! Indices are taken as they are, as in C: **an index out of bounds is undefined behaviour** unless
//! [`Options::bounds_checks`] is set. Only components of vectors are picked safely.
//!
//! # Launching
//!
//! Each [`EntryPoint`] says what to pass, in order. Buffers are pointers, uniforms are passed by value in WGSL's layout.
//! Launch without a global offset and with exactly the workgroup size given. Subgroups on CUDA are warps of 32, and subgroup
//! operations must be reached by all invocations of a subgroup, as WGSL's uniformity rules demand.
//!
//! Half precision: OpenCL uses `half` of `cl_khr_fp16`. NVRTC cannot include `cuda_fp16.h` without an include path, so for
//! CUDA a type of 2 bytes is defined in the source whose sums, products and fused products are those of the hardware (PTX
//! instructions, compute capability 5.3 or later).
//!
//! # Testing
//!
//! The crate's tests run what they can: OpenCL C on the first OpenCL device, CUDA source through NVRTC (`NVRTC_PATH`) and
//! `ptxas` (`PTXAS_PATH`), and as C++ on the CPU. What is not installed is skipped with a message.
//!
//! # What is refused
//!
//! Matrices, textures, samplers, ray queries, cooperative matrices, immediates (push constants), binding arrays, stages
//! other than compute, `override`s without a value: each with an [`Error`] that says so. Recursion does not exist in WGSL.

mod api;
mod atomics;
mod constants;
mod dialect;
mod error;
mod expr;
mod function;
mod helpers;
mod keywords;
mod layout;
mod literals;
mod math;
mod program;
mod scalars;
mod statements;
mod subgroups;
mod types;

pub use api::{Argument, ArgumentKind, Dialect, EntryPoint, Intrinsic, Options, Output};
pub use error::Error;

/// Writes the compute entry point named `entry`, or all compute entry points if `entry` is `None`.
///
/// `info` is what naga's validator returned for `module`; overrides must have been processed with
/// `naga::back::pipeline_constants::process_overrides` (which naga has if one of its own binary or text back ends is enabled).
///
/// # Errors
///
/// See [`Error`]: unknown entry points, and parts of the module that have no counterpart in C. Only what the entry points
/// use is looked at.
///
/// # Panics
///
/// If `info` is that of a module with fewer functions or entry points, which cannot be seen from outside.
pub fn write(
    module: &naga::Module,
    info: &naga::valid::ModuleInfo,
    entry: Option<&str>,
    options: &Options,
) -> Result<Output, Error> {
    program::write(module, info, entry, options)
}
