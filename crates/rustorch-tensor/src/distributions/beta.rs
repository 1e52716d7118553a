//! Distributions of probabilities: beta and Dirichlet.

use super::parameters::{broadcast, check, check_positive, drawn_shape, promoted, values};
use super::{Distribution, KlDivergence, Reparametrized, drawn};
use crate::{Generator, Tensor, TensorOrScalar};
use rustorch_core::{Error, Result, Shape};

/// A beta distribution over [0, 1] of mean `concentration1` / (`concentration1` + `concentration0`).
#[derive(Clone, Debug)]
pub struct Beta {
    concentration1: Tensor,
    concentration0: Tensor,
    batch: Shape,
}

impl Beta {
    /// # Errors
    /// If the parameters do not broadcast or are not positive.
    pub fn new<'a>(
        concentration1: impl Into<TensorOrScalar<'a>>,
        concentration0: impl Into<TensorOrScalar<'a>>,
    ) -> Result<Beta> {
        let ([concentration1, concentration0], batch) =
            broadcast("Beta", [concentration1.into(), concentration0.into()])?;
        check_positive("Beta", "concentration1", &concentration1)?;
        check_positive("Beta", "concentration0", &concentration0)?;
        Ok(Beta { concentration1, concentration0, batch })
    }

    /// The exponent of x, plus 1; often called α.
    pub fn concentration1(&self) -> &Tensor {
        &self.concentration1
    }

    /// The exponent of 1 − x, plus 1; often called β.
    pub fn concentration0(&self) -> &Tensor {
        &self.concentration0
    }

    fn total(&self) -> Result<Tensor> {
        self.concentration1.add(&self.concentration0)
    }

    /// The logarithm of the beta function of the parameters.
    fn log_normalizer(&self) -> Result<Tensor> {
        self.concentration1.lgamma()?.add(&self.concentration0.lgamma()?)?.sub(&self.total()?.lgamma()?)
    }
}

impl Distribution for Beta {
    fn batch_shape(&self) -> &Shape {
        &self.batch
    }

    fn mean(&self) -> Result<Tensor> {
        self.concentration1.div(&self.total()?)
    }

    fn variance(&self) -> Result<Tensor> {
        let total = self.total()?;
        self.concentration1.mul(&self.concentration0)?.div(&total.square()?.mul(&total.add(1)?)?)
    }

    fn log_prob(&self, value: &Tensor) -> Result<Tensor> {
        let name = "Beta::log_prob";
        let value = values(name, value, &self.concentration1)?;
        check(name, "value", "from 0 to 1", &value, &value.ge(0)?.logical_and(&value.le(1)?)?)?;
        let powers = self.concentration1.sub(1)?.xlogy(&value)?;
        let powers = powers.add(&self.concentration0.sub(1)?.xlogy(&value.rsub(1)?)?)?;
        powers.sub(&self.log_normalizer()?)
    }

    fn entropy(&self) -> Result<Tensor> {
        let (a, b, total) = (&self.concentration1, &self.concentration0, self.total()?);
        let of_each = a.sub(1)?.mul(&a.digamma()?)?.add(&b.sub(1)?.mul(&b.digamma()?)?)?;
        self.log_normalizer()?.sub(&of_each)?.add(&total.sub(2)?.mul(&total.digamma()?)?)
    }

    fn draw(&self, sample_shape: &Shape, generator: &Generator) -> Result<Tensor> {
        drawn(self, sample_shape, generator)
    }
}

impl Reparametrized for Beta {
    fn rdraw(&self, sample_shape: &Shape, generator: &Generator) -> Result<Tensor> {
        let shape = drawn_shape(sample_shape, &self.batch, &[])?;
        // x / (x + y) of gamma draws x and y, whose logarithms do not underflow.
        let x = generator.log_gamma(&self.concentration1.broadcast_to(&shape)?)?;
        let y = generator.log_gamma(&self.concentration0.broadcast_to(&shape)?)?;
        x.sub(&y)?.sigmoid()
    }
}

impl KlDivergence for Beta {
    fn kl_divergence(&self, other: &Beta) -> Result<Tensor> {
        let (total, others) = (self.total()?, other.total()?);
        let of_each = |a: &Tensor, b: &Tensor| a.sub(b)?.mul(&a.digamma()?);
        let normalizers = other.log_normalizer()?.sub(&self.log_normalizer()?)?;
        let first = of_each(&self.concentration1, &other.concentration1)?;
        let second = of_each(&self.concentration0, &other.concentration0)?;
        normalizers.add(&first)?.add(&second)?.add(&others.sub(&total)?.mul(&total.digamma()?)?)
    }
}

