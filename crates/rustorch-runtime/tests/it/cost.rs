//! What the default policy chooses, by measured and by recorded costs.
//!
//! `calibrations/cpu.json` is this library's own measurement of two threads of a server CPU that was busy with other
//! work, the best of eight. The other files hold figures of devices of their class, in the form in which a measurement is
//! kept; nobody measured them.
#![allow(clippy::unwrap_used, reason = "a step that fails fails the test")]

use crate::common::{CUDA, builder, fake, ramp, shape, upload, upload_to};
use rustorch_core::{
    Attention, BinaryOp, Conv, ConvParams, CostModel, DType, DTypeSet, Device, Layout, Link, MatMul,
    Numerics, Op, OpKind, OpType, QuantType, RateOf, RmsNorm, TensorMeta, UnaryOp,
};
use rustorch_cpu::CpuBackend;
use rustorch_runtime::{Calibration, CostCache, HybridExecutor, Placement, cache_dir};
use rustorch_testkit::{Act, FakeDevice, Point, Rule};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

const VULKAN: Device = Device::vulkan(0);
const MATMUL: Op = Op::MatMul(MatMul { activation: None, numerics: Numerics::Ggml, batch_invariant: false });
const ADD: Op = Op::Binary(BinaryOp::Add);
const NORM: Op = Op::RmsNorm(RmsNorm { eps: 1e-5 });

fn recorded(name: &str) -> CostModel {
    let text = match name {
        "cpu" => include_str!("../calibrations/cpu.json"),
        "discrete" => include_str!("../calibrations/discrete.json"),
        "integrated" => include_str!("../calibrations/integrated.json"),
        _ => include_str!("../calibrations/lavapipe.json"),
    };
    Calibration::from_json(text).unwrap().model
}

/// An executor of a CPU and one other device with recorded costs.
fn machine(name: &str, device: Device) -> HybridExecutor {
    let gpu = Arc::new(fake(device));
    builder(&[&gpu]).cost(Device::CPU, recorded("cpu")).cost(device, recorded(name)).build().unwrap()
}

/// A value in the making: its dtype, its shape, and where it is.
#[derive(Clone)]
struct Value {
    dtype: DType,
    layout: Layout,
    device: Device,
}

impl Value {
    fn new(dtype: DType, dims: &[usize], device: Device) -> Value {
        Value { dtype, layout: Layout::contiguous(shape(dims)), device }
    }

    fn f32(dims: &[usize], device: Device) -> Value {
        Value::new(DType::F32, dims, device)
    }

    fn transposed(mut self) -> Value {
        self.layout = self.layout.transpose(0, 1).unwrap();
        self
    }

    fn meta(&self) -> TensorMeta<'_> {
        TensorMeta { dtype: self.dtype, layout: &self.layout, device: self.device }
    }
}

/// Where an operation would run; its result is there.
fn place(exec: &HybridExecutor, op: &Op, args: &[&Value]) -> Value {
    let metas: Vec<TensorMeta<'_>> = args.iter().map(|x| x.meta()).collect();
    let device = exec.estimate(op, &metas).unwrap()[0].device;
    let out = &op.infer(&metas).unwrap()[0];
    Value::new(out.dtype, out.shape.dims(), device)
}

fn matmul(exec: &HybridExecutor, n: usize, at: Device) -> Device {
    let x = Value::f32(&[n, n], at);
    place(exec, &MATMUL, &[&x, &x]).device
}

