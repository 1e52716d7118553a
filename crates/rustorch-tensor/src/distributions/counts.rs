//! Distributions of integers: Bernoulli, binomial, Poisson. Draws are in the dtype of the parameters.

use super::parameters::{
    broadcast, check, check_count, check_probability, clamped, drawn_shape, log1p_exp, values,
};
use super::{Distribution, KlDivergence};
use crate::autograd::no_grad;
use crate::{Generator, Tensor, TensorOrScalar};
use rustorch_core::{DType, Result, Shape};
use rustorch_runtime::DeviceGuard;
use std::f64::consts::{E, PI};

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

    /// Summed over all counts, in `f64`, with memory for as many numbers; the largest `total_count` is read.
    fn entropy(&self) -> Result<Tensor> {
        self.total_count.expect_value("Binomial::entropy")?;
        let last = match self.total_count.numel() {
            0 => 0.0,
            _ => self.total_count.detach().max_all()?.item()?.to_f64(),
        };
        let _beside = DeviceGuard::beside(self.probs.storage());
        let counts = Tensor::arange_with(0.0, last + 1.0, 1.0, DType::F64)?;
        let [n, probs] =
            [&self.total_count, &self.probs].map(|x| x.to_dtype(DType::F64).and_then(|x| x.unsqueeze(-1)));
        let (n, probs) = (n?, probs?);
        let is_possible = counts.le(&n)?;
        let counts = is_possible.where_cond(&counts, 0)?;
        let others = n.sub(&counts)?;
        let factorial = |x: &Tensor| x.add(1)?.lgamma();
        let choices = factorial(&n)?.sub(&factorial(&counts)?)?.sub(&factorial(&others)?)?;
        let log_prob = choices.add(&counts.xlogy(&probs)?)?.add(&others.xlog1py(&probs.neg()?)?)?;
        let log_prob = is_possible.where_cond(&log_prob, f64::NEG_INFINITY)?;
        entropy_of(&log_prob)?.to_dtype(self.probs.dtype())
    }

    fn draw(&self, sample_shape: &Shape, generator: &Generator) -> Result<Tensor> {
        let shape = drawn_shape(sample_shape, &self.batch, &[])?;
        generator.binomial(&self.total_count.broadcast_to(&shape)?, &self.probs.broadcast_to(&shape)?)
    }
}

/// The mean up to which a Poisson distribution's entropy is summed.
const SUMMED: f64 = 100.0;

/// What a Poisson distribution's entropy is below that of a normal one: coefficients of the mean's powers from λ⁻⁸ to λ⁻¹.
const ENTROPY: [f64; 8] = [
    57281.0 / 1440.0,
    33953.0 / 5040.0,
    1375.0 / 1008.0,
    863.0 / 2520.0,
    9.0 / 80.0,
    19.0 / 360.0,
    1.0 / 24.0,
    1.0 / 12.0,
];

/// The entropy of logarithms of probabilities, along the last dimension.
fn entropy_of(log_prob: &Tensor) -> Result<Tensor> {
    let is_impossible = log_prob.eq(f64::NEG_INFINITY)?;
    log_prob.exp()?.mul(&log_prob.masked_fill(&is_impossible, 0)?)?.sum(-1, false)?.neg()
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

    /// In `f64`: to a mean of 100 summed over counts, with memory for 256 numbers; beyond by the asymptotic series.
    fn entropy(&self) -> Result<Tensor> {
        let _beside = DeviceGuard::beside(self.rate.storage());
        let rate = self.rate.to_dtype(DType::F64)?;
        let is_large = rate.gt(SUMMED)?;
        // Counts that are larger by fifteen standard deviations have no part.
        let counts = Tensor::arange_with(0.0, 256.0, 1.0, DType::F64)?;
        let small = rate.masked_fill(&is_large, SUMMED)?.unsqueeze(-1)?;
        let log_prob = counts.xlogy(&small)?.sub(&small)?.sub(&counts.add(1)?.lgamma()?)?;
        let large = rate.masked_fill(&is_large.logical_not()?, SUMMED)?;
        let inverse = large.reciprocal()?;
        let mut series = inverse.zeros_like()?;
        for coefficient in ENTROPY {
            series = series.add(coefficient)?.mul(&inverse)?;
        }
        let by_series = large.mul(2.0 * PI * E)?.log()?.mul(0.5)?.sub(&series)?;
        is_large.where_cond(&by_series, &entropy_of(&log_prob)?)?.to_dtype(self.rate.dtype())
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
