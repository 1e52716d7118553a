//! Every kernel compiles for GPUs that are not there. Skips where NVRTC is not found.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "these are tests; skipped ones say so")]

#[allow(dead_code, reason = "NVIDIA's GPUs are not weak")]
#[path = "../../rustorch-kernels/tests/common/mod.rs"]
mod paper;

use rustorch_core::Device;
use rustorch_cuda::{Nvrtc, Target};
use rustorch_kernels::{Hardware, Kernel, KernelCache, Language, translate};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// NVIDIA GPUs of the last years.
fn hardware() -> Hardware {
    Hardware { device: Device::Cuda(0), language: Language::CudaC, window: Some(16), ..paper::strong() }
}

/// Compiles the kernels for a compute capability, on all processors.
fn check(nvrtc: &Nvrtc, hardware: &Hardware, kernels: &[Kernel], capability: i32) {
    let target = nvrtc.target(capability).unwrap();
    // What has compiled before need not do so again.
    let cache = KernelCache::open(Path::new(env!("CARGO_TARGET_TMPDIR")).join("cubins"));
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(kernel) = kernels.get(next.fetch_add(1, Ordering::Relaxed)) {
            let result = translate(&kernel.wgsl(hardware), hardware.language).and_then(|text| {
                let key = format!("{:?} {:?}\n{}", nvrtc.version(), nvrtc.options(target), text.source);
                if cache.load(&key).is_none() {
                    let cubin = nvrtc.compile(&kernel.label(), &text.source, target);
                    cache.store(&key, &cubin.map_err(|error| format!("{error}\n{}", text.source))?);
                }
                Ok(())
            });
            if let Err(message) = result {
                failures.lock().unwrap().push(format!("{kernel:?}: {message}"));
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{} of {} fail, the first: {}", failures.len(), kernels.len(), failures[0]);
    println!("{target}: {} kernels compile", kernels.len());
}

#[test]
fn every_kernel_compiles() {
    let nvrtc = match Nvrtc::find() {
        Ok(nvrtc) => nvrtc,
        Err(error) => return println!("skipped: {error}"),
    };
    let hardware = hardware();
    let kernels = paper::kernels(&hardware);
    assert!(kernels.len() > 100, "only {} kernels", kernels.len());
    for capability in [80, 90] {
        check(&nvrtc, &hardware, &kernels, capability);
    }
}

/// The sizes in bytes of the parameters of the entry point in PTX.
fn parameters(ptx: &str) -> Vec<usize> {
    let list = ptx.split(".entry").nth(1).unwrap().split(['(', ')']).nth(1).unwrap();
    let size = |declaration: &str| match declaration.split_once('[') {
        // .param .align 16 .b8 run_param_2[16]
        Some((_, length)) => length.split(']').next().unwrap().parse().unwrap(),
        // .param .u64 run_param_0
        None => {
            assert!(declaration.contains(".u64"), "{declaration}");
            8
        }
    };
    list.split(',').map(size).collect()
}

#[test]
fn parameters_are_as_the_driver_passes_them() {
    let nvrtc = match Nvrtc::find() {
        Ok(nvrtc) => nvrtc,
        Err(error) => return println!("skipped: {error}"),
    };
    let hardware = hardware();
    // Some of each family.
    for kernel in paper::kernels(&hardware).iter().step_by(20) {
        let wgsl = kernel.wgsl(&hardware);
        let text = translate(&wgsl, hardware.language).unwrap();
        let ptx = nvrtc.compile(&kernel.label(), &text.source, Target::Ptx(80)).unwrap();
        let mut stated = vec![8; wgsl.buffers];
        stated.push(4 * wgsl.words);
        assert_eq!(parameters(&String::from_utf8(ptx).unwrap()), stated, "{kernel:?}");
    }
}
