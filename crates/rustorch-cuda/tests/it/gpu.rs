//! The contract of a driver, with CUDA C by hand, on every NVIDIA GPU of the machine, and on the emulated one (`fake/emulator.c`).
//! That the sources are CUDA C is for NVRTC to say, where it is there.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "these are tests; skipped ones say so")]

use crate::common::fakes::{self, emulated, everywhere, in_child};
use crate::common::gemms;
use rustorch_core::profile::{DeviceProfiler, SpanKind, host_ns};
use rustorch_core::{DType, MatMul, Op, UnaryOp};
use rustorch_core::{Fault, Remarks};
use rustorch_cpu::CpuBackend;
use rustorch_cuda::{Cuda, Kernel, Memory, Nvrtc};
use rustorch_kernels::{BufferBinding, Driver, Engine, KernelSource, Launch};
use rustorch_testkit::{Requirement, conformance, skip};

/// `y[i] = 3·y[i] + i`: does not commute with itself, so it shows order.
const STEP: &str = "
extern \"C\" __global__ void __launch_bounds__(64) run(unsigned int* y) {
    unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = 3u * y[i] + i;
}";

const PARAMETERS: &str = "
struct Parameters { uint4 a; float b; unsigned int pad[3]; int c[4]; };
extern \"C\" __global__ void run(const unsigned int* x, const unsigned int* y, unsigned int* z, Parameters p) {
    unsigned int i = threadIdx.x;
    z[i] = x[i] * p.a.y + y[i] * p.a.w + (unsigned int)(p.b * 4.0f) + (unsigned int)(p.c[2]);
}";

/// Reverses each group through shared memory, and notes where the group stands.
const REVERSE: &str = "
extern \"C\" __global__ void __launch_bounds__(64) run(unsigned int* y) {
    __shared__ unsigned int shared[64];
    unsigned int l = threadIdx.x + 8 * (threadIdx.y + 4 * threadIdx.z);
    unsigned int g = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    shared[l] = 1000 * g + l;
    __syncthreads();
    y[64 * g + l] = shared[63 - l];
}";

const EXACT: &str = "
extern \"C\" __global__ void run(const float* x, float* y) {
    unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
    float a = x[2 * i], b = x[2 * i + 1];
    y[4 * i] = a / b;
    y[4 * i + 1] = sqrtf(fabsf(a));
    y[4 * i + 2] = a * b + a;
    y[4 * i + 3] = fmaf(a, b, a);
}";

const SLOW: &str = "
extern \"C\" __global__ void run(unsigned int* y) {
    unsigned int a = y[threadIdx.x];
    for (unsigned int i = 0; i < 200000u; i++) a = a * 1664525u + (a >> 7) + i;
    y[threadIdx.x] = a;
}";

/// Writes where nothing is.
const WILD: &str = "
extern \"C\" __global__ void run(unsigned int* y) { y[1ull << 46] = 1; }";

fn drivers() -> Vec<Cuda> {
    let found = rustorch_cuda::discover();
    if found.devices.is_empty() {
        skip(Requirement::Cuda, found.missing.join("; "));
    }
    found.devices.iter().map(|candidate| candidate.open_with(None).expect("the device opens")).collect()
}

fn text(source: &str, workgroup: [u32; 3], buffers: usize, parameters: usize) -> KernelSource<'_> {
    KernelSource { label: "test", source, entry: "run", workgroup, buffers, parameters, checked: false }
}

fn bytes(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
}

fn memory(driver: &Cuda, numbers: &[u32]) -> Memory {
    let memory = driver.allocate(numbers.len().div_ceil(4) * 16).unwrap();
    driver.write(&memory, 0, &bytes(numbers)).unwrap();
    memory
}

fn numbers(driver: &Cuda, memory: &Memory, count: usize) -> Vec<u32> {
    let mut bytes = vec![0; count * 4];
    driver.read(memory, 0, &mut bytes).unwrap();
    bytes.as_chunks::<4>().0.iter().map(|word| u32::from_ne_bytes(*word)).collect()
}

fn window(memory: &Memory, start: u64, numbers: u64) -> BufferBinding<'_, Memory> {
    BufferBinding { memory, start, bytes: numbers * 4, writes: true }
}