#[test]
fn matmuls_go_where_they_are_fastest_with_the_way_there() {
    let discrete = machine("discrete", CUDA);
    // On the CPU: small ones stay, large ones are worth the way.
    let places = |exec: &HybridExecutor| [32, 64, 1024, 4096].map(|n| matmul(exec, n, Device::CPU));
    assert_eq!(places(&discrete), [Device::CPU, Device::CPU, CUDA, CUDA]);
    // On the GPU even small ones are done there.
    assert_eq!([128, 1024].map(|n| matmul(&discrete, n, CUDA)), [CUDA, CUDA]);
    let integrated = machine("integrated", VULKAN);
    assert_eq!(places(&integrated), [Device::CPU, Device::CPU, VULKAN, VULKAN]);
    // A software device never gains anything, not even with data that is there already.
    let software = machine("lavapipe", VULKAN);
    assert_eq!(places(&software), [Device::CPU; 4]);
    assert_eq!([256, 1024, 4096].map(|n| matmul(&software, n, VULKAN)), [Device::CPU; 3]);
}

#[test]
fn convolutions_go_where_they_are_fastest_with_the_way_there() {
    // A layer of `c` channels whose kernel is 3 × 3, of images of `side` × `side`.
    let conv = |exec: &HybridExecutor, c: usize, side: usize, at: Device| {
        let mut params = ConvParams::new(2);
        params.padding.fill((1, 1));
        let (x, w) = (Value::f32(&[1, c, side, side], at), Value::f32(&[c, c, 3, 3], at));
        place(exec, &Op::from(Conv { params, activation: None }), &[&x, &w]).device
    };
    for (name, device) in [("discrete", CUDA), ("integrated", VULKAN)] {
        let exec = machine(name, device);
        assert_eq!(conv(&exec, 4, 8, Device::CPU), Device::CPU, "{name}");
        assert_eq!(conv(&exec, 64, 56, Device::CPU), device, "{name}");
        assert_eq!([14, 56].map(|side| conv(&exec, 64, side, device)), [device; 2], "{name}");
    }
    let software = machine("lavapipe", VULKAN);
    for at in [Device::CPU, VULKAN] {
        assert_eq!([14, 56].map(|side| conv(&software, 64, side, at)), [Device::CPU; 2], "from {at}");
    }
}

#[test]
fn memory_bound_work_stays_where_its_data_is() {
    for (name, device) in [("discrete", CUDA), ("integrated", VULKAN)] {
        let exec = machine(name, device);
        for rows in [16, 512, 16384] {
            let at = |device| Value::f32(&[rows, 1024], device);
            for op in [&NORM, &Op::Unary(UnaryOp::Neg), &Op::Unary(UnaryOp::Silu)] {
                assert_eq!(place(&exec, op, &[&at(Device::CPU)]).device, Device::CPU, "{name} {op:?} {rows}");
                assert_eq!(place(&exec, op, &[&at(device)]).device, device, "{name} {op:?} {rows}");
            }
        }
    }
    // From a device as slow as this, moving pays.
    let exec = machine("lavapipe", VULKAN);
    let there = Value::f32(&[16384, 1024], VULKAN);
    assert_eq!(place(&exec, &NORM, &[&there]).device, Device::CPU);
}

#[test]
fn weights_of_blocks_are_priced_by_their_own_rates() {
    let exec = machine("discrete", CUDA);
    let q4 = DType::Quant(QuantType::Q4_K);
    let weight = |device| Value::new(q4, &[4096, 4096], device).transposed();
    let x = |rows, device| Value::f32(&[rows, 4096], device);
    // One token with weights there: there. The activations are brought.
    assert_eq!(place(&exec, &MATMUL, &[&x(1, Device::CPU), &weight(CUDA)]).device, CUDA);
    // Weights here: 9 MB are not moved for one token, but for a prompt.
    assert_eq!(place(&exec, &MATMUL, &[&x(1, Device::CPU), &weight(Device::CPU)]).device, Device::CPU);
    assert_eq!(place(&exec, &MATMUL, &[&x(2048, Device::CPU), &weight(Device::CPU)]).device, CUDA);
    let model = recorded("discrete");
    let rates = |dtype| model.rates(OpKind::MatMul, OpType::LinearAlgebra, dtype);
    assert_ne!(rates(q4), rates(DType::F32));
    // Unmeasured kin is priced as the slowest of its kind.
    assert_eq!(rates(DType::Quant(QuantType::Q6_K)), (8e12, 2.4e11));
}

