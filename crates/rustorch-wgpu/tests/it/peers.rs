//! Two devices that know nothing of each other, lavapipe and SwiftShader: data goes by way of the CPU's memory. Each has one
//! stream, however many are asked for.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a step that fails fails the test; rates are shown"
)]

use crate::common::swiftshader;
use rustorch_core::{Backend, BinaryOp, DType, Op, Shape};
use rustorch_kernels::Engine;
use rustorch_runtime::{ContextOptions, DeviceManager, HybridExecutor, Placement, TransferMethod};
use rustorch_testkit::{Requirement, in_child, skip};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

/// The two drivers, and what a test that lacks one skips for.
const DRIVERS: [(Requirement, &str); 2] = [
    (Requirement::Vulkan, "/usr/share/vulkan/icd.d/lvp_icd.x86_64.json"),
    (Requirement::SwiftShader, swiftshader::DRIVER),
];

#[test]
fn devices_without_a_direct_way_stage() {
    if let Some((requirement, missing)) = DRIVERS.iter().find(|(_, driver)| !Path::new(driver).exists()) {
        return skip(*requirement, format!("{missing} does not exist"));
    }
    let prepare = |command: &mut Command| {
        let paths = DRIVERS.map(|(_, driver)| driver);
        command.env_remove("VK_DRIVER_FILES").env("VK_ICD_FILENAMES", paths.join(":"));
    };
    if let Some(said) = in_child("peers::devices_without_a_direct_way_stage", prepare, by_way_of_the_cpu) {
        eprintln!("{said}");
    }
}

fn by_way_of_the_cpu() {
    let engines: Vec<Arc<dyn Backend>> = rustorch_wgpu::adapters()
        .unwrap()
        .iter()
        .map(|adapter| {
            Arc::new(Engine::new(adapter.open_with_cache(None).unwrap()).unwrap()) as Arc<dyn Backend>
        })
        .collect();
    assert_eq!(engines.len(), 2, "both drivers show a device");
    let devices = [engines[0].device(), engines[1].device()];
    let builder =
        engines.into_iter().fold(HybridExecutor::builder().threads(1), |b, engine| b.backend(engine));
    let manager = DeviceManager::new(builder.fallback_order(devices).build().unwrap());
    let options = ContextOptions { streams: Some(4), ..ContextOptions::default() };
    let context = manager.context(devices[0], options).unwrap();
    assert_eq!(context.streams(), 1, "wgpu has one queue");

    let exec = manager.executor();
    let numbers: Vec<u8> = (0..5000).flat_map(|i: i32| i.to_ne_bytes()).collect();
    let shape = Shape::new([5000].as_slice()).unwrap();
    let mut x = exec.upload(&numbers, DType::I32, &shape, devices[0]).unwrap();
    for round in 0..4 {
        let there = exec.with_policy(Placement::Require(devices[1 - round % 2])).unwrap();
        x = context.on_stream(round, || {
            there.run(&Op::Binary(BinaryOp::Add), &[x.operand(), x.operand()]).unwrap().pop().unwrap()
        });
    }
    let mut result = vec![0; numbers.len()];
    exec.download(&x.operand(), &mut result).unwrap();
    for (i, word) in result.as_chunks::<4>().0.iter().enumerate() {
        assert_eq!(i32::from_ne_bytes(*word), 16 * i as i32);
    }
    let transfers = exec.transfers();
    for (from, to) in [(devices[0], devices[1]), (devices[1], devices[0])] {
        assert_eq!(transfers.method(from, to), Some(TransferMethod::Staging));
        // Two operations in each direction; both operands are one storage, which is copied once.
        let count = transfers.count(from, to, TransferMethod::Staging);
        assert_eq!((count.count, count.bytes), (2, 2 * 20_000));
        assert!(count.bandwidth().is_some_and(|rate| rate > 0.0));
        assert_eq!(transfers.count(from, to, TransferMethod::Peer).count, 0);
        eprintln!("{from} to {to}: {:.2} GB/s", count.bandwidth().unwrap_or(0.0) / 1e9);
    }
}
