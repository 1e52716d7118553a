//! The kernels, a file or folder for each family of operations.
//!
//! Every kernel takes the pool, the operation's parameters, and views that `Op::infer` has accepted; outputs may be
//! strided. Loops over strides live in `strided`, so that kernels themselves see slices.

mod attention;
mod channel_norm;
mod conv;
mod copy;
mod create;
mod index;
mod linalg;
mod matmul;
mod measure;
mod norm;
mod pointwise;
mod pooling;
mod random;
mod reduce;
mod rope;
mod scan;
mod scatter;
mod softmax;
mod sort;
mod strided;

pub(crate) use pointwise::packed::run as run_packed;

use crate::Pool;
use rustorch_core::{Error, Fault, Op, View, ViewMut};

/// Runs any operation.
pub(crate) fn run(pool: &Pool, op: &Op, args: &[View<'_>], outs: &mut [ViewMut<'_>]) -> Result<(), Fault> {
    if matches!(op, Op::Sort(_) | Op::TopK(_)) {
        return sort::run(pool, op, &args[0], outs);
    }
    if let Op::MatMul(op) = op {
        return matmul::run(pool, op, args, outs);
    }
    if let Op::ExpertMatMul { exact } = op {
        return matmul::run_experts(pool, *exact, args, outs);
    }
    if let Op::Linalg(op) = op {
        return linalg::run(pool, *op, args, outs);
    }
    match (op, args) {
        (Op::MaxPool(op), [x]) => return pooling::max_pool(pool, op, x, outs),
        (Op::AdaptiveMaxPool(op), [x]) => return pooling::adaptive_max_pool(pool, op, x, outs),
        (Op::BatchNorm(norm), [x, affine @ ..]) if norm.training => {
            return channel_norm::batch_norm_training(pool, norm, x, affine, outs);
        }
        (Op::AddRmsNorm(norm), [x, y, affine @ ..]) => {
            return norm::add_rms_norm(pool, norm, [x, y], affine, outs);
        }
        _ => {}
    }
    let [out] = outs else { return Err(strided::unreachable_memory()) };
    match (op, args) {
        (Op::Fill(fill), []) => create::fill(pool, fill, out),
        (Op::Arange(arange), []) => create::arange(pool, arange, out),
        (Op::Random(random), []) => random::run(pool, random, out),
        (Op::Unary(op), [x]) => pointwise::unary(pool, *op, x, out),
        (Op::Binary(op), [a, b]) => pointwise::binary(pool, *op, [a, b], out),
        (Op::Compare(op), [a, b]) => pointwise::compare(pool, *op, [a, b], out),
        (Op::Where, [condition, a, b]) => pointwise::select(pool, [condition, a, b], out),
        (Op::Clamp { min, max }, [x]) => pointwise::clamp(pool, [*min, *max], x, out),
        (Op::Gate(op), [gate, up]) => pointwise::gate(pool, *op, [gate, up], out),
        (Op::Cast(_), [x]) => pointwise::cast(pool, x, out),
        (Op::Chain(chain), args) => pointwise::chain(pool, chain, args, out),
        (Op::Copy, [x]) => copy::copy(pool, x, out),
        (Op::Concat { axis }, parts) => copy::concat(pool, *axis, parts, out),
        (Op::Pad(pad), [x]) => copy::pad(pool, pad, x, out),
        (Op::Triangle(triangle), [x]) => copy::triangle(pool, triangle, x, out),
        (Op::Reduce(reduce), [x]) => reduce::run(pool, reduce, x, out),
        (Op::Scan { op, axis }, [x]) => scan::run(pool, *op, *axis, x, out),
        (Op::Softmax(softmax), [x]) => softmax::run(pool, softmax, x, out),
        (Op::LayerNorm(norm), [x, affine @ ..]) => norm::layer_norm(pool, norm, x, affine, out),
        (Op::RmsNorm(norm), [x, affine @ ..]) => norm::rms_norm(pool, norm, x, affine, out),
        (Op::Attention(attention), [q, k, v, mask @ ..]) => {
            attention::run(pool, attention, [q, k, v], mask.first(), out)
        }
        (Op::Conv(op), [x, w, bias @ ..]) => conv::forward(pool, op, [x, w], bias.first(), out),
        (Op::ConvBackwardData(op), [dy, w, bias @ ..]) => {
            conv::backward_data(pool, op, [dy, w], bias.first(), out)
        }
        (Op::ConvBackwardWeight(op), [x, dy]) => conv::backward_weight(pool, op, [x, dy], out),
        (Op::Rope { rope, .. }, [x, positions, factors @ ..]) => {
            rope::run(pool, rope, x, positions, factors.first(), out)
        }
        (Op::IndexSelect { axis }, [x, index]) => index::index_select(pool, *axis, x, index, out),
        (Op::Gather { axis }, [x, index]) => index::gather(pool, *axis, x, index, out),
        (Op::Scatter { axis, mode }, [x, index, src]) => {
            scatter::run(pool, *axis, *mode, [x, index, src], out)
        }
        (Op::AvgPool(op), [x]) => pooling::avg_pool(pool, op, x, out),
        (Op::AdaptiveAvgPool(op), [x]) => pooling::adaptive_avg_pool(pool, op.size.len(), x, out),
        (Op::MaxPoolBackward { spatial }, [grad, indices]) => {
            pooling::max_pool_backward(pool, spatial, grad, indices, out)
        }
        (Op::AvgPoolBackward { pool: op, .. }, [grad]) => pooling::avg_pool_backward(pool, op, grad, out),
        (Op::AdaptiveAvgPoolBackward { spatial }, [grad]) => {
            pooling::adaptive_avg_pool_backward(pool, spatial.len(), grad, out)
        }
        (Op::Interpolate(op), [x]) => pooling::interpolate(pool, op, x, out),
        (Op::InterpolateBackward { interpolate, .. }, [grad]) => {
            pooling::interpolate_backward(pool, interpolate, grad, out)
        }
        (Op::BatchNorm(norm), [x, mean, variance, affine @ ..]) => {
            channel_norm::batch_norm(pool, norm, x, [mean, variance], affine, out)
        }
        (Op::GroupNorm(norm), [x, affine @ ..]) => channel_norm::group_norm(pool, norm, x, affine, out),
        (Op::Embedding, [table, ids]) => index::embedding(pool, table, ids, out),
        _ => Err(Error::argument(op.name(), format!("has no kernel for {} arguments", args.len())).into()),
    }
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
