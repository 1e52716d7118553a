//! Allocators and their statistics.
#![allow(clippy::unwrap_used, reason = "a step that fails fails the test")]

use crate::common::{self, CUDA, builder, fake, ramp, upload};
use rustorch_core::{BinaryOp, CopyOp, DType, Device, Fault, Fill, Op, Scalar, UnaryOp, Verdict};
use rustorch_runtime::{HybridExecutor, Output, Placement, TransferMethod};
use std::sync::Arc;

#[test]
fn blocks_come_back_and_are_used_again() {
    let exec = builder(&[]).build().unwrap();
    let stats = || exec.memory().stats(Device::CPU).unwrap();
    for elements in [1, 100, 10_000, 1_000_000] {
        let first = upload(&exec, &ramp(elements), &[elements]);
        // Sizes are rounded up by an eighth at most.
        let held = stats().allocated as usize;
        assert!((4 * elements..=64.max(4 * elements * 9 / 8)).contains(&held), "{elements}: {held}");
        drop(first);
        assert_eq!(stats().allocated, 0, "{elements}");
        let before = stats();
        drop(upload(&exec, &ramp(elements), &[elements]));
        let after = stats();
        assert_eq!((after.misses, after.hits), (before.misses, before.hits + 1), "{elements}");
        assert_eq!(after.reserved, before.reserved);
    }
    let peak = stats().peak;
    assert!((4_000_000..4_500_000).contains(&peak), "{peak}");
    let released = exec.memory().release_cached(Device::CPU);
    assert!(released > 4_000_000);
    assert_eq!(stats().reserved, 0);
    assert!(exec.memory().stats(Device::cuda(0)).is_none());
}

#[test]
fn blocks_may_be_dropped_by_another_thread() {
    let exec = builder(&[]).build().unwrap();
    let blocks: Vec<_> = (0..100).map(|_| upload(&exec, &ramp(4), &[4])).collect();
    std::thread::spawn(move || drop(blocks)).join().unwrap();
    let stats = exec.memory().stats(Device::CPU).unwrap();
    assert_eq!((stats.allocated, stats.reserved), (0, 6400));
    exec.memory().release_cached(Device::CPU);
    assert_eq!(exec.memory().stats(Device::CPU).unwrap().reserved, 0);
}

#[test]
fn pools_of_dropped_executors_are_freed() {
    let x = {
        let exec = builder(&[]).build().unwrap();
        upload(&exec, &ramp(4), &[4])
    };
    // The storage outlives its executor.
    let exec = builder(&[]).build().unwrap();
    let out = exec.run(&Op::Binary(BinaryOp::Add), &[x.operand(), x.operand()]).unwrap();
    drop(x);
    assert_eq!(common::floats(&exec, &out[0].operand()), [-6.0, -5.0, -4.0, -3.0]);
}

#[test]
fn threads_may_share_everything() {
    let exec = builder(&[]).build().unwrap();
    let cell = Arc::new(upload(&exec, &[0f32; 64], &[64]));
    let one = upload(&exec, &[1f32; 64], &[64]);
    let add = Op::Binary(BinaryOp::Add);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (exec, cell, one, add) = (&exec, &cell, &one, &add);
            scope.spawn(move || {
                for i in 0..300 {
                    if thread % 2 == 0 {
                        // Writers fill the cell with one value each.
                        exec.run_into(add, &[one.operand(), one.operand()], &[cell.operand()]).unwrap();
                        let copy = exec.run(add, &[one.operand(), one.operand()]).unwrap();
                        exec.run_into(add, &[copy[0].operand(), one.operand()], &[cell.operand()]).unwrap();
                    } else {
                        // Readers see whole writes only.
                        let sum = exec.run(add, &[cell.operand(), cell.operand()]).unwrap();
                        let seen = common::floats(exec, &sum[0].operand());
                        assert!(seen.iter().all(|&x| x == seen[0]), "{i}: {seen:?}");
                        assert!([0.0, 4.0, 6.0].contains(&seen[0]), "{seen:?}");
                    }
                }
            });
        }
    });
    drop((cell, one));
    assert_eq!(exec.memory().stats(Device::CPU).unwrap().allocated, 0);
}

