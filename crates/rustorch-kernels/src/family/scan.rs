//! Cumulative sums, products and extrema along an axis. Long lines are scanned by a workgroup, as many elements at a time as it has
//! threads (Hillis, Steele: Data parallel algorithms, 1986).

use super::lines::{self, LineParams, Lines};
use super::reduce::fold::{self, Fold, Kind};
use crate::Hardware;
use crate::family::{Kernels, Plan, StepBuilder};
use crate::library::strided::Grid;
use crate::library::{self, Order, Parts, WorkgroupReduce};
use crate::plan::Request;
use crate::plan::parameters::parameters;
use crate::splitting::{SplitPlan, axes};
use crate::table::{Row, row, sets};
use crate::wgsl::{Elements, Module, WORKGROUP, Wgsl};
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
    struct Params(rank: usize, places: Option<()>) {
        count: usize,
        len: usize,
        x: LineParams,
        y: LineParams,
        /// Of extrema.
        indices: Option<LineParams> = places,
        grid: Grid = (rank, if places.is_some() { 3 } else { 2 }),
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
    let indices = op.has_places().then(|| request.out(1));
    let layouts: Vec<_> =
        [x.layout, out.layout].into_iter().chain(indices.as_ref().map(|x| x.layout)).collect();
    let mut lines = Lines::new(&layouts, axis)?;
    // A part of a complex product may be small beside what rounding does to the other: only one order of factors gives
    // both.
    lines.grouped &= op == ScanOp::Sum || !x.dtype.is_complex();
    let kernel = Scan { op, dtype: x.dtype, out: out.dtype, grouped: lines.grouped, rank: lines.grid.ndim() };
    let mut launch = StepBuilder::new(request.hardware, kernel);
    let x = LineParams { start: launch.read(&x)?, stride: lines.steps[0] };
    let y = LineParams { start: launch.write(&out)?, stride: lines.steps[1] };
    let indices = match indices {
        Some(indices) => Some(LineParams { start: launch.write(&indices)?, stride: lines.steps[2] }),
        None => None,
    };
    let groups = lines.groups(request.hardware)?;
    launch.parameters(&Params { count: lines.count, len: lines.len, x, y, indices, grid: lines.grid })?;
    plan.step(launch, groups);
    Ok(())
}

/// The fold of extrema with their places, of equals the last: functions as [`fold::fold`] has them, of which `merge` takes the earlier state
/// first. `finish` gives the extreme.
fn extreme(smallest: bool, dtype: DType, x: &Elements, y: &Elements) -> Fold {
    let order = Order::of(dtype);
    let (key, from, to) = (order.key(), x.value(), y.value());
    let flip = if smallest { "order_flip" } else { "" };
    let text = format!(
        "{}struct State {{ key: {key}, index: u32 }}
fn empty() -> State {{ return State({key}(), 0u); }}
fn merge(a: State, b: State) -> State {{
    if order_less(b.key, a.key) {{ return a; }}
    return b;
}}
fn take(s: State, v: {from}, i: u32) -> State {{ return merge(s, State({flip}(order_key(v)), i)); }}
fn finish(s: State, count: u32) -> {to} {{ return order_value({flip}(s.key)); }}
",
        order.text()
    );
    let bytes = if dtype.size() == Some(8) { 16 } else { 8 };
    Fold { bytes, parts: Parts::Fields(&["key", "index"]), text }
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
        let places = op.has_places().then_some(());
        let mut module = Module::new();
        let x = fold::input(kind, dtype, &mut module, hardware);
        let y = fold::output(kind, dtype, out, &mut module, hardware);
        let indices = places.map(|()| module.places("indices", DType::I64, hardware));
        let Params { count, len, x: x_line, y: y_line, indices: i_line, grid } =
            module.parameters::<Params>((rank, places));
        let fold = match places {
            Some(()) => extreme(op == ScanOp::Min, dtype, &x, &y),
            None => fold::fold(kind, dtype, &x, &y, hardware),
        };
        module.add(&library::called(&fold.text, hardware));
        module.add(&fold.text);
        let (own, ..) = lines::own(grouped);
        let load = x.load(&format!("at + i * {}", x_line.stride));
        let mut store = y.store_one(&format!("y_at + i * {}", y_line.stride), "finish(s, 1u)");
        let mut starts = format!("var at = {};\nvar y_at = {};\n", x_line.start, y_line.start);
        let mut positions = vec!["at", "y_at"];
        if let (Some(indices), Some(line)) = (&indices, &i_line) {
            let index = indices.from_u32("s.index");
            store.push_str(&indices.store_one(&format!("i_at + i * {}", line.stride), &index));
            starts.push_str(&format!("var i_at = {};\n", line.start));
            positions.push("i_at");
        }
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
            {starts}{}\n{text}",
            grid.positions("row", &positions)
        );
        module.finish([WORKGROUP, 1, 1], &body)
    }
}
