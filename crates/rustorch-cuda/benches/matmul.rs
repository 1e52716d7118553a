//! Matrix multiplication of dense matrices on the first NVIDIA GPU: through the engine by cuBLASLt, through the engine by its own kernels,
//! and by cuBLASLt called directly, with the algorithm that it proposes first. Each figure is of ten matmuls and one wait.
//! Where there is no GPU or no cuBLASLt, that is said, and nothing is measured.
#![allow(clippy::print_stdout, reason = "what is missing is said")]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use cudarc::cublaslt::{result, sys};
use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DevicePtr};
use rustorch_core::{
    Backend, Buffer, DType, Layout, MatMul, Op, Remarks, Shape, View, ViewMut, bf16, f16, run_checked,
};
use rustorch_cuda::Cuda;
use rustorch_kernels::{Driver, Engine};
use std::ffi::c_void;
use std::sync::Arc;

/// Matmuls of each measurement.
const REPEATS: u64 = 10;

/// Irregular numbers between −1 and 1: a GPU that multiplies always the same ones takes less power, and is faster than it can be.
fn numbers(dtype: DType, count: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut bytes = Vec::with_capacity(count * dtype.block_bytes());
    for _ in 0..count {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let x = (state >> 40) as f32 / (1 << 23) as f32 - 1.0;
        match dtype {
            DType::F16 => bytes.extend(f16::from_f32(x).to_ne_bytes()),
            DType::BF16 => bytes.extend(bf16::from_f32(x).to_ne_bytes()),
            _ => bytes.extend(x.to_ne_bytes()),
        }
    }
    bytes
}

/// Two square factors and their product in the engine's memory.
struct Square<'e> {
    engine: &'e Engine<Cuda>,
    dtype: DType,
    layout: Layout,
    buffers: [Buffer; 3],
}

impl<'e> Square<'e> {
    fn new(engine: &'e Engine<Cuda>, dtype: DType, n: usize) -> Square<'e> {
        let bytes = dtype.block_bytes() * n * n;
        let all = Layout::contiguous(Shape::new([bytes].as_slice()).expect("it fits a GPU"));
        let values = numbers(dtype, n * n);
        let buffers = [0; 3].map(|_| {
            let mut buffer = engine.alloc(bytes).expect("memory");
            // SAFETY: as many bytes as were allocated.
            let mut to = unsafe { ViewMut::new(&mut buffer, DType::U8, &all) };
            engine.copy_in(&values, &mut to).expect("sizes agree");
            buffer
        });
        let layout = Layout::contiguous(Shape::new([n, n].as_slice()).expect("it fits a GPU"));
        Square { engine, dtype, layout, buffers }
    }

    fn multiply(&mut self, batch_invariant: bool) {
        let op = Op::MatMul(MatMul { batch_invariant, ..MatMul::default() });
        let [a, b, out] = &mut self.buffers;
        for _ in 0..REPEATS {
            // SAFETY: the buffers were made for this layout, and written.
            let args = [&*a, &*b].map(|buffer| unsafe { View::new(buffer, self.dtype, &self.layout) });
            // SAFETY: as above.
            let to = unsafe { ViewMut::new(out, self.dtype, &self.layout) };
            run_checked(self.engine, &op, &args, &mut [to]).expect("a valid matmul");
        }
        self.engine.synchronize().expect("the device works");
    }
}

/// The library that is called directly, if the system finds one.
fn directly() -> Option<String> {
    // SAFETY: this opens the library, as the engine did, and asks for its version, which it says at any time.
    let version = unsafe { sys::is_culib_present().then(|| sys::cublasLtGetVersion()) }?;
    Some(format!("cuBLASLt {}.{}.{}", version / 10_000, version / 100 % 100, version % 100))
}

/// The same by the library alone, in a stream of its own.
struct Direct {
    stream: Arc<CudaStream>,
    memories: [CudaSlice<u8>; 4],
    handle: sys::cublasLtHandle_t,
    product: sys::cublasLtMatmulDesc_t,
    layout: sys::cublasLtMatrixLayout_t,
    found: sys::cublasLtMatmulHeuristicResult_t,
}

impl Direct {
    fn new(dtype: DType, n: usize) -> Direct {
        const WORKSPACE: usize = 32 << 20;
        let data = match dtype {
            DType::F16 => sys::cudaDataType::CUDA_R_16F,
            DType::BF16 => sys::cudaDataType::CUDA_R_16BF,
            _ => sys::cudaDataType::CUDA_R_32F,
        };
        let stream = CudaContext::new(0).and_then(|context| context.new_stream()).expect("a stream");
        let bytes = dtype.block_bytes() * n * n;
        let values = numbers(dtype, n * n);
        let factor = || stream.clone_htod(&values).expect("memory");
        let zeros = |bytes: usize| stream.alloc_zeros::<u8>(bytes).expect("memory");
        let memories = [factor(), factor(), zeros(bytes), zeros(WORKSPACE)];
        let (compute, scale) = (sys::cublasComputeType_t::CUBLAS_COMPUTE_32F, sys::cudaDataType::CUDA_R_32F);
        let handle = result::create_handle().expect("a handle");
        let product = result::create_matmul_desc(compute, scale).expect("a description");
        let layout = result::create_matrix_layout(data, n as u64, n as u64, n as i64).expect("a description");
        let wishes = result::create_matmul_pref().expect("a description");
        let most = WORKSPACE as u64;
        let attribute = sys::cublasLtMatmulPreferenceAttributes_t::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
        // SAFETY: all descriptions live, and the attribute is a 64-bit number.
        let found = unsafe {
            result::set_matmul_pref_attribute(wishes, attribute, (&raw const most).cast(), size_of::<u64>())
                .expect("an attribute");
            let found =
                result::get_matmul_algo_heuristic(handle, product, layout, layout, layout, layout, wishes)
                    .expect("an algorithm");
            result::destroy_matmul_pref(wishes).expect("it is there");
            found
        };
        Direct { stream, memories, handle, product, layout, found }
    }

