//! Normalisations and softmax.

use super::{OpType, Operation, axis_in, float, in_elements, one, same_dense};
use crate::{Error, OutputMeta, Outputs, Result, Shape, TensorMeta};
use smallvec::smallvec;

/// Softmax along an axis.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct Softmax {
    /// The axis.
    pub axis: usize,
    /// Whether to return the logarithm.
    pub log: bool,
}

op_names! {
    /// Softmax, or what is taken of it.
    SoftmaxKind {
        /// Softmax itself.
        Softmax = "softmax",
        /// Its logarithm.
        LogSoftmax = "log_softmax",
    }
}

impl Softmax {
    pub(super) fn kind(&self) -> SoftmaxKind {
        if self.log { SoftmaxKind::LogSoftmax } else { SoftmaxKind::Softmax }
    }
}

impl Operation for Softmax {
    const CLASS: OpType = OpType::Activation;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        let name = self.kind().name();
        let dtype = same_dense(name, args, 1..=1)?;
        float(name, dtype)?;
        axis_in(name, self.axis, args[0].shape())?;
        one(dtype, args[0].shape().clone())
    }

    fn flops(&self, args: &[TensorMeta<'_>], _: &[OutputMeta]) -> u64 {
        12 * in_elements(args)
    }
}

/// The gradient of [`Softmax`], from that of its result and the result `y`: `y · (grad − Σ grad · y)`, or of the logarithm
/// `grad − eʸ · Σ grad`, with sums along the axis.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct SoftmaxBackward {
    /// The axis.
    pub axis: usize,
    /// Whether `y` is the logarithm.
    pub log: bool,
}

op_names! {
    /// What is differentiated: softmax, or its logarithm.
    SoftmaxBackwardKind {
        /// Softmax itself.
        Softmax = "softmax_backward",
        /// Its logarithm.
        LogSoftmax = "log_softmax_backward",
    }
}

impl SoftmaxBackward {
    pub(super) fn kind(&self) -> SoftmaxBackwardKind {
        if self.log { SoftmaxBackwardKind::LogSoftmax } else { SoftmaxBackwardKind::Softmax }
    }
}

impl Operation for SoftmaxBackward {
    const CLASS: OpType = OpType::Activation;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        let name = self.kind().name();
        let dtype = same_dense(name, args, 2..=2)?;
        float(name, dtype)?;
        let shape = args[0].shape();
        if args[1].shape() != shape {
            return Err(Error::shape(
                name,
                "the gradient must have the shape of the result",
                [shape, args[1].shape()],
            ));
        }
        axis_in(name, self.axis, shape)?;
        one(dtype, shape.clone())
    }

    fn flops(&self, args: &[TensorMeta<'_>], _: &[OutputMeta]) -> u64 {
        let each = if self.log { 10 } else { 4 };
        each * in_elements(args)
    }
}

/// `(x − mean) / √(variance + eps) · weight + bias` over the trailing dimensions.
///
/// Ba, Kiros, Hinton: *Layer Normalization*, 2016.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct LayerNorm {
    /// How many trailing dimensions are normalised together; weight and bias have their shape.
    pub dims: usize,
    /// Added to the variance.
    #[cfg_attr(feature = "serde", serde(with = "crate::serial::float"))]
    pub eps: f64,
}

impl LayerNorm {
    /// The operation's name.
    pub const NAME: &'static str = "layer_norm";
}

impl Operation for LayerNorm {
    const CLASS: OpType = OpType::Normalization;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        norm(Self::NAME, self.dims, args, 3)
    }

    fn flops(&self, args: &[TensorMeta<'_>], _: &[OutputMeta]) -> u64 {
        8 * in_elements(args)
    }
}

/// `x / √(mean(x²) + eps) · weight` over the last dimension.
///
/// Zhang, Sennrich: *Root Mean Square Layer Normalization*, 2019.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct RmsNorm {
    /// Added to the mean square.
    #[cfg_attr(feature = "serde", serde(with = "crate::serial::float"))]
    pub eps: f64,
}

impl RmsNorm {
    /// The operation's name.
    pub const NAME: &'static str = "rms_norm";
}

impl Operation for RmsNorm {
    const CLASS: OpType = OpType::Normalization;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        norm(Self::NAME, 1, args, 2)
    }

    fn flops(&self, args: &[TensorMeta<'_>], _: &[OutputMeta]) -> u64 {
        4 * in_elements(args)
    }
}

/// The sum of two tensors, and [`RmsNorm`] of it.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct AddRmsNorm {
    /// Added to the mean square.
    #[cfg_attr(feature = "serde", serde(with = "crate::serial::float"))]
    pub eps: f64,
}

impl AddRmsNorm {
    /// The operation's name.
    pub const NAME: &'static str = "add_rms_norm";
}

