//! Integers and doubles at the ends of their ranges, conversions of floats that fit no integer, and division by zero.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "helpers of tests, too")]

use crate::common::plain;
use rustorch_core::{
    Backend, BinaryOp, Buffer, Cast, Clamp, CompareOp, DType, Fault, Layout, Op, Scalar, Shape, TensorMeta,
    UnaryOp, View, ViewMut, run_checked,
};
use rustorch_cpu::CpuBackend;
use rustorch_kernels::Engine;
use rustorch_testkit::{Requirement, skip};

const INTEGERS: [DType; 6] = [DType::U8, DType::I8, DType::I16, DType::I32, DType::U32, DType::I64];

/// Numbers of which every dtype takes the low bytes.
const VALUES: [i64; 20] = [
    0,
    1,
    -1,
    2,
    -2,
    3,
    7,
    -7,
    31,
    64,
    127,
    -128,
    32_767,
    -32_768,
    0x7fff_ffff,
    -0x8000_0000,
    0x1_2345_6789,
    -0x7_6543_2100,
    i64::MAX,
    i64::MIN,
];

fn bytes(dtype: DType, values: &[i64]) -> Vec<u8> {
    let size = dtype.size().unwrap();
    values.iter().flat_map(|x| x.to_le_bytes().into_iter().take(size)).collect()
}

fn run(backend: &dyn Backend, op: &Op, args: &[(DType, Vec<u8>)]) -> Option<Result<Vec<u8>, Fault>> {
    let elements = args[0].1.len() / args[0].0.size().unwrap();
    let layout = Layout::contiguous(Shape::new([elements].as_slice()).unwrap());
    let device = backend.device();
    let metas: Vec<TensorMeta<'_>> =
        args.iter().map(|&(dtype, _)| TensorMeta { dtype, layout: &layout, device }).collect();
    let dtype = op.infer(&metas).ok()?[0].dtype;
    backend.supports(op, &metas).ok()?;
    let buffers: Vec<Buffer> = args
        .iter()
        .map(|(dtype, bytes)| {
            let mut buffer = backend.alloc(bytes.len()).unwrap();
            // SAFETY: the buffer has room for the layout.
            backend.copy_in(bytes, &mut unsafe { ViewMut::new(&mut buffer, *dtype, &layout) }).unwrap();
            buffer
        })
        .collect();
    let mut out = vec![0; elements * dtype.size().unwrap()];
    let mut result = backend.alloc(out.len()).unwrap();
    let views: Vec<View<'_>> = args
        .iter()
        .zip(&buffers)
        // SAFETY: all have been written, and have room for the layout.
        .map(|((dtype, _), buffer)| unsafe { View::new(buffer, *dtype, &layout) })
        .collect();
    // SAFETY: fresh memory of the right size.
    let done = run_checked(backend, op, &views, &mut [unsafe { ViewMut::new(&mut result, dtype, &layout) }]);
    if let Err(fault) = done {
        return Some(Err(fault));
    }
    // SAFETY: the operation has written it.
    let read = backend.copy_out(&unsafe { View::new(&result, dtype, &layout) }, &mut out);
    Some(read.map(|()| out))
}

/// The devices, each also as if it had no 64-bit arithmetic.
fn engines() -> Vec<Box<dyn Backend>> {
    let adapters = match rustorch_wgpu::adapters() {
        Ok(adapters) => adapters,
        Err(none) => {
            skip(Requirement::Vulkan, none);
            Vec::new()
        }
    };
    let both = |adapter: &rustorch_wgpu::Adapter| {
        let whole = Engine::new(adapter.open().unwrap()).unwrap();
        let plain = Engine::new(plain::Plain::new(adapter.open().unwrap())).unwrap();
        [Box::new(whole) as Box<dyn Backend>, Box::new(plain)]
    };
    adapters.iter().flat_map(both).collect()
}

#[test]
fn integers_wrap_as_on_the_cpu() {
    let cpu = CpuBackend::new(1);
    for engine in engines() {
        let mut compared = 0;
        for dtype in INTEGERS {
            let pairs = |b: &dyn Fn(i64) -> bool| -> [(DType, Vec<u8>); 2] {
                let pairs: Vec<(i64, i64)> = VALUES
                    .iter()
                    .flat_map(|&a| VALUES.iter().filter(|&&x| b(x)).map(move |&b| (a, b)))
                    .collect();
                let (a, b): (Vec<i64>, Vec<i64>) = pairs.into_iter().unzip();
                [(dtype, bytes(dtype, &a)), (dtype, bytes(dtype, &b))]
            };
            let low_bytes = |x: i64| bytes(dtype, &[x]).iter().any(|&b| b != 0);
            let mut check = |op: Op, args: &[(DType, Vec<u8>)]| {
                let Some(got) = run(&*engine, &op, args) else { return };
                let (got, want) = (got.unwrap(), run(&cpu, &op, args).unwrap().unwrap());
                let size = want.len() / (args[0].1.len() / dtype.size().unwrap());
                let wrong = (0..want.len() / size)
                    .find(|i| got[i * size..(i + 1) * size] != want[i * size..(i + 1) * size]);
                if let Some(i) = wrong {
                    let x: Vec<&[u8]> =
                        args.iter().map(|(d, b)| &b[i * d.size().unwrap()..][..d.size().unwrap()]).collect();
                    let (got, want) = (&got[i * size..(i + 1) * size], &want[i * size..(i + 1) * size]);
                    panic!("{op:?} of {dtype} {x:?} is {got:?}, not {want:?} (little-endian bytes)");
                }
                compared += 1;
            };
            let one = [(dtype, bytes(dtype, &VALUES))];
            for &op in UnaryOp::ALL {
                check(Op::Unary(op), &one);
            }
            for &op in BinaryOp::ALL {
                let divides = matches!(op, BinaryOp::FloorDiv | BinaryOp::Remainder);
                check(Op::Binary(op), &pairs(&|b| !divides || low_bytes(b)));
            }
            for &op in CompareOp::ALL {
                check(Op::Compare(op), &pairs(&|_| true));
            }
            for to in INTEGERS.into_iter().chain([DType::Bool, DType::F32, DType::F64]) {
                check(Op::Cast(Cast { to }), &one);
            }
            for (min, max) in [(Some(-5), Some(1 << 40)), (None, Some(3)), (Some(100), Some(-100))] {
                check(Op::Clamp(Clamp { min: min.map(Scalar::Int), max: max.map(Scalar::Int) }), &one);
            }
        }
        assert!(compared > 150, "{compared}");
    }
}

