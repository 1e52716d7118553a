//! Operations as plain data.
//!
//! Each family has its own file, with the parameters of its operations and, beside them, what they accept, what they
//! return (`infer`) and how much work they are (`work`). No file here computes anything: devices do.

mod attention;
mod chain;
mod channel_norm;
mod conv;
mod create;
mod index;
mod interpolate;
mod linalg;
mod matmul;
mod norm;
mod pointwise;
mod pool;
mod random;
mod reduce;
mod rope;
mod sort;

pub use attention::Attention;
pub use chain::{Chain, ChainBuilder, ChainConstant, ChainStep, ChainValue};
pub use channel_norm::{BatchNorm, GroupNorm};
pub use conv::{Conv, ConvBackwardData, ConvBackwardWeight, ConvParams};
pub use create::{Arange, Fill};
pub use index::{Pad, ScatterMode, Triangle};
pub use interpolate::{Interpolate, InterpolateMode};
pub use linalg::{Linalg, MatrixDefect};
pub use matmul::MatMul;
pub use norm::{LayerNorm, RmsNorm, Softmax};
pub use pointwise::{BinaryOp, CompareOp, GateOp, UnaryOp};
pub use pool::{AdaptivePool, AvgPool, MaxPool, PoolWindow};
pub use random::{Distribution, Random};
pub use reduce::{Reduce, ReduceOp, ScanOp};
pub use rope::{Rope, RopeStyle, Yarn};
pub use sort::{Sort, TopK};

use crate::{DType, Dims, Error, OutputMeta, Outputs, Result, Scalar, Shape, TensorMeta};
use smallvec::smallvec;

