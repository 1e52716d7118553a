//! Random cases of ops along dimensions: reductions, scans, norms, sorting.

use super::super::cases::FLOATS;
use super::super::{Argument, Case};
use super::draw::{Draw, Numbers, Special};
use super::pointwise::{any, plain};
use rustorch_core::{
    AddRmsNorm, BatchNorm, BatchNormBackward, CrossEntropy, CrossEntropyBackward, DType, DTypeKind, Dims,
    Dropout, GroupNorm, GroupNormBackward, LayerNorm, LayerNormBackward, Op, PhiloxKey, Reduce, ReduceOp,
    RmsNorm, RmsNormBackward, Scan, ScanOp, Softmax, SoftmaxBackward, Sort, TopK,
};

const MOST: usize = 8000;

/// Numbers whose sums do not depend on the order.
fn summed(draw: &mut Draw, dtype: DType) -> Numbers {
    match dtype.kind() {
        DTypeKind::Int | DTypeKind::Bool => any(dtype),
        DTypeKind::Complex => Numbers::GRID,
        _ if draw.fine.chance(50) => Numbers::within(0.75, 1.3).with(Special::Infinite),
        _ => Numbers::GRID.with(Special::Infinite),
    }
}

/// Numbers whose products stay in range.
fn multiplied(dtype: DType, terms: usize) -> Numbers {
    match dtype.kind() {
        DTypeKind::Int | DTypeKind::Bool => any(dtype),
        DTypeKind::Complex => Numbers::within(-0.7, 0.7),
        _ if terms > 32 => Numbers::within(0.99, 1.01),
        _ => Numbers::within(0.75, 1.3),
    }
}

pub(super) fn reduce(draw: &mut Draw) -> Option<Case> {
    let correction = draw.fine.pick(&[0.0, 1.0, 0.5, 2.0]);
    let op = draw.kind.pick(&[
        ReduceOp::Sum,
        ReduceOp::Mean,
        ReduceOp::Prod,
        ReduceOp::Max,
        ReduceOp::Min,
        ReduceOp::ArgMax,
        ReduceOp::ArgMin,
        ReduceOp::Any,
        ReduceOp::All,
        ReduceOp::LogSumExp,
        ReduceOp::Norm,
        ReduceOp::Var { correction },
        ReduceOp::Std { correction },
    ]);
    let takes: Vec<DType> =
        DType::DENSE.iter().copied().filter(|&dtype| op.output(dtype).is_some()).collect();
    let dtype = draw.dtype(&takes);
    let ndim = draw.ndim(0, 6);
    let dims = draw.dims(ndim, MOST);
    let one = matches!(op, ReduceOp::ArgMax | ReduceOp::ArgMin);
    let axes: Dims = match draw.fine.below(4) {
        _ if one && ndim > 0 && draw.fine.chance(70) => Dims::from_slice(&[draw.fine.below(ndim)]),
        0 | 1 if !one => (0..ndim).filter(|_| draw.fine.chance(50)).collect(),
        _ => (0..ndim).collect(),
    };
    let terms: usize = axes.iter().map(|&axis| dims[axis]).product();
    let numbers = match op {
        ReduceOp::Sum | ReduceOp::Mean => summed(draw, dtype),
        ReduceOp::Prod => multiplied(dtype, terms),
        ReduceOp::Norm | ReduceOp::Var { .. } | ReduceOp::Std { .. } => Numbers::within(-3.0, 3.0),
        ReduceOp::LogSumExp => plain(dtype),
        // Few values, of which several are the largest.
        _ if draw.fine.chance(50) => Numbers::GRID.with(Special::Infinite),
        _ => any(dtype),
    };
    let x = draw.argument(dtype, &dims, numbers);
    let keepdim = draw.fine.chance(50);
    draw.case(Op::Reduce(Reduce { op, axes, keepdim }), vec![x])
}

