//! Distributions of integers: Bernoulli, binomial, Poisson. Draws are in the dtype of the parameters.

use super::parameters::{
    broadcast, check, check_count, check_probability, clamped, drawn_shape, log1p_exp, values,
};
use super::{Distribution, KlDivergence};
use crate::autograd::no_grad;
use crate::{Generator, Tensor, TensorOrScalar};
use rustorch_core::{Error, Result, Shape};
use rustorch_runtime::DeviceGuard;

/// 1 with probability `probs`, else 0.
#[derive(Clone, Debug)]
pub struct Bernoulli {
    probs: Tensor,
    logits: Tensor,
    batch: Shape,
}

impl Bernoulli {
    /// # Errors
    /// If `probs` are not from 0 to 1.
    pub fn new<'a>(probs: impl Into<TensorOrScalar<'a>>) -> Result<Bernoulli> {
        let ([probs], batch) = broadcast("Bernoulli", [probs.into()])?;
        check_probability("Bernoulli", &probs)?;
        let logits = logits_of(&probs)?;
        Ok(Bernoulli { probs, logits, batch })
    }

    /// By logits: log(p / (1 − p)).
    ///
    /// # Errors
    /// If they are NaN.
    pub fn from_logits<'a>(logits: impl Into<TensorOrScalar<'a>>) -> Result<Bernoulli> {
        let ([logits], batch) = broadcast("Bernoulli", [logits.into()])?;
        super::parameters::check_number("Bernoulli", "logits", &logits)?;
        Ok(Bernoulli { probs: logits.sigmoid()?, logits, batch })
    }

    /// The probability of 1.
    pub fn probs(&self) -> &Tensor {
        &self.probs
    }

    /// log(p / (1 − p)); those of probabilities 0 and 1 are finite.
    pub fn logits(&self) -> &Tensor {
        &self.logits
    }
}

/// log(p / (1 − p))
fn logits_of(probs: &Tensor) -> Result<Tensor> {
    let p = clamped(probs)?;
    p.log()?.sub(&p.neg()?.log1p()?)
}

/// x·log p + (1 − x)·log(1 − p) of logits.
fn log_likelihood(logits: &Tensor, value: &Tensor) -> Result<Tensor> {
    value.rsub(1)?.mul(logits)?.add(&log1p_exp(&logits.neg()?)?)?.neg()
}

impl Distribution for Bernoulli {
    fn batch_shape(&self) -> &Shape {
        &self.batch
    }

    fn mean(&self) -> Result<Tensor> {
        Ok(self.probs.clone())
    }

    fn variance(&self) -> Result<Tensor> {
        self.probs.mul(&self.probs.rsub(1)?)
    }

    fn log_prob(&self, value: &Tensor) -> Result<Tensor> {
        let name = "Bernoulli::log_prob";
        let value = values(name, value, &self.logits)?;
        check(name, "value", "0 or 1", &value, &value.eq(0)?.logical_or(&value.eq(1)?)?)?;
        log_likelihood(&self.logits, &value)
    }

    fn entropy(&self) -> Result<Tensor> {
        log_likelihood(&self.logits, &self.probs)?.neg()
    }

    fn draw(&self, sample_shape: &Shape, generator: &Generator) -> Result<Tensor> {
        let _beside = DeviceGuard::beside(self.probs.storage());
        let dtype = self.probs.dtype();
        let unit = generator.rand(drawn_shape(sample_shape, &self.batch, &[])?, dtype)?;
        no_grad(|| unit.lt(&self.probs)?.to_dtype(dtype))
    }
}

impl KlDivergence for Bernoulli {
    fn kl_divergence(&self, other: &Bernoulli) -> Result<Tensor> {
        let (p, q) = (self, other);
        // Of 1, and of 0: what no draw is has no part, and what the other cannot draw is infinite.
        let of_one = log1p_exp(&q.logits.neg()?)?.sub(&log1p_exp(&p.logits.neg()?)?)?.mul(&p.probs)?;
        let of_one = of_one.masked_fill(&q.probs.eq(0)?, f64::INFINITY)?.masked_fill(&p.probs.eq(0)?, 0)?;
        let of_zero = log1p_exp(&q.logits)?.sub(&log1p_exp(&p.logits)?)?.mul(&p.probs.rsub(1)?)?;
        let of_zero = of_zero.masked_fill(&q.probs.eq(1)?, f64::INFINITY)?.masked_fill(&p.probs.eq(1)?, 0)?;
        of_one.add(&of_zero)
    }
}

/// Successes among `total_count` independent trials.
#[derive(Clone, Debug)]
pub struct Binomial {
    total_count: Tensor,
    probs: Tensor,
    logits: Tensor,
    batch: Shape,
}

