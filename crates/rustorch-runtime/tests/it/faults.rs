//! Faults: fallback, quarantine, lost devices.
#![allow(clippy::unwrap_used, reason = "a step that fails fails the test")]

use crate::common::{self, CUDA, OPENCL, builder, bytes, cpu, fake, floats, ramp, shape, upload, upload_to};
use rustorch_core::{
    Backend, BinaryOp, DType, Decline, Device, Distribution, Error, Fault, FusedPointwise, IndexSelect, Op,
    OpKind, PhiloxKey, Random, UnaryOp, Verdict,
};
use rustorch_runtime::{HybridExecutor, OnFault, OpKey, Operand, Placement, Storage};
use rustorch_testkit::{Act, FakeDevice, Point, Rule};
use std::sync::Arc;

const NEG: Op = Op::Unary(UnaryOp::Neg);
const ADD: Op = Op::Binary(BinaryOp::Add);

/// An executor that tries a fake CUDA device, a fake OpenCL device and the CPU, in this order.
fn devices() -> (Arc<FakeDevice>, Arc<FakeDevice>, HybridExecutor) {
    let (cuda, opencl) = (Arc::new(fake(CUDA)), Arc::new(fake(OPENCL)));
    let exec = builder(&[&cuda, &opencl]).placement(Placement::FirstSupported).build().unwrap();
    (cuda, opencl, exec)
}

