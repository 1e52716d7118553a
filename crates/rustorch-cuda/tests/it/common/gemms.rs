//! Matmuls of matrices that go to cuBLASLt.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "each test file uses its own part, and a shape that is wrong fails it"
)]

use rustorch_core::{DType, Layout, MatMul, Op, Shape, bf16, f16};
use rustorch_testkit::conformance::{Argument, Case};

pub const DTYPES: [DType; 4] = [DType::F16, DType::BF16, DType::F32, DType::F64];

/// Irregular numbers between −1 and 1, of any dtype; coarse ones are sixteenths, whose sums are the same in any order.
fn numbers(dtype: DType, count: usize, seed: u64, coarse: bool) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let x = (state >> 11) as f64 / (1_u64 << 52) as f64 - 1.0;
        if coarse { (16.0 * x).round() / 16.0 } else { x }
    };
    (0..count)
        .flat_map(|_| match dtype {
            DType::F16 => f16::from_f64(next()).to_le_bytes().to_vec(),
            DType::BF16 => bf16::from_f64(next()).to_le_bytes().to_vec(),
            DType::F32 => (next() as f32).to_le_bytes().to_vec(),
            _ => next().to_le_bytes().to_vec(),
        })
        .collect()
}

/// An argument by its dimensions, strides and first element.
pub type Strided<'a> = (&'a [usize], &'a [usize], usize);

pub fn argument(dtype: DType, (dims, strides, offset): Strided<'_>, seed: u64, coarse: bool) -> Argument {
    let layout = Layout::new(Shape::new(dims).unwrap(), strides, offset).unwrap();
    let bytes = numbers(dtype, layout.end() + 5, seed, coarse);
    Argument { dtype, layout, bytes }
}

pub fn case(dtype: DType, a: Strided<'_>, b: Strided<'_>) -> Case {
    // Of short sums of irregular numbers, the suite's tolerance allows any order.
    let coarse = a.0.last() > Some(&64);
    Case {
        op: Op::MatMul(MatMul::default()),
        args: vec![argument(dtype, a, 1, coarse), argument(dtype, b, 2, coarse)],
    }
}

/// A matmul that goes to the library.
pub fn square(dtype: DType) -> Case {
    case(dtype, (&[33, 40], &[40, 1], 0), (&[40, 35], &[35, 1], 0))
}

/// Operands of every kind that a library knows, and how many calls each takes.
pub const ARRANGEMENTS: &[(Strided<'_>, Strided<'_>, usize)] = &[
    // As they are, and transposed.
    ((&[33, 40], &[40, 1], 0), (&[40, 35], &[35, 1], 0), 1),
    ((&[33, 40], &[1, 33], 0), (&[40, 35], &[35, 1], 0), 1),
    ((&[33, 40], &[40, 1], 0), (&[40, 35], &[1, 40], 0), 1),
    ((&[33, 40], &[1, 33], 0), (&[40, 35], &[1, 40], 0), 1),
    // Rows and columns apart, from the midst of a memory.
    ((&[33, 40], &[47, 1], 3), (&[40, 35], &[36, 1], 7), 1),
    ((&[33, 40], &[1, 41], 8), (&[40, 35], &[1, 64], 16), 1),
    // One row, one column, one inner element.
    ((&[1, 300], &[300, 1], 0), (&[300, 200], &[200, 1], 0), 1),
    ((&[1, 300], &[0, 1], 0), (&[300, 200], &[1, 300], 0), 1),
    ((&[300, 200], &[200, 1], 0), (&[200, 1], &[1, 1], 0), 1),
    ((&[300, 200], &[1, 300], 0), (&[200, 1], &[3, 0], 0), 1),
    ((&[200, 1], &[1, 1], 0), (&[1, 200], &[200, 1], 0), 1),
    // Batches: both, one repeated, the other repeated, transposed ones.
    ((&[5, 12, 34], &[408, 34, 1], 0), (&[5, 34, 31], &[1054, 31, 1], 0), 1),
    ((&[5, 12, 34], &[500, 1, 12], 0), (&[34, 31], &[31, 1], 0), 1),
    ((&[12, 34], &[34, 1], 0), (&[5, 34, 31], &[1054, 1, 34], 0), 1),
    ((&[5, 12, 34], &[0, 34, 1], 0), (&[5, 34, 31], &[1100, 31, 1], 2), 1),
    // Heads in the midst: a batch of two dimensions that are not one.
    ((&[2, 3, 24, 34], &[2448, 34, 102, 1], 0), (&[2, 3, 34, 20], &[2040, 680, 20, 1], 0), 2),
    ((&[4, 3, 24, 34], &[2448, 34, 102, 1], 0), (&[1, 3, 34, 20], &[0, 680, 1, 34], 0), 3),
];