pub(super) fn scan(draw: &mut Draw) -> Option<Case> {
    let dtype = draw.dtype(DType::DENSE);
    let ndim = draw.ndim(0, 5);
    let dims = draw.dims(ndim, MOST);
    let axis = draw.fine.below(ndim.max(1));
    let op = draw.kind.pick(&[ScanOp::Sum, ScanOp::Prod, ScanOp::Max, ScanOp::Min]);
    let numbers = match op {
        ScanOp::Sum => summed(draw, dtype),
        ScanOp::Prod => multiplied(dtype, dims.get(axis).copied().unwrap_or(1)),
        ScanOp::Max | ScanOp::Min if draw.fine.chance(50) => Numbers::GRID.with(Special::All),
        ScanOp::Max | ScanOp::Min => any(dtype),
    };
    let x = draw.argument(dtype, &dims, numbers);
    draw.case(Op::Scan(Scan { op, axis }), vec![x])
}

pub(super) fn sort(draw: &mut Draw) -> Option<Case> {
    let dtype = draw.dtype(DType::DENSE);
    let ndim = draw.ndim(0, 5);
    let dims = draw.dims(ndim, MOST);
    let axis = draw.fine.below(ndim.max(1));
    let len = dims.get(axis).copied().unwrap_or(1);
    let flag = draw.fine.chance(50);
    let k = draw.fine.below(len + 1);
    let op = match draw.kind.chance(50) {
        true => Op::Sort(Sort { axis, descending: flag }),
        false => Op::TopK(TopK { k, axis, largest: flag }),
    };
    let numbers = if draw.fine.chance(50) { Numbers::GRID.with(Special::All) } else { any(dtype) };
    let x = draw.argument(dtype, &dims, numbers);
    draw.case(op, vec![x])
}

pub(super) fn softmax(draw: &mut Draw) -> Option<Case> {
    let dtype = draw.dtype(FLOATS);
    let ndim = draw.ndim(0, 5);
    let dims = draw.dims(ndim, MOST);
    let axis = draw.fine.below(ndim.max(1));
    let x = draw.argument(dtype, &dims, Numbers::within(-10.0, 10.0).with(Special::Infinite));
    let log = draw.kind.chance(50);
    draw.case(Op::Softmax(Softmax { axis, log }), vec![x])
}

pub(super) fn softmax_backward(draw: &mut Draw) -> Option<Case> {
    let dtype = draw.dtype(FLOATS);
    let ndim = draw.ndim(0, 5);
    let dims = draw.dims(ndim, MOST);
    let axis = draw.fine.below(ndim.max(1));
    let log = draw.kind.chance(50);
    // Sums whose terms have one sign do not cancel.
    let grad = draw.argument(dtype, &dims, Numbers::within(0.1, 1.0).with(Special::Infinite));
    let y = match log {
        true => Numbers::within(-12.0, -2.0),
        false => Numbers::within(0.0, 0.1),
    };
    let y = draw.argument(dtype, &dims, y);
    draw.case(Op::SoftmaxBackward(SoftmaxBackward { axis, log }), vec![grad, y])
}

/// Logits, their axis of classes, and a target, perhaps with a weight.
fn losses(draw: &mut Draw, numbers: Numbers) -> (Argument, usize, Vec<Argument>) {
    let dtype = draw.dtype(FLOATS);
    let ndim = draw.ndim(1, 4);
    let mut dims = draw.dims(ndim, MOST);
    let axis = draw.fine.below(ndim);
    dims[axis] = dims[axis].max(1);
    let logits = draw.argument(dtype, &dims, numbers);
    let classes = dims[axis];
    let mut args = vec![match draw.kind.chance(60) {
        true => {
            let rows: Vec<usize> = (0..ndim).filter(|&d| d != axis).map(|d| dims[d]).collect();
            draw.indices(&rows, classes)
        }
        false => draw.argument(dtype, &dims, Numbers::within(0.0, 1.0)),
    }];
    if draw.kind.chance(40) {
        args.push(draw.argument(dtype, &[classes], Numbers::within(0.5, 2.0)));
    }
    (logits, axis, args)
}

