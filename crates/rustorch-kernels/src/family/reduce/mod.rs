//! Reductions over any axes: a thread per result for short reductions, a workgroup per result for long ones, and two launches
//! where that would leave the device idle.

pub(super) mod fold;
mod long;

use crate::Hardware;
use crate::family::{Kernels, Plan, StepBuilder};
use crate::library::kind as arithmetic;
use crate::library::scalars;
use crate::library::strided::Grid;
use crate::library::{self, WorkgroupReduce};
use crate::plan::parameters::parameters;
use crate::plan::{Request, line};
use crate::splitting::{OwnLines, SplitPlan, axes};
use crate::table::{Row, row, sets};
use crate::wgsl::{LINEAR_GROUP, Module, WORKGROUP, Wgsl};
use fold::Kind;
use rustorch_core::{
    DType, Decline, Dims, Layout, OpKind, OpType, Reduce as Parameters, ReduceKind, ReduceOp, Scalar, Shape,
};
use std::fmt::Write;

/// Kernel key: everything its source depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reduce {
    kind: Kind,
    dtype: DType,
    out: DType,
    /// Dimensions of the results and of what is reduced.
    ranks: [usize; 2],
    /// Whether a workgroup makes one result, else a thread.
    group: bool,
    stage: Stage,
}

/// Which part of the way from elements to results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    Whole,
    /// Elements to states.
    First,
    /// States to results.
    Last,
}

parameters! {
    /// Kernel parameters.
    struct Params(correction: Option<arithmetic::Kind>, ranks: [usize; 2]) {
        results: usize,
        /// Runs of each result.
        runs: usize,
        n: usize,
        chunk: usize,
        x_start: u32,
        y_start: usize,
        /// Of the runs of each result, the first that this launch takes, and how many.
        first_run: usize,
        here: usize,
        /// The elements of a result.
        count: usize,
        /// Of variances.
        correction: Option<scalars::Words> = correction,
        kept: Grid = (ranks[0], 1),
        reduced: Grid = (ranks[1], 1),
    }
}

/// Elements that a workgroup takes, where several make one result.
const CHUNK: usize = 1 << 12;

/// Supported operations and their dtypes.
pub const ROWS: &[Row] = &[
    row(OpType::Reduction, &[OpKind::Reduce(ReduceKind::Sum), OpKind::Reduce(ReduceKind::Prod)], sets::DENSE),
    row(OpType::Reduction, &[OpKind::Reduce(ReduceKind::Mean)], sets::CONTINUOUS),
    row(
        OpType::Reduction,
        &[
            OpKind::Reduce(ReduceKind::Max),
            OpKind::Reduce(ReduceKind::Min),
            OpKind::Reduce(ReduceKind::ArgMax),
            OpKind::Reduce(ReduceKind::ArgMin),
        ],
        sets::ORDERED,
    ),
    row(OpType::Reduction, &[OpKind::Reduce(ReduceKind::Any), OpKind::Reduce(ReduceKind::All)], sets::ALL),
    row(OpType::Reduction, &[OpKind::Reduce(ReduceKind::LogSumExp)], sets::SMOOTH),
    row(
        OpType::Reduction,
        &[OpKind::Reduce(ReduceKind::Norm), OpKind::Reduce(ReduceKind::Var), OpKind::Reduce(ReduceKind::Std)],
        sets::FLOAT,
    ),
];

/// The layouts of the kept and of the reduced dimensions.
fn split(layout: &Layout, axes: &[usize]) -> Result<[Layout; 2], Decline> {
    let part = |reduced: bool| {
        let chosen = |values: &[usize]| -> Dims {
            values.iter().enumerate().filter(|(d, _)| axes.contains(d) == reduced).map(|(_, &v)| v).collect()
        };
        let shape = Shape::new(chosen(layout.dims())).ok()?;
        Layout::new(shape, chosen(layout.strides()), 0).ok()
    };
    part(false).zip(part(true)).map(|(kept, reduced)| [kept, reduced]).ok_or(Decline::Attr("too large"))
}

/// Into how many runs the `n` elements of each of `of` results are parted, and how long these are.
fn runs(n: usize, of: usize) -> [usize; 2] {
    let most = if n > 2 * CHUNK && of < 1 << 10 { n.div_ceil(CHUNK).min(CHUNK) } else { 1 };
    let chunk = n.div_ceil(most);
    [if chunk == 0 { 1 } else { n.div_ceil(chunk) }, chunk]
}

/// Whether lines may be larger than the maximum binding size; where they are even steps in memory, with the elements from
/// the first to the last.
fn own_lines(request: &Request<'_>, reduce: &Parameters) -> Result<Option<OwnLines>, Decline> {
    let [kept, reduced] = split(request.args[0].layout, &reduce.axes)?;
    let [runs, _] = runs(reduced.numel(), kept.numel());
    let even = Grid::new(&[&reduced]).ndim() <= 1;
    Ok((runs > 1).then(|| OwnLines { arguments: 1, reach: even.then(|| reduced.end() - 1) }))
}

impl Kernels for Parameters {
    fn plan(&self, plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
        self::plan(plan, request, self)
    }

    fn split(&self, request: &Request<'_>) -> Result<Option<SplitPlan>, Decline> {
        let lines = own_lines(request, self)?;
        let (x, rank) = (&request.args[0], request.outs[0].layout.ndim());
        let kept: Dims = match self.keepdim {
            true => (0..rank).collect(),
            false => (0..x.dims().len()).filter(|d| !self.axes.contains(d)).collect(),
        };
        let kept = axes::beside(request, |d| (!self.axes.contains(&kept[d])).then(|| axes::first(kept[d])));
        Ok(Some(kept.with_own_lines(lines)))
    }
}

