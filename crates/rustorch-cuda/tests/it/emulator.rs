//! The emulator of a GPU, by which this crate's and others' tests run CUDA C on the CPU: `fake/kernel.h`, `fake/emulator.c`.
#![allow(clippy::unwrap_used, reason = "these are tests")]

use crate::common::fakes::{emulated, emulated_until};
use rustorch_core::Fault;
use rustorch_cuda::{Cuda, Memory};
use rustorch_kernels::{BufferBinding, Driver, KernelSource, Launch};

fn open() -> Cuda {
    rustorch_cuda::discover().devices[0].open_with(None).unwrap()
}

/// Runs kernels one after the other on memory that begins with some numbers, and gives what is in it then.
fn run(
    driver: &Cuda,
    sources: &[&str],
    workgroup: [u32; 3],
    groups: u32,
    numbers: &[u32],
) -> Result<Vec<u32>, Fault> {
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_ne_bytes()).collect();
    let memory: Memory = driver.allocate(bytes.len().next_multiple_of(16))?;
    driver.write(&memory, 0, &bytes)?;
    for source in sources {
        let text = KernelSource {
            label: "test",
            source,
            entry: "run",
            workgroup,
            buffers: 1,
            parameters: 0,
            checked: false,
        };
        // SAFETY: the source is what its description says, or is refused.
        let kernel = unsafe { driver.compile(&text) }?;
        let window = BufferBinding { memory: &memory, start: 0, bytes: bytes.len() as u64, writes: true };
        let (buffers, parameters) = (&[window][..], &[][..]);
        // SAFETY: the kernel stays inside its windows, or the launch is refused.
        unsafe {
            driver.launch(&Launch {
                kernel: &kernel,
                buffers,
                parameters,
                groups: [groups, 1, 1],
                label: "op",
                cache: None,
            })
        }?;
    }
    let mut bytes = vec![0; bytes.len()];
    driver.read(&memory, 0, &mut bytes)?;
    Ok(bytes.as_chunks::<4>().0.iter().map(|word| u32::from_ne_bytes(*word)).collect())
}

/// The body of a kernel of so many invocations, each of which is `i`, of the memory `y`.
fn kernel(invocations: u32, body: &str) -> String {
    format!(
        "extern \"C\" __global__ void __launch_bounds__({invocations})
run(unsigned int* y) {{
    unsigned int i = threadIdx.x, lane = i & 31u, lanes = i < 64u ? 0xffffffffu : 0x3fu;
    {body}
}}"
    )
}

#[test]
fn warps_exchange() {
    // Two whole warps, and one of six.
    emulated("emulator::warps_exchange", &[], || {
        let driver = open();
        let after = |expression: &str| {
            let source = kernel(70, &format!("y[i] = (unsigned int)({expression});"));
            run(&driver, &[&source], [70, 1, 1], 1, &[0; 70]).unwrap()
        };
        let each = |f: &dyn Fn(u32, u32, u32) -> u32| -> Vec<u32> {
            (0..70).map(|i| f(i, i % 32, if i < 64 { 32 } else { 6 })).collect()
        };
        assert_eq!(after("__shfl_sync(lanes, i, 5)"), each(&|i, lane, _| i - lane + 5));
        assert_eq!(
            after("__shfl_up_sync(lanes, i, 3u)"),
            each(&|i, lane, _| if lane < 3 { i } else { i - 3 })
        );
        let down = after("__shfl_down_sync(lanes, (long long)i << 33, 2u) >> 33");
        // What lanes that are not there give is nothing to rely on.
        let there = |i: usize| i % 32 + 2 < if i < 64 { 32 } else { 6 };
        assert!((0..70).all(|i| !there(i) || down[i] == i as u32 + 2), "{down:?}");
        assert_eq!((down[30], down[31]), (30, 31));
        assert_eq!(after("__shfl_xor_sync(lanes, 0.5f * i, 1) * 2.0f"), each(&|i, _, _| i ^ 1));
        let odd = |count: u32| 0xaaaa_aaaa & ((1_u64 << count) - 1) as u32;
        assert_eq!(after("__ballot_sync(lanes, i & 1)"), each(&|_, _, count| odd(count)));
        assert_eq!(after("__any_sync(lanes, i == 3) + 2 * __all_sync(lanes, i < 66)"), {
            each(&|i, _, _| u32::from(i < 32) + 2 * u32::from(i < 64))
        });
        assert_eq!(after("__reduce_add_sync(lanes, i)"), {
            each(&|i, lane, count| (i - lane) * count + count * (count - 1) / 2)
        });
        assert_eq!(after("__reduce_min_sync(lanes, -(int)i)"), {
            each(&|i, lane, count| 0_u32.wrapping_sub(i - lane + count - 1))
        });
        assert_eq!(after("__reduce_max_sync(lanes, 100u - i)"), each(&|i, lane, _| 100 - (i - lane)));
        // One after the other, and under a condition that a warp has in common.
        let sum = "unsigned int a = i;
    if (i < 64u) for (unsigned int d = 16u; d > 0u; d >>= 1) a += __shfl_xor_sync(lanes, a, d);
    y[i] = a;";
        let sums = run(&driver, &[&kernel(70, sum)], [70, 1, 1], 1, &[0; 70]).unwrap();
        assert_eq!(sums, each(&|i, lane, _| if i < 64 { (i - lane) * 32 + 496 } else { i }));
    });
}

