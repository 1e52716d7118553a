//! Pointwise functions of what is hard: zeros of both signs, infinities, NaN, subnormal and huge numbers, where one
//! function passes into another.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "helpers of tests, too")]

use crate::common::careless;
use crate::common::careless::Wrong;
use crate::common::plain;
use rustorch_core::{
    Backend, BinaryOp, Buffer, Clamp, CompareOp, DType, GluOp, Layout, Op, Scalar, Shape, TensorMeta,
    UnaryOp, View, ViewMut, run_checked,
};
use rustorch_cpu::CpuBackend;
use rustorch_kernels::Engine;
use rustorch_testkit::conformance::{self, Extent};
use rustorch_testkit::ulps;
use rustorch_testkit::{Requirement, skip};

/// Zeros, ends of ranges, every magnitude, and numbers at which functions change their way.
fn numbers(dtype: DType) -> Vec<f64> {
    match dtype {
        DType::F32 => singles().into_iter().map(f64::from).collect(),
        _ => doubles(),
    }
}

/// Those of [`singles`], what is beyond their range, and what is hard for doubles alone.
fn doubles() -> Vec<f64> {
    let mut all = vec![
        0.25541281188299536,
        0.5493061443340548,
        0.84375,
        1.0 / 0.35,
        709.78,
        709.79,
        744.0,
        746.0,
        1_647_099.0,
        1_647_099.5,
        9_007_199_254_740_992.0,
        1e22,
        std::f64::consts::PI,
        std::f64::consts::FRAC_PI_2,
        std::f64::consts::FRAC_PI_4,
        std::f64::consts::SQRT_2,
        1.0 + f64::EPSILON,
        1.0 - f64::EPSILON,
        5e-324,
        2e-310,
        f64::MIN_POSITIVE,
        f64::MAX,
    ];
    all.extend((0..120).map(|i| 10f64.powf(f64::from(i) * 5.0 - 300.0) * 1.2345));
    all.extend((0..200).map(|i| f64::from(i) * 0.123 + 1e-7));
    let negative: Vec<f64> = all.iter().map(|x| -x).collect();
    all.extend(negative);
    all.extend(singles().into_iter().map(f64::from));
    all
}

