//! Where operations run, by policy and by what devices can do.
#![allow(clippy::unwrap_used, reason = "a step that fails fails the test")]

use crate::common::{CUDA, OPENCL, builder, bytes, fake, floats, ramp, shape, upload, upload_to};
use rustorch_core::{
    BinaryOp, DType, DTypeSet, Decline, Device, DeviceType, Error, Fill, MatMul, Op, OpType, Scalar, UnaryOp,
    Verdict,
};
use rustorch_runtime::{
    Builder, Environment, HybridExecutor, OpTable, Operand, Placement, TransferMethod, with_placement,
};
use rustorch_testkit::{Act, FakeDevice, Point, Rule};
use std::sync::Arc;

const NEG: Op = Op::Unary(UnaryOp::Neg);
const ADD: Op = Op::Binary(BinaryOp::Add);

fn pair() -> (Arc<FakeDevice>, Arc<FakeDevice>) {
    (Arc::new(fake(CUDA)), Arc::new(fake(OPENCL)))
}

#[test]
fn the_fallback_order_orders_devices_given_in_any_order() {
    let (cuda, opencl) = pair();
    let exec = builder(&[&opencl, &cuda]).build().unwrap();
    assert_eq!(exec.fallback_order().unwrap(), [CUDA, OPENCL, Device::CPU]);
    let exec = builder(&[&opencl, &cuda]).fallback_order([OPENCL]).build().unwrap();
    assert_eq!(exec.fallback_order().unwrap(), [OPENCL, Device::CPU]);
    let error = builder(&[&cuda]).fallback_order([OPENCL]).build().unwrap_err().to_string();
    assert!(error.contains("opencl:0") && error.contains("cuda:0, cpu"), "{error}");
    assert!(builder(&[&cuda, &cuda]).build().unwrap_err().to_string().contains("two backends"));
}

#[test]
fn each_policy_puts_work_where_it_says() {
    let (cuda, opencl) = pair();
    let exec = builder(&[&cuda, &opencl]).build().unwrap();
    let small = upload(&exec, &ramp(4), &[4]);
    let large = upload(&exec, &ramp(1 << 18), &[1 << 18]);
    let table =
        || Placement::ByOp(OpTable::new().class(OpType::Elementwise, OPENCL).op(UnaryOp::Neg, Device::CPU));
    let cases: Vec<(Placement, &Op, bool, Device)> = vec![
        (Placement::FirstSupported, &NEG, true, CUDA),
        (Placement::Prefer(OPENCL), &NEG, true, OPENCL),
        (Placement::Require(OPENCL), &NEG, false, OPENCL),
        (Placement::CpuOnly, &NEG, false, Device::CPU),
        (Placement::GpuOnly, &NEG, true, CUDA),
        (Placement::GpuThreshold(4096), &NEG, true, Device::CPU),
        (Placement::GpuThreshold(4096), &NEG, false, CUDA),
        (table(), &NEG, false, Device::CPU),
        (table(), &Op::Unary(UnaryOp::Square), false, OPENCL),
    ];
    for (policy, op, is_small, want) in cases {
        let exec = exec.with_policy(policy.clone()).unwrap();
        let x = if is_small { &small } else { &large };
        let out = exec.run(op, &[x.operand()]).unwrap();
        assert_eq!(out[0].storage.device(), want, "{policy:?} {}", op.name());
        // Twice as many bytes count, argument and result; the same answer everywhere.
        let reference = exec.with_policy(Placement::CpuOnly).unwrap().run(op, &[x.operand()]).unwrap();
        assert_eq!(bytes(&exec, &out[0].operand()), bytes(&exec, &reference[0].operand()));
    }
}

