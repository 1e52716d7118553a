//! Kernels that memory or elementary functions bound, on one and two threads.

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use rustorch_core::{
    AdaptiveAvgPool, Attention, AvgPool, AvgPoolBackward, BatchNorm, BinaryOp, Buffer, DType, Device, Dims,
    Distribution, Fill, FusedPointwise, GroupNorm, Interpolate, InterpolateMode, LayerNorm, Layout, MaxPool,
    Op, PhiloxKey, PoolWindow, Random, Reduce, ReduceOp, Scalar, Shape, Softmax, Sort, TensorMeta, UnaryOp,
    View, ViewMut, Where,
};
use rustorch_cpu::CpuBackend;

struct Tensor {
    buffer: Buffer,
    dtype: DType,
    layout: Layout,
}

impl Tensor {
    /// Of random numbers, or booleans for `Bool`.
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
    let bytes = dtype.bytes_for(layout.numel()).expect("a dense dtype");
    Tensor { buffer: Buffer::host(bytes).expect("memory"), dtype, layout }
}

fn measure(c: &mut Criterion, name: &str, op: &Op, inputs: &[(DType, &[usize])]) {
    let mut group = c.benchmark_group(name);
    for threads in [1, 2] {
        let cpu = CpuBackend::new(threads);
        let args: Vec<Tensor> = inputs.iter().map(|&(dtype, dims)| Tensor::new(&cpu, dtype, dims)).collect();
        let metas: Vec<TensorMeta<'_>> = args
            .iter()
            .map(|x| TensorMeta { dtype: x.dtype, layout: &x.layout, device: Device::CPU })
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
    measure(c, "where 1e6", &Op::Where(Where), &[(DType::Bool, N), (f, N), (f, N)]);
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

/// tanh((a·b + a)·½ − b), fused and one after another. The separate operations have their memory ready.
fn fused(c: &mut Criterion) {
    const N: &[usize] = &[10_000_000];
    let [add, sub, mul] = [BinaryOp::Add, BinaryOp::Sub, BinaryOp::Mul].map(Op::Binary);
    let tanh = Op::Unary(UnaryOp::Tanh);
    for dtype in [DType::F32, DType::F16] {
        let fused = || {
            let mut fused = FusedPointwise::builder(2)?;
            let (a, b) = (fused.input(0)?, fused.input(1)?);
            let half = fused.constant(0.5, dtype)?;
            let mut x = fused.step(mul.clone(), &[a, b])?;
            x = fused.step(add.clone(), &[x, a])?;
            x = fused.step(mul.clone(), &[x, half])?;
            x = fused.step(sub.clone(), &[x, b])?;
            x = fused.step(tanh.clone(), &[x])?;
            fused.finish(x)
        };
        let fused: Result<FusedPointwise, rustorch_core::Error> = fused();
        measure(
            c,
            &format!("fused_pointwise 1e7 {dtype} fused"),
            &Op::FusedPointwise(fused.expect("valid")),
            &[(dtype, N), (dtype, N)],
        );
        let mut group = c.benchmark_group(format!("fused_pointwise 1e7 {dtype} separate"));
        for threads in [1, 2] {
            let cpu = CpuBackend::new(threads);
            let [a, b] = [(); 2].map(|()| Tensor::new(&cpu, dtype, N));
            let mut half = empty(dtype, Layout::contiguous(Shape::scalar()));
            let fill = Op::Fill(Fill { shape: Shape::scalar(), dtype, value: Scalar::Float(0.5) });
            // SAFETY: the layout was made for the buffer.
            let place = unsafe { ViewMut::new(&mut half.buffer, dtype, &half.layout) };
            cpu.run(&fill, &[], &mut [place]).expect("a number");
            let [mut x, mut y] = [(); 2].map(|()| Tensor::new(&cpu, dtype, N));
            group.bench_function(BenchmarkId::from_parameter(threads), |bencher| {
                let run = |op: &Op, args: &[View<'_>], out: &mut Tensor| {
                    // SAFETY: the layout was made for the buffer.
                    let place = unsafe { ViewMut::new(&mut out.buffer, out.dtype, &out.layout) };
                    cpu.run(op, args, &mut [place]).expect("a valid operation");
                };
                bencher.iter(|| {
                    run(&mul, &[a.view(), b.view()], &mut x);
                    run(&add, &[x.view(), a.view()], &mut y);
                    run(&mul, &[y.view(), half.view()], &mut x);
                    run(&sub, &[x.view(), b.view()], &mut y);
                    run(&tanh, &[y.view()], &mut x);
                });
            });
        }
        group.finish();
    }
}

fn attention(c: &mut Criterion) {
    let op = |causal| Op::Attention(Attention { causal, ..Attention::new(0.125) });
    let f = DType::F32;
    let full: &[usize] = &[12, 512, 64];
    measure(c, "attention 12×512×64", &op(None), &[(f, full), (f, full), (f, full)]);
    measure(c, "attention 12×512×64 causal", &op(Some(0)), &[(f, full), (f, full), (f, full)]);
    let (q, cache): (&[usize], &[usize]) = (&[32, 1, 64], &[4, 4096, 64]);
    let half = DType::F16;
    measure(c, "attention decode 32/4×4096×64 f16", &op(Some(4095)), &[(f, q), (half, cache), (half, cache)]);
}

fn spatial(c: &mut Criterion) {
    const IMAGES: &[usize] = &[8, 64, 112, 112];
    let f = DType::F32;
    let each = |n: usize| Dims::from_elem(n, 2);
    let window = |kernel, stride, padding| PoolWindow {
        kernel: each(kernel),
        stride: each(stride),
        padding: each(padding),
        ceil_mode: false,
    };
    for (kernel, stride, padding) in [(2, 2, 0), (3, 2, 1), (3, 1, 1)] {
        let name = format!("{kernel}×{kernel} step {stride} 8×64×112²");
        let max = Op::from(MaxPool { window: window(kernel, stride, padding), dilation: each(1) });
        measure(c, &format!("max_pool {name}"), &max, &[(f, IMAGES)]);
        measure(c, &format!("max_pool {name} f16"), &max, &[(DType::F16, IMAGES)]);
        let window = window(kernel, stride, padding);
        let pool = AvgPool { window, count_include_pad: true, divisor: None };
        measure(c, &format!("avg_pool {name}"), &Op::from(pool.clone()), &[(f, IMAGES)]);
        let out = (112 + 2 * padding - kernel) / stride + 1;
        let op = Op::from(AvgPoolBackward { pool, spatial: each(112) });
        measure(c, &format!("avg_pool_backward {name}"), &op, &[(f, &[8, 64, out, out])]);
    }
    let global = Op::AdaptiveAvgPool(AdaptiveAvgPool { size: each(1) });
    measure(c, "adaptive_avg_pool to 1 8×2048×7²", &global, &[(f, &[8, 2048, 7, 7])]);
    let channels: (DType, &[usize]) = (f, &[64]);
    let training = Op::BatchNorm(BatchNorm { training: true, eps: 1e-5 });
    measure(c, "batch_norm training 8×64×112²", &training, &[(f, IMAGES), channels, channels]);
    measure(c, "batch_norm training 1024×512", &training, &[(f, &[1024, 512])]);
    let given = Op::BatchNorm(BatchNorm { training: false, eps: 1e-5 });
    measure(c, "batch_norm 8×64×112²", &given, &[(f, IMAGES), channels, channels, channels, channels]);
    let group = Op::GroupNorm(GroupNorm { groups: 8, eps: 1e-5 });
    measure(c, "group_norm 8 8×64×112²", &group, &[(f, IMAGES), channels, channels]);
    for (name, mode) in [
        ("nearest", InterpolateMode::Nearest),
        ("bilinear", InterpolateMode::Linear),
        ("bicubic", InterpolateMode::Cubic),
    ] {
        let factors = std::iter::repeat_n(None, 2).collect();
        let op = Op::from(Interpolate { mode, size: each(224), factors, align_corners: false });
        measure(c, &format!("{name} 8×16×112² to 224²"), &op, &[(f, &[8, 16, 112, 112])]);
    }
}

criterion_group!(benches, pointwise, fused, attention, spatial);
criterion_main!(benches);
