//! Kernels as wgpu hands them to Vulkan, Metal and DirectX 12: in SPIR-V, MSL and HLSL, by naga.
//!
//! The options are those of wgpu-hal 30 for modules without run-time checks, which is how `rustorch-wgpu` compiles, and the
//! places of buffers are those that its pipeline layouts give them.

#![allow(dead_code, unreachable_pub, reason = "each test program uses its own part")]

use naga::back::{hlsl, msl, spv};
use naga::proc::{BoundsCheckPolicies, BoundsCheckPolicy};
use naga::valid::{Capabilities, ModuleInfo, ValidationFlags, Validator};
use naga::{AddressSpace, Module, ResourceBinding, ShaderStage, StorageAccess};
use rustorch_kernels::Hardware;
use rustorch_kernels::wgsl::Wgsl;

/// What the driver of an interface takes.
#[derive(Clone, Copy, Debug)]
pub enum Target {
    /// Vulkan: SPIR-V of this version.
    SpirV(u8, u8),
    /// Metal: its shading language of this version.
    Msl(u8, u8),
    /// DirectX 12: HLSL of this shader model; 5.1 is for the old compiler FXC, which knows neither `i64` nor `f16` nor
    /// subgroups.
    Hlsl(hlsl::ShaderModel),
}

/// A kernel as the driver's compiler gets it.
pub enum Written {
    /// SPIR-V.
    Words(Vec<u32>),
    /// MSL or HLSL, and the name of the entry point there.
    Text(String, String),
}

impl Target {
    /// The name of the language.
    pub fn language(self) -> &'static str {
        match self {
            Target::SpirV(..) => "SPIR-V",
            Target::Msl(..) => "MSL",
            Target::Hlsl(..) => "HLSL",
        }
    }

    /// The bytes of parameters that go with a launch itself: `rustorch-wgpu` wants at most 256, DirectX has room for 128.
    fn immediates(self) -> usize {
        match self {
            Target::Hlsl(..) => 128,
            _ => 256,
        }
    }

    /// Writes a kernel, given with its [parsed](parse) source. Large parameters are a uniform buffer, others immediates.
    ///
    /// # Errors
    /// What is wrong with the kernel, or cannot be expressed.
    pub fn write(self, wgsl: &Wgsl, parsed: &Module, hardware: &Hardware) -> Result<Written, String> {
        let mut module = parsed.clone();
        let immediates = 4 * wgsl.words <= self.immediates();
        if immediates {
            as_immediates(&mut module);
        }
        let info = Validator::new(ValidationFlags::all(), capabilities(hardware))
            .validate(&module)
            .map_err(|error| error.emit_to_string(&wgsl.code))?;
        match self {
            Target::SpirV(major, minor) => spirv(&module, &info, (major, minor), hardware),
            Target::Msl(major, minor) => metal(&module, &info, (major, minor), immediates),
            Target::Hlsl(model) => directx(&module, &info, model, immediates),
        }
    }
}

/// A kernel's module.
///
/// # Errors
/// What is wrong with its source.
pub fn parse(wgsl: &Wgsl) -> Result<Module, String> {
    naga::front::wgsl::parse_str(&wgsl.code).map_err(|error| error.emit_to_string(&wgsl.code))
}

/// What wgpu has naga's validator allow for a device.
fn capabilities(hardware: &Hardware) -> Capabilities {
    let mut all = Capabilities::IMMEDIATES;
    all.set(Capabilities::FLOAT64, hardware.f64);
    all.set(Capabilities::SHADER_INT64, hardware.i64);
    all.set(Capabilities::SUBGROUP, hardware.subgroups.is_some());
    all
}

/// As `rustorch-wgpu` does with parameters that fit.
fn as_immediates(module: &mut Module) {
    for (_, variable) in module.global_variables.iter_mut() {
        if variable.space == AddressSpace::Uniform {
            variable.space = AddressSpace::Immediate;
            variable.binding = None;
        }
    }
}

/// The buffers in the order of their bindings, and whether the kernel writes them; none for uniform parameters.
fn bindings(module: &Module) -> Vec<(ResourceBinding, Option<bool>)> {
    let mut all: Vec<_> = module
        .global_variables
        .iter()
        .filter_map(|(_, variable)| {
            let writes = match variable.space {
                AddressSpace::Storage { access } => Some(access.contains(StorageAccess::STORE)),
                _ => None,
            };
            Some((variable.binding?, writes))
        })
        .collect();
    all.sort();
    all
}

const UNCHECKED: BoundsCheckPolicies = BoundsCheckPolicies {
    index: BoundsCheckPolicy::Unchecked,
    buffer: BoundsCheckPolicy::Unchecked,
    image_load: BoundsCheckPolicy::Unchecked,
    binding_array: BoundsCheckPolicy::Unchecked,
};

fn entry() -> Option<(ShaderStage, String)> {
    Some((ShaderStage::Compute, "main".to_owned()))
}

