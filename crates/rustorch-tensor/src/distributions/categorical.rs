//! One of several categories.

use super::parameters::{check, clamped, drawn_shape, promoted};
use super::{Distribution, KlDivergence};
use crate::autograd::no_grad;
use crate::elements::largest;
use crate::{Generator, Tensor};
use rustorch_core::{DType, Error, Result, Shape};

/// One of `k` categories, 0 to k − 1, as `I64`.
///
/// ```
/// use rustorch_tensor::{Tensor, distributions::{Categorical, Distribution}};
/// let policy = Categorical::from_logits(&Tensor::new([[0.0f32, 2.0], [1.0, 1.0]])?)?;
/// let action = policy.sample(())?;
/// assert_eq!((action.dims(), policy.log_prob(&action)?.dims()), (&[2][..], &[2][..]));
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Categorical {
    /// Of sum 1.
    probs: Tensor,
    /// Of which the exponentials have the sum 1.
    logits: Tensor,
    batch: Shape,
}

impl Categorical {
    /// Of weights `[.., k]` that are proportional to the probabilities.
    ///
    /// # Errors
    /// If they are a scalar or there are no categories, one is negative or not finite, or all of a row are 0.
    pub fn new(weights: &Tensor) -> Result<Categorical> {
        let (weights, batch) = Categorical::parameter("probs", weights)?;
        let sums = weights.sum(-1, true)?;
        let holds = weights.ge(0)?.logical_and(&sums.isfinite()?.logical_and(&sums.gt(0)?)?)?;
        check("Categorical", "probs", "0 or positive, with a positive finite sum,", &weights, &holds)?;
        let probs = weights.div(&sums)?;
        let logits = clamped(&probs)?.log()?;
        Ok(Categorical { probs, logits, batch })
    }

    /// Of logarithms `[.., k]` of weights.
    ///
    /// # Errors
    /// If they are a scalar, there are no categories, or one is NaN or +∞.
    pub fn from_logits(logits: &Tensor) -> Result<Categorical> {
        let (logits, batch) = Categorical::parameter("logits", logits)?;
        check("Categorical", "logits", "a number below ∞", &logits, &logits.lt(f64::INFINITY)?)?;
        let logits = logits.log_softmax(-1)?;
        Ok(Categorical { probs: logits.softmax(-1)?, logits, batch })
    }

    fn parameter(argument: &str, parameter: &Tensor) -> Result<(Tensor, Shape)> {
        let [parameter] = promoted("Categorical", [parameter.into()])?;
        match parameter.dims().split_last() {
            Some((1.., batch)) => {
                let batch = Shape::new(batch)?;
                Ok((parameter, batch))
            }
            _ => Err(Error::shape(
                "Categorical",
                format!("{argument} must have one dimension at least, the last of one category at least"),
                [parameter.shape()],
            )),
        }
    }

    /// The probabilities `[.., k]`.
    pub fn probs(&self) -> &Tensor {
        &self.probs
    }

    /// Their logarithms; those of probability 0 that was given as such are finite, as in PyTorch.
    pub fn logits(&self) -> &Tensor {
        &self.logits
    }

    fn categories(&self) -> usize {
        self.probs.dims().last().copied().unwrap_or(0)
    }
}

impl Distribution for Categorical {
    fn batch_shape(&self) -> &Shape {
        &self.batch
    }

    /// NaN, as categories are no numbers.
    fn mean(&self) -> Result<Tensor> {
        self.probs.detach().select(-1, 0)?.full_like(f64::NAN)
    }

    /// NaN, as categories are no numbers.
    fn variance(&self) -> Result<Tensor> {
        self.mean()
    }

    fn log_prob(&self, value: &Tensor) -> Result<Tensor> {
        let name = "Categorical::log_prob";
        if value.dtype().is_complex() || value.dtype().is_quant() {
            return Err(Error::dtype(name, "values must be integers", [value.dtype()]));
        }
        let fits = value.ge(0)?.logical_and(&value.lt(self.categories() as i64)?)?;
        let fits =
            if value.dtype().is_float() { fits.logical_and(&value.eq(&value.floor()?)?)? } else { fits };
        let rule = format!("an integer from 0 to {}", self.categories() - 1);
        check(name, "value", &rule, value, &fits)?;
        let shape = value.shape().broadcast(&self.batch, name)?;
        let index = value.to_dtype(DType::I64)?.broadcast_to(&shape)?.unsqueeze(-1)?;
        let rows = drawn_shape(&shape, &Shape::scalar(), &[self.categories()])?;
        self.logits.broadcast_to(rows)?.gather(-1, &index)?.squeeze(-1)
    }

    fn entropy(&self) -> Result<Tensor> {
        // 0 · −∞ is NaN, and has to count as 0.
        let least = -largest(self.logits.dtype());
        self.logits.clamp_min(least)?.mul(&self.probs)?.sum(-1, false)?.neg()
    }

    fn draw(&self, sample_shape: &Shape, generator: &Generator) -> Result<Tensor> {
        let shape = drawn_shape(sample_shape, &self.batch, &[])?;
        let (rows, draws) = (self.batch.numel(), sample_shape.numel());
        if shape.numel() == 0 {
            return Tensor::zeros(shape, (DType::I64, self.probs.device()));
        }
        no_grad(|| {
            let probs = self.probs.detach().reshape([rows, self.categories()])?;
            generator.multinomial(&probs, draws, true)?.t()?.reshape_to(shape)
        })
    }
}

impl KlDivergence for Categorical {
    fn kl_divergence(&self, other: &Categorical) -> Result<Tensor> {
        let (p, q) = (self, other);
        if p.categories() != q.categories() {
            let why = "the distributions must have as many categories";
            return Err(Error::shape("Categorical::kl_divergence", why, [p.probs.shape(), q.probs.shape()]));
        }
        let terms = p.probs.mul(&p.logits.sub(&q.logits)?)?;
        let terms = terms.masked_fill(&q.probs.eq(0)?, f64::INFINITY)?.masked_fill(&p.probs.eq(0)?, 0)?;
        terms.sum(-1, false)
    }
}
