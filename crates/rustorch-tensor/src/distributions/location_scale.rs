//! Distributions that a location moves and a scale stretches.

use super::parameters::{broadcast, check_number, check_positive, drawn_shape, values};
use super::{Distribution, KlDivergence, Reparametrized, drawn};
use crate::{Generator, Tensor, TensorOrScalar};
use rustorch_core::{Result, Shape};
use rustorch_runtime::DeviceGuard;
use std::f64::consts::{LN_2, TAU};

/// A normal distribution of mean `loc` and standard deviation `scale`.
#[derive(Clone, Debug)]
pub struct Normal {
    loc: Tensor,
    scale: Tensor,
    batch: Shape,
}

impl Normal {
    /// # Errors
    /// If the parameters do not broadcast, `loc` is NaN or `scale` not positive.
    pub fn new<'a>(
        loc: impl Into<TensorOrScalar<'a>>,
        scale: impl Into<TensorOrScalar<'a>>,
    ) -> Result<Normal> {
        Normal::named("Normal", loc.into(), scale.into())
    }

    fn named(name: &'static str, loc: TensorOrScalar<'_>, scale: TensorOrScalar<'_>) -> Result<Normal> {
        let ([loc, scale], batch) = broadcast(name, [loc, scale])?;
        check_number(name, "loc", &loc)?;
        check_positive(name, "scale", &scale)?;
        Ok(Normal { loc, scale, batch })
    }

    /// The mean.
    pub fn loc(&self) -> &Tensor {
        &self.loc
    }

    /// The standard deviation.
    pub fn scale(&self) -> &Tensor {
        &self.scale
    }

    fn density(&self, value: &Tensor) -> Result<Tensor> {
        let squares = value.sub(&self.loc)?.div(&self.scale)?.square()?.mul(-0.5)?;
        squares.sub(&self.scale.log()?)?.sub(0.5 * TAU.ln())
    }
}

impl Distribution for Normal {
    fn batch_shape(&self) -> &Shape {
        &self.batch
    }

    fn mean(&self) -> Result<Tensor> {
        Ok(self.loc.clone())
    }

    fn variance(&self) -> Result<Tensor> {
        self.scale.square()
    }

    fn stddev(&self) -> Result<Tensor> {
        Ok(self.scale.clone())
    }

    fn log_prob(&self, value: &Tensor) -> Result<Tensor> {
        let value = values("Normal::log_prob", value, &self.loc)?;
        check_number("Normal::log_prob", "value", &value)?;
        self.density(&value)
    }

    fn entropy(&self) -> Result<Tensor> {
        self.scale.log()?.add(0.5 + 0.5 * TAU.ln())
    }

    fn draw(&self, sample_shape: &Shape, generator: &Generator) -> Result<Tensor> {
        drawn(self, sample_shape, generator)
    }
}

impl Reparametrized for Normal {
    fn rdraw(&self, sample_shape: &Shape, generator: &Generator) -> Result<Tensor> {
        let _beside = DeviceGuard::beside(self.loc.storage());
        let noise = generator.randn(drawn_shape(sample_shape, &self.batch, &[])?, self.loc.dtype())?;
        self.loc.add(&noise.mul(&self.scale)?)
    }
}

impl KlDivergence for Normal {
    fn kl_divergence(&self, other: &Normal) -> Result<Tensor> {
        let ratio = self.scale.div(&other.scale)?.square()?;
        let distance = self.loc.sub(&other.loc)?.div(&other.scale)?.square()?;
        ratio.add(&distance)?.sub(1)?.sub(&ratio.log()?)?.mul(0.5)
    }
}

/// The exponential of a normal distribution of mean `loc` and standard deviation `scale`.
#[derive(Clone, Debug)]
pub struct LogNormal(Normal);

impl LogNormal {
    /// # Errors
    /// If the parameters do not broadcast, `loc` is NaN or `scale` not positive.
    pub fn new<'a>(
        loc: impl Into<TensorOrScalar<'a>>,
        scale: impl Into<TensorOrScalar<'a>>,
    ) -> Result<LogNormal> {
        Normal::named("LogNormal", loc.into(), scale.into()).map(LogNormal)
    }

    /// The distribution of the logarithm.
    pub fn base(&self) -> &Normal {
        &self.0
    }
}

impl Distribution for LogNormal {
    fn batch_shape(&self) -> &Shape {
        &self.0.batch
    }

