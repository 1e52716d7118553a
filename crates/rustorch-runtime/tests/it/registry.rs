//! The devices of the process, the backends that storages carry, and scopes.

use crate::common::{cpu, fake, floats, ramp, shape, upload, upload_to};
use rustorch_core::{Backend, BinaryOp, DType, Device, DeviceKind, KindInfo, Op, UnaryOp};
use rustorch_runtime::registry::{self, DeviceCandidate, Discovery, Provider};
use rustorch_runtime::{
    DeviceGuard, HybridExecutor, Output, Placement, PlacementGuard, TargetDevice, default_device, set_device,
    set_placement, with_device, with_placement,
};
use rustorch_testkit::{FakeDevice, in_child};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const VULKAN: Device = Device::vulkan(0);
const NEG: Op = Op::Unary(UnaryOp::Neg);
const ADD: Op = Op::Binary(BinaryOp::Add);

/// An executor with a fake of its own.
fn with_fake(device: Device) -> (Arc<FakeDevice>, HybridExecutor) {
    let fake = Arc::new(fake(device));
    let exec = HybridExecutor::builder().threads(2).backend(Arc::clone(&fake) as Arc<dyn Backend>).build();
    (fake, exec.unwrap())
}

/// Whether the memory is the fake's.
fn is_of(x: &Output, fake: &Arc<FakeDevice>) -> bool {
    let backend = x.storage.backend().unwrap();
    std::ptr::addr_eq(Arc::as_ptr(backend), Arc::as_ptr(fake))
}

fn negated(values: &[f32]) -> Vec<f32> {
    values.iter().map(|x| -x).collect()
}

fn doubled(values: &[f32]) -> Vec<f32> {
    values.iter().map(|x| x + x).collect()
}

/// A fake refuses memory that is not its own, whatever it is called.
#[test]
fn devices_of_one_name_keep_their_memory_apart() {
    let pairs = [with_fake(VULKAN), with_fake(VULKAN)];
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let ((own, exec), (other, foreign)) = (&pairs[thread % 2], &pairs[(thread + 1) % 2]);
            scope.spawn(move || {
                for round in 0..40 {
                    let values = ramp(64 + round);
                    let x = upload_to(exec, &values, &[values.len()], VULKAN);
                    let y = &exec.run(&NEG, &[x.operand()]).unwrap()[0];
                    assert!(is_of(&x, own) && is_of(y, own));
                    assert_eq!(floats(exec, &y.operand()), negated(&values));
                    // Under the other executor it works where it is, and mixes with what is there.
                    let z = &foreign.run(&ADD, &[x.operand(), x.operand()]).unwrap()[0];
                    assert!(is_of(z, own));
                    assert_eq!(floats(foreign, &z.operand()), doubled(&values));
                    let there = upload_to(foreign, &values, &[values.len()], VULKAN);
                    let mixed = &foreign.run(&ADD, &[there.operand(), x.operand()]).unwrap()[0];
                    assert!(is_of(&there, other));
                    assert_eq!(floats(foreign, &mixed.operand()), doubled(&values));
                }
            });
        }
    });
}

#[test]
fn an_operand_of_another_device_of_the_name_is_copied() {
    let ((first, a), (second, b)) = (with_fake(VULKAN), with_fake(VULKAN));
    let x = upload_to(&a, &ramp(256), &[256], VULKAN);
    let moved = b.transfer(&x.operand(), VULKAN).unwrap();
    assert!(is_of(&x, &first) && is_of(&moved, &second));
    assert_eq!(floats(&b, &moved.operand()), ramp(256));
    // A policy that puts the work onto the executor's own device brings the operand there.
    let own = b.with_policy(Placement::Require(VULKAN)).unwrap();
    let (sum, explanation) = own.explain(|| own.run(&NEG, &[x.operand()]));
    assert!(is_of(&sum.unwrap()[0], &second));
    assert_eq!(explanation.moved_bytes(), 1024);
    assert_eq!((first.runs("neg"), second.runs("neg")), (0, 1));
    // Written in place, it stays what it is.
    b.run_into(&NEG, &[moved.operand()], &[x.operand()]).unwrap();
    assert_eq!(floats(&a, &x.operand()), negated(&ramp(256)));
}

