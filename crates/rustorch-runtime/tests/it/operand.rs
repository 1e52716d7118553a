//! Operands made by safe code: whatever does not lie inside its storage is an error, never an access.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a step that fails fails the test")]

use proptest::prelude::*;
use rustorch_core::{BinaryOp, CopyOp, DType, Device, Dims, Layout, Op, Result, Shape};
use rustorch_runtime::{HybridExecutor, Operand, Output};
use std::sync::LazyLock;

fn shape(dims: &[usize]) -> Shape {
    Shape::new(dims).unwrap()
}

fn executor() -> HybridExecutor {
    HybridExecutor::builder().threads(1).build().unwrap()
}

fn ones(exec: &HybridExecutor, n: usize) -> Output {
    let bytes: Vec<u8> = std::iter::repeat_n(1f32.to_ne_bytes(), n).flatten().collect();
    exec.upload(&bytes, DType::F32, &shape(&[n]), Device::CPU).unwrap()
}

/// Reads `layout` of a storage of 16 elements, and writes it.
fn read_and_write(exec: &HybridExecutor, layout: Result<Layout>) -> [Result<()>; 2] {
    let (x, values) = (ones(exec, 16), ones(exec, 16));
    let read = layout.clone().and_then(|layout| {
        let operand = Operand { layout: &layout, ..x.operand() };
        exec.run(&Op::Binary(BinaryOp::Add), &[operand, operand]).map(|_| ())
    });
    let write = layout.and_then(|layout| {
        let to = Operand { layout: &layout, ..x.operand() };
        let from = Layout::contiguous(layout.shape().clone());
        exec.run_into(&Op::Copy(CopyOp), &[Operand { layout: &from, ..values.operand() }], &[to])
    });
    [read, write]
}

#[test]
fn what_would_lie_before_the_storage_is_refused() {
    let exec = executor();
    // As many elements before the storage's first: their end wraps around to its start.
    for n in 1..=16usize {
        for result in read_and_write(&exec, Layout::new(shape(&[n]), [1].as_slice(), usize::MAX - (n - 1))) {
            result.unwrap_err();
        }
    }
}

/// Lengths of a layout whose elements are few, or more than any memory holds.
fn length() -> impl Strategy<Value = usize> {
    prop_oneof![8 => 0usize..5, 1 => (0usize..4).prop_map(|d| (1 << 60) - 2 + d)]
}

/// Strides and offsets.
fn distance() -> impl Strategy<Value = usize> {
    prop_oneof![
        8 => 0usize..20,
        1 => (0usize..20).prop_map(|d| usize::MAX - d),
        1 => (0usize..20).prop_map(|d| isize::MAX as usize - 10 + d),
        1 => (0usize..20).prop_map(|d| usize::MAX / 4 - d),
        1 => (0..usize::BITS).prop_map(|bit| 1 << bit),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_layout_is_computed_inside_its_storage_or_refused(
        axes in prop::collection::vec((length(), distance()), 0..4),
        offset in distance(),
    ) {
        static EXECUTOR: LazyLock<HybridExecutor> = LazyLock::new(executor);
        let (dims, strides): (Dims, Dims) = axes.into_iter().unzip();
        let layout = Shape::new(dims).and_then(|shape| Layout::new(shape, strides, offset));
        let inside = layout.as_ref().is_ok_and(|layout| layout.numel() == 0 || layout.end() <= 16);
        let distinct = layout.as_ref().is_ok_and(|layout| !layout.overlaps_itself());
        let huge = layout.as_ref().is_ok_and(|layout| layout.numel() > 1 << 58);
        let [read, write] = read_and_write(&EXECUTOR, layout);
        prop_assert_eq!(read.is_ok(), inside && !huge);
        prop_assert_eq!(write.is_ok(), inside && distinct);
    }
}
