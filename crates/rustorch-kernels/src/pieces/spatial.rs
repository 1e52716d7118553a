//! Where convolutions, pooling, interpolation and the normalisation of channels may be cut: by images and channels, and,
//! but for sums over all of them, by positions, with what these need around them.

use super::axes::{Cut, Partners, beside, one, operands};
use super::extent::granule;
use super::halo::{Halo, Reach, Taps};
use super::{Aside, Axis, Extent, Move};
use crate::family::conv;
use crate::family::pooling::taps;
use crate::plan::Request;
use rustorch_core::{
    Conv, ConvBackwardData, ConvBackwardWeight, ConvParams, GroupNorm, Interpolate, Op, PoolWindow,
};
use std::borrow::Cow;

/// An axis of so many units; of the operands, those behind the arguments are results.
fn axis(operands: &[Extent], args: usize, len: usize, moves: &[Option<Move>]) -> Axis {
    let each = |(x, moves): (&Extent, &Option<Move>)| match moves {
        Some(Move::Each(dim, unit)) => granule(x, *dim, *unit),
        _ => 1,
    };
    let granule = operands[args..].iter().zip(&moves[args..]).map(each).max().unwrap_or(1);
    Axis { len: len.max(1), moves: moves.iter().cloned().collect(), granule, within: None }
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
pub(super) fn conv(request: &Request<'_>, params: &ConvParams) -> Cut {
    let weight = match request.op {
        Op::ConvBackwardWeight(_) => request.outs[0].dims(),
        _ => request.args[1].dims(),
    };
    let (groups, inputs) = (params.groups, weight[1]);
    let outputs = weight[0] / groups;
    let args = request.args.len();
    let mut operands = operands(request);
    if conv::at_once(request).is_some() {
        operands[..2].iter_mut().for_each(|x| x.aside = Aside::Lines(Some(usize::MAX)));
    }
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
    Cut { operands, axes, chooses: false }
}

/// By given statistics every dimension; else channels, or samples and groups.
pub(super) fn channel_norm(request: &Request<'_>) -> Cut {
    let args = request.args.len();
    let lists = |unit: usize| (1..args).map(move |_| each(0, unit));
    match request.op {
        Op::BatchNorm(norm) if norm.training => {
            let operands = operands(request);
            let moves: Vec<_> =
                [one(1)].into_iter().chain(lists(1)).chain([one(1), one(0), one(0)]).collect();
            let axes = vec![axis(&operands, args, request.args[0].dims()[1], &moves)];
            Cut { operands, axes, chooses: false }
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
            Cut { operands, axes, chooses: false }
        }
        _ => beside(request, |d| {
            Some([one(d)].into_iter().chain(lists(1).map(|list| list.filter(|_| d == 1))).collect())
        }),
    }
}

/// What is not spatial; and positions, where a result does not depend on indices.
pub(super) fn planes(request: &Request<'_>) -> Option<Cut> {
    let sliding = |window: &PoolWindow, i: usize, dilation: usize| {
        let span = (window.kernel[i] - 1) * dilation + 1;
        (window.stride[i], window.padding[i], span)
    };
    let scaled = |op: &Interpolate, i: usize, inputs: usize, outputs: usize| {
        let dtype = request.args[0].dtype;
        Taps { op: op.clone(), scale: taps::scale(op, op.factors[i], inputs, outputs, dtype), inputs, dtype }
    };
    let spatial = match request.op {
        Op::MaxPool(pool) => pool.dilation.len(),
        Op::AvgPool(pool) => pool.window.kernel.len(),
        Op::AdaptiveMaxPool(pool) | Op::AdaptiveAvgPool(pool) => pool.size.len(),
        Op::Interpolate(op) => op.size.len(),
        Op::MaxPoolBackward { spatial }
        | Op::AvgPoolBackward { spatial, .. }
        | Op::AdaptiveAvgPoolBackward { spatial }
        | Op::InterpolateBackward { spatial, .. } => spatial.len(),
        _ => return None,
    };
    let (x, y) = (request.args[0].dims(), request.outs[0].dims());
    let outer = x.len() - spatial;
    Some(beside(request, |d| {
        let Some(i) = d.checked_sub(outer) else {
            // Indices have the planes of gradients.
            return Some(request.args.iter().map(|_| one(d)).collect());
        };
        let reach = match request.op {
            Op::MaxPool(pool) => {
                let (stride, before, span) = sliding(&pool.window, i, pool.dilation[i]);
                Reach::Window { stride, before, span }
            }
            Op::AvgPool(pool) => {
                let (stride, before, span) = sliding(&pool.window, i, 1);
                Reach::Window { stride, before, span }
            }
            Op::AvgPoolBackward { pool, .. } => {
                let (stride, before, span) = sliding(&pool.window, i, 1);
                Reach::Windows { stride, before, span }
            }
            Op::AdaptiveMaxPool(_) | Op::AdaptiveAvgPool(_) | Op::AdaptiveAvgPoolBackward { .. } => {
                Reach::Share { len: y[d] }
            }
            Op::Interpolate(op) => Reach::Taps(scaled(op, i, x[d], y[d])),
            Op::InterpolateBackward { interpolate, .. } => Reach::TapOf(scaled(interpolate, i, y[d], x[d])),
            _ => return None,
        };
        let partners: Partners = [Some(Move::Around(d, Halo { size: x[d], reach }))].into_iter().collect();
        Some(partners)
    }))
}

/// The operation of a piece that has so many units of the axes.
pub(super) fn narrowed<'a>(op: &'a Op, lens: &[usize]) -> Cow<'a, Op> {
    let with = |params: &ConvParams| ConvParams { groups: lens[groups_axis(op)], ..params.clone() };
    Cow::Owned(match op {
        Op::Conv(conv) => Op::Conv(Conv { params: with(&conv.params), ..conv.clone() }),
        Op::ConvBackwardData(conv) => {
            Op::ConvBackwardData(ConvBackwardData { params: with(&conv.params), ..conv.clone() })
        }
        Op::ConvBackwardWeight(conv) => {
            Op::ConvBackwardWeight(ConvBackwardWeight { params: with(&conv.params), ..conv.clone() })
        }
        Op::GroupNorm(norm) => Op::GroupNorm(GroupNorm { groups: lens[1], ..norm.clone() }),
        op => return Cow::Borrowed(op),
    })
}