#[test]
fn a_storage_works_on_a_thread_without_a_scope() {
    let (fake, exec) = with_fake(VULKAN);
    let x = upload_to(&exec, &ramp(100), &[100], VULKAN);
    drop(exec);
    let y = std::thread::spawn(move || {
        let current = HybridExecutor::current();
        let y = current.run(&NEG, &[x.operand()]).unwrap().remove(0);
        assert_eq!(floats(&current, &y.operand()), negated(&ramp(100)));
        y
    });
    assert!(is_of(&y.join().unwrap(), &fake));
    assert_eq!(fake.runs("neg"), 1);
}

#[test]
fn executors_share_the_threads_of_the_cpu() {
    let process = registry::backend(Device::CPU).unwrap();
    for _ in 0..2 {
        let exec = HybridExecutor::builder().build().unwrap();
        assert!(Arc::ptr_eq(&exec.backend(Device::CPU).unwrap(), &process));
    }
    assert!(!Arc::ptr_eq(&with_fake(VULKAN).1.backend(Device::CPU).unwrap(), &process), "threads of its own");
    // They run already. More than the system runs at once are as many as it does.
    if std::thread::available_parallelism().unwrap().get() > 1 {
        let error = registry::set_cpu_threads(1).unwrap_err().to_string();
        assert!(error.contains("threads already"), "{error}");
    }
}

#[test]
fn threads_are_as_many_as_run_at_once_at_most() {
    let at_once = std::thread::available_parallelism().unwrap().get();
    let set = |command: &mut std::process::Command| {
        command.env("RUSTORCH_THREADS", "10000");
    };
    in_child("registry::threads_are_as_many_as_run_at_once_at_most", set, || {
        assert!(registry::set_cpu_threads(0).is_err());
        let name = registry::backend(Device::CPU).unwrap().capability().name.clone();
        assert!(name.contains(&format!(", {at_once} threads")), "{name}");
        registry::set_cpu_threads(9_999).unwrap();
    });
}

#[test]
fn policies_hold_for_their_scope_and_thread() {
    let (_, exec) = with_fake(VULKAN);
    let placement = || HybridExecutor::with_current(|current| current.placement().clone());
    exec.scope(|| {
        assert_eq!(placement(), Placement::Resident);
        assert_eq!(with_placement(Placement::Prefer(VULKAN), placement).unwrap(), Placement::Prefer(VULKAN));
        assert!(with_placement(Placement::Prefer(Device::cuda(3)), placement).is_err());
        let outer = PlacementGuard::new(Placement::Auto).unwrap();
        let inner = PlacementGuard::new(Placement::CpuOnly).unwrap();
        assert_eq!(placement(), Placement::CpuOnly);
        std::thread::scope(|scope| {
            scope.spawn(|| assert_eq!(placement(), Placement::Resident));
        });
        // In any order.
        drop(outer);
        assert_eq!(placement(), Placement::CpuOnly);
        drop(inner);
        assert_eq!(placement(), Placement::Resident);
        let panicked = std::panic::catch_unwind(|| {
            let _guard = PlacementGuard::new(Placement::Auto).unwrap();
            with_placement(Placement::CpuOnly, || panic!("on purpose")).unwrap();
        });
        assert!(panicked.is_err());
        assert_eq!(placement(), Placement::Resident);
    });
}

