//! The kernels, a file or folder for each family of operations.
//!
//! Every kernel takes the pool, the operation's parameters, and views that `Op::infer` has accepted; outputs may be
//! strided. Loops over strides live in `strided`, so that kernels themselves see slices.

mod attention;
mod channel_norm;
mod channel_norm_backward;
mod conv;
mod copy;
mod create;
mod cross_entropy;
mod custom;
mod dropout;
#[cfg(feature = "fft")]
mod fft;
mod foreach;
mod gather_sum;
mod index;
mod kv_cache;
mod lanes;
mod linalg;
mod log_gamma_grad;
mod matmul;
mod measure;
mod norm;
mod norm_backward;
mod optimizer_step;
mod pointwise;
mod pooling;
mod random;
mod recurrent;
mod reduce;
mod rnn_gates;
mod rope;
mod sample;
mod scan;
mod scatter;
mod softmax;
mod sort;
mod strided;

pub(crate) use matmul::run_together;
pub(crate) use pointwise::packed::run as run_packed;

use crate::ThreadPool;
use rustorch_core::{
    Clamp, CopyOp, Embedding, Fault, GatherSum, IntMm, Op, RwkvWkv7, SsmScan, View, ViewMut, Where,
};

/// What is said where the kernels of Fourier transforms are not built.
#[cfg(not(feature = "fft"))]
pub(crate) const WITHOUT_FFT: &str = "Fourier transforms need the Cargo feature `fft`, which is off";

/// What is said where the decompositions by singular values and eigenvalues are not built.
#[cfg(not(feature = "linalg"))]
pub(crate) const WITHOUT_LINALG: &str =
    "singular values and eigenvalues need the Cargo feature `linalg`, which is off";