fn spirv(
    module: &Module,
    info: &ModuleInfo,
    version: (u8, u8),
    hardware: &Hardware,
) -> Result<Written, String> {
    use spv::Capability as C;
    let mut allowed = vec![C::Shader, C::Matrix, C::Sampled1D, C::Image1D, C::ImageQuery];
    allowed.extend([C::DerivativeControl, C::StorageImageExtendedFormats]);
    if hardware.subgroups.is_some() {
        allowed.extend([C::GroupNonUniform, C::GroupNonUniformVote, C::GroupNonUniformArithmetic]);
        allowed.extend([C::GroupNonUniformBallot, C::GroupNonUniformShuffle]);
        allowed.extend([C::GroupNonUniformShuffleRelative, C::GroupNonUniformQuad]);
    }
    // wgpu states no capability for `f64`, and naga asks for none.
    allowed.extend(hardware.f64.then_some(C::Float64));
    allowed.extend(hardware.i64.then_some(C::Int64));
    let options = spv::Options {
        lang_version: version,
        flags: spv::WriterFlags::LABEL_VARYINGS | spv::WriterFlags::FORCE_POINT_SIZE,
        fake_missing_bindings: false,
        binding_map: bindings(module)
            .into_iter()
            .map(|(at, _)| {
                let binding =
                    spv::BindingInfo { descriptor_set: 0, binding: at.binding, binding_array_size: None };
                (at, binding)
            })
            .collect(),
        capabilities: Some(allowed.into_iter().collect()),
        bounds_check_policies: UNCHECKED,
        zero_initialize_workgroup_memory: match version {
            (1, 6..) => spv::ZeroInitializeWorkgroupMemoryMode::Native,
            _ => spv::ZeroInitializeWorkgroupMemoryMode::Polyfill,
        },
        force_loop_bounding: false,
        ray_query_initialization_tracking: false,
        trace_ray_argument_validation: false,
        use_storage_input_output_16: false,
        debug_info: None,
        task_dispatch_limits: None,
        mesh_shader_primitive_indices_clamp: false,
        emit_int_div_checks: false,
    };
    let pipeline = spv::PipelineOptions { shader_stage: ShaderStage::Compute, entry_point: "main".into() };
    let words = spv::write_vec(module, info, &options, Some(&pipeline)).map_err(|error| error.to_string())?;
    Ok(Written::Words(words))
}

fn metal(module: &Module, info: &ModuleInfo, version: (u8, u8), immediates: bool) -> Result<Written, String> {
    // Slots are given to immediates, then to buffers in order, then to the list of their sizes.
    let first = u8::from(immediates);
    let buffers = bindings(module);
    let sizes = first + buffers.len() as u8;
    let resources = (first..).zip(buffers).map(|(slot, (at, writes))| {
        let mutable = writes.unwrap_or(false);
        (at, msl::BindTarget { buffer: Some(slot), mutable, ..msl::BindTarget::default() })
    });
    let resources = msl::EntryPointResources {
        resources: resources.collect(),
        immediates_buffer: immediates.then_some(0),
        sizes_buffer: Some(sizes),
    };
    let options = msl::Options {
        lang_version: version,
        per_entry_point_map: [("main".to_owned(), resources)].into(),
        inline_samplers: Vec::new(),
        spirv_cross_compatibility: false,
        fake_missing_bindings: false,
        bounds_check_policies: UNCHECKED,
        zero_initialize_workgroup_memory: true,
        force_loop_bounding: false,
        task_dispatch_limits: None,
        mesh_shader_primitive_indices_clamp: false,
        emit_int_div_checks: false,
        ray_query_initialization_tracking: false,
    };
    let pipeline = msl::PipelineOptions {
        entry_point: entry(),
        vertex_pulling_transform: true,
        ..msl::PipelineOptions::default()
    };
    let (text, names) =
        msl::write_string(module, info, &options, &pipeline).map_err(|error| error.to_string())?;
    named(text, names.entry_point_names)
}

fn directx(
    module: &Module,
    info: &ModuleInfo,
    model: hlsl::ShaderModel,
    immediates: bool,
) -> Result<Written, String> {
    let place = |space, register| hlsl::BindTarget { space, register, ..hlsl::BindTarget::default() };
    // Constants, buffers that are read and buffers that are written are counted apart; immediates are the first constants.
    let (mut constants, mut read, mut written) = (u32::from(immediates), 0, 0);
    let mut next = |writes: Option<bool>| {
        let (count, space) = match writes {
            None => (&mut constants, u8::from(immediates)),
            Some(false) => (&mut read, 0),
            Some(true) => (&mut written, 0),
        };
        *count += 1;
        hlsl::BindTarget { restrict_indexing: writes.is_none(), ..place(space, *count - 1) }
    };
    let binding_map = bindings(module).into_iter().map(|(at, writes)| (at, next(writes))).collect();
    let options = hlsl::Options {
        shader_model: model,
        binding_map,
        fake_missing_bindings: false,
        special_constants_binding: Some(place(u8::from(immediates), constants)),
        immediates_target: immediates.then(|| place(0, 0)),
        zero_initialize_workgroup_memory: true,
        restrict_indexing: false,
        force_loop_bounding: false,
        task_dispatch_limits: None,
        mesh_shader_primitive_indices_clamp: false,
        ray_query_initialization_tracking: false,
        ..hlsl::Options::default()
    };
    let pipeline = hlsl::PipelineOptions { entry_point: entry() };
    let mut text = String::new();
    let names = hlsl::Writer::new(&mut text, &options, &pipeline)
        .write(module, info, None)
        .map_err(|error| error.to_string())?;
    named(text, names.entry_point_names)
}

/// A source with its one entry point.
fn named(text: String, names: Vec<Result<String, impl std::fmt::Display>>) -> Result<Written, String> {
    let name = names.into_iter().next().ok_or("it has no entry point")?;
    Ok(Written::Text(text, name.map_err(|error| error.to_string())?))
}
