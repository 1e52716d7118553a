//! Pooling and interpolation over planes: the trailing one to three dimensions, seen as depth, height and width.

mod interpolate;
mod interpolate_backward;
mod max;
mod mean;
mod planes;
mod scatter;

pub use interpolate::Interpolate;
pub use max::Max;
pub use mean::Mean;
pub use scatter::Scatter;

use crate::Hardware;
use crate::family::{Kernels, Plan};
use crate::library::strided::three;
use crate::plan::Request;
use crate::plan::parameters::parameters;
use crate::splitting::{SplitPlan, halo::Reach, spatial};
use crate::table::{Row, row, sets};
use rustorch_core::{
    AdaptiveAvgPool, AdaptiveAvgPoolBackward, AdaptiveMaxPool, AvgPool, AvgPoolBackward, DType, Decline,
    Interpolate as Interpolation, InterpolateBackward, MaxPool as MaxPoolOp, MaxPoolBackward, Op, OpKind,
    OpType, PoolWindow, TensorMeta,
};

/// Supported operations and their dtypes.
pub const ROWS: &[Row] = &[
    row(OpType::Pooling, &[OpKind::MaxPool, OpKind::AdaptiveMaxPool], sets::COUNTABLE).check(check),
    row(
        OpType::Pooling,
        &[OpKind::AvgPool, OpKind::AdaptiveAvgPool, OpKind::AvgPoolBackward, OpKind::AdaptiveAvgPoolBackward],
        sets::FLOAT,
    )
    .check(check),
    row(OpType::Pooling, &[OpKind::MaxPoolBackward], sets::FLOAT)
        .beside(&[DType::I64])
        .check(check)
        .remark("planes of 16-bit floats have an even number of elements"),
    row(OpType::Pooling, &[OpKind::Interpolate, OpKind::InterpolateBackward], sets::FLOAT).check(check),
];

/// Why long dimensions are declined.
const BEYOND: Decline = Decline::Attr("positions beyond 2³¹");