fn place(exec: &HybridExecutor, op: &Op, args: &[Operand<'_>]) -> Device {
    let (out, explanation) = exec.explain(|| exec.run(op, args).unwrap());
    assert_eq!(out.len(), 1);
    explanation.records()[0].device.unwrap()
}

#[test]
fn a_failing_operation_is_quarantined_on_its_device_and_dtype() {
    for act in [Act::Fail, Act::Doubt, Act::TimeOut] {
        let (cuda, _, exec) = devices();
        cuda.script(Rule::at(Point::Run).op("neg").times(1).act(act.clone()));
        let x = upload(&exec, &ramp(4), &[4]);
        let out = exec.run(&NEG, &[x.operand()]).unwrap();
        assert_eq!(floats(&exec, &out[0].operand()), [3.0, 2.5, 2.0, 1.5]);
        assert_eq!(place(&exec, &NEG, &[x.operand()]), OPENCL);
        assert_eq!(cuda.runs("neg"), 1);
        let key = OpKey {
            op: UnaryOp::Neg.into(),
            pattern: None,
            dtypes: [DType::F32].as_slice().into(),
            size_class: 5,
        };
        assert_eq!(exec.health().quarantined(), [(CUDA, key)], "{act:?}");
        // Another operation is not affected.
        assert_eq!(place(&exec, &ADD, &[x.operand(), x.operand()]), CUDA);
        let (_, explanation) = exec.explain(|| exec.run(&NEG, &[x.operand()]));
        let verdict = (CUDA, Verdict::Declined(Decline::Quarantined));
        assert!(explanation.records()[0].considered.contains(&verdict));
    }
}

#[test]
fn a_failing_fused_op_leaves_other_fused_ops_alone() {
    let fused_of = |unary: UnaryOp, rate: f64| {
        let mut fused = FusedPointwise::builder(1).unwrap();
        let (x, rate) = (fused.input(0).unwrap(), fused.constant(rate, DType::F32).unwrap());
        let step = fused.step(Op::Unary(unary), &[x]).unwrap();
        let y = fused.step(Op::Binary(BinaryOp::Mul), &[step, rate]).unwrap();
        Op::FusedPointwise(fused.finish(y).unwrap())
    };
    let (bad, good) = (fused_of(UnaryOp::Neg, 0.5), fused_of(UnaryOp::Abs, 0.5));
    let (cuda, _, exec) = devices();
    cuda.script(Rule::at(Point::Run).op("fused_pointwise").times(1).act(Act::Fail));
    let x = upload(&exec, &ramp(4), &[4]);
    exec.run(&bad, &[x.operand()]).unwrap();
    let pattern = Some("-x0 * f32".to_owned());
    let key =
        OpKey { op: OpKind::FusedPointwise, pattern, dtypes: [DType::F32].as_slice().into(), size_class: 5 };
    assert_eq!(exec.health().quarantined(), [(CUDA, key)]);
    assert_eq!(place(&exec, &bad, &[x.operand()]), OPENCL);
    assert_eq!(place(&exec, &good, &[x.operand()]), CUDA);
    // The same program again is the same operation, whoever built it, and whatever its constants are: a rate that changes with
    // every step of a training run must not fail anew each time.
    assert_eq!(place(&exec, &fused_of(UnaryOp::Neg, 0.25), &[x.operand()]), OPENCL);
}

#[test]
fn a_lost_device_is_out_and_its_data_with_it() {
    let (cuda, _, exec) = devices();
    let there = upload_to(&exec, &ramp(4), &[4], CUDA);
    let here = upload(&exec, &ramp(4), &[4]);
    cuda.script(Rule::at(Point::Run).op("add").times(1).act(Act::Lose));
    let out = exec.run(&ADD, &[here.operand(), here.operand()]).unwrap();
    assert_eq!(out[0].storage.device(), OPENCL);
    assert_eq!(exec.health().lost(), [CUDA]);
    let (_, explanation) = exec.explain(|| exec.run(&NEG, &[here.operand()]).unwrap());
    assert_eq!(explanation.records()[0].considered, [(CUDA, Verdict::Lost), (OPENCL, Verdict::Ran)]);

    let mut target = [0u8; 16];
    for error in [
        exec.run(&NEG, &[there.operand()]).unwrap_err(),
        exec.download(&there.operand(), &mut target).unwrap_err(),
        exec.transfer(&there.operand(), Device::CPU).unwrap_err(),
    ] {
        assert!(matches!(&error, Error::Fault(f) if matches!(**f, Fault::DeviceLost { device: CUDA, .. })));
        assert!(error.to_string().contains("no copy elsewhere"), "{error}");
    }
    assert!(exec.upload(&[0; 4], DType::F32, &shape(&[1]), CUDA).is_err());
    let into = exec.run_into(&NEG, &[here.operand()], &[there.operand()]).unwrap_err();
    assert!(into.to_string().contains("lost"), "{into}");
}

#[test]
fn data_lost_while_it_is_used_is_an_error_that_says_so() {
    let (cuda, _, exec) = devices();
    let x = upload_to(&exec, &ramp(4), &[4], CUDA);
    cuda.script(Rule::at(Point::Run).act(Act::Lose));
    let error = exec.run(&NEG, &[x.operand()]).unwrap_err().to_string();
    assert!(error.contains("cuda:0 is lost") && error.contains("neg"), "{error}");
}

#[test]
fn copies_of_mapped_files_survive_their_device() {
    let (cuda, _, exec) = devices();
    let file: Vec<u8> = ramp(8).iter().flat_map(|x| x.to_ne_bytes()).collect();
    // SAFETY: a vector that nobody changes.
    let file = unsafe { Storage::shared(Arc::new(file)) };
    let layout = common::contiguous(&[8]);
    let half = layout.slice(0, 4, 4, 1).unwrap();
    let mapped = Operand { storage: &file, dtype: DType::F32, layout: &half };
    let weight = exec.transfer(&mapped, CUDA).unwrap();
    let tail = weight.layout.slice(0, 1, 3, 1).unwrap();
    let tail = Operand { layout: &tail, ..weight.operand() };
    cuda.script(Rule::at(Point::Run).act(Act::Lose));
    let out = exec.run(&NEG, &[tail]).unwrap();
    assert_eq!(floats(&exec, &out[0].operand()), [0.5, 0.0, -0.5]);
    assert_eq!(floats(&exec, &tail), [-0.5, 0.0, 0.5]);
}

#[test]
fn memory_kept_for_reuse_is_given_back_before_giving_up() {
    let cuda = Arc::new(fake(CUDA).memory_limit(4096));
    let exec = builder(&[&cuda]).placement(Placement::Require(CUDA)).build().unwrap();
    // Three blocks of a size that the next operation cannot use are kept.
    for _ in 0..3 {
        drop([0, 1, 2].map(|_| upload_to(&exec, &ramp(256), &[256], CUDA)));
    }
    assert_eq!((cuda.used(), exec.memory().stats(CUDA).unwrap().allocated), (3072, 0));
    let x = upload(&exec, &ramp(450), &[450]);
    let out = exec.run(&NEG, &[x.operand()]).unwrap();
    assert_eq!(out[0].storage.device(), CUDA);
    assert!(exec.memory().stats(CUDA).unwrap().faults > 0);
    assert_eq!(exec.health().quarantined(), []);
}

#[test]
fn a_device_without_memory_is_passed_over_for_this_time_only() {
    let cuda = Arc::new(fake(CUDA).memory_limit(1 << 12));
    let exec = builder(&[&cuda]).placement(Placement::Prefer(CUDA)).build().unwrap();
    let large = upload(&exec, &ramp(4096), &[4096]);
    let small = upload(&exec, &ramp(16), &[16]);
    let (out, explanation) = exec.explain(|| exec.run(&NEG, &[large.operand()]).unwrap());
    assert_eq!(out[0].storage.device(), Device::CPU);
    let (device, verdict) = &explanation.records()[0].considered[0];
    assert!(matches!(verdict, Verdict::Failed(Fault::OutOfMemory { .. })) && *device == CUDA);
    assert_eq!(place(&exec, &NEG, &[small.operand()]), CUDA);
    // Running, too, may find no memory.
    cuda.script(Rule::at(Point::Run).times(1).act(Act::RunOut));
    assert_eq!(place(&exec, &NEG, &[small.operand()]), CUDA);
    cuda.script(Rule::at(Point::Run).times(2).act(Act::RunOut));
    assert_eq!(place(&exec, &NEG, &[small.operand()]), Device::CPU);
    assert_eq!(place(&exec, &NEG, &[small.operand()]), CUDA);
}

#[test]
fn a_limit_on_memory_is_a_fault_like_the_device_s_own() {
    let cuda = Arc::new(fake(CUDA));
    let exec = builder(&[&cuda]).placement(Placement::Require(CUDA)).build().unwrap();
    exec.memory().set_limit(CUDA, Some(1024));
    let x = upload(&exec, &ramp(4096), &[4096]);
    let error = exec.run(&NEG, &[x.operand()]).unwrap_err().to_string();
    assert!(error.contains("out of memory on cuda:0: 16384 bytes requested"), "{error}");
    exec.memory().set_limit(CUDA, None);
    exec.run(&NEG, &[x.operand()]).unwrap();
}

#[test]
fn the_caller_s_mistakes_go_to_no_other_device() {
    let (cuda, opencl, exec) = devices();
    let x = upload(&exec, &ramp(4), &[2, 2]);
    let ids = upload(&exec, &[5i64], &[1]);
    let select = Op::IndexSelect(IndexSelect { axis: 0 });
    let error = exec.run(&select, &[x.operand(), ids.operand()]).unwrap_err();
    assert!(matches!(error, Error::Index { index: 5, len: 2, .. }), "{error}");
    assert_eq!((cuda.runs("index_select"), opencl.runs("index_select")), (1, 0));
    let y = upload(&exec, &ramp(3), &[3]);
    assert!(matches!(exec.run(&ADD, &[x.operand(), y.operand()]), Err(Error::Shape { .. })));
    assert_eq!(cuda.runs("add"), 0);
    assert_eq!(exec.health().quarantined(), []);
}

#[test]
fn fallback_can_be_turned_off() {
    let (cuda, opencl, exec) = devices();
    let exec = exec.with_on_fault(OnFault::Error);
    cuda.script(Rule::at(Point::Run).times(1));
    let x = upload(&exec, &ramp(4), &[4]);
    let error = exec.run(&NEG, &[x.operand()]).unwrap_err();
    let Error::Dispatch(dispatch) = &error else { panic!("{error}") };
    assert_eq!(dispatch.considered.len(), 1);
    assert!(error.to_string().contains("cuda:0: failed: cuda:0: by script"), "{error}");
    assert_eq!(opencl.runs("neg"), 0);
    // Declining is no failure: the quarantined device declines now.
    assert_eq!(place(&exec, &NEG, &[x.operand()]), OPENCL);
}

#[test]
fn a_strict_policy_does_not_fall_back() {
    let (cuda, _, exec) = devices();
    let exec = exec.with_policy(Placement::GpuOnly).unwrap();
    cuda.script(Rule::at(Point::Run).act(Act::Fail));
    let x = upload(&exec, &ramp(4), &[4]);
    assert_eq!(exec.run(&NEG, &[x.operand()]).unwrap()[0].storage.device(), OPENCL);
    let require = exec.with_policy(Placement::Require(CUDA)).unwrap();
    let error = require.run(&ADD, &[x.operand(), x.operand()]).unwrap_err().to_string();
    assert!(error.contains("cuda:0: failed") && error.contains("cpu: excluded"), "{error}");
}

#[test]
fn a_transfer_that_fails_quarantines_nothing() {
    let (cuda, _, exec) = devices();
    cuda.script(Rule::at(Point::CopyIn).times(1));
    let x = upload(&exec, &ramp(4), &[4]);
    assert_eq!(place(&exec, &NEG, &[x.operand()]), OPENCL);
    assert_eq!(place(&exec, &NEG, &[x.operand()]), CUDA);
    assert_eq!(exec.health().quarantined(), []);
}

#[test]
fn results_that_cannot_return_stay_where_they_are() {
    let (cuda, _, exec) = devices();
    let x = upload_to(&exec, &ramp(4), &[4], CUDA);
    cuda.script(Rule::at(Point::Run).times(1));
    cuda.script(Rule::at(Point::CopyIn).times(1));
    let out = exec.run(&NEG, &[x.operand()]).unwrap();
    assert_eq!(out[0].storage.device(), OPENCL);
    // The next time it returns.
    assert_eq!(exec.run(&NEG, &[x.operand()]).unwrap()[0].storage.device(), CUDA);
}

#[test]
fn random_numbers_are_the_same_wherever_they_are_drawn() {
    let (cuda, opencl, exec) = devices();
    let random = Op::Random(Random {
        distribution: Distribution::Uniform { low: 0.0, high: 1.0 },
        shape: shape(&[64]),
        dtype: DType::F32,
        key: PhiloxKey { seed: 7, offset: 3 },
    });
    let draw = |exec: &HybridExecutor| bytes(exec, &exec.run(&random, &[]).unwrap()[0].operand());
    let on_cuda = draw(&exec);
    cuda.script(Rule::at(Point::Run).times(1));
    let on_opencl = draw(&exec);
    opencl.script(Rule::at(Point::Run).times(1));
    let on_cpu = draw(&exec);
    assert_eq!((cuda.runs("rand"), opencl.runs("rand")), (2, 2));
    assert_eq!(on_cuda, on_opencl);
    assert_eq!(on_cuda, on_cpu);
}

#[test]
fn in_place_operations_survive_a_device_that_spoils_their_destination() {
    let (cuda, _, exec) = devices();
    cuda.script(Rule::at(Point::Run).op("neg").times(1));
    let x = upload_to(&exec, &ramp(4), &[4], CUDA);
    // Onto itself, and onto memory apart.
    exec.run_into(&NEG, &[x.operand()], &[x.operand()]).unwrap();
    assert_eq!(floats(&exec, &x.operand()), [3.0, 2.5, 2.0, 1.5]);
    cuda.script(Rule::at(Point::Run).op("add").times(1));
    let y = upload_to(&exec, &ramp(4), &[4], CUDA);
    exec.run_into(&ADD, &[x.operand(), x.operand()], &[y.operand()]).unwrap();
    assert_eq!(floats(&exec, &y.operand()), [6.0, 5.0, 4.0, 3.0]);
}

#[test]
fn a_nan_that_the_cpu_does_not_confirm_is_the_device_s_fault() {
    let (cuda, _, exec) = devices();
    let exec = exec.with_policy(Placement::Prefer(CUDA)).unwrap().with_number_check(true);
    cuda.script(Rule::at(Point::Run).op("neg").times(1).act(Act::Nan));
    let x = upload(&exec, &ramp(4), &[4]);
    let out = exec.run(&NEG, &[x.operand()]).unwrap();
    assert_eq!(floats(&exec, &out[0].operand()), [3.0, 2.5, 2.0, 1.5]);
    assert_eq!(exec.health().quarantined().len(), 1);

    // The logarithm of −3 has no value on any device.
    let out = exec.run(&Op::Unary(UnaryOp::Log), &[x.operand()]).unwrap();
    assert!(floats(&exec, &out[0].operand())[0].is_nan());
    assert_eq!(exec.health().quarantined().len(), 1);

    // Unchecked, the NaN passes.
    let (cuda, _, exec) = devices();
    cuda.script(Rule::at(Point::Run).op("neg").times(1).act(Act::Nan));
    let out = exec.run(&NEG, &[x.operand()]).unwrap();
    assert!(floats(&exec, &out[0].operand())[0].is_nan());
}

#[test]
fn a_fault_of_the_cpu_is_reported_and_forgotten() {
    let cpu = Arc::new(FakeDevice::new(Device::CPU, cpu()));
    let exec = HybridExecutor::builder().backend(Arc::clone(&cpu) as Arc<dyn Backend>).build().unwrap();
    let x = upload(&exec, &ramp(4), &[4]);
    cpu.script(Rule::at(Point::Run).times(1));
    let error = exec.run(&NEG, &[x.operand()]).unwrap_err().to_string();
    assert!(error.contains("cpu: failed: cpu: by script"), "{error}");
    exec.run(&NEG, &[x.operand()]).unwrap();
    // Without memory it is asked again.
    cpu.script(Rule::at(Point::Run).times(1).act(Act::RunOut));
    exec.run(&NEG, &[x.operand()]).unwrap();
}