#[test]
fn new_memory_goes_to_the_device_of_the_scope() {
    let (fake, exec) = with_fake(VULKAN);
    let new = || exec.upload(&[0; 16], DType::F32, &shape(&[4]), TargetDevice::Default).unwrap();
    assert_eq!(new().storage.device(), Device::CPU);
    exec.scope(|| {
        let there = with_device("vulkan:0", || (default_device(), new())).unwrap();
        assert_eq!(there.0, VULKAN);
        assert!(is_of(&there.1, &fake));
        let guard = DeviceGuard::new(VULKAN).unwrap();
        // The scope means this fake under any executor.
        let (_, other) = with_fake(VULKAN);
        let x = other.upload(&[0; 16], DType::F32, &shape(&[4]), TargetDevice::Default).unwrap();
        assert!(is_of(&x, &fake));
        assert_eq!(with_device("cpu", || new().storage.device()).unwrap(), Device::CPU);
        drop(guard);
        assert_eq!(new().storage.device(), Device::CPU);
        assert!(with_device("vulkan:7", || ()).is_err());
        assert!(with_device("toaster", || ()).is_err());
    });
}

/// How often devices of the kind `drawer` were looked for, and opened.
static LOOKED: AtomicUsize = AtomicUsize::new(0);
static OPENED: AtomicUsize = AtomicUsize::new(0);

/// Registers a kind with two devices of its own and one software device.
fn drawer() -> DeviceKind {
    let info = KindInfo { fallback_rank: 1, ..KindInfo::new("drawer") };
    let kind = DeviceKind::register(info).unwrap();
    fn open(index: u8) -> Result<Arc<dyn Backend>, String> {
        OPENED.fetch_add(1, Ordering::Relaxed);
        let kind = DeviceKind::from_name("drawer").unwrap();
        Ok(Arc::new(FakeDevice::new(Device::new(kind, index), cpu())))
    }
    registry::register(Provider {
        kind,
        discover: || {
            LOOKED.fetch_add(1, Ordering::Relaxed);
            let devices = vec![
                DeviceCandidate::hardware(|| open(0)),
                DeviceCandidate::hardware(|| open(1)),
                DeviceCandidate::software(|| open(2)),
                DeviceCandidate::hardware(|| Err("the fourth is broken".into())),
            ];
            Discovery { devices, missing: Vec::new() }
        },
    })
    .unwrap();
    kind
}

fn counts() -> (usize, usize) {
    (LOOKED.load(Ordering::Relaxed), OPENED.load(Ordering::Relaxed))
}

#[test]
fn devices_are_looked_for_when_one_is_named() {
    in_child(
        "registry::devices_are_looked_for_when_one_is_named",
        |_| {},
        || {
            let kind = drawer();
            let current = HybridExecutor::current();
            let x = upload(&current, &ramp(1 << 20), &[1 << 20]);
            current.run(&ADD, &[x.operand(), x.operand()]).unwrap();
            with_placement(Placement::CpuOnly, || current.run(&NEG, &[x.operand()]).unwrap()).unwrap();
            assert_eq!(counts(), (0, 0));
            // By name, each is opened by itself.
            let there = current.transfer(&x.operand(), Device::new(kind, 2)).unwrap();
            assert_eq!((there.storage.device().to_string(), counts()), ("drawer:2".to_owned(), (1, 1)));
            let y = &current.run(&NEG, &[there.operand()]).unwrap()[0];
            assert_eq!(y.storage.device(), Device::new(kind, 2));
            set_device("drawer:1").unwrap();
            assert_eq!(counts(), (1, 2));
            let made =
                || HybridExecutor::current().upload(&[0; 4], DType::F32, &shape(&[1]), TargetDevice::Default);
            let made = std::thread::spawn(move || made().unwrap().storage.device()).join().unwrap();
            assert_eq!((made, default_device()), (Device::new(kind, 1), Device::new(kind, 1)));
            set_device(Device::CPU).unwrap();
            assert_eq!(default_device(), Device::CPU);
            // The whole order has the hardware, and what fails to open is left out.
            set_placement(Placement::FirstSupported).unwrap();
            let sum = HybridExecutor::current().run(&ADD, &[x.operand(), x.operand()]).unwrap();
            assert_eq!(sum[0].storage.device(), Device::new(kind, 0));
            let order = current.fallback_order().unwrap();
            assert_eq!(order[..2], [Device::new(kind, 0), Device::new(kind, 1)]);
            assert!(!order.contains(&Device::new(kind, 2)) && order.last() == Some(&Device::CPU));
            assert_eq!(counts(), (1, 3));
            let error = registry::backend(Device::new(kind, 3)).err().unwrap().to_string();
            assert!(error.contains("the fourth is broken") && error.contains("drawer:0"), "{error}");
            let again = registry::register(Provider { kind, discover: Discovery::default });
            assert!(again.is_err());
        },
    );
}

