//! Matmuls: square ones in several dtypes, and those of a language model, on one thread and two.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use rustorch_core::{Backend, Buffer, DType, Layout, MatMul, Numerics, Op, QuantType, Shape, View, ViewMut};
use rustorch_cpu::CpuBackend;

/// An operand of small ones.
struct Operand {
    buffer: Buffer,
    dtype: DType,
    layout: Layout,
}

impl Operand {
    fn new(cpu: &CpuBackend, dtype: DType, dims: [usize; 2]) -> Operand {
        let layout = Layout::contiguous(Shape::new(dims.as_slice()).expect("small"));
        let bytes = dtype.bytes_for(dims[0] * dims[1]).expect("whole blocks");
        let all = Layout::contiguous(Shape::new([bytes].as_slice()).expect("small"));
        let mut buffer = cpu.alloc(bytes).expect("memory");
        // SAFETY: as many bytes as were allocated. Bytes of 0x3c are about 0.01 in every float type.
        cpu.copy_in(&vec![0x3c; bytes], &mut unsafe { ViewMut::new(&mut buffer, DType::U8, &all) })
            .expect("sizes agree");
        Operand { buffer, dtype, layout }
    }

    fn transposed(mut self) -> Operand {
        self.layout = self.layout.transpose(0, 1).expect("two dimensions");
        self
    }
}

fn run_matmul(cpu: &CpuBackend, numerics: Numerics, a: &Operand, b: &Operand, out: &mut Operand) {
    // SAFETY: the buffers were made for these layouts, and written.
    unsafe {
        let args = [View::new(&a.buffer, a.dtype, &a.layout), View::new(&b.buffer, b.dtype, &b.layout)];
        let to = ViewMut::new(&mut out.buffer, out.dtype, &out.layout);
        let op = Op::MatMul(MatMul { numerics, ..MatMul::default() });
        cpu.run(&op, &args, &mut [to]).expect("a valid matmul");
    }
}

fn squares(c: &mut Criterion) {
    let mut group = c.benchmark_group("square");
    group.sample_size(20);
    for threads in [1, 2] {
        let cpu = CpuBackend::new(threads);
        for (dtype, n) in [
            (DType::F32, 512),
            (DType::F32, 1024),
            (DType::F64, 512),
            (DType::BF16, 1024),
            (DType::F16, 1024),
            (DType::C64, 256),
            (DType::I32, 512),
        ] {
            let a = Operand::new(&cpu, dtype, [n, n]);
            let b = Operand::new(&cpu, dtype, [n, n]);
            let mut out = Operand::new(&cpu, dtype, [n, n]);
            group.throughput(Throughput::Elements(2 * (n as u64).pow(3)));
            group.bench_function(BenchmarkId::new(format!("{dtype} {n}"), threads), |bench| {
                bench.iter(|| run_matmul(&cpu, Numerics::Ggml, &a, &b, &mut out));
            });
        }
    }
    group.finish();
}

fn weights(c: &mut Criterion) {
    let (n, k) = (5632, 2048);
    let mut group = c.benchmark_group("weight");
    group.sample_size(20);
    for threads in [1, 2] {
        let cpu = CpuBackend::new(threads);
        let quants = [
            QuantType::Q4_0,
            QuantType::Q5_0,
            QuantType::Q8_0,
            QuantType::Q4_K,
            QuantType::Q5_K,
            QuantType::Q6_K,
        ];
        let quants = quants
            .map(DType::Quant)
            .into_iter()
            .flat_map(|dtype| [(dtype, Numerics::Ggml, ""), (dtype, Numerics::Fast, " fast")]);
        let dense = [DType::BF16, DType::F32].map(|dtype| (dtype, Numerics::Ggml, ""));
        for (dtype, numerics, name) in quants.chain(dense) {
            let b = Operand::new(&cpu, dtype, [n, k]).transposed();
            for m in [1, 512] {
                let a = Operand::new(&cpu, DType::F32, [m, k]);
                let mut out = Operand::new(&cpu, DType::F32, [m, n]);
                group.throughput(Throughput::Elements((2 * m * n * k) as u64));
                group.bench_function(BenchmarkId::new(format!("{dtype}{name} {m} rows"), threads), |bench| {
                    bench.iter(|| run_matmul(&cpu, numerics, &a, &b, &mut out));
                });
            }
        }
    }
    group.finish();
}

criterion_group!(benches, squares, weights);
criterion_main!(benches);
