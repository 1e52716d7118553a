//! Pools and their statistics.
#![allow(clippy::unwrap_used, reason = "a step that fails fails the test")]

mod common;

use common::{builder, ramp, upload};
use rustorch_core::{BinaryOp, Device, Op};
use std::sync::Arc;

#[test]
fn blocks_come_back_and_are_used_again() {
    let exec = builder(&[]).build().unwrap();
    let stats = || exec.memory().stats(Device::Cpu).unwrap();
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
    let released = exec.memory().release_cached(Device::Cpu);
    assert!(released > 4_000_000);
    assert_eq!(stats().reserved, 0);
    assert!(exec.memory().stats(Device::Cuda(0)).is_none());
}

#[test]
fn blocks_may_be_dropped_by_another_thread() {
    let exec = builder(&[]).build().unwrap();
    let blocks: Vec<_> = (0..100).map(|_| upload(&exec, &ramp(4), &[4])).collect();
    std::thread::spawn(move || drop(blocks)).join().unwrap();
    let stats = exec.memory().stats(Device::Cpu).unwrap();
    assert_eq!((stats.allocated, stats.reserved), (0, 6400));
    exec.memory().release_cached(Device::Cpu);
    assert_eq!(exec.memory().stats(Device::Cpu).unwrap().reserved, 0);
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
    assert_eq!(exec.memory().stats(Device::Cpu).unwrap().allocated, 0);
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
