//! Negative log likelihoods and divergences.

use super::{expect_same_shape, finish, pointwise, reduce};
use crate::functional::{expect_float, wide};
use rustorch_tensor::{CrossEntropyOptions, Error, Reduction, Result, Shape, Tensor};
use std::f64::consts::PI;

/// The negative log likelihood of classes whose logits are `input`, as `torch.nn.functional.cross_entropy`: see
/// [`Tensor::cross_entropy`].
///
/// # Errors
/// As [`Tensor::cross_entropy`].
pub fn cross_entropy(input: &Tensor, target: &Tensor, options: &CrossEntropyOptions) -> Result<Tensor> {
    input.cross_entropy(target, options)
}

/// `−weight[target] · input[target]`, where the input is log-probabilities, as `torch.nn.functional.nll_loss`.
///
/// The input has shape `[n, classes, ..]`, or `[classes]` of one row; the target that shape without classes. Rows whose target is
/// `ignore_index` (PyTorch's is −100 unless given) have no loss. The mean is weighted with the weights of the rows' classes.
///
/// # Errors
/// If a class is out of range, the target is none of integers, shapes do not fit, or input and weight are none of floats or of two dtypes.
pub fn nll_loss(
    input: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    ignore_index: i64,
    reduction: Reduction,
) -> Result<Tensor> {
    const NAME: &str = "nll_loss";
    expect_float(NAME, input)?;
    let axis = usize::from(input.ndim() > 1);
    let Some(&classes) = input.dims().get(axis) else {
        return Err(Error::shape(NAME, "the input needs a dimension of classes", [input.shape()]));
    };
    let rows = input.shape().reduced(&[axis], false);
    if *target.shape() != rows {
        let message = format!("the target must have shape {rows} for this input");
        return Err(Error::shape(NAME, message, [input.shape(), target.shape()]));
    }
    expect_classes(NAME, target)?;
    let dim = axis as isize;
    let ignored = target.eq(ignore_index)?;
    let classes_of_rows = target.masked_fill(&ignored, 0)?;
    let log_likelihood = picked(NAME, || input.gather(dim, &classes_of_rows.unsqueeze(dim)?)?.squeeze(dim))?;
    let weights = match weight {
        None => ignored.logical_not()?.to_dtype(input.dtype())?,
        Some(weight) => {
            expect_class_weight(NAME, weight, classes)?;
            if weight.dtype() != input.dtype() {
                let message = "input and weight must have one dtype";
                return Err(Error::dtype(NAME, message, [input.dtype(), weight.dtype()]));
            }
            let of_rows = weight.index_select(0, &classes_of_rows.flatten(0, -1)?)?.reshape(rows.dims())?;
            of_rows.masked_fill(&ignored, 0)?
        }
    };
    // The log likelihood of what is ignored may be infinite.
    let losses =
        wide([&log_likelihood, &weights, &ignored], |[l, w, ignored]| (-l * w).masked_fill(ignored, 0))?;
    match reduction {
        Reduction::Mean => {
            let divisor = weights.to_dtype(losses.dtype())?.sum_all()?;
            finish(losses.sum_all()?.div(&divisor)?, &[input, &weights])
        }
        other => reduce(losses, other, &[input, &weights]),
    }
}

/// Checks that a target is integers.
pub(super) fn expect_classes(name: &'static str, target: &Tensor) -> Result<()> {
    if target.dtype().is_int() {
        return Ok(());
    }
    Err(Error::dtype(name, "the target must be classes, integers", [target.dtype()]))
}

/// Checks that there is a weight for each class.
pub(super) fn expect_class_weight(name: &'static str, weight: &Tensor, classes: usize) -> Result<()> {
    expect_float(name, weight)?;
    if weight.dims() == [classes] {
        return Ok(());
    }
    let message = format!("weight must have one element for each of the {classes} classes");
    Err(Error::shape(name, message, [weight.shape()]))
}

/// What is picked by classes; an index out of range is a class of this loss.
pub(super) fn picked(name: &'static str, pick: impl FnOnce() -> Result<Tensor>) -> Result<Tensor> {
    pick().map_err(|error| match error {
        Error::Index { index, len, .. } => {
            Error::argument(name, format!("class {index} of the target is out of range for {len} classes"))
        }
        other => other,
    })
}

/// What becomes of the elements of [`kl_div`], PyTorch's `reduction`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum KLDivReduction {
    /// They are returned as they are.
    None,
    /// Their sum, divided by the length of the first dimension: the divergence of distributions.
    BatchMean,
    /// Their mean.
    #[default]
    Mean,
    /// Their sum.
    Sum,
}

