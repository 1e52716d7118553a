//! Cumulative sums, products and extrema along an axis. Long lines are scanned by a workgroup, as many elements at a time as it has
//! threads (Hillis, Steele: Data parallel algorithms, 1986).

use super::lines::{self, Lines};
use super::reduce::fold::{self, Kind};
use crate::Hardware;
use crate::family::{Kernels, Plan, StepBuilder};
use crate::library::strided::Grid;
use crate::library::{self, WorkgroupReduce};
use crate::plan::Request;
use crate::plan::parameters::parameters;
use crate::splitting::{SplitPlan, axes};
use crate::table::{Row, row, sets};
use crate::wgsl::{Module, WORKGROUP, Wgsl};
use rustorch_core::{DType, Decline, OpKind, OpType, Scan as ScanParameters, ScanOp};

/// Kernel key: everything its source depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Scan {
    op: ScanOp,
    dtype: DType,
    out: DType,
    grouped: bool,
    rank: usize,
}

parameters! {
    /// Kernel parameters.
    struct Params(rank: usize) {
        count: usize,
        len: usize,
        x_start: u32,
        x_stride: usize,
        y_start: u32,
        y_stride: usize,
        grid: Grid = (rank, 2),
    }
}

/// Supported operations and their dtypes.
pub const ROWS: &[Row] = &[
    row(OpType::Reduction, &[OpKind::Scan(ScanOp::Sum), OpKind::Scan(ScanOp::Prod)], sets::DENSE),
    row(OpType::Reduction, &[OpKind::Scan(ScanOp::Max), OpKind::Scan(ScanOp::Min)], sets::ORDERED),
];

impl Kernels for ScanParameters {
    fn plan(&self, plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
        self::plan(plan, request, self.op, self.axis)
    }

    fn split(&self, request: &Request<'_>) -> Result<Option<SplitPlan>, Decline> {
        Ok(Some(axes::dimensions(request, |d| d != self.axis)))
    }
}

/// Plans the launch.
pub fn plan(plan: &mut Plan, request: &Request<'_>, op: ScanOp, axis: usize) -> Result<(), Decline> {
    let (x, out) = (request.arg(0), request.out(0));
    let mut lines = Lines::new(&[x.layout, out.layout], axis)?;
    // A part of a complex product may be small beside what rounding does to the other: only one order of factors gives
    // both.
    lines.grouped &= op == ScanOp::Sum || !x.dtype.is_complex();
    let kernel = Scan { op, dtype: x.dtype, out: out.dtype, grouped: lines.grouped, rank: lines.grid.ndim() };
    let mut launch = StepBuilder::new(request.hardware, kernel);
    let (x_start, y_start) = (launch.read(&x)?, launch.write(&out)?);
    let groups = lines.groups(request.hardware)?;
    launch.parameters(&Params {
        count: lines.count,
        len: lines.len,
        x_start,
        x_stride: lines.steps[0],
        y_start,
        y_stride: lines.steps[1],
        grid: lines.grid,
    })?;
    plan.step(launch, groups);
    Ok(())
}

impl Scan {
    pub(super) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let Scan { op, dtype, out, grouped, rank } = *self;
        let kind = match op {
            ScanOp::Sum => Kind::Sum,
            ScanOp::Prod => Kind::Prod,
            ScanOp::Max => Kind::Max,
            ScanOp::Min => Kind::Min,
        };
        let mut module = Module::new();
        let x = fold::input(kind, dtype, &mut module, hardware);
        let y = fold::output(kind, dtype, out, &mut module, hardware);
        let Params { count, len, x_start, x_stride, y_start, y_stride, grid } =
            module.parameters::<Params>(rank);
        let fold = fold::fold(kind, dtype, &x, &y, hardware);
        module.add(&library::called(&fold.text, hardware));
        module.add(&fold.text);
        let (own, ..) = lines::own(grouped);
        let load = x.load(&format!("at + i * {x_stride}"));
        let store = y.store_one(&format!("place_of + i * {y_stride}"), "finish(s, 1u)");
        let text = match grouped {
            false => format!(
                "var s = empty();
                for (var i = 0u; i < {len}; i++) {{ s = take(s, {load}, i);\n{store} }}"
            ),
            true => {
                let mut together = WorkgroupReduce::new(&mut module, "State", fold.parts, 1, hardware);
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
            var at = {x_start};
            var place_of = {y_start};
            {}\n{text}",
            grid.positions("row", &["at", "place_of"])
        );
        module.finish([WORKGROUP, 1, 1], &body)
    }
}
