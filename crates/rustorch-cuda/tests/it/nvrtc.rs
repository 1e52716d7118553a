//! NVRTC without a GPU: source becomes machine code for GPUs that are not there. Skips where NVRTC is not found.
#![allow(clippy::print_stdout, reason = "a skipped test says so")]

use rustorch_cuda::{Nvrtc, NvrtcError, Target};
use rustorch_testkit::{Requirement, skip};

const TEXT: &str = "
struct Parameters { unsigned int count; unsigned int pad[3]; };
extern \"C\" __global__ void __launch_bounds__(64) run(const float* x, float* y, Parameters p) {
    __shared__ float sum[64];
    unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
    sum[threadIdx.x] = i < p.count ? fmaf(x[i], y[i], 1.0f) / sqrtf(x[i]) : 0.0f;
    __syncthreads();
    if (i < p.count) { y[i] = sum[63 - threadIdx.x] * x[i] + __shfl_xor_sync(0xffffffffu, y[i], 1); }
}";

fn nvrtc() -> Option<Nvrtc> {
    match Nvrtc::find() {
        Ok(nvrtc) => Some(nvrtc),
        Err(NvrtcError::Missing(message)) => {
            skip(Requirement::Nvrtc, message);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn text_becomes_machine_code() {
    let Some(nvrtc) = nvrtc() else { return };
    println!("NVRTC {:?}", nvrtc.version());
    for capability in [80, 90] {
        let target = nvrtc.target(capability).unwrap();
        assert_eq!(target, Target::Machine(capability));
        let cubin = nvrtc.compile("test", TEXT, target).unwrap();
        assert_eq!(&cubin[..4], b"\x7fELF", "a cubin is an ELF file");
        assert!(cubin.windows(4).any(|bytes| bytes == b"run\0"), "it names its entry point");
        assert_eq!(cubin, nvrtc.compile("test", TEXT, target).unwrap(), "compiling is deterministic");
    }
}

#[test]
fn products_and_sums_are_not_fused() {
    let Some(nvrtc) = nvrtc() else { return };
    let ptx = |source: &str| {
        let ptx = nvrtc.compile("test", source, Target::Ptx(80)).unwrap();
        assert_eq!(ptx.last(), Some(&0), "PTX ends with a zero");
        String::from_utf8(ptx).unwrap()
    };
    let apart = ptx("extern \"C\" __global__ void run(float* x) { x[0] = x[1] * x[2] + x[3]; }");
    assert!(
        apart.contains("mul.rn.f32") && apart.contains("add.rn.f32") && !apart.contains("fma"),
        "{apart}"
    );
    let fused = ptx("extern \"C\" __global__ void run(float* x) { x[0] = fmaf(x[1], x[2], x[3]); }");
    assert!(fused.contains("fma.rn.f32"), "{fused}");
    let exact = ptx("extern \"C\" __global__ void run(float* x) { x[0] = x[1] / sqrtf(x[2]); }");
    assert!(
        exact.contains("div.rn.f32") && exact.contains("sqrt.rn.f32") && !exact.contains(".ftz"),
        "{exact}"
    );
}

#[test]
fn the_compilers_words_are_in_the_error() {
    let Some(nvrtc) = nvrtc() else { return };
    let target = nvrtc.target(80).unwrap();
    let wrong = "extern \"C\" __global__ void run() { there_is_no_such_thing(); }";
    match nvrtc.compile("wrong", wrong, target) {
        Err(NvrtcError::KernelSource(log)) => {
            assert!(log.contains("wrong.cu(1)") && log.contains("there_is_no_such_thing"), "{log}");
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(nvrtc.compile("zero", "\0", target), Err(NvrtcError::KernelSource(_))));
    // An architecture that there will never be.
    assert!(matches!(nvrtc.compile("test", TEXT, Target::Machine(1)), Err(NvrtcError::Failed(_))));
    assert!(matches!(nvrtc.target(20), Err(NvrtcError::Missing(_))));
}