/// How often the work of a transformer's blocks changes its device, and where it ends.
fn transformer(exec: &HybridExecutor, tokens: usize, weights: Device, start: Device) -> (usize, Device) {
    let weight =
        |n: usize, k: usize| Value::new(DType::Quant(QuantType::Q4_K), &[n, k], weights).transposed();
    let (square, up, down) = (weight(2048, 2048), weight(8192, 2048), weight(2048, 8192));
    let attention = Attention { causal: Some(0), ..Attention::new(0.1) };
    let mut devices = Vec::new();
    let mut x = Value::f32(&[tokens, 2048], start);
    let mut step = |op: &Op, args: &[&Value]| {
        let out = place(exec, op, args);
        devices.push(out.device);
        out
    };
    for _ in 0..8 {
        let normed = step(&NORM, &[&x]);
        let [q, k, v] = [0, 1, 2].map(|_| {
            let flat = step(&MATMUL, &[&normed, &square]);
            Value::f32(&[1, 16, tokens, 128], flat.device)
        });
        let attended = step(&Op::Attention(attention.clone()), &[&q, &k, &v]);
        let attended = Value::f32(&[tokens, 2048], attended.device);
        let out = step(&MATMUL, &[&attended, &square]);
        x = step(&ADD, &[&x, &out]);
        let normed = step(&NORM, &[&x]);
        let inner = step(&MATMUL, &[&normed, &up]);
        let inner = step(&Op::Unary(UnaryOp::Silu), &[&inner]);
        let fed = step(&MATMUL, &[&inner, &down]);
        x = step(&ADD, &[&x, &fed]);
    }
    (devices.windows(2).filter(|pair| pair[0] != pair[1]).count(), x.device)
}

#[test]
fn work_does_not_go_back_and_forth() {
    for tokens in [1, 16, 512] {
        // Once the work has come to the weights, it stays.
        let discrete = machine("discrete", CUDA);
        for start in [Device::CPU, CUDA] {
            let (changes, end) = transformer(&discrete, tokens, CUDA, start);
            assert!(changes <= 1 && end == CUDA, "{tokens} from {start}: {changes} changes, ends on {end}");
        }
        let software = machine("lavapipe", VULKAN);
        let (changes, end) = transformer(&software, tokens, Device::CPU, Device::CPU);
        assert_eq!((changes, end), (0, Device::CPU), "{tokens}");
    }
    // Where two devices are nearly equally good, the one that has the data keeps the work.
    let equal = |device| {
        let gpu = Arc::new(fake(device));
        let mut twin = recorded("cpu");
        twin.launch_us *= 0.95;
        twin.upload = recorded("integrated").upload;
        twin.download = recorded("integrated").download;
        builder(&[&gpu]).cost(Device::CPU, recorded("cpu")).cost(device, twin).build().unwrap()
    };
    for start in [Device::CPU, VULKAN] {
        let exec = equal(VULKAN);
        let mut x = Value::f32(&[512, 512], start);
        for _ in 0..10 {
            for op in [&MATMUL, &ADD] {
                x = place(&exec, op, &[&x, &x]);
                assert_eq!(x.device, start);
            }
        }
    }
}

/// A device that has to be measured.
fn unmeasured() -> FakeDevice {
    fake(CUDA).measured().capability(|c| {
        c.driver = "1.0".into();
        // Few classes, for the sake of the tests' time.
        c.dtypes = [DTypeSet::EMPTY; OpType::ALL.len()];
        c.dtypes[OpType::Elementwise as usize] = DTypeSet::of(&[DType::F32]);
        c.dtypes[OpType::LinearAlgebra as usize] = DTypeSet::of(&[DType::F32]);
    })
}

/// A slow one.
fn unknown() -> FakeDevice {
    let device = unmeasured();
    device.script(Rule::at(Point::Run).act(Act::Delay(Duration::from_millis(3))));
    device
}

