//! Derivatives of functions of tensors: values and gradients, products with Jacobians, Jacobians, Hessians.

use super::tensor::{GradOptions, grad};
use super::{enable_grad, is_grad_enabled};
use crate::Tensor;
use rustorch_core::{Error, Result};

/// Leaves of the inputs' memory that require gradients; views of the inputs themselves where a derivative of a derivative is to reach
/// them.
fn arguments(inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
    inputs
        .iter()
        .map(|&x| {
            if is_grad_enabled() && x.requires_grad() {
                return x.view(x.shape());
            }
            let leaf = x.detach();
            leaf.requires_grad_(true)?;
            Ok(leaf)
        })
        .collect()
}

fn zero_or(gradient: Option<Tensor>, x: &Tensor) -> Result<Tensor> {
    gradient.map_or_else(|| x.zeros_like(), Ok)
}

fn refs(tensors: &[Tensor]) -> Vec<&Tensor> {
    tensors.iter().collect()
}

/// Whether derivatives of the inputs' derivatives may be asked for.
fn is_nested(inputs: &[&Tensor]) -> bool {
    is_grad_enabled() && inputs.iter().any(|x| x.requires_grad())
}

/// The value of a function of one element, and its gradients with respect to the inputs.
///
/// ```
/// use rustorch_tensor::{Tensor, autograd::value_and_grad};
/// let (x, w) = (Tensor::new([1.0f32, 2.0])?, Tensor::new([3.0f32, 4.0])?);
/// let (value, grads) = value_and_grad(|t| t[0].mul(&t[1])?.sum_all(), &[&x, &w])?;
/// assert_eq!(value.item()?.to_f64(), 11.0);
/// assert_eq!(grads[0].to_vec::<f32>()?, [3.0, 4.0]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
///
/// # Errors
/// As the function, and if its value has more than one element or depends on no input.
pub fn value_and_grad(
    f: impl Fn(&[Tensor]) -> Result<Tensor>,
    inputs: &[&Tensor],
) -> Result<(Tensor, Vec<Tensor>)> {
    let nested = is_nested(inputs);
    let xs = arguments(inputs)?;
    let value = enable_grad(|| f(&xs))?;
    let options = GradOptions { create_graph: nested, allow_unused: true, ..GradOptions::default() };
    let grads = grad(&[&value], &refs(&xs), &[], options)?;
    let grads = grads.into_iter().zip(&xs).map(|(grad, x)| zero_or(grad, x)).collect::<Result<_>>()?;
    Ok((if nested { value } else { value.detach() }, grads))
}

/// The values of a function, and the product of cotangents, one for each value, with its Jacobian: a tensor for each input.
///
/// # Errors
/// As the function, and if the cotangents do not fit its values.
pub fn vjp(
    f: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>,
    inputs: &[&Tensor],
    cotangents: &[&Tensor],
) -> Result<(Vec<Tensor>, Vec<Tensor>)> {
    let nested = is_nested(inputs) || is_nested(cotangents);
    let xs = arguments(inputs)?;
    let values = enable_grad(|| f(&xs))?;
    let products = products("vjp", &values, &xs, cotangents, nested)?;
    Ok((finished(values, nested), products))
}

fn finished(values: Vec<Tensor>, nested: bool) -> Vec<Tensor> {
    if nested { values } else { values.iter().map(Tensor::detach).collect() }
}

fn products(
    op: &'static str,
    values: &[Tensor],
    xs: &[Tensor],
    cotangents: &[&Tensor],
    create_graph: bool,
) -> Result<Vec<Tensor>> {
    if cotangents.len() != values.len() {
        return Err(Error::argument(
            op,
            format!("{} cotangents were given for {} values", cotangents.len(), values.len()),
        ));
    }
    let (outputs, gradients): (Vec<&Tensor>, Vec<Option<&Tensor>>) = values
        .iter()
        .zip(cotangents)
        .filter(|(value, _)| value.requires_grad())
        .map(|(value, &cotangent)| (value, Some(cotangent)))
        .unzip();
    let options = GradOptions { create_graph, allow_unused: true, retain_graph: true };
    let grads = grad(&outputs, &refs(xs), &gradients, options)?;
    grads.into_iter().zip(xs).map(|(grad, x)| zero_or(grad, x)).collect()
}

