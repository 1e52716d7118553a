//! Softmax and log-softmax along an axis.

use super::lines::{self, Lines};
use crate::Hardware;
use crate::family::{Kernels, Plan, StepBuilder};
use crate::library::strided::Grid;
use crate::library::{self, Parts, WorkgroupReduce};
use crate::plan::Request;
use crate::plan::parameters::parameters;
use crate::splitting::{SplitPlan, axes};
use crate::table::{Row, row, sets};
use crate::wgsl::{Module, WORKGROUP, Wgsl};
use rustorch_core::{DType, Decline, OpKind, OpType, Softmax as SoftmaxOp, SoftmaxKind};

/// Kernel key: everything its source depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Softmax {
    dtype: DType,
    log: bool,
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
pub const ROWS: &[Row] = &[row(
    OpType::Activation,
    &[OpKind::Softmax(SoftmaxKind::Softmax), OpKind::Softmax(SoftmaxKind::LogSoftmax)],
    sets::SMOOTH,
)];

impl Kernels for SoftmaxOp {
    fn plan(&self, plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
        self::plan(plan, request, self)
    }

    fn split(&self, request: &Request<'_>) -> Result<Option<SplitPlan>, Decline> {
        Ok(Some(axes::dimensions(request, |d| d != self.axis)))
    }
}

/// Plans the launch.
pub fn plan(plan: &mut Plan, request: &Request<'_>, softmax: &SoftmaxOp) -> Result<(), Decline> {
    let (x, out) = (request.arg(0), request.out(0));
    let lines = Lines::new(&[x.layout, out.layout], softmax.axis)?;
    let kernel =
        Softmax { dtype: x.dtype, log: softmax.log, grouped: lines.grouped, rank: lines.grid.ndim() };
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

impl Softmax {
    pub(super) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let Softmax { dtype, log, grouped, rank } = *self;
        let mut module = Module::new();
        let x = module.elements("x", dtype, false, hardware);
        let y = module.places("y", dtype, hardware);
        let Params { count, len, x_start, x_stride, y_start, y_stride, grid } =
            module.parameters::<Params>(rank);
        // In 16-bit floats and singles the exponential is the CPU's, to the bit.
        let ty = x.value();
        let (exp, log_of, least) = match dtype {
            DType::F64 => ("exp_double", "log_double", "-1.7976931348623157e308lf"),
            _ => ("quick_exp", "log_of", "-3.4028235e38"),
        };
        // A line that has one thread has nothing to put together.
        let mut together = grouped.then(|| WorkgroupReduce::new(&mut module, ty, Parts::Whole, 1, hardware));
        let mut reduce = |value: &str, merge: &str| {
            together.as_mut().map_or(String::new(), |together| together.reduce(&[value], merge))
        };
        let (own, first, every) = lines::own(grouped);
        let load = x.load(&format!("at + i * {x_stride}"));
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
            var at = {x_start};
            var place_of = {y_start};
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
            y.store_one(&format!("place_of + i * {y_stride}"), "v"),
        );
        module.finish([WORKGROUP, 1, 1], &body)
    }
}
