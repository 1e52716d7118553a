//! Scatter along an axis: a thread per line, which processes its sources in order; and scatter_reduce: a thread per element of
//! the result.

use crate::Hardware;
use crate::family::{Kernels, Plan, StepBuilder};
use crate::library::strided::{Grid, rows};
use crate::library::{self, Ring};
use crate::plan::parameters::parameters;
use crate::plan::{Place, Request, line};
use crate::splitting::axes::{self, one};
use crate::splitting::{SplitPlan, copy};
use crate::table::{DTypes, Row, row, sets};
use crate::wgsl::{LINEAR_GROUP, Module, WORKGROUP, Wgsl};
use rustorch_core::{
    DType, Decline, Layout, Op, OpKind, OpType, Scatter as ScatterOp, ScatterMode, ScatterReduce,
    ScatterReduction, TensorMeta,
};

/// Kernel key: everything its source depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Scatter {
    dtype: DType,
    index: DType,
    change: Change,
    rank: usize,
}

/// What happens at the places of indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Change {
    /// Elements are written or added, in order.
    Mode(ScatterMode),
    /// They are combined, with the element in place or without.
    Reduce(ScatterReduction, bool),
}

/// A line longer than this occupies one thread for too long, unless there are many.
const LONG: usize = 1 << 16;

parameters! {
    /// Kernel parameters.
    struct Params(rank: usize) {
        count: usize,
        n: usize,
        len: usize,
        ids_start: u32,
        ids_stride: usize,
        src_start: u32,
        src_stride: usize,
        y_start: u32,
        y_stride: usize,
        grid: Grid = (rank, 3),
    }
}

/// Supported operations and their dtypes.
pub const ROWS: &[Row] = &[
    row(OpType::Indexing, &[OpKind::Scatter(ScatterMode::Replace)], sets::MOVED)
        .beside(INDICES)
        .check(supports),
    row(OpType::Indexing, &[OpKind::Scatter(ScatterMode::Add)], sets::DENSE).beside(INDICES).check(supports),
    row(OpType::Indexing, &[OpKind::ScatterReduce], REDUCED).beside(INDICES).check(supports),
];

/// What is reduced. Small integers would have to wrap at each step.
const REDUCED: DTypes = DTypes::always(&[DType::I32, DType::U32, DType::F16, DType::BF16, DType::F32])
    .with_i64()
    .with_doubles(&[DType::F64]);

const INDICES: &[DType] = &[DType::I32, DType::I64];

