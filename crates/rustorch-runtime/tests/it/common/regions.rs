//! Functions as graphs, and a fake device that compiles beside a CPU of known cost.

use super::graphs::{SIDE, run};
use super::{CUDA, builder, fake, shape};
use rustorch_core::{BinaryOp, CostModel, DType, Device, Link, MatMul, Op, RegionPrice, UnaryOp};
use rustorch_runtime::{Captured, HybridExecutor, Output, Placement, Program};
use rustorch_testkit::{FakeCompiler, FakeDevice};
use std::sync::Arc;

pub fn matmul() -> Op {
    Op::MatMul(MatMul::default())
}

/// A price of so many microseconds for a call, and so many for each node.
pub fn price(call_us: f64, node_us: f64, compile_us: f64) -> FakeCompiler {
    FakeCompiler::new().price(move |region| {
        let run = (call_us + node_us * region.nodes.len() as f64) * 1e-6;
        Some(RegionPrice { run, compile: compile_us * 1e-6 })
    })
}

/// A program of a function of one square matrix on the CPU.
pub fn program(executor: &HybridExecutor, f: impl FnOnce(&Output) -> Vec<Output>) -> Program {
    Program::new(executor, captured(executor, &[SIDE, SIDE], f), &[]).unwrap()
}

pub fn captured(
    executor: &HybridExecutor,
    dims: &[usize],
    f: impl FnOnce(&Output) -> Vec<Output>,
) -> Captured {
    let spec = (DType::F32, shape(dims), Device::CPU);
    executor.capture(&[spec], |inputs| Ok((f(&inputs[0]), ()))).unwrap().0
}

pub fn add(a: &Output, b: &Output) -> Output {
    run(&Op::Binary(BinaryOp::Add), &[(a, &a.layout), (b, &b.layout)])
}

pub fn unary(op: UnaryOp, x: &Output) -> Output {
    run(&Op::Unary(op), &[(x, &x.layout)])
}

pub fn product(a: &Output, b: &Output) -> Output {
    run(&matmul(), &[(a, &a.layout), (b, &b.layout)])
}

pub fn one_device(compiler: FakeCompiler) -> (Arc<FakeDevice>, HybridExecutor) {
    let cuda = Arc::new(fake(CUDA).with_compiler(compiler));
    let executor = builder(&[&cuda]).cost(Device::CPU, cpu_cost(1000.0)).build().unwrap();
    (cuda, executor)
}

/// The costs of a CPU that takes so long for a call, and next to nothing for the rest: a measurement would be another one each time.
pub fn cpu_cost(launch_us: f64) -> CostModel {
    let cost = rustorch_core::Backend::cost(&fake(CUDA)).unwrap().clone();
    CostModel { launch_us, upload: Link::NONE, download: Link::NONE, ..cost }
}

/// Costs of a machine whose CPU takes 10 µs for a call and next to nothing for the rest, beside a device 10 µs away.
pub fn slow_cpu(compiler: FakeCompiler, placement: Placement) -> (Arc<FakeDevice>, HybridExecutor) {
    let cuda = Arc::new(fake(CUDA).cost(|cost| cost.launch_us = 12.0).with_compiler(compiler));
    let executor = builder(&[&cuda]).cost(Device::CPU, cpu_cost(10.0)).placement(placement).build().unwrap();
    (cuda, executor)
}
