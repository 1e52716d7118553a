//! One suite for every device: each operation, dtype and layout, compared with a reference.
//!
//! The reference gets every argument packed, so that a backend compared with itself has its strides tested. Cases come
//! from the operations' own tables: what [`infer`](rustorch_core::Op::infer) accepts is tried, and what a device declines is counted, not
//! failed.
//!
//! ```no_run
//! # fn example(device: &dyn rustorch_core::Backend, cpu: &dyn rustorch_core::Backend) {
//! let report = rustorch_testkit::conformance::check(device, cpu);
//! assert!(report.failures.is_empty(), "{report}");
//! # }
//! ```

mod attention;
mod backward;
mod branches;
mod cases;
mod compare;
mod conv;
mod draws;
mod fourier;
mod fused_pointwise;
mod fuzz;
mod kv_cache;
mod large;
mod linalg;
mod long;
mod loss;
mod optimizer_step;
mod place;
mod recurrent;
mod regressions;
mod sample;
mod sorting;
mod spatial;
mod values;
mod weights;

pub use attention::attention_cases;
pub use cases::{Argument, Case, cases, cpu_cases};
pub use fuzz::{Counts, Fuzz, FuzzReport, Simpler};
pub use large::large_cases;
pub use long::long_cases;
pub use regressions::regression_cases;
pub use sample::{Extent, one_in, sample};
pub use weights::weight_cases;

use place::{Left, Place};
use rustorch_core::{Backend, Decline, Device, Fault, OutputMeta, TensorMeta};
use std::fmt;

/// What became of the suite on a device.
#[derive(Clone, Debug)]
pub struct Report {
    /// The device.
    pub device: Device,
    /// Cases with the reference's result.
    pub agreed: usize,
    /// Cases that the device declined.
    pub declined: usize,
    /// Cases that the reference itself could not do, with the reason of the first for each operation.
    pub unknown: Vec<String>,
    /// Cases with another result or a fault: the case and what was wrong.
    pub failures: Vec<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}: {} cases agree, {} declined, {} unknown, {} fail",
            self.device,
            self.agreed,
            self.declined,
            self.unknown.len(),
            self.failures.len()
        )?;
        self.failures.iter().chain(&self.unknown).try_for_each(|line| writeln!(f, "  {line}"))
    }
}

/// What became of one case.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The results agree.
    Agreed,
    /// The device declined.
    Declined(Decline),
    /// The reference failed.
    Unknown(Fault),
    /// The device failed.
    Failed(Fault),
    /// The results differ: how.
    Different(String),
}

/// Runs every case on `backend` and compares with `reference`, a backend whose memory is the CPU's.
pub fn check(backend: &dyn Backend, reference: &dyn Backend) -> Report {
    check_cases(cases().into_iter().chain(weight_cases()), backend, reference)
}

/// Runs some cases on `backend` and compares with `reference`.
pub fn check_cases(
    cases: impl IntoIterator<Item = Case>,
    backend: &dyn Backend,
    reference: &dyn Backend,
) -> Report {
    report(cases, backend, |case| check_case(case, backend, reference))
}

/// As [`check_cases`], for devices that add in an order of their own in matmuls of many rows with quantized weights and in attention.
pub fn check_reordered_cases(
    cases: impl IntoIterator<Item = Case>,
    backend: &dyn Backend,
    reference: &dyn Backend,
) -> Report {
    report(cases, backend, |case| check_one(case, backend, reference, false))
}

fn report(
    cases: impl IntoIterator<Item = Case>,
    backend: &dyn Backend,
    outcome: impl Fn(&Case) -> Outcome,
) -> Report {
    let mut report = Report {
        device: backend.device(),
        agreed: 0,
        declined: 0,
        unknown: Vec::new(),
        failures: Vec::new(),
    };
    let mut unknown_ops: Vec<&str> = Vec::new();
    for case in cases {
        match outcome(&case) {
            Outcome::Agreed => report.agreed += 1,
            Outcome::Declined(_) => report.declined += 1,
            Outcome::Unknown(fault) => {
                if !unknown_ops.contains(&case.op.name()) {
                    unknown_ops.push(case.op.name());
                    report.unknown.push(format!("{case}: {fault}"));
                }
            }
            Outcome::Failed(fault) => report.failures.push(format!("{case}: {fault}")),
            Outcome::Different(how) => report.failures.push(format!("{case}: {how}")),
        }
    }
    report
}

/// Runs one case on `backend` and compares with `reference`.
pub fn check_case(case: &Case, backend: &dyn Backend, reference: &dyn Backend) -> Outcome {
    check_one(case, backend, reference, true)
}

fn check_one(case: &Case, backend: &dyn Backend, reference: &dyn Backend, ordered: bool) -> Outcome {
    let metas = metas(&case.args, backend.device());
    let outs = match case.op.infer(&metas) {
        Ok(outs) => outs,
        Err(error) => return Outcome::Unknown(error.into()),
    };
    if let Err(decline) = backend.supports(&case.op, &metas) {
        return Outcome::Declined(decline);
    }
    let packed: Vec<Argument> = case.args.iter().map(Argument::packed).collect();
    let places: Vec<Place> = outs.iter().map(Place::fresh).collect();
    let run = |args: &[Argument], backend: &dyn Backend| -> Result<Left, Fault> {
        place::run(&case.op, args, &[], &outs, &places, backend)
    };
    let want = match run(&packed, reference) {
        Ok(want) => want.results,
        Err(fault) => return Outcome::Unknown(fault),
    };
    let got = match run(&case.args, backend) {
        Ok(got) => got.results,
        Err(fault) => return Outcome::Failed(fault),
    };
    let differs = |got: &[Vec<u8>]| {
        let mut all = got.iter().zip(&want).zip(&outs);
        all.find_map(|((got, want), out)| compare::difference(case, out.dtype, got, want, ordered))
    };
    if let Some(how) = differs(&got) {
        return Outcome::Different(how);
    }
    let Some(places) = places_of_arguments(case, &outs, backend) else { return Outcome::Agreed };
    match place::run(&case.op, &case.args, &[], &outs, &places, backend) {
        Ok(left) => match differs(&left.results).or(left.spoilt) {
            Some(how) => Outcome::Different(format!("over its arguments: {how}")),
            None => Outcome::Agreed,
        },
        Err(fault) => Outcome::Failed(fault),
    }
}

/// The places of the arguments that an operation of several results may overwrite, for those results; `None` if there are none.
fn places_of_arguments(case: &Case, outs: &[OutputMeta], backend: &dyn Backend) -> Option<Vec<Place>> {
    if outs.len() < 2 || !backend.overwrites(&case.op) {
        return None;
    }
    let argument = |i: usize| {
        let fits = |&j: &usize| case.op.may_overwrite(j, i) && !case.args[j].layout.overlaps_itself();
        (0..case.args.len()).find(fits)
    };
    let places: Vec<Option<usize>> = (0..outs.len()).map(argument).collect();
    let place = |(out, argument): (&OutputMeta, &Option<usize>)| match *argument {
        Some(j) => Place::argument(j, &case.args[j]),
        None => Place::fresh(out),
    };
    places.iter().any(Option::is_some).then(|| outs.iter().zip(&places).map(place).collect())
}

fn metas(args: &[Argument], device: Device) -> Vec<TensorMeta<'_>> {
    args.iter().map(|arg| TensorMeta { dtype: arg.dtype, layout: &arg.layout, device }).collect()
}