/// A Dirichlet distribution over vectors of probabilities, of mean `concentration` / its sum.
#[derive(Clone, Debug)]
pub struct Dirichlet {
    concentration: Tensor,
    batch: Shape,
    event: Shape,
}

impl Dirichlet {
    /// Of `concentration: [.., k]`.
    ///
    /// # Errors
    /// If the concentration is a scalar or not positive.
    pub fn new(concentration: &Tensor) -> Result<Dirichlet> {
        let name = "Dirichlet";
        let [concentration] = promoted(name, [concentration.into()])?;
        let Some((&categories, batch)) = concentration.dims().split_last() else {
            let why = "the concentration must have one dimension at least";
            return Err(Error::shape(name, why, [concentration.shape()]));
        };
        check_positive(name, "concentration", &concentration)?;
        let (batch, event) = (Shape::new(batch)?, Shape::new([categories].as_slice())?);
        Ok(Dirichlet { concentration, batch, event })
    }

    /// The exponents, plus 1.
    pub fn concentration(&self) -> &Tensor {
        &self.concentration
    }

    fn total(&self) -> Result<Tensor> {
        self.concentration.sum(-1, true)
    }

    fn log_normalizer(&self) -> Result<Tensor> {
        self.concentration.lgamma()?.sum(-1, false)?.sub(&self.total()?.lgamma()?.squeeze(-1)?)
    }

    fn categories(&self) -> usize {
        self.event.numel()
    }
}

impl Distribution for Dirichlet {
    fn batch_shape(&self) -> &Shape {
        &self.batch
    }

    fn event_shape(&self) -> Shape {
        self.event.clone()
    }

    fn mean(&self) -> Result<Tensor> {
        self.concentration.div(&self.total()?)
    }

    fn variance(&self) -> Result<Tensor> {
        let total = self.total()?;
        let rest = total.sub(&self.concentration)?;
        self.concentration.mul(&rest)?.div(&total.square()?.mul(&total.add(1)?)?)
    }

    fn log_prob(&self, value: &Tensor) -> Result<Tensor> {
        let name = "Dirichlet::log_prob";
        let value = values(name, value, &self.concentration)?;
        if value.dims().last() != Some(&self.categories()) {
            let why = "values must end in the dimension of the concentration";
            return Err(Error::shape(name, why, [value.shape(), self.concentration.shape()]));
        }
        let sums = value.sum(-1, true)?;
        let holds = value.ge(0)?.logical_and(&sums.sub(1)?.abs()?.lt(1e-6)?)?;
        check(name, "value", "0 or positive, of sum 1,", &value, &holds)?;
        let powers = self.concentration.sub(1)?.xlogy(&value)?.sum(-1, false)?;
        powers.sub(&self.log_normalizer()?)
    }

    fn entropy(&self) -> Result<Tensor> {
        let (a, total) = (&self.concentration, self.total()?.squeeze(-1)?);
        let of_each = a.sub(1)?.mul(&a.digamma()?)?.sum(-1, false)?;
        let of_total = total.sub(self.categories() as f64)?.mul(&total.digamma()?)?;
        self.log_normalizer()?.add(&of_total)?.sub(&of_each)
    }

    fn draw(&self, sample_shape: &Shape, generator: &Generator) -> Result<Tensor> {
        drawn(self, sample_shape, generator)
    }
}

impl Reparametrized for Dirichlet {
    fn rdraw(&self, sample_shape: &Shape, generator: &Generator) -> Result<Tensor> {
        let shape = drawn_shape(sample_shape, &self.batch, &[self.categories()])?;
        // Gamma draws over their sum, by their logarithms, which do not underflow.
        generator.log_gamma(&self.concentration.broadcast_to(shape)?)?.softmax(-1)
    }
}

impl KlDivergence for Dirichlet {
    fn kl_divergence(&self, other: &Dirichlet) -> Result<Tensor> {
        if self.categories() != other.categories() {
            let why = "the distributions must have one event shape";
            let shapes = [self.concentration.shape(), other.concentration.shape()];
            return Err(Error::shape("Dirichlet::kl_divergence", why, shapes));
        }
        let of_each = self.concentration.digamma()?.sub(&self.total()?.digamma()?)?;
        let differences = self.concentration.sub(&other.concentration)?.mul(&of_each)?.sum(-1, false)?;
        other.log_normalizer()?.sub(&self.log_normalizer()?)?.add(&differences)
    }
}
