//! Normalisation of channels, and its gradients: batch and group normalisation. Channels are dimension 1.

use super::{OpType, Operation, expect_args, float, in_elements, one};
use crate::{DType, Error, OutputMeta, Outputs, Result, Shape, TensorMeta};

/// `(x − mean) / √(variance + eps) · weight + bias`, with a mean, variance, weight and bias for each channel.
///
/// Weight, bias and given statistics have one dtype: that of `x`, or `F32` where `x` is a 16-bit float.
///
/// Ioffe, Szegedy: *Batch Normalization*, 2015.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct BatchNorm {
    /// Whether mean and variance are those of the batch, returned as second and third result (the variance divided by n,
    /// both in `F32` for 16-bit floats); else they are the second and third argument.
    pub training: bool,
    /// Added to the variance.
    #[cfg_attr(feature = "serde", serde(with = "crate::serial::float"))]
    pub eps: f64,
}

impl BatchNorm {
    /// The operation's name.
    pub const NAME: &'static str = "batch_norm";
}

impl Operation for BatchNorm {
    const CLASS: OpType = OpType::Normalization;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        let counts = if self.training { 1..=3 } else { 3..=5 };
        let (dtype, channels) = channels(Self::NAME, args, counts)?;
        let mut outs = one(dtype, args[0].shape().clone())?;
        if self.training {
            outs.extend((0..2).map(|_| OutputMeta { dtype: wide(dtype), shape: channels.clone() }));
        }
        Ok(outs)
    }

    fn flops(&self, args: &[TensorMeta<'_>], _: &[OutputMeta]) -> u64 {
        in_elements(args) * if self.training { 8 } else { 3 }
    }
}

/// `(x − mean) / √(variance + eps) · weight + bias` over groups of channels of each sample; weight and bias have an
/// element for each channel, and the dtype of `x`, or `F32` where `x` is a 16-bit float.
///
/// As many groups as channels make instance normalisation.
///
/// Wu, He: *Group Normalization*, 2018.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct GroupNorm {
    /// How many groups the channels fall into, of equal size.
    pub groups: usize,
    /// Added to the variance.
    #[cfg_attr(feature = "serde", serde(with = "crate::serial::float"))]
    pub eps: f64,
}

impl GroupNorm {
    /// The operation's name.
    pub const NAME: &'static str = "group_norm";
}

impl Operation for GroupNorm {
    const CLASS: OpType = OpType::Normalization;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        let (dtype, channels) = channels(Self::NAME, args, 1..=3)?;
        in_groups(Self::NAME, self.groups, &channels, &args[0])?;
        one(dtype, args[0].shape().clone())
    }

    fn flops(&self, args: &[TensorMeta<'_>], _: &[OutputMeta]) -> u64 {
        8 * in_elements(args)
    }
}

/// The gradients of [`BatchNorm`], from that of its result: `(grad, x, mean, variance[, weight])` give those of `x`, of the weight
/// and of the bias which are wanted, in this order, those of weight and bias in `F32` for 16-bit floats. The weight matters to `x`'s
/// alone.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct BatchNormBackward {
    /// Whether mean and variance are those of `x`, so that its gradient goes through them, too; else they are constants.
    pub training: bool,
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

impl BatchNormBackward {
    /// The operation's name.
    pub const NAME: &'static str = "batch_norm_backward";
}

impl Operation for BatchNormBackward {
    const CLASS: OpType = OpType::Normalization;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        let wanted = [self.x, self.weight, self.bias];
        backward(Self::NAME, args, 4..=5, wanted).map(|(outs, _)| outs)
    }

    fn flops(&self, args: &[TensorMeta<'_>], _: &[OutputMeta]) -> u64 {
        10 * in_elements(&args[..1])
    }
}