pub(super) fn cross_entropy(draw: &mut Draw) -> Option<Case> {
    let label_smoothing = draw.kind.pick(&[0.0, 0.0, 0.1, 1.0]);
    let (logits, axis, target) = losses(draw, Numbers::within(-6.0, 6.0));
    let ignore_index = draw.fine.pick(&[-100, 0, 1]);
    let args = [vec![logits], target].concat();
    draw.case(Op::CrossEntropy(CrossEntropy { axis, ignore_index, label_smoothing }), args)
}

pub(super) fn cross_entropy_backward(draw: &mut Draw) -> Option<Case> {
    let label_smoothing = draw.kind.pick(&[0.0, 0.0, 0.1, 1.0]);
    let (logits, axis, target) = losses(draw, Numbers::within(-8.0, 2.0));
    let ignore_index = draw.fine.pick(&[-100, 0, 1]);
    let dims: Vec<usize> = logits.layout.dims().to_vec();
    let rows: Vec<usize> = (0..dims.len()).filter(|&d| d != axis).map(|d| dims[d]).collect();
    let sums = if logits.dtype == DType::F64 { DType::F64 } else { DType::F32 };
    let grad = draw.argument(sums, &rows, Numbers::within(-1.0, 1.0));
    let logsumexp = draw.argument(sums, &rows, Numbers::within(2.0, 9.0));
    let rest = draw.argument(sums, &rows, Numbers::within(-0.01, 0.01));
    let args = [vec![grad, logits, logsumexp, rest], target].concat();
    draw.case(Op::CrossEntropyBackward(CrossEntropyBackward { axis, ignore_index, label_smoothing }), args)
}

pub(super) fn dropout(draw: &mut Draw) -> Option<Case> {
    let dtype = draw.dtype(FLOATS);
    let ndim = draw.ndim(0, 5);
    let dims = draw.dims(ndim, MOST);
    let x = draw.argument(dtype, &dims, plain(dtype));
    let p = draw.fine.pick(&[0.0, 0.1, 0.5, 0.9999, 1.0]);
    let key = PhiloxKey { seed: draw.fine.next(), offset: draw.fine.next() };
    draw.case(Op::Dropout(Dropout { p, key }), vec![x])
}

pub(super) fn row_norm(draw: &mut Draw) -> Option<Case> {
    let dtype = draw.dtype(FLOATS);
    let ndim = draw.ndim(1, 5);
    let dims = draw.dims(ndim, MOST);
    let eps = draw.fine.pick(&[1e-5, 1e-6, 1e-3]);
    let layer = draw.kind.chance(50);
    let n = if layer { 1 + draw.fine.below(ndim) } else { 1 };
    let x = draw.argument(dtype, &dims, plain(dtype));
    let mut args = vec![x];
    for _ in 0..draw.kind.below(if layer { 3 } else { 2 }) {
        args.push(draw.argument(dtype, &dims[ndim - n..], Numbers::within(-2.0, 2.0)));
    }
    let op = match layer {
        true => Op::LayerNorm(LayerNorm { dims: n, eps }),
        false => Op::RmsNorm(RmsNorm { eps }),
    };
    draw.case(op, args)
}

pub(super) fn norm_backward(draw: &mut Draw) -> Option<Case> {
    let dtype = draw.dtype(FLOATS);
    let ndim = draw.ndim(1, 5);
    let dims = draw.dims(ndim, MOST);
    let layer = draw.kind.chance(50);
    let n = if layer { 1 + draw.fine.below(ndim) } else { 1 };
    // Terms of one sign, so that sums over rows do not cancel; an eps beside which no variance is small.
    let grad = draw.argument(dtype, &dims, Numbers::within(0.05, 0.1));
    let x = draw.argument(dtype, &dims, Numbers::within(0.5, 3.0));
    let mut args = vec![grad, x];
    if draw.kind.chance(50) {
        args.push(draw.argument(dtype, &dims[ndim - n..], Numbers::within(0.5, 2.0)));
    }
    let wanted = 1 + draw.kind.below(if layer { 7 } else { 3 });
    let [x, weight, bias] = [1, 2, 4].map(|bit| wanted & bit != 0);
    let op = match layer {
        true => Op::LayerNormBackward(LayerNormBackward { dims: n, eps: 0.1, x, weight, bias }),
        false => Op::RmsNormBackward(RmsNormBackward { eps: 0.1, x, weight }),
    };
    draw.case(op, args)
}

