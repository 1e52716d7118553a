//! Kernels compile for GPUs that are not there: one of one kind in 48, in each combination of dtypes, or all with
//! `RUSTORCH_CONFORMANCE=all`. Skips where NVRTC is not found.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "these are tests; skipped ones say so")]

#[path = "../../../rustorch-kernels/tests/it/common/paper/mod.rs"]
mod paper;

use paper::bundle::bundle;
use paper::kinds;
use rustorch_core::Device;
use rustorch_cuda::{Nvrtc, Target};
use rustorch_kernels::{Hardware, Kernel, KernelCache, Language, translate};
use rustorch_testkit::conformance::Extent;
use rustorch_testkit::{Requirement, skip};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// NVIDIA GPUs of the last years.
fn hardware() -> Hardware {
    Hardware {
        device: Device::cuda(0),
        language: Language::CudaC,
        tensor_cores: true,
        window: Some(16),
        ..paper::strong()
    }
}

/// Kernels in a program.
const TOGETHER: usize = 8;

/// Compiles kernels as one program, unless that has compiled before.
fn compile(
    nvrtc: &Nvrtc,
    hardware: &Hardware,
    kernels: &[Kernel],
    target: Target,
    cache: &KernelCache,
) -> Result<(), String> {
    let program = bundle(kernels, hardware)?;
    let key = format!("{:?} {:?}\n{}", nvrtc.version(), nvrtc.options(target), program.source);
    if cache.load(&key).is_none() {
        let code = nvrtc.compile("bundle", &program.source, target).map_err(|error| error.to_string())?;
        let has = |entry: &str| code.windows(entry.len()).any(|bytes| bytes == entry.as_bytes());
        if let Some(lost) = program.entries.iter().find(|entry| !has(entry)) {
            return Err(format!("there is no {lost} in what was compiled"));
        }
        // That it compiles is all that matters.
        cache.store(&key, b"compiles");
    }
    Ok(())
}

/// Compiles the kernels for a compute capability, on all CPUs.
fn check(nvrtc: &Nvrtc, hardware: &Hardware, kernels: &[Kernel], capability: i32) {
    let (target, began) = (nvrtc.target(capability).unwrap(), Instant::now());
    let cache = KernelCache::open(Path::new(env!("CARGO_TARGET_TMPDIR")).join("cubins"));
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let bundles: Vec<&[Kernel]> = kernels.chunks(TOGETHER).collect();
    let work = || {
        while let Some(kernels) = bundles.get(next.fetch_add(1, Ordering::Relaxed)) {
            let Err(error) = compile(nvrtc, hardware, kernels, target, &cache) else { continue };
            // Which of them it is.
            let alone: Vec<String> = kernels
                .iter()
                .filter_map(|kernel| {
                    let one = std::slice::from_ref(kernel);
                    let error = compile(nvrtc, hardware, one, target, &cache).err()?;
                    Some(format!("{kernel:?}: {error}"))
                })
                .collect();
            let mut failures = failures.lock().unwrap();
            match alone.is_empty() {
                true => failures.push(format!("together, {kernels:?}: {error}")),
                false => failures.extend(alone),
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
    let took = began.elapsed();
    println!(
        "{target}: {} kernels compile in {took:.1?}, {:.1?} for each",
        kernels.len(),
        took / kernels.len().max(1) as u32
    );
}

#[test]
fn kernels_compile() {
    let nvrtc = match Nvrtc::find() {
        Ok(nvrtc) => nvrtc,
        Err(error) => return skip(Requirement::Nvrtc, error),
    };
    let hardware = hardware();
    let all = paper::kernels(&hardware);
    let extent = Extent::from_env(Extent::Sample);
    let (kernels, least) = match &extent {
        Extent::Sample => (kinds::largest_of_one_in(48, all.clone(), &hardware), 35),
        Extent::All => (all.clone(), 4000),
        of => (paper::kernels_of(of, &hardware), 0),
    };
    println!("{}", kinds::table(&[("all", &all), ("compiled", &kernels)]));
    assert!(kernels.len() >= least, "only {} kernels", kernels.len());
    // Each for both capabilities, or by default every other one for the newer.
    let halves = match extent {
        Extent::Sample => {
            let (mut older, mut newer) = (Vec::new(), Vec::new());
            for pair in kernels.chunks(2) {
                older.push(pair[0].clone());
                newer.extend(pair.get(1).cloned());
            }
            [older, newer]
        }
        _ => [kernels.clone(), kernels],
    };
    for (capability, kernels) in [80, 90].into_iter().zip(halves) {
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
        Err(error) => return skip(Requirement::Nvrtc, error),
    };
    let hardware = hardware();
    for kernel in paper::kernels(&hardware).iter().step_by(60 * Extent::share(8)) {
        let wgsl = kernel.wgsl(&hardware);
        let text = translate(&wgsl, hardware.language).unwrap();
        let ptx = nvrtc.compile(&kernel.label(), &text.source, Target::Ptx(80)).unwrap();
        let mut stated = vec![8; wgsl.buffers];
        stated.push(4 * wgsl.words);
        assert_eq!(parameters(&String::from_utf8(ptx).unwrap()), stated, "{kernel:?}");
    }
}
