//! One suite for every device: each operation, dtype and layout, compared with a reference.
//!
//! The reference gets every argument packed, so that a backend compared with itself has its strides tested. Cases come
//! from the operations' own tables: what [`Op::infer`] accepts is tried, and what a device declines is counted, not
//! failed.
//!
//! ```no_run
//! # fn example(device: &dyn rustorch_core::Backend, cpu: &dyn rustorch_core::Backend) {
//! let report = rustorch_testkit::conformance::check(device, cpu);
//! assert!(report.failures.is_empty(), "{report}");
//! # }
//! ```

mod cases;
mod compare;
mod conv;
mod long;
mod sample;
mod spatial;
mod values;
mod weights;

pub use cases::{Argument, Case, cases};
pub use long::long_cases;
pub use sample::{Extent, sample};
pub use weights::weight_cases;

use rustorch_core::{
    Backend, Buffer, DType, Decline, Device, Fault, Layout, Op, OutputMeta, Shape, TensorMeta, View, ViewMut,
    packed_bytes,
};
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

/// Runs every case on `backend` and compares with `reference`, a backend whose memory is the processor's.
pub fn check(backend: &dyn Backend, reference: &dyn Backend) -> Report {
    check_cases(cases().into_iter().chain(weight_cases()), backend, reference)
}

/// Runs some cases on `backend` and compares with `reference`.
pub fn check_cases(
    cases: impl IntoIterator<Item = Case>,
    backend: &dyn Backend,
    reference: &dyn Backend,
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
        match check_case(&case, backend, reference) {
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
    let metas = metas(&case.args, backend.device());
    let outs = match case.op.infer(&metas) {
        Ok(outs) => outs,
        Err(error) => return Outcome::Unknown(error.into()),
    };
    if let Err(decline) = backend.supports(&case.op, &metas) {
        return Outcome::Declined(decline);
    }
    let packed: Vec<Argument> = case.args.iter().map(Argument::packed).collect();
    let want = match run(&case.op, &packed, &outs, reference) {
        Ok(want) => want,
        Err(fault) => return Outcome::Unknown(fault),
    };
    let got = match run(&case.op, &case.args, &outs, backend) {
        Ok(got) => got,
        Err(fault) => return Outcome::Failed(fault),
    };
    for ((got, want), out) in got.iter().zip(&want).zip(&outs) {
        if let Some(how) = compare::difference(case, out.dtype, got, want) {
            return Outcome::Different(how);
        }
    }
    Outcome::Agreed
}

fn metas(args: &[Argument], device: Device) -> Vec<TensorMeta<'_>> {
    args.iter().map(|arg| TensorMeta { dtype: arg.dtype, layout: &arg.layout, device }).collect()
}

/// Runs an operation on a backend: the bytes of each result.
fn run(
    op: &Op,
    args: &[Argument],
    outs: &[OutputMeta],
    backend: &dyn Backend,
) -> Result<Vec<Vec<u8>>, Fault> {
    let mut buffers = Vec::new();
    for arg in args {
        let flat = flat(arg.dtype, arg.bytes.len())?;
        let mut buffer = backend.alloc(arg.bytes.len())?;
        if !arg.bytes.is_empty() {
            // SAFETY: the buffer has the size of the bytes, and the flat layout reaches just these.
            let mut place = unsafe { ViewMut::new(&mut buffer, arg.dtype, &flat) };
            backend.copy_in(&arg.bytes, &mut place)?;
        }
        buffers.push(buffer);
    }
    let layouts: Vec<Layout> = outs.iter().map(|out| Layout::contiguous(out.shape.clone())).collect();
    let size = |out: &OutputMeta| packed_bytes(out.dtype, out.shape.elements());
    let results: Vec<Buffer> = outs.iter().map(|out| backend.alloc(size(out))).collect::<Result<_, _>>()?;
    {
        let views: Vec<View<'_>> = args
            .iter()
            .zip(&buffers)
            // SAFETY: every byte was written, with values of the dtype, and cases' layouts stay inside.
            .map(|(arg, buffer)| unsafe { View::new(buffer, arg.dtype, &arg.layout) })
            .collect();
        let mut places: Vec<ViewMut<'_>> = outs
            .iter()
            .zip(&results)
            .zip(&layouts)
            // SAFETY: fresh memory of the layout's size that nobody else uses.
            .map(|((out, buffer), layout)| unsafe { ViewMut::from_shared(buffer, out.dtype, layout) })
            .collect();
        backend.run(op, &views, &mut places)?;
    }
    outs.iter()
        .zip(&results)
        .zip(&layouts)
        .map(|((out, buffer), layout)| {
            let mut bytes = vec![0; size(out)];
            if !bytes.is_empty() {
                // SAFETY: a backend that ran has written every element.
                backend.copy_out(&unsafe { View::new(buffer, out.dtype, layout) }, &mut bytes)?;
            }
            Ok(bytes)
        })
        .collect()
}

/// A layout of everything in a buffer of so many bytes.
fn flat(dtype: DType, bytes: usize) -> Result<Layout, Fault> {
    let elements = bytes / dtype.block_bytes() * dtype.block_len();
    Ok(Layout::contiguous(Shape::new([elements].as_slice())?))
}