fn run(
    driver: &Cuda,
    kernel: &Kernel,
    buffers: &[BufferBinding<'_, Memory>],
    parameters: &[u32],
    groups: [u32; 3],
) {
    // SAFETY: the kernel stays inside its windows, or the launch is refused.
    unsafe { driver.launch(&Launch { kernel, buffers, parameters, groups, label: "op", cache: None }) }
        .unwrap();
}

#[test]
fn the_texts_compile() {
    let nvrtc = match Nvrtc::find() {
        Ok(nvrtc) => nvrtc,
        Err(error) => return skip(Requirement::Nvrtc, error),
    };
    for source in [STEP, PARAMETERS, REVERSE, EXACT, SLOW, WILD] {
        for capability in [80, 90] {
            nvrtc.compile("test", source, nvrtc.target(capability).unwrap()).unwrap();
        }
    }
}

#[test]
fn work_is_done_in_order() {
    everywhere("gpu::work_is_done_in_order", || {
        for driver in drivers() {
            println!("{:#?}", driver.hardware());
            // SAFETY: the source is what its description says, or is refused.
            let step = unsafe { driver.compile(&text(STEP, [64, 1, 1], 1, 0)) }.unwrap();
            let start: Vec<u32> = (0..256).map(|i| i * i).collect();
            let y = memory(&driver, &start);
            let other = driver.allocate(1024).unwrap();
            let mut expected = start;
            for round in 0..200 {
                run(&driver, &step, &[window(&y, 0, 256)], &[], [4, 1, 1]);
                for (i, value) in expected.iter_mut().enumerate() {
                    *value = value.wrapping_mul(3).wrapping_add(i as u32);
                }
                if round % 10 == 3 {
                    driver.write(&y, 4 * round, &bytes(&[7, 8, 9])).unwrap();
                    expected[round..round + 3].copy_from_slice(&[7, 8, 9]);
                }
                if round % 10 == 7 {
                    driver.copy(&y, 0, &other, 0, 1024).unwrap();
                    driver.write(&y, 0, &[0xff; 1024]).unwrap();
                    driver.copy(&other, 32, &y, 32, 992).unwrap();
                    expected[..8].fill(u32::MAX);
                }
                // Given back in the order of the work, and given out again.
                drop(memory(&driver, &[round as u32; 64]));
            }
            assert_eq!(numbers(&driver, &y, 256), expected);
        }
    });
}

#[test]
fn large_copies_arrive() {
    everywhere("gpu::large_copies_arrive", || {
        for driver in drivers() {
            let large: Vec<u32> = (0..(21 << 18) + 5).map(|i: u32| i.wrapping_mul(2_654_435_761)).collect();
            let z = memory(&driver, &large);
            assert_eq!(numbers(&driver, &z, large.len()), large);
            // SAFETY: the source is what its description says, or is refused.
            let step = unsafe { driver.compile(&text(STEP, [64, 1, 1], 1, 0)) }.unwrap();
            // A window onto the middle.
            run(&driver, &step, &[window(&z, 4096, 64)], &[], [1; 3]);
            let all = numbers(&driver, &z, large.len());
            assert!((0..64).all(|i| all[1024 + i] == large[1024 + i].wrapping_mul(3).wrapping_add(i as u32)));
            assert_eq!((&all[..1024], &all[1088..]), (&large[..1024], &large[1088..]));
        }
    });
}

#[test]
fn parameters_come_by_value_and_buffers_in_order() {
    everywhere("gpu::parameters_come_by_value_and_buffers_in_order", || {
        for driver in drivers() {
            // SAFETY: the source is what its description says, or is refused.
            let kernel = unsafe { driver.compile(&text(PARAMETERS, [4, 1, 1], 3, 48)) }.unwrap();
            let x = memory(&driver, &[1, 2, 3, 4]);
            let y = memory(&driver, &[0, 0, 0, 0, 10, 20, 30, 40]);
            let z = memory(&driver, &[0; 4]);
            let mut parameters = [5, 100, 6, 1000, 2.5_f32.to_bits(), 0, 0, 0, 9, 9, (-3_i32) as u32, 9];
            let buffers = || [window(&x, 0, 4), window(&y, 16, 4), window(&z, 0, 4)];
            run(&driver, &kernel, &buffers(), &parameters, [1; 3]);
            parameters[1] = 7;
            assert_eq!(numbers(&driver, &z, 4), [10107, 20207, 30307, 40407]);
            run(&driver, &kernel, &buffers(), &parameters, [1; 3]);
            assert_eq!(numbers(&driver, &z, 4), [10014, 20021, 30028, 40035]);
        }
    });
}

#[test]
fn workgroups_have_three_dimensions_barriers_and_memory() {
    everywhere("gpu::workgroups_have_three_dimensions_barriers_and_memory", || {
        for driver in drivers() {
            // SAFETY: the source is what its description says, or is refused.
            let kernel = unsafe { driver.compile(&text(REVERSE, [8, 4, 2], 1, 0)) }.unwrap();
            let y = driver.allocate(64 * 24 * 4).unwrap();
            run(&driver, &kernel, &[window(&y, 0, 64 * 24)], &[], [2, 3, 4]);
            let expected: Vec<u32> = (0..64 * 24).map(|i| 1000 * (i / 64) + 63 - i % 64).collect();
            assert_eq!(numbers(&driver, &y, 64 * 24), expected);
        }
    });
}

#[test]
fn numbers_are_exact() {
    everywhere("gpu::numbers_are_exact", || {
        let mut state = 1_u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let bits = (state >> 32) as u32;
            // From subnormal numbers up.
            f32::from_bits(bits & 0x807f_ffff | ((bits >> 23) % 200) << 23)
        };
        let inputs: Vec<f32> = (0..4096).map(|_| random()).collect();
        for driver in drivers() {
            // SAFETY: the source is what its description says, or is refused.
            let kernel = unsafe { driver.compile(&text(EXACT, [64, 1, 1], 2, 0)) }.unwrap();
            let x = memory(&driver, &inputs.iter().map(|x| x.to_bits()).collect::<Vec<_>>());
            let y = driver.allocate(2048 * 16).unwrap();
            run(&driver, &kernel, &[window(&x, 0, 4096), window(&y, 0, 8192)], &[], [2048 / 64, 1, 1]);
            for (i, got) in numbers(&driver, &y, 8192).chunks(4).enumerate() {
                let (a, b) = (inputs[2 * i], inputs[2 * i + 1]);
                let expected = [a / b, a.abs().sqrt(), a * b + a, a.mul_add(b, a)];
                for (got, expected) in got.iter().map(|&bits| f32::from_bits(bits)).zip(expected) {
                    let same = got.to_bits() == expected.to_bits() || got.is_nan() && expected.is_nan();
                    assert!(same, "{got:e} for {expected:e} of {a:e} and {b:e}");
                }
            }
        }
    });
}