#[test]
fn crossed_writers_do_not_wait_for_each_other() {
    let exec = builder(&[]).build().unwrap();
    let cells: Vec<_> = (0..4).map(|_| upload(&exec, &ramp(16), &[16])).collect();
    let add = Op::Binary(BinaryOp::Add);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (exec, cells, add) = (&exec, &cells, &add);
            scope.spawn(move || {
                for i in 0..300 {
                    let pick = |k: usize| cells[(thread + i * k) % 4].operand();
                    exec.run_into(add, &[pick(1), pick(2)], &[pick(3)]).unwrap();
                }
            });
        }
    });
    let versions: u64 = cells.iter().map(|cell| cell.storage.version()).sum();
    assert!(versions >= 8 * 300);
}

#[test]
fn a_limited_pool_gives_back_what_it_keeps_and_then_lets_the_next_device_work() {
    let cuda = Arc::new(fake(CUDA));
    let exec = builder(&[&cuda]).placement(Placement::Prefer(CUDA)).build().unwrap();
    let neg = Op::Unary(UnaryOp::Neg);
    exec.memory().set_limit(CUDA, Some(64 << 10));
    assert_eq!(exec.memory().limit(CUDA), Some(64 << 10));
    let small = upload(&exec, &ramp(4096), &[4096]);
    // The argument and the result fit, twice over, and are kept when they are not needed any more.
    let first = exec.run(&neg, &[small.operand()]).unwrap();
    assert_eq!(first[0].storage.device(), CUDA);
    drop((first, small));
    let stats = || exec.memory().stats(CUDA).unwrap();
    assert_eq!((stats().allocated, stats().reserved, stats().faults), (0, 32 << 10, 0));
    // Other sizes cannot use these blocks: together with them they would be too much, but alone they fit.
    let other = upload(&exec, &ramp(6000), &[6000]);
    let second = exec.run(&neg, &[other.operand()]).unwrap();
    assert_eq!(second[0].storage.device(), CUDA);
    assert!(stats().faults > 0 && stats().reserved <= 64 << 10, "{:?}", stats());
    // What is in use cannot be given back.
    let (third, explanation) = exec.explain(|| exec.run(&neg, &[other.operand()]).unwrap());
    assert_eq!(third[0].storage.device(), Device::CPU);
    let considered = &explanation.records()[0].considered;
    assert!(
        matches!(&considered[0], (CUDA, Verdict::Failed(Fault::OutOfMemory { device: CUDA, .. }))),
        "{considered:?}"
    );
    assert_eq!(common::floats(&exec, &third[0].operand()), common::floats(&exec, &second[0].operand()));
    assert!(exec.health().quarantined().is_empty());
    drop(second);
    assert_eq!(exec.run(&neg, &[other.operand()]).unwrap()[0].storage.device(), CUDA);
    assert!(stats().peak <= 64 << 10);
    let sum = stats();
    assert_eq!(sum.accesses(), sum.hits + sum.misses + sum.faults);
}

#[test]
fn threads_together_keep_the_limit() {
    let cuda = Arc::new(fake(CUDA));
    let exec = builder(&[&cuda]).placement(Placement::Prefer(CUDA)).build().unwrap();
    exec.memory().set_limit(CUDA, Some(48 << 10));
    let x = upload(&exec, &ramp(4096), &[4096]);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    exec.run(&Op::Unary(UnaryOp::Neg), &[x.operand()]).unwrap();
                    assert!(cuda.used() <= 48 << 10);
                }
            });
        }
    });
    // The copy of the argument goes with it.
    drop(x);
    assert_eq!(exec.memory().stats(CUDA).unwrap().allocated, 0);
}