#[test]
fn nothing_is_measured_before_a_choice_depends_on_it() {
    let cuda = Arc::new(unknown());
    let exec = builder(&[&cuda]).cost(Device::CPU, recorded("cpu")).build().unwrap();
    let large = upload(&exec, &ramp(1 << 16), &[256, 256]);
    let small = upload(&exec, &ramp(16), &[4, 4]);
    for policy in [
        Placement::CpuOnly,
        Placement::Require(CUDA),
        Placement::FirstSupported,
        Placement::Prefer(CUDA),
        Placement::GpuThreshold(1),
    ] {
        exec.with_policy(policy).unwrap().run(&ADD, &[large.operand(), large.operand()]).unwrap();
    }
    exec.run(&ADD, &[small.operand(), small.operand()]).unwrap();
    // Only the CPU can do this.
    exec.run(&NORM, &[large.operand()]).unwrap();
    let before = cuda.calls().len();
    assert!(cuda.runs("add") < 10 && cuda.runs("exp") == 0);
    exec.run(&MATMUL, &[large.operand(), large.operand()]).unwrap();
    assert!(cuda.calls().len() > before + 20, "not measured");
    let model = exec.cost_model(CUDA).unwrap();
    assert!(model.launch_us >= 3000.0, "{}", model.launch_us);
    // A device that takes milliseconds to start is not given work of microseconds.
    let after = cuda.calls().len();
    let out = exec.run(&MATMUL, &[large.operand(), large.operand()]).unwrap();
    assert_eq!(out[0].storage.device(), Device::CPU);
    assert!(cuda.calls()[after..].iter().all(|call| call.point != Point::Run), "measured twice");
    assert_eq!(cuda.used() as u64, exec.memory().stats(CUDA).unwrap().reserved);
}

#[test]
fn measurements_are_kept_on_disk_and_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deep/cache");
    // The machine that runs the tests is busy.
    let cache = || CostCache::new(&path).keep_disturbed();
    let measure = |device: FakeDevice| {
        let device = Arc::new(device);
        let exec = builder(&[&device]).cost_cache(cache()).build().unwrap();
        let model = exec.cost_model(CUDA).unwrap();
        (model, device.calls().iter().filter(|call| call.point == Point::Run).count())
    };
    // Where time is short, three programs measure.
    let settle = || {
        let (mut found, mut measured) = (measure(unknown()), 0);
        while found.1 > 0 {
            measured += 1;
            found = measure(unknown());
        }
        assert!((1..=3).contains(&measured), "{measured}");
        found.0
    };
    let first = settle();
    let files = || std::fs::read_dir(&path).unwrap().map(|f| f.unwrap().path()).collect::<Vec<_>>();
    assert_eq!(files().len(), 1, "{:?}", files());
    let kept = Calibration::from_json(&std::fs::read_to_string(&files()[0]).unwrap()).unwrap();
    assert_eq!((kept.family.as_str(), kept.driver.as_str(), &kept.model), ("cuda", "1.0", &first));
    assert!(kept.is_settled() && kept.fits(&unknown()));
    // Another driver is another device.
    let newer = || unknown().capability(|c| c.driver = "1.1".into());
    assert!(!kept.fits(&newer()) && measure(newer()).1 > 0);
    assert_eq!(files().len(), 2);
    // As are other kernels; and a month is too long, as is a date to come.
    assert!(!kept.fits(&unknown().capability(|c| c.kernels = 1)));
    let month = 30 * 24 * 60 * 60;
    for (measured_at, fits) in [
        (kept.measured_at - month - 60, false),
        (kept.measured_at + 3600, false),
        (kept.measured_at - 3600, true),
    ] {
        assert_eq!(Calibration { measured_at, ..kept.clone() }.fits(&unknown()), fits);
    }
    // A file that makes no sense is measured over.
    for wrong in ["{", "{}", &kept.to_json().replace("\"launch_us\": ", "\"launch_us\": -")] {
        for file in files() {
            std::fs::write(file, wrong).unwrap();
        }
        settle();
    }
    // Nor is a half measurement the last word.
    let half = Calibration { complete: false, attempts: 1, ..kept };
    cache().store(&half);
    assert!(measure(unknown()).1 > 0);
}

