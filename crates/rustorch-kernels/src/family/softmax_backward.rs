//! The gradients of softmax and log-softmax along an axis, from that of the result and the result.

use super::lines::{self, Lines};
use crate::Hardware;
use crate::family::{Kernels, Plan, StepBuilder};
use crate::library::strided::{Grid, MAX_RANK};
use crate::library::{self, Parts, WorkgroupReduce};
use crate::plan::Request;
use crate::plan::parameters::parameters;
use crate::splitting::{SplitPlan, axes, axes::one};
use crate::table::{Row, row, sets};
use crate::wgsl::{Module, WORKGROUP, Wgsl};
use rustorch_core::{
    DType, Decline, Op, OpKind, OpType, SoftmaxBackward as SoftmaxBackwardOp, SoftmaxBackwardKind, TensorMeta,
};

/// Kernel key: everything its source depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SoftmaxBackward {
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
        grad_start: u32,
        grad_stride: usize,
        y_start: u32,
        y_stride: usize,
        out_start: u32,
        out_stride: usize,
        grid: Grid = (rank, 3),
    }
}

/// Supported operations and their dtypes.
pub const ROWS: &[Row] = &[
    row(OpType::Activation, &[OpKind::SoftmaxBackward(SoftmaxBackwardKind::Softmax)], sets::FLOAT)
        .check(check),
    row(OpType::Activation, &[OpKind::SoftmaxBackward(SoftmaxBackwardKind::LogSoftmax)], sets::SMOOTH)
        .check(check),
];

/// The lines of two arguments may have more dimensions together than those of each.
fn check(op: &Op, args: &[TensorMeta<'_>], _: &Hardware) -> Result<(), Decline> {
    let Op::SoftmaxBackward(softmax) = op else { return Err(Decline::Op(op.name())) };
    let rank = Lines::new(&[args[0].layout, args[1].layout], softmax.axis)?.grid.ndim();
    match rank > MAX_RANK {
        true => Err(Decline::Rank { ndim: rank, limit: MAX_RANK }),
        false => Ok(()),
    }
}

impl Kernels for SoftmaxBackwardOp {
    fn plan(&self, plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
        let [grad, y, out] = [request.arg(0), request.arg(1), request.out(0)];
        let lines = Lines::new(&[grad.layout, y.layout, out.layout], self.axis)?;
        let kernel = SoftmaxBackward {
            dtype: y.dtype,
            log: self.log,
            grouped: lines.grouped,
            rank: lines.grid.ndim(),
        };
        let mut launch = StepBuilder::new(request.hardware, kernel);
        let (grad_start, y_start, out_start) = (launch.read(&grad)?, launch.read(&y)?, launch.write(&out)?);
        let groups = lines.groups(request.hardware)?;
        launch.parameters(&Params {
            count: lines.count,
            len: lines.len,
            grad_start,
            grad_stride: lines.steps[0],
            y_start,
            y_stride: lines.steps[1],
            out_start,
            out_stride: lines.steps[2],
            grid: lines.grid,
        })?;
        plan.step(launch, groups);
        Ok(())
    }

    fn split(&self, request: &Request<'_>) -> Result<Option<SplitPlan>, Decline> {
        let both = |d| [one(d), one(d)].into_iter().collect();
        Ok(Some(axes::beside(request, |d| (d != self.axis).then(|| both(d)))))
    }
}

impl SoftmaxBackward {
    pub(super) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let SoftmaxBackward { dtype, log, grouped, rank } = *self;
        let mut module = Module::new();
        let grad = module.elements("grad", dtype, false, hardware);
        let y = module.elements("y", dtype, false, hardware);
        let out = module.places("out", dtype, hardware);
        let Params { count, len, grad_start, grad_stride, y_start, y_stride, out_start, out_stride, grid } =
            module.parameters::<Params>(rank);
        let ty = y.value();
        // A line that has one thread has nothing to put together.
        let reduce = match grouped {
            true => {
                let mut together = WorkgroupReduce::new(&mut module, ty, Parts::Whole, 1, hardware);
                together.reduce(&["total"], "a + b")
            }
            false => String::new(),
        };
        let (own, first, every) = lines::own(grouped);
        let of_grad = grad.load(&format!("grad_at + i * {grad_stride}"));
        let of_y = y.load(&format!("y_at + i * {y_stride}"));
        let (term, result) = match (log, dtype) {
            (true, DType::F64) => (of_grad.clone(), format!("{of_grad} - exp_double({of_y}) * total")),
            // The exponential is the CPU's, to the bit.
            (true, _) => (of_grad.clone(), format!("{of_grad} - quick_exp({of_y}) * total")),
            (false, _) => (format!("{of_grad} * {of_y}"), format!("({of_grad} - total) * {of_y}")),
        };
        module.add(&library::called(&result, hardware));
        let each = format!("for (var i = {first}; i < {len}; i += {every}u)");
        let body = format!(
            "let row = {own};
            if row >= {count} {{ return; }}
            var grad_at = {grad_start};
            var y_at = {y_start};
            var place_of = {out_start};
            {}
            var total = {ty}(0.0);
            {each} {{ total += {term}; }}
            {reduce}
            {each} {{
                let v = {result};
                {}
            }}",
            grid.positions("row", &["grad_at", "y_at", "place_of"]),
            out.store_one(&format!("place_of + i * {out_stride}"), "v"),
        );
        module.finish([WORKGROUP, 1, 1], &body)
    }
}