fn supports(op: &Op, args: &[TensorMeta<'_>], _: &Hardware) -> Result<(), Decline> {
    let axis = match op {
        Op::Scatter(op) => op.axis,
        Op::ScatterReduce(op) => op.axis,
        op => return Err(Decline::Op(op.name())),
    };
    let index = args[1].layout;
    let len = index.dims().get(axis).copied().unwrap_or(1);
    match len > LONG && index.numel() / len < 64 {
        true => Err(Decline::Attr("more than 65536 indices along the axis in few lines")),
        false => Ok(()),
    }
}

impl Kernels for ScatterOp {
    fn plan(&self, plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
        self::plan(plan, request, self.axis, Change::Mode(self.mode))
    }

    fn split(&self, request: &Request<'_>) -> Result<Option<SplitPlan>, Decline> {
        Ok(Some(lines(request, self.axis)))
    }
}

impl Kernels for ScatterReduce {
    fn plan(&self, plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
        self::plan(plan, request, self.axis, Change::Reduce(self.reduction, self.include_self))
    }

    fn split(&self, request: &Request<'_>) -> Result<Option<SplitPlan>, Decline> {
        Ok(Some(lines(request, self.axis)))
    }
}

/// Lines along the axis that the index covers.
fn lines(request: &Request<'_>, axis: usize) -> SplitPlan {
    let (index, out) = (&request.args[1], &request.outs[0]);
    axes::beside(request, |d| {
        let covers = index.dims()[d] == out.dims()[d];
        (d != axis && covers).then(|| (0..3).map(|_| one(d)).collect())
    })
}

/// Plans the launches.
fn plan(plan: &mut Plan, request: &Request<'_>, axis: usize, change: Change) -> Result<(), Decline> {
    let (x, index, src, out) = (request.arg(0), request.arg(1), request.arg(2), request.out(0));
    copy::plan(plan, request.hardware, &x, &out)?;
    let sources = index.layout.numel();
    if sources == 0 {
        return Ok(());
    }
    // The lines of all three, as the index has them.
    let rank = index.layout.ndim();
    let lines = |layout: &Layout| -> Result<Layout, Decline> {
        let large = |_| Decline::Attr("too large");
        let covered = Layout::new(index.layout.shape().clone(), layout.strides(), 0).map_err(large)?;
        match rank {
            0 => Ok(covered),
            _ => rows(&covered.transpose(axis, rank - 1).map_err(large)?),
        }
    };
    let step = |layout: &Layout| layout.strides().get(axis).copied().unwrap_or(0);
    let len = |layout: &Layout| layout.dims().get(axis).copied().unwrap_or(1);
    let grid = Grid::new(&[&lines(index.layout)?, &lines(src.layout)?, &lines(out.layout)?]);
    let kernel = Scatter { dtype: x.dtype, index: index.dtype, change, rank: grid.ndim() };
    let mut launch = StepBuilder::new(request.hardware, kernel);
    let (ids_start, src_start, y_start) = (launch.read(&index)?, launch.read(&src)?, launch.write(&out)?);
    launch.bytes(Place::AssertLog, 0..4 * crate::device_assert::WORDS as u64, true)?;
    // A thread for each line; or, where elements are combined, for each that may be changed.
    let threads = match change {
        Change::Mode(_) => 1,
        Change::Reduce(..) => len(x.layout).max(1),
    };
    let count = sources / len(index.layout) * threads;
    launch.parameters(&Params {
        count,
        n: len(index.layout),
        len: len(x.layout),
        ids_start,
        ids_stride: step(index.layout),
        src_start,
        src_stride: step(src.layout),
        y_start,
        y_stride: step(out.layout),
        grid,
    })?;
    plan.step(launch, line(count.div_ceil(WORKGROUP as usize), request.hardware)?);
    Ok(())
}

impl Scatter {
    pub(super) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let Scatter { dtype, index, change, rank } = *self;
        let mut module = Module::new();
        let ids = module.elements("ids", index, false, hardware);
        let (src, y) = match change {
            Change::Mode(ScatterMode::Replace) => {
                (module.bits("src", dtype, false), module.bit_places("y", dtype))
            }
            Change::Mode(ScatterMode::Add) | Change::Reduce(..) => {
                let src = module.elements("src", dtype, false, hardware);
                (src, module.places("y", dtype, hardware))
            }
        };
        module.asserts();
        let Params { count, n, len, ids_start, ids_stride, src_start, src_stride, y_start, y_stride, grid } =
            module.parameters::<Params>(rank);
        let mode = match change {
            Change::Mode(mode) => mode,
            Change::Reduce(reduction, include_self) => {
                let text = combination(reduction, dtype);
                module.add(&(library::called(&text, hardware) + &text));
                let body = format!(
                    "let t = {LINEAR_GROUP} * {WORKGROUP}u + local;
                    if t >= {count} {{ return; }}
                    let places = max({len}, 1u);
                    let line = t / places;
                    let place = t % places;
                    var a = {ids_start};\nvar b = {src_start};\nvar c = {y_start};\n{}
                    let place_of = c + place * {y_stride};
                    var count = 0u;
                    var value = {};
                    for (var k = 0u; k < {n}; k++) {{
                        {}
                        // Where the axis is empty every index fails the assert.
                        if {len} != 0u {{
                            if id == place {{
                                let next = {};
                                if count == 0u && !{include_self} {{
                                    value = next;
                                }} else {{
                                    value = combined(value, next);
                                }}
                                count++;
                            }}
                        }}
                        a += {ids_stride};
                        b += {src_stride};
                    }}
                    if count != 0u {{
                        let result = finished(value, count + {}u);
                        {}
                    }}",
                    grid.positions("line", &["a", "b", "c"]),
                    y.load("place_of"),
                    ids.load_index("id", "a", &len.to_string(), OpKind::ScatterReduce),
                    src.load("b"),
                    u32::from(include_self),
                    y.store_one("place_of", "result"),
                );
                return module.finish([WORKGROUP, 1, 1], &body);
            }
        };
        let value = src.load("b");
        let value = match mode {
            ScatterMode::Replace => value,
            ScatterMode::Add if dtype == DType::Bool => format!("({} || {value})", y.load("place_of")),
            ScatterMode::Add => {
                let sum = Ring::of(dtype, hardware).add();
                module.add(&(library::called(&sum, hardware) + &sum));
                format!("ring_add({}, {value})", y.load("place_of"))
            }
        };
        let body = format!(
            "let t = {LINEAR_GROUP} * {WORKGROUP}u + local;
            if t >= {count} {{ return; }}
            var a = {ids_start};\nvar b = {src_start};\nvar c = {y_start};\n{}
            for (var k = 0u; k < {n}; k++) {{
                {}
                // Where the axis is empty every index fails the assert.
                if {len} != 0u {{
                    let place_of = c + id * {y_stride};
                    let sum = {value};
                    {}
                }}
                a += {ids_stride};
                b += {src_stride};
            }}",
            grid.positions("t", &["a", "b", "c"]),
            ids.load_index("id", "a", &len.to_string(), mode),
            y.store_one("place_of", "sum"),
        );
        module.finish([WORKGROUP, 1, 1], &body)
    }
}

/// Functions `combined(a, b)`, and `finished(a, n)` of what was combined of `n` elements.
fn combination(reduction: ScatterReduction, dtype: DType) -> String {
    let (ty, larger, smaller, mean) = match dtype {
        DType::I32 => ("i32", "max(a, b)", "min(a, b)", "floor_divide_signed(a, i32(n))"),
        DType::U32 => ("u32", "max(a, b)", "min(a, b)", "floor_divide_unsigned(a, n)"),
        DType::I64 => ("i64", "select(b, a, a > b)", "select(b, a, a < b)", "floor_divide_long(a, i64(n))"),
        DType::F64 => ("f64", "larger_double(a, b)", "smaller_double(a, b)", "divide_double(a, f64(n))"),
        _ => ("f32", "larger(a, b)", "smaller(a, b)", "divide(a, f32(n))"),
    };
    let combined = match reduction {
        ScatterReduction::Sum | ScatterReduction::Mean => "a + b",
        ScatterReduction::Prod => "a * b",
        ScatterReduction::Max => larger,
        ScatterReduction::Min => smaller,
    };
    let finished = if reduction == ScatterReduction::Mean { mean } else { "a" };
    format!(
        "fn combined(a: {ty}, b: {ty}) -> {ty} {{ return {combined}; }}
fn finished(a: {ty}, n: u32) -> {ty} {{ return {finished}; }}
"
    )
}