#[test]
fn a_slow_compiler_takes_nothing_from_the_rates() {
    let matmul = |device: &FakeDevice| {
        // A start that hides what small matmuls take.
        device.script(Rule::at(Point::Run).act(Act::Delay(Duration::from_micros(100))));
        let calibration = Calibration::measure_within(device, Duration::from_secs(6)).unwrap();
        calibration.model.rates(OpKind::MatMul, OpType::LinearAlgebra, DType::F32).0
    };
    let slowly = || {
        let device = unmeasured();
        // The time for all sizes of a probe is a twelfth of the limit.
        let compile = Act::Delay(Duration::from_secs(1));
        device.script(Rule::at(Point::Run).op("matmul").times(1).act(compile));
        device
    };
    // What other programs on the machine take from one attempt they do not take from each of a few.
    let attempts = std::iter::repeat_with(|| (matmul(&unmeasured()), matmul(&slowly()))).take(5);
    let mut seen = Vec::new();
    let reached = attempts.inspect(|pair| seen.push(*pair)).any(|(cached, compiled)| compiled > 0.4 * cached);
    assert!(reached, "rates of cached and compiled kernels: {seen:?}");
}

#[test]
fn matmuls_of_a_library_have_rates_of_their_own() {
    let layout = Layout::contiguous(shape(&[256, 256]));
    let meta = TensorMeta { dtype: DType::F32, layout: &layout, device: CUDA };
    let us = |model: &CostModel, batch_invariant| {
        let op = Op::MatMul(MatMul { batch_invariant, ..MatMul::default() });
        model.run_us(&op, &[meta, meta], &op.infer(&[meta, meta]).unwrap())
    };
    let ops = |model: &CostModel| {
        let named = model.rates.iter().filter(|rate| rate.of == RateOf::Op(OpKind::MatMul));
        named.map(|rate| rate.dtype).collect::<Vec<_>>()
    };
    let model = Calibration::measure(&unmeasured()).unwrap().model;
    assert_eq!(ops(&model), []);
    assert_eq!(us(&model, true), us(&model, false));
    let fast = unmeasured().with_blas_library(Duration::from_millis(2));
    // The machine that runs the tests is busy: time for everything.
    let calibration = Calibration::measure_within(&fast, Duration::from_secs(60)).unwrap();
    assert!(ops(&calibration.model).contains(&DType::F32));
    let model = &calibration.model;
    // The smallest matmuls take two milliseconds there, the largest as much more as they have more to compute.
    let (ordered, free) = (us(model, true), us(model, false));
    assert!(free < ordered / 3.0, "{ordered} {free}");
    let kept = Calibration::from_json(&calibration.to_json()).unwrap();
    assert_eq!(ops(&kept.model), ops(model));
}

#[test]
fn a_disturbed_measurement_is_not_kept() {
    let folder = tempfile::tempdir().unwrap();
    let cache = CostCache::new(folder.path());
    let kept = Calibration::measure(&unknown()).unwrap();
    cache.store(&Calibration { disturbed: Some("a test".into()), ..kept.clone() });
    assert!(cache.load(&unknown()).is_none());
    cache.store(&Calibration { disturbed: None, ..kept });
    assert!(cache.load(&unknown()).is_some());
}

/// A program that keeps one core busy for as long as this lives.
#[cfg(unix)]
struct Hog(std::process::Child);

#[cfg(unix)]
impl Hog {
    fn start() -> Hog {
        Hog(std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap())
    }
}

