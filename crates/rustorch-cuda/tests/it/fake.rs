//! The driver's logic over a fake GPU, which is lazy where a real one may be and strict where a real one is not
//! (`fake/cuda.c`).
#![allow(clippy::unwrap_used, reason = "these are tests")]

use crate::common::fakes::with_fake;
use rustorch_core::profile::{DeviceProfiler, SequenceScope, SpanKind, host_ns};
use rustorch_core::{Device, Fault};
use rustorch_cuda::{Cuda, Kernel, Memory};
use rustorch_kernels::{BufferBinding, Driver, KernelCache, KernelSource, Launch};

fn open() -> Cuda {
    let found = rustorch_cuda::discover();
    assert_eq!(found.missing, Vec::<String>::new());
    found.devices[0].open_with(None).unwrap()
}

fn text<'a>(source: &'a str, entry: &'a str, buffers: usize, parameters: usize) -> KernelSource<'a> {
    KernelSource { label: "test", source, entry, workgroup: [64, 1, 1], buffers, parameters, checked: false }
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
) -> Result<(), Fault> {
    // SAFETY: the kernel stays inside its windows, or the launch is refused.
    unsafe {
        driver.launch(&Launch { kernel, buffers, parameters, groups: [1; 3], label: "op", cache: None })
    }
}

#[test]
fn gpus_are_found() {
    with_fake("fake::gpus_are_found", &[("FAKE_COUNT", "2"), ("FAKE_CAPABILITY", "86")], || {
        let found = rustorch_cuda::discover();
        let devices: Vec<Device> = found.devices.iter().map(|found| found.hardware().device).collect();
        assert_eq!(devices, [Device::cuda(0), Device::cuda(1)]);
        let hardware = found.devices[0].hardware();
        assert_eq!(hardware.name, "Fake GPU");
        let (versions, rest) = hardware.driver.split_once(", cuBLASLt libcublasLt.so of ").unwrap();
        assert_eq!(versions, "CUDA 12.4, NVRTC 12.9");
        assert!(rest.ends_with(" bytes, compute capability 8.6"), "{rest}");
        let warps = Some(rustorch_kernels::Subgroups { least: 32, most: 32 });
        assert_eq!((hardware.subgroups, hardware.workgroup, hardware.window), (warps, 1024, Some(16)));
        assert_eq!(hardware.memory, Some(1 << 30));
        let driver = found.devices[1].open_with(None).unwrap();
        assert_eq!(driver.pci_address(), Some("0000:3b:00.0"));
        // SAFETY: the source is what its description says, or is refused.
        let kernel = unsafe { driver.compile(&text("step", "step", 1, 0)) }.unwrap();
        // NVRTC knows 8.0 but not 8.6: the driver translates.
        let compiled = std::fs::read_to_string(std::env::var("FAKE_COMPILED").unwrap()).unwrap();
        assert_eq!(compiled, "--gpu-architecture=compute_80\n");
        let y = memory(&driver, &[7; 64]);
        run(&driver, &kernel, &[window(&y, 0, 64)], &[]).unwrap();
        assert_eq!(numbers(&driver, &y, 2), [21, 22]);
    });
}

fn nothing_found(words: &str) {
    let found = rustorch_cuda::discover();
    assert!(found.devices.is_empty());
    let missing = found.missing.join("\n");
    assert!(missing.contains(words), "{missing}");
}

#[test]
fn a_driver_without_a_gpu() {
    with_fake("fake::a_driver_without_a_gpu", &[("FAKE_INIT", "100")], || nothing_found("finds no GPU"));
}

#[test]
fn a_driver_of_two_versions() {
    with_fake("fake::a_driver_of_two_versions", &[("FAKE_INIT", "803")], || {
        nothing_found("restart the machine")
    });
}

#[test]
fn a_driver_that_does_not_start() {
    with_fake("fake::a_driver_that_does_not_start", &[("FAKE_INIT", "999")], || {
        nothing_found("cuInit says CUDA_ERROR_UNKNOWN (999); is its kernel module loaded");
    });
}

#[test]
fn a_gpu_that_is_too_old() {
    with_fake("fake::a_gpu_that_is_too_old", &[("FAKE_CAPABILITY", "61")], || {
        nothing_found(
            "GPU 0 cannot be used: NVRTC 12.9 compiles for GPUs of compute capability 7.5 and later",
        );
    });
}

