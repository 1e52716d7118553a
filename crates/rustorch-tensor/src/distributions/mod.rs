//! Probability distributions with the names, the shapes and the formulas of `torch.distributions`.
//!
//! Parameters are tensors or scalars and broadcast; their common shape is the *batch shape*, of as many independent distributions. One draw of each has the
//! *event shape*: `[]` of scalars, `[k]` of vectors ([`Dirichlet`], [`MultivariateNormal`]). [`sample`](Distribution::sample) of a shape gives draws of
//! `sample shape + batch shape + event shape`; [`log_prob`](Distribution::log_prob) of values of such a shape drops the event's dimensions.
//!
//! ```
//! use rustorch_tensor::{Tensor, distributions::{Distribution, Normal, Reparametrized, kl_divergence}};
//! let loc = Tensor::new([0.0f32, 3.0])?;
//! loc.requires_grad_(true)?;
//! let normal = Normal::new(&loc, 2.0)?;
//! assert_eq!(normal.sample([5])?.dims(), [5, 2]);
//!
//! // Draws that are functions of the parameters have gradients …
//! normal.rsample([100])?.mean_all()?.backward()?;
//! assert_eq!(loc.grad().unwrap().to_vec::<f32>()?, [0.5, 0.5]);
//! // … as have probabilities, entropies and divergences.
//! let standard = Normal::new(0.0, 1.0)?;
//! assert_eq!(kl_divergence(&normal, &standard)?.detach().to_string(), "tensor([0.8069, 5.3069])");
//! # Ok::<(), rustorch_tensor::Error>(())
//! ```
//!
//! Draws come from a [`Generator`]; every element is a function of seed and position, so that the same seed gives the same bits on any number of
//! threads. Constructors and `log_prob` check values as `validate_args` does: parameters outside of their domain, and values
//! outside of the support, are errors that name them. In a captured function these are checks of each run ([`Tensor::assert`]).

mod beta;
mod categorical;
mod counts;
mod gamma;
mod location_scale;
mod multivariate_normal;
mod parameters;
mod uniform;

pub use beta::{Beta, Dirichlet};
pub use categorical::Categorical;
pub use counts::{Bernoulli, Binomial, Poisson};
pub use gamma::{Exponential, Gamma};
pub use location_scale::{Laplace, LogNormal, Normal};
pub use multivariate_normal::MultivariateNormal;
pub use uniform::Uniform;

pub(crate) use parameters::check;

use crate::autograd::no_grad;
use crate::{Generator, IntoShape, Tensor, default_generator};
use rustorch_core::{Result, Shape};

/// A probability distribution, or a batch of independent ones.
pub trait Distribution {
    /// The shape of the batch: that to which the parameters broadcast, without the event's dimensions.
    fn batch_shape(&self) -> &Shape;

    /// The shape of one draw: none of scalars.
    fn event_shape(&self) -> Shape {
        Shape::scalar()
    }

    /// The means, of the batch's and the event's shape. Infinite or NaN where there are none.
    ///
    /// # Errors
    /// If an operation fails.
    fn mean(&self) -> Result<Tensor>;

    /// The variances, of the batch's and the event's shape.
    ///
    /// # Errors
    /// If an operation fails.
    fn variance(&self) -> Result<Tensor>;

    /// The standard deviations.
    ///
    /// # Errors
    /// If an operation fails.
    fn stddev(&self) -> Result<Tensor> {
        self.variance()?.sqrt()
    }

    /// The logarithm of the density, or of the probability of integers, at values that broadcast with the batch; without the event's dimensions.
    ///
    /// # Errors
    /// If the shapes do not fit, or a value is outside of the support.
    fn log_prob(&self, value: &Tensor) -> Result<Tensor>;

    /// The differential entropy, or that of integers, in nats, of the batch's shape.
    ///
    /// # Errors
    /// If an operation fails; of a [`Binomial`] in a captured function, since its largest count is read.
    fn entropy(&self) -> Result<Tensor>;

    /// Draws as [`sample`](Self::sample), from a given generator.
    ///
    /// # Errors
    /// If there are too many elements.
    fn draw(&self, sample_shape: &Shape, generator: &Generator) -> Result<Tensor>;

    /// As many independent draws, of `shape`, the batch's and the event's shape, from the process's generator. They have no gradient.
    ///
    /// # Errors
    /// If there are too many elements.
    fn sample(&self, shape: impl IntoShape) -> Result<Tensor>
    where
        Self: Sized,
    {
        self.draw(&shape.into_shape()?, default_generator())
    }
}

/// A distribution whose draws have gradients with respect to its parameters.
///
/// Draws are differentiable functions of the parameters and of random numbers that do not depend on these; those of [`Gamma`], [`Beta`] and [`Dirichlet`] have
/// implicit gradients (Figurnov, Mohamed, Mnih 2018), at a fixed quantile of a gamma distribution; a second gradient of these is an error, as in PyTorch.
pub trait Reparametrized: Distribution {
    /// Draws as [`rsample`](Self::rsample), from a given generator.
    ///
    /// # Errors
    /// If there are too many elements.
    fn rdraw(&self, sample_shape: &Shape, generator: &Generator) -> Result<Tensor>;

    /// As [`sample`](Distribution::sample), with gradients.
    ///
    /// # Errors
    /// If there are too many elements.
    fn rsample(&self, shape: impl IntoShape) -> Result<Tensor>
    where
        Self: Sized,
    {
        self.rdraw(&shape.into_shape()?, default_generator())
    }
}

/// Distributions between which the Kullback–Leibler divergence has a closed form.
pub trait KlDivergence: Distribution {
    /// KL(self ‖ other), of the shape to which both batches broadcast: ∞ where this one has mass and the other none.
    ///
    /// # Errors
    /// If the batches do not broadcast, or the events differ.
    fn kl_divergence(&self, other: &Self) -> Result<Tensor>;
}

/// The Kullback–Leibler divergence of two distributions of one kind, KL(p ‖ q): [`KlDivergence::kl_divergence`].
///
/// # Errors
/// If the batches do not broadcast, or the events differ.
pub fn kl_divergence<D: KlDivergence>(p: &D, q: &D) -> Result<Tensor> {
    p.kl_divergence(q)
}

/// A reparametrized draw without its gradient.
fn drawn(distribution: &impl Reparametrized, sample_shape: &Shape, generator: &Generator) -> Result<Tensor> {
    no_grad(|| distribution.rdraw(sample_shape, generator))
}