pub(super) fn added_norm(draw: &mut Draw) -> Option<Case> {
    let dtype = draw.dtype(FLOATS);
    let ndim = draw.ndim(1, 5);
    let dims = draw.dims(ndim, MOST);
    let eps = draw.fine.pick(&[1e-5, 1e-6, 1e-3]);
    // Sums do not cancel, so that neither result depends on what is left of them.
    let numbers = Numbers::within(0.5, 3.0).with(Special::Infinite);
    let mut args = vec![draw.argument(dtype, &dims, numbers), draw.argument(dtype, &dims, numbers)];
    if draw.kind.chance(50) {
        args.push(draw.argument(dtype, &dims[ndim - 1..], Numbers::within(-2.0, 2.0)));
    }
    draw.case(Op::AddRmsNorm(AddRmsNorm { eps }), args)
}

pub(super) fn channel_norm(draw: &mut Draw) -> Option<Case> {
    let dtype = draw.dtype(FLOATS);
    let ndim = draw.ndim(2, 5);
    let mut dims = draw.dims(ndim, MOST);
    let eps = draw.fine.pick(&[1e-5, 1e-3]);
    let parameters = if draw.kind.chance(50) { dtype } else { DType::F32 };
    let kind = draw.kind.below(3);
    if kind == 1 {
        dims[0] = dims[0].max(1);
    }
    let x = draw.argument(dtype, &dims, Numbers::within(-3.0, 3.0).with(Special::Zeros));
    let mut args = vec![x];
    let channels = &dims[1..2];
    let op = match kind {
        0 => Op::GroupNorm(GroupNorm { groups: groups(draw, dims[1]), eps }),
        1 => Op::BatchNorm(BatchNorm { training: true, eps }),
        _ => {
            args.push(draw.argument(parameters, channels, Numbers::within(-2.0, 2.0)));
            args.push(draw.argument(parameters, channels, Numbers::within(0.5, 2.0)));
            Op::BatchNorm(BatchNorm { training: false, eps })
        }
    };
    for _ in 0..draw.kind.below(3) {
        args.push(draw.argument(parameters, channels, Numbers::within(-2.0, 2.0)));
    }
    draw.case(op, args)
}

/// So many equal groups of channels.
fn groups(draw: &mut Draw, channels: usize) -> usize {
    let divisors: Vec<usize> =
        (1..=channels.max(1)).filter(|groups| channels.is_multiple_of(*groups)).collect();
    draw.fine.pick(&divisors)
}

pub(super) fn channel_norm_backward(draw: &mut Draw) -> Option<Case> {
    let dtype = draw.dtype(FLOATS);
    let ndim = draw.ndim(2, 5);
    let dims = draw.dims(ndim, MOST);
    let parameters = if draw.kind.chance(50) { dtype } else { DType::F32 };
    // As of rows: terms of one sign, and an eps beside which no variance is small. Sums over samples are longer: smaller terms.
    let eps = 0.1;
    let grad = draw.argument(dtype, &dims, Numbers::within(0.001, 0.002));
    let mut args = vec![grad, draw.argument(dtype, &dims, Numbers::within(0.5, 3.0))];
    let wanted = 1 + draw.kind.below(7);
    let [x, weight, bias] = [1, 2, 4].map(|bit| wanted & bit != 0);
    let channels = &dims[1..2];
    let op = match draw.kind.below(3) {
        0 => Op::GroupNormBackward(GroupNormBackward { groups: groups(draw, dims[1]), eps, x, weight, bias }),
        kind => {
            args.push(draw.argument(parameters, channels, Numbers::within(-1.0, 0.4)));
            args.push(draw.argument(parameters, channels, Numbers::within(0.5, 2.0)));
            Op::BatchNormBackward(BatchNormBackward { training: kind == 1, eps, x, weight, bias })
        }
    };
    if draw.kind.chance(50) {
        args.push(draw.argument(parameters, channels, Numbers::within(0.5, 2.0)));
    }
    draw.case(op, args)
}