    fn mean(&self) -> Result<Tensor> {
        self.0.loc.add(&self.0.scale.square()?.mul(0.5)?)?.exp()
    }

    fn variance(&self) -> Result<Tensor> {
        let square = self.0.scale.square()?;
        square.expm1()?.mul(&self.0.loc.mul(2)?.add(&square)?.exp()?)
    }

    fn log_prob(&self, value: &Tensor) -> Result<Tensor> {
        let value = values("LogNormal::log_prob", value, &self.0.loc)?;
        check_positive("LogNormal::log_prob", "value", &value)?;
        let log = value.log()?;
        self.0.density(&log)?.sub(&log)
    }

    fn entropy(&self) -> Result<Tensor> {
        self.0.entropy()?.add(&self.0.loc)
    }

    fn draw(&self, sample_shape: &Shape, generator: &Generator) -> Result<Tensor> {
        drawn(self, sample_shape, generator)
    }
}

impl Reparametrized for LogNormal {
    fn rdraw(&self, sample_shape: &Shape, generator: &Generator) -> Result<Tensor> {
        self.0.rdraw(sample_shape, generator)?.exp()
    }
}

impl KlDivergence for LogNormal {
    fn kl_divergence(&self, other: &LogNormal) -> Result<Tensor> {
        self.0.kl_divergence(&other.0)
    }
}

/// A Laplace distribution, whose density falls exponentially on both sides of `loc`.
#[derive(Clone, Debug)]
pub struct Laplace {
    loc: Tensor,
    scale: Tensor,
    batch: Shape,
}

impl Laplace {
    /// # Errors
    /// If the parameters do not broadcast, `loc` is NaN or `scale` not positive.
    pub fn new<'a>(
        loc: impl Into<TensorOrScalar<'a>>,
        scale: impl Into<TensorOrScalar<'a>>,
    ) -> Result<Laplace> {
        let Normal { loc, scale, batch } = Normal::named("Laplace", loc.into(), scale.into())?;
        Ok(Laplace { loc, scale, batch })
    }

    /// The mean.
    pub fn loc(&self) -> &Tensor {
        &self.loc
    }

    /// The mean distance from it.
    pub fn scale(&self) -> &Tensor {
        &self.scale
    }
}

impl Distribution for Laplace {
    fn batch_shape(&self) -> &Shape {
        &self.batch
    }

    fn mean(&self) -> Result<Tensor> {
        Ok(self.loc.clone())
    }

    fn variance(&self) -> Result<Tensor> {
        self.scale.square()?.mul(2)
    }

    fn log_prob(&self, value: &Tensor) -> Result<Tensor> {
        let value = values("Laplace::log_prob", value, &self.loc)?;
        check_number("Laplace::log_prob", "value", &value)?;
        let distance = value.sub(&self.loc)?.abs()?.div(&self.scale)?;
        self.scale.mul(2)?.log()?.add(&distance)?.neg()
    }

    fn entropy(&self) -> Result<Tensor> {
        self.scale.log()?.add(1.0 + LN_2)
    }

    fn draw(&self, sample_shape: &Shape, generator: &Generator) -> Result<Tensor> {
        drawn(self, sample_shape, generator)
    }
}

impl Reparametrized for Laplace {
    fn rdraw(&self, sample_shape: &Shape, generator: &Generator) -> Result<Tensor> {
        let _beside = DeviceGuard::beside(self.loc.storage());
        let (shape, dtype) = (drawn_shape(sample_shape, &self.batch, &[])?, self.loc.dtype());
        // An exponential distance to either side.
        let distance = generator.rand(&shape, dtype)?.neg()?.log1p()?;
        let side = generator.bernoulli(0.5, &shape, dtype)?.mul(2)?.sub(1)?;
        self.loc.add(&distance.mul(&side)?.mul(&self.scale)?)
    }
}

impl KlDivergence for Laplace {
    fn kl_divergence(&self, other: &Laplace) -> Result<Tensor> {
        let ratio = self.scale.div(&other.scale)?;
        let distance = self.loc.sub(&other.loc)?.abs()?;
        let decay = distance.div(&self.scale)?.neg()?.exp()?;
        distance.div(&other.scale)?.add(&ratio.mul(&decay)?)?.sub(&ratio.log()?)?.sub(1)
    }
}
