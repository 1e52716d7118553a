//! `DeviceManager`.
#![allow(clippy::unwrap_used, reason = "a step that fails fails the test")]

use crate::common::{CUDA, OPENCL, builder, fake, ramp, upload};
use rustorch_core::{BinaryOp, Device, DeviceType, Op, Streams};
use rustorch_runtime::{ContextOptions, DeviceManager, HybridExecutor, Placement};
use rustorch_testkit::{Act, FakeDevice, Point, Rule};
use std::sync::Arc;

const ADD: Op = Op::Binary(BinaryOp::Add);

fn manager(fakes: &[&Arc<FakeDevice>]) -> DeviceManager {
    DeviceManager::new(builder(fakes).build().unwrap())
}

#[test]
fn devices_are_listed_in_fallback_order() {
    let cuda = Arc::new(fake(CUDA).capability(|c| {
        c.driver = "535.1".into();
        c.memory = Some(8 << 30);
    }));
    let outside = Arc::new(fake(Device::metal(0)));
    let manager = DeviceManager::new(builder(&[&outside, &cuda]).fallback_order([CUDA]).build().unwrap());
    let devices = manager.devices();
    let order: Vec<Device> = devices.iter().map(|d| d.device).collect();
    assert_eq!(order, [CUDA, Device::CPU, Device::metal(0)]);
    assert_eq!((devices[0].driver.as_str(), devices[0].memory), ("535.1", Some(8 << 30)));
    assert_eq!((devices[0].name.as_str(), devices[0].lost), ("fake cuda:0", false));
    assert!(manager.is_gpu_available());
    let alone = DeviceManager::new(builder(&[]).build().unwrap());
    assert!(!alone.is_gpu_available());
    assert_eq!(alone.devices().len(), 1);
}

#[test]
fn the_current_device_is_the_one_that_was_set() {
    let (cuda, opencl) = (Arc::new(fake(CUDA)), Arc::new(fake(OPENCL)));
    let manager = manager(&[&cuda, &opencl]);
    assert_eq!(manager.current_device(), Device::CPU);
    manager.set_device(DeviceType::Only(OPENCL)).unwrap();
    assert_eq!(manager.current_device(), OPENCL);
    let exec = manager.executor();
    let x = upload(&exec, &ramp(4), &[4]);
    let place = manager.scope(|| {
        HybridExecutor::with_current(|exec| exec.run(&ADD, &[x.operand(), x.operand()]))
            .map(|out| out[0].storage.device())
    });
    assert_eq!(place.unwrap(), OPENCL);
    manager.set_device(DeviceType::Hybrid).unwrap();
    assert_eq!((manager.current_device(), manager.executor().placement()), (Device::CPU, &Placement::Auto));
    let error = manager.set_device(DeviceType::Only(Device::metal(0))).unwrap_err().to_string();
    assert!(error.contains("metal:0") && error.contains("cuda:0, opencl:0, cpu"), "{error}");
    assert_eq!(manager.current_device(), Device::CPU);
}

#[test]
fn a_lost_device_can_be_set_no_more() {
    let cuda = Arc::new(fake(CUDA));
    let manager = manager(&[&cuda]);
    manager.set_device(DeviceType::Only(CUDA)).unwrap();
    cuda.script(Rule::at(Point::Run).act(Act::Lose));
    let exec = manager.executor();
    let x = upload(&exec, &ramp(4), &[4]);
    exec.run(&ADD, &[x.operand(), x.operand()]).unwrap();
    assert!(!manager.is_gpu_available());
    assert!(manager.devices()[0].lost);
    assert!(manager.set_device(DeviceType::Only(CUDA)).unwrap_err().to_string().contains("failed earlier"));
    assert!(manager.context(CUDA, ContextOptions::default()).is_err());
    manager.set_device(DeviceType::Only(Device::CPU)).unwrap();
}

