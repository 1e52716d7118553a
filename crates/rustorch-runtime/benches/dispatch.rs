//! What an operation costs besides its arithmetic.

use criterion::{Criterion, criterion_group, criterion_main};
use rustorch_core::{Backend, BinaryOp, DType, Device, Layout, Op, Shape, TensorMeta};
use rustorch_cpu::CpuBackend;
use rustorch_runtime::{HybridExecutor, Output};
use rustorch_testkit::FakeDevice;
use std::hint::black_box;
use std::sync::Arc;

fn numbers(exec: &HybridExecutor, dims: &[usize]) -> Output {
    let shape = Shape::new(dims).expect("a small shape");
    exec.upload(&vec![0; 4 * shape.numel()], DType::F32, &shape, Device::CPU).expect("an upload")
}

fn dispatch(c: &mut Criterion) {
    let add = Op::Binary(BinaryOp::Add);
    let alone = HybridExecutor::builder().threads(1).build().expect("an executor");
    let cpu: Arc<dyn Backend> = Arc::new(CpuBackend::new(1));
    let hybrid = HybridExecutor::builder()
        .backend(Arc::new(FakeDevice::new(Device::vulkan(0), Arc::clone(&cpu))))
        .backend(Arc::clone(&cpu))
        .build()
        .expect("an executor");

    for (name, exec) in [("CPU alone", &alone), ("beside a GPU", &hybrid)] {
        let (a, b) = (numbers(exec, &[1]), numbers(exec, &[1]));
        c.bench_function(&format!("add of 1 element, {name}"), |bench| {
            bench.iter(|| exec.run(&add, &[black_box(a.operand()), b.operand()]).expect("a sum"));
        });
    }

    // The parts.
    let layout = Layout::contiguous(Shape::new([1].as_slice()).expect("a small shape"));
    let meta = TensorMeta { dtype: DType::F32, layout: &layout, device: Device::CPU };
    c.bench_function("part: infer", |bench| bench.iter(|| add.infer(&[black_box(meta), meta])));
    c.bench_function("part: contiguous layout", |bench| {
        bench.iter(|| Layout::contiguous(black_box(&layout).shape().clone()));
    });
    let (a, b) = (numbers(&alone, &[1]), numbers(&alone, &[1]));
    let out = numbers(&alone, &[1]);
    c.bench_function("part: add into existing memory", |bench| {
        bench.iter(|| alone.run_into(&add, &[black_box(a.operand()), b.operand()], &[out.operand()]));
    });
    c.bench_function("part: clone and drop of a storage", |bench| {
        bench.iter(|| black_box(&a.storage).clone());
    });
    c.bench_function("planned: add of 1 element beside a GPU", |bench| {
        hybrid.set_recording(true);
        bench.iter(|| hybrid.run(&add, &[black_box(a.operand()), b.operand()]).expect("a sum"));
        hybrid.set_recording(false);
    });
}

criterion_group!(benches, dispatch);
criterion_main!(benches);
