//! Gradients against finite differences.

use super::tensor::{GradOptions, grad};
use super::{enable_grad, no_grad};
use crate::Tensor;
use rustorch_core::{C128, DType, Error, Result};

/// How [`gradcheck`] compares. The defaults are PyTorch's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GradCheck {
    /// How far an element is moved to either side.
    pub eps: f64,
    /// The absolute difference that is allowed.
    pub atol: f64,
    /// The difference relative to the finite difference that is allowed.
    pub rtol: f64,
}

impl Default for GradCheck {
    fn default() -> GradCheck {
        GradCheck { eps: 1e-6, atol: 1e-5, rtol: 1e-3 }
    }
}

/// Compares the gradients of a function with finite differences, element by element.
///
/// The outputs are summed with weights, the same on each call, and the gradient of that sum is compared. Inputs are `F64` or `C128`: others
/// are too coarse for differences. The function must be smooth where it is evaluated, and give the same values each time. Of
/// complex inputs the real and the imaginary parts are moved one by one.
///
/// ```
/// use rustorch_tensor::{Tensor, autograd::{GradCheck, gradcheck}};
/// let (x, w) = (Tensor::new([0.3f64, -1.2])?, Tensor::new([[2.0f64], [0.5]])?);
/// gradcheck(|x| Ok(vec![x[0].mul(&x[1])?.tanh()?]), &[&x, &w], GradCheck::default())?;
/// // A gradient that is lost on the way.
/// let error = gradcheck(|x| Ok(vec![x[0].mul(&x[0].detach())?]), &[&x], GradCheck::default()).unwrap_err();
/// assert!(error.to_string().contains("input 0, element [0]"));
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
///
/// # Errors
/// At the first element that differs, with both numbers; if an input is of another dtype, no output depends on the inputs, or
/// the function fails.
pub fn gradcheck(
    f: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>,
    inputs: &[&Tensor],
    options: GradCheck,
) -> Result<()> {
    const OP: &str = "gradcheck";
    let inputs = leaves(OP, inputs)?;
    let outputs = enable_grad(|| f(&inputs))?;
    if !outputs.iter().any(Tensor::requires_grad) {
        return Err(Error::argument(OP, "no output of the function depends on its inputs"));
    }
    compare(OP, &f, &inputs, &outputs, options)
}

/// Compares the gradients of outputs, of which those without a history have none.
fn compare(
    op: &'static str,
    f: &dyn Fn(&[Tensor]) -> Result<Vec<Tensor>>,
    inputs: &[Tensor],
    outputs: &[Tensor],
    options: GradCheck,
) -> Result<()> {
    let is_smooth = |x: &Tensor| x.dtype().is_float() || x.dtype().is_complex();
    let places: Vec<usize> = (0..outputs.len()).filter(|&i| is_smooth(&outputs[i])).collect();
    let weights = weights(places.iter().map(|&i| &outputs[i]))?;
    let (roots, gradients): (Vec<&Tensor>, Vec<Option<&Tensor>>) = places
        .iter()
        .zip(&weights)
        .map(|(&i, weight)| (&outputs[i], Some(weight)))
        .filter(|(output, _)| output.requires_grad())
        .unzip();
    let all: Vec<&Tensor> = inputs.iter().collect();
    let options_of_grad = GradOptions { allow_unused: true, ..GradOptions::default() };
    let gradients = grad(&roots, &all, &gradients, options_of_grad)?;
    let value = |inputs: &[Tensor]| -> Result<f64> {
        let outputs = no_grad(|| f(inputs))?;
        let mut sum = 0.0;
        for (&place, weight) in places.iter().zip(&weights) {
            let product = no_grad(|| outputs[place].mul(&weight.conj()?))?;
            sum += numbers(&product)?.iter().map(|number| number.re).sum::<f64>();
        }
        Ok(sum)
    };
    for (i, (input, gradient)) in inputs.iter().zip(&gradients).enumerate() {
        let elements = numbers(input)?;
        let gradient = match gradient {
            Some(gradient) => numbers(gradient)?,
            None => vec![C128::new(0.0, 0.0); elements.len()],
        };
        let parts: &[C128] = match input.dtype().is_complex() {
            true => &[C128::new(1.0, 0.0), C128::new(0.0, 1.0)],
            false => &[C128::new(1.0, 0.0)],
        };
        for (at, &have) in gradient.iter().enumerate() {
            let mut difference = C128::new(0.0, 0.0);
            for &part in parts {
                let mut moved = elements.clone();
                let mut evaluate = |step: f64| -> Result<f64> {
                    moved[at] = elements[at] + part * step;
                    let mut moved_inputs = inputs.to_vec();
                    moved_inputs[i] = tensor(&moved, input)?;
                    value(&moved_inputs)
                };
                difference +=
                    part * ((evaluate(options.eps)? - evaluate(-options.eps)?) / (2.0 * options.eps));
            }
            let error = (have - difference).norm();
            if error.is_nan() || error > options.atol + options.rtol * difference.norm() {
                let index = index_of(at, input.dims());
                let show =
                    |z: C128| if input.dtype().is_complex() { z.to_string() } else { z.re.to_string() };
                return Err(Error::argument(
                    op,
                    format!(
                        "input {i}, element {index:?}: the gradient is {}, finite differences give {}",
                        show(have),
                        show(difference)
                    ),
                ));
            }
        }
    }
    Ok(())
}

