//! Limits on gradients.

use super::NamedParameters;
use super::rule::compute_dtype;
use rustorch_tensor::autograd::no_grad;
use rustorch_tensor::foreach::{mul_, total_norm};
use rustorch_tensor::{DType, Device, Error, Result, Tensor, is_capturing, with_device};

/// The gradients of parameters that have one, with names.
fn gradients(parameters: impl NamedParameters) -> Vec<(String, Tensor)> {
    let all = parameters.into_named_parameters().into_iter();
    all.filter_map(|(name, parameter)| Some((name, parameter.grad()?))).collect()
}

/// Scales all gradients by one factor such that their norm, that of all of them as one vector, is at most `max_norm`, as
/// `torch.nn.utils.clip_grad_norm_`; returns the norm before that, an `F64` of no dimensions on the CPU. A norm of order 2 is the usual one,
/// `f64::INFINITY` the greatest magnitude.
///
/// ```
/// use rustorch_nn::Parameter;
/// use rustorch_nn::optim::clip_grad_norm_;
/// use rustorch_tensor::Tensor;
/// let weight = Parameter::new(Tensor::new([1.0f32, 1.0])?)?;
/// (weight.tensor() * &Tensor::new([3.0f32, 4.0])?).sum_all()?.backward()?;
/// let norm = clip_grad_norm_(vec![("weight".to_owned(), weight.clone())], 1.0, 2.0)?;
/// assert_eq!(norm.item()?.to_f64(), 5.0);
/// assert!((weight.grad().unwrap().to_vec::<f32>()?[1] - 0.8).abs() < 1e-6);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
///
/// The parts of a complex gradient count as two elements.
///
/// # Errors
/// If the order is not above 0, `max_norm` is NaN, or the norm is infinite or NaN: one that names the parameters whose gradients are (of a captured function the run
/// fails, without names); nothing is changed then.
pub fn clip_grad_norm_(parameters: impl NamedParameters, max_norm: f64, order: f64) -> Result<Tensor> {
    if max_norm.is_nan() {
        return Err(Error::argument("clip_grad_norm_", "the greatest norm is NaN"));
    }
    no_grad(|| {
        let grads = gradients(parameters);
        // Wherever gradients are: sums of other groups would be rounded in another way.
        let groups = alike(grads.iter().map(|(_, grad)| grad.clone()), Tensor::dtype)?;
        let norms = groups.iter().map(|group| norm(group, order)).collect::<Result<Vec<_>>>()?;
        if is_capturing() {
            let (total, factor) = factor_in_graph(&norms, max_norm, order)?;
            scale(&grads, |dtype, device| factor.to_dtype(dtype)?.to_device(device))?;
            return Ok(total);
        }
        let norms = norms.iter().map(|norm| Ok(norm.item()?.to_f64())).collect::<Result<Vec<f64>>>()?;
        let total = total_of(&norms, order);
        expect_finite(total, &grads, order)?;
        let factor = max_norm / (total + 1e-6);
        if factor < 1.0 {
            scale(&grads, |dtype, device| Tensor::full((), factor, (dtype, device)))?;
        }
        with_device(Device::CPU, || Tensor::from_slice(&[total], ()))?
    })
}

/// Multiplies gradients with a factor, which is given in the dtype and on the device in which it is an operand.
fn scale(grads: &[(String, Tensor)], factor: impl Fn(DType, Device) -> Result<Tensor>) -> Result<()> {
    let grads = grads.iter().map(|(_, grad)| grad.clone());
    for group in alike(grads, |grad| (grad.dtype(), grad.device()))? {
        let factor = factor(compute_dtype(group[0].dtype()), group[0].device())?;
        mul_(&group.iter().collect::<Vec<_>>(), &factor)?;
    }
    Ok(())
}

/// A number as `clip_grad_norm_` computes with it.
fn scalar(number: f64) -> Result<Tensor> {
    Tensor::full((), number, (DType::F64, Device::CPU))
}

