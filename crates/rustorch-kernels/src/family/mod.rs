//! Kernels by family. A family's file holds both sides of each kernel: its text, and the launches that use it.

pub mod attention;
pub mod channel_norm;
pub mod conv;
pub mod copy;
pub mod pointwise;
pub mod pooling;
pub mod rms_norm;
pub mod rope;
pub mod strided;
pub mod weight;

use crate::Hardware;
use crate::plan::{Plan, Request};
use crate::wgsl::Wgsl;
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
    /// A function of each element, or of corresponding ones.
    Pointwise(pointwise::Pointwise),
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
    /// A product with a block-quantized weight.
    WeightProduct(weight::Product),
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
    /// Interpolation.
    Interpolate(pooling::Interpolate),
}

/// The launches of an operation that the [table](crate::table) allows.
///
/// # Errors
/// If its size is beyond the device's limits.
pub fn plan(request: &Request<'_>) -> Result<Plan, Decline> {
    let mut plan = Plan::default();
    match request.op {
        Op::Unary(_)
        | Op::Binary(_)
        | Op::Compare(_)
        | Op::Where
        | Op::Clamp { .. }
        | Op::Gate(_)
        | Op::Cast(_) => pointwise::plan(&mut plan, request)?,
        Op::RmsNorm(norm) => rms_norm::plan(&mut plan, request, norm.eps)?,
        Op::Rope(rope) => rope::plan(&mut plan, request, rope)?,
        Op::Attention(attention) => attention::plan(&mut plan, request, attention)?,
        Op::Copy => copy::plan(&mut plan, request.hardware, &request.arg(0), &request.out(0))?,
        Op::MatMul(_) | Op::ExpertMatMul { .. } if request.args[1].dtype.is_quant() => {
            weight::plan(&mut plan, request)?
        }
        Op::Conv(_) | Op::ConvBackwardData(_) | Op::ConvBackwardWeight(_) => conv::plan(&mut plan, request)?,
        Op::BatchNorm(_) | Op::GroupNorm(_) => channel_norm::plan(&mut plan, request)?,
        Op::MaxPool(_)
        | Op::AvgPool(_)
        | Op::AdaptiveMaxPool(_)
        | Op::AdaptiveAvgPool(_)
        | Op::MaxPoolBackward { .. }
        | Op::AvgPoolBackward { .. }
        | Op::AdaptiveAvgPoolBackward { .. }
        | Op::Interpolate(_) => pooling::plan(&mut plan, request)?,
        op => return Err(Decline::Op(op.name())),
    }
    Ok(plan)
}
