//! The contract of a driver, with OpenCL C by hand, on every device of the machine.

use crate::common::{bytes, drivers, kernel, launch, memory, numbers, window};
use rustorch_core::Fault;
use rustorch_kernels::{BufferBinding, Driver, KernelSource, Launch};
use rustorch_opencl::OpenCl;

/// `y[i] = 3·y[i] + i`: does not commute with itself, so it shows order.
const STEP: &str = "
__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void run(__global uint* y) {
    uint i = get_global_id(0);
    y[i] = 3u * y[i] + i;
}
";

#[test]
fn hardware_is_described() {
    for driver in drivers() {
        let hardware = driver.hardware();
        println!("{hardware:#?}");
        assert!(!hardware.name.is_empty() && !hardware.driver.is_empty());
        assert!(hardware.workgroup >= 64 && hardware.workgroup_memory >= 16 << 10);
        assert!(hardware.max_buffer >= 1 << 20 && hardware.max_binding <= hardware.max_buffer);
        assert!(hardware.memory.is_some_and(|bytes| bytes >= hardware.max_buffer));
    }
}

#[test]
fn work_is_done_in_order() {
    for driver in drivers() {
        let step = kernel(&driver, STEP, 64, 1, 0);
        let count = 256;
        let start: Vec<u32> = (0..count).map(|i| i * i).collect();
        let y = memory(&driver, &start);
        let other = driver.allocate(count as usize * 4).unwrap();
        let mut expected = start;
        for round in 0..200 {
            launch(&driver, &step, &[window(&y, count as usize)], &[], count / 64);
            for (i, value) in expected.iter_mut().enumerate() {
                *value = value.wrapping_mul(3).wrapping_add(i as u32);
            }
            if round % 10 == 3 {
                // A small write between launches; its source is gone at once.
                driver.write(&y, 4 * round, &bytes(&[7, 8, 9])).unwrap();
                expected[round..round + 3].copy_from_slice(&[7, 8, 9]);
            }
            if round % 10 == 7 {
                // There, changed, and back: part of the launches works on what came back.
                driver.copy(&y, 0, &other, 0, count as usize * 4).unwrap();
                driver.write(&y, 0, &vec![0xff; count as usize * 4]).unwrap();
                driver.copy(&other, 4 * 8, &y, 4 * 8, (count as usize - 8) * 4).unwrap();
                expected[..8].fill(u32::MAX);
            }
        }
        assert_eq!(numbers(&driver, &y, count as usize), expected);
        driver.finish().unwrap();
    }
}

#[test]
fn large_writes_and_parts_arrive() {
    for driver in drivers() {
        let count = (1 << 20) / 4 + 5;
        let all: Vec<u32> = (0..count as u32).map(|i| i.wrapping_mul(2_654_435_761)).collect();
        let y = memory(&driver, &all);
        assert_eq!(numbers(&driver, &y, count), all);
        let mut part = [0; 12];
        driver.read(&y, (count - 3) * 4, &mut part).unwrap();
        assert_eq!(part.to_vec(), bytes(&all[count - 3..]));
        driver.read(&y, 0, &mut []).unwrap();
        driver.write(&y, 0, &[]).unwrap();
        driver.copy(&y, 0, &memory(&driver, &[0; 4]), 0, 0).unwrap();
    }
}

#[test]
fn many_small_writes_are_staged() {
    for driver in drivers() {
        // More bytes than are staged at a time.
        let y = driver.allocate(128 << 10).unwrap();
        let mut last = Vec::new();
        for round in 0..200_u32 {
            last = vec![round; (128 << 10) / 4];
            driver.write(&y, 0, &bytes(&last)).unwrap();
        }
        assert_eq!(numbers(&driver, &y, last.len()), last);
    }
}