/// Runs any operation.
pub(crate) fn run(
    pool: &ThreadPool,
    op: &Op,
    args: &[View<'_>],
    outs: &mut [ViewMut<'_>],
) -> Result<(), Fault> {
    match op {
        Op::Fill(op) => create::fill(pool, op, only(outs)?),
        Op::Arange(op) => create::arange(pool, op, only(outs)?),
        Op::Random(op) => random::run(pool, op, only(outs)?),
        Op::Sample(op) => sample::run(pool, op, args, only(outs)?),
        Op::LogGammaGrad(_) => log_gamma_grad::run(pool, refs(args)?, only(outs)?),
        Op::Unary(op) => pointwise::unary(pool, *op, first(args)?, only(outs)?),
        Op::Binary(op) => pointwise::binary(pool, *op, refs(args)?, only(outs)?),
        Op::Compare(op) => pointwise::compare(pool, *op, refs(args)?, only(outs)?),
        Op::Where(Where) => pointwise::select(pool, refs(args)?, only(outs)?),
        Op::Clamp(Clamp { min, max }) => pointwise::clamp(pool, [*min, *max], first(args)?, only(outs)?),
        Op::Glu(op) => pointwise::gate(pool, *op, refs(args)?, only(outs)?),
        Op::Cast(_) => pointwise::cast(pool, first(args)?, only(outs)?),
        Op::FusedPointwise(op) => pointwise::fused(pool, op, args, only(outs)?),
        Op::Assert(op) => copy::assert(pool, op, first(args)?, only(outs)?),
        Op::Copy(CopyOp) => copy::copy(pool, first(args)?, only(outs)?),
        Op::Concat(op) => copy::concat(pool, op.axis, args, only(outs)?),
        Op::Pad(op) => copy::pad(pool, op, first(args)?, only(outs)?),
        Op::Tri(op) => copy::triangle(pool, op, first(args)?, only(outs)?),
        Op::Reduce(op) => reduce::run(pool, op, first(args)?, only(outs)?),
        Op::Scan(op) => scan::run(pool, op, first(args)?, outs),
        Op::Softmax(op) => softmax::run(pool, op, first(args)?, only(outs)?),
        Op::SoftmaxBackward(op) => softmax::backward(pool, op, refs(args)?, only(outs)?),
        Op::LayerNorm(op) => norm::layer_norm(pool, op, first(args)?, after::<1>(args), only(outs)?),
        Op::RmsNorm(op) => norm::rms_norm(pool, op, first(args)?, after::<1>(args), only(outs)?),
        Op::AddRmsNorm(op) => norm::add_rms_norm(pool, op, refs(args)?, after::<2>(args), outs),
        Op::LayerNormBackward(op) => norm_backward::layer_norm(pool, op, refs(args)?, after::<2>(args), outs),
        Op::RmsNormBackward(op) => norm_backward::rms_norm(pool, op, refs(args)?, after::<2>(args), outs),
        Op::BatchNorm(op) if op.training => {
            channel_norm::batch_norm_training(pool, op, first(args)?, after::<1>(args), outs)
        }
        Op::BatchNorm(op) => {
            let [x, mean, variance] = refs(args)?;
            channel_norm::batch_norm(pool, op, x, [mean, variance], after::<3>(args), only(outs)?)
        }
        Op::GroupNorm(op) => channel_norm::group_norm(pool, op, first(args)?, after::<1>(args), only(outs)?),
        Op::BatchNormBackward(op) => {
            channel_norm_backward::batch_norm(pool, op, refs(args)?, after::<4>(args), outs)
        }
        Op::GroupNormBackward(op) => {
            channel_norm_backward::group_norm(pool, op, refs(args)?, after::<2>(args), outs)
        }
        Op::MatMul(op) => matmul::run(pool, op, args, outs),
        Op::IntMm(IntMm) => matmul::run_int_mm(pool, args, only(outs)?),
        Op::MulMatId(op) => matmul::run_mul_mat_id(pool, op.numerics, args, outs),
        Op::Attention(op) => attention::run(pool, op, refs(args)?, args.get(3), outs),
        Op::AttentionBackward(op) => {
            let [grad, q, k, v, out, lse] = refs(args)?;
            let args = attention::BackwardArgs { grad, q, k, v, out, lse, mask: args.get(6) };
            attention::run_backward(pool, op, &args, outs)
        }
        Op::Rope(op) => {
            let [x, positions] = refs(args)?;
            rope::run(pool, op, x, positions, args.get(2), only(outs)?)
        }
        Op::CachedAttention(op) => kv_cache::cached_attention(pool, op, refs(args)?, outs),
        Op::SliceUpdate(op) => kv_cache::slice_update(pool, op.axis, refs(args)?, only(outs)?),
        Op::CausalConv1d(op) => recurrent::causal_conv1d(pool, op, refs(args)?, args.get(3), outs),
        Op::GatedDeltaRule(op) => recurrent::gated_delta_rule(pool, op, refs(args)?, outs),
        Op::SsmScan(SsmScan) => recurrent::ssm_scan(pool, refs(args)?, outs),
        Op::RwkvWkv7(RwkvWkv7) => recurrent::rwkv_wkv7(pool, refs(args)?, outs),
        Op::RnnGates(op) => rnn_gates::run(pool, *op, args, outs),
        Op::RnnGatesBackward(op) => rnn_gates::backward(pool, *op, args, outs),
        Op::Conv(op) => conv::forward(pool, op, refs(args)?, args.get(2), only(outs)?),
        Op::ConvBackwardData(op) => conv::backward_data(pool, op, refs(args)?, args.get(2), only(outs)?),
        Op::ConvBackwardWeight(op) => conv::backward_weight(pool, op, refs(args)?, only(outs)?),
        Op::IndexSelect(op) => {
            let [x, index] = refs(args)?;
            index::index_select(pool, op.axis, x, index, only(outs)?)
        }
        Op::Gather(op) => {
            let [x, index] = refs(args)?;
            index::gather(pool, op.axis, x, index, only(outs)?)
        }
        Op::GatherSum(GatherSum) => gather_sum::forward(pool, refs(args)?, only(outs)?),
        Op::GatherSumBackward(op) => gather_sum::backward(pool, op, refs(args)?, outs),
        Op::Embedding(Embedding) => {
            let [table, ids] = refs(args)?;
            index::embedding(pool, table, ids, only(outs)?)
        }
        Op::Scatter(op) => scatter::run(pool, op.axis, op.mode, refs(args)?, only(outs)?),
        Op::ScatterReduce(op) => scatter::reduce(pool, op, refs(args)?, only(outs)?),
        Op::Sort(_) | Op::TopK(_) => sort::run(pool, op, first(args)?, outs),
        Op::MaxPool(op) => pooling::max_pool(pool, op, first(args)?, outs),
        Op::AvgPool(op) => pooling::avg_pool(pool, op, first(args)?, only(outs)?),
        Op::AdaptiveMaxPool(op) => pooling::adaptive_max_pool(pool, op, first(args)?, outs),
        Op::AdaptiveAvgPool(op) => pooling::adaptive_avg_pool(pool, op.size.len(), first(args)?, only(outs)?),
        Op::MaxPoolBackward(op) => {
            let [grad, indices] = refs(args)?;
            pooling::max_pool_backward(pool, &op.spatial, grad, indices, only(outs)?)
        }
        Op::AvgPoolBackward(op) => pooling::avg_pool_backward(pool, &op.pool, first(args)?, only(outs)?),
        Op::AdaptiveAvgPoolBackward(op) => {
            pooling::adaptive_avg_pool_backward(pool, op.spatial.len(), first(args)?, only(outs)?)
        }
        Op::Interpolate(op) => pooling::interpolate(pool, op, first(args)?, only(outs)?),
        Op::InterpolateBackward(op) => {
            pooling::interpolate_backward(pool, &op.interpolate, first(args)?, only(outs)?)
        }
        Op::Dropout(op) => dropout::run(pool, op, first(args)?, only(outs)?),
        Op::CrossEntropy(op) => cross_entropy::forward(pool, op, first(args)?, after::<1>(args), outs),
        Op::CrossEntropyBackward(op) => {
            cross_entropy::backward(pool, op, refs(args)?, after::<4>(args), only(outs)?)
        }
        Op::TotalNorm(op) => foreach::total_norm(pool, op, args, only(outs)?),
        Op::ForeachMul(op) => foreach::mul(pool, op, args, outs),
        Op::OptimizerStep(op) => optimizer_step::run(pool, op, args, outs),
        #[cfg(not(feature = "linalg"))]
        Op::Linalg(op) if op.is_spectral() => {
            Err(Fault::Backend { device: rustorch_core::Device::CPU, message: WITHOUT_LINALG.into() })
        }
        Op::Linalg(op) => linalg::run(pool, *op, args, outs),
        #[cfg(feature = "fft")]
        Op::Fft(op) => fft::run(pool, *op, first(args)?, only(outs)?),
        #[cfg(not(feature = "fft"))]
        Op::Fft(_) => Err(Fault::Backend { device: rustorch_core::Device::CPU, message: WITHOUT_FFT.into() }),
        Op::Custom(op) => custom::run(pool, op, args, outs),
    }
}

/// The first argument.
fn first<'a, 'v>(args: &'a [View<'v>]) -> Result<&'a View<'v>, Fault> {
    args.first().ok_or_else(strided::unreachable_memory)
}

/// The first `N` arguments.
fn refs<'a, 'v, const N: usize>(args: &'a [View<'v>]) -> Result<[&'a View<'v>; N], Fault> {
    args.first_chunk::<N>().map(<[_; N]>::each_ref).ok_or_else(strided::unreachable_memory)
}

/// The arguments after the first `N`.
fn after<'a, 'v, const N: usize>(args: &'a [View<'v>]) -> &'a [View<'v>] {
    args.get(N..).unwrap_or_default()
}

/// The only result.
fn only<'a, 'v>(outs: &'a mut [ViewMut<'v>]) -> Result<&'a mut ViewMut<'v>, Fault> {
    match outs {
        [out] => Ok(out),
        _ => Err(strided::unreachable_memory()),
    }
}