fn memory_runs_out() {
    for driver in drivers() {
        let piece = driver.hardware().memory.unwrap() as usize / 8 / 16 * 16;
        for _ in 0..2 {
            let mut held = Vec::new();
            let fault = (0..9).find_map(|_| driver.allocate(piece).map(|memory| held.push(memory)).err());
            let device = driver.hardware().device;
            assert_eq!(fault, Some(Fault::OutOfMemory { device, requested: piece }), "after {}", held.len());
        }
        let y = memory(&driver, &[1, 2, 3, 4]);
        assert_eq!(numbers(&driver, &y, 4), [1, 2, 3, 4]);
    }
}

#[test]
fn memory_runs_out_and_comes_back() {
    memory_runs_out();
}

#[test]
fn emulated_memory_runs_out_and_comes_back() {
    emulated(
        "gpu::emulated_memory_runs_out_and_comes_back",
        &[("FAKE_MEMORY", "0x1000000")],
        memory_runs_out,
    );
}

fn crash() {
    for driver in drivers() {
        // SAFETY: the source is what its description says, or is refused.
        let wild = unsafe { driver.compile(&text(WILD, [1; 3], 1, 0)) }.unwrap();
        let y = memory(&driver, &[0; 4]);
        run(&driver, &wild, &[window(&y, 0, 4)], &[], [1; 3]);
        for _ in 0..2 {
            let fault = driver.finish().unwrap_err();
            assert!(matches!(fault, Fault::DeviceLost { .. }), "{fault}");
        }
    }
}

