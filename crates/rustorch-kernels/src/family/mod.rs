//! Kernels by family. A family file holds both sides of each kernel: its WGSL source and the launches that use it.

pub mod attention;
pub mod attention_backward;
pub mod border;
pub mod causal_conv1d;
pub mod channel_norm;
pub mod channel_norm_backward;
pub mod conv;
pub mod create;
pub mod cross_entropy;
pub mod custom;
pub mod dropout;
pub mod foreach;
pub mod gather_sum;
pub mod layer_norm;
mod lines;
pub mod matmul;
pub mod matvec;
pub mod norm_backward;
pub mod optimizer_step;
pub mod pointwise;
pub mod pooling;
pub mod random;
pub mod recurrence;
pub mod reduce;
pub mod rms_norm;
pub mod rnn_gates;
pub mod rope;
pub mod scan;
pub mod scatter;
pub mod select;
pub mod slice_update;
pub mod softmax;
pub mod softmax_backward;
pub mod sort;
pub mod table;
mod tile;
pub mod weight;

use crate::Hardware;
use crate::library::strided;
use crate::plan::{Operand, Request};
use crate::splitting::{self, Chunk, SplitPlan, copy};
use crate::wgsl::Wgsl;
use rustorch_core::{Assert, CopyOp, Decline, Fft, IntMm, Linalg, LogGammaGrad, Op, Sample, with_op};

pub use table::{capability, markdown, supports};

/// The launches of an operation.
pub type Plan = crate::plan::Plan<Kernel>;

/// Collects what a launch of one of these kernels is made of.
pub(crate) type StepBuilder<'h> = crate::plan::StepBuilder<'h, Kernel>;

