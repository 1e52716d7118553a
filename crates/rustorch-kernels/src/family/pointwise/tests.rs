//! The table and the lines of WGSL say the same.

use super::*;
use crate::{Arithmetic, Language, family};
use rustorch_core::{Cast, Clamp, Device, Layout, Scalar, Shape};

fn hardware(i64: bool, f64: bool) -> Hardware {
    Hardware {
        device: Device::vulkan(0),
        name: String::new(),
        driver: String::new(),
        language: Language::Wgsl,
        f64,
        i64,
        subgroups: None,
        software: false,
        workgroup: 256,
        workgroup_memory: 16 << 10,
        groups: 65535,
        max_buffer: 1 << 30,
        max_binding: 1 << 30,
        buffers: 8,
        parameters: 1024,
        window: Some(256),
        memory: None,
        arithmetic: Arithmetic::default(),
    }
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
    for hardware in [hardware(false, false), hardware(true, false), hardware(true, true)] {
        for (op, n) in &ops {
            for &dtype in DType::DENSE {
                let args = vec![TensorMeta { dtype, layout: &layout, device: hardware.device }; *n];
                if op.infer(&args).is_err() {
                    continue;
                }
                let held = crate::wgsl::holds(dtype, &hardware).is_ok();
                let line = held && supports(op, &args, &hardware).is_ok();
                let promised = family::supports(op, &args, &hardware).is_ok();
                if line != promised {
                    wrong.push(format!("{} {dtype}: promised {promised}, line {line}", op.name()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
