//! Layer normalisation: a workgroup per row, in registers where these suit; the normalised dimensions may have any strides.

use crate::Hardware;
use crate::family::{Kernels, Plan, StepBuilder};
use crate::library::strided::Grid;
use crate::library::{self, Parts, RegisterRow, WorkgroupReduce};
use crate::plan::parameters::{Names, parameters};
use crate::plan::{Operand, Request, line};
use crate::splitting::{SplitPlan, axes};
use crate::table::{Row, row, sets};
use crate::wgsl::{LINEAR_GROUP, Module, WORKGROUP, Wgsl};
use rustorch_core::{DType, Decline, LayerNorm as LayerNormOp, Layout, OpKind, OpType, Shape};

/// Kernel key: everything its source depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LayerNorm {
    dtype: DType,
    /// Weight and bias: how many of them.
    affine: usize,
    /// Dimensions of the rows and within them.
    ranks: [usize; 2],
    /// How rows are in registers, if they are.
    registers: Option<RegisterRow>,
}

parameters! {
    /// Kernel parameters.
    struct Params(ranks: [usize; 2], affine: usize) {
        rows: usize,
        len: usize,
        x_start: u32,
        y_start: u32,
        /// In two parts, for `f64`.
        eps: [f32; 2],
        affine_starts: Vec<u32> = vec![(); affine],
        outer: Grid = (ranks[0], 1),
        inner: Grid = (ranks[1], 1 + affine),
    }
}

/// Supported operations and their dtypes.
pub const ROWS: &[Row] = &[row(OpType::Normalization, &[OpKind::LayerNorm], sets::FLOAT)];

impl Kernels for LayerNormOp {
    fn plan(&self, plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
        self::plan(plan, request, self)
    }

    fn split(&self, request: &Request<'_>) -> Result<Option<SplitPlan>, Decline> {
        let rank = request.outs[0].dims().len();
        Ok(Some(axes::dimensions(request, |d| d < rank - self.dims)))
    }
}

/// Plans the launch.
pub fn plan(plan: &mut Plan, request: &Request<'_>, norm: &LayerNormOp) -> Result<(), Decline> {
    let (x, out) = (request.arg(0), request.out(0));
    let large = |_| Decline::Attr("too large");
    let outer = x.layout.ndim() - norm.dims;
    let (dims, strides) = (x.layout.dims(), x.layout.strides());
    let part = |dims: &[usize], strides: &[usize]| {
        Layout::new(Shape::new(dims).map_err(large)?, strides, 0).map_err(large)
    };
    let rows = part(&dims[..outer], &strides[..outer])?;
    let row = part(&dims[outer..], &strides[outer..])?;
    let affine: Vec<Operand<'_>> = (1..request.args.len()).map(|i| request.arg(i)).collect();
    let layouts: Vec<&Layout> = [&row].into_iter().chain(affine.iter().map(|x| x.layout)).collect();
    let (outer_grid, inner_grid) = (Grid::new(&[&rows]), Grid::new(&layouts));
    let starts = request.args.iter().chain(request.outs).map(|x| x.layout.offset());
    let positions = starts.chain(outer_grid.strides.iter().flatten().copied());
    let registers = RegisterRow::new(x.dtype, row.numel(), positions, request.hardware);
    let registers = registers.filter(|_| inner_grid.is_linear());
    let ranks = [outer_grid.ndim(), inner_grid.ndim()];
    let kernel = LayerNorm { dtype: x.dtype, affine: affine.len(), ranks, registers };
    let mut launch = match registers {
        Some(_) => StepBuilder::of_vectors(request.hardware, kernel),
        None => StepBuilder::new(request.hardware, kernel),
    };
    let x_start = launch.read(&x)?;
    let affine_starts: Vec<u32> = affine.iter().map(|x| launch.read(x)).collect::<Result<_, _>>()?;
    let y_start = launch.write(&out)?;
    let eps = norm.eps as f32;
    launch.parameters(&Params {
        rows: rows.numel(),
        len: row.numel(),
        x_start,
        y_start,
        eps: [eps, (norm.eps - f64::from(eps)) as f32],
        affine_starts,
        outer: outer_grid,
        inner: inner_grid,
    })?;
    plan.step(launch, line(rows.numel(), request.hardware)?);
    Ok(())
}

