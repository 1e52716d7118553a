//! Softmax and its logarithm along an axis.

use super::lines::{self, Lines};
use super::strided;
use crate::Hardware;
use crate::library::{self, Parts, Together};
use crate::plan::{Plan, Request, StepBuilder};
use crate::table::{Row, row, sets};
use crate::wgsl::{Module, WORKGROUP, Wgsl};
use rustorch_core::{DType, Decline, OpType, Softmax as Parameters};

/// The kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Softmax {
    dtype: DType,
    log: bool,
    grouped: bool,
    rank: usize,
}

/// What it takes.
pub const ROWS: &[Row] = &[row(OpType::Activation, &["softmax", "log_softmax"], sets::SMOOTH)];

/// Adds the launch.
pub fn plan(plan: &mut Plan, request: &Request<'_>, softmax: &Parameters) -> Result<(), Decline> {
    let (x, out) = (request.arg(0), request.out(0));
    let lines = Lines::new(&[x.layout, out.layout], softmax.axis)?;
    let kernel =
        Softmax { dtype: x.dtype, log: softmax.log, grouped: lines.grouped, rank: lines.grid.rank() };
    let mut launch = StepBuilder::new(request.hardware, kernel);
    let (from, to) = (launch.read(&x)?, launch.write(&out)?);
    launch.number(lines.count)?.number(lines.len)?;
    launch.word(from).number(lines.steps[0])?.word(to).number(lines.steps[1])?;
    lines.grid.describe(&mut launch)?;
    lines.launch(plan, request.hardware, launch)
}

impl Softmax {
    pub(super) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let Softmax { dtype, log, grouped, rank } = *self;
        let mut module = Module::new();
        let x = module.elements("x", dtype, false, hardware);
        let y = module.places("y", dtype, hardware);
        let (count, len) = (module.word(), module.word());
        let (from, step, to, to_step) = (module.word(), module.word(), module.word(), module.word());
        let grid = strided::parameters(&mut module, rank, 2);
        // In 16-bit floats and singles the exponential is the processor's, to the bit.
        let ty = x.value();
        let (exp, log_of, least) = match dtype {
            DType::F64 => ("exp_double", "log_double", "-1.7976931348623157e308lf"),
            _ => ("quick_exp", "log_of", "-3.4028235e38"),
        };
        // A line that has one thread has nothing to put together.
        let mut together = grouped.then(|| Together::new(&mut module, ty, Parts::Whole, 1, hardware));
        let mut reduce = |value: &str, merge: &str| {
            together.as_mut().map_or(String::new(), |together| together.reduce(&[value], merge))
        };
        let (own, first, every) = lines::own(grouped);
        let load = x.load(&format!("at + i * {step}"));
        let (rest, result) = match log {
            // The largest is taken off first: beside it, the logarithm would lose its digits.
            true => (format!("let shift = {log_of}(total);"), format!("({load} - largest) - shift")),
            false => {
                let factor = match dtype {
                    DType::F64 => "divide_double(1.0lf, total)",
                    _ => "1.0 / total",
                };
                (format!("let factor = {factor};"), format!("{exp}({load} - largest) * factor"))
            }
        };
        module.add(&library::called(&format!("{exp}() {rest}"), hardware));
        let each = format!("for (var i = {first}; i < {len}; i += {every}u)");
        let body = format!(
            "let row = {own};
            if row >= {count} {{ return; }}
            var at = {from};
            var place_of = {to};
            {}
            // NaN is larger than nothing, but reaches every element by way of the sum.
            var largest = {least};
            {each} {{ let v = {load}; largest = select(largest, v, v > largest); }}
            {}
            var total = {ty}(0.0);
            {each} {{ total += {exp}({load} - largest); }}
            {}
            {rest}
            {each} {{
                let v = {result};
                {}
            }}",
            grid.positions("row", &["at", "place_of"]),
            reduce("largest", "select(a, b, b > a)"),
            reduce("total", "a + b"),
            y.store_one(&format!("place_of + i * {to_step}"), "v"),
        );
        module.finish([WORKGROUP, 1, 1], &body)
    }
}