#[cfg(unix)]
impl Drop for Hog {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[cfg(unix)]
#[test]
fn measurements_beside_a_busy_program_agree_or_are_not_kept() {
    let cpu = rustorch_cpu::CpuBackend::new(std::thread::available_parallelism().map_or(1, usize::from));
    let runs: Vec<Calibration> = [false, true, false, true]
        .map(|disturbed| {
            let _hog = disturbed.then(Hog::start);
            Calibration::measure(&cpu).unwrap()
        })
        .into();
    let gemm = |c: &Calibration| c.model.rates(OpKind::MatMul, OpType::LinearAlgebra, DType::F32).0;
    let kept: Vec<f64> = runs.iter().filter(|run| run.disturbed.is_none()).map(gemm).collect();
    println!("{} of 4 kept: {kept:?}; all: {:?}", kept.len(), runs.iter().map(gemm).collect::<Vec<_>>());
    for (a, b) in kept.iter().flat_map(|a| kept.iter().map(move |b| (a, b))) {
        assert!(a <= &(1.25 * b), "{a} {b}");
    }
    // Other programs, and other guests of the same host, take of the memory's bandwidth what no core's time tells.
    let bandwidth = |c: &Calibration| c.model.rates(ADD.kind(), OpType::Elementwise, DType::F32).1;
    let kept: Vec<f64> = runs.iter().filter(|run| run.disturbed.is_none()).map(bandwidth).collect();
    for (a, b) in kept.iter().flat_map(|a| kept.iter().map(move |b| (a, b))) {
        assert!(a <= &(4.0 * b), "{a} {b}");
    }
    let places = |calibration: &Calibration| {
        let gpu = Arc::new(fake(CUDA));
        let beside = |gpu_cost: CostModel| {
            let builder = builder(&[&gpu]).cost(Device::CPU, calibration.model.clone());
            builder.cost(CUDA, gpu_cost).build().unwrap()
        };
        let discrete = recorded("discrete");
        let exec = beside(discrete.clone());
        // The recorded bus takes about as long as a memory that others use too: near a tie, places say nothing about a measurement.
        let upload = Link { bandwidth: discrete.upload.bandwidth / 32.0, ..discrete.upload };
        let narrow = beside(CostModel { upload, ..discrete });
        let vector = |n: usize, at| Value::f32(&[n], at);
        let mut places = vec![
            place(&exec, &ADD, &[&vector(64, Device::CPU), &vector(64, Device::CPU)]).device,
            place(&narrow, &ADD, &[&vector(1 << 24, Device::CPU), &vector(1 << 24, Device::CPU)]).device,
            place(&exec, &ADD, &[&vector(1 << 24, CUDA), &vector(1 << 24, CUDA)]).device,
        ];
        places.extend([8, 4096, 8192].map(|n| matmul(&exec, n, Device::CPU)));
        places.extend([1024, 4096].map(|n| matmul(&exec, n, CUDA)));
        places
    };
    for run in &runs[1..] {
        assert_eq!(places(run), places(&runs[0]));
    }
}

#[test]
fn a_cache_that_cannot_be_written_is_no_error() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let cuda = Arc::new(unknown());
    let exec = builder(&[&cuda]).cost_cache(CostCache::new(file.path().join("x"))).build().unwrap();
    assert!(exec.cost_model(CUDA).unwrap().launch_us.is_finite());
}

#[test]
fn a_device_that_cannot_be_measured_is_chosen_last() {
    let lost = fake(CUDA).measured();
    lost.script(Rule::at(Point::Run).act(Act::Fail));
    let unable = unknown().capability(|c| c.dtypes[OpType::Elementwise as usize] = DTypeSet::EMPTY);
    for device in [lost, unable] {
        let device = Arc::new(device);
        let exec = builder(&[&device]).cost(Device::CPU, recorded("cpu")).build().unwrap();
        let x = upload_to(&exec, &ramp(1 << 16), &[256, 256], CUDA);
        let estimate = exec.estimate(&MATMUL, &[x.operand().meta(), x.operand().meta()]).unwrap();
        assert_eq!(estimate.iter().map(|e| e.device).collect::<Vec<_>>(), [Device::CPU, CUDA]);
        assert_eq!(estimate[1].us, f64::INFINITY);
        assert_eq!(exec.cost_model(CUDA).unwrap(), CostModel::UNKNOWN);
    }
}

