//! Losses of scores that shall differ by a margin.

use super::likelihood::{expect_class_weight, expect_classes};
use super::{expect_same_shape, reduce};
use crate::functional::{expect_float, wide};
use rustorch_tensor::{DType, Error, Reduction, Result, Tensor};

/// `max(0, −target · (input1 − input2) + margin)` with targets of −1 and 1, as `torch.nn.functional.margin_ranking_loss`. The three
/// broadcast, and have as many dimensions.
///
/// # Errors
/// If they have not, or do not broadcast, or the inputs are none of floats.
pub fn margin_ranking_loss(
    input1: &Tensor,
    input2: &Tensor,
    target: &Tensor,
    margin: f64,
    reduction: Reduction,
) -> Result<Tensor> {
    const NAME: &str = "margin_ranking_loss";
    expect_float(NAME, input1)?;
    expect_float(NAME, input2)?;
    if input1.ndim() != input2.ndim() || input1.ndim() != target.ndim() {
        let message = "both inputs and the target must have the same number of dimensions";
        return Err(Error::shape(NAME, message, [input1.shape(), input2.shape(), target.shape()]));
    }
    input1.shape().broadcast(input2.shape(), NAME)?.broadcast(target.shape(), NAME)?;
    let inputs = [input1, input2, target];
    reduce(wide(inputs, |[a, b, y]| (-y * (a - b) + margin).clamp_min(0))?, reduction, &inputs)
}

/// `input` where the target is 1, and `max(0, margin − input)` where it is −1, as `torch.nn.functional.hinge_embedding_loss`. Other
/// targets have both. The two broadcast.
///
/// # Errors
/// If they do not broadcast, or the input is none of floats.
pub fn hinge_embedding_loss(
    input: &Tensor,
    target: &Tensor,
    margin: f64,
    reduction: Reduction,
) -> Result<Tensor> {
    const NAME: &str = "hinge_embedding_loss";
    expect_float(NAME, input)?;
    input.shape().broadcast(target.shape(), NAME)?;
    let losses = wide([input, target], |[x, y]| {
        y.ne(1).where_cond((margin - x).clamp_min(0), 0) + y.ne(-1).where_cond(x, 0)
    })?;
    reduce(losses, reduction, &[input, target])
}

/// The classes of a matrix of scores, or of a vector of those of one row.
fn classes(name: &'static str, input: &Tensor) -> Result<usize> {
    expect_float(name, input)?;
    match *input.dims() {
        [classes] | [_, classes] if classes > 0 => Ok(classes),
        _ => Err(Error::shape(
            name,
            "the input must be [n, classes] or [classes], with classes",
            [input.shape()],
        )),
    }
}

/// Checks on the host that classes are from `least` to the last one.
fn expect_in_range(name: &'static str, target: &Tensor, least: i64, classes: usize) -> Result<()> {
    if target.numel() == 0 {
        return Ok(());
    }
    for class in [target.min_all()?, target.max_all()?] {
        let class = class.item()?.to_i64();
        if class < least || class >= classes as i64 {
            let message = format!("class {class} of the target is out of range for {classes} classes");
            return Err(Error::argument(name, message));
        }
    }
    Ok(())
}

/// `Σ weight[y] · max(0, margin − input[y] + input[i])ᵖ / classes` over the classes `i` other than the target `y`, as
/// `torch.nn.functional.multi_margin_loss`: `[n, classes]` or `[classes]` with classes `[n]` or `[]`. `p` is 1 or 2.
///
/// The range of the target is read back from the device.
///
/// # Errors
/// If p is neither, a class is out of range, shapes do not fit, or the target is none of integers, or input or weight none of floats.
pub fn multi_margin_loss(
    input: &Tensor,
    target: &Tensor,
    p: i64,
    margin: f64,
    weight: Option<&Tensor>,
    reduction: Reduction,
) -> Result<Tensor> {
    const NAME: &str = "multi_margin_loss";
    if p != 1 && p != 2 {
        return Err(Error::argument(NAME, format!("p must be 1 or 2, and is {p}")));
    }
    let classes = classes(NAME, input)?;
    expect_classes(NAME, target)?;
    // One row may have a target of one element, as in PyTorch.
    let rows = input.shape().reduced(&[input.ndim() - 1], false);
    if *target.shape() != rows && !(input.ndim() == 1 && target.dims() == [1]) {
        let message = format!("the target must have shape {rows} for this input");
        return Err(Error::shape(NAME, message, [input.shape(), target.shape()]));
    }
    expect_in_range(NAME, target, 0, classes)?;
    let y = target.reshape(rows.dims())?.unsqueeze(-1)?;
    let others = Tensor::arange(0, classes as i64, 1)?.to_device(input.device())?.ne(&y)?;
    let excess = wide([input, &input.gather(-1, &y)?, &others], |[x, of_target, other]| {
        let z = (margin - of_target + x).clamp_min(0);
        other.where_cond(if p == 1 { z } else { z.square() }, 0)
    })?;
    let mut losses = excess.sum(-1, false)?.div(classes as f64)?;
    if let Some(weight) = weight {
        expect_class_weight(NAME, weight, classes)?;
        let of_rows = weight.index_select(0, &target.flatten(0, -1)?)?.reshape(rows.dims())?;
        losses = wide([&losses, &of_rows], |[loss, weight]| loss * weight)?;
    }
    reduce(losses.reshape(target.dims())?, reduction, &[input])
}

/// `Σ max(0, 1 − input[y] + input[i]) / classes` over the classes `y` of a row's target and the classes `i` that it has not, as
/// `torch.nn.functional.multilabel_margin_loss`: the target is `[n, classes]` or `[classes]` as the input, with a row's classes
/// before the first −1.
///
/// The range of the target, and how many classes a row has, are read back from the device.
///
/// # Errors
/// If a class is out of range, the shapes differ, or the target is none of integers, or the input none of floats.
pub fn multilabel_margin_loss(input: &Tensor, target: &Tensor, reduction: Reduction) -> Result<Tensor> {
    const NAME: &str = "multilabel_margin_loss";
    let classes = classes(NAME, input)?;
    expect_classes(NAME, target)?;
    expect_same_shape(NAME, input, target)?;
    expect_in_range(NAME, target, -1, classes)?;
    let listed = target.ge(0)?.to_dtype(DType::I64)?.cumprod(-1)?;
    let most = match listed.numel() {
        0 => 0,
        _ => listed.sum(-1, false)?.max_all()?.item()?.to_i64() as usize,
    };
    // What does not list a class lists class 0, and does not count.
    let target = target.to_dtype(DType::I64)?.mul(&listed)?;
    let has = listed.zeros_like()?.scatter_add(-1, &target, &listed)?.eq(0)?;
    let [target, listed] = [target, listed].map(|x| x.narrow(-1, 0, most));
    let (target, listed) = (target?, listed?.to_dtype(DType::Bool)?);
    // [n, listed, classes]
    let counts = listed.unsqueeze(-1)?.logical_and(&has.unsqueeze(-2)?)?;
    let (scores, of_target) = (input.unsqueeze(-2)?, input.gather(-1, &target)?.unsqueeze(-1)?);
    let excess = wide([&scores, &of_target, &counts], |[x, of_target, counts]| {
        counts.where_cond((1 - of_target + x).clamp_min(0), 0)
    })?;
    reduce(excess.sum([-2, -1], false)?.div(classes as f64)?, reduction, &[input])
}
