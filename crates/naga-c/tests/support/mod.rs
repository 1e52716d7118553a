//! What several tests need: shaders as text in both dialects, and compilers and devices for that text, where there are any.
#![allow(dead_code, reason = "each test uses a part")]

pub(crate) mod nvrtc;
pub(crate) mod opencl;
pub(crate) mod table;

use naga::valid::{Capabilities, ModuleInfo, Validator};
use naga_c::{Dialect, Options, Output};

/// Parses and validates a shader.
pub(crate) fn module(wgsl: &str) -> (naga::Module, ModuleInfo) {
    let module =
        naga::front::wgsl::parse_str(wgsl).unwrap_or_else(|error| panic!("{}", error.emit_to_string(wgsl)));
    let mut validator = Validator::new(naga::valid::ValidationFlags::all(), Capabilities::all());
    let info = validator.validate(&module).unwrap_or_else(|error| panic!("{}", error.emit_to_string(wgsl)));
    (module, info)
}

/// A shader in a dialect with the usual options.
pub(crate) fn written(wgsl: &str, dialect: Dialect) -> Output {
    let (module, info) = module(wgsl);
    let options = Options { buffer_sizes: true, ..Options::new(dialect) };
    naga_c::write(&module, &info, None, &options).unwrap_or_else(|error| panic!("{error}\n{wgsl}"))
}
