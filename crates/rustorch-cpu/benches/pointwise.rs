//! Kernels that memory or elementary functions bound, on one and two threads.

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use rustorch_core::{
    Attention, Backend, BinaryOp, Buffer, DType, Device, Dims, Distribution, LayerNorm, Layout, Op,
    PhiloxKey, Random, Reduce, ReduceOp, Shape, Softmax, Sort, TensorMeta, UnaryOp, View, ViewMut,
};
use rustorch_cpu::CpuBackend;

struct Tensor {
    buffer: Buffer,
    dtype: DType,
    layout: Layout,
}

impl Tensor {
    /// Of random numbers, or truth values for `Bool`.
    fn new(cpu: &CpuBackend, dtype: DType, dims: &[usize]) -> Tensor {
        let shape = Shape::new(dims).expect("a small shape");
        let distribution = match dtype {
            DType::Bool => Distribution::Bernoulli { p: 0.5 },
            _ => Distribution::Normal { mean: 0.0, std: 1.0 },
        };
        let key = PhiloxKey { seed: 1, offset: 0 };
        let op = Op::Random(Random { distribution, shape: shape.clone(), dtype, key });
        let mut tensor = empty(dtype, Layout::contiguous(shape));
        // SAFETY: the layout was made for the buffer.
        let out = unsafe { ViewMut::new(&mut tensor.buffer, dtype, &tensor.layout) };
        cpu.run(&op, &[], &mut [out]).expect("random numbers");
        tensor
    }

    fn view(&self) -> View<'_> {
        // SAFETY: every element was written when the tensor was made.
        unsafe { View::new(&self.buffer, self.dtype, &self.layout) }
    }
}

fn empty(dtype: DType, layout: Layout) -> Tensor {
    let bytes = dtype.bytes_for(layout.elements()).expect("a dense dtype");
    Tensor { buffer: Buffer::host(bytes).expect("memory"), dtype, layout }
}

fn measure(c: &mut Criterion, name: &str, op: &Op, inputs: &[(DType, &[usize])]) {
    let mut group = c.benchmark_group(name);
    for threads in [1, 2] {
        let cpu = CpuBackend::new(threads);
        let args: Vec<Tensor> = inputs.iter().map(|&(dtype, dims)| Tensor::new(&cpu, dtype, dims)).collect();
        let metas: Vec<TensorMeta<'_>> = args
            .iter()
            .map(|x| TensorMeta { dtype: x.dtype, layout: &x.layout, device: Device::Cpu })
            .collect();
        let views: Vec<View<'_>> = args.iter().map(Tensor::view).collect();
        let mut outs: Vec<Tensor> = op
            .infer(&metas)
            .expect("valid arguments")
            .into_iter()
            .map(|o| empty(o.dtype, Layout::contiguous(o.shape)))
            .collect();
        let mut outs: Vec<ViewMut<'_>> = outs
            .iter_mut()
            // SAFETY: the layouts were made for the buffers.
            .map(|o| unsafe { ViewMut::new(&mut o.buffer, o.dtype, &o.layout) })
            .collect();
        group.bench_function(BenchmarkId::from_parameter(threads), |b| {
            b.iter(|| cpu.run(op, &views, &mut outs).expect("a valid operation"));
        });
    }
    group.finish();
}

fn pointwise(c: &mut Criterion) {
    const N: &[usize] = &[1_000_000];
    const SQUARE: &[usize] = &[4096, 4096];
    let f = DType::F32;
    for op in
        [UnaryOp::Exp, UnaryOp::Tanh, UnaryOp::Gelu, UnaryOp::Log, UnaryOp::Sin, UnaryOp::Silu, UnaryOp::Atan]
    {
        measure(c, &format!("{} 1e6", op.name()), &Op::Unary(op), &[(f, N)]);
    }
    measure(c, "add 1e6", &Op::Binary(BinaryOp::Add), &[(f, N), (f, N)]);
    measure(c, "add 1e7", &Op::Binary(BinaryOp::Add), &[(f, &[10_000_000]), (f, &[10_000_000])]);
    measure(c, "add row 1e6", &Op::Binary(BinaryOp::Add), &[(f, &[1000, 1000]), (f, &[1000])]);
    measure(c, "pow 1e6", &Op::Binary(BinaryOp::Pow), &[(f, N), (f, N)]);
    measure(c, "where 1e6", &Op::Where, &[(DType::Bool, N), (f, N), (f, N)]);
    measure(c, "softmax 4096²", &Op::Softmax(Softmax { axis: 1, log: false }), &[(f, SQUARE)]);
    measure(
        c,
        "layer_norm 4096×1024",
        &Op::LayerNorm(LayerNorm { dims: 1, eps: 1e-5 }),
        &[(f, &[4096, 1024])],
    );
    for (op, axis) in [
        (ReduceOp::Sum, 1),
        (ReduceOp::Sum, 0),
        (ReduceOp::Max, 0),
        (ReduceOp::Var { correction: 1.0 }, 0),
        (ReduceOp::Var { correction: 1.0 }, 1),
    ] {
        let reduce = Op::Reduce(Reduce { op, axes: Dims::from_slice(&[axis]), keepdim: false });
        measure(c, &format!("{} dim {axis} 4096²", op.name()), &reduce, &[(f, SQUARE)]);
    }
    measure(c, "sort 1e6", &Op::Sort(Sort { axis: 0, descending: false }), &[(f, N)]);
    let key = PhiloxKey { seed: 1, offset: 0 };
    let shape = Shape::new([10_000_000].as_slice()).expect("a small shape");
    let distribution = Distribution::Normal { mean: 0.0, std: 1.0 };
    measure(c, "randn 1e7", &Op::Random(Random { distribution, shape, dtype: f, key }), &[]);
}

fn attention(c: &mut Criterion) {
    let op = |causal| {
        Op::Attention(Attention { scale: 0.125, causal, window: None, softcap: None, cache_precision: false })
    };
    let f = DType::F32;
    let full: &[usize] = &[12, 512, 64];
    measure(c, "attention 12×512×64", &op(None), &[(f, full), (f, full), (f, full)]);
    measure(c, "attention 12×512×64 causal", &op(Some(0)), &[(f, full), (f, full), (f, full)]);
    let (q, cache): (&[usize], &[usize]) = (&[32, 1, 64], &[4, 4096, 64]);
    let half = DType::F16;
    measure(c, "attention decode 32/4×4096×64 f16", &op(Some(4095)), &[(f, q), (half, cache), (half, cache)]);
}

criterion_group!(benches, pointwise, attention);
criterion_main!(benches);
