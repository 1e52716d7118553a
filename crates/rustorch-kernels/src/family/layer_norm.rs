//! Layer normalisation: a workgroup for each row, whose trailing dimensions may lie anywhere.

use super::strided::{self, Grid};
use crate::Hardware;
use crate::library::{self, Parts, Together};
use crate::plan::{Operand, Plan, Request, StepBuilder, line};
use crate::table::{Row, row, sets};
use crate::wgsl::{LINEAR_GROUP, Module, WORKGROUP, Wgsl};
use rustorch_core::{DType, Decline, LayerNorm as Parameters, Layout, OpType, Shape};

/// The kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LayerNorm {
    dtype: DType,
    /// Weight and bias: how many of them.
    affine: usize,
    /// Dimensions of the rows and within them.
    ranks: [usize; 2],
}

/// What it normalises.
pub const ROWS: &[Row] = &[row(OpType::Normalization, &["layer_norm"], sets::FLOAT)];

/// Adds the launch.
pub fn plan(plan: &mut Plan, request: &Request<'_>, norm: &Parameters) -> Result<(), Decline> {
    let (x, out) = (request.arg(0), request.out(0));
    let large = |_| Decline::Attr("too large");
    let outer = x.layout.rank() - norm.dims;
    let (dims, strides) = (x.layout.dims(), x.layout.strides());
    let part = |dims: &[usize], strides: &[usize]| {
        Layout::new(Shape::new(dims).map_err(large)?, strides, 0).map_err(large)
    };
    let rows = part(&dims[..outer], &strides[..outer])?;
    let row = part(&dims[outer..], &strides[outer..])?;
    let affine: Vec<Operand<'_>> = (1..request.args.len()).map(|i| request.arg(i)).collect();
    let layouts: Vec<&Layout> = [&row].into_iter().chain(affine.iter().map(|x| x.layout)).collect();
    let grids = [Grid::new(&[&rows]), Grid::new(&layouts)];
    let kernel =
        LayerNorm { dtype: x.dtype, affine: affine.len(), ranks: [grids[0].rank(), grids[1].rank()] };
    let mut launch = StepBuilder::new(request.hardware, kernel);
    let from = launch.read(&x)?;
    let others: Vec<u32> = affine.iter().map(|x| launch.read(x)).collect::<Result<_, _>>()?;
    let to = launch.write(&out)?;
    // The small number in two parts, for f64.
    let eps = norm.eps as f32;
    launch.number(rows.elements())?.number(row.elements())?.word(from).word(to);
    launch.float(eps).float((norm.eps - f64::from(eps)) as f32);
    for other in others {
        launch.word(other);
    }
    for grid in &grids {
        grid.describe(&mut launch)?;
    }
    plan.step(launch, line(rows.elements(), request.hardware)?);
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
        let (rows, len, from, to) = (module.word(), module.word(), module.word(), module.word());
        let eps = [module.word().float(), module.word().float()];
        let starts = module.take(affine);
        let outer = strided::parameters(&mut module, ranks[0], 1);
        let inner = strided::parameters(&mut module, ranks[1], 1 + affine);
        let ty = x.value();
        module.add(&library::arithmetic(dtype, hardware));
        let mut together = Together::new(&mut module, "Wide", Parts::Whole, 2, hardware);
        let names = ["at", "w_at", "b_at"];
        let mut variables = String::from("var at = base;\n");
        for (start, name) in starts.iter().zip(&names[1..]) {
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
            var base = {from};
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
            y.store_one(&format!("{to} + row * {len} + i"), &result),
        );
        module.finish([WORKGROUP, 1, 1], &body)
    }
}
