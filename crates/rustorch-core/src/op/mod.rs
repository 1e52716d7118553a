//! Operations as plain data.
//!
//! Each family has its own file, with the parameters of its operations and, beside them, what they accept, what they
//! return (`infer`) and how much work they are (`work`). No file here computes anything: devices do.

#[macro_use]
mod macros;

mod assert;
mod attention;
mod channel_norm;
mod check;
mod class;
mod conv;
mod create;
mod custom;
mod fft;
mod foreach;
mod fused_pointwise;
mod gather_sum;
mod index;
mod interpolate;
mod kv_cache;
mod linalg;
mod loss;
mod matmul;
mod norm;
mod operation;
mod optimizer_step;
mod pointwise;
mod pooling;
mod random;
mod recurrent;
mod reduce;
mod rnn_gates;
mod rope;
mod sort;

pub use assert::Assert;
pub use attention::{Attention, AttentionBackward};
pub use channel_norm::{BatchNorm, BatchNormBackward, GroupNorm, GroupNormBackward};
pub use class::OpType;
pub use conv::{Conv, ConvBackwardData, ConvBackwardWeight, ConvParams};
pub use create::{Arange, Fill};
pub use custom::{
    CustomError, CustomGradient, CustomInput, CustomKind, CustomOp, CustomOpBuilder, CustomOutput,
    CustomParam,
};
pub use fft::{Fft, FftKind, FftScale};
pub use foreach::{ForeachMul, TotalNorm};
pub use fused_pointwise::{FusedBuilder, FusedConstant, FusedPointwise, FusedStep, FusedValue};
pub use gather_sum::{GatherSum, GatherSumBackward};
pub use index::{
    Concat, Embedding, Gather, IndexSelect, Pad, Scatter, ScatterMode, ScatterReduce, ScatterReduction, Tri,
    TriKind,
};
pub use interpolate::{Interpolate, InterpolateBackward, InterpolateMode};
pub use kv_cache::{CachedAttention, SliceUpdate};
pub use linalg::{Linalg, LinalgKind, MatrixDefect};
pub use loss::{CrossEntropy, CrossEntropyBackward};
pub use matmul::{IntMm, MatMul, MulMatId, Numerics};
pub use norm::{
    AddRmsNorm, LayerNorm, LayerNormBackward, RmsNorm, RmsNormBackward, Softmax, SoftmaxBackward,
    SoftmaxBackwardKind, SoftmaxKind,
};
pub use optimizer_step::{OptimizerKind, OptimizerRule, OptimizerStep};
pub use pointwise::{BinaryOp, Cast, Clamp, CompareOp, CopyOp, GluOp, UnaryOp, Where};
pub use pooling::{
    AdaptiveAvgPool, AdaptiveAvgPoolBackward, AdaptiveMaxPool, AvgPool, AvgPoolBackward, MaxPool,
    MaxPoolBackward, PoolWindow,
};
pub use random::{Distribution, DistributionKind, Dropout, LogGammaGrad, Random, Sample, SampleKind};
pub use recurrent::{CausalConv1d, GatedDeltaRule, HeadBroadcast, RwkvWkv7, SsmScan};
pub use reduce::{Reduce, ReduceKind, ReduceOp, Scan, ScanOp};
pub use rnn_gates::{RnnGates, RnnGatesBackward};
pub use rope::{RopeParams, RopeStyle, Yarn};
pub use sort::{Sort, TopK};

use crate::{DType, OutputMeta, Outputs, PhiloxKey, Result, TensorMeta};
use check::{axis_in, axis_len, dense, expect_args, float, index_dtype, one, same_dense};
use operation::{Operation, bytes_written, in_elements, out_elements};

