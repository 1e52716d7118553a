//! In-place ops on every kind of device: one writer, serialized with others.
#![allow(clippy::unwrap_used, reason = "a step that fails fails the test")]

use crate::common::{CUDA, OPENCL, builder, fake, floats, ramp, shape, upload_to};
use rustorch_core::{BinaryOp, Device, ForeachMul, Layout, Op, UnaryOp};
use rustorch_runtime::{HybridExecutor, Operand, Placement};
use rustorch_testkit::{FakeDevice, Point, Rule};
use std::sync::Arc;

const NEG: Op = Op::Unary(UnaryOp::Neg);
const ADD: Op = Op::Binary(BinaryOp::Add);

/// An executor of a CUDA device that can or cannot work in place, an OpenCL device, and the CPU.
fn devices(in_place: bool) -> (Arc<FakeDevice>, Arc<FakeDevice>, HybridExecutor) {
    let cuda = Arc::new(fake(CUDA).capability(|capability| capability.in_place = in_place));
    let opencl = Arc::new(fake(OPENCL));
    let exec = builder(&[&cuda, &opencl]).placement(Placement::FirstSupported).build().unwrap();
    (cuda, opencl, exec)
}

#[test]
fn no_change_is_lost_wherever_it_is_made() {
    for (device, in_place) in [(Device::CPU, true), (CUDA, false), (CUDA, true), (OPENCL, false)] {
        let (_, _, exec) = devices(in_place);
        let x = upload_to(&exec, &[0f32; 100], &[100], device);
        let one = upload_to(&exec, &[1f32; 100], &[100], device);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..300 {
                        exec.run_into(&ADD, &[x.operand(), one.operand()], &[x.operand()]).unwrap();
                    }
                });
            }
        });
        assert_eq!(floats(&exec, &x.operand()), [1200.0; 100], "{device} {in_place}");
    }
}

#[test]
fn only_a_device_that_can_writes_over_its_argument() {
    for in_place in [false, true] {
        let (cuda, _, exec) = devices(in_place);
        let x = upload_to(&exec, &ramp(1000), &[1000], CUDA);
        exec.memory().release_cached(CUDA);
        let before = cuda.used();
        exec.run_into(&NEG, &[x.operand()], &[x.operand()]).unwrap();
        assert_eq!(cuda.used() > before, !in_place);
        assert_eq!((cuda.runs("neg"), cuda.runs("copy")), (1, usize::from(!in_place)));
        let want: Vec<f32> = ramp(1000).iter().map(|x| -x).collect();
        assert_eq!(floats(&exec, &x.operand()), want);
    }
}

#[test]
fn what_a_failing_device_has_overwritten_is_not_computed_from_again() {
    let (cuda, opencl, exec) = devices(true);
    let x = upload_to(&exec, &ramp(4), &[4], CUDA);
    cuda.script(Rule::at(Point::Run).op("neg").times(1));
    let error = exec.run_into(&NEG, &[x.operand()], &[x.operand()]).unwrap_err().to_string();
    assert!(error.contains("by script"), "{error}");
    assert_eq!((cuda.runs("neg"), opencl.runs("neg")), (1, 0));
    // Where the argument is elsewhere, another device takes over.
    let y = upload_to(&exec, &ramp(4), &[4], CUDA);
    cuda.script(Rule::at(Point::Run).op("add").times(1));
    exec.run_into(&ADD, &[y.operand(), y.operand()], &[x.operand()]).unwrap();
    assert_eq!(floats(&exec, &x.operand()), [-6.0, -5.0, -4.0, -3.0]);
    assert_eq!(opencl.runs("add"), 1);
}

#[test]
fn an_operation_of_many_results_overwrites_an_argument_with_each() {
    let op = Op::ForeachMul(ForeachMul { found_inf: false });
    for in_place in [false, true] {
        let (cuda, _, exec) = devices(in_place);
        let factor = upload_to(&exec, &[0.5f32], &[], CUDA);
        let tensors: Vec<_> = (1..40).map(|n| upload_to(&exec, &ramp(n), &[n], CUDA)).collect();
        let results: Vec<_> = tensors.iter().map(|x| x.operand()).collect();
        let args: Vec<_> = [factor.operand()].into_iter().chain(results.iter().copied()).collect();
        exec.memory().release_cached(CUDA);
        let before = cuda.used();
        exec.run_into(&op, &args, &results).unwrap();
        assert_eq!((cuda.runs("foreach_mul"), cuda.used() > before), (1, !in_place));
        for (n, x) in (1..).zip(&tensors) {
            let want: Vec<f32> = ramp(n).iter().map(|x| x * 0.5).collect();
            assert_eq!(floats(&exec, &x.operand()), want);
        }
        // One tensor twice, or another one's place, takes memory apart.
        let (a, b) = (&results[38], &results[37]);
        exec.run_into(
            &op,
            &[factor.operand(), *a, *a],
            &[*a, upload_to(&exec, &ramp(39), &[39], CUDA).operand()],
        )
        .unwrap();
        let want: Vec<f32> = ramp(39).iter().map(|x| x * 0.25).collect();
        assert_eq!(floats(&exec, a), want);
        let error = exec.run_into(&op, &[factor.operand(), *a], &[*b]).unwrap_err().to_string();
        assert!(error.contains("the result's shape"), "{error}");
    }
}

#[test]
fn operands_that_overlap_in_part_are_read_before_anything_is_written() {
    for device in [Device::CPU, CUDA] {
        let (_, _, exec) = devices(true);
        let x = upload_to(&exec, &ramp(5), &[5], device);
        let part = |start| Layout::contiguous(shape(&[4])).at_offset(start).unwrap();
        let (first, last) = (part(0), part(1));
        let view = |layout| Operand { layout, ..x.operand() };
        exec.run_into(&ADD, &[view(&first), view(&last)], &[view(&last)]).unwrap();
        assert_eq!(floats(&exec, &x.operand()), [-3.0, -5.5, -4.5, -3.5, -2.5]);
    }
}
