//! Kernels are valid WGSL: one of one kind in four, in each combination of dtypes, on a device with every ability and on one with
//! none, fewer on those between; all with `RUSTORCH_CONFORMANCE=all`.

use crate::common::paper as common;
use crate::common::paper::kinds;
use naga::valid::{Capabilities, ValidationFlags, Validator};
use rustorch_kernels::{Hardware, Kernel};

fn check(hardware: &Hardware, capabilities: Capabilities, share: usize) {
    let kernels = kinds::asked_for(share, common::kernels(hardware), hardware);
    assert!(kernels.len() > 1000 / share, "only {} kernels", kernels.len());
    check_these(hardware, capabilities, &kernels);
}

#[allow(clippy::print_stderr, reason = "tests tell what they saw")]
fn check_these(hardware: &Hardware, capabilities: Capabilities, kernels: &[Kernel]) {
    let mut failures = Vec::new();
    for kernel in kernels {
        let wgsl = kernel.wgsl(hardware);
        let valid = naga::front::wgsl::parse_str(&wgsl.code)
            .map_err(|error| error.emit_to_string(&wgsl.code))
            .and_then(|module| {
                Validator::new(ValidationFlags::all(), capabilities)
                    .validate(&module)
                    .map_err(|error| error.emit_to_string(&wgsl.code))
            });
        if let Err(error) = valid {
            failures.push(format!("{kernel:?}: {error}"));
        }
    }
    assert!(failures.is_empty(), "{} of {} fail, the first: {}", failures.len(), kernels.len(), failures[0]);
    eprintln!("{}: {} kernels are valid", hardware.name, kernels.len());
}

#[test]
fn on_a_device_with_everything() {
    let capabilities = Capabilities::FLOAT64
        | Capabilities::SHADER_INT64
        | Capabilities::SHADER_FLOAT16
        | Capabilities::SUBGROUP;
    check(&common::strong(), capabilities, 4);
}

/// Whose quotients and square roots of doubles are emulated.
#[test]
fn on_a_device_that_divides_doubles_badly() {
    let hardware = common::divides_doubles_badly();
    let capabilities = Capabilities::FLOAT64
        | Capabilities::SHADER_INT64
        | Capabilities::SHADER_FLOAT16
        | Capabilities::SUBGROUP;
    check(&hardware, capabilities, 12);
    let by_hand = |kernel: &Kernel| kernel.wgsl(&hardware).code.contains("ordinary_double");
    let kernels = common::kernels(&hardware);
    let reductions = ["kind: Mean", "kind: Var", "kind: Std", "LayerNorm(", "MeanPool("];
    for what in reductions {
        let of = |kernel: &&Kernel| {
            let label = kernel.label();
            label.contains(what) && ["dtype: F64", "dtype: C128"].iter().any(|dtype| label.contains(dtype))
        };
        // What brings elements to the states of means has nothing to divide.
        let states = |kernel: &Kernel| what == "kind: Mean" && kernel.label().contains("stage: First");
        let found: Vec<&Kernel> = kernels.iter().filter(of).filter(|kernel| !states(kernel)).collect();
        assert!(!found.is_empty(), "{what}");
        assert!(found.iter().all(|kernel| by_hand(kernel)), "{what}: the hardware's quotients");
    }
    assert!(kernels.iter().filter(|kernel| by_hand(kernel)).count() > 50);
}

#[test]
fn of_parts() {
    let kernels = common::kernels_of_parts();
    let capabilities = Capabilities::FLOAT64
        | Capabilities::SHADER_INT64
        | Capabilities::SHADER_FLOAT16
        | Capabilities::SUBGROUP;
    check_these(&common::strong(), capabilities, &kernels);
    for family in ["Select(", "WeightRows(", "WeightMatVec(", "MatMul("] {
        let found = kernels.iter().any(|kernel| kernel.label().starts_with(family));
        assert!(found, "no kernel of {family}...)");
    }
}

#[test]
fn of_rows() {
    check_these(&common::weak(), Capabilities::empty(), &common::kernels_of_rows(&common::weak()));
}

#[test]
fn on_a_device_with_everything_but_subgroups() {
    let hardware = Hardware { subgroups: None, ..common::strong() };
    check(&hardware, Capabilities::FLOAT64 | Capabilities::SHADER_INT64 | Capabilities::SHADER_FLOAT16, 12);
}

#[test]
fn on_a_device_with_nothing() {
    check(&common::weak(), Capabilities::empty(), 4);
}

#[test]
fn on_a_device_with_nothing_but_subgroups() {
    check(&Hardware { subgroups: common::strong().subgroups, ..common::weak() }, Capabilities::SUBGROUP, 12);
}