/// An operation with its parameters. Arguments are given apart from it, in the order that each variant names.
///
/// Operands of one operation have one dtype unless the variant says otherwise: promotion is the tensor's business, done
/// by explicit [`Op::Cast`]. Operands of pointwise operations broadcast.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Op {
    /// `() →` a tensor of one value.
    Fill(Fill),
    /// `() →` evenly spaced numbers.
    Arange(Arange),
    /// `() →` random numbers.
    Random(Random),
    /// `(x) →` a function of each element.
    Unary(UnaryOp),
    /// `(a, b) →` a function of each pair.
    Binary(BinaryOp),
    /// `(a, b) →` `Bool`.
    Compare(CompareOp),
    /// `(condition: Bool, a, b) →` `a` where the condition holds, else `b`.
    Where,
    /// `(x) →` `x` kept within bounds. NaN stays NaN.
    Clamp {
        /// The lower bound.
        min: Option<Scalar>,
        /// The upper bound, which wins where it is below the lower.
        max: Option<Scalar>,
    },
    /// `(gate, up) →` `activation(gate) · up`: the gated feed-forward of SwiGLU and its kin.
    Gate(GateOp),
    /// `(x) →` `x` in another dtype. From and to block types: decoding and quantizing.
    Cast(DType),
    /// `(x, y, ..) →` several of the operations above in one pass.
    Chain(Chain),
    /// `(x) →` the same elements, contiguous; or, into a given output view, copied there.
    Copy,
    /// `(x) →` reduced over axes.
    Reduce(Reduce),
    /// `(x) →` running sums or products along an axis.
    Scan {
        /// What accumulates.
        op: ScanOp,
        /// The axis.
        axis: usize,
    },
    /// `(a, b[, bias]) →` matrix product.
    MatMul(MatMul),
    /// `(x: [t, k or 1, in], weights: [e, out, in], ids: [t, k] integer) → [t, k, out]`: row `(t, k)` times the
    /// transposed matrix of expert `ids[t, k]`. Experts that nobody chose are not touched.
    ExpertMatMul {
        /// As [`MatMul::exact`].
        exact: bool,
    },
    /// `(x, weight[, bias]) →` convolution.
    Conv(Conv),
    /// `(dy, weight[, bias]) →` gradient of a convolution with respect to its input, or transposed convolution.
    ConvBackwardData(ConvBackwardData),
    /// `(x, dy) →` gradient of a convolution with respect to its weight.
    ConvBackwardWeight(ConvBackwardWeight),
    /// `(x) →` softmax or its logarithm along an axis.
    Softmax(Softmax),
    /// `(x[, weight[, bias]]) →` normalised over the trailing dimensions.
    LayerNorm(LayerNorm),
    /// `(x[, weight]) →` divided by the root mean square of the last dimension.
    RmsNorm(RmsNorm),
    /// `(x, y[, weight]) →` (`x + y`, the sum divided by the root mean square of its last dimension).
    AddRmsNorm(RmsNorm),
    /// `(q, k, v[, mask]) →` scaled dot-product attention.
    Attention(Attention),
    /// `(x: [.., seq, dim], positions: [seq][, frequency factors: [rotated / 2]]) →` rotated.
    Rope {
        /// The rotation.
        rope: Rope,
        /// The dtype of the result: that of `x`; or, of `F32`, one of 16 bits, to which a cast would round the same.
        to: DType,
    },
    /// `(x, index: [n] integer) →` slices of `x` along an axis.
    IndexSelect {
        /// The axis.
        axis: usize,
    },
    /// `(x, index) →` `out[.., i, ..] = x[.., index[.., i, ..], ..]` along an axis; `x` and `index` have equal rank.
    Gather {
        /// The axis.
        axis: usize,
    },
    /// `(x, index, src) →` `x` with `src` written (or added) at `index` along an axis.
    Scatter {
        /// The axis.
        axis: usize,
        /// What happens to the value in place.
        mode: ScatterMode,
    },
    /// `(table: [rows, dim], ids: integer) → [ids.., dim]`: rows of a table, decoded to `f32` from block types.
    Embedding,
    /// `(x, y, ..) →` joined along an axis.
    Concat {
        /// The axis.
        axis: usize,
    },
    /// `(x) →` `x` with a border of one value.
    Pad(Pad),
    /// `(x) →` `x` with one triangle of its last two dimensions set to zero.
    Triangle(Triangle),
    /// `(x) →` (values, `I64` indices), sorted along an axis.
    Sort(Sort),
    /// `(x) →` (values, `I64` indices): the `k` largest or smallest along an axis.
    TopK(TopK),
    /// `(x: [.., spatial]) →` (values, `I64` indices): the largest of each window, and where it is.
    MaxPool(MaxPool),
    /// `(x: [.., spatial]) →` the mean of each window.
    AvgPool(AvgPool),
    /// `(x: [.., spatial]) →` (values, `I64` indices): the largest of as many windows as asked for.
    AdaptiveMaxPool(AdaptivePool),
    /// `(x: [.., spatial]) →` the means of as many windows as asked for.
    AdaptiveAvgPool(AdaptivePool),
    /// `(grad: [.., pooled], indices) →` the gradient of the input of `MaxPool` or `AdaptiveMaxPool`. Indices are those
    /// that pooling returned; −1 stands for none.
    MaxPoolBackward {
        /// The spatial dimensions of the input.
        spatial: Dims,
    },
    /// `(grad: [.., pooled]) →` the gradient of the input of `AvgPool`.
    AvgPoolBackward {
        /// The pooling.
        pool: AvgPool,
        /// The spatial dimensions of the input.
        spatial: Dims,
    },
    /// `(grad: [.., pooled]) →` the gradient of the input of `AdaptiveAvgPool`.
    AdaptiveAvgPoolBackward {
        /// The spatial dimensions of the input.
        spatial: Dims,
    },
    /// `(x: [n, c, ..][, mean, variance][, weight[, bias]]) →` each channel normalised; in training also the mean and
    /// variance of the batch.
    BatchNorm(BatchNorm),
    /// `(x: [n, c, ..][, weight[, bias]]) →` groups of channels of each sample normalised.
    GroupNorm(GroupNorm),
    /// `(x: [.., spatial]) →` resampled.
    Interpolate(Interpolate),
    /// `(grad: [.., resampled]) →` the gradient of the input of `Interpolate`.
    InterpolateBackward {
        /// The interpolation.
        interpolate: Interpolate,
        /// The spatial dimensions of the input.
        spatial: Dims,
    },
    /// `(a[, b]) →` factors of matrices, or what follows from them.
    Linalg(Linalg),
}