/// The gradients of [`GroupNorm`], from that of its result: `(grad, x[, weight])` give those of `x`, of the weight and of the bias
/// which are wanted, in this order, those of weight and bias in `F32` for 16-bit floats. The weight matters to `x`'s alone.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct GroupNormBackward {
    /// How many groups the channels fall into, of equal size.
    pub groups: usize,
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

impl GroupNormBackward {
    /// The operation's name.
    pub const NAME: &'static str = "group_norm_backward";
}

impl Operation for GroupNormBackward {
    const CLASS: OpType = OpType::Normalization;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        let (outs, channels) = backward(Self::NAME, args, 2..=3, [self.x, self.weight, self.bias])?;
        in_groups(Self::NAME, self.groups, &channels, &args[1])?;
        Ok(outs)
    }

    fn flops(&self, args: &[TensorMeta<'_>], _: &[OutputMeta]) -> u64 {
        15 * in_elements(&args[..1])
    }
}

/// Gradients of what is normalised, of the weight and of the bias, as they are wanted, and the shape `[channels]`.
fn backward(
    name: &'static str,
    args: &[TensorMeta<'_>],
    counts: std::ops::RangeInclusive<usize>,
    [x, weight, bias]: [bool; 3],
) -> Result<(Outputs, Shape)> {
    expect_args(name, args, counts)?;
    let (dtype, channels) = channels(name, &args[1..], 1..=4)?;
    if args[0].shape() != args[1].shape() || args[0].dtype != dtype {
        return Err(Error::shape(
            name,
            "the gradient must have the shape and dtype of what was normalised",
            [args[0].shape(), args[1].shape()],
        ));
    }
    if !(x || weight || bias) {
        return Err(Error::argument(name, "at least one of the gradients must be wanted"));
    }
    let mut outs = Outputs::new();
    if x {
        outs.push(OutputMeta { dtype, shape: args[1].shape().clone() });
    }
    let wide = wide(dtype);
    outs.extend(
        [weight, bias].iter().filter(|&&w| w).map(|_| OutputMeta { dtype: wide, shape: channels.clone() }),
    );
    Ok((outs, channels))
}

/// The dtype of statistics.
fn wide(dtype: DType) -> DType {
    if dtype == DType::F64 { DType::F64 } else { DType::F32 }
}

/// Checks that channels fall into so many groups of equal size.
fn in_groups(name: &'static str, groups: usize, channels: &Shape, x: &TensorMeta<'_>) -> Result<()> {
    if groups == 0 || !channels[0].is_multiple_of(groups) {
        return Err(Error::shape(
            name,
            format!("{} channels do not fall into {groups} equal groups", channels[0]),
            [x.shape()],
        ));
    }
    Ok(())
}

/// The dtype of `x`, the first argument, and the shape `[channels]`, which all others have.
fn channels(
    name: &'static str,
    args: &[TensorMeta<'_>],
    counts: std::ops::RangeInclusive<usize>,
) -> Result<(DType, Shape)> {
    expect_args(name, args, counts)?;
    let (x, others) = (&args[0], &args[1..]);
    float(name, x.dtype)?;
    let Some(&channels) = x.dims().get(1) else {
        return Err(Error::shape(name, "needs a batch and a channel dimension", [x.shape()]));
    };
    let channels = Shape::new([channels].as_slice())?;
    if let Some(other) = others.iter().find(|other| other.shape() != &channels) {
        return Err(Error::shape(
            name,
            format!("weight, bias and statistics must have shape {channels}"),
            [x.shape(), other.shape()],
        ));
    }
    let narrow = matches!(x.dtype, DType::F16 | DType::BF16);
    let fits = |dtype| dtype == x.dtype || narrow && dtype == DType::F32;
    if others.iter().any(|other| !fits(other.dtype) || other.dtype != others[0].dtype) {
        return Err(Error::dtype(
            name,
            "weight, bias and statistics must all have the dtype of x (or all be f32, for 16-bit x); cast them",
            args.iter().map(|arg| arg.dtype),
        ));
    }
    Ok((x.dtype, channels))
}