#[test]
fn a_kernel_that_crashes_loses_the_device() {
    // A context that is broken is so for the whole process. The child finds what this process finds.
    let kept: Vec<(&str, String)> =
        fakes::LIBRARIES.into_iter().filter_map(|name| Some((name, std::env::var(name).ok()?))).collect();
    let kept: Vec<(&str, &str)> = kept.iter().map(|(name, value)| (*name, value.as_str())).collect();
    in_child("gpu::a_kernel_that_crashes_loses_the_device", &kept, crash);
}

#[test]
fn an_emulated_kernel_that_crashes_loses_the_device() {
    emulated("gpu::an_emulated_kernel_that_crashes_loses_the_device", &[], crash);
}

#[test]
fn commands_are_measured_when_asked() {
    everywhere("gpu::commands_are_measured_when_asked", || {
        for driver in drivers() {
            // SAFETY: the source is what its description says, or is refused.
            let kernel = unsafe { driver.compile(&text(SLOW, [64, 1, 1], 1, 0)) }.unwrap();
            let y = memory(&driver, &[1; 64]);
            driver.start().unwrap();
            let begin = host_ns();
            driver.write(&y, 0, &[7; 128]).unwrap();
            run(&driver, &kernel, &[window(&y, 0, 64)], &[], [1; 3]);
            driver.copy(&y, 0, &memory(&driver, &[0; 64]), 0, 32).unwrap();
            numbers(&driver, &y, 64);
            let spans = driver.take_spans().unwrap();
            let end = host_ns();
            println!("{spans:#?}");
            let seen: Vec<_> = spans.iter().map(|span| (span.kind, span.label.as_ref())).collect();
            let copy = |label| (SpanKind::Copy, label);
            assert_eq!(
                seen,
                [copy("write"), (SpanKind::Compute, "test"), copy("write"), copy("copy"), copy("read")]
            );
            let times = spans.iter().map(|span| span.end_ns - span.start_ns);
            assert!(times.clone().nth(1) > Some(100_000), "the kernel takes its time");
            assert!(times.sum::<u64>() <= end - begin);
            assert!(spans.is_sorted_by_key(|span| span.start_ns));
            driver.stop();
        }
    });
}

/// Every arrangement of operands that goes to cuBLASLt, in each dtype, plain, with a bias and with a function: the CPU's
/// results, and the library has made them.
#[test]
fn cublaslt_equals_the_cpu() {
    let cpu = CpuBackend::new(1);
    for driver in drivers() {
        match driver.blas() {
            Some(Ok(library)) => println!("{}", library.name()),
            Some(Err(why)) => return skip(Requirement::CublasLt, why),
            None => unreachable!("the driver knows of a library"),
        }
        let engine = Engine::new(driver).unwrap();
        let remarks = engine.remarks();
        println!("{remarks:#?}");
        assert_eq!(remarks.len(), 1, "every dtype is by the library");
        engine.driver().start().unwrap();
        let mut cases = Vec::new();
        for dtype in gemms::DTYPES {
            for &(a, b, _) in gemms::ARRANGEMENTS {
                let case = gemms::case(dtype, a, b);
                let n = *case.args[1].layout.dims().last().unwrap();
                let mut with_bias = case.clone();
                with_bias.args.push(gemms::argument(dtype, (&[n], &[1], 1), 3, true));
                with_bias.op = Op::MatMul(MatMul { activation: Some(UnaryOp::Relu), ..MatMul::default() });
                cases.extend([case, with_bias]);
            }
        }
        // Of the same bits in any number of rows, which the library does not promise.
        let op = Op::MatMul(MatMul { batch_invariant: true, ..MatMul::default() });
        cases.push(conformance::Case { op, ..gemms::square(DType::F32) });
        let count = cases.len();
        let report = conformance::check_cases(cases, &engine, &cpu);
        println!("{report}");
        assert!(report.failures.is_empty() && report.agreed == count, "{} failures", report.failures.len());
        let spans = engine.driver().take_spans().unwrap();
        let by_library = spans.iter().filter(|span| span.label.starts_with("cuBLASLt matmul")).count();
        println!("{by_library} calls of the library");
        assert!(by_library >= count - 1);
    }
}
