//! The ways of choosing devices on a Mac, by fakes of Core ML and Metal.

use crate::common::graphs::{SIDE, matrix, run};
use crate::common::regions::{captured, cpu_cost, product, unary};
use crate::common::{builder, bytes, fake, ramp, shape, upload};
use rustorch_core::{
    C64, Conv, ConvParams, Decline, Device, DeviceType, Op, OpType, Scan, ScanOp, UnaryOp, Verdict,
};
use rustorch_runtime::{Environment, HybridExecutor, OpTable, Output, Placement, Program, fallback_order};
use rustorch_testkit::{FakeCompiler, FakeDevice, Point};
use smallvec::smallvec;
use std::sync::Arc;

const METAL: Device = Device::metal(0);

/// Core ML, which has no operations and compiles all but scans, and Metal.
fn devices() -> [Arc<FakeDevice>; 2] {
    let core_ml = fake(Device::COREML).capability(|can| {
        can.dtypes = [Default::default(); OpType::ALL.len()];
        can.reaches = vec![Device::CPU];
    });
    let compiler = FakeCompiler::new().accepts_ops(|op| !matches!(op, Op::Scan(_)));
    // Beside a Metal that is as slow every region pays.
    let metal = fake(METAL).cost(|cost| cost.launch_us = 1000.0);
    [Arc::new(core_ml.with_compiler(compiler)), Arc::new(metal)]
}

fn mac() -> ([Arc<FakeDevice>; 2], HybridExecutor) {
    let [core_ml, metal] = devices();
    let executor = builder(&[&core_ml, &metal]).cost(Device::CPU, cpu_cost(1000.0)).build().unwrap();
    ([core_ml, metal], executor)
}

fn executor(base: &HybridExecutor, name: &str) -> HybridExecutor {
    base.resolve(name.parse().unwrap()).unwrap().executor
}

#[test]
fn names_round_trip_and_resolve_to_an_order() {
    let (_, base) = mac();
    assert_eq!(base.fallback_order().unwrap(), [Device::COREML, METAL, Device::CPU]);
    let found = [Device::opencl(0), METAL, Device::COREML];
    assert_eq!(fallback_order(&found), [Device::COREML, METAL, Device::opencl(0), Device::CPU]);
    let table = OpTable::new()
        .class(OpType::LinearAlgebra, METAL)
        .class(OpType::Normalization, METAL)
        .class(OpType::Convolution, Device::COREML);
    for (name, wanted, placement) in [
        ("coreml", DeviceType::Only(Device::COREML), Placement::Order(smallvec![Device::COREML])),
        ("coreml-hybrid", DeviceType::CoreMlHybrid(None), Placement::Auto),
        (
            "coreml-hybrid:metal:0",
            DeviceType::CoreMlHybrid(Some(METAL)),
            Placement::Order(smallvec![Device::COREML, METAL]),
        ),
        ("mac-hybrid", DeviceType::MacHybrid, Placement::ByOp(table)),
    ] {
        assert_eq!((wanted.to_string().as_str(), name.parse()), (name, Ok(wanted)));
        let target = base.resolve(wanted).unwrap();
        assert_eq!((target.device, target.executor.placement()), (Device::CPU, &placement), "{name}");
    }
    assert_eq!("CoreML-Hybrid:Metal".parse(), Ok(DeviceType::CoreMlHybrid(Some(METAL))));
    assert!("coreml-hybrid:".parse::<DeviceType>().is_err());
    assert!("coreml:1".parse::<DeviceType>().is_err());
    // Where one of the devices is not.
    let [core_ml, metal] = devices();
    for (name, fake) in [("coreml", &metal), ("coreml-hybrid", &metal), ("mac-hybrid", &core_ml)] {
        let error = builder(&[fake]).build().unwrap().resolve(name.parse().unwrap()).unwrap_err().to_string();
        assert!(error.contains("is not here; this executor has"), "{name}: {error}");
    }
}

fn scan(x: &Output) -> Output {
    run(&Op::Scan(Scan { op: ScanOp::Sum, axis: 0 }), &[(x, &x.layout)])
}

fn run_program(executor: &HybridExecutor, program: &Program, x: &Output) -> Vec<u8> {
    let outputs = program.run(&[x.operand()], Vec::new).unwrap();
    bytes(executor, &outputs[0].operand())
}