impl Operation for AddRmsNorm {
    const CLASS: OpType = OpType::Normalization;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        let dtype = same_dense(Self::NAME, args, 2..=3)?;
        let shape = args[0].shape();
        if args[1].shape() != shape {
            return Err(Error::shape(
                Self::NAME,
                "what is added must have the same shape; expand it",
                [shape, args[1].shape()],
            ));
        }
        trailing(Self::NAME, 1, &args[0], &args[2..])?;
        let like = || OutputMeta { dtype, shape: shape.clone() };
        Ok(smallvec![like(), like()])
    }

    fn flops(&self, args: &[TensorMeta<'_>], _: &[OutputMeta]) -> u64 {
        5 * in_elements(args)
    }
}

/// The gradients of [`LayerNorm`], from that of its result: `(grad, x[, weight])` give those of `x`, of the weight and of the
/// bias which are wanted, in this order. The weight matters to `x`'s alone.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct LayerNormBackward {
    /// How many trailing dimensions are normalised together.
    pub dims: usize,
    /// Added to the variance.
    #[cfg_attr(feature = "serde", serde(with = "crate::serial::float"))]
    pub eps: f64,
    /// Whether the gradient of `x` is wanted.
    pub x: bool,
    /// Whether that of the weight is.
    pub weight: bool,
    /// Whether that of the bias is.
    pub bias: bool,
}

impl LayerNormBackward {
    /// The operation's name.
    pub const NAME: &'static str = "layer_norm_backward";
}

impl Operation for LayerNormBackward {
    const CLASS: OpType = OpType::Normalization;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        norm_backward(Self::NAME, self.dims, args, [self.x, self.weight, self.bias])
    }

    fn flops(&self, args: &[TensorMeta<'_>], _: &[OutputMeta]) -> u64 {
        16 * in_elements(args)
    }
}

/// The gradients of [`RmsNorm`], from that of its result: `(grad, x[, weight])` give those of `x` and of the weight which are
/// wanted, in this order. The weight matters to `x`'s alone.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct RmsNormBackward {
    /// Added to the mean square.
    #[cfg_attr(feature = "serde", serde(with = "crate::serial::float"))]
    pub eps: f64,
    /// Whether the gradient of `x` is wanted.
    pub x: bool,
    /// Whether that of the weight is.
    pub weight: bool,
}

impl RmsNormBackward {
    /// The operation's name.
    pub const NAME: &'static str = "rms_norm_backward";
}

impl Operation for RmsNormBackward {
    const CLASS: OpType = OpType::Normalization;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        norm_backward(Self::NAME, 1, args, [self.x, self.weight, false])
    }

    fn flops(&self, args: &[TensorMeta<'_>], _: &[OutputMeta]) -> u64 {
        10 * in_elements(args)
    }
}

/// Gradients of what is normalised, of the weight and of the bias, as they are wanted.
fn norm_backward(
    name: &'static str,
    dims: usize,
    args: &[TensorMeta<'_>],
    [x, weight, bias]: [bool; 3],
) -> Result<Outputs> {
    let dtype = same_dense(name, args, 2..=3)?;
    let shape = args[1].shape();
    if args[0].shape() != shape {
        return Err(Error::shape(
            name,
            "the gradient must have the shape of what was normalised",
            [args[0].shape(), shape],
        ));
    }
    trailing(name, dims, &args[1], &args[2..])?;
    if !(x || weight || bias) {
        return Err(Error::argument(name, "at least one of the gradients must be wanted"));
    }
    let row = Shape::new(&shape[shape.ndim() - dims..])?;
    let outs = [(x, shape), (weight, &row), (bias, &row)];
    Ok(outs
        .into_iter()
        .filter(|(wanted, _)| *wanted)
        .map(|(_, shape)| OutputMeta { dtype, shape: shape.clone() })
        .collect())
}

fn norm(name: &'static str, dims: usize, args: &[TensorMeta<'_>], most: usize) -> Result<Outputs> {
    let dtype = same_dense(name, args, 1..=most)?;
    trailing(name, dims, &args[0], &args[1..])?;
    one(dtype, args[0].shape().clone())
}

/// Checks that floats can be normalised over the last `dims` dimensions, and that weight and bias have their shape.
fn trailing(name: &'static str, dims: usize, x: &TensorMeta<'_>, affine: &[TensorMeta<'_>]) -> Result<()> {
    float(name, x.dtype)?;
    let shape = x.shape();
    if dims == 0 || dims > shape.ndim() {
        return Err(Error::shape(name, format!("cannot normalise over the last {dims} dimensions"), [shape]));
    }
    let normalised = &shape[shape.ndim() - dims..];
    for affine in affine {
        if affine.dims() != normalised {
            return Err(Error::shape(
                name,
                format!("weight and bias must have shape {normalised:?}"),
                [shape, affine.shape()],
            ));
        }
    }
    Ok(())
}