impl Binomial {
    /// # Errors
    /// If the parameters do not broadcast, `total_count` is no integer from 0 on, or `probs` are not from 0 to 1.
    pub fn new<'a>(
        total_count: impl Into<TensorOrScalar<'a>>,
        probs: impl Into<TensorOrScalar<'a>>,
    ) -> Result<Binomial> {
        let ([total_count, probs], batch) = broadcast("Binomial", [total_count.into(), probs.into()])?;
        check_count("Binomial", "total_count", &total_count)?;
        check_probability("Binomial", &probs)?;
        let logits = logits_of(&probs)?;
        Ok(Binomial { total_count, probs, logits, batch })
    }

    /// The number of trials.
    pub fn total_count(&self) -> &Tensor {
        &self.total_count
    }

    /// The probability of success in each.
    pub fn probs(&self) -> &Tensor {
        &self.probs
    }
}

impl Distribution for Binomial {
    fn batch_shape(&self) -> &Shape {
        &self.batch
    }

    fn mean(&self) -> Result<Tensor> {
        self.total_count.mul(&self.probs)
    }

    fn variance(&self) -> Result<Tensor> {
        self.mean()?.mul(&self.probs.rsub(1)?)
    }

    fn log_prob(&self, value: &Tensor) -> Result<Tensor> {
        let name = "Binomial::log_prob";
        let value = values(name, value, &self.probs)?;
        let n = &self.total_count;
        let fits = value.ge(0)?.logical_and(&value.le(n)?)?.logical_and(&value.eq(&value.floor()?)?)?;
        check(name, "value", "an integer from 0 to total_count", &value, &fits)?;
        let factorial = |x: &Tensor| x.add(1)?.lgamma();
        let choices = factorial(n)?.sub(&factorial(&value)?)?.sub(&factorial(&n.sub(&value)?)?)?;
        choices.add(&value.mul(&self.logits)?)?.sub(&n.mul(&log1p_exp(&self.logits)?)?)
    }

    /// Has no closed form.
    fn entropy(&self) -> Result<Tensor> {
        Err(Error::argument(
            "Binomial::entropy",
            "has no closed form; sum over the probabilities of all counts",
        ))
    }

    fn draw(&self, sample_shape: &Shape, generator: &Generator) -> Result<Tensor> {
        let shape = drawn_shape(sample_shape, &self.batch, &[])?;
        generator.binomial(&self.total_count.broadcast_to(&shape)?, &self.probs.broadcast_to(&shape)?)
    }
}

/// A Poisson distribution of mean `rate`.
#[derive(Clone, Debug)]
pub struct Poisson {
    rate: Tensor,
    batch: Shape,
}

impl Poisson {
    /// # Errors
    /// If `rate` is negative.
    pub fn new<'a>(rate: impl Into<TensorOrScalar<'a>>) -> Result<Poisson> {
        let ([rate], batch) = broadcast("Poisson", [rate.into()])?;
        check("Poisson", "rate", "0 or positive", &rate, &rate.ge(0)?)?;
        Ok(Poisson { rate, batch })
    }

    /// The mean.
    pub fn rate(&self) -> &Tensor {
        &self.rate
    }
}

impl Distribution for Poisson {
    fn batch_shape(&self) -> &Shape {
        &self.batch
    }

    fn mean(&self) -> Result<Tensor> {
        Ok(self.rate.clone())
    }

    fn variance(&self) -> Result<Tensor> {
        Ok(self.rate.clone())
    }

    fn log_prob(&self, value: &Tensor) -> Result<Tensor> {
        let value = values("Poisson::log_prob", value, &self.rate)?;
        check_count("Poisson::log_prob", "value", &value)?;
        value.xlogy(&self.rate)?.sub(&self.rate)?.sub(&value.add(1)?.lgamma()?)
    }

    /// Has no closed form.
    fn entropy(&self) -> Result<Tensor> {
        Err(Error::argument("Poisson::entropy", "has no closed form; sum over the probabilities of counts"))
    }

    fn draw(&self, sample_shape: &Shape, generator: &Generator) -> Result<Tensor> {
        let shape = drawn_shape(sample_shape, &self.batch, &[])?;
        generator.poisson(&self.rate.broadcast_to(shape)?)
    }
}

impl KlDivergence for Poisson {
    fn kl_divergence(&self, other: &Poisson) -> Result<Tensor> {
        let ratio = self.rate.log()?.sub(&other.rate.log()?)?;
        self.rate.mul(&ratio)?.sub(&self.rate.sub(&other.rate)?)
    }
}
