//! Random cases on the CPU: any layouts, compared with packed ones computed by one thread.
#![allow(clippy::print_stdout, reason = "tests tell what they saw")]

use rustorch_core::{Backend, Decline, Device};
use rustorch_cpu::CpuBackend;
use rustorch_testkit::conformance::{Fuzz, FuzzReport, cases, weight_cases};
use rustorch_testkit::{Act, FakeDevice, Point, Rule};
use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

static CPU: LazyLock<Arc<dyn Backend>> = LazyLock::new(|| Arc::new(CpuBackend::new(1)));

/// Whatever the environment asks for, so many cases of the first sequence.
fn fuzz(cases: usize) -> Fuzz {
    Fuzz { seed: 1, cases, time: Duration::MAX, burst: 1, only: None, of: None, ordered: true }
}

/// One case, of two numbers that depend on `i`, on a device of which a rule holds.
fn run_one(i: u64, rule: Rule) -> FuzzReport {
    let fake = FakeDevice::new(Device::cuda(0), Arc::clone(&CPU));
    fake.script(rule);
    let only = Some((i.wrapping_mul(0x9e37_79b9_7f4a_7c15), i));
    Fuzz { only, ..fuzz(1) }.run(&fake, &**CPU)
}

#[test]
fn layouts_and_places_do_not_matter_to_the_cpu() {
    let found = Fuzz::from_env(3000).run(&CpuBackend::new(2), &CpuBackend::new(1));
    println!("{found}");
    assert!(found.failures.is_empty(), "{found}");
}

#[test]
fn a_device_that_spoils_results_is_found_out() {
    let cpu: Arc<dyn Backend> = Arc::new(CpuBackend::new(1));
    let fake = FakeDevice::new(Device::cuda(0), Arc::clone(&cpu));
    // The first of these may have no elements, or NaN for a result anyhow.
    fake.script(Rule::at(Point::Run).op("softmax").times(4).act(Act::Nan));
    let fuzz = Fuzz { cases: 300, of: Some("softmax,concat".into()), ..Fuzz::from_env(0) };
    let found = Fuzz { seed: 1, only: None, ..fuzz }.run(&fake, &*cpu);
    assert!(found.failed >= 1 && found.failures[0].contains("NaN"), "{found}");
    assert!(found.failures[0].starts_with("FUZZ_CASE="), "{found}");
    assert!(found.agreed() > 250, "{found}");
}

#[test]
fn every_operation_of_the_suite_is_drawn() {
    let fake = FakeDevice::new(Device::cuda(0), Arc::clone(&CPU));
    fake.script(Rule::at(Point::Supports).act(Act::Decline(Decline::Attr("by script"))));
    let found = fuzz(8000).run(&fake, &**CPU);
    assert_eq!((found.cases(), found.agreed(), found.failed), (8000, 0, 0), "{found}");
    let drawn: BTreeSet<&str> = found.ops.keys().copied().collect();
    let suite: BTreeSet<&str> = cases().iter().chain(&weight_cases()).map(|case| case.op.name()).collect();
    assert!(drawn.is_superset(&suite), "{:?}", suite.difference(&drawn).collect::<Vec<_>>());
}

/// What a failure says: the case with its parameters, dtypes and layouts, and a value that the CPU computes.
#[test]
fn most_of_what_is_drawn_fits_together_and_is_drawn_again() {
    let (mut fitting, mut failed) = (0, 0);
    for i in 0..400 {
        let once = || {
            let found = run_one(i, Rule::at(Point::Run).act(Act::Nan));
            (found.cases(), found.ops, found.failures)
        };
        let first = once();
        fitting += first.0;
        failed += first.2.len();
        assert_eq!(first, once());
    }
    assert!(fitting > 280 && failed > 100, "{fitting}, {failed}");
}

/// Where a case fails again, its simplest variant is told; where it does not, the case itself.
#[test]
fn simpler_cases_are_of_the_same_operation() {
    let mut simpler = 0;
    for i in 0..200 {
        let told = |rule| run_one(i, rule).failures;
        let [own, simple] = [Rule::at(Point::Run).times(1), Rule::at(Point::Run)].map(told);
        assert_eq!(own.len(), simple.len());
        for (own, simple) in own.iter().zip(&simple) {
            assert_eq!(operation(own), operation(simple), "{own}\n{simple}");
            simpler += usize::from(own != simple);
        }
    }
    assert!(simpler > 100, "{simpler}");
}

/// The operation and the dtypes that a failure tells of.
fn operation(failure: &str) -> (&str, Vec<&str>) {
    let at = [" of ", " of:", " of,"].iter().find_map(|of| failure.find(of)).unwrap();
    let (name, args) = (failure[..at].split(" {").next().unwrap(), &failure[at..]);
    // Each argument is `f32[2, 3] (strides [3, 1])`; places follow.
    let args = args.split(", in").next().unwrap();
    let before = args.split("(strides").map(|text| text.rsplit_once('[').map_or("", |(before, _)| before));
    (
        name,
        before.map(|text| text.rsplit(' ').next().unwrap()).take(args.matches("(strides").count()).collect(),
    )
}
