//! Limits on gradients.

use super::NamedParameters;
use rustorch_tensor::autograd::no_grad;
use rustorch_tensor::{DType, Error, Result, Tensor};

/// The gradients of parameters that have one, with names.
fn gradients(parameters: impl NamedParameters) -> Vec<(String, Tensor)> {
    let all = parameters.into_named_parameters().into_iter();
    all.filter_map(|(name, parameter)| Some((name, parameter.grad()?))).collect()
}

/// Scales all gradients by one factor such that their norm, that of all of them as one vector, is at most `max_norm`, as
/// `torch.nn.utils.clip_grad_norm_`; returns the norm before that. A norm of order 2 is the usual one, `f64::INFINITY` the greatest
/// magnitude.
///
/// ```
/// use rustorch_nn::Parameter;
/// use rustorch_nn::optim::clip_grad_norm_;
/// use rustorch_tensor::Tensor;
/// let weight = Parameter::new(Tensor::new([1.0f32, 1.0])?)?;
/// (weight.tensor() * &Tensor::new([3.0f32, 4.0])?).sum_all()?.backward()?;
/// let norm = clip_grad_norm_(vec![("weight".to_owned(), weight.clone())], 1.0, 2.0)?;
/// assert_eq!(norm, 5.0);
/// assert!((weight.grad().unwrap().to_vec::<f32>()?[1] - 0.8).abs() < 1e-6);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
///
/// # Errors
/// If the norm is infinite or NaN: one that names the parameters whose gradients are; nothing is changed then.
pub fn clip_grad_norm_(parameters: impl NamedParameters, max_norm: f64, order: f64) -> Result<f64> {
    no_grad(|| {
        let grads = gradients(parameters);
        let mut norms = Vec::new();
        for (_, grad) in &grads {
            let norm = grad.reshape([-1])?.norm(order, [0], false)?;
            norms.push(norm.to_dtype(DType::F64)?.to_vec::<f64>()?[0]);
        }
        let total = match order.is_infinite() {
            true => norms.iter().fold(0.0f64, |a, &b| if b.is_nan() { b } else { a.max(b) }),
            false => norms.iter().map(|norm| norm.powf(order)).sum::<f64>().powf(1.0 / order),
        };
        if !total.is_finite() {
            let wrong = grads.iter().zip(&norms).filter(|(_, norm)| !norm.is_finite());
            let names: Vec<String> = wrong.map(|((name, _), _)| format!("`{name}`")).collect();
            let message =
                format!("the norm of the gradients is {total}; not finite are those of {}", names.join(", "));
            return Err(Error::argument("clip_grad_norm_", message));
        }
        let factor = max_norm / (total + 1e-6);
        if factor < 1.0 {
            grads.iter().try_for_each(|(_, grad)| grad.mul_(factor))?;
        }
        Ok(total)
    })
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