fn singles() -> Vec<f32> {
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

fn encode(dtype: DType, x: &[f64]) -> Vec<u8> {
    match dtype {
        DType::F32 => x.iter().flat_map(|&x| (x as f32).to_ne_bytes()).collect(),
        _ => x.iter().flat_map(|x| x.to_ne_bytes()).collect(),
    }
}

fn decode(dtype: DType, bytes: &[u8]) -> Vec<f64> {
    match dtype {
        DType::F32 => bytes.as_chunks().0.iter().map(|&b| f32::from_ne_bytes(b).into()).collect(),
        _ => bytes.as_chunks().0.iter().map(|&b| f64::from_ne_bytes(b)).collect(),
    }
}

fn run(backend: &dyn Backend, op: &Op, of: DType, args: &[Vec<f64>]) -> Option<Vec<u8>> {
    let layout = Layout::contiguous(Shape::new([args[0].len()].as_slice()).unwrap());
    let meta = TensorMeta { dtype: of, layout: &layout, device: backend.device() };
    let metas = vec![meta; args.len()];
    backend.supports(op, &metas).ok()?;
    let dtype = op.infer(&metas).unwrap()[0].dtype;
    let buffers: Vec<Buffer> = args
        .iter()
        .map(|arg| {
            let bytes = encode(of, arg);
            let mut buffer = backend.alloc(bytes.len()).unwrap();
            // SAFETY: the buffer has room for the layout.
            backend.copy_in(&bytes, &mut unsafe { ViewMut::new(&mut buffer, of, &layout) }).unwrap();
            buffer
        })
        .collect();
    let mut out = vec![0; layout.numel() * dtype.size().unwrap()];
    let mut result = backend.alloc(out.len()).unwrap();
    // SAFETY: all have been written, and have room for the layout.
    let views: Vec<View<'_>> =
        buffers.iter().map(|buffer| unsafe { View::new(buffer, of, &layout) }).collect();
    // SAFETY: fresh memory of the right size.
    run_checked(backend, op, &views, &mut [unsafe { ViewMut::new(&mut result, dtype, &layout) }]).unwrap();
    // SAFETY: the operation has written it.
    backend.copy_out(&unsafe { View::new(&result, dtype, &layout) }, &mut out).unwrap();
    Some(out)
}

/// How far apart in units of the last place; subnormal results may be zero, overflow may begin an ulp apart.
fn distance(dtype: DType, got: f64, want: f64) -> u64 {
    let least = if dtype == DType::F32 { f32::MIN_POSITIVE.into() } else { f64::MIN_POSITIVE };
    if got.abs() < 2.0 * least && want.abs() < 2.0 * least {
        return 0;
    }
    if dtype == DType::F32 {
        return ulps(got as f32, want as f32);
    }
    if got.is_nan() || want.is_nan() {
        return if got.is_nan() && want.is_nan() { 0 } else { u64::MAX };
    }
    let line = |x: f64| {
        let magnitude = (x.to_bits() & !(1 << 63)) as i64;
        if x.is_sign_negative() { -magnitude } else { magnitude }
    };
    line(got).abs_diff(line(want))
}

#[test]
fn special_numbers_give_the_cpu_results() {
    special(DType::F32);
}

#[test]
fn special_doubles_give_the_cpu_results() {
    special(DType::F64);
}

/// Of all doubles 6381956970095103·2⁷⁹⁷ is closest to a multiple of π/2. Not every C library has its cosine right; these come
/// from mpmath with 2000 bits:
///
/// ```python
/// import mpmath; mpmath.mp.prec = 2000
/// x = mpmath.mpf(6381956970095103) * mpmath.mpf(2)**797
/// print([repr(float(f(x))) for f in (mpmath.sin, mpmath.cos, mpmath.tan)])
/// ```
#[test]
fn the_hardest_angle_keeps_its_digits() {
    let adapters = match rustorch_wgpu::adapters() {
        Ok(adapters) => adapters,
        Err(none) => return skip(Requirement::Vulkan, none),
    };
    let x = 6_381_956_970_095_103.0 * 2f64.powi(797);
    for adapter in adapters {
        let engine = Engine::new(adapter.open().unwrap()).unwrap();
        for (op, want) in [
            (UnaryOp::Sin, 1.0),
            (UnaryOp::Cos, -4.687165924254628e-19),
            (UnaryOp::Tan, -2.133485385753704e18),
        ] {
            let Some(got) = run(&engine, &Op::Unary(op), DType::F64, &[vec![x]]) else { continue };
            let got = decode(DType::F64, &got)[0];
            assert!(distance(DType::F64, got, want) <= 1, "{op:?} is {got:e}, not {want:e}");
        }
    }
}

/// Where quotients and square roots are a little off, those of ordinary numbers are emulated; and devices are known on
/// which only those of numbers that no single has are.
#[test]
fn doubles_are_divided_by_hand_where_the_device_does_not() {
    let adapters = match rustorch_wgpu::adapters() {
        Ok(adapters) => adapters,
        Err(none) => return skip(Requirement::Vulkan, none),
    };
    let cpu = CpuBackend::new(1);
    let numbers: Vec<f64> = doubles().into_iter().filter(|x| (1e-14..1e14).contains(&x.abs())).collect();
    let left: Vec<f64> = numbers.iter().flat_map(|&x| vec![x; numbers.len()]).collect();
    let right: Vec<f64> = numbers.iter().flat_map(|_| numbers.iter().copied()).collect();
    for adapter in adapters {
        if !rustorch_kernels::Driver::hardware(&adapter.open().unwrap()).f64 {
            continue;
        }
        for wrong in [Wrong::Everywhere, Wrong::Far] {
            let engine = careless::engine(&adapter, wrong);
            for (op, args) in [
                (Op::Binary(BinaryOp::Div), &[left.clone(), right.clone()][..]),
                (Op::Unary(UnaryOp::Sqrt), std::slice::from_ref(&numbers)),
                (Op::Unary(UnaryOp::Reciprocal), std::slice::from_ref(&numbers)),
            ] {
                let [got, want] =
                    [&engine as &dyn Backend, &cpu].map(|backend| run(backend, &op, DType::F64, args));
                let [got, want] = [got, want].map(|bytes| decode(DType::F64, &bytes.unwrap()));
                let off =
                    (0..got.len()).find(|&i| got[i].to_bits() != want[i].to_bits() && !want[i].is_nan());
                assert!(
                    off.is_none(),
                    "{wrong:?}: {op:?} of {:?}",
                    args.iter().map(|x| x[off.unwrap()]).collect::<Vec<_>>()
                );
            }
            let extent =
                Extent::Of("mean,var,std,layer_norm,avg_pool,avg_pool_backward,logsumexp,cumsum".into());
            let mut cases = extent.of(conformance::cases());
            cases.retain(|case| matches!(case.args[0].dtype, DType::F64 | DType::C128));
            cases = conformance::one_in(Extent::share(6), cases);
            let report = conformance::check_cases(cases, &engine, &cpu);
            assert!(report.failures.is_empty() && report.agreed > 10, "{wrong:?}: {report}");
        }
    }
}

/// A device that only states them works with what else it has.
#[test]
fn doubles_that_do_not_compile_are_not_there() {
    let adapters = match rustorch_wgpu::adapters() {
        Ok(adapters) => adapters,
        Err(none) => return skip(Requirement::Vulkan, none),
    };
    for adapter in adapters {
        let engine = careless::without_doubles(&adapter);
        assert!(!engine.hardware().f64);
        let exp = |dtype| run(&engine, &Op::Unary(UnaryOp::Exp), dtype, &[vec![1.0]]);
        assert_eq!(exp(DType::F64), None);
        assert_eq!(decode(DType::F32, &exp(DType::F32).unwrap()), [f64::from(1f32.exp())]);
    }
}

/// Functions that are odd are so at zero, as on the CPU: branches of complex functions hang on it.
#[test]
fn zeros_keep_their_signs() {
    let adapters = match rustorch_wgpu::adapters() {
        Ok(adapters) => adapters,
        Err(none) => return skip(Requirement::Vulkan, none),
    };
    let cpu = CpuBackend::new(1);
    let zeros = [vec![0.0, -0.0]];
    let mut wrong = Vec::new();
    for adapter in adapters {
        let engine = Engine::new(adapter.open().unwrap()).unwrap();
        for dtype in [DType::F32, DType::F64] {
            for &op in UnaryOp::ALL {
                let op = Op::Unary(op);
                let Some(got) = run(&engine, &op, dtype, &zeros) else { continue };
                let want = run(&cpu, &op, dtype, &zeros).unwrap();
                if got != want {
                    wrong.push(format!("{op:?} of zeros in {dtype} is {got:?}, not {want:?}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn special(dtype: DType) {
    let adapters = match rustorch_wgpu::adapters() {
        Ok(adapters) => adapters,
        Err(none) => return skip(Requirement::Vulkan, none),
    };
    let cpu = CpuBackend::new(1);
    let xs = numbers(dtype);
    // Every special number with each, and many others.
    let few: Vec<f64> =
        xs.iter().copied().step_by(7).chain([0.0, -0.0, f64::INFINITY, f64::NAN, 3.0, -2.0, 0.5]).collect();
    let left: Vec<f64> = xs.iter().flat_map(|&x| vec![x; few.len()]).collect();
    let right: Vec<f64> = xs.iter().flat_map(|_| few.iter().copied()).collect();
    let mut wrong = Vec::new();
    let engines = adapters.iter().flat_map(|adapter| {
        let whole = Engine::new(adapter.open().unwrap()).unwrap();
        let plain = Engine::new(plain::Plain::new(adapter.open().unwrap())).unwrap();
        let careless = (dtype == DType::F64 && whole.hardware().f64)
            .then(|| Box::new(careless::engine(adapter, Wrong::Everywhere)) as Box<dyn Backend>);
        [Box::new(whole) as Box<dyn Backend>, Box::new(plain)].into_iter().chain(careless)
    });
    for engine in engines {
        let mut compare = |op: Op, args: &[Vec<f64>], limit: u64| {
            let Some(got) = run(&*engine, &op, dtype, args) else { return };
            let want = run(&cpu, &op, dtype, args).unwrap();
            if got.len() == args[0].len() {
                if let Some(i) = (0..got.len()).find(|&i| got[i] != want[i]) {
                    let x: Vec<f64> = args.iter().map(|arg| arg[i]).collect();
                    wrong.push(format!("{op:?} of {x:?} is {}, not {}", got[i], want[i]));
                }
                return;
            }
            let (got, want) = (decode(dtype, &got), decode(dtype, &want));
            let bad: Vec<usize> =
                (0..got.len()).filter(|&i| distance(dtype, got[i], want[i]) > limit).collect();
            let worst = (0..got.len()).max_by_key(|&i| distance(dtype, got[i], want[i])).unwrap();
            let most = distance(dtype, got[worst], want[worst]);
            eprintln!("{op:?}: {most} ulp");
            if !bad.is_empty() {
                let shown: Vec<String> = bad
                    .iter()
                    .take(4)
                    .map(|&i| {
                        let x: Vec<f64> = args.iter().map(|arg| arg[i]).collect();
                        format!("of {x:?} is {:e}, not {:e}", got[i], want[i])
                    })
                    .collect();
                wrong.push(format!("{op:?}, {} results: {}", bad.len(), shown.join("; ")));
            }
        };
        // Doubles by hand take compilers long.
        let share = if dtype == DType::F64 { Extent::share(6) } else { 1 };
        for &op in UnaryOp::ALL.iter().step_by(share) {
            // Cancellation makes these differ where they are small; the sample looks at that by itself.
            let limit = match op {
                UnaryOp::Gelu | UnaryOp::GeluTanh => continue,
                UnaryOp::BitwiseNot | UnaryOp::Conj | UnaryOp::Real | UnaryOp::Imag | UnaryOp::Angle => {
                    continue;
                }
                // What is left of an exponential below the normal numbers has few digits.
                UnaryOp::Silu if dtype == DType::F64 => 8,
                _ => 4,
            };
            compare(Op::Unary(op), std::slice::from_ref(&xs), limit);
        }
        for &op in BinaryOp::ALL {
            if op.accepts(dtype) && op != BinaryOp::LogAddExp {
                compare(Op::Binary(op), &[left.clone(), right.clone()], 3);
            }
        }
        // Where neither operand is positive, cancellation makes these differ; the sample looks at that by itself.
        let (a, b): (Vec<f64>, Vec<f64>) =
            left.iter().zip(&right).filter(|(a, b)| !(**a < 0.0 && **b < 0.0)).unzip();
        compare(Op::Binary(BinaryOp::LogAddExp), &[a, b], 4);
        for &op in CompareOp::ALL {
            compare(Op::Compare(op), &[left.clone(), right.clone()], 0);
        }
        compare(Op::Glu(GluOp::Relu), &[left.clone(), right.clone()], 0);
        for (min, max) in
            [(Some(-1.0), Some(2.0)), (Some(2.0), Some(-1.0)), (None, Some(0.5)), (Some(f64::NAN), None)]
        {
            let op = Op::Clamp(Clamp { min: min.map(Scalar::Float), max: max.map(Scalar::Float) });
            compare(op, std::slice::from_ref(&xs), 0);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