/// Compares the second derivatives of a function with finite differences: [`gradcheck`] of its gradients, as a function of the inputs
/// and of the outputs' gradients.
///
/// # Errors
/// As there.
pub fn gradgradcheck(
    f: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>,
    inputs: &[&Tensor],
    options: GradCheck,
) -> Result<()> {
    const OP: &str = "gradgradcheck";
    let first = leaves(OP, inputs)?;
    let outputs = enable_grad(|| f(&first))?;
    let weights = weights(outputs.iter().filter(|x| x.requires_grad()))?;
    let count = inputs.len();
    let gradients = |all: &[Tensor]| -> Result<Vec<Tensor>> {
        enable_grad(|| {
            // Finite differences come without histories; gradients need them.
            let xs: Vec<Tensor> = all[..count].iter().map(tracked).collect::<Result<_>>()?;
            let outputs = f(&xs)?;
            let outputs: Vec<&Tensor> = outputs.iter().filter(|x| x.requires_grad()).collect();
            let weights: Vec<Option<&Tensor>> = all[count..].iter().map(Some).collect();
            let options = GradOptions { create_graph: true, allow_unused: true, ..GradOptions::default() };
            let gradients = grad(&outputs, &xs.iter().collect::<Vec<_>>(), &weights, options)?;
            gradients
                .into_iter()
                .zip(&xs)
                .map(|(gradient, x)| gradient.map_or_else(|| x.zeros_like(), Ok))
                .collect()
        })
    };
    let weights: Vec<&Tensor> = weights.iter().collect();
    let all: Vec<Tensor> = [first, leaves(OP, &weights)?].concat();
    let outputs = gradients(&all)?;
    compare(OP, &gradients, &all, &outputs, options)
}

/// The tensor, or a leaf of its memory that requires a gradient.
fn tracked(x: &Tensor) -> Result<Tensor> {
    if x.requires_grad() {
        return Ok(x.clone());
    }
    let leaf = x.detach();
    leaf.requires_grad_(true)?;
    Ok(leaf)
}

/// Leaves of the numbers of tensors.
fn leaves(op: &'static str, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
    let leaf = |x: &&Tensor| {
        if !matches!(x.dtype(), DType::F64 | DType::C128) {
            return Err(Error::dtype(
                op,
                "takes f64 and c128, as others are too coarse for differences",
                [x.dtype()],
            ));
        }
        tracked(&x.detach())
    };
    inputs.iter().map(leaf).collect()
}

/// Numbers between ½ and 1½ without a pattern, for the elements of each output.
fn weights<'a>(outputs: impl Iterator<Item = &'a Tensor>) -> Result<Vec<Tensor>> {
    let mut state = 1u64;
    let mut number = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        0.5 + (state >> 11) as f64 / (1u64 << 53) as f64
    };
    outputs
        .map(|x| {
            let numbers: Vec<C128> = (0..x.numel()).map(|_| C128::new(number(), number())).collect();
            tensor(&numbers, x)
        })
        .collect()
}

/// A tensor of these numbers, as another one is.
fn tensor(numbers: &[C128], like: &Tensor) -> Result<Tensor> {
    let x = match like.dtype().is_complex() {
        true => Tensor::from_slice(numbers, like.shape().clone())?,
        false => Tensor::from_vec(numbers.iter().map(|z| z.re).collect::<Vec<f64>>(), like.shape().clone())?,
    };
    x.to_dtype(like.dtype())?.to_device(like.device())
}

fn numbers(x: &Tensor) -> Result<Vec<C128>> {
    no_grad(|| x.detach().to_dtype(DType::C128)?.to_vec())
}

fn index_of(mut at: usize, dims: &[usize]) -> Vec<usize> {
    let mut index = vec![0; dims.len()];
    for (i, &len) in dims.iter().enumerate().rev() {
        index[i] = at % len;
        at /= len;
    }
    index
}