/// The norm of vectors of which these are the norms.
fn total_of(norms: &[f64], order: f64) -> f64 {
    match norms {
        [] => 0.0,
        [norm] => *norm,
        _ if order == f64::INFINITY => {
            norms.iter().fold(0.0f64, |a, &b| if b.is_nan() { b } else { a.max(b) })
        }
        _ => norms.iter().map(|norm| norm.powf(order)).sum::<f64>().powf(1.0 / order),
    }
}

/// The norm of vectors of which these are the norms, and by what their elements are multiplied: what eager execution computes in Rust.
fn factor_in_graph(norms: &[Tensor], max_norm: f64, order: f64) -> Result<(Tensor, Tensor)> {
    let norms = norms.iter().map(|norm| norm.to_device(Device::CPU));
    let total = match &norms.collect::<Result<Vec<Tensor>>>()?[..] {
        [] => scalar(0.0)?,
        [norm] => norm.clone(),
        [first, rest @ ..] if order == f64::INFINITY => {
            rest.iter().try_fold(first.clone(), |a, b| a.maximum(b))?
        }
        norms => {
            let powers = norms.iter().try_fold(scalar(0.0)?, |sum, norm| sum.add(&norm.pow(order)?))?;
            powers.pow(1.0 / order)?
        }
    };
    total.isfinite()?.assert("clip_grad_norm_: the norm of the gradients is infinite or NaN")?;
    let factor = scalar(max_norm)?.div(&total.add(1e-6)?)?.minimum(&scalar(1.0)?)?;
    Ok((total, factor))
}

fn expect_finite(total: f64, grads: &[(String, Tensor)], order: f64) -> Result<()> {
    if total.is_finite() {
        return Ok(());
    }
    let mut names = Vec::new();
    for (name, grad) in grads {
        if !norm(&[real(grad)?], order)?.item()?.to_f64().is_finite() {
            names.push(format!("`{name}`"));
        }
    }
    let message =
        format!("the norm of the gradients is {total}; not finite are those of {}", names.join(", "));
    Err(Error::argument("clip_grad_norm_", message))
}

/// Gradients as tensors of real numbers, in groups of equal keys, each for one operation.
pub(crate) fn alike<K: PartialEq>(
    grads: impl Iterator<Item = Tensor>,
    key: impl Fn(&Tensor) -> K,
) -> Result<Vec<Vec<Tensor>>> {
    let mut groups: Vec<Vec<Tensor>> = Vec::new();
    for grad in grads {
        let grad = real(&grad)?;
        match groups.iter_mut().find(|group| key(&group[0]) == key(&grad)) {
            Some(group) => group.push(grad),
            None => groups.push(vec![grad]),
        }
    }
    Ok(groups)
}

/// A factor as an operand beside a gradient.
pub(crate) fn factor_beside(grad: &Tensor, factor: f64) -> Result<Tensor> {
    Tensor::full((), factor, (compute_dtype(grad.dtype()), grad.device()))
}

/// A complex gradient as pairs of real numbers.
fn real(grad: &Tensor) -> Result<Tensor> {
    if grad.dtype().is_complex() { grad.view_as_real() } else { Ok(grad.clone()) }
}

/// An `F64`.
fn norm(grads: &[Tensor], order: f64) -> Result<Tensor> {
    total_norm(&grads.iter().collect::<Vec<_>>(), order)?.to_dtype(DType::F64)
}

/// Limits every element of the gradients to −`limit` and `limit`, as `torch.nn.utils.clip_grad_value_`.
///
/// # Errors
/// If the limit is negative, or gradients are complex.
pub fn clip_grad_value_(parameters: impl NamedParameters, limit: f64) -> Result<()> {
    if limit.is_nan() || limit < 0.0 {
        return Err(Error::argument(
            "clip_grad_value_",
            format!("the limit is {limit}, it must be 0 or more"),
        ));
    }
    no_grad(|| gradients(parameters).iter().try_for_each(|(_, grad)| grad.copy_(&grad.clamp(-limit, limit)?)))
}