#[test]
fn floats_become_integers_as_on_the_cpu() {
    let values = [
        0.0,
        -0.9,
        1.5,
        -1.5,
        255.9,
        256.0,
        -129.0,
        70_000.0,
        2_147_483_648.0,
        -2_147_483_904.0,
        4_294_967_296.0,
        1.234_567_8e12,
        -9.87e17,
        9.3e18,
        -9.3e18,
        3e38,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        1e-40,
    ];
    let single: Vec<u8> = values.iter().flat_map(|x| x.to_ne_bytes()).collect();
    let double: Vec<u8> = values.iter().flat_map(|&x| f64::from(x).to_ne_bytes()).collect();
    let cpu = CpuBackend::new(1);
    for engine in engines() {
        for to in INTEGERS.into_iter().chain([DType::Bool]) {
            for arg in [(DType::F32, single.clone()), (DType::F64, double.clone())] {
                let args = [arg];
                if let Some(got) = run(&*engine, &Op::Cast(Cast { to }), &args) {
                    let want = run(&cpu, &Op::Cast(Cast { to }), &args).unwrap().unwrap();
                    // Hardware may take subnormal numbers for zero.
                    let n = want.len() - to.size().unwrap();
                    assert_eq!(got.unwrap()[..n], want[..n], "{} to {to}", args[0].0);
                }
            }
        }
    }
}

/// Compilers may assume that there is no NaN; kernels ask its bits.
#[test]
fn doubles_that_are_no_numbers_are_found() {
    let values = [0.0, -0.0, 1.5, -2.5, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e300];
    let pairs: Vec<(f64, f64)> = values.iter().flat_map(|&a| values.map(|b| (a, b))).collect();
    let number = |x: f64| x.to_ne_bytes();
    let a: Vec<u8> = pairs.iter().flat_map(|p| number(p.0)).collect();
    let b: Vec<u8> = pairs.iter().flat_map(|p| number(p.1)).collect();
    let args = [(DType::F64, a), (DType::F64, b)];
    let cpu = CpuBackend::new(1);
    for engine in engines() {
        use UnaryOp::{IsFinite, IsInf, IsNan, LogicalNot, Relu, Sign};
        let unary = [IsFinite, IsInf, IsNan, LogicalNot, Relu, Sign].map(|op| (Op::Unary(op), 1));
        let compare = CompareOp::ALL.iter().map(|&op| (Op::Compare(op), 2));
        let binary = [BinaryOp::Maximum, BinaryOp::Minimum].map(|op| (Op::Binary(op), 2));
        let clamp = Op::Clamp(Clamp { min: Some(Scalar::Float(-1.0)), max: Some(Scalar::Float(1e10)) });
        for (op, n) in unary.into_iter().chain(compare).chain(binary).chain([(clamp, 1)]) {
            let Some(got) = run(&*engine, &op, &args[..n]) else { continue };
            let (got, want) = (got.unwrap(), run(&cpu, &op, &args[..n]).unwrap().unwrap());
            let size = want.len() / pairs.len();
            for (i, pair) in pairs.iter().enumerate() {
                let (got, want) = (&got[i * size..][..size], &want[i * size..][..size]);
                let value = |bytes: &[u8]| bytes.try_into().map_or(f64::from(bytes[0]), f64::from_ne_bytes);
                let (got, want) = (value(got), value(want));
                assert!(
                    got == want || got.is_nan() && want.is_nan(),
                    "{op:?} of {pair:?}: {got}, not {want}"
                );
            }
        }
    }
}

#[test]
fn dividing_by_zero_is_an_error() {
    for engine in engines() {
        for dtype in INTEGERS {
            let args = [(dtype, bytes(dtype, &[5, 6, 7])), (dtype, bytes(dtype, &[1, 0, 2]))];
            for op in [BinaryOp::FloorDiv, BinaryOp::Remainder] {
                let Some(got) = run(&*engine, &Op::Binary(op), &args) else { continue };
                let error = got.expect_err("nothing behind a mistake is seen").to_string();
                assert!(error.contains(op.name()) && error.contains("divided by zero"), "{error}");
                let args = [args[0].clone(), (dtype, bytes(dtype, &[1, 3, 2]))];
                assert!(run(&*engine, &Op::Binary(op), &args).is_some_and(|r| r.is_ok()), "the next is none");
            }
        }
    }
}
