//! Two devices of one platform: PoCL shows as many as its environment names, so that is done in a child process. And two of
//! two platforms, where there are.
#![allow(clippy::unwrap_used, reason = "a step that fails fails the test")]
#![allow(clippy::print_stdout, reason = "a skipped test says so, and a child tells its parent")]

use rustorch_core::profile::DeviceProfiler;
use rustorch_core::{Backend, BinaryOp, DType, Op, Shape, Streams};
use rustorch_kernels::{Driver, Engine, KernelCache};
use rustorch_opencl::Candidate;
use rustorch_runtime::{HybridExecutor, Placement, TransferMethod};
use rustorch_testkit::{Requirement, in_child, is_child, skip};
use std::process::Command;
use std::sync::Arc;

/// By drivers.
fn directly() {
    let found = rustorch_opencl::discover();
    let folder = tempfile::tempdir().unwrap();
    let open = |i: usize| found.devices[i].open_with(Some(KernelCache::open(folder.path()))).unwrap();
    let (first, second) = (open(0), open(1));
    let bytes: Vec<u8> = (0..1 << 20).map(|i: u32| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let (x, y) = (first.allocate(bytes.len()).unwrap(), second.allocate(bytes.len()).unwrap());
    first.write(&x, 0, &bytes).unwrap();
    first.finish().unwrap();
    second.write(&y, 0, &vec![0xff; bytes.len()]).unwrap();
    second.start().unwrap();
    second.copy_from_peer((&x, 4096), (&y, 16), 8192).unwrap().unwrap();
    let spans = second.take_spans().unwrap();
    assert!(spans.iter().any(|span| span.label == "copy from peer"), "{spans:?}");
    second.stop();
    let mut read = vec![0; 8192 + 32];
    second.read(&y, 0, &mut read).unwrap();
    assert!(read[16..8208] == bytes[4096..12288], "what was copied");
    assert!(read[..16].iter().chain(&read[8208..]).all(|&byte| byte == 0xff), "what was not");
    // The source goes on as its own device's.
    let mut read = vec![0; bytes.len()];
    first.read(&x, 0, &mut read).unwrap();
    assert!(read == bytes);
    let outside = second.copy_from_peer((&x, 4), (&y, 0), bytes.len()).unwrap().unwrap_err();
    assert!(outside.to_string().contains("outside a memory"), "{outside}");
    // A device that is opened once more joins the others, also when one of them is gone.
    first.lose("pulled out");
    assert!(second.copy_from_peer((&x, 0), (&y, 0), 16).unwrap().is_err());
    let again = open(0);
    let z = again.allocate(16).unwrap();
    again.copy_from_peer((&y, 16), (&z, 0), 16).unwrap().unwrap();
    let mut read = [0; 16];
    again.read(&z, 0, &mut read).unwrap();
    assert_eq!(read, bytes[4096..4112]);
}

/// By operations that follow their data from device to device.
fn in_the_executor(candidates: [&Candidate; 2], method: TransferMethod) {
    let devices = candidates.map(|candidate| candidate.hardware().device);
    let mut builder = HybridExecutor::builder().threads(1);
    for candidate in candidates {
        let engine = Engine::new(candidate.open().unwrap()).unwrap();
        assert_eq!(engine.set_streams(2), 2);
        builder = builder.backend(Arc::new(engine) as Arc<dyn Backend>);
    }
    let exec = builder.fallback_order(devices).build().unwrap();
    let add = Op::Binary(BinaryOp::Add);
    let numbers: Vec<u8> = (0..5000).flat_map(|i: i32| i.to_ne_bytes()).collect();
    let shape = Shape::new([5000].as_slice()).unwrap();
    let mut x = exec.upload(&numbers, DType::I32, &shape, devices[0]).unwrap();
    for round in 0..6 {
        let there = exec.with_policy(Placement::Require(devices[1 - round % 2])).unwrap();
        x = there.run(&add, &[x.operand(), x.operand()]).unwrap().pop().unwrap();
    }
    let mut result = vec![0; numbers.len()];
    exec.download(&x.operand(), &mut result).unwrap();
    for (i, word) in result.as_chunks::<4>().0.iter().enumerate() {
        assert_eq!(i32::from_ne_bytes(*word), 64 * i as i32);
    }
    let transfers = exec.transfers();
    for (from, to) in [(0, 1), (1, 0)].map(|(from, to)| (devices[from], devices[to])) {
        assert_eq!(transfers.method(from, to), Some(method));
        let count = transfers.count(from, to, method);
        // Three operations in each direction; both operands are one storage, which is copied once.
        assert_eq!((count.count, count.bytes), (3, 3 * 20_000));
        assert!(count.bandwidth().is_some_and(|rate| rate > 0.0));
        for other in [TransferMethod::Peer, TransferMethod::Staging].into_iter().filter(|&m| m != method) {
            assert_eq!(transfers.count(from, to, other).count, 0);
        }
        println!("{from} to {to}: {:.2} GB/s", count.bandwidth().unwrap_or(0.0) / 1e9);
    }
}

#[test]
fn devices_of_a_platform_copy_directly() {
    let name = "peers::devices_of_a_platform_copy_directly";
    if !is_child(name) && rustorch_opencl::discover().devices.is_empty() {
        return skip(Requirement::OpenCl, "there is no device");
    }
    // Its name for a device on the CPU with threads, of PoCL up to 3 and from 4 on.
    for devices in ["pthread pthread", "cpu cpu"] {
        let prepare = |command: &mut Command| {
            command.env("POCL_DEVICES", devices);
        };
        let Some(said) = in_child(name, prepare, two_devices) else { return };
        println!("{said}");
        if said.contains("data is copied") {
            return;
        }
        assert!(said.contains("one device"));
    }
    skip(Requirement::OpenCl, "PoCL is not there, or does not show two devices");
}

/// Copies data, if there are two devices. Says what it does.
fn two_devices() {
    let found = rustorch_opencl::discover();
    if found.devices.len() < 2 {
        println!("one device");
        return;
    }
    directly();
    in_the_executor([&found.devices[0], &found.devices[1]], TransferMethod::Peer);
    println!("data is copied");
}

#[test]
fn devices_of_two_platforms_copy_by_way_of_the_cpu() {
    let found = rustorch_opencl::discover().devices;
    let other = found.iter().find(|candidate| candidate.platform() != found[0].platform());
    let Some(other) = other else {
        return skip(Requirement::Intel, "there are no two platforms with devices");
    };
    let first = &found[0];
    // The drivers know that there is no direct way.
    let (one, two) = (first.open().unwrap(), other.open().unwrap());
    let (x, y) = (one.allocate(64).unwrap(), two.allocate(64).unwrap());
    assert_eq!(two.copy_from_peer((&x, 0), (&y, 0), 64), None);
    assert_eq!(one.copy_from_peer((&y, 0), (&x, 0), 64), None);
    // What is one driver's is an error to the other, not a crash of it.
    assert!(two.copy(&x, 0, &y, 0, 64).is_err());
    assert!(two.read(&x, 0, &mut [0; 64]).is_err());
    in_the_executor([first, other], TransferMethod::Staging);
}