#[test]
fn parameters_come_by_value_and_buffers_in_order() {
    const SOURCE: &str = "
    struct Parameters { uint4 a; float b; uint pad[3]; int c[4]; };
    __kernel void run(__global const uint* x, __global const uint* y, __global uint* z, struct Parameters p) {
        uint i = get_global_id(0);
        z[i] = x[i] * p.a.y + y[i] * p.a.w + (uint)(p.b * 4.0f) + (uint)(p.c[2]);
    }
    ";
    for driver in drivers() {
        let run = kernel(&driver, SOURCE, 4, 3, 48);
        let x = memory(&driver, &[1, 2, 3, 4]);
        let y = memory(&driver, &[10, 20, 30, 40]);
        let z = memory(&driver, &[0; 4]);
        let mut parameters = [5, 100, 6, 1000, 2.5_f32.to_bits(), 0, 0, 0, 9, 9, (-3_i32) as u32, 9];
        let buffers = || [window(&x, 4), window(&y, 4), window(&z, 4)];
        launch(&driver, &run, &buffers(), &parameters, 1);
        // The block may be changed as soon as the call returns.
        parameters[1] = 7;
        assert_eq!(numbers(&driver, &z, 4), [10107, 20207, 30307, 40407]);
        launch(&driver, &run, &buffers(), &parameters, 1);
        assert_eq!(numbers(&driver, &z, 4), [10014, 20021, 30028, 40035]);
    }
}

#[test]
fn workgroups_have_three_dimensions_barriers_and_memory() {
    // Reverses each group through shared memory, and notes where the group stands.
    const SOURCE: &str = "
    __kernel __attribute__((reqd_work_group_size(8, 4, 2))) void run(__global uint* y) {
        __local uint shared[64];
        uint l = get_local_id(0) + 8 * (get_local_id(1) + 4 * get_local_id(2));
        uint g = get_group_id(0) + get_num_groups(0) * (get_group_id(1) + get_num_groups(1) * get_group_id(2));
        shared[l] = 1000 * g + l;
        barrier(CLK_LOCAL_MEM_FENCE);
        y[64 * g + l] = shared[63 - l];
    }
    ";
    for driver in drivers() {
        let text = KernelSource {
            label: "reverse",
            source: SOURCE,
            entry: "run",
            workgroup: [8, 4, 2],
            buffers: 1,
            parameters: 0,
            checked: false,
        };
        // SAFETY: the source is what its description says, or is refused.
        let run = unsafe { driver.compile(&text) }.unwrap();
        let y = driver.allocate(64 * 24 * 4).unwrap();
        let buffers = [window(&y, 64 * 24)];
        // SAFETY: the kernel stays inside its windows, or the launch is refused.
        unsafe {
            driver.launch(&Launch {
                kernel: &run,
                buffers: &buffers,
                parameters: &[],
                groups: [2, 3, 4],
                label: "t",
                cache: None,
            })
        }
        .unwrap();
        let expected: Vec<u32> = (0..64 * 24).map(|i| 1000 * (i / 64) + 63 - i % 64).collect();
        assert_eq!(numbers(&driver, &y, 64 * 24), expected);
    }
}

#[test]
fn threads_share_a_kernel() {
    const SOURCE: &str = "
    struct Parameters { uint value; uint pad[3]; };
    __kernel void run(__global uint* y, struct Parameters p) { y[get_global_id(0)] = p.value; }
    ";
    for driver in drivers() {
        let run = kernel(&driver, SOURCE, 16, 1, 16);
        std::thread::scope(|scope| {
            for thread in 0..4_u32 {
                let (driver, run) = (&driver, &run);
                scope.spawn(move || {
                    let y = memory(driver, &[0; 64]);
                    for round in 0..50 {
                        let value = 1000 * thread + round;
                        launch(driver, run, &[window(&y, 64)], &[value, 0, 0, 0], 4);
                        assert_eq!(numbers(driver, &y, 64), [value; 64]);
                    }
                });
            }
        });
    }
}

