//! RMS normalisation: a workgroup for each row.

use super::kind::Kind;
use super::scalars;
use super::strided::{self, Grid};
use crate::Hardware;
use crate::library::{self, Parts, Together};
use crate::plan::{Operand, Plan, Request, StepBuilder, line};
use crate::table::{Row, row, sets};
use crate::wgsl::{self, LINEAR_GROUP, Module, WORKGROUP, Wgsl};
use rustorch_core::{DType, Decline, Layout, OpType, Scalar, Shape};
use std::fmt::Write;

/// The kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RmsNorm {
    dtype: DType,
    weight: bool,
    /// Dimensions of the rows.
    rank: usize,
}

/// What it normalises.
pub const ROWS: &[Row] = &[row(OpType::Normalization, &["rms_norm"], sets::FLOAT)
    .check(|_, args, _| {
        let len = args[0].dims()[args[0].dims().len() - 1];
        match len.is_multiple_of(wgsl::per_word(args[0].dtype)) {
            true => Ok(()),
            false => Err(Decline::Layout("rows of 16-bit numbers must be of even length")),
        }
    })
    .remark("rows of 16-bit floats of even length")];

/// The layout of a tensor's rows, the last dimension left out.
pub fn rows(layout: &Layout) -> Result<Layout, Decline> {
    let outer = layout.rank().saturating_sub(1);
    let shape = Shape::new(&layout.dims()[..outer]).map_err(|_| Decline::Attr("too large"))?;
    Layout::new(shape, &layout.strides()[..outer], 0).map_err(|_| Decline::Attr("too large"))
}

/// Adds the launch.
pub fn plan(plan: &mut Plan, request: &Request<'_>, eps: f64) -> Result<(), Decline> {
    let (x, out) = (request.arg(0), request.out(0));
    let rank = x.layout.rank();
    let (len, step) = (x.layout.dims()[rank - 1], x.layout.strides()[rank - 1]);
    let row_layout = rows(x.layout)?;
    let grid = Grid::new(&[&row_layout]);
    let weight = request.args.len() == 2;
    // Rows of 16-bit numbers may begin within a word: those are made in f32, and cast.
    let packs = len.is_multiple_of(wgsl::per_word(x.dtype));
    if !packs {
        return Err(Decline::Layout("rows of 16-bit numbers must be of even length"));
    }
    let kernel = RmsNorm { dtype: x.dtype, weight, rank: grid.rank() };
    let mut launch = StepBuilder::new(request.hardware, kernel);
    let from = launch.read(&x)?;
    let mut scale = (0, 0);
    if weight {
        let w: Operand<'_> = request.arg(1);
        scale = (launch.read(&w)?, w.layout.strides()[0]);
    }
    let to = launch.write(&out)?;
    let row_count = x.layout.elements() / len;
    launch.number(row_count)?.number(len)?.number(step)?.word(from).word(scale.0).number(scale.1)?;
    launch.word(to);
    scalars::give(&mut launch, scalars::words(Scalar::Float(eps), scalars::wide(x.dtype)));
    grid.describe(&mut launch)?;
    plan.step(launch, line(row_count, request.hardware)?);
    Ok(())
}

impl RmsNorm {
    pub(super) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let RmsNorm { dtype, weight, rank } = *self;
        let mut module = Module::new();
        let x = module.elements("x", dtype, false, hardware);
        let w = weight.then(|| module.elements("w", dtype, false, hardware));
        let y = module.elements("y", dtype, true, hardware);
        let (rows, len, step, from) = (module.word(), module.word(), module.word(), module.word());
        let (w_from, w_step, to) = (module.word(), module.word(), module.word());
        let eps = scalars::declare(&mut module, Kind::of(dtype, hardware));
        let grid = strided::parameters(&mut module, rank, 1);
        let ty = x.value();
        module.add(&library::arithmetic(dtype, hardware));
        module.add(&library::called(&format!("finite() {eps}"), hardware));
        // What an infinite sum of pairs has lost by rounding is no number.
        module.add(match hardware.f64 {
            true => "fn joined(a: Wide, b: Wide) -> Wide { return wide_add(a, b); }",
            false => {
                "fn joined(a: Wide, b: Wide) -> Wide {
                    let sum = narrow(a) + narrow(b);
                    return select(wide(sum), wide_add(a, b), finite(sum));
                }"
            }
        });
        let mut together = Together::new(&mut module, "Wide", Parts::Whole, 1, hardware);
        let per_word = y.per_word();
        let mean = match dtype {
            DType::F64 => "let mean = quotient;",
            _ => {
                "let rest = narrow(wide_add(total, wide_mul(wide(-quotient), wide(count))));
                let mean = select(quotient, quotient + rest / count, finite(quotient));"
            }
        };
        let mut body = format!(
            "let row = {LINEAR_GROUP};
            if row >= {rows} {{ return; }}
            var at = {from};
            {}
            // Squares are rounded as elements are; their sum is so precise that its order does not matter.
            var sum = wide({ty}(0.0));
            for (var i = local; i < {len}; i += {WORKGROUP}u) {{
                let v = {};
                sum = joined(sum, wide(v * v));
            }}
            {}
            let total = sum;
            let count = {ty}({len});
            let quotient = divide(narrow(total), count);
            {mean}
            let factor = divide({ty}(1.0), root(mean + {eps}));
            for (var i = local * {per_word}u; i < {len}; i += {}u) {{\n",
            grid.positions("row", &["at"]),
            x.load(&format!("at + i * {step}")),
            together.reduce(&["sum"], "joined(a, b)"),
            WORKGROUP as usize * per_word,
        );
        let mut values = Vec::new();
        for k in 0..per_word {
            let load = x.load(&format!("at + (i + {k}u) * {step}"));
            let scale = match &w {
                Some(w) => format!(" * {}", w.load(&format!("{w_from} + (i + {k}u) * {w_step}"))),
                None => String::new(),
            };
            let _ = writeln!(body, "let v{k} = {load} * factor{scale};");
            values.push(format!("v{k}"));
        }
        body.push_str(&y.store(&format!("({to} + row * {len} + i) / {per_word}u"), &values));
        body.push_str("}\n");
        module.finish([WORKGROUP, 1, 1], &body)
    }
}