#[test]
fn a_context_limits_memory_while_it_lives() {
    let cuda = Arc::new(fake(CUDA));
    let manager = manager(&[&cuda]);
    let options = ContextOptions { pool_size: Some(8 << 10), streams: Some(4) };
    let context = manager.context(CUDA, options).unwrap();
    assert_eq!((context.device(), context.pool_size()), (CUDA, Some(8 << 10)));
    // A device that has one queue only says so.
    assert_eq!(context.streams(), 1);
    let small = upload(context.executor(), &ramp(256), &[256]);
    let large = upload(context.executor(), &ramp(4096), &[4096]);
    let place = |x: &rustorch_runtime::Output| {
        context.scope(|| {
            let out = HybridExecutor::with_current(|e| e.run(&ADD, &[x.operand(), x.operand()])).unwrap();
            out[0].storage.device()
        })
    };
    assert_eq!(place(&small), CUDA);
    assert_eq!(place(&large), Device::CPU);
    assert!(context.memory().faults > 0 && context.memory().peak <= 8 << 10);
    context.synchronize().unwrap();
    {
        let inner =
            manager.context(CUDA, ContextOptions { pool_size: Some(64 << 10), streams: None }).unwrap();
        assert_eq!(inner.pool_size(), Some(64 << 10));
        assert_eq!(place(&large), CUDA);
    }
    assert_eq!(context.pool_size(), Some(8 << 10));
    drop(context);
    assert_eq!(manager.executor().memory().limit(CUDA), None);
    let none = ContextOptions { streams: Some(0), ..ContextOptions::default() };
    assert!(manager.context(CUDA, none).is_err());
}

#[test]
fn a_context_has_streams_while_it_lives() {
    let cuda = Arc::new(fake(CUDA).with_streams(3));
    let manager = manager(&[&cuda]);
    let with = |streams| ContextOptions { streams, ..ContextOptions::default() };
    let context = manager.context(CUDA, with(Some(2))).unwrap();
    assert_eq!((context.streams(), cuda.streams()), (2, 2));
    {
        let inner = manager.context(CUDA, with(Some(8))).unwrap();
        assert_eq!((inner.streams(), cuda.streams()), (3, 3), "no more than there can be");
        assert_eq!(manager.context(CUDA, with(None)).unwrap().streams(), 3);
        assert_eq!(inner.streams(), 3);
    }
    assert_eq!(cuda.streams(), 2);
    let stream = || rustorch_core::current_stream(context.streams());
    let own = stream();
    assert_eq!(context.on_stream(1, stream), 1);
    assert_eq!(context.on_stream(4, || context.on_stream(3, stream) + stream()), 1);
    assert_eq!(stream(), own);
    let x = upload(context.executor(), &ramp(64), &[64]);
    let place = context.on_stream(1, || {
        let out = HybridExecutor::with_current(|e| e.run(&ADD, &[x.operand(), x.operand()])).unwrap();
        out[0].storage.device()
    });
    assert_eq!(place, CUDA);
    drop(context);
    assert_eq!(cuda.streams(), 1);
}

#[test]
fn contexts_that_overlap_end_in_any_order() {
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    for order in orders {
        let cuda = Arc::new(fake(CUDA).with_streams(8));
        let manager = manager(&[&cuda]);
        let limit = || manager.executor().memory().limit(CUDA);
        manager.executor().memory().set_limit(CUDA, Some(1 << 30));
        let options = |i: usize| ContextOptions { pool_size: Some(1000 + i), streams: Some(2 + i) };
        let mut contexts = [0, 1, 2].map(|i| Some(manager.context(CUDA, options(i)).unwrap()));
        for i in order {
            let newest = contexts.iter().rposition(Option::is_some).unwrap();
            assert_eq!((limit(), cuda.streams()), (Some(1000 + newest), 2 + newest), "{order:?}");
            contexts[i] = None;
        }
        assert_eq!((limit(), cuda.streams()), (Some(1 << 30), 1), "{order:?}");
    }
}