/// Launches, copies and writes of every size, of which each works on what the one before has left.
fn in_order() {
    let driver = open();
    // SAFETY: the source is what its description says, or is refused.
    let step = unsafe { driver.compile(&text("step", "step", 1, 0)) }.unwrap();
    let start: Vec<u32> = (0..64).map(|i| i * i).collect();
    let y = memory(&driver, &start);
    let other = driver.allocate(256).unwrap();
    let mut expected = start;
    for round in 0..60 {
        run(&driver, &step, &[window(&y, 0, 64)], &[]).unwrap();
        for (i, value) in expected.iter_mut().enumerate() {
            *value = value.wrapping_mul(3).wrapping_add(i as u32);
        }
        if round % 10 == 3 {
            // The source changes as soon as the call returns.
            let mut source = bytes(&[7, 8, 9]);
            driver.write(&y, 4 * round, &source).unwrap();
            source.fill(0xee);
            expected[round..round + 3].copy_from_slice(&[7, 8, 9]);
        }
        if round % 10 == 7 {
            driver.copy(&y, 0, &other, 0, 256).unwrap();
            driver.write(&y, 0, &[0xff; 256]).unwrap();
            driver.copy(&other, 32, &y, 32, 224).unwrap();
            expected[..8].fill(u32::MAX);
        }
    }
    assert_eq!(numbers(&driver, &y, 64), expected);

    // Memory that is dropped stays until the work before is done, and so does a kernel.
    for round in 0..8 {
        let short = memory(&driver, &[round; 64]);
        run(&driver, &step, &[window(&short, 0, 64)], &[]).unwrap();
        driver.copy(&short, 0, &other, 0, 256).unwrap();
    }
    drop(step);
    assert_eq!(numbers(&driver, &other, 3), [21, 22, 23]);

    // More than the rings hold, and no multiple of a slot.
    let large: Vec<u32> = (0..(21 << 18) + 5).map(|i: u32| i.wrapping_mul(2_654_435_761)).collect();
    let z = memory(&driver, &large);
    assert_eq!(numbers(&driver, &z, large.len()), large);
    let mut part = [0; 12];
    driver.read(&z, (large.len() - 3) * 4, &mut part).unwrap();
    assert_eq!(part.to_vec(), bytes(&large[large.len() - 3..]));
    for round in 0..100_u32 {
        driver.write(&z, 4 * round as usize, &round.to_ne_bytes()).unwrap();
    }
    assert_eq!(numbers(&driver, &z, 100), (0..100).collect::<Vec<_>>());
    driver.read(&z, 0, &mut []).unwrap();
    driver.write(&z, 0, &[]).unwrap();
    driver.finish().unwrap();
    // A driver may go before its memory.
    drop(driver);
}

#[test]
fn work_is_done_in_order() {
    with_fake("fake::work_is_done_in_order", &[], in_order);
}

#[test]
fn work_is_done_in_order_without_pools_and_pinned_memory() {
    let name = "fake::work_is_done_in_order_without_pools_and_pinned_memory";
    with_fake(name, &[("FAKE_POOL", "0"), ("FAKE_PINNED", "0")], in_order);
}

#[test]
fn parameters_come_by_value_and_windows_from_their_start() {
    with_fake("fake::parameters_come_by_value_and_windows_from_their_start", &[], || {
        let driver = open();
        let mix = KernelSource { workgroup: [4, 1, 1], ..text("mix", "mix", 3, 16) };
        // SAFETY: the source is what its description says, or is refused.
        let mix = unsafe { driver.compile(&mix) }.unwrap();
        let x = memory(&driver, &[1, 2, 3, 4]);
        let y = memory(&driver, &[0, 0, 0, 0, 10, 20, 30, 40]);
        let z = memory(&driver, &[0; 4]);
        let mut parameters = [5, 100, 6, 1000];
        run(&driver, &mix, &[window(&x, 0, 4), window(&y, 16, 4), window(&z, 0, 4)], &parameters).unwrap();
        parameters[1] = 0;
        assert_eq!(numbers(&driver, &z, 4), [10100, 20200, 30300, 40400]);
        run(&driver, &mix, &[window(&z, 0, 4), window(&x, 0, 4), window(&z, 0, 4)], &parameters).unwrap();
        assert_eq!(numbers(&driver, &z, 4), [1000, 2000, 3000, 4000]);
    });
}

