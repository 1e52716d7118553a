//! Convolutions of residual and depthwise networks, and their gradients, on one thread and two.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use rustorch_core::{
    Backend, Buffer, Conv, ConvBackwardData, ConvBackwardWeight, ConvParams, DType, Device, Layout, Op,
    Shape, TensorMeta, View, ViewMut,
};
use rustorch_cpu::CpuBackend;

/// An operand of small numbers.
struct Operand {
    buffer: Buffer,
    dtype: DType,
    layout: Layout,
}

impl Operand {
    fn new(cpu: &CpuBackend, dtype: DType, dims: &[usize]) -> Operand {
        let layout = Layout::contiguous(Shape::new(dims).expect("small"));
        let bytes = dtype.bytes_for(layout.numel()).expect("a dense dtype");
        let all = Layout::contiguous(Shape::new([bytes].as_slice()).expect("small"));
        let mut buffer = cpu.alloc(bytes).expect("memory");
        // SAFETY: as many bytes as were allocated. Bytes of 0x3c are about 0.01 in every float type.
        cpu.copy_in(&vec![0x3c; bytes], &mut unsafe { ViewMut::new(&mut buffer, DType::U8, &all) })
            .expect("sizes agree");
        Operand { buffer, dtype, layout }
    }

    fn meta(&self) -> TensorMeta<'_> {
        TensorMeta { dtype: self.dtype, layout: &self.layout, device: Device::CPU }
    }
}

/// A layer: input, weight, stride, padding, groups.
struct Layer {
    name: &'static str,
    x: [usize; 4],
    w: [usize; 4],
    stride: usize,
    padding: usize,
    groups: usize,
}

const LAYERS: &[Layer] = &[
    Layer { name: "3x3 64 56", x: [1, 64, 56, 56], w: [64, 64, 3, 3], stride: 1, padding: 1, groups: 1 },
    Layer { name: "3x3 512 7", x: [1, 512, 7, 7], w: [512, 512, 3, 3], stride: 1, padding: 1, groups: 1 },
    Layer {
        name: "3x3 128 56 /2",
        x: [1, 128, 56, 56],
        w: [128, 128, 3, 3],
        stride: 2,
        padding: 1,
        groups: 1,
    },
    Layer { name: "1x1 256 56", x: [1, 256, 56, 56], w: [64, 256, 1, 1], stride: 1, padding: 0, groups: 1 },
    Layer { name: "7x7 3 224 /2", x: [1, 3, 224, 224], w: [64, 3, 7, 7], stride: 2, padding: 3, groups: 1 },
    Layer {
        name: "3x3 depthwise 96 112",
        x: [1, 96, 112, 112],
        w: [96, 1, 3, 3],
        stride: 1,
        padding: 1,
        groups: 96,
    },
    Layer {
        name: "3x3 32 groups 128 56",
        x: [1, 128, 56, 56],
        w: [128, 4, 3, 3],
        stride: 1,
        padding: 1,
        groups: 32,
    },
];

fn bench(
    c: &mut Criterion,
    group: &str,
    dtypes: &[DType],
    op: impl Fn(&Layer, ConvParams) -> (Op, [Vec<usize>; 2]),
) {
    let mut group = c.benchmark_group(group);
    group.sample_size(20);
    for threads in [1, 2] {
        let cpu = CpuBackend::new(threads);
        for layer in LAYERS {
            let mut params = ConvParams::new(2);
            params.stride = [layer.stride; 2].as_slice().into();
            params.padding = [(layer.padding, layer.padding); 2].as_slice().into();
            params.groups = layer.groups;
            let (op, args) = op(layer, params);
            for &dtype in dtypes {
                let [a, b] = args.each_ref().map(|dims| Operand::new(&cpu, dtype, dims));
                let metas = [a.meta(), b.meta()];
                let outs = op.infer(&metas).expect("a valid layer");
                let mut out = Operand::new(&cpu, dtype, outs[0].shape.dims());
                group.throughput(Throughput::Elements(op.work(&metas, &outs).flops));
                group.bench_function(BenchmarkId::new(format!("{dtype} {}", layer.name), threads), |bench| {
                    bench.iter(|| {
                        // SAFETY: the buffers were made for these layouts, and written.
                        unsafe {
                            let args = [
                                View::new(&a.buffer, dtype, &a.layout),
                                View::new(&b.buffer, dtype, &b.layout),
                            ];
                            let to = ViewMut::new(&mut out.buffer, dtype, &out.layout);
                            cpu.run(&op, &args, &mut [to]).expect("a valid layer");
                        }
                    });
                });
            }
        }
    }
    group.finish();
}

/// The shape of a layer's output.
fn output(layer: &Layer, params: &ConvParams) -> Vec<usize> {
    let len = |i: usize| params.output_len(i, layer.x[i + 2], layer.w[i + 2]).expect("a valid layer");
    vec![layer.x[0], layer.w[0], len(0), len(1)]
}

fn forward(c: &mut Criterion) {
    bench(c, "conv", &[DType::F32, DType::BF16, DType::F64], |layer, params| {
        (Op::from(Conv { params, activation: None }), [layer.x.to_vec(), layer.w.to_vec()])
    });
}

fn backward(c: &mut Criterion) {
    bench(c, "conv_backward_data", &[DType::F32], |layer, params| {
        let dy = output(layer, &params);
        let size = layer.x[2..].into();
        (Op::from(ConvBackwardData { params, size }), [dy, layer.w.to_vec()])
    });
    bench(c, "conv_backward_weight", &[DType::F32], |layer, params| {
        let dy = output(layer, &params);
        let kernel = layer.w[2..].into();
        (Op::from(ConvBackwardWeight { params, kernel }), [layer.x.to_vec(), dy])
    });
}

criterion_group!(benches, forward, backward);
criterion_main!(benches);