/// The class of an operation: the grain in which devices state what they can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum OpType {
    /// Filling and counting.
    Creation,
    /// Arithmetic on each element.
    Elementwise,
    /// Activation functions, gates and softmax.
    Activation,
    /// Comparison and selection.
    Comparison,
    /// Sums, extrema, scans.
    Reduction,
    /// Matrix products.
    LinearAlgebra,
    /// Convolutions and their gradients.
    Convolution,
    /// Normalisation of layers, channels and groups of channels.
    Normalization,
    /// Scaled dot-product attention and rotary position embedding.
    Attention,
    /// Gather, scatter, concatenation, padding.
    Indexing,
    /// Copies and conversions between dense dtypes.
    DataMovement,
    /// Decoding and encoding of block types.
    Quantization,
    /// Sorting and selection of extremes.
    Sorting,
    /// Random numbers.
    Distribution,
    /// Functions that only complex numbers have.
    ComplexMath,
    /// Pooling and interpolation: windows over spatial dimensions.
    Pooling,
    /// Factors of matrices, and what follows from them: solutions, inverses, determinants.
    Decomposition,
}

impl OpType {
    /// Every class.
    pub const ALL: &'static [OpType] = &[
        OpType::Creation,
        OpType::Elementwise,
        OpType::Activation,
        OpType::Comparison,
        OpType::Reduction,
        OpType::LinearAlgebra,
        OpType::Convolution,
        OpType::Normalization,
        OpType::Attention,
        OpType::Indexing,
        OpType::DataMovement,
        OpType::Quantization,
        OpType::Sorting,
        OpType::Distribution,
        OpType::ComplexMath,
        OpType::Pooling,
        OpType::Decomposition,
    ];
}

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
        match self {
            Op::Fill(_) => "fill",
            Op::Arange(_) => "arange",
            Op::Random(r) => r.name(),
            Op::Unary(op) => op.name(),
            Op::Binary(op) => op.name(),
            Op::Compare(op) => op.name(),
            Op::Where => "where",
            Op::Clamp { .. } => "clamp",
            Op::Gate(op) => op.name(),
            Op::Cast(_) => "cast",
            Op::Chain(_) => chain::NAME,
            Op::Copy => "copy",
            Op::Reduce(r) => r.op.name(),
            Op::Scan { op, .. } => op.name(),
            Op::MatMul(_) => "matmul",
            Op::ExpertMatMul { .. } => "expert_matmul",
            Op::Conv(_) => Conv::NAME,
            Op::ConvBackwardData(_) => ConvBackwardData::NAME,
            Op::ConvBackwardWeight(_) => ConvBackwardWeight::NAME,
            Op::Softmax(s) => s.name(),
            Op::LayerNorm(_) => "layer_norm",
            Op::RmsNorm(_) => "rms_norm",
            Op::AddRmsNorm(_) => "add_rms_norm",
            Op::Attention(_) => "attention",
            Op::Rope { .. } => "rope",
            Op::IndexSelect { .. } => "index_select",
            Op::Gather { .. } => "gather",
            Op::Scatter { mode, .. } => mode.name(),
            Op::Embedding => "embedding",
            Op::Concat { .. } => "concat",
            Op::Pad(_) => "pad",
            Op::Triangle(t) => t.name(),
            Op::Sort(_) => "sort",
            Op::TopK(_) => "topk",
            Op::MaxPool(_) => "max_pool",
            Op::AvgPool(_) => "avg_pool",
            Op::AdaptiveMaxPool(_) => "adaptive_max_pool",
            Op::AdaptiveAvgPool(_) => "adaptive_avg_pool",
            Op::MaxPoolBackward { .. } => "max_pool_backward",
            Op::AvgPoolBackward { .. } => "avg_pool_backward",
            Op::AdaptiveAvgPoolBackward { .. } => "adaptive_avg_pool_backward",
            Op::BatchNorm(_) => "batch_norm",
            Op::GroupNorm(_) => "group_norm",
            Op::Interpolate(_) => "interpolate",
            Op::InterpolateBackward { .. } => "interpolate_backward",
            Op::Linalg(op) => op.name(),
        }
    }

    /// The operation's class, which may depend on the dtypes that it meets.
    pub fn class(&self, args: &[TensorMeta<'_>]) -> OpType {
        match self {
            Op::Fill(_) | Op::Arange(_) => OpType::Creation,
            Op::Random(_) => OpType::Distribution,
            Op::Unary(op) => op.class(),
            Op::Binary(_) | Op::Clamp { .. } | Op::Chain(_) => OpType::Elementwise,
            Op::Compare(_) | Op::Where => OpType::Comparison,
            Op::Gate(_) | Op::Softmax(_) => OpType::Activation,
            Op::Cast(to) if to.is_quant() || args.first().is_some_and(|x| x.dtype.is_quant()) => {
                OpType::Quantization
            }
            Op::Cast(_) | Op::Copy => OpType::DataMovement,
            Op::Reduce(_) | Op::Scan { .. } => OpType::Reduction,
            Op::MatMul(_) | Op::ExpertMatMul { .. } => OpType::LinearAlgebra,
            Op::Conv(_) | Op::ConvBackwardData(_) | Op::ConvBackwardWeight(_) => OpType::Convolution,
            Op::LayerNorm(_) | Op::RmsNorm(_) | Op::AddRmsNorm(_) => OpType::Normalization,
            Op::Attention(_) | Op::Rope { .. } => OpType::Attention,
            Op::IndexSelect { .. }
            | Op::Gather { .. }
            | Op::Scatter { .. }
            | Op::Embedding
            | Op::Concat { .. }
            | Op::Pad(_)
            | Op::Triangle(_) => OpType::Indexing,
            Op::Sort(_) | Op::TopK(_) => OpType::Sorting,
            Op::BatchNorm(_) | Op::GroupNorm(_) => OpType::Normalization,
            Op::MaxPool(_)
            | Op::AvgPool(_)
            | Op::AdaptiveMaxPool(_)
            | Op::AdaptiveAvgPool(_)
            | Op::MaxPoolBackward { .. }
            | Op::AvgPoolBackward { .. }
            | Op::AdaptiveAvgPoolBackward { .. }
            | Op::Interpolate(_)
            | Op::InterpolateBackward { .. } => OpType::Pooling,
            Op::Linalg(_) => OpType::Decomposition,
        }
    }

    /// Dtypes and shapes of the results for these arguments.
    ///
    /// A device may rely on every property checked here; only what depends on element values (index bounds, integer
    /// division by zero, singular matrices) is left to it.
    ///
    /// # Errors
    /// If the arguments do not fit the operation: their number, dtypes, shapes, or the parameters.
    pub fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        match self {
            Op::Fill(fill) => fill.infer(args),
            Op::Arange(arange) => arange.infer(args),
            Op::Random(random) => random.infer(args),
            Op::Unary(op) => op.infer(args),
            Op::Binary(op) => op.infer(args),
            Op::Compare(op) => op.infer(args),
            Op::Where => pointwise::infer_where(args),
            Op::Clamp { min, max } => pointwise::infer_clamp(*min, *max, args),
            Op::Gate(op) => op.infer(args),
            Op::Cast(to) => pointwise::infer_cast(*to, args),
            Op::Chain(chain) => chain.infer(args),
            Op::Copy => pointwise::infer_copy(args),
            Op::Reduce(reduce) => reduce.infer(args),
            Op::Scan { op, axis } => op.infer(*axis, args),
            Op::MatMul(matmul) => matmul.infer(args),
            Op::ExpertMatMul { .. } => matmul::infer_experts(args),
            Op::Conv(conv) => conv.infer(args),
            Op::ConvBackwardData(conv) => conv.infer(args),
            Op::ConvBackwardWeight(conv) => conv.infer(args),
            Op::Softmax(softmax) => softmax.infer(args),
            Op::LayerNorm(norm) => norm.infer(args),
            Op::RmsNorm(norm) => norm.infer(args),
            Op::AddRmsNorm(norm) => norm.infer_added(args),
            Op::Attention(attention) => attention.infer(args),
            Op::Rope { rope, to } => rope.infer(*to, args),
            Op::IndexSelect { axis } => index::infer_index_select(*axis, args),
            Op::Gather { axis } => index::infer_gather(*axis, args),
            Op::Scatter { axis, mode } => mode.infer(*axis, args),
            Op::Embedding => index::infer_embedding(args),
            Op::Concat { axis } => index::infer_concat(*axis, args),
            Op::Pad(pad) => pad.infer(args),
            Op::Triangle(triangle) => triangle.infer(args),
            Op::Sort(sort) => sort.infer(args),
            Op::TopK(topk) => topk.infer(args),
            Op::MaxPool(pool) => pool.infer(args),
            Op::AvgPool(pool) => pool.infer(args),
            Op::AdaptiveMaxPool(pool) => pool.infer_max(args),
            Op::AdaptiveAvgPool(pool) => pool.infer_avg(args),
            Op::MaxPoolBackward { spatial } => pool::infer_max_backward(spatial, args),
            Op::AvgPoolBackward { pool, spatial } => pool.infer_backward(spatial, args),
            Op::AdaptiveAvgPoolBackward { spatial } => pool::infer_adaptive_avg_backward(spatial, args),
            Op::BatchNorm(norm) => norm.infer(args),
            Op::GroupNorm(norm) => norm.infer(args),
            Op::Interpolate(interpolate) => interpolate.infer(args),
            Op::InterpolateBackward { interpolate, spatial } => interpolate.infer_backward(spatial, args),
            Op::Linalg(op) => op.infer(args),
        }
    }

    /// The dtype of the result of a function of each element or pair, for `args` arguments of `dtype` and of one shape,
    /// which then is the result's: what [`infer`](Self::infer) finds in that case, at less expense. `None` for other
    /// operations, and where that is an error.
    #[inline]
    pub fn elementwise_output(&self, dtype: DType, args: usize) -> Option<DType> {
        match (self, args) {
            (Op::Unary(op), 1) => op.output(dtype),
            (Op::Binary(op), 2) => op.accepts(dtype).then_some(dtype),
            (Op::Compare(op), 2) => op.accepts(dtype).then_some(DType::Bool),
            _ => None,
        }
    }

    /// The dtype that decides how fast the operation is, among those of its arguments and results: of a product or a
    /// lookup that of the weight, of a conversion that of the blocks, if any.
    pub fn leading_dtype(&self, args: &[TensorMeta<'_>], outs: &[OutputMeta]) -> DType {
        let arg = |i: usize| args.get(i).map(|x| x.dtype);
        let first = || arg(0).or_else(|| outs.first().map(|out| out.dtype)).unwrap_or(DType::F32);
        match self {
            Op::MatMul(_) | Op::ExpertMatMul { .. } | Op::Where => arg(1).unwrap_or_else(first),
            Op::Cast(to) if to.is_quant() => *to,
            _ => first(),
        }
    }

    /// How much work the operation is, for arguments and results that [`infer`](Self::infer) accepted.
    pub fn work(&self, args: &[TensorMeta<'_>], outs: &[OutputMeta]) -> Work {
        let out_elements = outs.first().map_or(0, |out| out.shape.elements()) as u64;
        let in_elements = args.first().map_or(0, |x| x.layout.elements()) as u64;
        let written: usize =
            outs.iter().map(|o| crate::meta::packed_bytes(o.dtype, o.shape.elements())).sum();
        let read: usize = match self {
            // Of a table, only the chosen rows are read.
            Op::Embedding | Op::IndexSelect { .. } | Op::Gather { .. } => written,
            Op::ExpertMatMul { .. } => matmul::expert_bytes(args),
            _ => args.iter().map(TensorMeta::packed_bytes).sum(),
        };
        let flops = match self {
            Op::Unary(_)
            | Op::Binary(_)
            | Op::Compare(_)
            | Op::Where
            | Op::Clamp { .. }
            | Op::Gate(_)
            | Op::Cast(_)
            | Op::Chain(_) => self.flops_per_element() * out_elements,
            Op::Random(_) => 20 * out_elements,
            Op::Reduce(_) | Op::Scan { .. } => in_elements,
            Op::MatMul(_) => matmul::flops(args, out_elements),
            Op::ExpertMatMul { .. } => matmul::expert_flops(args, out_elements),
            Op::Conv(_) => conv::flops(out_elements as usize, args[1].dims()),
            Op::ConvBackwardData(_) => conv::flops(in_elements as usize, args[1].dims()),
            Op::ConvBackwardWeight(_) => conv::flops(args[1].layout.elements(), outs[0].shape.dims()),
            Op::Softmax(_) => 12 * in_elements,
            Op::LayerNorm(_) => 8 * in_elements,
            Op::RmsNorm(_) => 4 * in_elements,
            Op::AddRmsNorm(_) => 5 * in_elements,
            Op::Attention(attention) => attention.flops(args),
            Op::Rope { .. } => 6 * in_elements,
            Op::Sort(_) | Op::TopK(_) => in_elements * u64::from(in_elements.max(2).ilog2()),
            Op::MaxPool(pool) => pool.flops(out_elements),
            Op::AvgPool(pool) => pool.flops(out_elements),
            Op::AvgPoolBackward { pool, .. } => pool.flops(in_elements),
            Op::AdaptiveMaxPool(_) | Op::AdaptiveAvgPool(_) | Op::MaxPoolBackward { .. } => in_elements,
            Op::AdaptiveAvgPoolBackward { .. } => out_elements,
            Op::BatchNorm(norm) => in_elements * if norm.training { 8 } else { 3 },
            Op::GroupNorm(_) => 8 * in_elements,
            Op::Interpolate(interpolate) => interpolate.flops(out_elements),
            Op::InterpolateBackward { interpolate, .. } => interpolate.flops(in_elements),
            Op::Linalg(op) => op.flops(args, outs),
            _ => 0,
        };
        Work { flops, bytes: (read + written) as u64 }
    }
}

/// One result of this dtype and shape.
fn one(dtype: DType, shape: Shape) -> Result<Outputs> {
    Ok(smallvec![OutputMeta { dtype, shape }])
}

/// Checks the number of arguments.
fn expect_args(
    op: &'static str,
    args: &[TensorMeta<'_>],
    counts: std::ops::RangeInclusive<usize>,
) -> Result<()> {
    if counts.contains(&args.len()) {
        return Ok(());
    }
    Err(Error::argument(
        op,
        format!("takes {} to {} arguments, {} were given", counts.start(), counts.end(), args.len()),
    ))
}

/// Checks the number of arguments, that none is of a block type, and that all have the first one's dtype, which is
/// returned.
fn same_dense(
    op: &'static str,
    args: &[TensorMeta<'_>],
    counts: std::ops::RangeInclusive<usize>,
) -> Result<DType> {
    expect_args(op, args, counts)?;
    dense(op, args)?;
    let dtype = args[0].dtype;
    if args.iter().any(|x| x.dtype != dtype) {
        return Err(Error::dtype(
            op,
            "operands must have one dtype; cast them",
            args.iter().map(|x| x.dtype),
        ));
    }
    Ok(dtype)
}

/// Checks that no argument is of a block type.
fn dense(op: &'static str, args: &[TensorMeta<'_>]) -> Result<()> {
    match args.iter().find(|x| x.dtype.is_quant()) {
        None => Ok(()),
        Some(x) => {
            Err(Error::dtype(op, "does not take a block-quantized tensor; cast it to f32 first", [x.dtype]))
        }
    }
}

/// Checks that an argument is real floating-point.
fn float(op: &'static str, dtype: DType) -> Result<()> {
    if dtype.is_float() { Ok(()) } else { Err(Error::dtype(op, "needs a floating-point dtype", [dtype])) }
}

/// Checks that an argument is an index: `I32` or `I64`.
fn index_dtype(op: &'static str, x: &TensorMeta<'_>) -> Result<()> {
    match x.dtype {
        DType::I32 | DType::I64 => Ok(()),
        other => Err(Error::dtype(op, "indices must be i32 or i64", [other])),
    }
}

/// Checks that an axis exists in a shape (a scalar has axis 0, as in PyTorch).
fn axis_in(op: &'static str, axis: usize, shape: &Shape) -> Result<()> {
    if axis < shape.rank().max(1) {
        Ok(())
    } else {
        Err(Error::Axis { op, axis: axis as isize, rank: shape.rank() })
    }
}

/// The length of an axis; 1 for the axis 0 of a scalar.
fn axis_len(shape: &Shape, axis: usize) -> usize {
    shape.get(axis).copied().unwrap_or(1)
}
