//! Random cases of operations that move elements: gathering, scattering, joining, padding.

use super::super::Case;
use super::draw::{Draw, Numbers, Special};
use super::pointwise::{any, plain};
use rustorch_core::{
    Concat, DType, Embedding, Gather, GatherSum, GatherSumBackward, IndexSelect, Op, Pad, Scalar, Scatter,
    ScatterMode, ScatterReduce, ScatterReduction, Tri,
};

const MOST: usize = 5000;

/// A dtype, a shape of so many dimensions at least, and one of its axes.
fn target(draw: &mut Draw, least: usize) -> (DType, Vec<usize>, usize) {
    let dtype = draw.dtype(DType::DENSE);
    let ndim = draw.ndim(least, 5);
    let dims = draw.dims(ndim, MOST);
    let axis = draw.fine.below(ndim.max(1));
    (dtype, dims, axis)
}

pub(super) fn select(draw: &mut Draw) -> Option<Case> {
    let (dtype, mut dims, axis) = target(draw, 1);
    dims[axis] = dims[axis].max(1);
    let x = draw.argument(dtype, &dims, any(dtype));
    let n = draw.len(60);
    let ids = draw.indices(&[n], dims[axis]);
    draw.case(Op::IndexSelect(IndexSelect { axis }), vec![x, ids])
}

pub(super) fn embedding(draw: &mut Draw) -> Option<Case> {
    let dtype = draw.dtype(DType::DENSE);
    let (rows, dim) = (draw.some(60), draw.len(300));
    let x = draw.argument(dtype, &[rows, dim], any(dtype));
    let ndim = draw.ndim(0, 3);
    let dims = draw.dims(ndim, 30);
    let ids = draw.indices(&dims, rows);
    draw.case(Op::Embedding(Embedding), vec![x, ids])
}

/// Not larger in any dimension but one, where it is any length.
fn smaller(draw: &mut Draw, dims: &[usize], axis: usize) -> Vec<usize> {
    let mut smaller = dims.to_vec();
    for (i, len) in smaller.iter_mut().enumerate() {
        if i == axis {
            *len = draw.len(50);
        } else if draw.fine.chance(30) {
            *len = draw.fine.below(*len + 1);
        }
    }
    smaller
}

pub(super) fn gather(draw: &mut Draw) -> Option<Case> {
    let (dtype, mut dims, axis) = target(draw, 0);
    if let Some(len) = dims.get_mut(axis) {
        *len = (*len).max(1);
    }
    let own = smaller(draw, &dims, axis);
    let x = draw.argument(dtype, &dims, any(dtype));
    let ids = draw.indices(&own, dims.get(axis).copied().unwrap_or(1));
    draw.case(Op::Gather(Gather { axis }), vec![x, ids])
}

pub(super) fn gather_sum(draw: &mut Draw) -> Option<Case> {
    let dtype = draw.dtype(&[DType::F32, DType::F64]);
    let [batch, channels, n, terms, points] = [3, 10, 20, 6, 20].map(|most| draw.fine.below(most));
    // Sums that do not depend on the order.
    let numbers = Numbers::GRID.with(Special::Zeros);
    let x = draw.argument(dtype, &[batch, channels, n + 1], numbers);
    let index = draw.indices(&[batch, terms, points], n + 1);
    let weight = draw.argument(dtype, &[batch, terms, points], numbers);
    if draw.kind.chance(50) {
        return draw.case(Op::GatherSum(GatherSum), vec![x, index, weight]);
    }
    let grad = draw.argument(dtype, &[batch, channels, points], numbers);
    let of_x = draw.fine.chance(70);
    let op = GatherSumBackward { x: of_x, weight: !of_x || draw.fine.chance(50) };
    draw.case(Op::GatherSumBackward(op), vec![grad, x, index, weight])
}

pub(super) fn scatter(draw: &mut Draw) -> Option<Case> {
    let (dtype, mut dims, axis) = target(draw, 0);
    if let Some(len) = dims.get_mut(axis) {
        *len = (*len).max(1);
    }
    let mode = draw.kind.pick(&[ScatterMode::Replace, ScatterMode::Add]);
    let numbers = match mode {
        ScatterMode::Replace => any(dtype),
        // Sums that do not depend on the order.
        ScatterMode::Add if dtype.is_int() || dtype == DType::Bool => any(dtype),
        ScatterMode::Add => Numbers::GRID.with(Special::Zeros),
    };
    let own = smaller(draw, &dims, axis);
    let larger: Vec<usize> = own.iter().map(|&len| len + draw.fine.pick(&[0, 0, 1, 3])).collect();
    let x = draw.argument(dtype, &dims, numbers);
    let ids = draw.indices(&own, dims.get(axis).copied().unwrap_or(1));
    let src = draw.argument(dtype, &larger, numbers);
    draw.case(Op::Scatter(Scatter { axis, mode }), vec![x, ids, src])
}

pub(super) fn scatter_reduce(draw: &mut Draw) -> Option<Case> {
    let (dtype, mut dims, axis) = target(draw, 0);
    if let Some(len) = dims.get_mut(axis) {
        *len = (*len).max(1);
    }
    let reduction = draw.kind.pick(ScatterReduction::ALL);
    let numbers = match reduction {
        ScatterReduction::Max | ScatterReduction::Min => any(dtype),
        _ if dtype.is_int() => any(dtype),
        _ => Numbers::GRID.with(Special::Zeros),
    };
    let own = smaller(draw, &dims, axis);
    let larger: Vec<usize> = own.iter().map(|&len| len + draw.fine.pick(&[0, 0, 1, 3])).collect();
    let x = draw.argument(dtype, &dims, numbers);
    let ids = draw.indices(&own, dims.get(axis).copied().unwrap_or(1));
    let src = draw.argument(dtype, &larger, numbers);
    let op = ScatterReduce { axis, reduction, include_self: draw.fine.chance(50) };
    draw.case(Op::ScatterReduce(op), vec![x, ids, src])
}

pub(super) fn concat(draw: &mut Draw) -> Option<Case> {
    let (dtype, dims, axis) = target(draw, 1);
    let count = 1 + draw.kind.below(5);
    let args = (0..count)
        .map(|_| {
            let mut own = dims.clone();
            own[axis] = draw.len(40);
            draw.argument(dtype, &own, any(dtype))
        })
        .collect();
    draw.case(Op::Concat(Concat { axis }), args)
}

pub(super) fn pad(draw: &mut Draw) -> Option<Case> {
    let (dtype, dims, _) = target(draw, 0);
    let widths =
        dims.iter().map(|_| (draw.fine.pick(&[0, 0, 1, 2, 9]), draw.fine.pick(&[0, 0, 1, 3]))).collect();
    let value =
        draw.fine.pick(&[Scalar::Int(1), Scalar::Int(0), Scalar::Float(-2.5), Scalar::Float(f64::NAN)]);
    let x = draw.argument(dtype, &dims, any(dtype));
    draw.case(Op::Pad(Pad { widths, value }), vec![x])
}

pub(super) fn triangle(draw: &mut Draw) -> Option<Case> {
    let (dtype, dims, _) = target(draw, 2);
    let diagonal = draw.fine.below(41) as i64 - 20;
    let x = draw.argument(dtype, &dims, plain(dtype));
    let upper = draw.kind.chance(50);
    draw.case(Op::Tri(Tri { upper, diagonal }), vec![x])
}
