//! Operations on the CPU, through the executor's public face.
#![allow(clippy::unwrap_used, reason = "a step that fails fails the test")]

use crate::common::{floats, shape, upload};
use rustorch_core::{BinaryOp, DType, Device, Layout, Op, UnaryOp};
use rustorch_runtime::{HybridExecutor, Operand, Storage};
use std::sync::Arc;

fn executor() -> HybridExecutor {
    HybridExecutor::builder().threads(2).build().unwrap()
}

#[test]
fn results_are_fresh_and_right() {
    let exec = executor();
    let a = upload(&exec, &[1f32, 2.0, 3.0], &[3]);
    let b = upload(&exec, &[10f32], &[1]);
    let out = exec.run(&Op::Binary(BinaryOp::Add), &[a.operand(), b.operand()]).unwrap();
    assert_eq!(floats(&exec, &out[0].operand()), [11.0, 12.0, 13.0]);
    assert_eq!(floats(&exec, &a.operand()), [1.0, 2.0, 3.0]);
}

#[test]
fn views_are_downloaded_in_row_major_order() {
    let exec = executor();
    let a = upload(&exec, &[1f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]);
    let turned = a.layout.transpose(0, 1).unwrap();
    let view = Operand { layout: &turned, ..a.operand() };
    assert_eq!(floats(&exec, &view), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    let copy = exec.transfer(&view, Device::CPU).unwrap();
    assert!(copy.layout.is_contiguous());
    assert_eq!(floats(&exec, &copy.operand()), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
}

#[test]
fn destinations_may_share_memory_with_arguments() {
    let exec = executor();
    let a = upload(&exec, &[1f32, 2.0, 3.0, 4.0], &[4]);
    let version = a.storage.version();
    // Shifted by one: element i becomes the negative of element i − 1.
    let (from, to) = (a.layout.slice(0, 0, 3, 1).unwrap(), a.layout.slice(0, 1, 3, 1).unwrap());
    let view = |layout| Operand { layout, ..a.operand() };
    exec.run_into(&Op::Unary(UnaryOp::Neg), &[view(&from)], &[view(&to)]).unwrap();
    assert_eq!(floats(&exec, &a.operand()), [1.0, -1.0, -2.0, -3.0]);
    assert!(a.storage.version() > version);
}

#[test]
fn what_must_not_be_written_is_refused() {
    let exec = executor();
    let a = upload(&exec, &[1f32, 2.0], &[2]);
    let neg = Op::Unary(UnaryOp::Neg);
    // SAFETY: a vector that nobody changes.
    let file = unsafe { Storage::shared(Arc::new(vec![0u8; 64])) };
    let read_only = Operand { storage: &file, dtype: DType::F32, layout: &a.layout };
    let error = exec.run_into(&neg, &[a.operand()], &[read_only]).unwrap_err();
    assert!(error.to_string().contains("read-only"), "{error}");

    let repeated = Layout::new(shape(&[2]), [0].as_slice(), 0).unwrap();
    let b = upload(&exec, &[1f32, 2.0], &[2]);
    let twice = Operand { layout: &repeated, ..b.operand() };
    assert!(exec.run_into(&neg, &[a.operand()], &[twice]).unwrap_err().to_string().contains("twice"));

    let beyond = Layout::contiguous(shape(&[3]));
    let outside = Operand { layout: &beyond, ..a.operand() };
    assert!(exec.run(&neg, &[outside]).unwrap_err().to_string().contains("beyond"));

    let truth = Operand { dtype: DType::Bool, ..a.operand() };
    assert!(exec.run(&Op::Unary(UnaryOp::LogicalNot), &[truth]).unwrap_err().to_string().contains("bool"));
    assert!(exec.upload(&[2], DType::Bool, &shape(&[1]), Device::CPU).is_err());
    assert!(exec.upload(&[0; 7], DType::F32, &shape(&[2]), Device::CPU).is_err());
    assert!(
        exec.upload(&[0; 8], DType::F32, &shape(&[2]), Device::cuda(0))
            .unwrap_err()
            .to_string()
            .contains("cpu")
    );
}

#[test]
fn misaligned_memory_is_refused() {
    let exec = executor();
    struct Tail(Vec<u64>);
    impl AsRef<[u8]> for Tail {
        fn as_ref(&self) -> &[u8] {
            // SAFETY: inside the vector.
            unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast::<u8>().add(2), 32) }
        }
    }
    // SAFETY: a vector that nobody changes.
    let file = unsafe { Storage::shared(Arc::new(Tail(vec![0; 8]))) };
    let layout = Layout::contiguous(shape(&[4]));
    let x = Operand { storage: &file, dtype: DType::F32, layout: &layout };
    assert!(exec.run(&Op::Unary(UnaryOp::Neg), &[x]).unwrap_err().to_string().contains("aligned"));
}

#[test]
fn scopes_nest() {
    let (a, b) = (executor(), executor());
    a.scope(|| {
        b.scope(|| assert!(HybridExecutor::current().same(&b)));
        assert!(HybridExecutor::current().same(&a));
    });
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| a.scope(|| panic!("on purpose"))));
    assert!(caught.is_err());
    assert!(!HybridExecutor::current().same(&a));
}
