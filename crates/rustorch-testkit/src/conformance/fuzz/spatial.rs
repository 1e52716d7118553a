//! Random cases of pooling and interpolation.

use super::super::Case;
use super::super::cases::FLOATS;
use super::super::spatial::outputs;
use super::draw::{Draw, Numbers, Special};
use super::pointwise::any;
use rustorch_core::{
    AdaptiveAvgPool, AdaptiveAvgPoolBackward, AdaptiveMaxPool, AvgPool, AvgPoolBackward, DType, Dims,
    Interpolate, InterpolateBackward, InterpolateMode, MaxPool, MaxPoolBackward, Op, PoolWindow,
};

/// Leading and spatial dimensions; none of the latter is empty.
fn image(draw: &mut Draw) -> (Vec<usize>, Vec<usize>) {
    let n = 1 + draw.kind.below(3);
    let spatial: Vec<usize> = (0..n).map(|_| draw.some([400, 40, 12][n - 1])).collect();
    let ndim = draw.ndim(0, 3);
    let lead = draw.dims(ndim, 1 + 4000 / spatial.iter().product::<usize>().max(1));
    (lead, spatial)
}

fn window(draw: &mut Draw, n: usize) -> PoolWindow {
    let fine = &mut draw.fine;
    let kernel: Dims = (0..n).map(|_| 1 + fine.below(4)).collect();
    PoolWindow {
        padding: kernel.iter().map(|&len| fine.below(len / 2 + 1)).collect(),
        stride: (0..n).map(|_| 1 + fine.below(4)).collect(),
        ceil_mode: fine.chance(50),
        kernel,
    }
}

fn size(draw: &mut Draw, n: usize) -> Dims {
    (0..n).map(|_| draw.some([300, 30, 10][n - 1])).collect()
}

pub(super) fn max_pool(draw: &mut Draw) -> Option<Case> {
    let dtype = draw.dtype(DType::DENSE);
    let (lead, spatial) = image(draw);
    let n = spatial.len();
    let dims = [&lead[..], &spatial].concat();
    let numbers = if draw.fine.chance(50) { Numbers::GRID.with(Special::Infinite) } else { any(dtype) };
    match draw.kind.below(3) {
        0 => {
            let x = draw.argument(dtype, &dims, numbers);
            let dilation = (0..n).map(|_| draw.fine.pick(&[1, 1, 2, 3])).collect();
            let pool = MaxPool { window: window(draw, n), dilation };
            draw.case(Op::from(pool), vec![x])
        }
        1 => {
            let x = draw.argument(dtype, &dims, numbers);
            let size = size(draw, n);
            draw.case(Op::AdaptiveMaxPool(AdaptiveMaxPool { size }), vec![x])
        }
        _ => {
            // Sums of whatever meets at an index.
            let pooled = [&lead[..], &size(draw, n)].concat();
            let grad = draw.argument(dtype, &pooled, Numbers::GRID);
            let plane: usize = spatial.iter().product();
            let ids = draw.argument(DType::I64, &pooled, Numbers::within(-1.0, plane as f64 - 0.01));
            draw.case(
                Op::MaxPoolBackward(MaxPoolBackward { spatial: Dims::from_slice(&spatial) }),
                vec![grad, ids],
            )
        }
    }
}

pub(super) fn mean_pool(draw: &mut Draw) -> Option<Case> {
    let dtype = draw.dtype(FLOATS);
    let (lead, spatial) = image(draw);
    let n = spatial.len();
    let numbers = Numbers::within(-1.0, 1.0).with(Special::Infinite);
    let own = Dims::from_slice(&spatial);
    let back = draw.kind.chance(50);
    if draw.kind.chance(50) {
        let size = size(draw, n);
        let dims = [&lead[..], if back { &size } else { &spatial }].concat();
        let x = draw.argument(dtype, &dims, numbers);
        let op = match back {
            true => Op::AdaptiveAvgPoolBackward(AdaptiveAvgPoolBackward { spatial: own }),
            false => Op::AdaptiveAvgPool(AdaptiveAvgPool { size }),
        };
        return draw.case(op, vec![x]);
    }
    let divisor = draw.fine.chance(30).then(|| 1 + draw.fine.below(9));
    let pool = AvgPool { window: window(draw, n), count_include_pad: draw.fine.chance(50), divisor };
    let outs: Vec<usize> = (0..n)
        .map(|i| {
            let PoolWindow { kernel, stride, padding, ceil_mode } = &pool.window;
            outputs(spatial[i], kernel[i], stride[i], padding[i], *ceil_mode)
        })
        .collect();
    let dims = [&lead[..], if back { &outs } else { &spatial }].concat();
    let x = draw.argument(dtype, &dims, numbers);
    let op = if back { Op::from(AvgPoolBackward { pool, spatial: own }) } else { Op::from(pool) };
    draw.case(op, vec![x])
}

pub(super) fn interpolate(draw: &mut Draw) -> Option<Case> {
    let dtype = draw.dtype(FLOATS);
    let (lead, spatial) = image(draw);
    let n = spatial.len();
    let mode = draw.kind.pick(&[
        InterpolateMode::Nearest,
        InterpolateMode::NearestExact,
        InterpolateMode::Linear,
        InterpolateMode::Cubic,
    ]);
    let size = size(draw, n);
    let factors = (0..n)
        .map(|i| {
            let about = size[i] as f64 / spatial[i] as f64;
            draw.fine.chance(40).then(|| about * draw.fine.between(0.8, 1.2))
        })
        .collect();
    let align_corners = mode.taps() > 1 && draw.fine.chance(50);
    let back = draw.kind.chance(50);
    let dims = [&lead[..], if back { &size } else { &spatial }].concat();
    let interpolate = Interpolate { mode, size, factors, align_corners };
    // Gradients sum what many points send.
    let most = if back { 0.1 } else { 3.0 };
    let x = draw.argument(dtype, &dims, Numbers::within(-most, most));
    let op = match back {
        true => Op::from(InterpolateBackward { interpolate, spatial: Dims::from_slice(&spatial) }),
        false => Op::from(interpolate),
    };
    draw.case(op, vec![x])
}