#[test]
fn threads_share_a_gpu() {
    with_fake("fake::threads_share_a_gpu", &[], || {
        let driver = open();
        // SAFETY: the source is what its description says, or is refused.
        let step = unsafe { driver.compile(&text("step", "step", 1, 0)) }.unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4_u32 {
                let (driver, step) = (&driver, &step);
                scope.spawn(move || {
                    for round in 0..50 {
                        let y = memory(driver, &[1000 * thread + round; 64]);
                        run(driver, step, &[window(&y, 0, 64)], &[]).unwrap();
                        assert_eq!(numbers(driver, &y, 1), [3 * (1000 * thread + round)]);
                    }
                });
            }
        });
    });
}

fn out_of_memory() {
    let driver = open();
    let device = Device::cuda(0);
    let fault = |bytes| Fault::OutOfMemory { device, requested: bytes };
    assert_eq!(driver.allocate((64 << 20) + 16).unwrap_err(), fault((64 << 20) + 16));
    let held: Vec<Memory> = (0..4).map(|_| driver.allocate(16 << 20).unwrap()).collect();
    assert_eq!(driver.allocate(16).unwrap_err(), fault(16));
    // What was just dropped is free when the stream has come to it, which allocating waits for.
    drop(held);
    let all = driver.allocate(64 << 20).unwrap();
    driver.write(&all, 0, &[1; 16]).unwrap();
    assert_eq!(numbers(&driver, &all, 1), [0x0101_0101]);
    assert!(matches!(driver.allocate(0), Err(Fault::Invalid(_))));
    assert!(matches!(driver.allocate(24), Err(Fault::Invalid(_))));
}

#[test]
fn memory_runs_out_and_comes_back() {
    with_fake("fake::memory_runs_out_and_comes_back", &[("FAKE_MEMORY", "0x4000000")], out_of_memory);
}

#[test]
fn memory_runs_out_and_comes_back_without_pools() {
    let name = "fake::memory_runs_out_and_comes_back_without_pools";
    with_fake(name, &[("FAKE_MEMORY", "0x4000000"), ("FAKE_POOL", "0")], out_of_memory);
}

#[test]
fn a_kernel_that_crashes_loses_the_device() {
    with_fake("fake::a_kernel_that_crashes_loses_the_device", &[], || {
        let driver = open();
        // SAFETY: the source is what its description says, or is refused.
        let crash = unsafe { driver.compile(&text("crash", "crash", 1, 0)) }.unwrap();
        let y = memory(&driver, &[0; 64]);
        run(&driver, &crash, &[window(&y, 0, 64)], &[]).unwrap();
        let lost = |fault: Fault| match fault {
            Fault::DeviceLost { device, message } => {
                assert_eq!(device, Device::cuda(0));
                assert!(message.contains("CUDA_ERROR_ILLEGAL_ADDRESS (700)"), "{message}");
            }
            other => panic!("{other}"),
        };
        lost(driver.read(&y, 0, &mut [0; 4]).unwrap_err());
        lost(driver.write(&y, 0, &[0; 4]).unwrap_err());
        lost(driver.allocate(16).unwrap_err());
        lost(run(&driver, &crash, &[window(&y, 0, 64)], &[]).unwrap_err());
        // SAFETY: the source is what its description says, or is refused.
        lost(unsafe { driver.compile(&text("step", "step", 1, 0)) }.unwrap_err());
        lost(driver.finish().unwrap_err());
        // Letting go of everything does no harm.
    });
}

#[test]
fn nothing_works_on_a_lost_device() {
    with_fake("fake::nothing_works_on_a_lost_device", &[], || {
        let driver = open();
        // SAFETY: the source is what its description says, or is refused.
        let step = unsafe { driver.compile(&text("step", "step", 1, 0)) }.unwrap();
        let y = memory(&driver, &[0; 64]);
        driver.lose("pulled out");
        driver.lose("pulled out again");
        let faults = [
            run(&driver, &step, &[window(&y, 0, 64)], &[]).unwrap_err(),
            driver.allocate(16).unwrap_err(),
            // SAFETY: the source is what its description says, or is refused.
            unsafe { driver.compile(&text("step", "step", 1, 0)) }.unwrap_err(),
            driver.write(&y, 0, &[]).unwrap_err(),
            driver.read(&y, 0, &mut [0; 4]).unwrap_err(),
            driver.copy(&y, 0, &y, 8, 4).unwrap_err(),
            driver.finish().unwrap_err(),
            driver.start().unwrap_err(),
            driver.take_spans().unwrap_err(),
        ];
        for fault in faults {
            let device = Device::cuda(0);
            assert_eq!(fault, Fault::DeviceLost { device, message: "pulled out".to_string() });
        }
        // Another one of the same device is not.
        let other = open();
        assert_eq!(numbers(&other, &memory(&other, &[5; 4]), 4), [5; 4]);
    });
}

