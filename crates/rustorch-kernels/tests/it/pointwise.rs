//! The table of pointwise operations and their lines of WGSL say the same.

use crate::common::paper;
use rustorch_core::{
    BinaryOp, Cast, Clamp, CompareOp, DType, GluOp, Layout, Op, Scalar, Shape, TensorMeta, UnaryOp,
};
use rustorch_kernels::plan::Request;
use rustorch_kernels::{Hardware, family, wgsl};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Whether there is a line for an operation on `args`: without one its kernel has no source, which is a panic.
fn has_line(op: &Op, args: &[TensorMeta<'_>], hardware: &Hardware) -> bool {
    let [out] = &op.infer(args).unwrap()[..] else { panic!("{op:?} has one result") };
    if [args[0].dtype, out.dtype].iter().any(|&dtype| wgsl::holds(dtype, hardware).is_err()) {
        return false;
    }
    let outs = [TensorMeta { dtype: out.dtype, ..args[0] }];
    let plan = family::plan(&Request::new(op, args, &outs, hardware)).unwrap();
    let source = catch_unwind(AssertUnwindSafe(|| plan.steps[0].kernel.wgsl(hardware)));
    source.map_or_else(
        |panic| {
            let said = panic.downcast_ref::<&str>().map(|said| (*said).to_owned());
            let said = said.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap();
            assert_eq!(said, "the table promises no function without a line", "{op:?}");
            false
        },
        |_| true,
    )
}

#[test]
fn every_row_has_its_lines() {
    let layout = Layout::contiguous(Shape::new([2usize].as_slice()).unwrap());
    let mut ops: Vec<(Op, usize)> = Vec::new();
    ops.extend(UnaryOp::ALL.iter().map(|&op| (Op::Unary(op), 1)));
    ops.extend(BinaryOp::ALL.iter().map(|&op| (Op::Binary(op), 2)));
    ops.extend(CompareOp::ALL.iter().map(|&op| (Op::Compare(op), 2)));
    ops.extend(GluOp::ALL.iter().map(|&op| (Op::Glu(op), 2)));
    ops.push((Op::Clamp(Clamp { min: Some(Scalar::Int(0)), max: None }), 1));
    ops.extend(DType::DENSE.iter().map(|&to| (Op::Cast(Cast { to }), 1)));
    let mut wrong = Vec::new();
    for (i64, f64) in [(false, false), (true, false), (true, true)] {
        let hardware = Hardware { i64, f64, ..paper::weak() };
        for (op, n) in &ops {
            for &dtype in DType::DENSE {
                let args = vec![TensorMeta { dtype, layout: &layout, device: hardware.device }; *n];
                if op.infer(&args).is_err() {
                    continue;
                }
                let line = has_line(op, &args, &hardware);
                let promised = family::supports(op, &args, &hardware).is_ok();
                if line != promised {
                    wrong.push(format!("{} {dtype}: promised {promised}, line {line}", op.name()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Whether a sum of tensors of these layouts is computed by vectors.
fn by_vectors(dtype: DType, args: &[&Layout], hardware: &Hardware) -> bool {
    let op = Op::Binary(BinaryOp::Add);
    let args: Vec<TensorMeta<'_>> =
        args.iter().map(|layout| TensorMeta { dtype, layout, device: hardware.device }).collect();
    let out = Layout::contiguous(op.infer(&args).unwrap()[0].shape.clone());
    let outs = [TensorMeta { dtype, layout: &out, device: hardware.device }];
    let plan = family::plan(&Request::new(&op, &args, &outs, hardware)).unwrap();
    plan.steps[0].kernel.label().contains("wide: Some")
}

#[test]
fn large_tensors_are_read_by_vectors() {
    let (strong, weak) = (paper::strong(), paper::weak());
    let layout = |dims: &[usize]| Layout::contiguous(Shape::new(dims).unwrap());
    let matrix = layout(&[1024, 1024]);
    let long = layout(&[1_000_003]);
    let part = |from| layout(&[2_000_000]).slice(0, from, 1_000_003, 1).unwrap();
    let columns = |from, of: usize| layout(&[1024, of]).slice(1, from, 1024, 1).unwrap();
    let f32 = |args: &[&Layout]| by_vectors(DType::F32, args, &strong);
    assert!(f32(&[&long, &long]) && f32(&[&long, &part(4)]) && !f32(&[&long, &part(2)]));
    assert!(by_vectors(DType::F16, &[&long, &part(8)], &strong));
    assert!(!by_vectors(DType::F16, &[&long, &part(4)], &strong));
    // What is broadcast: rows, columns and scalars.
    for dims in [&[1024][..], &[1024, 1], &[1]] {
        assert!(f32(&[&matrix, &layout(dims)]), "{dims:?}");
    }
    // Rows that follow at a distance of whole vectors, and of others.
    assert!(f32(&[&matrix, &columns(4, 2048)]) && !f32(&[&matrix, &columns(0, 2049)]));
    assert!(!f32(&[&matrix, &matrix.transpose(0, 1).unwrap()]));
    // Few elements, and a software device.
    assert!(!f32(&[&layout(&[4096]), &layout(&[4096])]));
    assert!(!by_vectors(DType::F32, &[&long, &long], &weak));
}
