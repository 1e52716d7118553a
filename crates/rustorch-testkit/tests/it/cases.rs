//! The cases of the suite are valid, and none of what matters is left out.

use rustorch_core::{BinaryOp, DType, Device, TensorMeta, UnaryOp, bytes_reached};
use rustorch_testkit::conformance::{Case, cases, regression_cases};

/// The cases of an operation of which something holds.
fn count(cases: &[Case], name: &str, holds: impl Fn(&Case) -> bool) -> usize {
    cases.iter().filter(|case| case.op.name() == name && holds(case)).count()
}

#[test]
fn layouts_stay_inside_their_memory() {
    for case in cases() {
        for arg in &case.args {
            let reached = if arg.layout.numel() == 0 { 0 } else { arg.layout.end() };
            assert!(reached * arg.dtype.block_bytes() <= arg.bytes.len(), "{case}");
        }
    }
}

#[test]
fn regressions_are_valid_and_stay_inside_their_memory() {
    for case in regression_cases() {
        let meta = |dtype, layout| TensorMeta { dtype, layout, device: Device::CPU };
        let metas: Vec<TensorMeta<'_>> = case.args.iter().map(|arg| meta(arg.dtype, &arg.layout)).collect();
        case.op.infer(&metas).unwrap();
        for arg in &case.args {
            assert!(bytes_reached(arg.dtype, &arg.layout).unwrap() <= arg.bytes.len(), "{case}");
        }
    }
}

#[test]
fn every_family_is_tried() {
    let mut names: Vec<&str> = cases().iter().map(|case| case.op.name()).collect();
    names.sort_unstable();
    names.dedup();
    // 43 unary, 15 binary, 6 comparisons, 4 GLUs, 12 reductions, and the rest.
    assert!(names.len() >= UnaryOp::ALL.len() + BinaryOp::ALL.len() + 6 + 4 + 12 + 20, "{}", names.len());
}

#[test]
fn every_operation_on_windows_and_channels_is_tried_and_no_gradient_is_left_out() {
    let cases = cases();
    let count = |name: &str| count(&cases, name, |_| true);
    for name in ["max_pool", "avg_pool", "adaptive_max_pool", "adaptive_avg_pool", "interpolate"] {
        assert!(count(name) > 200, "{} of {name}", count(name));
    }
    for name in ["batch_norm", "group_norm", "max_pool_backward"] {
        assert!(count(name) > 200, "{} of {name}", count(name));
    }
    for name in ["avg_pool", "adaptive_avg_pool", "interpolate"] {
        assert_eq!(count(name), count(&format!("{name}_backward")), "{name}");
    }
}

#[test]
fn every_decomposition_is_tried_in_every_dtype() {
    let cases = cases();
    for name in
        ["cholesky", "lu", "qr", "solve", "solve_triangular", "inv", "det", "slogdet", "svd", "eigh", "eig"]
    {
        for dtype in [DType::F32, DType::F64, DType::C64, DType::C128] {
            let count = count(&cases, &format!("linalg.{name}"), |case| case.args[0].dtype == dtype);
            assert!(count >= 15, "{count} of {name} in {dtype}");
        }
    }
}

#[test]
fn every_pass_of_a_convolution_is_tried_in_every_float_and_complex_dtype() {
    let cases = cases();
    for op in ["conv", "conv_backward_data", "conv_backward_weight"] {
        for &dtype in DType::DENSE.iter().filter(|d| d.is_float() || d.is_complex()) {
            let count = count(&cases, op, |case| case.args[0].dtype == dtype);
            assert!(count >= 50, "{count} cases of {op} in {dtype}");
        }
    }
}

#[test]
fn long_lines_are_sorted_in_every_order() {
    let cases = cases();
    for name in ["sort", "topk"] {
        let count = count(&cases, name, |case| case.args.iter().any(|arg| arg.layout.numel() > 1024));
        assert!(count >= 80, "{count} of {name}");
    }
    let ties = cases.iter().rfind(|case| case.op.name() == "sort").expect("there are some");
    assert_eq!(ties.args[0].dtype, DType::F32);
    let zeros = ties.args[0].bytes.as_chunks().0.iter().map(|&b| f32::from_ne_bytes(b));
    assert!(zeros.clone().any(|x| x == 0.0 && x.is_sign_negative()));
    assert!(zeros.clone().any(|x| x == 0.0 && x.is_sign_positive()) && zeros.clone().any(f32::is_nan));
}
