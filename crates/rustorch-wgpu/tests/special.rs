//! Pointwise functions of what is hard: zeros of both signs, infinities, NaN, subnormal and huge numbers, where one
//! function passes into another.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "helpers of tests, too")]

#[path = "common/plain.rs"]
mod plain;

use rustorch_core::{
    Backend, BinaryOp, Buffer, CompareOp, DType, GateOp, Layout, Op, Scalar, Shape, TensorMeta, UnaryOp,
    View, ViewMut,
};
use rustorch_cpu::CpuBackend;
use rustorch_kernels::Engine;
use rustorch_testkit::ulps;

/// Zeros, ends of ranges, every magnitude, and numbers at which functions change their way.
fn numbers() -> Vec<f32> {
    let mut all = vec![
        0.0,
        1.0,
        0.5,
        2.0,
        3.0,
        0.29,
        0.41,
        0.625,
        0.9375,
        std::f32::consts::PI,
        std::f32::consts::FRAC_PI_2,
        std::f32::consts::SQRT_2,
        std::f32::consts::FRAC_1_SQRT_2,
        6000.0,
        1e6,
        88.7,
        88.73,
        103.0,
        104.5,
        16_777_216.0,
        3.0e38,
        f32::MAX,
        f32::MIN_POSITIVE,
        f32::INFINITY,
        f32::NAN,
    ];
    all.extend((0..120).map(|i| 10f32.powf(i as f32 / 4.0 - 14.0) * 1.2345));
    all.extend((0..300).map(|i| i as f32 * 0.037 + 0.001));
    let negative: Vec<f32> = all.iter().map(|x| -x).collect();
    all.extend(negative);
    all
}

fn run(backend: &dyn Backend, op: &Op, args: &[Vec<f32>]) -> Option<Vec<u8>> {
    let layout = Layout::contiguous(Shape::new([args[0].len()].as_slice()).unwrap());
    let meta = TensorMeta { dtype: DType::F32, layout: &layout, device: backend.device() };
    let metas = vec![meta; args.len()];
    backend.supports(op, &metas).ok()?;
    let dtype = op.infer(&metas).unwrap()[0].dtype;
    let buffers: Vec<Buffer> = args
        .iter()
        .map(|arg| {
            let bytes: Vec<u8> = arg.iter().flat_map(|x| x.to_ne_bytes()).collect();
            let mut buffer = backend.alloc(bytes.len()).unwrap();
            // SAFETY: the buffer has room for the layout.
            backend.copy_in(&bytes, &mut unsafe { ViewMut::new(&mut buffer, DType::F32, &layout) }).unwrap();
            buffer
        })
        .collect();
    let mut out = vec![0; layout.elements() * dtype.size().unwrap()];
    let mut result = backend.alloc(out.len()).unwrap();
    // SAFETY: all have been written, and have room for the layout.
    let views: Vec<View<'_>> =
        buffers.iter().map(|buffer| unsafe { View::new(buffer, DType::F32, &layout) }).collect();
    // SAFETY: fresh memory of the right size.
    backend.run(op, &views, &mut [unsafe { ViewMut::new(&mut result, dtype, &layout) }]).unwrap();
    // SAFETY: the operation has written it.
    backend.copy_out(&unsafe { View::new(&result, dtype, &layout) }, &mut out).unwrap();
    Some(out)
}

/// How far apart in units of the last place; subnormal results may be zero, overflow may begin an ulp apart.
fn distance(got: f32, want: f32) -> u64 {
    if got.abs() < 2.0 * f32::MIN_POSITIVE && want.abs() < 2.0 * f32::MIN_POSITIVE {
        return 0;
    }
    ulps(got, want)
}

#[test]
fn special_numbers_give_the_processors_results() {
    let adapters = match rustorch_wgpu::adapters() {
        Ok(adapters) => adapters,
        Err(none) => return eprintln!("skipped: {none}"),
    };
    let cpu = CpuBackend::new(1);
    let xs = numbers();
    // Every special number with each, and many others.
    let few: Vec<f32> = xs.iter().copied().step_by(7).chain([0.0, -0.0, f32::INFINITY, f32::NAN]).collect();
    let left: Vec<f32> = xs.iter().flat_map(|&x| vec![x; few.len()]).collect();
    let right: Vec<f32> = xs.iter().flat_map(|_| few.iter().copied()).collect();
    let mut wrong = Vec::new();
    let engines = adapters.iter().flat_map(|adapter| {
        let whole = Engine::new(adapter.open().unwrap()).unwrap();
        let plain = Engine::new(plain::Plain::new(adapter.open().unwrap())).unwrap();
        [Box::new(whole) as Box<dyn Backend>, Box::new(plain)]
    });
    for engine in engines {
        let mut compare = |op: Op, args: &[Vec<f32>], limit: u64| {
            let Some(got) = run(&*engine, &op, args) else { return };
            let want = run(&cpu, &op, args).unwrap();
            if got.len() == args[0].len() {
                if let Some(i) = (0..got.len()).find(|&i| got[i] != want[i]) {
                    let x: Vec<f32> = args.iter().map(|arg| arg[i]).collect();
                    wrong.push(format!("{op:?} of {x:?} is {}, not {}", got[i], want[i]));
                }
                return;
            }
            let float = |bytes: &[u8]| -> Vec<f32> {
                bytes.as_chunks().0.iter().map(|&b| f32::from_ne_bytes(b)).collect()
            };
            let (got, want) = (float(&got), float(&want));
            let bad: Vec<usize> = (0..got.len()).filter(|&i| distance(got[i], want[i]) > limit).collect();
            let worst = (0..got.len()).max_by_key(|&i| distance(got[i], want[i])).unwrap();
            let most = distance(got[worst], want[worst]);
            eprintln!("{op:?}: {most} ulp");
            if !bad.is_empty() {
                let shown: Vec<String> = bad
                    .iter()
                    .take(4)
                    .map(|&i| {
                        let x: Vec<f32> = args.iter().map(|arg| arg[i]).collect();
                        format!("of {x:?} is {:e}, not {:e}", got[i], want[i])
                    })
                    .collect();
                wrong.push(format!("{op:?}, {} results: {}", bad.len(), shown.join("; ")));
            }
        };
        for &op in UnaryOp::ALL {
            // Cancellation makes these differ where they are small; the sample looks at that by itself.
            let limit = match op {
                UnaryOp::Gelu | UnaryOp::GeluTanh => continue,
                UnaryOp::BitwiseNot | UnaryOp::Conj | UnaryOp::Real | UnaryOp::Imag | UnaryOp::Angle => {
                    continue;
                }
                _ => 4,
            };
            compare(Op::Unary(op), std::slice::from_ref(&xs), limit);
        }
        for &op in BinaryOp::ALL {
            if op.accepts(DType::F32) {
                compare(Op::Binary(op), &[left.clone(), right.clone()], 3);
            }
        }
        for &op in CompareOp::ALL {
            compare(Op::Compare(op), &[left.clone(), right.clone()], 0);
        }
        compare(Op::Gate(GateOp::Relu), &[left.clone(), right.clone()], 0);
        for (min, max) in
            [(Some(-1.0), Some(2.0)), (Some(2.0), Some(-1.0)), (None, Some(0.5)), (Some(f64::NAN), None)]
        {
            let op = Op::Clamp { min: min.map(Scalar::Float), max: max.map(Scalar::Float) };
            compare(op, std::slice::from_ref(&xs), 0);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
