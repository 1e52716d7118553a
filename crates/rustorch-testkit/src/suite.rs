//! One suite for the drivers of GPUs: [`device_suite!`](crate::device_suite) makes its tests for a crate's [`Rig`].

use crate::conformance::{self, Case, Extent, Fuzz, Report};
use crate::{Requirement, skip};
use rustorch_core::{Backend, DType};
use std::sync::Arc;

/// The devices of one driver, as the tests of its crate open them.
pub trait Rig {
    /// Variants on which weights are tried.
    const WEIGHTS: &'static [Variant] = &[Variant::Default];
    /// Variants on which cases that were once wrong are tried.
    const REGRESSIONS: &'static [Variant] = &[Variant::Default];
    /// Variants on which long lines, and attention in tiles, are tried.
    const LONG_LINES: &'static [Variant] = &[Variant::Default];
    /// Variants on which random cases are tried, and how many.
    const FUZZ: &'static [(Variant, usize)];

    /// Every device of the machine, open as a variant; or what is missing: of the machine, if there is no device, or of a device
    /// that does not have the variant.
    fn open(variant: Variant) -> Vec<Result<Device, Missing>>;

    /// The CPU, whose results are the reference.
    fn reference() -> Arc<dyn Backend>;

    /// How much runs where the environment does not say.
    fn extent() -> Extent {
        Extent::Sample
    }

    /// Whether a case of the sample runs on these devices.
    fn samples(_case: &Case) -> bool {
        true
    }

    /// The devices get one in so many cases of the sample, and one of each variant of [`Op`](rustorch_core::Op) at least: for compilers
    /// that take longer than all else.
    const SHARE: usize = 1;

    /// How many random cases in a row share their kernels.
    const BURST: usize = 3;

    /// Runs the body of a test, of which the test program knows the name.
    fn run(_name: &str, body: fn()) {
        body();
    }
}

/// How a device is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// As programs do.
    Default,
    /// With subgroups, even where they gain nothing; only devices that have them.
    Subgroups,
    /// Without subgroups, but a device that has them.
    NoSubgroups,
    /// With subgroups, without 64-bit arithmetic.
    No64Bit,
}

/// A device of a [`Rig`].
pub struct Device {
    /// For people.
    pub name: String,
    /// The device.
    pub backend: Arc<dyn Backend>,
    /// Whether it adds in the CPU's order in matmuls of many rows with quantized weights and in attention.
    pub ordered: bool,
}

/// What a skipped part of the suite would need.
pub type Missing = (Requirement, String);

/// Calls `check` for each device in each variant.
fn each<R: Rig>(variants: &[Variant], check: impl Fn(&Device)) {
    for device in variants.iter().flat_map(|&variant| R::open(variant)) {
        match device {
            Ok(device) => check(&device),
            Err((requirement, reason)) => skip(requirement, reason),
        }
    }
}

#[allow(clippy::print_stdout, reason = "shown with the test's other output")]
fn compare<R: Rig>(device: &Device, cases: impl IntoIterator<Item = Case>) -> Report {
    let check = if device.ordered { conformance::check_cases } else { conformance::check_reordered_cases };
    let report = check(cases, &*device.backend, &*R::reference());
    println!("{}: {report}", device.name);
    assert!(report.failures.is_empty(), "{}: {} failures", device.name, report.failures.len());
    report
}

/// As much of the cases as the environment asks for, of which so many must agree: of all, of the sample, or of a part of that, which is one
/// in `share`.
fn sampled<R: Rig>(
    variants: &[Variant],
    cases: fn() -> Vec<Case>,
    choose: impl Fn(Vec<Case>) -> Vec<Case>,
    share: usize,
    [all, sample, part]: [usize; 3],
) {
    let extent = Extent::from_env(R::extent());
    each::<R>(variants, |device| {
        let mut chosen = extent.of(cases());
        let least = match extent {
            Extent::All => all,
            Extent::Sample => {
                chosen.retain(R::samples);
                chosen = conformance::one_in(share, chosen);
                (sample / share).max(part)
            }
            Extent::Of(_) => 0,
        };
        let report = compare::<R>(device, choose(chosen));
        assert!(report.agreed >= least, "{report}");
    });
}

/// Every operation that a device takes gives the CPU's result: every second case of those that run, from the first on. A part of the
/// cases runs unless `RUSTORCH_CONFORMANCE=all`.
///
/// The halves are two tests, which run at once.
pub fn even_cases<R: Rig>() {
    half::<R>(0);
}

/// As [`even_cases`], every second case from the second on.
pub fn odd_cases<R: Rig>() {
    half::<R>(1);
}

