//! The suite on the CPU, which tests its strides against its own packed results, and on devices that must fail.

use rustorch_core::{Backend, DType, DTypeSet, Device, Op, OpType, Reduce, ReduceOp};
use rustorch_cpu::CpuBackend;
use rustorch_testkit::{Act, FakeDevice, Point, Rule, conformance};
use std::sync::Arc;

#[test]
fn the_cpu_conforms() {
    let report = conformance::check(&CpuBackend::new(2), &CpuBackend::new(1));
    println!("{report}");
    assert!(report.failures.is_empty(), "{report}");
    assert!(report.unknown.is_empty(), "the reference lacks operations: {report}");
    assert!(report.agreed > 10_000, "{report}");
}

#[test]
fn what_only_the_cpu_computes_is_the_same_on_any_number_of_threads() {
    let report = conformance::check_cases(conformance::cpu_cases(), &CpuBackend::new(2), &CpuBackend::new(1));
    assert!(report.failures.is_empty() && report.unknown.is_empty(), "{report}");
    assert!(report.agreed > 50, "{report}");
}

#[test]
fn what_was_found_stays_right() {
    let report =
        conformance::check_cases(conformance::regression_cases(), &CpuBackend::new(2), &CpuBackend::new(1));
    assert!(report.failures.is_empty() && report.unknown.is_empty(), "{report}");
}

#[test]
fn a_device_that_spoils_a_result_is_found_out() {
    let cpu: Arc<dyn Backend> = Arc::new(CpuBackend::new(1));
    let fake = FakeDevice::new(Device::cuda(0), Arc::clone(&cpu)).capability(|c| {
        c.dtypes = [DTypeSet::EMPTY; OpType::ALL.len()];
        c.dtypes[OpType::Elementwise as usize] = DTypeSet::of(&[DType::F32]);
    });
    fake.script(Rule::at(Point::Run).op("exp").times(1).act(Act::Nan));
    fake.script(Rule::at(Point::Run).op("mul").times(1));
    let report = conformance::check(&fake, &*cpu);
    assert_eq!(report.failures.len(), 2, "{report}");
    assert!(report.failures.iter().any(|f| f.contains("Exp") && f.contains("NaN")), "{report}");
    assert!(report.failures.iter().any(|f| f.contains("Mul") && f.contains("by script")), "{report}");
    assert!(report.declined > report.agreed && report.agreed > 100, "{report}");
}

#[test]
fn errors_beyond_rounding_are_found_and_those_within_are_not() {
    let cases = || {
        conformance::cases().into_iter().filter(|case| {
            let products = matches!(case.op, Op::Reduce(Reduce { op: ReduceOp::Prod, .. }));
            products && case.args[0].dtype == DType::C128 && case.args[0].layout.numel() > 0
        })
    };
    let cpu: Arc<dyn Backend> = Arc::new(CpuBackend::new(1));
    // 64 units in the last place are rounding.
    for (error, is_found) in [(32.0, false), (4096.0, true)] {
        let fake = FakeDevice::new(Device::cuda(0), Arc::clone(&cpu));
        fake.script(Rule::at(Point::Run).act(Act::Err(error * f64::EPSILON / 2.0)));
        let report = conformance::check_cases(cases(), &fake, &*cpu);
        let (found, all) = (report.failures.len(), report.failures.len() + report.agreed);
        assert!(all > 10 && found == if is_found { all } else { 0 }, "{error}: {report}");
    }
}
