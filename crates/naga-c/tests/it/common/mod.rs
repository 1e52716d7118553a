//! What several tests need: shaders as source in both dialects, and compilers and devices for that text, where there are any.
#![allow(dead_code, reason = "each test uses a part")]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "only tests use this")]

pub(crate) mod host;
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

/// Something that runs the first kernel of a program over `groups` workgroups. `buffers` hold what is bound at group 0, by
/// binding, and get what the kernel wrote.
pub(crate) trait Runner {
    fn dialect(&self) -> Dialect;

    fn run_output(&self, output: &Output, groups: [u32; 3], buffers: &mut [Vec<u8>]);

    fn run(&self, wgsl: &str, groups: [u32; 3], buffers: &mut [Vec<u8>]) {
        self.run_output(&written(wgsl, self.dialect()), groups, buffers);
    }
}

/// All that there are: an OpenCL device, and this CPU for CUDA source.
pub(crate) fn runners() -> Vec<&'static dyn Runner> {
    let mut runners: Vec<&dyn Runner> = Vec::new();
    if let Some(device) = opencl::device() {
        runners.push(device);
    }
    if let Some(host) = host::host() {
        runners.push(host);
    }
    runners
}