    fn multiply(&self) {
        let (one, zero) = (1.0_f32, 0.0_f32);
        let pointer = |i: usize| {
            let (address, _used) = self.memories[i].device_ptr(&self.stream);
            std::ptr::with_exposed_provenance_mut::<c_void>(address as usize)
        };
        let [a, b, out, workspace] = [0, 1, 2, 3].map(pointer);
        for _ in 0..REPEATS {
            // SAFETY: all descriptions live; the memories have the bytes of the layout, the last one more than the algorithm
            // takes; nothing else uses them.
            let done = unsafe {
                result::matmul(
                    self.handle,
                    self.product,
                    (&raw const one).cast(),
                    (&raw const zero).cast(),
                    a,
                    self.layout,
                    b,
                    self.layout,
                    out,
                    self.layout,
                    out,
                    self.layout,
                    &raw const self.found.algo,
                    workspace,
                    self.found.workspaceSize,
                    self.stream.cu_stream().cast(),
                )
            };
            done.expect("a valid matmul");
        }
        self.stream.synchronize().expect("the device works");
    }
}

impl Drop for Direct {
    fn drop(&mut self) {
        // SAFETY: these are this object's alone, and no matmul is on its way.
        let gone = unsafe {
            [
                result::destroy_matrix_layout(self.layout),
                result::destroy_matmul_desc(self.product),
                result::destroy_handle(self.handle),
            ]
        };
        assert!(gone.iter().all(Result::is_ok), "{gone:?}");
    }
}

fn blas(c: &mut Criterion) {
    let found = rustorch_cuda::discover();
    let Some(candidate) = found.devices.first() else {
        return println!("not measured: {}", found.missing.join("; "));
    };
    let engine = Engine::new(candidate.open().expect("the device opens")).expect("the device works");
    let name = match engine.driver().blas() {
        Some(Ok(library)) => library.name().to_owned(),
        Some(Err(why)) => return println!("not measured: {why}"),
        None => return println!("not measured: the driver knows no library"),
    };
    // `cudarc` opens the library by a name of its own choice.
    match directly() {
        Some(direct) if direct == name => {}
        other => {
            let direct = other.unwrap_or("none".to_owned());
            return println!("not measured: the engine has {name}, and {direct} is what the system finds");
        }
    }
    println!("{}: {}", candidate.hardware().name, engine.remarks().join("; "));
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let mut group = c.benchmark_group(format!("matmul {dtype}"));
        for n in [64, 256, 1024, 4096] {
            group.throughput(Throughput::Elements(REPEATS * 2 * (n as u64).pow(3)));
            let mut square = Square::new(&engine, dtype, n);
            let direct = Direct::new(dtype, n);
            group.bench_function(BenchmarkId::new("cuBLASLt directly", n), |b| b.iter(|| direct.multiply()));
            group.bench_function(BenchmarkId::new("engine, cuBLASLt", n), |b| {
                b.iter(|| square.multiply(false))
            });
            group.bench_function(BenchmarkId::new("engine, own kernels", n), |b| {
                b.iter(|| square.multiply(true))
            });
        }
    }
}

criterion_group!(benches, blas);
criterion_main!(benches);