#[test]
fn memory_outlives_its_handle_in_the_queue() {
    for driver in drivers() {
        let step = kernel(&driver, STEP, 64, 1, 0);
        let result = memory(&driver, &[0; 64]);
        for round in 0..50 {
            let y = memory(&driver, &[round; 64]);
            launch(&driver, &step, &[window(&y, 64)], &[], 1);
            driver.copy(&y, 0, &result, 0, 64 * 4).unwrap();
        }
        drop(step);
        let expected: Vec<u32> = (0..64).map(|i| 3 * 49 + i).collect();
        assert_eq!(numbers(&driver, &result, 64), expected);
        // A driver may go before its memory.
        drop(driver);
        drop(result);
    }
}

#[test]
fn numbers_are_exact() {
    // Products, sums and `fma` are exact in OpenCL; division and root where the device says so, else within 3 units.
    const SOURCE: &str = "
    #pragma OPENCL FP_CONTRACT OFF
    __kernel void run(__global const float* x, __global float* y) {
        uint i = get_global_id(0);
        float a = x[2 * i], b = x[2 * i + 1];
        y[4 * i] = a / b;
        y[4 * i + 1] = sqrt(fabs(a));
        y[4 * i + 2] = a * b + a;
        y[4 * i + 3] = fma(a, b, a);
    }
    ";
    let mut state = 1_u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let bits = (state >> 32) as u32;
        f32::from_bits(bits & 0x807f_ffff | (100 + (bits >> 23) % 50) << 23)
    };
    let inputs: Vec<f32> = (0..4096).map(|_| random()).collect();
    for driver in drivers() {
        let run = kernel(&driver, SOURCE, 64, 2, 0);
        let x = memory(&driver, &inputs.iter().map(|x| x.to_bits()).collect::<Vec<_>>());
        let y = driver.allocate(2048 * 16).unwrap();
        launch(&driver, &run, &[window(&x, 4096), window(&y, 8192)], &[], 2048 / 64);
        for (i, got) in numbers(&driver, &y, 8192).chunks(4).enumerate() {
            let (a, b) = (inputs[2 * i], inputs[2 * i + 1]);
            let expected = [a / b, a.abs().sqrt(), a * b + a, a.mul_add(b, a)].map(f32::to_bits);
            let name = &driver.hardware().name;
            assert_eq!(got[2..], expected[2..], "{a:e} and {b:e} on {name}");
            for k in 0..2 {
                let apart = got[k].abs_diff(expected[k]);
                assert!(
                    apart <= if name.starts_with("pthread") { 0 } else { 3 },
                    "{a:e} and {b:e} on {name}"
                );
            }
        }
    }
}

#[test]
fn running_out_of_memory_is_told() {
    for driver in drivers() {
        let most = driver.hardware().max_buffer as usize;
        for bytes in [most + 16, 1 << 50] {
            match driver.allocate(bytes) {
                Err(Fault::OutOfMemory { device, requested }) => {
                    assert_eq!((device, requested), (driver.hardware().device, bytes));
                }
                other => panic!("{bytes} bytes: {other:?}"),
            }
        }
        for bytes in [0, 1, 24] {
            assert!(matches!(driver.allocate(bytes), Err(Fault::Invalid(_))));
        }
        // The device is as good as before.
        let y = memory(&driver, &[1, 2, 3, 4]);
        assert_eq!(numbers(&driver, &y, 4), [1, 2, 3, 4]);
    }
}

#[test]
fn memory_runs_out_and_comes_back() {
    for driver in drivers() {
        let hardware = driver.hardware();
        let bytes = hardware.max_buffer as usize / 2 / 16 * 16;
        // Nothing of it is written but its first word, so this takes no memory of the machine where that is the device's.
        let enough = hardware.memory.expect("OpenCL devices say how much they have") as usize / bytes + 1;
        for _ in 0..2 {
            let mut held = Vec::new();
            let fault =
                (0..enough).find_map(|_| driver.allocate(bytes).map(|memory| held.push(memory)).err());
            let device = hardware.device;
            assert_eq!(fault, Some(Fault::OutOfMemory { device, requested: bytes }), "after {}", held.len());
            assert!(!held.is_empty());
        }
    }
}