#[test]
fn workgroups_share_memory_that_is_theirs() {
    emulated("emulator::workgroups_share_memory_that_is_theirs", &[], || {
        // Two barriers in a loop; what the group before has left is gone.
        let source = kernel(
            70,
            "__shared__ unsigned int shared[70];
    unsigned int before = shared[69u - i], sum = 0u;
    __syncthreads();
    for (unsigned int k = 1u; k < 4u; k++) {
        shared[i] = k * i;
        __syncthreads();
        sum += shared[(i + k) % 70u];
        __syncthreads();
    }
    y[2u * (70u * blockIdx.x + i)] = sum;
    y[2u * (70u * blockIdx.x + i) + 1u] = before;",
        );
        let got = run(&open(), &[&source], [70, 1, 1], 3, &[0; 420]).unwrap();
        for (n, pair) in got.chunks(2).enumerate() {
            let i = n as u32 % 70;
            let sum: u32 = (1..4).map(|k| k * ((i + k) % 70)).sum();
            assert_eq!(pair, [sum, 0xa5a5_a5a5], "{n}");
        }
    });
}

#[test]
fn invocations_may_share_what_they_do_not_race_for() {
    emulated("emulator::invocations_may_share_what_they_do_not_race_for", &[], || {
        // Read by all, then written by one after a barrier; added to by all at once; words side by side.
        let body = "__shared__ unsigned int sum;
    if (i == 0u) sum = 0u;
    unsigned int first = y[0];
    __syncthreads();
    atomicAdd(&sum, i);
    atomicAdd(&y[1], blockIdx.x);
    __syncthreads();
    if (i == 69u) y[2u + blockIdx.x] = sum + first - y[0];";
        let got = run(&open(), &[&kernel(70, body)], [70, 1, 1], 3, &[5, 0, 0, 0, 0]).unwrap();
        assert_eq!(got, [5, 70 * 3, 2415, 2415, 2415]);
    });
}

#[test]
fn a_barrier_that_is_missing_ends_the_process() {
    let words = "reads byte 36 of the workgroup's memory, which invocation 9 of this one has written";
    emulated_until("emulator::a_barrier_that_is_missing_ends_the_process", words, || {
        broken(
            "__shared__ unsigned int shared[70];\n    shared[i] = i;\n    if (i == 20u) y[i] = shared[9];",
        );
    });
}

#[test]
fn memory_that_is_overwritten_too_early_ends_the_process() {
    let words = "writes byte 0 of the workgroup's memory, which an invocation of this one has read";
    emulated_until("emulator::memory_that_is_overwritten_too_early_ends_the_process", words, || {
        broken(
            "__shared__ unsigned int shared[70];
    shared[i] = i;
    __syncthreads();
    if (i < 69u) y[i] = shared[0];
    else shared[0] = 1u;",
        );
    });
}