#[test]
fn transfers_are_counted_by_pair_and_method_with_their_time() {
    let cuda = Arc::new(fake(CUDA));
    let exec = builder(&[&cuda]).placement(Placement::Require(CUDA)).build().unwrap();
    let x = upload(&exec, &ramp(1 << 16), &[1 << 16]);
    let y = exec.run(&Op::Unary(UnaryOp::Neg), &[x.operand()]).unwrap();
    common::floats(&exec, &y[0].operand());
    let transfers = exec.memory().transfers();
    for (from, to) in [(Device::CPU, CUDA), (CUDA, Device::CPU)] {
        let count = transfers.count(from, to, TransferMethod::Copy);
        assert_eq!((count.count, count.bytes), (1, 4 << 16));
        assert_eq!(transfers.between(from, to), count);
        let bandwidth = count.bandwidth().unwrap();
        assert!(bandwidth > 1e6, "{bandwidth}");
        assert!((bandwidth * count.time.as_secs_f64() - count.bytes as f64).abs() < 1.0);
    }
    assert_eq!(transfers.count(CUDA, Device::CPU, TransferMethod::Peer).bandwidth(), None);
    assert_eq!(transfers.all().len(), 2);
}

/// A tensor of one value on the CPU.
fn full(exec: &HybridExecutor, dtype: DType, elements: usize, value: impl Into<Scalar>) -> Output {
    let fill = Fill { shape: common::shape(&[elements]), dtype, value: value.into() };
    exec.run(&Op::Fill(fill), &[]).unwrap().remove(0)
}

#[test]
fn zeros_are_zero_in_new_memory_and_in_used_memory() {
    let exec = builder(&[]).build().unwrap();
    let elements = 1 << 20;
    let all = |x: &Output, byte: u8| common::bytes(&exec, &x.operand()).iter().all(|&found| found == byte);
    for (dtype, ones) in [(DType::Bool, 1), (DType::U8, 0xff), (DType::F32, 0xff)] {
        // New memory, and what is written there.
        let zeros = full(&exec, dtype, elements, 0);
        assert!(all(&zeros, 0), "{dtype}");
        let bytes = vec![ones; elements * dtype.block_bytes()];
        let other = exec.upload(&bytes, dtype, &common::shape(&[elements]), Device::CPU).unwrap();
        exec.run_into(&Op::Copy(CopyOp), &[other.operand()], &[zeros.operand()]).unwrap();
        assert!(all(&zeros, ones), "{dtype}");
        drop((zeros, other));
        // The same memory again.
        let before = exec.memory().stats(Device::CPU).unwrap();
        let again = full(&exec, dtype, elements, 0);
        assert_eq!(exec.memory().stats(Device::CPU).unwrap().misses, before.misses, "{dtype}");
        assert!(all(&again, 0), "{dtype}");
    }
    let negative = full(&exec, DType::F32, elements, -0.0);
    assert!(common::bytes(&exec, &negative.operand()).chunks(4).all(|four| four == (-0.0f32).to_ne_bytes()));
}

#[cfg(target_os = "linux")]
#[test]
fn zeros_take_memory_when_they_are_touched() {
    // In a process of its own, whose memory no other test changes.
    rustorch_testkit::in_child(
        "memory::zeros_take_memory_when_they_are_touched",
        |_| {},
        || {
            let resident = || {
                let status = std::fs::read_to_string("/proc/self/status").unwrap();
                let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
                line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
            };
            let exec = builder(&[]).build().unwrap();
            drop(full(&exec, DType::F32, 1, 0));
            let before = resident();
            let (zeros, ones) = (full(&exec, DType::F32, 16 << 20, 0), full(&exec, DType::F32, 4 << 20, 1));
            let grown = resident().saturating_sub(before) >> 20;
            // Of 64 MiB of zeros and 16 of ones.
            assert!((15..40).contains(&grown), "{grown} MiB");
            drop((zeros, ones));
        },
    );
}