ops! {
    single {
        /// `() →` a tensor of one value.
        Fill(Fill),
        /// `() →` evenly spaced numbers.
        Arange(Arange),
        /// `(condition: Bool, a, b) →` `a` where the condition holds, else `b`.
        Where(Where),
        /// `(x) →` `x` kept within bounds. NaN stays NaN.
        Clamp(Clamp),
        /// `(x) →` `x` in another dtype. From and to block types: dequantization and quantization.
        Cast(Cast),
        /// `(x, y, ..) →` several of the operations above in one pass.
        FusedPointwise(FusedPointwise),
        /// `(x) →` the same elements, contiguous; or, into a given output view, copied there.
        Copy(CopyOp),
        /// `(condition: Bool) →` the same, if all of it is true; else an error.
        Assert(Assert),
        /// `(a, b[, bias]) →` matmul.
        MatMul(MatMul),
        /// `(a, b) →` matmul of `i8`, summed in `i32`.
        IntMm(IntMm),
        /// `(x: [t, k or 1, in], weights: [e, out, in], ids: [t, k] integer) → [t, k, out]`: row `(t, k)` times the
        /// transposed matrix of expert `ids[t, k]`. Experts that nobody chose are not touched.
        MulMatId(MulMatId),
        /// `(x[, weight[, bias]]) →` normalised over the trailing dimensions.
        LayerNorm(LayerNorm),
        /// `(x[, weight]) →` divided by the root mean square of the last dimension.
        RmsNorm(RmsNorm),
        /// `(x, y[, weight]) →` (`x + y`, the sum divided by the root mean square of its last dimension).
        AddRmsNorm(AddRmsNorm),
        /// `(grad, x[, weight]) →` the wanted gradients of the arguments of `LayerNorm`.
        LayerNormBackward(LayerNormBackward),
        /// `(grad, x[, weight]) →` the wanted gradients of the arguments of `RmsNorm`.
        RmsNormBackward(RmsNormBackward),
        /// `(q, k, v[, mask]) →` scaled dot-product attention; also the log-sum-exp of its scores, where asked for.
        Attention(Attention),
        /// `(grad, q, k, v, out, lse[, mask]) →` the wanted gradients of the arguments of `Attention`.
        AttentionBackward(AttentionBackward),
        /// `(q, k, v, position: [] integer) →` attention over the keys of a cache up to a position that is data.
        CachedAttention(CachedAttention),
        /// `(x, update, start: [] integer) →` `x` with `update` from `start` on along an axis.
        SliceUpdate(SliceUpdate),
        /// `(x: [batch, seq, channels], weight, state[, bias]) →` a causal depthwise convolution, and the next state.
        CausalConv1d(CausalConv1d),
        /// `(q, k, v, g, beta, state) →` the gated delta rule along a sequence, and the next state.
        GatedDeltaRule(GatedDeltaRule),
        /// `(x, dt, a, b, c, state) →` the scan of a selective state space model, and the next state.
        SsmScan(SsmScan),
        /// `(r, w, k, v, a, b, state) →` the recurrence of RWKV 7, and the next state.
        RwkvWkv7(RwkvWkv7),
        /// `(x: [.., seq, dim], positions: [seq][, frequency factors: [rotated / 2]]) →` rotated.
        Rope(RopeParams),
        /// `(x, index: [n] integer) →` slices of `x` along an axis.
        IndexSelect(IndexSelect),
        /// `(x, index) →` `out[.., i, ..] = x[.., index[.., i, ..], ..]` along an axis; `x` and `index` have equal rank.
        Gather(Gather),
        /// `(x: [b, c, n], index: [b, t, p], weight: [b, t, p]) → [b, c, p]`: weighted sums of elements of `x`.
        GatherSum(GatherSum),
        /// `(grad, x, index, weight) →` the wanted gradients of the arguments of `GatherSum`.
        GatherSumBackward(GatherSumBackward),
        /// `(x, index, src) →` `x` with elements of `src` combined at `index` along an axis.
        ScatterReduce(ScatterReduce),
        /// `(table: [rows, dim], ids: integer) → [ids.., dim]`: rows of a table, dequantized to `f32` from block types.
        Embedding(Embedding),
        /// `(x, y, ..) →` joined along an axis.
        Concat(Concat),
        /// `(x) →` `x` with a border of one value.
        Pad(Pad),
        /// `(x) →` (values, `I64` indices), sorted along an axis.
        Sort(Sort),
        /// `(x) →` (values, `I64` indices): the `k` largest or smallest along an axis.
        TopK(TopK),
        /// `(x: [.., spatial]) →` (values, `I64` indices): the largest of as many windows as asked for.
        AdaptiveMaxPool(AdaptiveMaxPool),
        /// `(x: [.., spatial]) →` the means of as many windows as asked for.
        AdaptiveAvgPool(AdaptiveAvgPool),
        /// `(grad: [.., pooled], indices) →` the gradient of the input of `MaxPool` or `AdaptiveMaxPool`. Indices are those
        /// that pooling returned; −1 stands for none.
        MaxPoolBackward(MaxPoolBackward),
        /// `(grad: [.., pooled]) →` the gradient of the input of `AdaptiveAvgPool`.
        AdaptiveAvgPoolBackward(AdaptiveAvgPoolBackward),
        /// `(x: [n, c, ..][, mean, variance][, weight[, bias]]) →` each channel normalised; in training also the mean and
        /// variance of the batch.
        BatchNorm(BatchNorm),
        /// `(x: [n, c, ..][, weight[, bias]]) →` groups of channels of each sample normalised.
        GroupNorm(GroupNorm),
        /// `(grad, x, mean: [c], variance: [c][, weight: [c]]) →` the wanted gradients of the arguments of `BatchNorm`.
        BatchNormBackward(BatchNormBackward),
        /// `(grad, x[, weight: [c]]) →` the wanted gradients of the arguments of `GroupNorm`.
        GroupNormBackward(GroupNormBackward),
        /// `(x) →` `x` with random elements set to zero, and the others scaled.
        Dropout(Dropout),
        /// `(concentration, log_draw) →` the derivative of the second with respect to the first, at a fixed quantile.
        LogGammaGrad(LogGammaGrad),
        /// `(x, y, ..) →` the norm of all elements as one vector.
        TotalNorm(TotalNorm),
        /// `(factor: [], x, y, ..) →` each times the factor[, whether an element was not finite].
        ForeachMul(ForeachMul),
        /// `(logits, target[, weight]) →` (losses, logsumexp, rest[, weights]), a value for each row.
        CrossEntropy(CrossEntropy),
        /// `(grad, logits, logsumexp, rest, target[, weight]) →` the gradient of the logits of `CrossEntropy`.
        CrossEntropyBackward(CrossEntropyBackward),
    }
    boxed {
        /// `(x, weight[, bias]) →` convolution.
        Conv(Conv),
        /// `(dy, weight[, bias]) →` gradient of a convolution with respect to its input, or transposed convolution.
        ConvBackwardData(ConvBackwardData),
        /// `(x, dy) →` gradient of a convolution with respect to its weight.
        ConvBackwardWeight(ConvBackwardWeight),
        /// `(x: [.., spatial]) →` (values, `I64` indices): the largest of each window, and where it is.
        MaxPool(MaxPool),
        /// `(x: [.., spatial]) →` the mean of each window.
        AvgPool(AvgPool),
        /// `(grad: [.., pooled]) →` the gradient of the input of `AvgPool`.
        AvgPoolBackward(AvgPoolBackward),
        /// `(x: [.., spatial]) →` resampled.
        Interpolate(Interpolate),
        /// `(grad: [.., resampled]) →` the gradient of the input of `Interpolate`.
        InterpolateBackward(InterpolateBackward),
    }
    families {
        /// `() →` random numbers.
        Random(Random: DistributionKind),
        /// `(parameter, ..) →` random numbers of distributions that tensors describe.
        Sample(Sample: SampleKind),
        /// `(x) →` a unary op.
        Unary(UnaryOp: UnaryOp),
        /// `(a, b) →` a function of each pair.
        Binary(BinaryOp: BinaryOp),
        /// `(a, b) →` `Bool`.
        Compare(CompareOp: CompareOp),
        /// `(gate, up) →` `activation(gate) · up`: the gated linear unit of SwiGLU and its kin.
        Glu(GluOp: GluOp),
        /// `(x) →` reduced over axes.
        Reduce(Reduce: ReduceKind),
        /// `(x) →` running sums, products or extrema along an axis; of extrema also their `I64` indices.
        Scan(Scan: ScanOp),
        /// `(x) →` softmax or its logarithm along an axis.
        Softmax(Softmax: SoftmaxKind),
        /// `(grad, y) →` the gradient of the argument of `Softmax`, of which `y` is the result.
        SoftmaxBackward(SoftmaxBackward: SoftmaxBackwardKind),
        /// `(x, index, src) →` `x` with `src` written (or added) at `index` along an axis.
        Scatter(Scatter: ScatterMode),
        /// `(sums, cell)` or `(input, hidden_sums, hidden) →` the states after a step of an LSTM or a GRU.
        RnnGates(RnnGates: RnnGates),
        /// `(.., grad_hidden[, grad_cell]) →` the gradients of the arguments of `RnnGates`, which come first.
        RnnGatesBackward(RnnGatesBackward: RnnGatesBackward),
        /// `(x) →` `x` with one triangle of its last two dimensions set to zero.
        Tri(Tri: TriKind),
        /// `(lr, step, parameter, grad[, master], states.., ..) →` parameters, master copies and states after a step of an optimizer.
        OptimizerStep(OptimizerStep: OptimizerKind),
        /// `(a[, b]) →` factors of matrices, or what follows from them.
        Linalg(Linalg: LinalgKind),
        /// `(x) →` a discrete Fourier transform along an axis.
        Fft(Fft: FftKind),
        /// `(..) →` whatever it computes: an operation that is not built in.
        Custom(CustomOp: CustomKind),
    }
}

