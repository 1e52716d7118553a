//! Two steps in one launch have the bits of each in its own.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "helpers of tests, too")]

use crate::common::plain;
use crate::common::splitting::{argument, case, run, transposed};
use rustorch_core::{AddRmsNorm, Backend, BinaryOp, DType, Layout, Op, RmsNorm, bf16, f16};
use rustorch_kernels::{Driver, Engine};
use rustorch_testkit::conformance::Argument;
use rustorch_testkit::{Requirement, skip};

/// Numbers of all sizes: sums whose last bits are lost, small ones, and one without end.
fn uneven(dtype: DType, dims: &[usize], seed: u32) -> Argument {
    let mut x = argument(DType::F32, dims, seed);
    let scale = [1.0f32, 300.0, 1e-3, 2e-7, 1e-41];
    let values: Vec<f32> = x
        .bytes
        .chunks_exact(4)
        .enumerate()
        .map(|(i, b)| f32::from_le_bytes(b.try_into().unwrap()) * scale[i % scale.len()])
        .map(|x| if x > 299.0 { f32::INFINITY } else { x })
        .collect();
    x.dtype = dtype;
    x.bytes = match dtype {
        DType::F16 => values.iter().flat_map(|&x| f16::from_f32(x).to_le_bytes()).collect(),
        DType::BF16 => values.iter().flat_map(|&x| bf16::from_f32(x).to_le_bytes()).collect(),
        DType::F64 => values.iter().flat_map(|&x| f64::from(x).to_le_bytes()).collect(),
        _ => values.iter().flat_map(|x| x.to_le_bytes()).collect(),
    };
    x
}

fn added_and_normalised<D: Driver>(engine: &Engine<D>) {
    let norm = RmsNorm { eps: 1e-6 };
    let doubles = engine.hardware().f64.then_some(DType::F64);
    for dtype in [DType::F32, DType::F16, DType::BF16].into_iter().chain(doubles) {
        let weight = uneven(dtype, &[134], 3);
        let x = uneven(dtype, &[9, 134], 1);
        let y = [uneven(dtype, &[9, 134], 2), transposed(uneven(dtype, &[134, 9], 2))];
        for y in y {
            let [sum] = &run(&case(Op::Binary(BinaryOp::Add), [x.clone(), y.clone()]), engine).unwrap()[..]
            else {
                unreachable!("one result")
            };
            let layout = Layout::contiguous(x.layout.shape().clone());
            let added = Argument { dtype, layout, bytes: sum.clone() };
            let normed = run(&case(Op::RmsNorm(norm.clone()), [added, weight.clone()]), engine).unwrap();
            let both = case(Op::AddRmsNorm(AddRmsNorm { eps: norm.eps }), [x.clone(), y, weight.clone()]);
            let both = run(&both, engine).unwrap();
            assert!(both[0] == *sum, "{}: the sum of {dtype}", engine.device());
            assert!(both[1] == normed[0], "{}: the norm of {dtype}", engine.device());
        }
    }
}

#[test]
fn two_steps_in_one_launch_have_the_bits_of_each_in_its_own() {
    let adapters = match rustorch_wgpu::adapters() {
        Ok(adapters) => adapters,
        Err(none) => return skip(Requirement::Vulkan, none),
    };
    for adapter in adapters {
        let whole = Engine::new(adapter.open().unwrap()).unwrap();
        let plain = Engine::new(plain::Plain::new(adapter.open().unwrap())).unwrap();
        added_and_normalised(&whole);
        added_and_normalised(&plain);
    }
}