#[test]
fn an_exchange_is_no_barrier() {
    emulated_until("emulator::an_exchange_is_no_barrier", "a race: ", || {
        broken(
            "if (i == 0u) y[100] = 1u;\n    unsigned int a = __shfl_sync(lanes, i, 0);\n    y[i] = y[100] + a;",
        );
    });
}

#[test]
fn workgroups_that_race_end_the_process() {
    emulated_until(
        "emulator::workgroups_that_race_end_the_process",
        "of another workgroup has written",
        || {
            let source = kernel(1, "y[0] = blockIdx.x;");
            let result = run(&open(), &[&source], [1; 3], 2, &[0; 4]);
            unreachable!("the emulator has gone on: {result:?}");
        },
    );
}

#[test]
fn sums_that_are_not_atomic_end_the_process() {
    emulated_until("emulator::sums_that_are_not_atomic_end_the_process", "a race: ", || {
        broken("y[i / 2u] += 1u;")
    });
}

#[test]
fn numbers_of_sixteen_bits_round_once() {
    emulated("emulator::numbers_of_sixteen_bits_round_once", &[], || {
        // y[i] = an instruction on the halves y[i], with what naga-c writes for it.
        let source = kernel(
            1,
            "for (unsigned int k = 0u; k < 12u; k++) {
        unsigned short a = (unsigned short)y[k], b = (unsigned short)(y[k] >> 16), c = 1u, r;
        float wide;
        if (k < 4u) asm(\"add.rn.f16 %0, %1, %2;\" : \"=h\"(r) : \"h\"(a), \"h\"(b));
        else if (k < 6u) asm(\"mul.rn.f16 %0, %1, %2;\" : \"=h\"(r) : \"h\"(a), \"h\"(b));
        else if (k < 8u) asm(\"fma.rn.f16 %0, %1, %2, %3;\" : \"=h\"(r) : \"h\"(a), \"h\"(b), \"h\"(c));
        else if (k < 10u) asm(\"sub.rn.f16 %0, %1, %2;\" : \"=h\"(r) : \"h\"(a), \"h\"(b));
        else {
            asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(wide) : \"h\"(a));
            wide *= 1.0009765625f;
            asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(r) : \"f\"(wide));
        }
        y[k] = r;
    }",
        );
        let pairs: [(u16, u16, u16); 12] = [
            (0x3c00, 0x1000, 0x3c00), // 1 + 2^-11 is a tie: even
            (0x3c01, 0x1000, 0x3c02), // and the other way
            (0x7bff, 0x4c00, 0x7c00), // 65504 + 16 is infinite
            (0x0001, 0x03ff, 0x0400), // subnormal numbers make a normal one
            (0x0400, 0x3800, 0x0200), // 2^-14 / 2
            (0x0001, 0x3800, 0x0000), // a tie with zero
            (0x3c01, 0x3c01, 0x3c02), // 1.00195 + a little, + 2^-24: not a tie
            (0x7bff, 0x3c00, 0x7bff),
            (0x3c00, 0x3c00, 0x0000),
            (0x0000, 0x0001, 0x8001),
            (0x3bff, 0, 0x3c00), // (1 - 2^-11)(1 + 2^-10): nearest to 1
            (0x7e00, 0, 0x7fff), // NaN
        ];
        let numbers: Vec<u32> = pairs.iter().map(|(a, b, _)| u32::from(*a) | u32::from(*b) << 16).collect();
        let got = run(&open(), &[&source], [1; 3], 1, &numbers).unwrap();
        for (got, pair) in got.iter().zip(&pairs) {
            assert_eq!(*got, u32::from(pair.2), "{pair:x?}: {got:x}");
        }
    });
}

#[test]
fn memory_ends_where_it_ends() {
    emulated("emulator::memory_ends_where_it_ends", &[], || {
        let driver = open();
        let write = |at: &str| run(&driver, &[&kernel(1, &format!("y[{at}] = 1u;"))], [1; 3], 1, &[0; 12]);
        assert_eq!(write("11u").unwrap()[11], 1);
        let fault = write("12u").unwrap_err();
        assert!(
            matches!(&fault, Fault::DeviceLost { message, .. } if message.contains("ILLEGAL_ADDRESS")),
            "{fault}"
        );
    });
}

#[test]
fn a_deep_stack_is_no_memory_of_others() {
    emulated("emulator::a_deep_stack_is_no_memory_of_others", &[], || {
        let body = "volatile unsigned int large[1 << 16];
    for (int k = 65535; k >= 0; k--) large[k] = i;
    y[0] = large[1];";
        let fault = run(&open(), &[&kernel(1, body)], [1; 3], 1, &[0; 4]).unwrap_err();
        assert!(matches!(fault, Fault::DeviceLost { .. }), "{fault}");
    });
}

#[test]
fn texts_that_do_not_compile_are_refused() {
    emulated("emulator::texts_that_do_not_compile_are_refused", &[], || {
        let driver = open();
        let refused =
            |body: &str| run(&driver, &[&kernel(1, body)], [1; 3], 1, &[0; 4]).unwrap_err().to_string();
        let said = refused("y[0] = __nothing(1u);");
        assert!(said.contains("does not compile") && said.contains("__nothing"), "{said}");
        let said = refused("asm(\"bar.sync 0;\");");
        assert!(said.contains("does not compile") && said.contains("ptx_bar_sync"), "{said}");
        let said = refused("unsigned int r; asm(\"add.u32 %0, %2, %1;\" : \"=r\"(r) : \"r\"(i), \"r\"(i));");
        assert!(said.contains("cannot be read"), "{said}");
    });
}

/// Runs a kernel of 70 invocations.
fn broken(body: &str) {
    let result = run(&open(), &[&kernel(70, body)], [70, 1, 1], 1, &[0; 128]);
    unreachable!("the emulator has gone on: {result:?}");
}

#[test]
fn a_barrier_in_a_branch_ends_the_process() {
    let words = "some wait in line";
    emulated_until("emulator::a_barrier_in_a_branch_ends_the_process", words, || {
        broken("if (i < 20u) __syncthreads();\n    else\n        __syncthreads();");
    });
}

#[test]
fn a_barrier_that_some_do_not_reach_ends_the_process() {
    let words = "50 of 70 invocations wait at the barrier in line 4, and 20 have returned";
    emulated_until("emulator::a_barrier_that_some_do_not_reach_ends_the_process", words, || {
        broken("if (i >= 20u) __syncthreads();");
    });
}

#[test]
fn an_exchange_of_a_part_of_a_warp_ends_the_process() {
    let words =
        "12 invocations of warp 0 wait in line 4, 0 of the workgroup at a barrier, and 58 have returned";
    emulated_until("emulator::an_exchange_of_a_part_of_a_warp_ends_the_process", words, || {
        broken("if (i < 12u) y[i] = __shfl_sync(lanes, i, 0);");
    });
}

#[test]
fn an_exchange_of_lanes_that_are_not_there_ends_the_process() {
    let words = "an exchange of lanes ffffffff in line 4, in a warp of lanes 0000003f";
    emulated_until("emulator::an_exchange_of_lanes_that_are_not_there_ends_the_process", words, || {
        broken("y[i] = __shfl_sync(0xffffffffu, i, 0);");
    });
}

#[test]
fn different_exchanges_in_a_warp_end_the_process() {
    let words = "an exchange for only a part of a warp";
    emulated_until("emulator::different_exchanges_in_a_warp_end_the_process", words, || {
        broken("if (lane < 4u) y[i] = __shfl_sync(lanes, i, 0);\n    else y[i] = __shfl_sync(lanes, i, 1);");
    });
}

#[test]
fn too_much_shared_memory_ends_the_process() {
    emulated_until("emulator::too_much_shared_memory_ends_the_process", "more shared memory", || {
        broken(
            "__shared__ unsigned int shared[12289];\n    shared[i] = i;\n    __syncthreads();\n    y[i] = shared[69u - i];",
        );
    });
}

#[test]
fn what_is_written_before_memory_ends_the_process() {
    emulated_until(
        "emulator::what_is_written_before_memory_ends_the_process",
        "written before memory",
        || {
            let driver = open();
            let _ = run(&driver, &[&kernel(1, "y[-1] = 1u;")], [1; 3], 1, &[0; 4]);
            // Memory is looked at when it is given back, which the driver does in the order of its work.
            driver.finish().unwrap();
            unreachable!("the emulator has gone on");
        },
    );
}