#[test]
fn what_core_ml_lacks_goes_to_metal_and_without_gpus_to_the_cpu() {
    let ([core_ml, metal], base) = mac();
    let f = |x: &Output| vec![product(&scan(&product(x, &unary(UnaryOp::Tanh, x))), x)];
    let x = upload(&base, &matrix(1), &[SIDE, SIDE]);
    let cpu = base.with_policy(Placement::CpuOnly).unwrap();
    let expected = run_program(&cpu, &Program::new(&cpu, captured(&cpu, &[SIDE, SIDE], f), &[]).unwrap(), &x);
    for name in ["coreml", "coreml-hybrid:metal"] {
        let executor = executor(&base, name);
        let before = (core_ml.calls_at(Point::RunRegion), metal.runs("cumsum"));
        let program = Program::new(&executor, captured(&executor, &[SIDE, SIDE], f), &[]).unwrap();
        assert_eq!(run_program(&executor, &program, &x), expected, "{name}");
        let plan = program.plan().unwrap();
        assert_eq!(plan.regions.len(), 2, "{name}: {plan}");
        assert!(plan.regions.iter().all(|region| region.device == Device::COREML), "{plan}");
        let after = (core_ml.calls_at(Point::RunRegion), metal.runs("cumsum"));
        assert_eq!(after, (before.0 + 2, before.1 + 1), "{name}");
        // The record says why Core ML did not.
        let (_, explanation) =
            executor.explain(|| drop(executor.run(&Op::Unary(UnaryOp::Neg), &[x.operand()])));
        let record = &explanation.records()[0];
        assert_eq!(record.device, Some(METAL), "{explanation}");
        let why = Verdict::Declined(Decline::Op("neg"));
        assert!(record.considered.contains(&(Device::COREML, why)), "{explanation}");
    }
    let off = |name: &str| (name == "RUSTORCH_DISABLE_GPU").then(|| "1".to_owned());
    let built =
        builder(&[&core_ml, &metal]).environment(&Environment::from_fn(off)).unwrap().build().unwrap();
    assert_eq!(built.fallback_order().unwrap(), [Device::CPU]);
    let before = metal.runs("cumsum");
    let first = built.with_policy(Placement::FirstSupported).unwrap();
    let made = first.run(&Op::Scan(Scan { op: ScanOp::Sum, axis: 0 }), &[x.operand()]).unwrap();
    assert_eq!((made[0].storage.device(), metal.runs("cumsum")), (Device::CPU, before));
    assert!(built.resolve(DeviceType::MacHybrid).is_err());
}

#[test]
fn complex_operations_pass_core_ml_by() {
    let ([core_ml, _], base) = mac();
    let executor = executor(&base, "coreml-hybrid:metal");
    let values: Vec<C64> = ramp(8).into_iter().map(|x| C64::new(x, 1.0)).collect();
    let x = upload(&executor, &values, &[8]);
    let exp = Op::Unary(UnaryOp::Exp);
    let (_, explanation) = executor.explain(|| drop(executor.run(&exp, &[x.operand()]).unwrap()));
    let record = &explanation.records()[0];
    assert!(
        record.considered.iter().any(|(device, verdict)| {
            *device == Device::COREML && matches!(verdict, Verdict::Declined(_))
        })
    );
    assert_eq!(core_ml.runs("exp"), 0);
}

#[test]
fn mac_hybrid_gives_matmuls_to_metal_and_convolutions_to_core_ml() {
    let ([core_ml, metal], base) = mac();
    let executor = executor(&base, "mac-hybrid");
    let weight = upload(&executor, &ramp(9), &[1, 1, 3, 3]);
    let conv = |x: &Output| {
        let image = x.layout.reshape(&shape(&[1, 1, SIDE, SIDE])).unwrap().unwrap();
        let op = Conv { params: ConvParams::new(2), activation: None };
        run(&Op::Conv(Box::new(op)), &[(x, &image), (&weight, &weight.layout)])
    };
    let f = |x: &Output| vec![unary(UnaryOp::Tanh, &conv(&product(x, x)))];
    let program = Program::new(&executor, captured(&executor, &[SIDE, SIDE], f), &[]).unwrap();
    let plan = program.plan().unwrap();
    assert_eq!(plan.regions.len(), 1, "{plan}");
    let x = upload(&executor, &matrix(2), &[SIDE, SIDE]);
    let before = metal.runs("matmul");
    let on_mac = run_program(&executor, &program, &x);
    assert_eq!((core_ml.calls_at(Point::RunRegion), metal.runs("matmul")), (1, before + 1));
    let cpu = base.with_policy(Placement::CpuOnly).unwrap();
    let program = Program::new(&cpu, captured(&cpu, &[SIDE, SIDE], f), &[]).unwrap();
    assert_eq!(on_mac, run_program(&cpu, &program, &x));
}
