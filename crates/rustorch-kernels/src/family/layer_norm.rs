//! Layer normalisation: a workgroup per row; the normalised dimensions may have any strides.

use crate::Hardware;
use crate::family::{Kernels, Plan, StepBuilder};
use crate::library::strided::Grid;
use crate::library::{self, Parts, WorkgroupReduce};
use crate::plan::parameters::parameters;
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
    let kernel =
        LayerNorm { dtype: x.dtype, affine: affine.len(), ranks: [outer_grid.ndim(), inner_grid.ndim()] };
    let mut launch = StepBuilder::new(request.hardware, kernel);
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
        let LayerNorm { dtype, affine, ranks } = *self;
        let mut module = Module::new();
        let x = module.elements("x", dtype, false, hardware);
        let others: Vec<_> =
            ["w", "b"][..affine].iter().map(|name| module.elements(name, dtype, false, hardware)).collect();
        let y = module.places("y", dtype, hardware);
        let Params { rows, len, x_start, y_start, eps, affine_starts, outer, inner } =
            module.parameters::<Params>((ranks, affine));
        let ty = x.value();
        module.add(&library::arithmetic(dtype, hardware));
        let mut together = WorkgroupReduce::new(&mut module, "Wide", Parts::Whole, 2, hardware);
        let names = ["at", "w_at", "b_at"];
        let mut variables = String::from("var at = base;\n");
        for (start, name) in affine_starts.iter().zip(&names[1..]) {
            variables.push_str(&format!("var {name} = {start};\n"));
        }
        variables.push_str(&inner.positions("i", &names[..1 + affine]));
        let mut result = String::from("(v - centre - rest) * factor");
        for (other, (name, operator)) in others.iter().zip([("w_at", "*"), ("b_at", "+")]) {
            result = format!("({result}) {operator} {}", other.load(name));
        }
        let load = x.load("at");
        let each =
            format!("for (var i = local; i < {len}; i += {WORKGROUP}u) {{\n{variables}let v = {load};\n");
        let body = format!(
            "let row = {LINEAR_GROUP};
            if row >= {rows} {{ return; }}
            var base = {x_start};
            {}
            let count = {ty}({len});
            var sum = wide({ty}(0.0));
            {each} sum = wide_add(sum, wide(v)); }}
            {}
            let centre = divide(narrow(sum), count);
            sum = wide({ty}(0.0));
            var square = wide({ty}(0.0));
            {each}
                let deviation = v - centre;
                sum = wide_add(sum, wide(deviation));
                square = wide_add(square, wide(deviation * deviation));
            }}
            {}
            // What the mean is beside its nearest number: of equal elements nothing else is left.
            let rest = divide(narrow(sum), count);
            let variance = max(divide(narrow(square), count) - rest * rest, {ty}(0.0));
            let factor = divide({ty}(1.0), root(variance + ({ty}({}) + {ty}({}))));
            {each} {} }}",
            outer.positions("row", &["base"]),
            together.reduce(&["sum"], "wide_add(a, b)"),
            together.reduce(&["sum", "square"], "wide_add(a, b)"),
            eps[0],
            eps[1],
            y.store_one(&format!("{y_start} + row * {len} + i"), &result),
        );
        module.finish([WORKGROUP, 1, 1], &body)
    }
}
