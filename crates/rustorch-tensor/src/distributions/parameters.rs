//! Parameters of distributions: broadcasting, domains, shapes of draws.

use crate::binary::{DEFAULT_FLOAT, Side, promote};
use crate::graph::is_capturing;
use crate::{Tensor, TensorOrScalar};
use rustorch_core::{DType, Error, Result, Shape};

/// Parameters in the dtype to which they promote, a float, and in the shape to which they broadcast.
pub(super) fn broadcast<const N: usize>(
    name: &'static str,
    parameters: [TensorOrScalar<'_>; N],
) -> Result<([Tensor; N], Shape)> {
    let all = promoted(name, parameters)?;
    let mut shape = Shape::scalar();
    for parameter in &all {
        shape = shape.broadcast(parameter.shape(), name)?;
    }
    let mut wide = all;
    for parameter in &mut wide {
        *parameter = parameter.broadcast_to(&shape)?;
    }
    Ok((wide, shape))
}

/// Parameters in the dtype to which they promote, a float: integers count as floats of the default dtype.
pub(super) fn promoted<const N: usize>(
    name: &'static str,
    parameters: [TensorOrScalar<'_>; N],
) -> Result<[Tensor; N]> {
    let mut dtype = promote(name, &parameters.map(|x| Side::with_category(x.side())))?;
    if dtype.is_complex() {
        return Err(Error::dtype(name, "parameters must be real", [dtype]));
    }
    if !dtype.is_float() {
        dtype = DEFAULT_FLOAT;
    }
    let zero = || crate::create::scalar(0.into(), dtype);
    let beside =
        match parameters.iter().find_map(|x| if let TensorOrScalar::Tensor(x) = x { Some(*x) } else { None })
        {
            Some(tensor) => tensor.clone(),
            None => zero()?,
        };
    let mut all = [const { None }; N];
    for (place, parameter) in all.iter_mut().zip(parameters) {
        *place = Some(parameter.to_tensor(name, dtype, &beside)?.into_owned());
    }
    // Every place was filled.
    Ok(all.map(|parameter| parameter.expect("a parameter for each place")))
}

/// An error that names the distribution, the argument and the first value for which the condition does not hold.
pub(crate) fn check(
    name: &'static str,
    argument: &str,
    rule: &str,
    value: &Tensor,
    holds: &Tensor,
) -> Result<()> {
    if is_capturing() {
        return holds.assert(&format!("{name}: {argument} must be {rule}")).map(drop);
    }
    if holds.all_all()?.item()?.to_bool() {
        return Ok(());
    }
    let (value, holds) = (value.detach().broadcast_to(holds.shape())?, holds.detach());
    let flat = holds.flatten(0, -1)?.to_vec::<bool>()?;
    let first = flat.iter().position(|holds| !holds).unwrap_or(0);
    let wrong = value.flatten(0, -1)?.item_at(&[first as isize])?;
    let place = match holds.ndim() {
        0 => String::new(),
        _ => {
            let (mut rest, mut index) = (first, Vec::new());
            for n in holds.dims().iter().rev() {
                index.push(rest % n);
                rest /= n;
            }
            index.reverse();
            format!(" at {index:?}")
        }
    };
    Err(Error::argument(name, format!("{argument} must be {rule}, and is {wrong}{place}")))
}

/// [`check`] that all values are above zero.
pub(super) fn check_positive(name: &'static str, argument: &str, value: &Tensor) -> Result<()> {
    check(name, argument, "positive", value, &value.gt(0)?)
}

/// [`check`] that all values are real numbers, as locations have to be.
pub(super) fn check_number(name: &'static str, argument: &str, value: &Tensor) -> Result<()> {
    check(name, argument, "a number", value, &value.isnan()?.logical_not()?)
}

/// [`check`] that all values are probabilities.
pub(super) fn check_probability(name: &'static str, value: &Tensor) -> Result<()> {
    let holds = value.ge(0)?.logical_and(&value.le(1)?)?;
    check(name, "probs", "from 0 to 1", value, &holds)
}

/// [`check`] that all values are integers from 0 on.
pub(super) fn check_count(name: &'static str, argument: &str, value: &Tensor) -> Result<()> {
    let holds = value.ge(0)?.logical_and(&value.eq(&value.floor()?)?)?;
    check(name, argument, "an integer from 0 on", value, &holds)
}

/// Values in the dtype of the parameters.
pub(super) fn values(name: &'static str, value: &Tensor, parameter: &Tensor) -> Result<Tensor> {
    if value.dtype().is_complex() || value.dtype().is_quant() {
        return Err(Error::dtype(name, "values must be real and not quantized", [value.dtype()]));
    }
    // A wider dtype of the values is kept, as in PyTorch.
    match value.dtype().is_float() && value.dtype() != parameter.dtype() {
        true => value.to_dtype(wider(value.dtype(), parameter.dtype())),
        false => value.to_dtype(parameter.dtype()),
    }
}

fn wider(a: DType, b: DType) -> DType {
    rustorch_core::promote_types(a, b).unwrap_or(b)
}

/// The shape of draws.
pub(super) fn drawn_shape(sample: &Shape, batch: &Shape, event: &[usize]) -> Result<Shape> {
    let dims: Vec<usize> = [sample.dims(), batch.dims(), event].concat();
    Shape::new(dims.as_slice())
}

/// log(1 + eˣ) to full precision: [`Tensor::softplus`] is x above 20.
pub(super) fn log1p_exp(x: &Tensor) -> Result<Tensor> {
    x.relu()?.add(&x.abs()?.neg()?.exp()?.log1p()?)
}

/// Logits of probabilities, which are kept as far from 0 and 1 as the dtype tells numbers from 1.
pub(super) fn clamped(probs: &Tensor) -> Result<Tensor> {
    let epsilon = match probs.dtype() {
        DType::F64 => f64::EPSILON,
        DType::F16 => rustorch_core::f16::EPSILON.to_f64(),
        DType::BF16 => rustorch_core::bf16::EPSILON.to_f64(),
        _ => f32::EPSILON.into(),
    };
    probs.clamp(epsilon, 1.0 - epsilon)
}
