//! Plans of operations on operands larger than the maximum binding size: of layouts alone, nothing runs.

mod launches;
mod plans;

use crate::common::paper;
use rustorch_core::{DType, Decline, Layout, MatMul, Op, Shape, TensorMeta};
use rustorch_kernels::family::{self, Plan, supports};
use rustorch_kernels::plan::Request;
use rustorch_kernels::{Arithmetic, Hardware};

/// A device whose kernels see so many bytes of a buffer.
fn hardware(max_binding: u64) -> Hardware {
    Hardware {
        subgroups: None,
        tensor_cores: false,
        software: true,
        workgroup: 256,
        workgroup_memory: 16 << 10,
        max_buffer: 1 << 40,
        max_binding,
        buffers: 16,
        arithmetic: Arithmetic::default(),
        ..paper::strong()
    }
}

fn packed(dims: &[usize]) -> Layout {
    Layout::contiguous(Shape::new(dims).unwrap())
}

/// The transposed view of `n` rows of `k`.
fn weight(n: usize, k: usize) -> Layout {
    packed(&[n, k]).transpose(0, 1).unwrap()
}

fn plan_on(op: &Op, args: &[(DType, Layout)], hardware: &Hardware) -> Result<Plan, Decline> {
    let device = hardware.device;
    let args: Vec<TensorMeta<'_>> =
        args.iter().map(|(dtype, layout)| TensorMeta { dtype: *dtype, layout, device }).collect();
    let outs = op.infer(&args).unwrap();
    let layouts: Vec<Layout> = outs.iter().map(|out| Layout::contiguous(out.shape.clone())).collect();
    let outs: Vec<TensorMeta<'_>> = outs
        .iter()
        .zip(&layouts)
        .map(|(out, layout)| TensorMeta { dtype: out.dtype, layout, device })
        .collect();
    let plan = family::plan(&Request::new(op, &args, &outs, hardware));
    // What planning answers beforehand is what it answers then.
    assert_eq!(supports(op, &args, hardware).is_ok(), plan.is_ok(), "{op:?}");
    plan
}

fn matmul() -> Op {
    Op::MatMul(MatMul::default())
}