#[test]
fn the_environment_orders_and_places() {
    let set = |command: &mut std::process::Command| {
        command.env("RUSTORCH_DEVICES", "drawer:2,drawer:0").env("RUSTORCH_PLACEMENT", "first-supported");
    };
    in_child("registry::the_environment_orders_and_places", set, || {
        let kind = drawer();
        let current = HybridExecutor::current();
        assert_eq!(current.placement(), &Placement::FirstSupported);
        let x = upload(&current, &ramp(100), &[100]);
        let y = &current.run(&NEG, &[x.operand()]).unwrap()[0];
        assert_eq!(y.storage.device(), Device::new(kind, 2));
        assert_eq!(
            current.fallback_order().unwrap(),
            [2, 0].map(|i| Device::new(kind, i)).into_iter().chain([Device::CPU]).collect::<Vec<_>>()
        );
        let error = registry::backend(Device::new(kind, 1)).err().unwrap().to_string();
        assert!(error.contains("RUSTORCH_DEVICES leaves it out"), "{error}");
    });
}

#[test]
fn a_wrong_variable_is_the_error_of_what_depends_on_it() {
    let set = |command: &mut std::process::Command| {
        command.env("RUSTORCH_DEVICES", "gpu").env("RUSTORCH_THREADS", "3");
    };
    in_child("registry::a_wrong_variable_is_the_error_of_what_depends_on_it", set, || {
        let kind = drawer();
        let current = HybridExecutor::current();
        let x = upload(&current, &ramp(1 << 16), &[1 << 16]);
        current.run(&NEG, &[x.operand()]).unwrap();
        let name = registry::backend(Device::CPU).unwrap().capability().name.clone();
        let threads = std::thread::available_parallelism().unwrap().get().min(3);
        assert!(name.contains(&format!(", {threads} threads")), "{name}");
        let wrong = |error: rustorch_core::Error| {
            let text = error.to_string();
            assert!(text.contains("RUSTORCH_DEVICES") && text.contains("`gpu`"), "{text}");
        };
        wrong(registry::backend(Device::new(kind, 0)).err().unwrap());
        wrong(with_device("drawer", || ()).unwrap_err());
        wrong(
            with_placement(Placement::FirstSupported, || HybridExecutor::current().run(&NEG, &[x.operand()]))
                .unwrap()
                .unwrap_err(),
        );
        assert_eq!(counts(), (0, 0));
    });
}

#[test]
fn a_wrong_policy_is_the_error_of_every_operation() {
    let set = |command: &mut std::process::Command| {
        command.env("RUSTORCH_PLACEMENT", "best");
    };
    in_child("registry::a_wrong_policy_is_the_error_of_every_operation", set, || {
        let current = HybridExecutor::current();
        let x = upload(&current, &ramp(4), &[4]);
        let error = current.run(&NEG, &[x.operand()]).unwrap_err().to_string();
        assert!(error.contains("RUSTORCH_PLACEMENT") && error.contains("`best`"), "{error}");
        // A policy that the program sets does not depend on it.
        with_placement(Placement::CpuOnly, || HybridExecutor::current().run(&NEG, &[x.operand()]))
            .unwrap()
            .unwrap();
        set_placement(Placement::Resident).unwrap();
        HybridExecutor::current().run(&NEG, &[x.operand()]).unwrap();
    });
}
