//! Waiting times: exponential and gamma distributions.

use super::parameters::{broadcast, check, check_positive, drawn_shape, values};
use super::{Distribution, KlDivergence, Reparametrized, drawn};
use crate::{Generator, Tensor, TensorOrScalar};
use rustorch_core::{DType, Result, Shape};
use rustorch_runtime::DeviceGuard;

/// An exponential distribution of mean 1 / `rate`.
#[derive(Clone, Debug)]
pub struct Exponential {
    rate: Tensor,
    batch: Shape,
}

impl Exponential {
    /// # Errors
    /// If `rate` is not positive.
    pub fn new<'a>(rate: impl Into<TensorOrScalar<'a>>) -> Result<Exponential> {
        let ([rate], batch) = broadcast("Exponential", [rate.into()])?;
        check_positive("Exponential", "rate", &rate)?;
        Ok(Exponential { rate, batch })
    }

    /// The rate.
    pub fn rate(&self) -> &Tensor {
        &self.rate
    }
}

/// [`check`] that values are not negative.
fn check_support(name: &'static str, value: &Tensor) -> Result<()> {
    check(name, "value", "0 or positive", value, &value.ge(0)?)
}

impl Distribution for Exponential {
    fn batch_shape(&self) -> &Shape {
        &self.batch
    }

    fn mean(&self) -> Result<Tensor> {
        self.rate.reciprocal()
    }

    fn variance(&self) -> Result<Tensor> {
        self.rate.square()?.reciprocal()
    }

    fn stddev(&self) -> Result<Tensor> {
        self.mean()
    }

    fn log_prob(&self, value: &Tensor) -> Result<Tensor> {
        let value = values("Exponential::log_prob", value, &self.rate)?;
        check_support("Exponential::log_prob", &value)?;
        self.rate.log()?.sub(&self.rate.mul(&value)?)
    }

    fn entropy(&self) -> Result<Tensor> {
        self.rate.log()?.rsub(1)
    }

    fn draw(&self, sample_shape: &Shape, generator: &Generator) -> Result<Tensor> {
        drawn(self, sample_shape, generator)
    }
}

impl Reparametrized for Exponential {
    fn rdraw(&self, sample_shape: &Shape, generator: &Generator) -> Result<Tensor> {
        let _beside = DeviceGuard::beside(self.rate.storage());
        let unit = generator.rand(drawn_shape(sample_shape, &self.batch, &[])?, self.rate.dtype())?;
        unit.neg()?.log1p()?.neg()?.div(&self.rate)
    }
}

impl KlDivergence for Exponential {
    fn kl_divergence(&self, other: &Exponential) -> Result<Tensor> {
        let ratio = other.rate.div(&self.rate)?;
        ratio.sub(&ratio.log()?)?.sub(1)
    }
}

/// A gamma distribution of mean `concentration` / `rate`.
#[derive(Clone, Debug)]
pub struct Gamma {
    concentration: Tensor,
    rate: Tensor,
    batch: Shape,
}

impl Gamma {
    /// # Errors
    /// If the parameters do not broadcast or are not positive.
    pub fn new<'a>(
        concentration: impl Into<TensorOrScalar<'a>>,
        rate: impl Into<TensorOrScalar<'a>>,
    ) -> Result<Gamma> {
        let ([concentration, rate], batch) = broadcast("Gamma", [concentration.into(), rate.into()])?;
        check_positive("Gamma", "concentration", &concentration)?;
        check_positive("Gamma", "rate", &rate)?;
        Ok(Gamma { concentration, rate, batch })
    }

    /// The shape parameter, often called α or k.
    pub fn concentration(&self) -> &Tensor {
        &self.concentration
    }

    /// The inverse of the scale.
    pub fn rate(&self) -> &Tensor {
        &self.rate
    }
}

impl Distribution for Gamma {
    fn batch_shape(&self) -> &Shape {
        &self.batch
    }

    fn mean(&self) -> Result<Tensor> {
        self.concentration.div(&self.rate)
    }

    fn variance(&self) -> Result<Tensor> {
        self.concentration.div(&self.rate.square()?)
    }

    fn log_prob(&self, value: &Tensor) -> Result<Tensor> {
        let value = values("Gamma::log_prob", value, &self.rate)?;
        check_support("Gamma::log_prob", &value)?;
        let power =
            self.concentration.mul(&self.rate.log()?)?.add(&self.concentration.sub(1)?.xlogy(&value)?)?;
        power.sub(&self.rate.mul(&value)?)?.sub(&self.concentration.lgamma()?)
    }

    fn entropy(&self) -> Result<Tensor> {
        let a = &self.concentration;
        let rest = a.rsub(1)?.mul(&a.digamma()?)?;
        a.sub(&self.rate.log()?)?.add(&a.lgamma()?)?.add(&rest)
    }

    fn draw(&self, sample_shape: &Shape, generator: &Generator) -> Result<Tensor> {
        drawn(self, sample_shape, generator)
    }
}

impl Reparametrized for Gamma {
    /// Draws below the smallest normal number of the dtype are that number.
    fn rdraw(&self, sample_shape: &Shape, generator: &Generator) -> Result<Tensor> {
        let shape = drawn_shape(sample_shape, &self.batch, &[])?;
        let log = generator.log_gamma(&self.concentration.broadcast_to(shape)?)?;
        let least = match log.dtype() {
            DType::F64 => f64::MIN_POSITIVE,
            DType::F16 => rustorch_core::f16::MIN_POSITIVE.to_f64(),
            _ => f32::MIN_POSITIVE.into(),
        };
        log.exp()?.div(&self.rate)?.clamp_min(least)
    }
}

impl KlDivergence for Gamma {
    fn kl_divergence(&self, other: &Gamma) -> Result<Tensor> {
        let ratio = self.rate.div(&other.rate)?;
        let (a, b) = (&self.concentration, &other.concentration);
        let normalizers = b.mul(&ratio.log()?)?.add(&b.lgamma()?.sub(&a.lgamma()?)?)?;
        let rates = other.rate.sub(&self.rate)?.mul(&a.div(&self.rate)?)?;
        normalizers.add(&a.sub(b)?.mul(&a.digamma()?)?)?.add(&rates)
    }
}