#[test]
fn calibrations_survive_text() {
    for name in ["cpu", "discrete", "integrated", "lavapipe"] {
        let model = recorded(name);
        let calibration = Calibration {
            family: "cuda".into(),
            name: "a \"name\"".into(),
            driver: String::new(),
            version: "1".into(),
            kernels: u64::MAX - 1,
            measured_at: 1_763_000_000,
            complete: true,
            attempts: 2,
            disturbed: None,
            model,
        };
        assert_eq!(Calibration::from_json(&calibration.to_json()).unwrap(), calibration);
    }
    let text = include_str!("../calibrations/discrete.json");
    for (from, to, what) in [
        ("\"Normalization\"", "\"Cooking\"", "Cooking"),
        ("\"Q4_K\"", "\"Q4_X\"", "Q4_X"),
        ("\"class\"", "\"clazz\"", "of an operation or of a class"),
        ("400000000000.0", "0.0", "no rate"),
        ("6.0", "-6.0", "no time"),
    ] {
        let error = Calibration::from_json(&text.replace(from, to)).unwrap_err().to_string();
        assert!(error.contains(what), "{from}: {error}");
    }
}

#[test]
fn a_cost_model_for_a_device_that_is_not_here_is_an_error() {
    let error = builder(&[]).cost(CUDA, recorded("discrete")).build().unwrap_err().to_string();
    assert!(error.contains("a cost model names cuda:0") && error.contains("cpu"), "{error}");
}

#[test]
fn the_cpu_is_measured_in_time() {
    let cpu = CpuBackend::new(1);
    let begun = Instant::now();
    let calibration = Calibration::measure(&cpu).unwrap();
    let took = begun.elapsed();
    let model = &calibration.model;
    println!("{took:?} {}", calibration.to_json());
    // One run may exceed the budget, on a machine that does other things as well.
    assert!(took < 4 * Duration::from_millis(800), "{took:?}");
    assert!(model.launch_us > 0.0 && model.launch_us < 1e4, "{}", model.launch_us);
    assert_eq!((model.upload, model.download), (Link::NONE, Link::NONE));
    let (flops, bandwidth) = model.rates(OpKind::MatMul, OpType::LinearAlgebra, DType::F32);
    assert!(flops > 1e6 && flops < 1e15 && bandwidth > 1e6 && bandwidth < 1e14);
}

/// The folder of measurements in an environment.
fn dir(vars: &[(&str, &str)]) -> Option<PathBuf> {
    cache_dir(|name| vars.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).into()))
}

#[test]
fn the_variable_counts_before_the_platform() {
    assert_eq!(dir(&[("RUSTORCH_CACHE_DIR", "/r"), ("HOME", "/h")]), Some("/r".into()));
    assert_eq!(dir(&[]), None);
    assert_eq!(dir(&[("RUSTORCH_CACHE_DIR", "")]), None);
}

#[cfg(all(unix, not(target_vendor = "apple")))]
#[test]
fn unix_follows_the_base_directory_specification() {
    assert_eq!(dir(&[("XDG_CACHE_HOME", "/x"), ("HOME", "/h")]), Some("/x/rustorch".into()));
    assert_eq!(dir(&[("XDG_CACHE_HOME", "x"), ("HOME", "/h")]), Some("/h/.cache/rustorch".into()));
    assert_eq!(dir(&[("HOME", "/h")]), Some("/h/.cache/rustorch".into()));
}

#[test]
fn devices_with_the_same_letters_have_files_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let cache = CostCache::new(folder.path());
    for (name, driver) in [("ab", "c"), ("a", "bc")] {
        let mut calibration = Calibration::from_json(include_str!("../calibrations/cpu.json")).unwrap();
        (calibration.name, calibration.driver) = (name.into(), driver.into());
        cache.store(&calibration);
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
}
