//! Decompositions of matrices of 512 by 512, and of many small ones, and Fourier transforms, on one thread and two.

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, criterion_group, criterion_main};
use rustorch_core::{
    Backend, Buffer, DType, Device, Fft, FftScale, Layout, Linalg, Op, Philox, Shape, TensorMeta, View,
    ViewMut,
};
use rustorch_cpu::CpuBackend;

/// A tensor.
struct Operand {
    buffer: Buffer,
    dtype: DType,
    layout: Layout,
}

impl Operand {
    fn empty(cpu: &CpuBackend, dtype: DType, shape: Shape) -> Operand {
        let layout = Layout::contiguous(shape);
        let bytes = dtype.bytes_for(layout.numel()).expect("a dense dtype");
        Operand { buffer: cpu.alloc(bytes).expect("memory"), dtype, layout }
    }

    /// Matrices with noise beside a diagonal that makes them positive-definite.
    fn positive(cpu: &CpuBackend, dtype: DType, dims: &[usize]) -> Operand {
        let mut operand = Operand::empty(cpu, dtype, Shape::new(dims).expect("small"));
        let n = dims[dims.len() - 1];
        let mut random = Philox::new(1);
        let values = (0..operand.layout.numel()).flat_map(|i| {
            let (row, column) = (i / n % n, i % n);
            let noise = random.next_f64() as f32 - 0.5;
            let value = noise + if row == column { 2.0 + n as f32 / 4.0 } else { 0.0 };
            match dtype {
                DType::C64 => [value, -value].map(f32::to_ne_bytes).concat(),
                DType::F64 => f64::from(value).to_ne_bytes().to_vec(),
                _ => value.to_ne_bytes().to_vec(),
            }
        });
        let values: Vec<u8> = values.collect();
        // SAFETY: the buffer was made for the layout.
        let mut place = unsafe { ViewMut::new(&mut operand.buffer, dtype, &operand.layout) };
        cpu.copy_in(&values, &mut place).expect("sizes agree");
        operand
    }

    fn meta(&self) -> TensorMeta<'_> {
        TensorMeta { dtype: self.dtype, layout: &self.layout, device: Device::CPU }
    }
}

const OPS: &[(&str, Linalg)] = &[
    ("cholesky", Linalg::Cholesky { upper: false }),
    ("lu", Linalg::Lu),
    ("solve", Linalg::Solve),
    ("inverse", Linalg::Inverse),
    ("qr", Linalg::Qr { complete: false }),
];

/// Decompositions of any matrix, by singular values and eigenvalues.
#[cfg(feature = "linalg")]
const SPECTRAL: &[(&str, Linalg)] = &[
    ("svd", Linalg::Svd { full: false, vectors: true }),
    ("svdvals", Linalg::Svd { full: false, vectors: false }),
    ("eigh", Linalg::Eigh { upper: false, vectors: true }),
    ("eigvalsh", Linalg::Eigh { upper: false, vectors: false }),
    ("eig", Linalg::Eig { vectors: true }),
];

fn bench(c: &mut Criterion, name: &str, dtype: DType, ops: &[(&str, Linalg)], a: &[usize], b: &[usize]) {
    let mut group = c.benchmark_group(name);
    group.sample_size(20);
    for threads in [1, 2] {
        let cpu = CpuBackend::new(threads);
        let (a, b) = (Operand::positive(&cpu, dtype, a), Operand::positive(&cpu, dtype, b));
        for &(name, op) in ops {
            let operands: &[&Operand] = if op == Linalg::Solve { &[&a, &b] } else { &[&a] };
            let op = Op::Linalg(op);
            single(&mut group, BenchmarkId::new(name, threads), &cpu, &op, operands);
        }
    }
    group.finish();
}

/// One operation.
fn single(
    group: &mut BenchmarkGroup<'_, WallTime>,
    id: BenchmarkId,
    cpu: &CpuBackend,
    op: &Op,
    operands: &[&Operand],
) {
    let metas: Vec<TensorMeta<'_>> = operands.iter().map(|x| x.meta()).collect();
    let mut outs: Vec<Operand> = op
        .infer(&metas)
        .expect("operands of the operation")
        .into_iter()
        .map(|out| Operand::empty(cpu, out.dtype, out.shape))
        .collect();
    group.bench_function(id, |bench| {
        bench.iter(|| {
            // SAFETY: the buffers were made for these layouts, and the arguments were written.
            unsafe {
                let args: Vec<View<'_>> =
                    operands.iter().map(|x| View::new(&x.buffer, x.dtype, &x.layout)).collect();
                let mut places: Vec<ViewMut<'_>> =
                    outs.iter_mut().map(|x| ViewMut::new(&mut x.buffer, x.dtype, &x.layout)).collect();
                cpu.run(op, &args, &mut places).expect("regular matrices");
            }
        });
    });
}

fn large(c: &mut Criterion) {
    // A right side of one column, as in the other libraries' figures.
    bench(c, "512", DType::F32, OPS, &[512, 512], &[512, 1]);
    bench(c, "512, 512 columns", DType::F32, &[("solve", Linalg::Solve)], &[512, 512], &[512, 512]);
}

#[cfg(feature = "linalg")]
fn spectral(c: &mut Criterion) {
    bench(c, "512", DType::F32, SPECTRAL, &[512, 512], &[512, 1]);
    bench(c, "512 f64", DType::F64, SPECTRAL, &[512, 512], &[512, 1]);
}

#[cfg(not(feature = "linalg"))]
fn spectral(_: &mut Criterion) {}

#[cfg(feature = "fft")]
fn fourier(c: &mut Criterion) {
    let mut group = c.benchmark_group("fft");
    let cpu = CpuBackend::new(1);
    for power in [10, 12, 14, 16, 18, 20] {
        let n = 1 << power;
        let scale = FftScale::One;
        for (name, dtype, op) in [
            ("complex", DType::C64, Fft::ComplexToComplex { axis: 0, inverse: false, scale }),
            ("real", DType::F32, Fft::RealToComplex { axis: 0, scale }),
            ("to real", DType::C64, Fft::ComplexToReal { axis: 0, n, scale }),
        ] {
            let points = if name == "to real" { n / 2 + 1 } else { n };
            let x = Operand::positive(&cpu, dtype, &[points]);
            single(&mut group, BenchmarkId::new(format!("{name} {n}"), 1), &cpu, &Op::Fft(op), &[&x]);
        }
    }
    group.finish();
}

#[cfg(not(feature = "fft"))]
fn fourier(_: &mut Criterion) {}

fn small(c: &mut Criterion) {
    bench(c, "1000 of 8", DType::F32, OPS, &[1000, 8, 8], &[1000, 8, 1]);
}

criterion_group!(benches, large, spectral, fourier, small);
criterion_main!(benches);
