//! Losses of decisions between two classes.

use super::{elements, expect_same_shape, pointwise, reduce};
use crate::functional::smooth::{log_sigmoid, log1p_exp_neg_abs};
use crate::functional::{expect_float, wide};
use rustorch_tensor::autograd::{Function, FunctionContext, Gradients};
use rustorch_tensor::{Error, Reduction, Result, Tensor, fuse};

/// `−(target · log(input) + (1 − target) · log(1 − input))` with logarithms not below −100, times a weight that broadcasts, as
/// `torch.nn.functional.binary_cross_entropy`.
///
/// That all elements are in range is read back from the device.
///
/// # Errors
/// If an element of input or target is not from 0 to 1, the target does not have the shape and dtype of the input, the weight does not
/// broadcast to it, or the input is none of floats.
pub fn binary_cross_entropy(
    input: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: Reduction,
) -> Result<Tensor> {
    const NAME: &str = BinaryCrossEntropy::NAME;
    expect_float(NAME, input)?;
    expect_same_shape(NAME, input, target)?;
    if target.dtype() != input.dtype() {
        let message = "the target must have the input's dtype; convert it with to_dtype";
        return Err(Error::dtype(NAME, message, [input.dtype(), target.dtype()]));
    }
    for (what, x) in [("input", input), ("target", target)] {
        let outside = fuse(|[x]| x.ge(0).logical_and(x.le(1)).logical_not())?.apply(&[&x.detach()])?;
        if outside.any_all()?.item()?.to_bool() {
            let message = format!(
                "all elements of the {what} must be from 0 to 1; logits take binary_cross_entropy_with_logits"
            );
            return Err(Error::argument(NAME, message));
        }
    }
    let losses = BinaryCrossEntropy.apply(&[input, target])?.remove(0);
    reduce(weighted(NAME, losses, weight)?, reduction, &[input, target])
}

/// Losses times a weight that broadcasts to them.
fn weighted(name: &'static str, losses: Tensor, weight: Option<&Tensor>) -> Result<Tensor> {
    let Some(weight) = weight else { return Ok(losses) };
    expect_weight(name, "weight", &losses, weight)?;
    wide([&losses, weight], |[loss, weight]| loss * weight)
}

/// Checks that a weight broadcasts to a shape.
fn expect_weight(name: &'static str, what: &str, x: &Tensor, weight: &Tensor) -> Result<()> {
    if x.shape().broadcast(weight.shape(), name).is_ok_and(|shape| shape == *x.shape()) {
        return Ok(());
    }
    let message = format!("{what} must broadcast to shape {}", x.shape());
    Err(Error::shape(name, message, [x.shape(), weight.shape()]))
}

/// The binary cross entropy of elements. PyTorch's gradient of the input is finite at 0 and 1, where that of the formula is not.
struct BinaryCrossEntropy;

/// The least `input · (1 − input)` in the gradient: PyTorch's, which has it in single precision.
const EPSILON: f64 = 1e-12f32 as f64;

impl Function for BinaryCrossEntropy {
    const NAME: &'static str = "binary_cross_entropy";

    fn forward(&self, cx: &mut FunctionContext, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        cx.save(inputs);
        let losses = wide([inputs[0], inputs[1]], |[x, y]| {
            (y - 1) * (-x).log1p().clamp_min(-100) - y * x.log().clamp_min(-100)
        })?;
        Ok(vec![losses])
    }

    fn backward(&self, grads: &Gradients<'_>) -> Result<Vec<Option<Tensor>>> {
        let Some(grad) = grads.output(0)? else { return Ok(vec![None, None]) };
        let (x, y) = (grads.saved(0)?, grads.saved(1)?);
        let of_input = wide([grad, x, y], |[g, x, y]| g * (x - y) / ((1 - x) * x).clamp_min(EPSILON))?;
        let of_target = wide([grad, x], |[g, x]| g * ((-x).log1p() - x.log()))?;
        Ok(vec![Some(of_input.to_dtype(x.dtype())?), Some(of_target.to_dtype(y.dtype())?)])
    }
}

/// The [`binary_cross_entropy`] of `sigmoid(input)`, without overflow, as `torch.nn.functional.binary_cross_entropy_with_logits`:
/// `−weight · (pos_weight · target · log σ(input) + (1 − target) · log σ(−input))`. Both weights broadcast.
///
/// # Errors
/// If the shapes differ, a weight does not broadcast to them, or the input is none of floats.
pub fn binary_cross_entropy_with_logits(
    input: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    pos_weight: Option<&Tensor>,
    reduction: Reduction,
) -> Result<Tensor> {
    const NAME: &str = "binary_cross_entropy_with_logits";
    let losses = match pos_weight {
        None => elements(NAME, [input, target], |[x, y]| (1 - y) * x - log_sigmoid(x))?,
        Some(pos_weight) => {
            expect_float(NAME, input)?;
            expect_same_shape(NAME, input, target)?;
            expect_weight(NAME, "pos_weight", input, pos_weight)?;
            wide([input, target, pos_weight], |[x, y, p]| (1 - y) * x - ((p - 1) * y + 1) * log_sigmoid(x))?
        }
    };
    reduce(weighted(NAME, losses, weight)?, reduction, &[input, target])
}

/// `log(1 + exp(−target · input))` with targets of −1 and 1, as `torch.nn.functional.soft_margin_loss`, but without overflow.
///
/// # Errors
/// If the shapes differ, or the input is none of floats.
pub fn soft_margin_loss(input: &Tensor, target: &Tensor, reduction: Reduction) -> Result<Tensor> {
    pointwise("soft_margin_loss", [input, target], reduction, |[x, y]| {
        let z = -y * x;
        z.maximum(0) + log1p_exp_neg_abs(z)
    })
}

/// The mean over the last dimension, that of classes, of `−weight · (target · log σ(input) + (1 − target) · log σ(−input))`, as
/// `torch.nn.functional.multilabel_soft_margin_loss`. The weight broadcasts.
///
/// # Errors
/// If the shapes differ or have no dimension, the weight does not broadcast to them, or the input is none of floats.
pub fn multilabel_soft_margin_loss(
    input: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: Reduction,
) -> Result<Tensor> {
    const NAME: &str = "multilabel_soft_margin_loss";
    if input.ndim() == 0 {
        return Err(Error::shape(NAME, "the input needs a dimension of classes", [input.shape()]));
    }
    let losses = elements(NAME, [input, target], |[x, y]| (1 - y) * x - log_sigmoid(x))?;
    reduce(weighted(NAME, losses, weight)?.mean(-1, false)?, reduction, &[input, target])
}
