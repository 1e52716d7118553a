//! What the tests of the executor share.
#![allow(clippy::unwrap_used, reason = "a step that fails fails the test")]
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part")]

pub mod graphs;
pub mod regions;

use rustorch_core::{Backend, Device, Element, Layout, Shape};
use rustorch_cpu::CpuBackend;
use rustorch_runtime::{Builder, HybridExecutor, Operand, Output, Placement};
use rustorch_testkit::FakeDevice;
use std::sync::Arc;

pub const CUDA: Device = Device::cuda(0);
pub const OPENCL: Device = Device::opencl(0);

pub fn cpu() -> Arc<dyn Backend> {
    Arc::new(CpuBackend::new(2))
}

pub fn fake(device: Device) -> FakeDevice {
    FakeDevice::new(device, cpu())
}

/// An executor of fake devices and the CPU, which chooses by cost.
pub fn builder(fakes: &[&Arc<FakeDevice>]) -> Builder {
    let builder = HybridExecutor::builder().threads(2).placement(Placement::Auto);
    fakes.iter().fold(builder, |builder, fake| builder.backend(Arc::clone(*fake) as Arc<dyn Backend>))
}

pub fn shape(dims: &[usize]) -> Shape {
    Shape::new(dims).unwrap()
}

pub fn contiguous(dims: &[usize]) -> Layout {
    Layout::contiguous(shape(dims))
}

pub fn upload_to<T: Element>(exec: &HybridExecutor, values: &[T], dims: &[usize], device: Device) -> Output {
    // SAFETY: elements are plain data without padding.
    let bytes = unsafe { std::slice::from_raw_parts(values.as_ptr().cast::<u8>(), size_of_val(values)) };
    exec.upload(bytes, T::DTYPE, &shape(dims), device).unwrap()
}

pub fn upload<T: Element>(exec: &HybridExecutor, values: &[T], dims: &[usize]) -> Output {
    upload_to(exec, values, dims, Device::CPU)
}

pub fn bytes(exec: &HybridExecutor, x: &Operand<'_>) -> Vec<u8> {
    let size = x.dtype.bytes_for(x.layout.numel()).unwrap();
    let mut bytes = vec![0; size];
    exec.download(x, &mut bytes).unwrap();
    bytes
}

pub fn floats(exec: &HybridExecutor, x: &Operand<'_>) -> Vec<f32> {
    bytes(exec, x).chunks_exact(4).map(|b| f32::from_ne_bytes(b.try_into().unwrap())).collect()
}

pub fn ramp(n: usize) -> Vec<f32> {
    (0..n).map(|i| i as f32 * 0.5 - 3.0).collect()
}
