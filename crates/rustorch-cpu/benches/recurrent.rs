//! Recurrences on the shapes of one layer of language models, for a prompt of 512 tokens and for one token, on one thread and two.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use rustorch_core::{
    Backend, Buffer, CausalConv1d, DType, Device, GatedDeltaRule, HeadBroadcast, Layout, Op, Philox,
    RwkvWkv7, Shape, SsmScan, TensorMeta, View, ViewMut,
};
use rustorch_cpu::CpuBackend;

/// A tensor of `f32`.
struct Operand {
    buffer: Buffer,
    layout: Layout,
}

impl Operand {
    fn empty(cpu: &CpuBackend, shape: Shape) -> Operand {
        let layout = Layout::contiguous(shape);
        let bytes = DType::F32.bytes_for(layout.numel()).expect("a dense dtype");
        Operand { buffer: cpu.alloc(bytes).expect("memory"), layout }
    }

    fn within(cpu: &CpuBackend, dims: &[usize], least: f32, most: f32) -> Operand {
        let mut operand = Operand::empty(cpu, Shape::new(dims).expect("small"));
        let mut random = Philox::new(1);
        let values: Vec<u8> = (0..operand.layout.numel())
            .flat_map(|_| (least + (most - least) * random.next_f64() as f32).to_ne_bytes())
            .collect();
        // SAFETY: the buffer was made for the layout.
        let mut place = unsafe { ViewMut::new(&mut operand.buffer, DType::F32, &operand.layout) };
        cpu.copy_in(&values, &mut place).expect("sizes agree");
        operand
    }

    fn meta(&self) -> TensorMeta<'_> {
        TensorMeta { dtype: DType::F32, layout: &self.layout, device: Device::CPU }
    }
}

/// A shape, and the ends of the range of its values.
type Values<'a> = (&'a [usize], f32, f32);

fn bench(c: &mut Criterion, name: &str, op: impl Into<Op>, args: &[Values<'_>]) {
    let (op, seq) = (op.into(), args[0].0[1]);
    let mut group = c.benchmark_group(format!("{name}, {seq} tokens"));
    group.sample_size(20);
    for threads in [1, 2] {
        let cpu = CpuBackend::new(threads);
        let args: Vec<Operand> =
            args.iter().map(|&(dims, least, most)| Operand::within(&cpu, dims, least, most)).collect();
        let metas: Vec<TensorMeta<'_>> = args.iter().map(Operand::meta).collect();
        let inferred = op.infer(&metas).expect("shapes that fit");
        group.throughput(Throughput::Elements(op.work(&metas, &inferred).flops));
        let mut outs: Vec<Operand> =
            inferred.into_iter().map(|out| Operand::empty(&cpu, out.shape)).collect();
        group.bench_function(BenchmarkId::from_parameter(threads), |bench| {
            bench.iter(|| {
                let args: Vec<View<'_>> = args
                    .iter()
                    // SAFETY: the buffer was made for the layout and is written.
                    .map(|x| unsafe { View::new(&x.buffer, DType::F32, &x.layout) })
                    .collect();
                let mut outs: Vec<ViewMut<'_>> = outs
                    .iter_mut()
                    // SAFETY: the buffer was made for the layout.
                    .map(|x| unsafe { ViewMut::new(&mut x.buffer, DType::F32, &x.layout) })
                    .collect();
                cpu.run(&op, &args, &mut outs).expect("operands that fit");
            });
        });
    }
    group.finish();
}

fn recurrent(c: &mut Criterion) {
    for t in [512, 1] {
        // Qwen 3.5 0.8B: 16 heads of 128 by 128, behind a convolution of queries, keys and values.
        let conv: &[Values<'_>] =
            &[(&[1, t, 6144], -1.0, 1.0), (&[6144, 4], -1.0, 1.0), (&[1, 3, 6144], -1.0, 1.0)];
        bench(c, "causal_conv1d of Qwen 3.5 0.8B", CausalConv1d { silu: true }, conv);
        let (keys, heads): (Values<'_>, &[usize]) = ((&[1, t, 16, 128], -0.1, 0.1), &[1, t, 16]);
        let [g, beta, state]: [Values<'_>; 3] =
            [(heads, -1.0, -0.01), (heads, 0.0, 1.0), (&[1, 16, 128, 128], -1.0, 1.0)];
        let op = GatedDeltaRule { broadcast: HeadBroadcast::Tiled };
        bench(c, "gated_delta_rule of Qwen 3.5 0.8B", op, &[keys, keys, keys, g, beta, state]);
        // Mamba 130M and Mamba 2 130M.
        let group: Values<'_> = (&[1, t, 1, 16], -1.0, 1.0);
        let [x, dt]: [Values<'_>; 2] = [(&[1, t, 1536, 1], -1.0, 1.0), (&[1, t, 1536], 0.01, 0.1)];
        let [a, state]: [Values<'_>; 2] = [(&[1536, 16], -16.0, -1.0), (&[1, 1536, 1, 16], -1.0, 1.0)];
        bench(c, "ssm_scan of Mamba 130M", SsmScan, &[x, dt, a, group, group, state]);
        let group: Values<'_> = (&[1, t, 1, 128], -1.0, 1.0);
        let [x, dt]: [Values<'_>; 2] = [(&[1, t, 24, 64], -1.0, 1.0), (&[1, t, 24], 0.01, 0.1)];
        let [a, state]: [Values<'_>; 2] = [(&[24], -16.0, -1.0), (&[1, 24, 64, 128], -1.0, 1.0)];
        bench(c, "ssm_scan of Mamba 2 130M", SsmScan, &[x, dt, a, group, group, state]);
        // RWKV 7 0.1B.
        let keys: Values<'_> = (&[1, t, 12, 64], -0.1, 0.1);
        let [w, state]: [Values<'_>; 2] = [(&[1, t, 12, 64], 0.6, 1.0), (&[1, 12, 64, 64], -1.0, 1.0)];
        bench(c, "rwkv_wkv7 of RWKV 7 0.1B", RwkvWkv7, &[keys, w, keys, keys, keys, keys, state]);
    }
}

criterion_group!(benches, recurrent);
criterion_main!(benches);
