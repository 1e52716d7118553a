//! What the engine leaves to a vendor's BLAS library, over one that computes on the CPU: a device's own driver
//! with such a library beside it. What surrounds the matmuls, and what the library does not take, is the device's.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "helpers of tests, too")]

use crate::common::library::{Library, WithLibrary};
use rustorch_core::{
    Backend, DType, Layout, MatMul, Numerics, Op, Remarks, Shape, TensorMeta, UnaryOp, View, ViewMut,
    run_checked,
};
use rustorch_cpu::CpuBackend;
use rustorch_kernels::Engine;
use rustorch_testkit::conformance::{self, Case, Fuzz};
use rustorch_testkit::{Requirement, skip};
use rustorch_wgpu::WgpuDriver;

type Tested = Engine<WithLibrary<WgpuDriver>>;

/// The first adapter with a library, or nothing, said.
fn engine(library: Library) -> Option<Tested> {
    match rustorch_wgpu::adapters() {
        Ok(adapters) => {
            let driver = adapters.first()?.open().unwrap();
            Some(Engine::new(WithLibrary::new(driver, library)).unwrap())
        }
        Err(none) => {
            skip(Requirement::Vulkan, none);
            None
        }
    }
}

/// Matrix multiplication of dense matrices of one float dtype, from the suite.
fn cases() -> Vec<Case> {
    let of_floats = |case: &Case| {
        let [a, b] = [case.args[0].dtype, case.args[1].dtype];
        a == b && matches!(a, DType::F16 | DType::BF16 | DType::F32 | DType::F64)
    };
    let all = conformance::cases().into_iter().filter(|case| matches!(case.op, Op::MatMul(_)));
    all.filter(of_floats).collect()
}

fn check(engine: &Tested, cases: Vec<Case>) -> usize {
    let report = conformance::check_cases(cases, engine, &CpuBackend::new(1));
    eprintln!("{report}");
    assert!(report.failures.is_empty(), "{} failures", report.failures.len());
    report.agreed
}

#[test]
fn the_librarys_matmuls_equal_the_cpu() {
    let Some(engine) = engine(Library::Works) else { return };
    let agreed = check(&engine, conformance::one_in(9, cases()));
    assert!(agreed > 10, "{agreed}");
    let calls = engine.driver().calls();
    // Half are batch-invariant, and of the others many lie as no library knows, or are of one element.
    assert!(calls > agreed / 6, "{calls} calls for {agreed} matmuls");
    let said = engine.remarks();
    let works = ["matmuls of f16, bf16, f32, f64, f32 by f16, f32 by bf16 matrices by a library"];
    assert!(said == works || !engine.hardware().f64, "{said:?}");
}

#[test]
fn random_matmuls_are_right_and_leave_the_rest_alone() {
    let Some(engine) = engine(Library::Works) else { return };
    let fuzz = Fuzz { of: Some("matmul".to_owned()), ..Fuzz::from_env(120) }.burst(3);
    let found = fuzz.run(&engine, &CpuBackend::new(1));
    eprintln!("{found}, {} by the library", engine.driver().calls());
    assert!(found.failures.is_empty(), "{} failures", found.failed);
    assert!(fuzz.only.is_some() || engine.driver().calls() > 5);
}

#[test]
fn what_a_library_leaves_half_done_the_kernels_do() {
    // The proofs take twelve calls; afterwards, matmuls of several calls break off in the midst.
    for after in [12, 13, 18] {
        let Some(engine) = engine(Library::Stops(after)) else { return };
        engine.remarks();
        check(&engine, cases().into_iter().step_by(5).collect());
        assert!(engine.driver().calls() > after);
    }
}

#[test]
fn a_library_that_errs_is_not_used() {
    let Some(engine) = engine(Library::Errs(DType::F32)) else { return };
    check(&engine, cases().into_iter().filter(|case| case.args[0].dtype == DType::F32).step_by(5).collect());
    assert_eq!(engine.driver().calls(), 1, "one matmul was enough");
    let said = engine.remarks().join("\n");
    assert!(
        said.contains("matmuls of f16, bf16, f64, f32 by f16, f32 by bf16 matrices by a library"),
        "{said}"
    );
    assert!(said.contains("matmuls of f32 matrices are not by a library: it gives"), "{said}");

    let Some(engine) = self::engine(Library::Forgets) else { return };
    let said = engine.remarks();
    assert_eq!(said.len(), 6, "{said:?}");
}

