//! How long a graph takes to be partitioned: at most 5 ms for 1,000 nodes, and 100 ms for 10,000.

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use rustorch_core::{
    Backend, BinaryOp, CostModel, DType, Device, Link, MatMul, Op, OpType, Rate, RateOf, RegionPrice,
    RmsNorm, Shape, UnaryOp,
};
use rustorch_cpu::CpuBackend;
use rustorch_runtime::{Captured, HybridExecutor, Operand, Output, PartitionPlan, Placement, ProgramOptions};
use rustorch_testkit::{FakeCompiler, FakeDevice};
use std::sync::Arc;

/// The CPU, beside a device whose compiler lacks one operation in some: the worst case is one between many small regions.
fn executor(accepts: impl Fn(usize) -> bool + Send + Sync + 'static, call_us: f64) -> HybridExecutor {
    let cpu: Arc<dyn Backend> = Arc::new(CpuBackend::new(1));
    let compiler = FakeCompiler::new()
        .accepts(move |_, node| if accepts(node) { Ok(()) } else { Err("not this one".into()) })
        .price(move |region| {
            let run = (call_us + 0.5 * region.nodes.len() as f64) * 1e-6;
            Some(RegionPrice { run, compile: 1e-4 })
        });
    let device = FakeDevice::new(Device::vulkan(0), Arc::clone(&cpu)).with_compiler(compiler);
    // As many rates as a measurement finds.
    let rates = OpType::ALL.iter().flat_map(|class| {
        let dtypes = [DType::F16, DType::BF16, DType::F32, DType::F64];
        dtypes.map(|dtype| Rate { of: RateOf::Class(*class), dtype, flops: 1e11, bandwidth: 2e10 })
    });
    let cost = CostModel {
        launch_us: 20.0,
        flops: 1e11,
        bandwidth: 2e10,
        rates: rates.collect(),
        upload: Link::NONE,
        download: Link::NONE,
    };
    let builder = HybridExecutor::builder().backend(Arc::new(device)).backend(cpu).cost(Device::CPU, cost);
    builder.placement(Placement::Auto).build().expect("an executor")
}

fn run(op: &Op, args: &[&Output]) -> Output {
    let args: Vec<Operand<'_>> = args.iter().map(|arg| arg.operand()).collect();
    HybridExecutor::current().run(op, &args).expect("an operation of the graph").remove(0)
}

/// Layers of seven operations, with residual connections.
fn graph(executor: &HybridExecutor, nodes: usize) -> Captured {
    let shape = Shape::new([64, 64].as_slice()).expect("a small shape");
    let weights: Vec<Output> = (0..nodes / 7 * 3)
        .map(|_| executor.upload(&vec![0; 4 << 12], DType::F32, &shape, Device::CPU).expect("a weight"))
        .collect();
    let matmul = Op::MatMul(MatMul::default());
    let norm = Op::RmsNorm(RmsNorm { eps: 1e-5 });
    let spec = (DType::F32, shape, Device::CPU);
    let (captured, ()) = executor
        .capture(&[spec], |inputs| {
            let mut x = inputs[0].clone();
            for weights in weights.chunks_exact(3) {
                let normed = run(&norm, &[&x]);
                let gate = run(&Op::Unary(UnaryOp::Silu), &[&run(&matmul, &[&normed, &weights[0]])]);
                let up = run(&matmul, &[&normed, &weights[1]]);
                let inner = run(&Op::Binary(BinaryOp::Mul), &[&gate, &up]);
                let down = run(&matmul, &[&inner, &weights[2]]);
                x = run(&Op::Binary(BinaryOp::Add), &[&x, &down]);
            }
            Ok((vec![x], ()))
        })
        .expect("a capture");
    captured
}

fn partition(c: &mut Criterion) {
    for nodes in [1_000, 10_000] {
        for (name, every, call_us) in [
            ("all accepted", usize::MAX, 5.0),
            ("one in 7 declined", 7, 5.0),
            ("one in 7 declined, none pays", 7, 300.0),
        ] {
            let executor = executor(move |node| node % every != every - 1, call_us);
            let captured = graph(&executor, nodes);
            let clone = || Captured {
                graph: captured.graph.clone(),
                constants: captured.constants.clone(),
                states: captured.states.clone(),
            };
            let plan = |captured: &mut Captured| {
                PartitionPlan::new(&executor, captured, ProgramOptions::default())
                    .expect("a plan")
                    .expect("a compiler")
            };
            let found = plan(&mut clone());
            let name =
                format!("{} nodes, {name}: {} regions", captured.graph.nodes.len(), found.regions.len());
            c.bench_function(&name, |bench| bench.iter_batched_ref(clone, plan, BatchSize::LargeInput));
            c.bench_function(&format!("{name}/verify alone"), |bench| bench.iter(|| captured.graph.verify()));
        }
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20);
    targets = partition
}
criterion_main!(benches);