/// Plans the launches.
pub fn plan(plan: &mut Plan, request: &Request<'_>, reduce: &Parameters) -> Result<(), Decline> {
    let (x, out) = (request.arg(0), request.out(0));
    let hardware = request.hardware;
    let [kept, reduced] = split(x.layout, &reduce.axes)?;
    let [kept_grid, reduced_grid] = [Grid::new(&[&kept]), Grid::new(&[&reduced])];
    let (results, n) = (kept.numel(), reduced.numel());
    let kind = Kind::of(reduce.op);
    let correction = match reduce.op {
        ReduceOp::Var { correction } | ReduceOp::Std { correction } => Some(correction),
        _ => None,
    };
    // The order of accumulation is a matter of the whole operation.
    let of = request.whole().outs[0].layout.numel();
    let group = n > 32 && !(of >= 1 << 14 && n <= 256);
    let kernel = Reduce {
        kind,
        dtype: x.dtype,
        out: out.dtype,
        ranks: [kept_grid.ndim(), reduced_grid.ndim()],
        group,
        stage: Stage::Whole,
    };
    let [runs, chunk] = runs(n, of);
    if runs > 1 {
        return long::plan(plan, request, kernel, [kept, reduced], [runs, chunk], correction);
    }
    let mut launch = StepBuilder::new(hardware, kernel);
    let x_start = launch.read(&x)?;
    let y_start = launch.write(&out)? as usize;
    launch.parameters(&Params {
        results,
        runs: 1,
        n,
        chunk,
        x_start,
        y_start,
        first_run: 0,
        here: 1,
        count: n,
        correction: kernel.correction(correction, hardware),
        kept: kept_grid,
        reduced: reduced_grid,
    })?;
    let groups = if group { results } else { results.div_ceil(WORKGROUP as usize) };
    plan.step(launch, line(groups, hardware)?);
    Ok(())
}

impl Reduce {
    /// A correction of variances, as the kernel gets it.
    fn correction(&self, correction: Option<f64>, hardware: &Hardware) -> Option<scalars::Words> {
        correction.map(|x| scalars::words(Scalar::Float(x), fold::wide(self.dtype, hardware)))
    }

    /// Bytes of a state.
    fn state_bytes(&self, hardware: &Hardware) -> usize {
        let mut module = Module::new();
        let x = fold::input(self.kind, self.dtype, &mut module, hardware);
        let y = fold::output(self.kind, self.dtype, self.out, &mut module, hardware);
        fold::fold(self.kind, self.dtype, &x, &y, hardware).bytes
    }

    pub(super) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let Reduce { kind, dtype, out, ranks, group, stage } = *self;
        let mut module = Module::new();
        // The types of elements and results, wherever they are.
        let mut types = Module::new();
        let mut x = fold::input(kind, dtype, &mut types, hardware);
        let mut y = fold::output(kind, dtype, out, &mut types, hardware);
        match stage {
            Stage::Last => module.buffer("states", "array<State>", false),
            _ => x = fold::input(kind, dtype, &mut module, hardware),
        }
        match stage {
            Stage::First => module.buffer("states", "array<State>", true),
            _ => y = fold::output(kind, dtype, out, &mut module, hardware),
        }
        let wide = fold::wide(dtype, hardware);
        let corrected = matches!(kind, Kind::Var | Kind::Std);
        let Params {
            results,
            runs,
            n,
            chunk,
            x_start,
            y_start,
            first_run,
            here,
            count,
            correction,
            kept,
            reduced,
        } = module.parameters::<Params>((corrected.then(|| arithmetic::Kind::of(wide, hardware)), ranks));
        let mut text = String::new();
        if let Some(correction) = correction {
            let ty = if wide == DType::F64 { "f64" } else { "f32" };
            let _ = writeln!(text, "fn correction() -> {ty} {{ return {correction}; }}");
        }
        let fold = fold::fold(kind, dtype, &x, &y, hardware);
        text.push_str(&fold.text);
        module.add(&library::called(&text, hardware));
        module.add(&text);
        let (task, first, step) = match group {
            true => (LINEAR_GROUP.to_owned(), "local", WORKGROUP),
            false => (format!("({LINEAR_GROUP} * {WORKGROUP}u + local)"), "0u", 1),
        };
        let mut body = format!(
            "let task = {task};
            if task >= {results} * {here} {{ return; }}
            let result = task / {here};
            let piece = {first_run} + task % {here};
            let begin = piece * {chunk};
            let end = min(begin + {chunk}, {n});
            var base = {x_start};
            {}
            var s = empty();
            for (var i = begin + {first}; i < end; i += {step}u) {{\n",
            kept.positions("result", &["base"]),
        );
        match stage {
            Stage::Last => {
                let _ = writeln!(body, "s = merge(s, states[result * {n} + i]);\n}}");
            }
            _ => {
                let _ = writeln!(
                    body,
                    "var at = base;\n{}s = take(s, {}, i);\n}}",
                    reduced.positions("i", &["at"]),
                    x.load("at")
                );
            }
        }
        if group {
            let mut together = WorkgroupReduce::new(&mut module, "State", fold.parts, 1, hardware);
            body.push_str(&together.reduce(&["s"], "merge(a, b)"));
            body.push_str("if local != 0u { return; }\n");
        }
        match stage {
            Stage::First => {
                let _ = write!(body, "states[{y_start} + result * {runs} + piece] = s;");
            }
            _ => body.push_str(&y.store_one(&format!("{y_start} + result"), &format!("finish(s, {count})"))),
        }
        module.finish([WORKGROUP, 1, 1], &body)
    }
}