macro_rules! kernels {
    ($($(#[$doc:meta])* $name:ident($ty:ty),)*) => {
        /// A kernel: what its source depends on.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub enum Kernel { $($(#[$doc])* $name($ty),)* }

        impl Kernel {
            /// Its source for a device.
            pub fn wgsl(&self, hardware: &Hardware) -> Wgsl {
                match self { $(Kernel::$name(kernel) => kernel.wgsl(hardware),)* }
            }

            /// A name for people.
            pub fn label(&self) -> String {
                format!("{self:?}")
            }
        }

        $(impl From<$ty> for Kernel {
            fn from(kernel: $ty) -> Kernel { Kernel::$name(kernel) }
        })*
    };
}

kernels! {
    /// Elements from one arrangement to another.
    Copy(copy::Copy),
    /// A matmul of dense matrices.
    MatMul(matmul::MatMul),
    /// The same of few rows, each row of the weight by many threads.
    MatVec(matvec::MatVec),
    /// Elements chosen by indices.
    Select(select::Select),
    /// Weighted sums of elements chosen by indices.
    GatherSum(gather_sum::GatherSum),
    /// Elements brought to the places of indices.
    Scatter(scatter::Scatter),
    /// Elements over a part of others.
    SliceUpdate(slice_update::SliceUpdate),
    /// A reduction.
    Reduce(reduce::Reduce),
    /// Running sums and products.
    Scan(scan::Scan),
    /// Softmax and its logarithm.
    Softmax(softmax::Softmax),
    /// Their gradients.
    SoftmaxBackward(softmax_backward::SoftmaxBackward),
    /// Cross entropy, and its gradient.
    CrossEntropy(cross_entropy::CrossEntropy),
    /// Layer normalisation.
    LayerNorm(layer_norm::LayerNorm),
    /// Gradients of layer and RMS normalisation.
    NormBackward(norm_backward::NormBackward),
    /// Norms and products of many tensors.
    Foreach(foreach::Foreach),
    /// Steps of optimizers.
    OptimizerStep(optimizer_step::OptimizerStep),
    /// Gradients of batch and group normalisation.
    ChannelNormBackward(channel_norm_backward::ChannelNormBackward),
    /// Sorting.
    Sort(sort::Sort),
    /// Sorting of long lines.
    SortLong(sort::Long),
    /// A triangle of matrices.
    Tri(border::Tri),
    /// A function of each element, or of corresponding ones.
    Pointwise(pointwise::Pointwise),
    /// Several of these in one pass.
    FusedPointwise(pointwise::FusedPointwise),
    /// One value everywhere.
    Fill(create::Fill),
    /// Evenly spaced numbers.
    Arange(create::Arange),
    /// A user's compute shader.
    Custom(custom::Custom),
    /// Random numbers.
    Random(random::Random),
    /// Dropout.
    Dropout(dropout::Dropout),
    /// RMS normalisation.
    RmsNorm(rms_norm::RmsNorm),
    /// Cosines and sines of positions.
    RopeCosSin(rope::RopeCosSin),
    /// Rotation by them.
    ApplyRope(rope::ApplyRope),
    /// Scaled dot-product attention, query by query.
    Attention(attention::Attention),
    /// The same in tiles of queries.
    AttentionTiled(attention::Tiled),
    /// The results of splits of keys, combined.
    AttentionCombine(attention::Combine),
    /// Its gradients.
    AttentionBackward(attention_backward::AttentionBackward),
    /// The same in tiles.
    AttentionBackwardTiled(attention_backward::TiledBackward),
    /// Sums that these need.
    AttentionDelta(attention_backward::Delta),
    /// The gates of LSTM and GRU, and their gradients.
    RnnGates(rnn_gates::RnnGates),
    /// A causal depthwise convolution.
    CausalConv1d(causal_conv1d::CausalConv1d),
    /// The gated delta rule, the scan of state space models, the recurrence of RWKV 7.
    Recurrence(recurrence::Recurrence),
    /// Activations to 8-bit blocks.
    QuantizeActivations(weight::QuantizeActivations),
    /// Choices of experts to tiles of one expert each.
    GroupChoices(weight::Group),
    /// Rows of a block-quantized table.
    WeightRows(weight::Rows),
    /// A matmul with a block-quantized weight.
    WeightMatMul(weight::WeightMatMul),
    /// The same for few rows of activations, each row of the weight by many threads.
    WeightMatVec(weight::WeightMatVec),
    /// The same for many rows of activations, by tiles in workgroup memory.
    WeightTiled(weight::WeightTiled),
    /// The same by tensor cores.
    WeightTensorCore(weight::WeightTensorCore),
    /// One with few rows of unrounded activations.
    WeightGemv(weight::Gemv),
    /// One with many.
    WeightGemm(weight::Gemm),
    /// A convolution or a gradient of one.
    ConvTiled(conv::Tiled),
    /// One whose groups have few channels.
    ConvDirect(conv::Direct),
    /// Normalisation of channels.
    ChannelNorm(channel_norm::ChannelNorm),
    /// Largest elements of windows.
    MaxPool(pooling::Max),
    /// Means of windows, and their gradient.
    MeanPool(pooling::Mean),
    /// The gradient of largest elements.
    ScatterPool(pooling::Scatter),
    /// Interpolation, and its gradient.
    Interpolate(pooling::Interpolate),
}

/// The launches of an operation that the [table] allows.
///
/// # Errors
/// If its size is beyond the device's limits.
pub fn plan(request: &Request<'_>) -> Result<Plan, Decline> {
    let mut plan = Plan::default();
    match splitting::is_seen(request) {
        true => launches(&mut plan, request)?,
        false => {
            let way = with_op!(request.op, op => op.split(request))?;
            splitting::plan(&mut plan, request, way, narrowed, launches)?;
        }
    }
    Ok(plan)
}

/// What computes an operation, beside its rows in the [table]; and how operands larger than what kernels see at once are
/// split. Unless said otherwise nothing computes it.
pub(crate) trait Kernels {
    /// Plans the launches of the operation, or of a chunk of it, on operands that kernels see at once.
    fn plan(&self, _plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
        Err(Decline::Op(request.op.name()))
    }

    /// Along which axes its operands may be split; none if nowhere, or if `plan` does so itself.
    fn split(&self, _request: &Request<'_>) -> Result<Option<SplitPlan>, Decline> {
        Ok(None)
    }

    /// Whether its kernels bind a result that is in the place of an argument ([`Request::is_in_place`]) and not that argument.
    fn overwrites(&self) -> bool {
        false
    }

    /// The operation of a chunk, if it is another one; of its axes, so many are dimensions of the result.
    fn narrowed(&self, _chunk: &Chunk, _axes: usize) -> Option<Op> {
        None
    }
}

impl Kernels for CopyOp {
    fn plan(&self, plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
        copy::plan(plan, request.hardware, &request.arg(0), &request.out(0))
    }
}

impl Kernels for Linalg {}

impl Kernels for Fft {}

impl Kernels for Sample {}

impl Kernels for LogGammaGrad {}

impl Kernels for IntMm {}

impl Kernels for Assert {}

/// Whether an operation's kernels write a result of rows with gaps between them where it belongs: rows of whole words.
pub(crate) fn writes_rows(op: &Op, out: &Operand<'_>, hardware: &Hardware) -> bool {
    let bytes = (out.layout.end() as u64).saturating_mul(out.dtype.block_bytes() as u64);
    // Chains write one run.
    op.pointwise_arity().is_some()
        // What is larger is cut, and its parts are made apart.
        && bytes <= hardware.max_binding
        && out.layout.ndim() <= strided::MAX_RANK
        && copy::rows_of_words(out).is_some()
}

/// Plans the launches of an operation, or of a chunk of one, on operands that kernels see at once.
fn launches(plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
    with_op!(request.op, op => op.plan(plan, request))
}

/// Whether kernels of an operation write results over arguments.
pub(crate) fn overwrites(op: &Op) -> bool {
    with_op!(op, op => op.overwrites())
}

fn narrowed(op: &Op, chunk: &Chunk, axes: usize) -> Option<Op> {
    with_op!(op, op => op.narrowed(chunk, axes))
}
