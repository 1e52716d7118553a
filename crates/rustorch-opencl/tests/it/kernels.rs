//! One kernel of one kind in 24, in each combination of dtypes, builds for OpenCL; with `RUSTORCH_CONFORMANCE=all`, every kernel. They
//! are built only, many in a program, which takes a small part of the time that it takes to run them: PoCL two minutes of one
//! CPU for six thousand.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "these are tests; skipped ones say so")]

#[path = "../../../rustorch-kernels/tests/it/common/paper/mod.rs"]
mod paper;

use paper::bundle::bundle;
use paper::kinds;
use rustorch_kernels::{Driver, Hardware, Kernel, KernelSource};
use rustorch_opencl::OpenCl;
use rustorch_testkit::conformance::Extent;
use rustorch_testkit::{Requirement, skip};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Kernels in a program.
const TOGETHER: usize = 16;

/// Builds kernels as one program.
fn build(driver: &OpenCl, hardware: &Hardware, kernels: &[Kernel]) -> Result<(), String> {
    let program = bundle(kernels, hardware)?;
    let wgsl = kernels[0].wgsl(hardware);
    let text = KernelSource {
        label: "bundle",
        source: &program.source,
        entry: &program.entries[0],
        workgroup: wgsl.workgroup,
        buffers: wgsl.buffers,
        parameters: 4 * wgsl.words,
        checked: false,
    };
    // SAFETY: the source is what its description says, or is refused.
    unsafe { driver.compile(&text) }.map(drop).map_err(|fault| fault.to_string())
}

#[test]
fn every_kind_of_kernel_builds() {
    let found = rustorch_opencl::discover();
    if found.devices.is_empty() {
        return skip(Requirement::OpenCl, found.missing.join("; "));
    }
    for candidate in &found.devices {
        let hardware = candidate.hardware();
        let all = paper::kernels(hardware);
        let kernels = match Extent::from_env(Extent::Sample) {
            Extent::Sample => kinds::largest_of_one_in(24, all.clone(), hardware),
            extent => paper::kernels_of(&extent, hardware),
        };
        let (next, failures, began) = (AtomicUsize::new(0), Mutex::new(Vec::new()), Instant::now());
        let bundles: Vec<&[Kernel]> = kernels.chunks(TOGETHER).collect();
        let work = || {
            let driver = candidate.open_with(None).unwrap();
            while let Some(kernels) = bundles.get(next.fetch_add(1, Ordering::Relaxed)) {
                if build(&driver, hardware, kernels).is_err() {
                    // Which of them it is.
                    let alone = kernels.iter().filter_map(|kernel| {
                        let error = build(&driver, hardware, std::slice::from_ref(kernel)).err()?;
                        Some(format!("{kernel:?}: {error}"))
                    });
                    let mut failures = failures.lock().unwrap();
                    let before = failures.len();
                    failures.extend(alone);
                    if failures.len() == before {
                        failures.push(format!("{:?} do not build together", kernels));
                    }
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
                scope.spawn(work);
            }
        });
        let took = began.elapsed();
        println!("{}\n{}", hardware.name, kinds::table(&[("all", &all), ("built", &kernels)]));
        println!("in {took:.1?}, {:.1?} for a kernel", took / kernels.len().max(1) as u32);
        let failures = failures.into_inner().unwrap();
        assert!(failures.is_empty(), "{} fail, the first: {}", failures.len(), failures[0]);
    }
}
