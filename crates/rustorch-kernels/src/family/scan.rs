//! Running sums and products along an axis. Where lines are long a workgroup has one, and scans as many elements as it has
//! threads at a time (Hillis, Steele: Data parallel algorithms, 1986).

use super::lines::{self, Lines};
use super::reduce::fold::{self, Kind};
use super::strided;
use crate::Hardware;
use crate::library::{self, Together};
use crate::plan::{Plan, Request, StepBuilder};
use crate::table::{Row, row, sets};
use crate::wgsl::{Module, WORKGROUP, Wgsl};
use rustorch_core::{DType, Decline, OpType, ScanOp};

/// The kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Scan {
    op: ScanOp,
    dtype: DType,
    out: DType,
    grouped: bool,
    rank: usize,
}

/// What it adds and multiplies.
pub const ROWS: &[Row] = &[row(OpType::Reduction, &["cumsum", "cumprod"], sets::DENSE)];

/// Adds the launch.
pub fn plan(plan: &mut Plan, request: &Request<'_>, op: ScanOp, axis: usize) -> Result<(), Decline> {
    let (x, out) = (request.arg(0), request.out(0));
    let mut lines = Lines::new(&[x.layout, out.layout], axis)?;
    // A part of a complex product may be small beside what rounding does to the other: only one order of factors gives
    // both.
    lines.grouped &= op == ScanOp::Sum || !x.dtype.is_complex();
    let kernel = Scan { op, dtype: x.dtype, out: out.dtype, grouped: lines.grouped, rank: lines.grid.rank() };
    let mut launch = StepBuilder::new(request.hardware, kernel);
    let (from, to) = (launch.read(&x)?, launch.write(&out)?);
    launch.number(lines.count)?.number(lines.len)?;
    launch.word(from).number(lines.steps[0])?.word(to).number(lines.steps[1])?;
    lines.grid.describe(&mut launch)?;
    lines.launch(plan, request.hardware, launch)
}

impl Scan {
    pub(super) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let Scan { op, dtype, out, grouped, rank } = *self;
        let kind = match op {
            ScanOp::Sum => Kind::Sum,
            ScanOp::Prod => Kind::Prod,
        };
        let mut module = Module::new();
        let x = fold::input(kind, dtype, &mut module, hardware);
        let y = fold::output(kind, dtype, out, &mut module, hardware);
        let (count, len) = (module.word(), module.word());
        let (from, step, to, to_step) = (module.word(), module.word(), module.word(), module.word());
        let grid = strided::parameters(&mut module, rank, 2);
        let fold = fold::fold(kind, dtype, &x, &y, hardware);
        module.add(&library::called(&fold.text, hardware));
        module.add(&fold.text);
        let (own, ..) = lines::own(grouped);
        let load = x.load(&format!("at + i * {step}"));
        let store = y.store_one(&format!("place_of + i * {to_step}"), "finish(s, 1u)");
        let text = match grouped {
            false => format!(
                "var s = empty();
                for (var i = 0u; i < {len}; i++) {{ s = take(s, {load}, i);\n{store} }}"
            ),
            true => {
                let mut together = Together::new(&mut module, "State", fold.parts, 1, hardware);
                format!(
                    "var before = empty();
                    for (var start = 0u; start < {len}; start += {WORKGROUP}u) {{
                        let i = start + local;
                        var s = empty();
                        if i < {len} {{ s = take(s, {load}, i); }}
                        {}
                        if i < {len} {{ {store} }}
                    }}",
                    together.scan("s", "before", "merge(a, b)")
                )
            }
        };
        let body = format!(
            "let row = {own};
            if row >= {count} {{ return; }}
            var at = {from};
            var place_of = {to};
            {}\n{text}",
            grid.positions("row", &["at", "place_of"])
        );
        module.finish([WORKGROUP, 1, 1], &body)
    }
}