#[test]
fn wrong_texts_are_refused() {
    with_fake("fake::wrong_texts_are_refused", &[], || {
        let driver = open();
        // SAFETY: the source is what its description says, or is refused.
        let message = |text: &KernelSource<'_>| match unsafe { driver.compile(text) } {
            Err(Fault::Backend { message, .. }) => message,
            other => panic!("{other:?}"),
        };
        let said = message(&text("step with a mistake", "step", 1, 0));
        assert_eq!(said, "kernel `test`: does not compile:\ntest.cu(1): error: a mistake");
        let said = message(&text("step", "walk", 1, 0));
        assert!(said.contains("no entry point `walk`"), "{said}");
        let said = message(&text("step", "step", 2, 0));
        assert!(said.contains("parameters of [8] bytes, but [8, 8] are stated"), "{said}");
        let said = message(&text("mix", "mix", 3, 32));
        assert!(said.contains("parameters of [8, 8, 8, 16] bytes, but [8, 8, 8, 32] are stated"), "{said}");
        let said = message(&text("step", "step", 1, 1 << 20));
        assert!(said.contains("but the device takes 4096 at most"), "{said}");
        let said = message(&KernelSource { workgroup: [64, 64, 1], ..text("step", "step", 1, 0) });
        assert!(said.contains("4096 invocations, but the device runs 1024"), "{said}");
        // SAFETY: the source is what its description says, or is refused.
        unsafe { driver.compile(&text("step", "step", 1, 0)) }.unwrap();
    });
}

#[test]
fn a_driver_older_than_the_compiler() {
    with_fake("fake::a_driver_older_than_the_compiler", &[("FAKE_LOAD", "222")], || {
        // SAFETY: the source is what its description says, or is refused.
        let fault = unsafe { open().compile(&text("step", "step", 1, 0)) }.unwrap_err().to_string();
        assert!(fault.contains("NVRTC 12.9 is newer than the GPU's driver"), "{fault}");
    });
}

#[test]
fn wrong_launches_are_the_callers_mistake() {
    with_fake("fake::wrong_launches_are_the_callers_mistake", &[], || {
        let driver = open();
        // SAFETY: the source is what its description says, or is refused.
        let step = unsafe { driver.compile(&text("step", "step", 1, 0)) }.unwrap();
        let y = memory(&driver, &[0; 64]);
        let all = [window(&y, 0, 64)];
        let right = || Launch {
            kernel: &step,
            buffers: &all,
            parameters: &[],
            groups: [1; 3],
            label: "t",
            cache: None,
        };
        // SAFETY: the kernel stays inside its windows, or the launch is refused.
        let invalid = |launch: &Launch<'_, Cuda>, words: &str| match unsafe { driver.launch(launch) } {
            Err(Fault::Invalid(error)) => assert!(error.to_string().contains(words), "{error}"),
            other => panic!("{words}: {other:?}"),
        };
        // SAFETY: the kernel stays inside its windows, or the launch is refused.
        unsafe { driver.launch(&right()) }.unwrap();
        invalid(&Launch { buffers: &[], ..right() }, "0 buffers given, 1 taken");
        invalid(&Launch { parameters: &[1; 4], ..right() }, "16 bytes given, of 0 taken");
        invalid(&Launch { groups: [1, 0, 1], ..right() }, "must be from 1 to");
        invalid(&Launch { groups: [1, 1, 65_536], ..right() }, "must be from 1 to");
        invalid(&Launch { buffers: &[window(&y, 0, 65)], ..right() }, "outside a memory");
        invalid(&Launch { buffers: &[window(&y, 16, 64)], ..right() }, "outside a memory");
        invalid(&Launch { buffers: &[window(&y, 8, 1)], ..right() }, "no multiple of 16");
        for fault in [
            driver.write(&y, 256, &[0; 4]).unwrap_err(),
            driver.read(&y, usize::MAX - 3, &mut [0; 8]).unwrap_err(),
            driver.copy(&y, 4, &memory(&driver, &[0; 64]), 0, 256).unwrap_err(),
            open().write(&y, 0, &[0; 4]).unwrap_err(),
        ] {
            assert!(matches!(fault, Fault::Invalid(_)), "{fault}");
        }
    });
}

