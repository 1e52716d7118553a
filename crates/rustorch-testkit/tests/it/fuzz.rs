//! Random cases on the CPU: any layouts, compared with packed ones computed by one thread.
#![allow(clippy::print_stdout, reason = "tests tell what they saw")]

use rustorch_core::{Backend, Device};
use rustorch_cpu::CpuBackend;
use rustorch_testkit::conformance::Fuzz;
use rustorch_testkit::{Act, FakeDevice, Point, Rule};
use std::sync::Arc;

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