#[test]
fn the_compilers_words_are_in_the_error() {
    for driver in drivers() {
        let text = |source, entry, buffers, parameters| KernelSource {
            label: "wrong",
            source,
            entry,
            workgroup: [64, 1, 1],
            buffers,
            parameters,
            checked: false,
        };
        // SAFETY: the source is what its description says, or is refused.
        let message = |text: &KernelSource<'_>| match unsafe { driver.compile(text) } {
            Err(Fault::Backend { message, .. }) => message,
            other => panic!("{other:?}"),
        };
        let said = message(&text("__kernel void run() { there_is_no_such_thing(); }", "run", 0, 0));
        println!("{said}");
        assert!(said.contains("`wrong`") && said.contains("there_is_no_such_thing"), "{said}");
        let said = message(&text(STEP, "walk", 1, 0));
        assert!(said.contains("`walk`") && said.contains("CL_INVALID_KERNEL_NAME"), "{said}");
        let said = message(&text(STEP, "run", 2, 0));
        assert!(said.contains("has 1 parameters, but 2 are stated"), "{said}");
        let said = message(&text(STEP, "run", 1, 16));
        assert!(said.contains("has 1 parameters, but 2 are stated"), "{said}");
        let said = message(&text(STEP, "run", 1, 1 << 20));
        assert!(said.contains("bytes, but the device takes"), "{said}");
        let large =
            KernelSource { workgroup: [1 << 16, 1, 1], ..text("__kernel void run() {}", "run", 0, 0) };
        let said = message(&large);
        assert!(said.contains("65536 invocations"), "{said}");
        kernel(&driver, STEP, 64, 1, 0);
    }
}

#[test]
fn wrong_launches_are_the_callers_mistake() {
    // SAFETY: the kernel stays inside its windows, or the launch is refused.
    let invalid =
        |driver: &OpenCl, launch: &Launch<'_, OpenCl>, words: &str| match unsafe { driver.launch(launch) } {
            Err(Fault::Invalid(error)) => assert!(error.to_string().contains(words), "{error}"),
            other => panic!("{words}: {other:?}"),
        };
    for driver in drivers() {
        let run = kernel(&driver, STEP, 64, 1, 0);
        let y = memory(&driver, &[0; 64]);
        let all = [window(&y, 64)];
        let right = || Launch {
            kernel: &run,
            buffers: &all,
            parameters: &[],
            groups: [1; 3],
            label: "t",
            cache: None,
        };
        // SAFETY: the kernel stays inside its windows, or the launch is refused.
        unsafe { driver.launch(&right()) }.unwrap();
        invalid(&driver, &Launch { buffers: &[], ..right() }, "0 buffers given, 1 taken");
        invalid(&driver, &Launch { parameters: &[1; 4], ..right() }, "16 bytes given, of 0 taken");
        invalid(&driver, &Launch { groups: [1, 0, 1], ..right() }, "must be from 1 to");
        invalid(&driver, &Launch { groups: [1, 1, u32::MAX], ..right() }, "must be from 1 to");
        invalid(&driver, &Launch { buffers: &[window(&y, 65)], ..right() }, "outside a memory");
        let later = [BufferBinding { start: 16, ..window(&y, 16) }];
        invalid(&driver, &Launch { buffers: &later, ..right() }, "from byte 16 on");
        for fault in [
            driver.write(&y, 256, &[0; 4]).unwrap_err(),
            driver.read(&y, usize::MAX - 3, &mut [0; 8]).unwrap_err(),
            driver.copy(&y, 4, &memory(&driver, &[0; 64]), 0, 256).unwrap_err(),
        ] {
            assert!(matches!(fault, Fault::Invalid(_)), "{fault}");
        }
        // Memory and kernels of one driver are nothing to another, though the device be the same.
        for other in drivers() {
            assert!(matches!(other.write(&y, 0, &[0; 4]), Err(Fault::Invalid(_))));
            invalid(&other, &right(), "another driver");
        }
    }
}
