//! Uniform distributions over intervals.

use super::parameters::{broadcast, check, drawn_shape, values};
use super::{Distribution, KlDivergence, Reparametrized, drawn};
use crate::{Generator, Tensor, TensorOrScalar};
use rustorch_core::{Result, Shape};
use rustorch_runtime::DeviceGuard;

/// A uniform distribution over [low, high).
#[derive(Clone, Debug)]
pub struct Uniform {
    low: Tensor,
    high: Tensor,
    batch: Shape,
}

impl Uniform {
    /// # Errors
    /// If the parameters do not broadcast, or `low` is not below `high`.
    pub fn new<'a>(
        low: impl Into<TensorOrScalar<'a>>,
        high: impl Into<TensorOrScalar<'a>>,
    ) -> Result<Uniform> {
        let ([low, high], batch) = broadcast("Uniform", [low.into(), high.into()])?;
        check("Uniform", "low", "below high", &low, &low.lt(&high)?)?;
        Ok(Uniform { low, high, batch })
    }

    /// The lower bound.
    pub fn low(&self) -> &Tensor {
        &self.low
    }

    /// The upper bound.
    pub fn high(&self) -> &Tensor {
        &self.high
    }

    fn width(&self) -> Result<Tensor> {
        self.high.sub(&self.low)
    }
}

impl Distribution for Uniform {
    fn batch_shape(&self) -> &Shape {
        &self.batch
    }

    fn mean(&self) -> Result<Tensor> {
        self.high.add(&self.low)?.div(2)
    }

    fn variance(&self) -> Result<Tensor> {
        self.width()?.square()?.div(12)
    }

    /// The support is [low, high]; at `high` the density is 0.
    fn log_prob(&self, value: &Tensor) -> Result<Tensor> {
        let name = "Uniform::log_prob";
        let value = values(name, value, &self.low)?;
        let above = self.low.le(&value)?;
        check(name, "value", "from low to high", &value, &above.logical_and(&value.le(&self.high)?)?)?;
        let inside = above.logical_and(&self.high.gt(&value)?)?;
        inside.to_dtype(value.dtype())?.log()?.sub(&self.width()?.log()?)
    }

    fn entropy(&self) -> Result<Tensor> {
        self.width()?.log()
    }

    fn draw(&self, sample_shape: &Shape, generator: &Generator) -> Result<Tensor> {
        drawn(self, sample_shape, generator)
    }
}

impl Reparametrized for Uniform {
    fn rdraw(&self, sample_shape: &Shape, generator: &Generator) -> Result<Tensor> {
        let _beside = DeviceGuard::beside(self.low.storage());
        let unit = generator.rand(drawn_shape(sample_shape, &self.batch, &[])?, self.low.dtype())?;
        self.low.add(&unit.mul(&self.width()?)?)
    }
}

impl KlDivergence for Uniform {
    fn kl_divergence(&self, other: &Uniform) -> Result<Tensor> {
        let outside = other.low.gt(&self.low)?.logical_or(&other.high.lt(&self.high)?)?;
        other.width()?.div(&self.width()?)?.log()?.masked_fill(&outside, f64::INFINITY)
    }
}
