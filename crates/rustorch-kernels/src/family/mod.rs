//! Kernels by family. A family's file holds both sides of each kernel: its text, and the launches that use it.

pub mod attention;
pub mod border;
pub mod channel_norm;
pub mod conv;
pub mod copy;
pub mod create;
mod kind;
pub mod layer_norm;
mod lines;
pub mod matmul;
pub mod pointwise;
pub mod pooling;
pub mod random;
pub mod reduce;
pub mod rms_norm;
pub mod rope;
mod scalars;
pub mod scan;
pub mod scatter;
pub mod select;
pub mod softmax;
pub mod sort;
pub mod strided;
mod tile;
pub mod weight;

use crate::plan::{Operand, Plan, Request};
use crate::wgsl::Wgsl;
use crate::{Hardware, pieces};
use rustorch_core::{Decline, Op};

macro_rules! kernels {
    ($($(#[$doc:meta])* $name:ident($ty:ty),)*) => {
        /// A kernel: what its text depends on.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub enum Kernel { $($(#[$doc])* $name($ty),)* }

        impl Kernel {
            /// Its text for a device.
            pub fn wgsl(&self, hardware: &Hardware) -> Wgsl {
                match self { $(Kernel::$name(kernel) => kernel.wgsl(hardware),)* }
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
    /// A product of dense matrices.
    MatMul(matmul::MatMul),
    /// Elements chosen by indices.
    Select(select::Select),
    /// Elements brought to the places of indices.
    Scatter(scatter::Scatter),
    /// A reduction.
    Reduce(reduce::Reduce),
    /// Running sums and products.
    Scan(scan::Scan),
    /// Softmax and its logarithm.
    Softmax(softmax::Softmax),
    /// Layer normalisation.
    LayerNorm(layer_norm::LayerNorm),
    /// Sorting.
    Sort(sort::Sort),
    /// Sorting of long lines.
    SortLong(sort::Long),
    /// A triangle of matrices.
    Triangle(border::Triangle),
    /// A function of each element, or of corresponding ones.
    Pointwise(pointwise::Pointwise),
    /// Several of these in one pass.
    Chain(pointwise::Chain),
    /// One value everywhere.
    Fill(create::Fill),
    /// Evenly spaced numbers.
    Arange(create::Arange),
    /// Random numbers.
    Random(random::Random),
    /// RMS normalisation.
    RmsNorm(rms_norm::RmsNorm),
    /// Cosines and sines of positions.
    Angles(rope::Angles),
    /// Rotation by them.
    Rotate(rope::Rotate),
    /// Scaled dot-product attention.
    Attention(attention::Attention),
    /// Activations to 8-bit blocks.
    RoundActivations(weight::Round),
    /// Choices of experts to tiles of one expert each.
    GroupChoices(weight::Group),
    /// Rows of a block-quantized table.
    WeightRows(weight::Rows),
    /// A product with a block-quantized weight.
    WeightProduct(weight::Product),
    /// An exact one with few rows of activations.
    WeightFew(weight::Few),
    /// An exact one with many.
    WeightMany(weight::Many),
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

/// The launches of an operation that the [table](crate::table) allows.
///
/// # Errors
/// If its size is beyond the device's limits.
pub fn plan(request: &Request<'_>) -> Result<Plan, Decline> {
    let mut plan = Plan::default();
    pieces::plan(&mut plan, request, launches)?;
    Ok(plan)
}

/// Whether an operation's kernels write a result of rows with gaps between them where it belongs: rows of whole words.
pub(crate) fn writes_rows(op: &Op, out: &Operand<'_>, hardware: &Hardware) -> bool {
    let bytes = (out.layout.end() as u64).saturating_mul(out.dtype.block_bytes() as u64);
    // Chains write one run.
    (pointwise::is_function(op) || matches!(op, Op::Rope { .. }))
        // What is larger is cut, and its parts are made apart.
        && bytes <= hardware.max_binding
        && out.layout.rank() <= strided::MAX_RANK
        && copy::rows_of_words(out).is_some()
}

/// Adds the launches of an operation, or of a piece of one, on operands that kernels see at once.
fn launches(plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
    match request.op {
        Op::Unary(_)
        | Op::Binary(_)
        | Op::Compare(_)
        | Op::Where
        | Op::Clamp { .. }
        | Op::Gate(_)
        | Op::Cast(_) => pointwise::plan(plan, request),
        Op::Chain(chain) => pointwise::plan_chain(plan, request, chain),
        Op::Fill(fill) => create::plan_fill(plan, request, fill),
        Op::Arange(arange) => create::plan_arange(plan, request, arange),
        Op::Random(random) => random::plan(plan, request, random),
        Op::RmsNorm(norm) => rms_norm::plan(plan, request, norm.eps, false),
        Op::AddRmsNorm(norm) => rms_norm::plan(plan, request, norm.eps, true),
        Op::Rope { rope, .. } => rope::plan(plan, request, rope),
        Op::Attention(attention) => attention::plan(plan, request, attention),
        Op::Copy => copy::plan(plan, request.hardware, &request.arg(0), &request.out(0)),
        Op::MatMul(_) | Op::ExpertMatMul { .. } if request.args[1].dtype.is_quant() => {
            weight::plan(plan, request)
        }
        Op::MatMul(_) | Op::ExpertMatMul { .. } => matmul::plan(plan, request),
        Op::Embedding if request.args[0].dtype.is_quant() => weight::plan_rows(plan, request),
        Op::Embedding | Op::IndexSelect { .. } | Op::Gather { .. } => select::plan(plan, request),
        Op::Scatter { axis, mode } => scatter::plan(plan, request, *axis, *mode),
        Op::Concat { axis } => border::concat(plan, request, *axis),
        Op::Reduce(reduce) => reduce::plan(plan, request, reduce),
        Op::Scan { op, axis } => scan::plan(plan, request, *op, *axis),
        Op::Softmax(softmax) => softmax::plan(plan, request, softmax),
        Op::LayerNorm(norm) => layer_norm::plan(plan, request, norm),
        Op::Sort(sort) => sort::plan(plan, request, sort.axis, sort.descending),
        Op::TopK(top) => sort::plan(plan, request, top.axis, top.largest),
        Op::Pad(pad) => border::pad(plan, request, pad),
        Op::Triangle(triangle) => border::triangle(plan, request, triangle),
        Op::Conv(_) | Op::ConvBackwardData(_) | Op::ConvBackwardWeight(_) => conv::plan(plan, request),
        Op::BatchNorm(_) | Op::GroupNorm(_) => channel_norm::plan(plan, request),
        Op::MaxPool(_)
        | Op::AvgPool(_)
        | Op::AdaptiveMaxPool(_)
        | Op::AdaptiveAvgPool(_)
        | Op::MaxPoolBackward { .. }
        | Op::AvgPoolBackward { .. }
        | Op::AdaptiveAvgPoolBackward { .. }
        | Op::Interpolate(_)
        | Op::InterpolateBackward { .. } => pooling::plan(plan, request),
        op => Err(Decline::Op(op.name())),
    }
}
