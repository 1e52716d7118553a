//! Pooling and interpolation over planes: the trailing one to three dimensions, seen as depth, height and width.

mod interpolate;
mod interpolate_backward;
mod max;
mod mean;
mod planes;
mod scatter;
pub(crate) mod taps;

pub use interpolate::Interpolate;
pub use max::Max;
pub use mean::Mean;
pub use scatter::Scatter;

use crate::Hardware;
use crate::plan::{Plan, Request, StepBuilder};
use crate::table::{Row, row, sets};
use crate::wgsl::{Module, Word};
use planes::three;
use rustorch_core::{AvgPool, DType, Decline, Op, OpType, PoolWindow, TensorMeta};

/// The rows of the table.
pub const ROWS: &[Row] = &[
    row(OpType::Pooling, &["max_pool", "adaptive_max_pool"], sets::COUNTABLE).check(check),
    row(
        OpType::Pooling,
        &["avg_pool", "adaptive_avg_pool", "avg_pool_backward", "adaptive_avg_pool_backward"],
        sets::FLOAT,
    )
    .check(check),
    row(OpType::Pooling, &["max_pool_backward"], sets::FLOAT)
        .beside(&[DType::I64])
        .check(check)
        .remark("planes of 16-bit floats have an even number of elements"),
    row(OpType::Pooling, &["interpolate", "interpolate_backward"], sets::FLOAT).check(check),
];

fn check(op: &Op, args: &[TensorMeta<'_>], _: &Hardware) -> Result<(), Decline> {
    // There is no memory to show to a kernel.
    if args.iter().any(|x| x.layout.elements() == 0) {
        return Err(Decline::Layout("an operand is empty"));
    }
    match op {
        Op::MaxPoolBackward { spatial } => scatter::supports(args[0].dtype, spatial),
        _ => Ok(()),
    }
}

/// Adds the launch.
pub fn plan(plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
    if request.out(0).layout.elements() == 0 {
        return Ok(());
    }
    match request.op {
        Op::MaxPool(pool) => {
            let windows = Windows { dilation: three(&pool.dilation, 1), ..Windows::sliding(&pool.window) };
            max::plan(plan, request, pool.dilation.len(), &windows)
        }
        Op::AdaptiveMaxPool(pool) => max::plan(plan, request, pool.size.len(), &Windows::ADAPTIVE),
        Op::AvgPool(pool) => {
            mean::plan(plan, request, pool.window.kernel.len(), &Windows::average(pool), false)
        }
        Op::AdaptiveAvgPool(pool) => mean::plan(plan, request, pool.size.len(), &Windows::ADAPTIVE, false),
        Op::AvgPoolBackward { pool, spatial } => {
            mean::plan(plan, request, spatial.len(), &Windows::average(pool), true)
        }
        Op::AdaptiveAvgPoolBackward { spatial } => {
            mean::plan(plan, request, spatial.len(), &Windows::ADAPTIVE, true)
        }
        Op::MaxPoolBackward { spatial } => scatter::plan(plan, request, spatial),
        Op::Interpolate(interpolate) => interpolate::plan(plan, request, interpolate, false),
        Op::InterpolateBackward { interpolate, .. } => interpolate::plan(plan, request, interpolate, true),
        op => Err(Decline::Op(op.name())),
    }
}

/// The windows of a pooling.
struct Windows {
    /// Whether they are as many as asked for, of whatever size, and nothing below counts.
    adaptive: bool,
    kernel: [usize; 3],
    stride: [usize; 3],
    padding: [usize; 3],
    dilation: [usize; 3],
    count_include_pad: bool,
    divisor: Option<usize>,
}

impl Windows {
    const ADAPTIVE: Windows = Windows {
        adaptive: true,
        kernel: [1; 3],
        stride: [1; 3],
        padding: [0; 3],
        dilation: [1; 3],
        count_include_pad: false,
        divisor: None,
    };

    fn sliding(window: &PoolWindow) -> Windows {
        Windows {
            adaptive: false,
            kernel: three(&window.kernel, 1),
            stride: three(&window.stride, 1),
            padding: three(&window.padding, 0),
            ..Windows::ADAPTIVE
        }
    }

    fn average(pool: &AvgPool) -> Windows {
        Windows {
            count_include_pad: pool.count_include_pad,
            divisor: pool.divisor,
            ..Windows::sliding(&pool.window)
        }
    }

    /// Gives the numbers that [`WindowWords::declare`] takes, for planes of these lengths.
    fn describe(
        &self,
        step: &mut StepBuilder<'_>,
        input: [usize; 3],
        output: [usize; 3],
    ) -> Result<(), Decline> {
        for axis in 0..3 {
            // Positions before the first wrap around to numbers that must stay out of reach, and so must products.
            let last = self.stride[axis].checked_mul(output[axis]);
            let span = self.kernel[axis].checked_mul(self.dilation[axis]);
            let reach = last
                .zip(span)
                .and_then(|(last, span)| last.checked_add(span)?.checked_add(2 * self.padding[axis]))
                .and_then(|n| n.checked_add(input[axis]));
            let product = (input[axis] + 1).checked_mul(output[axis] + 1);
            if reach.max(product).is_none_or(|n| n > i32::MAX as usize) || reach.is_none() {
                return Err(Decline::Attr("positions beyond 2³¹"));
            }
        }
        for list in [self.kernel, self.stride, self.padding, self.dilation] {
            for number in list {
                step.number(number)?;
            }
        }
        step.word(u32::from(self.count_include_pad)).number(self.divisor.unwrap_or(0))?;
        Ok(())
    }
}

/// The parameters of windows.
struct WindowWords {
    kernel: Vec<Word>,
    stride: Vec<Word>,
    padding: Vec<Word>,
    dilation: Vec<Word>,
    include: Word,
    divisor: Word,
}

impl WindowWords {
    fn declare(module: &mut Module) -> WindowWords {
        let [kernel, stride, padding, dilation] = std::array::from_fn(|_| module.take(3));
        WindowWords { kernel, stride, padding, dilation, include: module.word(), divisor: module.word() }
    }
}
