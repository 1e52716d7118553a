//! What the tests share: the adapters to test on, and kernels.

use rustorch_core::Fault;
use rustorch_kernels::{BufferBinding, Driver, KernelSource, Launch};
use rustorch_testkit::{Requirement, skip};
use rustorch_wgpu::{Kernel, Memory, WgpuDriver};

/// Runs a test on every adapter of the machine; says so where there is none.
pub(crate) fn on_each(test: impl Fn(&WgpuDriver)) {
    match rustorch_wgpu::adapters() {
        Ok(adapters) => {
            for adapter in adapters {
                eprintln!("on {} ({})", adapter.device(), adapter.name());
                test(&adapter.open_with_cache(None).unwrap());
            }
        }
        Err(none) => skip(Requirement::Vulkan, none),
    }
}

/// Compiles WGSL with the entry point `main` of 64 invocations.
pub(crate) fn compile(
    driver: &WgpuDriver,
    label: &str,
    source: &str,
    buffers: usize,
    parameters: usize,
) -> Kernel {
    try_compile(driver, label, source, buffers, parameters).unwrap()
}

/// As [`compile`], where it may fail.
pub(crate) fn try_compile(
    driver: &WgpuDriver,
    label: &str,
    source: &str,
    buffers: usize,
    parameters: usize,
) -> Result<Kernel, Fault> {
    // SAFETY: the source is what its description says, or is refused.
    unsafe {
        driver.compile(&KernelSource {
            label,
            source,
            entry: "main",
            workgroup: [64, 1, 1],
            buffers,
            parameters,
            checked: false,
        })
    }
}

/// `values[i] = values[i] * factor + term` for `i < count`, by `count, factor, term` in its parameters. Not commutative:
/// the result tells the order of launches.
pub(crate) const AFFINE: &str = "
struct P { count: u32, factor: u32, term: u32, unused: u32 }
@group(0) @binding(0) var<storage, read_write> values: array<u32>;
@group(0) @binding(1) var<uniform> p: P;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) at: vec3<u32>) {
    if at.x < p.count { values[at.x] = values[at.x] * p.factor + p.term; }
}";

/// `to[i] = from[i] + term` for `i < count`.
pub(crate) const ADD: &str = "
struct P { count: u32, term: u32, unused: vec2<u32> }
@group(0) @binding(0) var<storage, read> from_: array<u32>;
@group(0) @binding(1) var<storage, read_write> to: array<u32>;
@group(0) @binding(2) var<uniform> p: P;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) at: vec3<u32>) {
    if at.x < p.count { to[at.x] = from_[at.x] + p.term; }
}";

/// All of a memory.
pub(crate) fn whole(memory: &Memory, bytes: u64, writes: bool) -> BufferBinding<'_, Memory> {
    BufferBinding { memory, start: 0, bytes, writes }
}

/// Memory with these contents.
pub(crate) fn upload(driver: &WgpuDriver, values: &[u32]) -> Memory {
    let memory = driver.allocate(4 * values.len().next_multiple_of(4)).unwrap();
    driver.write(&memory, 0, &bytes(values)).unwrap();
    memory
}

/// The first values of a memory.
pub(crate) fn download(driver: &WgpuDriver, memory: &Memory, count: usize) -> Vec<u32> {
    let mut bytes = vec![0; 4 * count];
    driver.read(memory, 0, &mut bytes).unwrap();
    bytes.chunks_exact(4).map(|word| u32::from_ne_bytes(word.try_into().unwrap())).collect()
}

pub(crate) fn bytes(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_ne_bytes()).collect()
}

/// Launches with workgroups of 64 along one dimension.
pub(crate) fn launch(
    driver: &WgpuDriver,
    kernel: &Kernel,
    buffers: &[BufferBinding<'_, Memory>],
    parameters: &[u32],
    invocations: u32,
) -> Result<(), Fault> {
    let groups = [invocations.div_ceil(64), 1, 1];
    // SAFETY: the kernel stays inside its windows, or the launch is refused.
    unsafe { driver.launch(&Launch { kernel, buffers, parameters, groups, label: "test", cache: None }) }
}

/// Launches [`AFFINE`] on all of `count` values.
pub(crate) fn affine(
    driver: &WgpuDriver,
    kernel: &Kernel,
    memory: &Memory,
    count: u32,
    factor: u32,
    term: u32,
) {
    let buffers = [whole(memory, 4 * u64::from(count), true)];
    launch(driver, kernel, &buffers, &[count, factor, term, 0], count).unwrap();
}