fn half<R: Rig>(first: usize) {
    let every_second = |cases: Vec<Case>| cases.into_iter().skip(first).step_by(2).collect();
    sampled::<R>(&[Variant::Default], conformance::cases, every_second, R::SHARE, [500, 50, 25]);
}

/// Matmuls with quantized weights give the CPU's results, its bits where the device keeps the order of sums.
pub fn weights<R: Rig>() {
    // Types differ more from each other than operations of a kind do.
    sampled::<R>(R::WEIGHTS, conformance::weight_cases, |cases| cases, R::SHARE.div_ceil(4), [70, 15, 5]);
}

/// Cases that were once wrong somewhere stay right.
pub fn regressions<R: Rig>() {
    let share = if Extent::from_env(R::extent()) == Extent::Sample { R::SHARE } else { 1 };
    each::<R>(R::REGRESSIONS, |device| {
        let report = compare::<R>(device, conformance::one_in(share, conformance::regression_cases()));
        assert!(report.agreed > report.declined, "{report}");
    });
}

/// Reductions of lines that many threads share give the CPU's results. Of other dtypes than `f32` a part runs unless
/// `RUSTORCH_CONFORMANCE=all`.
pub fn long_lines<R: Rig>() {
    let extent = Extent::from_env(R::extent());
    each::<R>(R::LONG_LINES, |device| {
        let (mut cases, others): (Vec<Case>, Vec<Case>) =
            conformance::long_cases().into_iter().partition(|case| case.args[0].dtype == DType::F32);
        cases.extend(extent.of(others));
        let share = if extent == Extent::Sample { R::SHARE } else { 1 };
        let report = compare::<R>(device, conformance::one_in(share, cases));
        assert!(report.agreed >= (60 / share).max(12), "{report}");
    });
}

/// Pointwise operations on large tensors and norms of long rows give the CPU's results, also by the kernels that read and write
/// vectors, which software devices have with subgroups only.
pub fn large_tensors<R: Rig>() {
    let variants = R::LONG_LINES.iter().filter(|&&variant| variant != Variant::NoSubgroups);
    let extent = Extent::from_env(R::extent());
    each::<R>(&variants.copied().collect::<Vec<_>>(), |device| {
        let cases = match &extent {
            Extent::Of(_) => extent.of(conformance::large_cases()),
            _ => conformance::large_cases(),
        };
        compare::<R>(device, cases);
    });
}

/// Attention of many queries or keys gives the CPU's results.
pub fn attention<R: Rig>() {
    let share = if Extent::from_env(R::extent()) == Extent::Sample { R::SHARE.div_ceil(8) } else { 1 };
    each::<R>(R::LONG_LINES, |device| {
        let report = compare::<R>(device, conformance::one_in(share, conformance::attention_cases()));
        assert!(report.agreed >= 18 / share, "{report}");
    });
}

/// Random cases give the CPU's results and leave everything else alone: see [`Fuzz`] for the environment variables that choose them.
#[allow(clippy::print_stdout, reason = "shown with the test's other output")]
pub fn random<R: Rig>() {
    for &(variant, cases) in R::FUZZ {
        each::<R>(&[variant], |device| {
            let fuzz = Fuzz { ordered: device.ordered, ..Fuzz::from_env(cases) }.burst(R::BURST);
            let found = fuzz.run(&*device.backend, &*R::reference());
            println!("{}: {found}", device.name);
            assert!(found.failures.is_empty(), "{}: {} failures", device.name, found.failed);
            assert!(fuzz.only.is_some() || fuzz.of.is_some() || found.agreed() > cases / 4, "{found}");
        });
    }
}

/// The tests of the suite for a [`Rig`]: modules `conformance`, `fuzz` and `subgroups`.
///
/// ```ignore
/// rustorch_testkit::device_suite!(Adapters);
/// ```
#[macro_export]
macro_rules! device_suite {
    ($rig:ident) => {
        $crate::device_suite!($rig, conformance {
            even_cases_conform: even_cases,
            odd_cases_conform: odd_cases,
            weights_conform: weights,
            regressions_stay_fixed: regressions,
        });
        $crate::device_suite!($rig, fuzz { random_cases_agree: random });
        $crate::device_suite!($rig, subgroups {
            long_lines_conform: long_lines,
            large_tensors_conform: large_tensors,
            attention_conforms: attention,
        });
    };
    ($rig:ident, $module:ident { $($test:ident: $check:ident),+ $(,)? }) => {
        mod $module {
            $(#[test]
            fn $test() {
                // Without the name of the test program.
                let name = concat!(module_path!(), "::", stringify!($test));
                let name = name.split_once("::").map_or(name, |(_, name)| name);
                <super::$rig as $crate::suite::Rig>::run(name, $crate::suite::$check::<super::$rig>);
            })+
        }
    };
}