/// The values of a function, and the product of its Jacobian with tangents, one for each input: the derivative along a direction.
///
/// It differentiates the product of cotangents with the Jacobian, which is linear in the cotangents, with respect to these.
///
/// ```
/// use rustorch_tensor::{Tensor, autograd::jvp};
/// let (x, direction) = (Tensor::new([1.0f64, 2.0])?, Tensor::new([0.0f64, 1.0])?);
/// let (_, along) = jvp(|t| Ok(vec![t[0].square()?]), &[&x], &[&direction])?;
/// assert_eq!(along[0].to_vec::<f64>()?, [0.0, 4.0]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
///
/// # Errors
/// As the function, and if the tangents do not fit the inputs.
pub fn jvp(
    f: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>,
    inputs: &[&Tensor],
    tangents: &[&Tensor],
) -> Result<(Vec<Tensor>, Vec<Tensor>)> {
    if tangents.len() != inputs.len() {
        return Err(Error::argument(
            "jvp",
            format!("{} tangents were given for {} inputs", tangents.len(), inputs.len()),
        ));
    }
    let nested = is_nested(inputs) || is_nested(tangents);
    let xs = arguments(inputs)?;
    let values = enable_grad(|| f(&xs))?;
    let cotangents: Vec<Tensor> = values
        .iter()
        .map(|value| {
            let zeros = value.zeros_like()?.detach();
            zeros.requires_grad_(true)?;
            Ok(zeros)
        })
        .collect::<Result<_>>()?;
    let products = enable_grad(|| products("jvp", &values, &xs, &refs(&cotangents), true))?;
    let (outputs, gradients): (Vec<&Tensor>, Vec<Option<&Tensor>>) = products
        .iter()
        .zip(tangents)
        .filter(|(product, _)| product.requires_grad())
        .map(|(product, &tangent)| (product, Some(tangent)))
        .unzip();
    let options = GradOptions { create_graph: nested, allow_unused: true, ..GradOptions::default() };
    let along = match outputs.is_empty() {
        true => vec![None; cotangents.len()],
        false => grad(&outputs, &refs(&cotangents), &gradients, options)?,
    };
    let along =
        along.into_iter().zip(&values).map(|(along, value)| zero_or(along, value)).collect::<Result<_>>()?;
    Ok((finished(values, nested), along))
}

/// The Jacobian of a function: for each value and each input a tensor of the value's shape followed by the input's.
///
/// # Errors
/// As the function.
pub fn jacobian(
    f: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>,
    inputs: &[&Tensor],
) -> Result<Vec<Vec<Tensor>>> {
    let nested = is_nested(inputs);
    let xs = arguments(inputs)?;
    let values = enable_grad(|| f(&xs))?;
    values.iter().map(|value| rows(value, &xs, nested)).collect()
}

/// The gradients of each element of a value.
fn rows(value: &Tensor, xs: &[Tensor], create_graph: bool) -> Result<Vec<Tensor>> {
    let n = value.numel();
    let mut all: Vec<Vec<Tensor>> = vec![Vec::with_capacity(n); xs.len()];
    if value.requires_grad() {
        let units = Tensor::eye(n, n, (value.dtype(), value.device()))?;
        for i in 0..n {
            let unit = units.select(0, i as isize)?.reshape(value.shape())?;
            let options = GradOptions { create_graph, retain_graph: true, allow_unused: true };
            let grads = grad(&[value], &refs(xs), &[Some(&unit)], options)?;
            for ((rows, grad), x) in all.iter_mut().zip(grads).zip(xs) {
                rows.push(zero_or(grad, x)?);
            }
        }
    }
    all.into_iter()
        .zip(xs)
        .map(|(rows, x)| {
            let dims: Vec<usize> = value.dims().iter().chain(x.dims()).copied().collect();
            match rows.is_empty() {
                true => Tensor::zeros(dims, (x.dtype(), x.device())),
                false => Tensor::stack(&rows, 0)?.reshape(dims),
            }
        })
        .collect()
}

/// The Hessian of a function of one element: for each pair of inputs a tensor of the first one's shape followed by the second one's.
///
/// ```
/// use rustorch_tensor::{Tensor, autograd::hessian};
/// let x = Tensor::new([1.0f64, 2.0])?;
/// let h = hessian(|t| t[0].pow(3)?.sum_all(), &[&x])?;
/// assert_eq!(h[0][0].to_vec::<f64>()?, [6.0, 0.0, 0.0, 12.0]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
///
/// # Errors
/// As the function, and if its value has more than one element.
pub fn hessian(f: impl Fn(&[Tensor]) -> Result<Tensor>, inputs: &[&Tensor]) -> Result<Vec<Vec<Tensor>>> {
    jacobian(|xs| Ok(value_and_grad(&f, &refs(xs))?.1), inputs)
}

/// The value of a function of one element, and the product of its Hessian with a vector: a tensor for each input.
///
/// # Errors
/// As the function, if its value has more than one element, or the vector does not fit the inputs.
pub fn hvp(
    f: impl Fn(&[Tensor]) -> Result<Tensor>,
    inputs: &[&Tensor],
    vector: &[&Tensor],
) -> Result<(Tensor, Vec<Tensor>)> {
    let nested = is_nested(inputs) || is_nested(vector);
    let xs = arguments(inputs)?;
    let (value, grads) = enable_grad(|| value_and_grad(&f, &refs(&xs)))?;
    let products = products("hvp", &grads, &xs, vector, nested)?;
    Ok((if nested { value } else { value.detach() }, products))
}