#[test]
fn auto_moves_work_only_where_that_pays() {
    let cuda = Arc::new(fake(CUDA));
    let cpu_cost = |flops: f64| {
        let slow = fake(Device::CPU).cost(|cost| {
            cost.launch_us = 0.1;
            cost.flops = flops;
            cost.bandwidth = 1e10;
        });
        Arc::new(slow)
    };
    let cpu = cpu_cost(1e10);
    let exec = builder(&[&cuda, &cpu]).build().unwrap();
    let x = upload(&exec, &ramp(128 * 128), &[128, 128]);
    let far = upload_to(&exec, &ramp(128 * 128), &[128, 128], CUDA);
    let place = |op: &Op, args: &[Operand<'_>]| exec.run(op, args).unwrap()[0].storage.device();
    // 4 Mflop take the CPU 420 µs, the GPU 6 µs and 33 µs for the way.
    let matmul = Op::MatMul(MatMul::default());
    assert_eq!(place(&matmul, &[x.operand(), x.operand()]), CUDA);
    // An addition is not worth the way, in either direction.
    let y = upload(&exec, &ramp(128 * 128), &[128, 128]);
    assert_eq!(place(&ADD, &[y.operand(), y.operand()]), Device::CPU);
    // What was there for the matmul is there for an addition.
    assert_eq!(place(&ADD, &[x.operand(), x.operand()]), CUDA);
    assert_eq!(place(&ADD, &[far.operand(), far.operand()]), CUDA);
    // Little data on the CPU stays there.
    let little = upload(&exec, &ramp(1), &[1, 1]);
    assert_eq!(place(&matmul, &[little.operand(), little.operand()]), Device::CPU);
    // An operation goes to its large argument.
    assert_eq!(place(&ADD, &[little.operand(), far.operand()]), CUDA);
}

#[test]
fn a_device_that_declines_is_passed_over_and_gets_the_result_back() {
    let cuda = Arc::new(fake(CUDA).capability(|c| {
        c.dtypes[OpType::Elementwise as usize] = DTypeSet::of(&[DType::F32]);
        c.dtypes[OpType::LinearAlgebra as usize] = DTypeSet::EMPTY;
        c.max_ndim = 2;
    }));
    let exec = builder(&[&cuda]).placement(Placement::Prefer(CUDA)).build().unwrap();
    let x = upload_to(&exec, &ramp(4), &[2, 2], CUDA);
    let matmul = Op::MatMul(MatMul::default());
    let (out, explanation) = exec.explain(|| exec.run(&matmul, &[x.operand(), x.operand()]).unwrap());
    assert_eq!(out[0].storage.device(), CUDA);
    assert_eq!(floats(&exec, &out[0].operand()), [9.0 + 2.5 * 2.0, 7.5 + 2.5 * 1.5, 6.0 + 3.0, 5.0 + 2.25]);
    let record = &explanation.records()[0];
    assert_eq!(record.device, Some(Device::CPU));
    assert_eq!(record.returned_to, Some(CUDA));
    // Both arguments went, and the result came back.
    assert_eq!(record.moved_bytes, 3 * 16);
    assert_eq!(
        record.considered,
        [(CUDA, Verdict::Declined(Decline::Op("matmul"))), (Device::CPU, Verdict::Ran)]
    );
    let table = explanation.to_string();
    assert!(table.contains("cpu → cuda:0") && table.contains("operation matmul is not supported"), "{table}");
    assert_eq!(cuda.runs("matmul"), 0);
    assert_eq!(exec.counts(CUDA).unwrap().declined, 1);

    // Data of the CPU that the preferred device declines stays.
    let y = upload(&exec, &ramp(4), &[2, 2]);
    let out = exec.run(&matmul, &[y.operand(), y.operand()]).unwrap();
    assert_eq!(out[0].storage.device(), Device::CPU);
}

#[test]
fn a_strict_policy_says_why_every_device_was_out() {
    let cuda = Arc::new(fake(CUDA).capability(|c| c.max_ndim = 1));
    let opencl = Arc::new(fake(OPENCL));
    let exec = builder(&[&cuda, &opencl]).placement(Placement::Require(CUDA)).build().unwrap();
    let x = upload(&exec, &ramp(4), &[2, 2]);
    let error = exec.run(&NEG, &[x.operand()]).unwrap_err();
    let Error::Dispatch(dispatch) = &error else { panic!("{error}") };
    assert_eq!(
        dispatch.considered,
        [
            (CUDA, Verdict::Declined(Decline::Rank { ndim: 2, limit: 1 })),
            (OPENCL, Verdict::Excluded),
            (Device::CPU, Verdict::Excluded),
        ]
    );
    let text = error.to_string();
    assert!(text.contains("no device ran neg(f32[2, 2])"), "{text}");
    assert!(text.contains("cuda:0: declined: rank 2 exceeds its limit of 1"), "{text}");
}

#[test]
fn missing_devices_are_named_with_those_present() {
    let cuda = Arc::new(fake(CUDA));
    let exec = builder(&[&cuda]).build().unwrap();
    for error in [
        exec.with_policy(Placement::Require(Device::metal(0))).unwrap_err(),
        exec.resolve(DeviceType::Only(Device::metal(0))).unwrap_err(),
        exec.run_on(Device::metal(0), &NEG, &[]).unwrap_err(),
    ] {
        let text = error.to_string();
        assert!(text.contains("metal:0") && text.contains("cuda:0, cpu"), "{text}");
    }
}

#[test]
fn device_types_resolve_to_a_device_and_a_policy() {
    let (cuda, opencl) = pair();
    let exec = builder(&[&cuda, &opencl]).build().unwrap();
    let target = |wanted| exec.resolve(wanted).unwrap();
    let only = target(DeviceType::Only(OPENCL));
    assert_eq!((only.device, only.executor.placement()), (OPENCL, &Placement::Prefer(OPENCL)));
    let auto = target(DeviceType::Auto);
    assert_eq!((auto.device, auto.executor.placement()), (Device::CPU, &Placement::Resident));
    let hybrid = target(DeviceType::Hybrid);
    assert_eq!((hybrid.device, hybrid.executor.placement()), (Device::CPU, &Placement::Auto));
}

#[test]
fn a_family_in_the_environment_admits_all_its_devices() {
    let (cuda, first) = pair();
    let second = Arc::new(fake(Device::opencl(1)));
    let environment = |vars: &[(&str, &str)]| {
        let find = |name: &str| vars.iter().find(|(n, _)| *n == name).map(|(_, value)| value.to_string());
        Environment::from_fn(find)
    };
    let fallback_order = |vars: &[(&str, &str)]| {
        let exec =
            builder(&[&cuda, &second, &first]).environment(&environment(vars)).and_then(Builder::build);
        exec.map(|exec| exec.fallback_order().unwrap())
    };
    let devices = |list| fallback_order(&[("RUSTORCH_DEVICES", list)]);
    assert_eq!(devices("opencl,cpu").unwrap(), [OPENCL, Device::opencl(1), Device::CPU]);
    assert_eq!(devices("opencl").unwrap(), [OPENCL, Device::opencl(1), Device::CPU]);
    assert_eq!(devices("opencl:1,cuda").unwrap(), [Device::opencl(1), CUDA, Device::CPU]);
    assert_eq!(devices("opencl:1,opencl").unwrap(), [Device::opencl(1), OPENCL, Device::CPU]);
    assert_eq!(devices("cpu").unwrap(), [Device::CPU]);
    let error = devices("vulkan,cpu").unwrap_err().to_string();
    assert!(error.contains("vulkan") && error.contains("cuda:0, opencl:1, opencl:0"), "{error}");
    // Turned off, no GPU is there, whatever the fallback order says.
    let off = [("RUSTORCH_DEVICES", "cuda,cpu"), ("RUSTORCH_DISABLE_GPU", "1")];
    assert_eq!(fallback_order(&off).unwrap(), [Device::CPU]);
    let exec = builder(&[&cuda, &first]).environment(&environment(&off)).unwrap().build().unwrap();
    assert!(exec.with_policy(Placement::Require(CUDA)).is_err());
    let x = upload(&exec, &ramp(1 << 18), &[512, 512]);
    exec.run(&Op::MatMul(MatMul::default()), &[x.operand(), x.operand()]).unwrap();
    assert_eq!((cuda.runs("matmul"), first.runs("matmul")), (0, 0));
}

#[test]
fn new_tensors_are_made_where_they_are_wanted() {
    let cuda = Arc::new(fake(CUDA));
    let opencl = Arc::new(fake(OPENCL).capability(|c| {
        c.dtypes[OpType::Creation as usize] = DTypeSet::EMPTY;
    }));
    let exec = builder(&[&cuda, &opencl]).build().unwrap();
    let fill = Op::Fill(Fill { shape: shape(&[3]), dtype: DType::F32, value: Scalar::Float(2.0) });
    for device in [Device::CPU, CUDA, OPENCL] {
        let out = exec.run_on(device, &fill, &[]).unwrap();
        assert_eq!(out[0].storage.device(), device);
        assert_eq!(floats(&exec, &out[0].operand()), [2.0; 3]);
    }
    assert_eq!((cuda.runs("fill"), opencl.runs("fill")), (1, 0));
}

#[test]
fn strided_arguments_arrive_as_the_device_takes_them() {
    let strict = Arc::new(fake(CUDA).capability(|c| c.strided = false));
    let able = Arc::new(fake(OPENCL));
    let exec = builder(&[&strict, &able]).build().unwrap();
    let values = ramp(24);
    for from in [Device::CPU, CUDA, OPENCL] {
        let x = upload_to(&exec, &values, &[4, 6], from);
        let views = [
            x.layout.transpose(0, 1).unwrap(),
            x.layout.slice(1, 1, 3, 2).unwrap(),
            x.layout.select(0, 2).unwrap().broadcast_to(&shape(&[5, 6]), "test").unwrap(),
        ];
        for layout in &views {
            let view = Operand { layout, ..x.operand() };
            let want: Vec<f32> = layout.indices().map(|i| -values[i]).collect();
            for to in [CUDA, OPENCL, Device::CPU] {
                let exec = exec.with_policy(Placement::Require(to)).unwrap();
                let out = exec.run(&NEG, &[view]).unwrap();
                assert_eq!(out[0].storage.device(), to);
                assert_eq!(floats(&exec, &out[0].operand()), want, "{from} to {to}: {layout:?}");
            }
        }
    }
    assert_eq!(exec.health().quarantined(), []);
}

#[test]
fn broadcast_views_travel_as_the_few_bytes_that_they_are() {
    let cuda = Arc::new(fake(CUDA));
    let exec = builder(&[&cuda]).placement(Placement::Require(CUDA)).build().unwrap();
    let x = upload(&exec, &[7f32], &[1]);
    let layout = x.layout.broadcast_to(&shape(&[1000]), "test").unwrap();
    let out = exec.run(&NEG, &[Operand { layout: &layout, ..x.operand() }]).unwrap();
    assert_eq!(exec.transfers().count(Device::CPU, CUDA, TransferMethod::Copy).bytes, 4 + 4 - 4);
    assert_eq!(floats(&exec, &out[0].operand()), [-7.0; 1000]);
}

#[test]
fn transfers_take_the_best_way() {
    let near = Arc::new(fake(OPENCL).capability(|c| c.reaches = vec![Device::CPU]));
    let cuda = Arc::new(fake(CUDA));
    let twin = Arc::new(fake(Device::cuda(1)).with_peers());
    let exec = builder(&[&near, &cuda, &twin]).build().unwrap();
    let count = |from, to, method| exec.transfers().count(from, to, method).count;

    let x = upload(&exec, &ramp(8), &[8]);
    let on = |device| exec.with_policy(Placement::Require(device)).unwrap();
    on(OPENCL).run(&NEG, &[x.operand()]).unwrap();
    assert_eq!(count(Device::CPU, OPENCL, TransferMethod::Alias), 1);
    assert!(near.calls().iter().all(|call| call.point != Point::CopyIn));

    let y = exec.transfer(&x.operand(), CUDA).unwrap();
    assert_eq!(count(Device::CPU, CUDA, TransferMethod::Copy), 1);
    let out = on(Device::cuda(1)).run(&NEG, &[y.operand()]).unwrap();
    assert_eq!(count(CUDA, Device::cuda(1), TransferMethod::Peer), 1);
    assert!(cuda.calls().iter().any(|call| call.point == Point::Synchronize));
    let out = on(CUDA).run(&NEG, &[out[0].operand()]).unwrap();
    assert_eq!(count(Device::cuda(1), CUDA, TransferMethod::Staging), 1);
    assert_eq!(floats(&exec, &out[0].operand()), ramp(8));
    // The download.
    assert_eq!(count(CUDA, Device::CPU, TransferMethod::Copy), 1);
    assert_eq!(exec.transfers().bytes(), 4 * 32);
    let method = |from, to| exec.transfers().method(from, to);
    assert_eq!(method(CUDA, Device::cuda(1)), Some(TransferMethod::Peer));
    assert_eq!(method(Device::cuda(1), CUDA), Some(TransferMethod::Staging));
    assert_eq!(method(CUDA, OPENCL), None, "nobody has asked");
    assert_eq!((method(Device::CPU, OPENCL), method(CUDA, CUDA)), (Some(TransferMethod::Copy), None));
}

#[test]
fn a_direct_way_that_fails_is_left() {
    let (cuda, twin) = (Arc::new(fake(CUDA)), Arc::new(fake(Device::cuda(1)).with_peers()));
    let exec = builder(&[&cuda, &twin]).build().unwrap();
    let x = exec.transfer(&upload(&exec, &ramp(8), &[8]).operand(), CUDA).unwrap();
    let copies = || {
        let out = exec.transfer(&x.operand(), Device::cuda(1)).unwrap();
        assert_eq!(floats(&exec, &out.operand()), ramp(8));
        [TransferMethod::Peer, TransferMethod::Staging]
            .map(|method| exec.transfers().count(CUDA, Device::cuda(1), method).count)
    };
    assert_eq!(copies(), [1, 0]);
    twin.script(Rule::at(Point::CopyFromPeer).act(Act::Fail));
    assert_eq!(copies(), [1, 1]);
    assert_eq!(copies(), [1, 2]);
    let asked = twin.calls().iter().filter(|call| call.point == Point::CopyFromPeer).count();
    assert_eq!(asked, 2, "it is not tried again");
    assert!(exec.transfers().count(CUDA, Device::cuda(1), TransferMethod::Staging).bandwidth().is_some());
}

#[test]
fn destinations_are_written_wherever_they_are() {
    let cuda = Arc::new(fake(CUDA).capability(|c| {
        // A device that can neither copy nor see strides.
        c.dtypes[OpType::DataMovement as usize] = DTypeSet::EMPTY;
        c.strided = false;
    }));
    let opencl = Arc::new(fake(OPENCL));
    let exec = builder(&[&cuda, &opencl]).build().unwrap();
    for at in [Device::CPU, CUDA, OPENCL] {
        for from in [Device::CPU, CUDA, OPENCL] {
            let cache = upload_to(&exec, &[0f32; 12], &[3, 4], at);
            let x = upload_to(&exec, &[1f32, 2.0, 3.0], &[3], from);
            let column = cache.layout.select(1, 2).unwrap();
            exec.run_into(&NEG, &[x.operand()], &[Operand { layout: &column, ..cache.operand() }]).unwrap();
            let row = cache.layout.select(0, 1).unwrap().slice(0, 0, 3, 1).unwrap();
            exec.run_into(&NEG, &[x.operand()], &[Operand { layout: &row, ..cache.operand() }]).unwrap();
            assert_eq!(
                floats(&exec, &cache.operand()),
                [0.0, 0.0, -1.0, 0.0, -1.0, -2.0, -3.0, 0.0, 0.0, 0.0, -3.0, 0.0],
                "{from} into {at}"
            );
            assert!(cache.storage.version() >= 2);
        }
    }
}

#[test]
fn policies_hold_within_their_scope() {
    let cuda = Arc::new(fake(CUDA));
    let exec = builder(&[&cuda]).placement(Placement::CpuOnly).build().unwrap();
    let x = upload(&exec, &ramp(4), &[4]);
    let place = || {
        let out = HybridExecutor::with_current(|exec| exec.run(&NEG, &[x.operand()])).unwrap();
        out[0].storage.device()
    };
    exec.scope(|| {
        assert_eq!(place(), Device::CPU);
        assert_eq!(with_placement(Placement::FirstSupported, place).unwrap(), CUDA);
        assert_eq!(place(), Device::CPU);
        assert!(with_placement(Placement::Prefer(OPENCL), place).is_err());
    });
}

#[test]
fn records_are_kept_when_wanted_and_bounded() {
    let exec = builder(&[]).build().unwrap();
    let x = upload(&exec, &ramp(1), &[1]);
    exec.run(&NEG, &[x.operand()]).unwrap();
    assert!(exec.take_records().is_empty());
    exec.set_recording(true);
    for _ in 0..5000 {
        exec.run(&NEG, &[x.operand()]).unwrap();
    }
    exec.set_recording(false);
    exec.run(&NEG, &[x.operand()]).unwrap();
    let records = exec.take_records();
    assert_eq!(records.len(), 4096);
    assert_eq!(records[0].considered, [(Device::CPU, Verdict::Ran)]);
    assert_eq!(exec.counts(Device::CPU).unwrap().ran, 5000);
}