impl LayerNorm {
    pub(super) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        match self.registers {
            Some(row) => self.in_registers(row, hardware),
            None => self.in_memory(hardware),
        }
    }

    /// The source that reads rows once for each sum, and once more.
    fn in_memory(&self, hardware: &Hardware) -> Wgsl {
        let LayerNorm { dtype, affine, ranks, .. } = *self;
        let mut module = Module::new();
        let x = module.elements("x", dtype, false, hardware);
        let others: Vec<_> =
            ["w", "b"][..affine].iter().map(|name| module.elements(name, dtype, false, hardware)).collect();
        let y = module.places("y", dtype, hardware);
        let params = module.parameters::<Params>((ranks, affine));
        let Params { len, y_start, affine_starts, inner, .. } = &params;
        let names = ["at", "w_at", "b_at"];
        let mut variables = String::from("var at = base;\n");
        for (start, name) in affine_starts.iter().zip(&names[1..]) {
            variables.push_str(&format!("var {name} = {start};\n"));
        }
        variables.push_str(&inner.positions("i", &names[..1 + affine]));
        let load = x.load("at");
        let each = |statements: &str| {
            format!(
                "for (var i = local; i < {len}; i += {WORKGROUP}u) {{\n{variables}let v = {load};\n{statements} }}\n"
            )
        };
        let result = normalised("v", others.iter().zip(&names[1..]).map(|(other, at)| other.load(at)));
        let results = each(&y.store_one(&format!("{y_start} + row * {len} + i"), &result));
        module.add(&library::arithmetic(dtype, hardware));
        let together = WorkgroupReduce::new(&mut module, "Wide", Parts::Whole, 2, hardware);
        let body = body(x.value(), &params, together, "", each, &results);
        module.finish([WORKGROUP, 1, 1], &body)
    }

    /// The source with rows as in `row`.
    fn in_registers(&self, row: RegisterRow, hardware: &Hardware) -> Wgsl {
        let LayerNorm { dtype, affine, ranks, .. } = *self;
        let mut module = Module::new();
        let x = row.buffer(&mut module, "x", false, hardware);
        let others: Vec<_> =
            ["w", "b"][..affine].iter().map(|name| row.buffer(&mut module, name, false, hardware)).collect();
        let y = row.buffer(&mut module, "y", true, hardware);
        let params = module.parameters::<Params>((ranks, affine));
        let Params { len, y_start, affine_starts, .. } = &params;
        let mut reads = row.find(len) + &row.read(&x, "x", "base");
        for ((other, name), start) in others.iter().zip(["w", "b"]).zip(affine_starts) {
            reads.push_str(&row.read(other, name, &start.to_string()));
        }
        let each = |statements: &str| {
            row.each(|at| format!("{{ let v = {};\n{statements} }}\n", row.value(&x, "x", at)))
        };
        let results = row.write(&y, &format!("{y_start} + row * {len}"), |at| {
            let others = others.iter().zip(["w", "b"]).map(|(other, name)| row.value(other, name, at));
            normalised(&row.value(&x, "x", at), others)
        });
        let threads = RegisterRow::THREADS;
        module.add(&library::arithmetic(dtype, hardware));
        let together = WorkgroupReduce::of(threads, &mut module, "Wide", Parts::Whole, 2, hardware);
        let body = body(x.value_type(), &params, together, &reads, each, &results);
        module.finish([threads, 1, 1], &body)
    }
}

/// The expression of a result, of an element, its weight and its bias.
fn normalised(element: &str, affine: impl Iterator<Item = String>) -> String {
    let plain = format!("({element} - centre - rest) * factor");
    affine.zip(["*", "+"]).fold(plain, |result, (other, operator)| format!("({result}) {operator} {other}"))
}

/// The source of `main`, of statements that read a row which begins at `base`, that do something for `each` element `v` of
/// type `ty`, and that write the results.
fn body(
    ty: &str,
    params: &Params<Names>,
    mut together: WorkgroupReduce,
    reads: &str,
    each: impl Fn(&str) -> String,
    results: &str,
) -> String {
    let Params { rows, len, x_start, eps, outer, .. } = params;
    format!(
        "let row = {LINEAR_GROUP};
        if row >= {rows} {{ return; }}
        var base = {x_start};
        {}
        {reads}
        let count = {ty}({len});
        var sum = wide({ty}(0.0));
        {}{}
        let centre = divide(narrow(sum), count);
        sum = wide({ty}(0.0));
        var square = wide({ty}(0.0));
        {}{}
        // What the mean is beside its nearest number: of equal elements nothing else is left.
        let rest = divide(narrow(sum), count);
        let variance = max(divide(narrow(square), count) - rest * rest, {ty}(0.0));
        let factor = divide({ty}(1.0), root(variance + ({ty}({}) + {ty}({}))));
        {results}",
        outer.positions("row", &["base"]),
        each("sum = wide_add(sum, wide(v));"),
        together.reduce(&["sum"], "wide_add(a, b)"),
        each(
            "let deviation = v - centre;
            sum = wide_add(sum, wide(deviation));
            square = wide_add(square, wide(deviation * deviation));"
        ),
        together.reduce(&["sum", "square"], "wide_add(a, b)"),
        eps[0],
        eps[1],
    )
}
