//! Translation of WGSL kernels to OpenCL C and CUDA C++.

use crate::Language;
use crate::library::mma;
use crate::wgsl::{HALF, HALF_OF_HARDWARE, Wgsl};
use naga::valid::{Capabilities, ValidationFlags, Validator};
use naga_c::{ArgumentKind, Dialect, Options};
use std::borrow::Cow;

/// A kernel in another language.
#[derive(Clone, Debug)]
pub struct Translated {
    /// The source.
    pub source: String,
    /// The name of its entry point.
    pub entry: String,
    /// The extensions of OpenCL that its device must have, sorted.
    pub extensions: Vec<&'static str>,
}

/// The extensions of OpenCL, beside those of 16 and 64 bits and subgroups themselves, that kernels with subgroups need.
pub const SUBGROUP_EXTENSIONS: [&str; 2] = ["cl_khr_subgroup_shuffle", "cl_khr_subgroup_shuffle_relative"];

/// Translates a kernel to a driver's language.
///
/// # Errors
/// If the source is not valid WGSL, or uses what the language cannot express; the message says where.
pub fn translate(wgsl: &Wgsl, language: Language) -> Result<Translated, String> {
    let dialect = match language {
        Language::Wgsl => {
            let (source, entry) = (wgsl.code.clone(), "main".into());
            return Ok(Translated { source, entry, extensions: Vec::new() });
        }
        Language::OpenClC => Dialect::OpenCl,
        Language::CudaC => Dialect::Cuda,
    };
    let code = match language {
        // PTX's conversions round to the nearest and keep subnormal numbers.
        Language::CudaC => Cow::Owned(wgsl.code.replacen(HALF, HALF_OF_HARDWARE, 1)),
        Language::Wgsl | Language::OpenClC => Cow::Borrowed(&wgsl.code),
    };
    let mut module = naga::front::wgsl::parse_str(&code).map_err(|error| error.emit_to_string(&code))?;
    if wgsl.checked {
        pad_uniforms(&mut module)?;
    }
    let info = Validator::new(ValidationFlags::all(), Capabilities::all())
        .validate(&module)
        .map_err(|error| error.emit_to_string(&code))?;
    // This crate's kernels write shared memory before they read it, and index within bounds.
    let options = Options {
        zero_workgroup: wgsl.checked,
        bounds_checks: wgsl.checked,
        restrict: !wgsl.checked,
        intrinsics: if language == Language::CudaC { mma::INTRINSICS } else { &[] },
        ..Options::new(dialect)
    };
    let mut output = naga_c::write(&module, &info, None, &options).map_err(|error| error.to_string())?;
    let entry = output.entry_points.pop().ok_or("the module has no entry point")?;
    // Drivers pass every buffer and then the parameters; a binding that the kernel ignores would shift them.
    let letter = |argument: &naga_c::Argument| match argument.kind {
        ArgumentKind::Storage { .. } => 'b',
        ArgumentKind::Uniform { .. } => 'p',
        ArgumentKind::StorageSize => 's',
    };
    let sizes = if wgsl.checked { wgsl.buffers } else { 0 };
    let want =
        ["b".repeat(wgsl.buffers), "p".repeat(usize::from(wgsl.words > 0)), "s".repeat(sizes)].concat();
    if entry.arguments.iter().map(letter).collect::<String>() != want {
        return Err(format!("the kernel must use each of its {} buffers and its parameters", wgsl.buffers));
    }
    Ok(Translated { source: output.source, entry: entry.name, extensions: output.extensions })
}

/// Lets structs of uniform buffers fill whole vectors of four words, as drivers pass them.
fn pad_uniforms(module: &mut naga::Module) -> Result<(), String> {
    let uniforms: Vec<_> = module
        .global_variables
        .iter()
        .filter(|(_, variable)| variable.space == naga::AddressSpace::Uniform)
        .map(|(_, variable)| variable.ty)
        .collect();
    for handle in uniforms {
        let mut ty = module.types[handle].clone();
        let naga::TypeInner::Struct { span, .. } = &mut ty.inner else { continue };
        let padded = span.next_multiple_of(16);
        if std::mem::replace(span, padded) != padded {
            if module.types.get(&ty).is_some() {
                return Err("a struct of its own has the members of its uniform struct".into());
            }
            module.types.replace(handle, ty);
        }
    }
    Ok(())
}