fn check(op: &Op, args: &[TensorMeta<'_>], _: &Hardware) -> Result<(), Decline> {
    // There is no memory to show to a kernel.
    if args.iter().any(|x| x.layout.numel() == 0) {
        return Err(Decline::Layout("an operand is empty"));
    }
    if let Op::MaxPoolBackward(MaxPoolBackward { spatial }) = op {
        return scatter::supports(args[0].dtype, spatial);
    }
    let outs = op.infer(args).map_err(|_| Decline::Attr("arguments that do not fit the operation"))?;
    let planes = |n| [args[0].dims(), outs[0].shape.dims()].map(|dims| three(&dims[dims.len() - n..], 1));
    let Some((windows, n)) = Windows::of(op) else {
        let size = match op {
            Op::Interpolate(interpolate) => &interpolate.size,
            Op::InterpolateBackward(backward) => &backward.interpolate.size,
            _ => return Ok(()),
        };
        // Places are whole numbers with a sign.
        return match planes(size.len()).as_flattened().iter().all(|&len| len <= i32::MAX as usize) {
            true => Ok(()),
            false => Err(BEYOND),
        };
    };
    let [source, target] = planes(n);
    match op {
        Op::AvgPoolBackward(_) | Op::AdaptiveAvgPoolBackward(_) => windows.reach(target, source),
        Op::MaxPool(_) | Op::AdaptiveMaxPool(_) if source.iter().product::<usize>() > max::MOST => {
            Err(Decline::Layout("a plane of more than 2³² elements"))
        }
        _ => windows.reach(source, target),
    }
}

impl Kernels for MaxPoolOp {
    fn plan(&self, plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
        self::plan(plan, request)
    }

    fn split(&self, request: &Request<'_>) -> Result<Option<SplitPlan>, Decline> {
        Ok(Some(spatial::planes(request, self.dilation.len(), |i| {
            Some(spatial::window(&self.window, i, self.dilation[i]))
        })))
    }
}

impl Kernels for AvgPool {
    fn plan(&self, plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
        self::plan(plan, request)
    }

    fn split(&self, request: &Request<'_>) -> Result<Option<SplitPlan>, Decline> {
        Ok(Some(spatial::planes(request, self.window.kernel.len(), |i| {
            Some(spatial::window(&self.window, i, 1))
        })))
    }
}

impl Kernels for AdaptiveMaxPool {
    fn plan(&self, plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
        self::plan(plan, request)
    }

    fn split(&self, request: &Request<'_>) -> Result<Option<SplitPlan>, Decline> {
        Ok(Some(spatial::planes(request, self.size.len(), |i| Some(Reach::Share { len: self.size[i] }))))
    }
}

impl Kernels for AdaptiveAvgPool {
    fn plan(&self, plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
        self::plan(plan, request)
    }

    fn split(&self, request: &Request<'_>) -> Result<Option<SplitPlan>, Decline> {
        Ok(Some(spatial::planes(request, self.size.len(), |i| Some(Reach::Share { len: self.size[i] }))))
    }
}

impl Kernels for MaxPoolBackward {
    fn plan(&self, plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
        self::plan(plan, request)
    }

    fn split(&self, request: &Request<'_>) -> Result<Option<SplitPlan>, Decline> {
        Ok(Some(spatial::planes(request, self.spatial.len(), |_| None)))
    }
}

impl Kernels for AvgPoolBackward {
    fn plan(&self, plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
        self::plan(plan, request)
    }

    fn split(&self, request: &Request<'_>) -> Result<Option<SplitPlan>, Decline> {
        Ok(Some(spatial::planes(request, self.spatial.len(), |i| {
            Some(spatial::windows(&self.pool.window, i))
        })))
    }
}

impl Kernels for AdaptiveAvgPoolBackward {
    fn plan(&self, plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
        self::plan(plan, request)
    }

    fn split(&self, request: &Request<'_>) -> Result<Option<SplitPlan>, Decline> {
        Ok(Some(spatial::planes(request, self.spatial.len(), |i| {
            Some(Reach::Share { len: self.spatial[i] })
        })))
    }
}

impl Kernels for Interpolation {
    fn plan(&self, plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
        self::plan(plan, request)
    }

    fn split(&self, request: &Request<'_>) -> Result<Option<SplitPlan>, Decline> {
        let x = &request.args[0];
        let outer = x.dims().len() - self.size.len();
        let taps = |i| spatial::taps_of(self, i, x.dims()[outer + i], self.size[i], x.dtype);
        Ok(Some(spatial::planes(request, self.size.len(), |i| Some(Reach::Taps(taps(i))))))
    }
}

impl Kernels for InterpolateBackward {
    fn plan(&self, plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
        self::plan(plan, request)
    }

    fn split(&self, request: &Request<'_>) -> Result<Option<SplitPlan>, Decline> {
        let (op, grad) = (&self.interpolate, &request.args[0]);
        let outer = grad.dims().len() - self.spatial.len();
        let taps = |i| spatial::taps_of(op, i, self.spatial[i], grad.dims()[outer + i], grad.dtype);
        Ok(Some(spatial::planes(request, self.spatial.len(), |i| Some(Reach::TapOf(taps(i))))))
    }
}

/// Plans the launch.
pub fn plan(plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
    if request.out(0).layout.numel() == 0 {
        return Ok(());
    }
    if let Some((windows, n)) = Windows::of(request.op) {
        return match request.op {
            Op::MaxPool(_) | Op::AdaptiveMaxPool(_) => max::plan(plan, request, n, &windows),
            Op::AvgPool(_) | Op::AdaptiveAvgPool(_) => mean::plan(plan, request, n, &windows, false),
            _ => mean::plan(plan, request, n, &windows, true),
        };
    }
    match request.op {
        Op::MaxPoolBackward(MaxPoolBackward { spatial }) => scatter::plan(plan, request, spatial),
        Op::Interpolate(interpolate) => interpolate::plan(plan, request, interpolate, false),
        Op::InterpolateBackward(op) => interpolate::plan(plan, request, &op.interpolate, true),
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

    /// Those of an operation that has windows, and over how many dimensions they go.
    fn of(op: &Op) -> Option<(Windows, usize)> {
        Some(match op {
            Op::MaxPool(pool) => {
                let dilation = three(&pool.dilation, 1);
                (Windows { dilation, ..Windows::sliding(&pool.window) }, pool.dilation.len())
            }
            Op::AvgPool(pool) => (Windows::average(pool), pool.window.kernel.len()),
            Op::AvgPoolBackward(op) => (Windows::average(&op.pool), op.spatial.len()),
            Op::AdaptiveMaxPool(pool) => (Windows::ADAPTIVE, pool.size.len()),
            Op::AdaptiveAvgPool(pool) => (Windows::ADAPTIVE, pool.size.len()),
            Op::AdaptiveAvgPoolBackward(AdaptiveAvgPoolBackward { spatial }) => {
                (Windows::ADAPTIVE, spatial.len())
            }
            _ => return None,
        })
    }

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

    /// Whether kernels count as far as the windows of planes of these lengths reach.
    fn reach(&self, input: [usize; 3], output: [usize; 3]) -> Result<(), Decline> {
        for axis in 0..3 {
            let last = match self.adaptive {
                // Where windows begin and end is found by products of lengths.
                true => (input[axis] + 1).checked_mul(output[axis] + 1),
                // Positions before the first wrap around to numbers that must stay out of reach.
                false => self.stride[axis]
                    .checked_mul(output[axis])
                    .zip(self.kernel[axis].checked_mul(self.dilation[axis]))
                    .and_then(|(last, span)| last.checked_add(span)?.checked_add(2 * self.padding[axis]))
                    .and_then(|n| n.checked_add(input[axis])),
            };
            if last.is_none_or(|n| n > i32::MAX as usize) {
                return Err(BEYOND);
            }
        }
        Ok(())
    }

    /// Parameters of them.
    fn params(&self) -> WindowParams {
        WindowParams {
            kernel: self.kernel,
            stride: self.stride,
            padding: self.padding,
            dilation: self.dilation,
            include: self.count_include_pad.into(),
            divisor: self.divisor.unwrap_or(0),
        }
    }
}

parameters! {
    /// Parameters of windows.
    struct WindowParams() {
        kernel: [usize; 3],
        stride: [usize; 3],
        padding: [usize; 3],
        dilation: [usize; 3],
        /// Whether padding counts.
        include: u32,
        /// 0 for the number of elements.
        divisor: usize,
    }
}
