//! Normalisations and softmax.

use super::{axis_in, float, one, same_dense};
use crate::{Error, OutputMeta, Outputs, Result, TensorMeta};
use smallvec::smallvec;

/// Softmax along an axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Softmax {
    /// The axis.
    pub axis: usize,
    /// Whether to return the logarithm.
    pub log: bool,
}

impl Softmax {
    pub(super) const fn name(&self) -> &'static str {
        if self.log { "log_softmax" } else { "softmax" }
    }

    pub(super) fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        let dtype = same_dense(self.name(), args, 1..=1)?;
        float(self.name(), dtype)?;
        axis_in(self.name(), self.axis, args[0].shape())?;
        one(dtype, args[0].shape().clone())
    }
}

/// `(x − mean) / √(variance + eps) · weight + bias` over the trailing dimensions.
///
/// Ba, Kiros, Hinton: *Layer Normalization*, 2016.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerNorm {
    /// How many trailing dimensions are normalised together; weight and bias have their shape.
    pub dims: usize,
    /// Added to the variance.
    pub eps: f64,
}

impl LayerNorm {
    pub(super) fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        norm("layer_norm", self.dims, args, 3)
    }
}

/// `x / √(mean(x²) + eps) · weight` over the last dimension.
///
/// Zhang, Sennrich: *Root Mean Square Layer Normalization*, 2019.
#[derive(Clone, Debug, PartialEq)]
pub struct RmsNorm {
    /// Added to the mean square.
    pub eps: f64,
}

impl RmsNorm {
    pub(super) fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        norm("rms_norm", 1, args, 2)
    }

    /// Of a sum, which is the first result.
    pub(super) fn infer_added(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        const NAME: &str = "add_rms_norm";
        let dtype = same_dense(NAME, args, 2..=3)?;
        let shape = args[0].shape();
        if args[1].shape() != shape {
            return Err(Error::shape(
                NAME,
                "what is added must have the same shape; expand it",
                [shape, args[1].shape()],
            ));
        }
        trailing(NAME, 1, &args[0], &args[2..])?;
        let like = || OutputMeta { dtype, shape: shape.clone() };
        Ok(smallvec![like(), like()])
    }
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
    if dims == 0 || dims > shape.rank() {
        return Err(Error::shape(name, format!("cannot normalise over the last {dims} dimensions"), [shape]));
    }
    let normalised = &shape[shape.rank() - dims..];
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
