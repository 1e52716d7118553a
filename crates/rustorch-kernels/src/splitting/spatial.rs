//! Split axes of convolution, pooling, interpolation and channel normalisation: batch, channels and, except for sums over all
//! positions, spatial dimensions with their halos.

use super::axes::{SplitPlan, beside, one, operands};
use super::extent::alignment;
use super::halo::{Halo, Reach, Taps};
use super::{Axis, Extent, Move};
use crate::library::taps;
use crate::plan::Request;
use rustorch_core::{ConvParams, DType, Interpolate, Op, PoolWindow};

/// An axis of so many units; of the operands, those behind the arguments are results.
fn axis(operands: &[Extent], args: usize, len: usize, moves: &[Option<Move>]) -> Axis {
    let each = |(x, moves): (&Extent, &Option<Move>)| match moves {
        Some(Move::Each(dim, unit)) => alignment(x, *dim, *unit),
        _ => 1,
    };
    let alignment = operands[args..].iter().zip(&moves[args..]).map(each).max().unwrap_or(1);
    Axis { len: len.max(1), moves: moves.iter().cloned().collect(), alignment, within: None }
}

fn each(dim: usize, unit: usize) -> Option<Move> {
    Some(Move::Each(dim, unit))
}

/// Which axis of a convolution is that of groups.
fn groups_axis(op: &Op) -> usize {
    if matches!(op, Op::ConvBackwardWeight(_)) { 0 } else { 1 }
}

/// Images; groups; channels of a group; positions. A gradient of weights, which is a sum over images and positions, has
/// groups and the channels of both sides; images are its family's.
pub(crate) fn conv(request: &Request<'_>, params: &ConvParams) -> SplitPlan {
    let weight = match request.op {
        Op::ConvBackwardWeight(_) => request.outs[0].dims(),
        _ => request.args[1].dims(),
    };
    let (groups, inputs) = (params.groups, weight[1]);
    let outputs = weight[0] / groups;
    let args = request.args.len();
    let operands = operands(request);
    // In the order of operands: two, the bias if there is one, the result.
    let axis = |len, [first, second, bias, out]: [Option<Move>; 4]| {
        let moves = [first, second].into_iter().chain((args == 3).then_some(bias)).chain([out]);
        axis(&operands, args, len, &moves.collect::<Vec<_>>())
    };
    let mut axes = match request.op {
        Op::Conv(_) => vec![
            axis(request.outs[0].dims()[0], [one(0), None, None, one(0)]),
            axis(groups, [each(1, inputs), each(0, outputs), each(0, outputs), each(1, outputs)]),
            axis(outputs, [None, one(0), one(0), one(1)]),
        ],
        Op::ConvBackwardData(_) => vec![
            axis(request.outs[0].dims()[0], [one(0), None, None, one(0)]),
            axis(groups, [each(1, outputs), each(0, outputs), each(0, inputs), each(1, inputs)]),
            axis(inputs, [None, one(1), one(0), one(1)]),
        ],
        _ => vec![
            axis(groups, [each(1, inputs), each(1, outputs), None, each(0, outputs)]),
            axis(outputs, [None, one(1), None, one(0)]),
            axis(inputs, [one(1), None, None, one(1)]),
        ],
    };
    let by_groups = groups_axis(request.op);
    axes[by_groups + 1..].iter_mut().for_each(|axis| axis.within = Some(by_groups));
    for i in 0..params.spatial() {
        let (stride, before) = (params.stride[i], params.padding[i].0);
        let span = (weight[i + 2] - 1) * params.dilation[i] + 1;
        let reach = match request.op {
            Op::Conv(_) => Reach::Window { stride, before, span },
            Op::ConvBackwardData(_) => Reach::Windows { stride, before, span },
            _ => break,
        };
        let halo = Halo { size: request.args[0].dims()[i + 2], reach };
        let around = Some(Move::Around(i + 2, halo));
        axes.push(axis(request.outs[0].dims()[i + 2], [around, None, None, one(i + 2)]));
    }
    SplitPlan { operands, axes, chooses: false }
}

/// By given statistics every dimension; else channels, or samples and groups.
pub(crate) fn channel_norm(request: &Request<'_>) -> SplitPlan {
    let args = request.args.len();
    let lists = |unit: usize| (1..args).map(move |_| each(0, unit));
    match request.op {
        Op::BatchNorm(norm) if norm.training => {
            let operands = operands(request);
            let moves: Vec<_> =
                [one(1)].into_iter().chain(lists(1)).chain([one(1), one(0), one(0)]).collect();
            let axes = vec![axis(&operands, args, request.args[0].dims()[1], &moves)];
            SplitPlan { operands, axes, chooses: false }
        }
        Op::GroupNorm(norm) => {
            let operands = operands(request);
            let (samples, channels) = (request.args[0].dims()[0], request.args[0].dims()[1]);
            let unit = channels / norm.groups;
            let by_sample: Vec<_> =
                [one(0)].into_iter().chain(lists(1).map(|_| None)).chain([one(0)]).collect();
            let by_group: Vec<_> =
                [each(1, unit)].into_iter().chain(lists(unit)).chain([each(1, unit)]).collect();
            let axes = vec![
                axis(&operands, args, samples, &by_sample),
                axis(&operands, args, norm.groups, &by_group),
            ];
            SplitPlan { operands, axes, chooses: false }
        }
        _ => beside(request, |d| {
            Some([one(d)].into_iter().chain(lists(1).map(|list| list.filter(|_| d == 1))).collect())
        }),
    }
}

/// What is not spatial; and positions along the last `spatial` dimensions, where `reach` tells what each needs.
pub(crate) fn planes(
    request: &Request<'_>,
    spatial: usize,
    reach: impl Fn(usize) -> Option<Reach>,
) -> SplitPlan {
    let x = request.args[0].dims();
    let outer = x.len() - spatial;
    beside(request, |d| {
        let Some(i) = d.checked_sub(outer) else {
            // Indices have the planes of gradients.
            return Some(request.args.iter().map(|_| one(d)).collect());
        };
        let halo = Halo { size: x[d], reach: reach(i)? };
        Some([Some(Move::Around(d, halo))].into_iter().collect())
    })
}

/// The elements that a window meets along spatial dimension `i`, by a dilation: stride, padding before, span.
fn sliding(window: &PoolWindow, i: usize, dilation: usize) -> (usize, usize, usize) {
    (window.stride[i], window.padding[i], (window.kernel[i] - 1) * dilation + 1)
}

/// What an output of a sliding window needs.
pub(crate) fn window(window: &PoolWindow, i: usize, dilation: usize) -> Reach {
    let (stride, before, span) = sliding(window, i, dilation);
    Reach::Window { stride, before, span }
}

/// The windows that an input lies in.
pub(crate) fn windows(window: &PoolWindow, i: usize) -> Reach {
    let (stride, before, span) = sliding(window, i, 1);
    Reach::Windows { stride, before, span }
}

/// The taps of an interpolation from `inputs` to `outputs` elements along spatial dimension `i`.
pub(crate) fn taps_of(op: &Interpolate, i: usize, inputs: usize, outputs: usize, dtype: DType) -> Taps {
    Taps { op: op.clone(), scale: taps::scale(op, op.factors[i], inputs, outputs, dtype), inputs, dtype }
}

/// A convolution of as many groups as a chunk has.
pub(crate) fn narrowed(params: &ConvParams, groups: usize) -> ConvParams {
    ConvParams { groups, ..params.clone() }
}