#[test]
fn activations_are_rounded_to_the_weights_dtype() {
    let Some(engine) = engine(Library::Works) else { return };
    engine.remarks();
    let before = engine.driver().calls();
    let mixed = |case: &Case| {
        matches!(case.op, Op::MatMul(_))
            && case.args[0].dtype == DType::F32
            && matches!(case.args[1].dtype, DType::F16 | DType::BF16)
    };
    let cases: Vec<Case> = conformance::cases().into_iter().filter(mixed).collect();
    // The library adds in an order of its own.
    let report = conformance::check_reordered_cases(cases, &engine, &CpuBackend::new(1));
    eprintln!("{report}, {} by the library", engine.driver().calls() - before);
    assert!(report.failures.is_empty(), "{} failures", report.failures.len());
    assert!(engine.driver().calls() - before > 10);
}

/// What goes to the library, by how many calls it gets for one operation when the proofs are done.
#[test]
fn matmuls_of_a_fixed_order_stay() {
    let Some(engine) = engine(Library::Works) else { return };
    engine.remarks();
    let product = |op: MatMul, dtypes: [DType; 2], left: &[usize], right: &[usize]| {
        let layouts = [left, right].map(|dims| Layout::contiguous(Shape::new(dims).unwrap()));
        let transposed = layouts[1].transpose(right.len() - 1, right.len() - 2).unwrap();
        let layouts = [layouts[0].clone(), transposed];
        let metas =
            [0, 1].map(|i| TensorMeta { dtype: dtypes[i], layout: &layouts[i], device: engine.device() });
        let op = Op::MatMul(op);
        let info = &op.infer(&metas).unwrap()[0];
        let out_layout = Layout::contiguous(info.shape.clone());
        let buffers = [0, 1].map(|i| engine.alloc(metas[i].dtype.block_bytes() * layouts[i].end()).unwrap());
        let mut out = engine.alloc(info.dtype.block_bytes() * out_layout.numel()).unwrap();
        let before = engine.driver().calls();
        // SAFETY: the buffers have the bytes of their layouts, and nobody else uses them.
        let views = [0, 1].map(|i| unsafe { View::new(&buffers[i], metas[i].dtype, &layouts[i]) });
        // SAFETY: as above.
        let out = unsafe { ViewMut::new(&mut out, info.dtype, &out_layout) };
        run_checked(&engine, &op, &views, &mut [out]).unwrap();
        engine.driver().calls() - before
    };
    let plain = MatMul::default;
    let single = [DType::F32; 2];
    assert_eq!(product(plain(), single, &[4, 8], &[6, 8]), 1);
    assert_eq!(product(MatMul { numerics: Numerics::F32, ..plain() }, single, &[4, 8], &[6, 8]), 1);
    assert_eq!(product(MatMul { batch_invariant: true, ..plain() }, single, &[4, 8], &[6, 8]), 0);
    for weight in [DType::F16, DType::BF16] {
        let mixed = [DType::F32, weight];
        assert_eq!(product(plain(), mixed, &[9, 8], &[6, 8]), 1);
        assert_eq!(product(plain(), mixed, &[8, 8], &[6, 8]), 0, "few rows have a kernel");
        let unrounded = MatMul { numerics: Numerics::F32, ..plain() };
        assert_eq!(product(unrounded, mixed, &[9, 8], &[6, 8]), 0, "activations are not rounded");
        assert_eq!(product(MatMul { batch_invariant: true, ..plain() }, mixed, &[9, 8], &[6, 8]), 0);
        assert_eq!(
            product(MatMul { activation: Some(UnaryOp::Silu), ..plain() }, mixed, &[9, 8], &[6, 8]),
            1
        );
    }
    assert_eq!(product(plain(), [DType::I32; 2], &[4, 8], &[6, 8]), 0);
    assert_eq!(product(plain(), [DType::C64; 2], &[4, 8], &[6, 8]), 0);
    assert_eq!(product(plain(), single, &[1, 8], &[1, 8]), 0, "the library does not take it");
    let silu = |op| MatMul { activation: Some(op), ..plain() };
    assert_eq!(product(silu(UnaryOp::Silu), single, &[4, 8], &[6, 8]), 1);
    assert_eq!(
        product(silu(UnaryOp::Silu), [DType::F16; 2], &[4, 8], &[6, 8]),
        0,
        "a sum of 16 bits is too coarse"
    );
    assert_eq!(product(silu(UnaryOp::Relu), [DType::F16; 2], &[4, 8], &[6, 8]), 1);
    assert_eq!(product(plain(), single, &[2, 5, 4, 8], &[5, 6, 8]), 2, "a batch is a call");
}