#[test]
fn what_was_compiled_is_found_again() {
    with_fake("fake::what_was_compiled_is_found_again", &[], || {
        let compiled =
            || std::fs::read_to_string(std::env::var("FAKE_COMPILED").unwrap()).unwrap().lines().count();
        let folder = tempfile::tempdir().unwrap();
        let candidate = &rustorch_cuda::discover().devices[0];
        let use_it = |source: &str| {
            let driver = candidate.open_with(Some(KernelCache::open(folder.path()))).unwrap();
            // SAFETY: the source is what its description says, or is refused.
            let kernel = unsafe { driver.compile(&text(source, "step", 1, 0)) }.unwrap();
            let y = memory(&driver, &[7; 64]);
            run(&driver, &kernel, &[window(&y, 0, 64)], &[]).unwrap();
            assert_eq!(numbers(&driver, &y, 2), [21, 22]);
        };
        use_it("step");
        assert_eq!(compiled(), 1);
        use_it("step");
        assert_eq!(compiled(), 1, "it was found");
        use_it("step, another");
        assert_eq!(compiled(), 2);
        // Damaged files are as good as absent.
        for file in std::fs::read_dir(folder.path()).unwrap() {
            std::fs::write(file.unwrap().path(), b"damaged").unwrap();
        }
        use_it("step");
        assert_eq!(compiled(), 3);
        // By default the cache is in RUSTORCH_CACHE_DIR.
        let default = candidate.open().unwrap();
        // SAFETY: the source is what its description says, or is refused.
        unsafe { default.compile(&text("step", "step", 1, 0)) }.unwrap();
        // SAFETY: the source is what its description says, or is refused.
        unsafe { default.compile(&text("step", "step", 1, 0)) }.unwrap();
        assert_eq!(compiled(), 4);
    });
}

#[test]
fn commands_are_measured_when_asked() {
    with_fake("fake::commands_are_measured_when_asked", &[], || {
        let driver = open();
        // SAFETY: the source is what its description says, or is refused.
        let step = unsafe { driver.compile(&text("step", "step", 1, 0)) }.unwrap();
        let y = memory(&driver, &[1; 64]);
        run(&driver, &step, &[window(&y, 0, 64)], &[]).unwrap();
        assert_eq!(driver.take_spans().unwrap(), [], "nothing was asked for");

        let begin = host_ns();
        driver.start().unwrap();
        driver.write(&y, 0, &[7; 128]).unwrap();
        {
            let _dispatch = SequenceScope::enter(7);
            run(&driver, &step, &[window(&y, 0, 64)], &[]).unwrap();
        }
        driver.copy(&y, 0, &y, 64, 32).unwrap();
        driver.read(&y, 0, &mut [0; 256]).unwrap();
        let spans = driver.take_spans().unwrap();
        let seen: Vec<_> = spans.iter().map(|span| (span.kind, span.label.as_ref(), span.sequence)).collect();
        assert_eq!(
            seen,
            [
                (SpanKind::Copy, "write", 0),
                (SpanKind::Compute, "test", 7),
                (SpanKind::Copy, "copy", 0),
                (SpanKind::Copy, "read", 0)
            ]
        );
        // The fake takes a microsecond for each thing in the stream, events among them: a copy through a ring is two.
        let times: Vec<u64> = spans.iter().map(|span| span.end_ns - span.start_ns).collect();
        assert_eq!(times, [3000, 2000, 2000, 3000]);
        for pair in spans.windows(2) {
            assert_eq!(pair[1].start_ns, pair[0].end_ns + 1000);
        }
        // They are counted from an event that was reached after `begin`.
        assert!(spans[0].start_ns > begin);
        assert_eq!(driver.take_spans().unwrap(), [], "they are taken once");

        driver.start().unwrap();
        for _ in 0..3000 {
            run(&driver, &step, &[window(&y, 0, 64)], &[]).unwrap();
        }
        assert_eq!(driver.take_spans().unwrap().len(), 3000);
        run(&driver, &step, &[window(&y, 0, 64)], &[]).unwrap();
        driver.stop();
        run(&driver, &step, &[window(&y, 0, 64)], &[]).unwrap();
        assert_eq!(driver.take_spans().unwrap(), [], "what was not taken is forgotten");
        driver.start().unwrap();
        run(&driver, &step, &[window(&y, 0, 64)], &[]).unwrap();
        assert_eq!(driver.take_spans().unwrap().len(), 1);
    });
}
