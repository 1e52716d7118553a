//! What the caller chooses and what the caller gets.

/// The language to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// OpenCL C 1.2; 2.0 where subgroups are used.
    OpenCl,
    /// CUDA C++ (C++17) as NVRTC compiles it, without any header.
    Cuda,
}

impl Dialect {
    /// Compiler flags under which the written source computes what the shader says, rounding included.
    ///
    /// - OpenCL: `-cl-fp32-correctly-rounded-divide-sqrt` makes division and square root of `f32` exactly rounded.
    ///   A device that does not report `CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT` refuses it: leave it away there, and expect
    ///   2.5 and 3 units in the last place. A language version is not among the flags: add `-cl-std=CL1.2`, or
    ///   `-cl-std=CL2.0` or later where [`Output::subgroups`] is true. Never add `-cl-fast-relaxed-math`,
    ///   `-cl-unsafe-math-optimizations`, `-cl-mad-enable` or `-cl-finite-math-only`.
    /// - CUDA: `--fmad=false` keeps products and sums apart (NVRTC fuses them otherwise); the others are NVRTC's defaults,
    ///   said aloud. Never add `--use_fast_math`.
    pub const fn compiler_flags(self) -> &'static [&'static str] {
        match self {
            Dialect::OpenCl => &["-cl-fp32-correctly-rounded-divide-sqrt"],
            Dialect::Cuda => &["--fmad=false", "--ftz=false", "--prec-div=true", "--prec-sqrt=true"],
        }
    }
}

/// A function of the shader that a device has an instruction for, which no shading language names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Intrinsic {
    /// The name of the function in the shader. Its own body is what computes the same where the instruction does not exist.
    pub name: &'static str,
    /// A condition of the preprocessor under which the instruction exists.
    pub condition: &'static str,
    /// Statements in the dialect that end with a `return`. `$0`, `$1`, … are the names of the arguments, `$result` is that of
    /// the type of the result.
    pub body: &'static str,
}

/// What to write, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    /// The language to write.
    pub dialect: Dialect,
    /// Whether kernels set their workgroup variables to zero first, as WGSL demands. Where every kernel writes before it
    /// reads, `false` saves the stores and a barrier.
    pub zero_workgroup: bool,
    /// Whether kernels get the sizes of runtime-sized buffers as further arguments ([`ArgumentKind::StorageSize`]), which
    /// `arrayLength` needs.
    pub buffer_sizes: bool,
    /// Whether the source is safe to run whatever the shader does, for shaders that are not trusted: indices out of bounds are
    /// those of the last element (naga's `BoundsCheckPolicy::Restrict`), and loops end, if only after 2⁶⁴ − 1 turns, since compilers
    /// take endless ones for unreachable. Kernels then get the size of **every** storage buffer that they use
    /// ([`ArgumentKind::StorageSize`]), of which each must hold one element at least.
    pub bounds_checks: bool,
    /// Whether pointers to storage buffers are `restrict`. WebGPU forbids that a buffer which a kernel writes is bound a
    /// second time, so `true` is right for shaders that keep to that; use `false` where one buffer may be bound twice.
    pub restrict: bool,
    /// Functions that become instructions of the device.
    pub intrinsics: &'static [Intrinsic],
}

impl Options {
    /// WGSL's own rules: zeroed workgroup variables, buffers that do not overlap, no sizes of buffers; indices are taken as they
    /// are, and functions are what the shader says.
    pub const fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            zero_workgroup: true,
            buffer_sizes: false,
            bounds_checks: false,
            restrict: true,
            intrinsics: &[],
        }
    }
}

/// The written program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// The source to give to the compiler.
    pub source: String,
    /// The kernels in it, in the module's order.
    pub entry_points: Vec<EntryPoint>,
    /// OpenCL extensions that the device must have, sorted. Always empty for CUDA.
    pub extensions: Vec<&'static str>,
    /// Whether subgroups are used. OpenCL then needs `-cl-std=CL2.0` or later, and a device with `cl_khr_subgroups`,
    /// `cl_intel_subgroups` or, from OpenCL 3.0 on, a `CL_DEVICE_MAX_NUM_SUB_GROUPS` other than 0.
    pub subgroups: bool,
}

/// A kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryPoint {
    /// Its name in C: not mangled, but different from the shader's where that is a keyword of C.
    pub name: String,
    /// Its name in the shader.
    pub source_name: String,
    /// Invocations of a workgroup along x, y and z. The kernel must be launched with exactly these.
    pub workgroup_size: [u32; 3],
    /// The kernel's parameters, in order: the bindings which it uses, sorted by group and binding, and then the sizes of
    /// buffers, if any, sorted likewise.
    pub arguments: Vec<Argument>,
    /// Bytes of statically allocated workgroup (OpenCL: local, CUDA: shared) memory. Compilers may round variables up, and
    /// OpenCL stores vectors of `bool` as integers, which are counted as a byte each here.
    pub workgroup_memory: u32,
}

/// One parameter of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Argument {
    /// `@group` of the resource.
    pub group: u32,
    /// `@binding` of the resource.
    pub binding: u32,
    /// What to pass.
    pub kind: ArgumentKind,
}

/// What to pass for a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ArgumentKind {
    /// A storage buffer: a pointer to device memory (OpenCL: a `cl_mem`), aligned as WGSL demands for its type.
    Storage {
        /// Whether the kernel can only read from it.
        read_only: bool,
    },
    /// A uniform buffer, passed **by value**: `size` bytes in WGSL's layout. All arguments of a kernel together must stay
    /// within the device's limit (OpenCL: `CL_DEVICE_MAX_PARAMETER_SIZE`, at least 1024 bytes; CUDA: 4 KiB, more on newer
    /// devices), which is less than a uniform buffer may hold: put large tables into storage buffers.
    Uniform {
        /// Bytes to pass.
        size: u32,
    },
    /// The size in bytes of the storage buffer at the same group and binding, as a `u32`.
    StorageSize,
}