/// Operations are moved about and kept by the nodes of gradients: larger parameters belong among the `boxed` ones.
const _: () = assert!(size_of::<Op>() <= 104);

/// How much an operation has to do: the input of the cost model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Floating-point (or integer) operations.
    pub flops: u64,
    /// Bytes read and written if every operand is touched once.
    pub bytes: u64,
}

impl Op {
    /// The operation's name, as errors, records and benchmarks show it.
    pub fn name(&self) -> &'static str {
        self.kind().name()
    }

    /// The operation's class, which may depend on the dtypes that it meets.
    pub fn class(&self, args: &[TensorMeta<'_>]) -> OpType {
        with_op!(self, op => Operation::class(op, args))
    }

    /// Dtypes and shapes of the results for these arguments.
    ///
    /// A device may rely on every property checked here; only what depends on element values (index bounds, integer
    /// division by zero, singular matrices) is left to it.
    ///
    /// # Errors
    /// If the arguments do not fit the operation: their number, dtypes, shapes, or the parameters.
    pub fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        with_op!(self, op => op.infer(args))
    }

    /// How many arguments the operation takes, if it computes each element of its one result from the corresponding
    /// elements of its arguments alone, so that it can be a step of a [`FusedPointwise`]. `None` for other operations.
    pub fn pointwise_arity(&self) -> Option<usize> {
        with_op!(self, op => op.pointwise_arity())
    }

    /// Whether result `out`, of the same dtype and layout, may be written over argument `arg` while the operation runs. That is so
    /// where each element is read before the element of the same index is written, and nothing that depends on values can fail
    /// once something is written: then the argument would be lost, and no other device could try.
    pub fn may_overwrite(&self, arg: usize, out: usize) -> bool {
        with_op!(self, op => op.may_overwrite(arg, out))
    }

    /// Whether the operation may fail for the values of arguments that [`infer`](Self::infer) accepted: an index out of range, a
    /// singular matrix, a division of an integer by zero.
    pub fn fails_on_values(&self) -> bool {
        with_op!(self, op => op.fails_on_values())
    }

    /// The key of the random numbers that the operation draws, if it draws some.
    pub fn philox_key(&self) -> Option<PhiloxKey> {
        with_op!(self, op => op.philox_key())
    }

    /// The operation with another key of random numbers; as it is if it draws none.
    pub fn with_philox_key(&self, key: PhiloxKey) -> Op {
        let dropout = |dropout: &Option<Dropout>| dropout.as_ref().map(|dropout| Dropout { key, ..*dropout });
        let op = match self {
            Op::Random(random) => Op::Random(Random { key, ..random.clone() }),
            Op::Sample(sample) => Op::Sample(Sample { key, ..sample.clone() }),
            Op::Dropout(dropout) => Op::Dropout(Dropout { key, ..*dropout }),
            Op::Attention(op) => Op::Attention(Attention { dropout: dropout(&op.dropout), ..op.clone() }),
            Op::AttentionBackward(op) => {
                let attention = Attention { dropout: dropout(&op.attention.dropout), ..op.attention.clone() };
                Op::AttentionBackward(AttentionBackward { attention, ..op.clone() })
            }
            other => other.clone(),
        };
        debug_assert!(
            op.philox_key().is_none_or(|has| has == key),
            "{} has a key of random numbers",
            self.name()
        );
        op
    }

    /// The dtype of the result of a pointwise op, for `args` arguments of `dtype` and of one shape,
    /// which then is the result's: what [`infer`](Self::infer) finds in that case, at less expense. `None` for other
    /// operations, and where that is an error.
    #[inline]
    pub fn elementwise_output(&self, dtype: DType, args: usize) -> Option<DType> {
        with_op!(self, op => op.elementwise_output(dtype, args))
    }

    /// The dtype of the results, where it is a parameter: of what is made from nothing, and of conversions.
    pub fn dtype_parameter(&self) -> Option<DType> {
        with_op!(self, op => op.dtype_parameter())
    }

    /// The dtype that decides how fast the operation is, among those of its arguments and results: of a matmul or a
    /// lookup that of the weight, of a conversion that of the blocks, if any.
    pub fn leading_dtype(&self, args: &[TensorMeta<'_>], outs: &[OutputMeta]) -> DType {
        if let Some(to) = self.dtype_parameter().filter(|to| to.is_quant()) {
            return to;
        }
        let arg = |i: usize| args.get(i).map(|x| x.dtype);
        arg(with_op!(self, op => op.leading_argument()))
            .or_else(|| arg(0))
            .or_else(|| outs.first().map(|out| out.dtype))
            .unwrap_or(DType::F32)
    }

    /// How much work the operation is, for arguments and results that [`infer`](Self::infer) accepted.
    pub fn work(&self, args: &[TensorMeta<'_>], outs: &[OutputMeta]) -> Work {
        with_op!(self, op => op.work(args, outs))
    }

    fn flops_per_element(&self) -> u64 {
        with_op!(self, op => op.flops_per_element())
    }
}
