//! Gradients that are not finite.

use super::{NamedParameters, Optimizer, Rule};
use rustorch_tensor::autograd::no_grad;
use rustorch_tensor::{Error, Result, Tensor};

/// Whether all elements of a gradient are finite.
pub(crate) fn is_finite(grad: &Tensor) -> Result<bool> {
    let grad = if grad.dtype().is_complex() { grad.view_as_real()? } else { grad.clone() };
    Ok(grad.isfinite()?.all_all()?.item()?.to_bool())
}

/// The names of parameters whose gradients have a NaN or an infinity.
///
/// ```
/// use rustorch_nn::{Linear, optim::nonfinite_grads};
/// use rustorch_tensor::Tensor;
/// let model = Linear::new(1, 1)?;
/// model.weight.tensor().set_grad(Some(&Tensor::new([[f32::INFINITY]])?))?;
/// assert_eq!(nonfinite_grads(&model)?, ["weight"]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
///
/// # Errors
/// If gradients cannot be read from their devices.
pub fn nonfinite_grads(parameters: impl NamedParameters) -> Result<Vec<String>> {
    no_grad(|| {
        let mut names = Vec::new();
        for (name, parameter) in parameters.into_named_parameters() {
            if let Some(grad) = parameter.grad()
                && !is_finite(&grad)?
            {
                names.push(name);
            }
        }
        Ok(names)
    })
}

/// An error that names the parameters whose gradients have a NaN or an infinity, if there are such.
///
/// # Errors
/// That one, and as [`nonfinite_grads`].
pub fn expect_finite_grads(parameters: impl NamedParameters) -> Result<()> {
    let names = nonfinite_grads(parameters)?;
    if names.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    let message = format!("a NaN or an infinity is in the gradients of {}", names.join(", "));
    Err(Error::argument("expect_finite_grads", message))
}

impl<R: Rule> Optimizer<R> {
    /// As [`step`](Self::step), unless a gradient has a NaN or an infinity: the step is skipped then, and the result is the names of those
    /// parameters.
    ///
    /// # Errors
    /// As there.
    pub fn step_if_finite(&self) -> Result<Vec<String>> {
        let wrong = nonfinite_grads(self.named_parameters())?;
        if wrong.is_empty() {
            self.step()?;
        }
        Ok(wrong)
    }
}
