//! Losses.

use super::{OpType, Operation, axis_in, dense, expect_args, float, in_elements, index_dtype};
use crate::{DType, Error, OutputMeta, Outputs, Result, Shape, TensorMeta};
use smallvec::smallvec;

/// The cross entropy of logits along an axis with classes, or with probabilities.
///
/// `target` is either classes, `I32` or `I64` of the shape of the logits without the axis, or probabilities, of their dtype and
/// shape. `weight` has one value `w` for each class. With `y` for the probabilities (1 at the class of a row and else 0) and
/// `C` classes, the target is smoothed to `q = w · ((1 − label_smoothing) · y + label_smoothing / C)`, and a row's loss is
/// `Σ q · (logsumexp − logits)`. A row whose class is `ignore_index` has no loss.
///
/// The results have a value for each row, in `F32` for 16-bit floats: the loss; `logsumexp` and what rounding took from it, which
/// the gradient needs; and of classes the weight of the row's, 0 if it is ignored.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct CrossEntropy {
    /// The axis of the classes.
    pub axis: usize,
    /// The class of rows without a loss.
    pub ignore_index: i64,
    /// How much of a target is spread evenly over the classes, from 0 to 1.
    #[cfg_attr(feature = "serde", serde(with = "crate::serial::float"))]
    pub label_smoothing: f64,
}

impl CrossEntropy {
    /// The operation's name.
    pub const NAME: &'static str = "cross_entropy";
}

impl Operation for CrossEntropy {
    const CLASS: OpType = OpType::Reduction;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        expect_args(Self::NAME, args, 2..=3)?;
        let (dtype, rows) = rows(Self::NAME, self.axis, &args[0])?;
        let has_classes = target(Self::NAME, self.axis, &args[0], &args[1..])?;
        smoothing(Self::NAME, self.label_smoothing)?;
        let each = OutputMeta { dtype, shape: rows };
        Ok(smallvec![each; if has_classes { 4 } else { 3 }])
    }

    fn fails_on_values(&self) -> bool {
        true
    }

    fn flops(&self, args: &[TensorMeta<'_>], _: &[OutputMeta]) -> u64 {
        14 * in_elements(args)
    }
}

/// The gradient of the logits of [`CrossEntropy`], from that of its loss: `(Σq · e^(logits − logsumexp − rest) − q) · grad`, and 0
/// in rows that are ignored. It may be written over the logits.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct CrossEntropyBackward {
    /// The axis of the classes.
    pub axis: usize,
    /// The class of rows without a loss.
    pub ignore_index: i64,
    /// How much of a target is spread evenly over the classes, from 0 to 1.
    #[cfg_attr(feature = "serde", serde(with = "crate::serial::float"))]
    pub label_smoothing: f64,
}

impl CrossEntropyBackward {
    /// The operation's name.
    pub const NAME: &'static str = "cross_entropy_backward";
}

impl Operation for CrossEntropyBackward {
    const CLASS: OpType = OpType::Reduction;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        expect_args(Self::NAME, args, 5..=6)?;
        let (dtype, rows) = rows(Self::NAME, self.axis, &args[1])?;
        for x in [&args[0], &args[2], &args[3]] {
            if x.dtype != dtype {
                let message = "the gradient and logsumexp must have the dtype of the loss";
                return Err(Error::dtype(Self::NAME, message, [dtype, x.dtype]));
            }
            if *x.shape() != rows {
                let message = "the gradient and logsumexp must have one value for each row of the logits";
                return Err(Error::shape(Self::NAME, message, [args[1].shape(), x.shape()]));
            }
        }
        target(Self::NAME, self.axis, &args[1], &args[4..])?;
        smoothing(Self::NAME, self.label_smoothing)?;
        Ok(smallvec![OutputMeta { dtype: args[1].dtype, shape: args[1].shape().clone() }])
    }

    fn fails_on_values(&self) -> bool {
        true
    }

    /// The classes are looked at before anything is written.
    fn may_overwrite(&self, arg: usize, _out: usize) -> bool {
        arg == 1
    }

    fn leading_argument(&self) -> usize {
        1
    }

    fn flops(&self, args: &[TensorMeta<'_>], _: &[OutputMeta]) -> u64 {
        14 * in_elements(&args[1..])
    }
}

/// The dtype and shape of what has a value for each row of the logits.
fn rows(name: &'static str, axis: usize, logits: &TensorMeta<'_>) -> Result<(DType, Shape)> {
    float(name, logits.dtype)?;
    let shape = logits.shape();
    if shape.ndim() == 0 {
        return Err(Error::shape(name, "logits need a dimension of classes", [shape]));
    }
    axis_in(name, axis, shape)?;
    if shape[axis] == 0 {
        return Err(Error::shape(name, format!("there are no classes in dimension {axis}"), [shape]));
    }
    let dtype = match logits.dtype {
        DType::F16 | DType::BF16 => DType::F32,
        other => other,
    };
    Ok((dtype, shape.reduced(&[axis], false)))
}

/// Checks the target and the weight; whether the target is classes.
fn target(name: &'static str, axis: usize, logits: &TensorMeta<'_>, args: &[TensorMeta<'_>]) -> Result<bool> {
    dense(name, args)?;
    let target = &args[0];
    let has_classes = !target.dtype.is_float();
    if has_classes {
        index_dtype(name, target)?;
    }
    for x in args.iter().filter(|x| x.dtype.is_float()) {
        if x.dtype != logits.dtype {
            let message = "probabilities and weights must have the dtype of the logits; cast them";
            return Err(Error::dtype(name, message, [logits.dtype, x.dtype]));
        }
    }
    let wanted = if has_classes { logits.shape().reduced(&[axis], false) } else { logits.shape().clone() };
    if *target.shape() != wanted {
        let what = if has_classes { "classes" } else { "probabilities" };
        let message = format!("a target of {what} must have shape {wanted} for these logits");
        return Err(Error::shape(name, message, [logits.shape(), target.shape()]));
    }
    let Some(weight) = args.get(1) else { return Ok(has_classes) };
    if !weight.dtype.is_float() {
        return Err(Error::dtype(
            name,
            "the weight needs the dtype of the logits",
            [logits.dtype, weight.dtype],
        ));
    }
    if weight.dims() != [logits.shape()[axis]] {
        let message = "the weight must have one value for each class";
        return Err(Error::shape(name, message, [logits.shape(), weight.shape()]));
    }
    Ok(has_classes)
}

fn smoothing(name: &'static str, label_smoothing: f64) -> Result<()> {
    if (0.0..=1.0).contains(&label_smoothing) {
        return Ok(());
    }
    Err(Error::argument(name, format!("label_smoothing must be from 0 to 1, and is {label_smoothing}")))
}