/// The terms `target · (log(target) − input)` of the Kullback-Leibler divergence, where the input is log-probabilities, as
/// `torch.nn.functional.kl_div`. With `log_target`, the target is log-probabilities, too. The two broadcast.
///
/// # Errors
/// If the shapes do not broadcast, or the input is none of floats.
pub fn kl_div(
    input: &Tensor,
    target: &Tensor,
    reduction: KLDivReduction,
    log_target: bool,
) -> Result<Tensor> {
    const NAME: &str = "kl_div";
    expect_float(NAME, input)?;
    let both = [input, target];
    input.shape().broadcast(target.shape(), NAME)?;
    let terms = match log_target {
        true => wide(both, |[x, y]| y.exp() * (y - x))?,
        // 0 · log 0 is 0.
        false => wide(both, |[x, y]| y * y.masked_fill(y.eq(0), 1).log() - y * x)?,
    };
    let reduction = match reduction {
        KLDivReduction::None => Reduction::None,
        KLDivReduction::Mean => Reduction::Mean,
        KLDivReduction::Sum => Reduction::Sum,
        KLDivReduction::BatchMean => {
            // Of a tensor without dimensions, the batch is one element.
            let batch = input.dims().first().copied().unwrap_or(1);
            return finish(terms.sum_all()?.div(batch as f64)?, &both);
        }
    };
    reduce(terms, reduction, &both)
}

/// `exp(input) − target · input` if `log_input`, else `input − target · log(input + eps)`, as
/// `torch.nn.functional.poisson_nll_loss`. With `full`, Stirling's `target · log(target) − target + log(2π · target) / 2` is added where
/// the target is above 1.
///
/// # Errors
/// If the shapes differ, or the input is none of floats.
pub fn poisson_nll_loss(
    input: &Tensor,
    target: &Tensor,
    log_input: bool,
    full: bool,
    eps: f64,
    reduction: Reduction,
) -> Result<Tensor> {
    pointwise("poisson_nll_loss", [input, target], reduction, |[x, y]| {
        let losses = if log_input { x.exp() - y * x } else { x - y * (x + eps).log() };
        if !full {
            return losses;
        }
        let small = y.le(1);
        // Where the term is not added, its derivative shall be finite.
        let y = small.where_cond(1, y);
        losses + small.where_cond(0, y * y.log() - y + (y * (2.0 * PI)).log() * 0.5)
    })
}

/// `(log(v) + (input − target)² / v) / 2` with `v = max(var, eps)`, as `torch.nn.functional.gaussian_nll_loss`. With `full`,
/// `log(2π) / 2` is added.
///
/// The variance has the input's shape, or that without the last dimension, or with 1 for one of them. Its gradient is as if it were not bounded.
/// That none of its elements is negative is read back from the device.
///
/// # Errors
/// If the variance is negative, shapes do not fit, eps is not positive, or input or variance are none of floats.
pub fn gaussian_nll_loss(
    input: &Tensor,
    target: &Tensor,
    var: &Tensor,
    full: bool,
    eps: f64,
    reduction: Reduction,
) -> Result<Tensor> {
    const NAME: &str = "gaussian_nll_loss";
    expect_float(NAME, input)?;
    expect_float(NAME, var)?;
    expect_same_shape(NAME, input, target)?;
    if eps <= 0.0 || eps.is_nan() {
        return Err(Error::argument(NAME, format!("eps must be positive, and is {eps}")));
    }
    let var = variance(NAME, input.shape(), var)?;
    if var.detach().lt(0)?.any_all()?.item()?.to_bool() {
        return Err(Error::argument(NAME, "var has a negative element; it is a variance, not its logarithm"));
    }
    let raised = wide([&var.detach()], |[v]| v.clamp_min(eps) - v)?;
    let constant = if full { 0.5 * (2.0 * PI).ln() } else { 0.0 };
    let losses = wide([input, target, &var, &raised], |[x, y, var, raised]| {
        let v = var + raised;
        (v.log() + (x - y).square() / v) * 0.5 + constant
    })?;
    reduce(losses, reduction, &[input, target, &var])
}

/// The variance with as many dimensions as the input.
fn variance(name: &'static str, shape: &Shape, var: &Tensor) -> Result<Tensor> {
    if shape.dims().split_last().is_some_and(|(_, outer)| var.dims() == outer) && var.shape() != shape {
        return var.unsqueeze(-1);
    }
    let other: Vec<_> = var.dims().iter().zip(shape.dims()).filter(|(v, n)| v != n).collect();
    if var.ndim() == shape.ndim() && matches!(other.as_slice(), [] | [(1, _)]) {
        return Ok(var.clone());
    }
    let message =
        "var must have the input's shape, that without its last dimension, or with 1 for one dimension";
    Err(Error::shape(name, message, [shape, var.shape()]))
}
