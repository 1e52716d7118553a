//! What the tests share: devices to run on, and numbers to bytes and back.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its own part")]

pub mod one_size;

use rustorch_kernels::{BufferBinding, Driver, KernelSource, Launch};
use rustorch_opencl::{Kernel, Memory, OpenCl};
use rustorch_testkit::{Requirement, skip};

/// Every device of the machine, open, with no cache. Says so where there is none.
#[allow(clippy::print_stdout, reason = "a skipped test says so")]
pub fn drivers() -> Vec<OpenCl> {
    let found = rustorch_opencl::discover();
    if found.devices.is_empty() {
        skip(Requirement::OpenCl, found.missing.join("; "));
    }
    found.devices.iter().map(|candidate| candidate.open_with(None).expect("the device opens")).collect()
}

/// A kernel named `run` of source.
pub fn kernel(driver: &OpenCl, source: &str, workgroup: u32, buffers: usize, parameters: usize) -> Kernel {
    let text = KernelSource {
        label: "test",
        source,
        entry: "run",
        workgroup: [workgroup, 1, 1],
        buffers,
        parameters,
        checked: false,
    };
    // SAFETY: the source is what its description says, or is refused.
    unsafe { driver.compile(&text) }.expect("the kernel builds")
}

/// Memory that holds numbers.
pub fn memory(driver: &OpenCl, numbers: &[u32]) -> Memory {
    let memory = driver.allocate(numbers.len().div_ceil(4) * 16).expect("there is memory");
    driver.write(&memory, 0, &bytes(numbers)).expect("it can be written");
    memory
}

/// The first numbers in memory.
pub fn numbers(driver: &OpenCl, memory: &Memory, count: usize) -> Vec<u32> {
    let mut bytes = vec![0; count * 4];
    driver.read(memory, 0, &mut bytes).expect("it can be read");
    let (words, _) = bytes.as_chunks::<4>();
    words.iter().map(|word| u32::from_ne_bytes(*word)).collect()
}

pub fn bytes(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
}

/// All of a memory of so many numbers.
pub fn window(memory: &Memory, numbers: usize) -> BufferBinding<'_, Memory> {
    BufferBinding { memory, start: 0, bytes: numbers as u64 * 4, writes: true }
}

/// Launches along x.
pub fn launch(
    driver: &OpenCl,
    kernel: &Kernel,
    buffers: &[BufferBinding<'_, Memory>],
    parameters: &[u32],
    groups: u32,
) {
    // SAFETY: the kernel stays inside its windows, or the launch is refused.
    unsafe {
        driver.launch(&Launch {
            kernel,
            buffers,
            parameters,
            groups: [groups, 1, 1],
            label: "test",
            cache: None,
        })
    }
    .expect("the kernel runs");
}
