//! Reductions over any axes: a thread for each result where there is little to reduce, else a workgroup; where that leaves
//! the device idle, several for each, and a second launch for what they found.

pub(super) mod fold;
mod long;

use super::kind as arithmetic;
use super::scalars;
use super::strided::{self, Grid};
use crate::Hardware;
use crate::library::{self, Together};
use crate::plan::{Plan, Request, StepBuilder, line};
use crate::table::{Row, row, sets};
use crate::wgsl::{LINEAR_GROUP, Module, WORKGROUP, Wgsl};
use fold::Kind;
use rustorch_core::{DType, Decline, Dims, Layout, OpType, Reduce as Parameters, ReduceOp, Scalar, Shape};
use std::fmt::Write;

/// The kernel.
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

/// Elements that a workgroup takes, where several make one result.
const CHUNK: usize = 1 << 12;

/// What it reduces.
pub const ROWS: &[Row] = &[
    row(OpType::Reduction, &["sum", "prod"], sets::DENSE),
    row(OpType::Reduction, &["mean"], sets::CONTINUOUS),
    row(OpType::Reduction, &["amax", "amin", "argmax", "argmin"], sets::ORDERED),
    row(OpType::Reduction, &["any", "all"], sets::ALL),
    row(OpType::Reduction, &["logsumexp"], sets::SMOOTH),
    row(OpType::Reduction, &["var", "std"], sets::FLOAT),
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

/// Whether lines may be larger than what kernels see at once; where they are even steps in memory, with the elements from
/// the first to the last.
pub(crate) fn cuts_lines(
    request: &Request<'_>,
    reduce: &Parameters,
) -> Result<Option<Option<usize>>, Decline> {
    let [kept, reduced] = split(request.args[0].layout, &reduce.axes)?;
    let [runs, _] = runs(reduced.elements(), kept.elements());
    let even = Grid::new(&[&reduced]).rank() <= 1;
    Ok((runs > 1).then(|| even.then(|| reduced.end() - 1)))
}

/// Adds the launches.
pub fn plan(plan: &mut Plan, request: &Request<'_>, reduce: &Parameters) -> Result<(), Decline> {
    let (x, out) = (request.arg(0), request.out(0));
    let hardware = request.hardware;
    let [kept, reduced] = split(x.layout, &reduce.axes)?;
    let grids = [Grid::new(&[&kept]), Grid::new(&[&reduced])];
    let (results, n) = (kept.elements(), reduced.elements());
    let kind = Kind::of(reduce.op);
    let correction = match reduce.op {
        ReduceOp::Var { correction } | ReduceOp::Std { correction } => Some(correction),
        _ => None,
    };
    // In which order numbers are added is a matter of the whole operation.
    let of = request.whole().outs[0].layout.elements();
    let group = n > 32 && !(of >= 1 << 14 && n <= 256);
    let kernel = Reduce {
        kind,
        dtype: x.dtype,
        out: out.dtype,
        ranks: [grids[0].rank(), grids[1].rank()],
        group,
        stage: Stage::Whole,
    };
    let [runs, chunk] = runs(n, of);
    if runs > 1 {
        return long::plan(plan, request, kernel, [kept, reduced], [runs, chunk], correction);
    }
    let mut launch = StepBuilder::new(hardware, kernel);
    let from = launch.read(&x)?;
    let to = launch.write(&out)?;
    launch.number(results)?.number(1)?.number(n)?.number(chunk)?.word(from).word(to).word(0).word(1);
    kernel.finish(&mut launch, n, correction)?;
    for grid in &grids {
        grid.describe(&mut launch)?;
    }
    let groups = if group { results } else { results.div_ceil(WORKGROUP as usize) };
    plan.step(launch, line(groups, hardware)?);
    Ok(())
}

impl Reduce {
    /// Gives the numbers by which states become results: of so many elements, with a correction of variances.
    fn finish(&self, launch: &mut StepBuilder<'_>, n: usize, correction: Option<f64>) -> Result<(), Decline> {
        launch.number(n)?;
        if let Some(correction) = correction {
            let wide = fold::wide(self.dtype, launch.hardware());
            scalars::give(launch, scalars::words(Scalar::Float(correction), wide));
        }
        Ok(())
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
        let (results, pieces, n, chunk) = (module.word(), module.word(), module.word(), module.word());
        let (from, to) = (module.word(), module.word());
        // Of the pieces of each result, those that this launch takes.
        let (first_piece, here) = (module.word(), module.word());
        let count = module.word();
        let mut text = String::new();
        if matches!(kind, Kind::Var | Kind::Std) {
            let wide = fold::wide(dtype, hardware);
            let correction = scalars::declare(&mut module, arithmetic::Kind::of(wide, hardware));
            let ty = if wide == DType::F64 { "f64" } else { "f32" };
            let _ = writeln!(text, "fn correction() -> {ty} {{ return {correction}; }}");
        }
        let kept = strided::parameters(&mut module, ranks[0], 1);
        let reduced = strided::parameters(&mut module, ranks[1], 1);
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
            let piece = {first_piece} + task % {here};
            let begin = piece * {chunk};
            let end = min(begin + {chunk}, {n});
            var base = {from};
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
            let mut together = Together::new(&mut module, "State", fold.parts, 1, hardware);
            body.push_str(&together.reduce(&["s"], "merge(a, b)"));
            body.push_str("if local != 0u { return; }\n");
        }
        match stage {
            Stage::First => {
                let _ = write!(body, "states[{to} + result * {pieces} + piece] = s;");
            }
            _ => body.push_str(&y.store_one(&format!("{to} + result"), &format!("finish(s, {count})"))),
        }
        module.finish([WORKGROUP, 1, 1], &body)
    }
}
