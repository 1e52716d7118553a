//! Normal distributions of vectors.

use super::parameters::{check, check_number, drawn_shape, promoted, values};
use super::{Distribution, KlDivergence, Reparametrized, drawn};
use crate::linalg::{TriangularOptions, cholesky, solve_triangular};
use crate::{Generator, Tensor};
use rustorch_core::{Error, Result, Shape};
use rustorch_runtime::DeviceGuard;
use std::f64::consts::TAU;

/// A normal distribution of vectors, of mean `loc` and a covariance matrix.
///
/// ```
/// use rustorch_tensor::{Tensor, distributions::{Distribution, MultivariateNormal}};
/// let covariance = Tensor::new([[2.0f64, 1.0], [1.0, 2.0]])?;
/// let normal = MultivariateNormal::new(&Tensor::new([0.0f64, 1.0])?, &covariance)?;
/// let x = normal.sample([10_000])?;
/// assert!(x.t()?.cov(1, None, None)?.allclose(&covariance, 0.0, 0.2, false)?);
/// assert_eq!(normal.log_prob(&x)?.dims(), [10_000]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct MultivariateNormal {
    /// `[batch.., k]`
    loc: Tensor,
    /// `[.., k, k]`, whose leading dimensions broadcast with the batch.
    scale_tril: Tensor,
    batch: Shape,
    event: Shape,
}

impl MultivariateNormal {
    /// Of `loc: [.., k]` and `covariance: [.., k, k]`, whose leading dimensions broadcast.
    ///
    /// # Errors
    /// If shapes do not fit, `loc` is NaN, or a matrix is not symmetric or not positive-definite.
    pub fn new(loc: &Tensor, covariance: &Tensor) -> Result<MultivariateNormal> {
        let [loc, covariance] = parameters(loc, covariance, "covariance")?;
        check_symmetric(&covariance, "covariance")?;
        MultivariateNormal::with_tril(loc, cholesky(&covariance)?)
    }

    /// By the inverse of the covariance matrix.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn from_precision(loc: &Tensor, precision: &Tensor) -> Result<MultivariateNormal> {
        let [loc, precision] = parameters(loc, precision, "precision")?;
        check_symmetric(&precision, "precision")?;
        // With both dimensions flipped, the factor of the inverse is the inverse of the transposed one.
        let upper = cholesky(&precision.flip([-2, -1])?)?.flip([-2, -1])?.transpose(-2, -1)?;
        let size = loc.dims().last().copied().unwrap_or(0);
        let _beside = DeviceGuard::beside(loc.storage());
        let identity = Tensor::eye(size, size, loc.dtype())?;
        MultivariateNormal::with_tril(loc, solve_triangular(&upper, &identity, &TriangularOptions::lower())?)
    }

    /// By the Cholesky factor `L` of the covariance matrix `L·Lᵀ`, a lower triangular matrix of positive diagonal.
    ///
    /// # Errors
    /// If shapes do not fit, `loc` is NaN, or the factor is not as it has to be.
    pub fn from_scale_tril(loc: &Tensor, scale_tril: &Tensor) -> Result<MultivariateNormal> {
        let [loc, scale_tril] = parameters(loc, scale_tril, "scale_tril")?;
        let name = "MultivariateNormal";
        let lower = scale_tril.eq(&scale_tril.tril(0)?)?;
        check(name, "scale_tril", "lower triangular", &scale_tril, &lower)?;
        let diagonal = scale_tril.diagonal(0, -2, -1)?;
        check(name, "the diagonal of scale_tril", "positive", &diagonal, &diagonal.gt(0)?)?;
        MultivariateNormal::with_tril(loc, scale_tril)
    }

    fn with_tril(loc: Tensor, scale_tril: Tensor) -> Result<MultivariateNormal> {
        let name = "MultivariateNormal";
        check_number(name, "loc", &loc)?;
        let (lead, size) = loc.dims().split_at(loc.ndim() - 1);
        let matrices = &scale_tril.dims()[..scale_tril.ndim() - 2];
        let batch = Shape::new(lead)?.broadcast(&Shape::new(matrices)?, name)?;
        let event = Shape::new(size)?;
        let loc = loc.broadcast_to(drawn_shape(&batch, &event, &[])?)?;
        Ok(MultivariateNormal { loc, scale_tril, batch, event })
    }

    /// The means `[.., k]`.
    pub fn loc(&self) -> &Tensor {
        &self.loc
    }

    /// The Cholesky factors of the covariance matrices `[.., k, k]`.
    pub fn scale_tril(&self) -> &Tensor {
        &self.scale_tril
    }

    /// The covariance matrices `[.., k, k]`.
    ///
    /// # Errors
    /// If an operation fails.
    pub fn covariance(&self) -> Result<Tensor> {
        self.scale_tril.matmul(&self.scale_tril.transpose(-2, -1)?)
    }

    /// Half the logarithm of the determinant of the covariance.
    fn half_log_det(&self) -> Result<Tensor> {
        self.scale_tril.diagonal(0, -2, -1)?.log()?.sum(-1, false)
    }

    /// The squared lengths of `L⁻¹·x`, for `x: [.., k]`.
    fn mahalanobis(&self, x: &Tensor) -> Result<Tensor> {
        let lower = TriangularOptions::lower();
        if self.scale_tril.ndim() == 2 {
            // All vectors are columns of one system.
            let columns = x.reshape([x.numel() / self.event.numel().max(1), self.event.numel()])?.t()?;
            let lengths = solve_triangular(&self.scale_tril, &columns, &lower)?.square()?.sum(0, false)?;
            return lengths.reshape_to(Shape::new(&x.dims()[..x.ndim() - 1])?);
        }
        solve_triangular(&self.scale_tril, &x.unsqueeze(-1)?, &lower)?.square()?.sum([-2, -1], false)
    }
}

/// Location and matrices, of which the shapes fit.
fn parameters(loc: &Tensor, matrices: &Tensor, argument: &str) -> Result<[Tensor; 2]> {
    let name = "MultivariateNormal";
    let [loc, matrices] = promoted(name, [loc.into(), matrices.into()])?;
    match (loc.dims(), matrices.dims()) {
        (&[.., k], &[.., m, n]) if k == m && k == n => Ok([loc, matrices]),
        _ => Err(Error::shape(
            name,
            format!("loc must be [.., k] and {argument} [.., k, k]"),
            [loc.shape(), matrices.shape()],
        )),
    }
}

fn check_symmetric(matrices: &Tensor, argument: &str) -> Result<()> {
    let is_symmetric = matrices.isclose(&matrices.transpose(-2, -1)?, 1e-5, 1e-6, false)?;
    check("MultivariateNormal", argument, "symmetric", matrices, &is_symmetric)
}

impl Distribution for MultivariateNormal {
    fn batch_shape(&self) -> &Shape {
        &self.batch
    }

    fn event_shape(&self) -> Shape {
        self.event.clone()
    }

    fn mean(&self) -> Result<Tensor> {
        Ok(self.loc.clone())
    }

    fn variance(&self) -> Result<Tensor> {
        self.scale_tril.square()?.sum(-1, false)?.broadcast_to(self.loc.shape())
    }

    fn log_prob(&self, value: &Tensor) -> Result<Tensor> {
        let name = "MultivariateNormal::log_prob";
        let value = values(name, value, &self.loc)?;
        if value.dims().last() != Some(&self.event.numel()) {
            let why = "values must end in the dimension of loc";
            return Err(Error::shape(name, why, [value.shape(), self.loc.shape()]));
        }
        check_number(name, "value", &value)?;
        let squares = self.mahalanobis(&value.sub(&self.loc)?)?;
        let constant = TAU.ln() * self.event.numel() as f64;
        squares.add(constant)?.mul(-0.5)?.sub(&self.half_log_det()?)
    }

    fn entropy(&self) -> Result<Tensor> {
        let constant = 0.5 * self.event.numel() as f64 * (1.0 + TAU.ln());
        self.half_log_det()?.add(constant)?.broadcast_to(&self.batch)
    }

    fn draw(&self, sample_shape: &Shape, generator: &Generator) -> Result<Tensor> {
        drawn(self, sample_shape, generator)
    }
}

impl Reparametrized for MultivariateNormal {
    fn rdraw(&self, sample_shape: &Shape, generator: &Generator) -> Result<Tensor> {
        let _beside = DeviceGuard::beside(self.loc.storage());
        let shape = drawn_shape(sample_shape, &self.batch, self.event.dims())?;
        let noise = generator.randn(shape, self.loc.dtype())?;
        let moved = match self.scale_tril.ndim() {
            2 if noise.ndim() > 1 => noise.matmul(&self.scale_tril.t()?)?,
            _ => self.scale_tril.matmul(&noise.unsqueeze(-1)?)?.squeeze(-1)?,
        };
        self.loc.add(&moved)
    }
}

impl KlDivergence for MultivariateNormal {
    fn kl_divergence(&self, other: &MultivariateNormal) -> Result<Tensor> {
        if self.event != other.event {
            let why = "the distributions must have one event shape";
            return Err(Error::shape("MultivariateNormal::kl_divergence", why, [&self.event, &other.event]));
        }
        let volumes = other.half_log_det()?.sub(&self.half_log_det()?)?;
        let between = solve_triangular(&other.scale_tril, &self.scale_tril, &TriangularOptions::lower())?;
        let spread = between.square()?.sum([-2, -1], false)?;
        let distance = other.mahalanobis(&other.loc.sub(&self.loc)?)?;
        volumes.add(&spread.add(&distance)?.sub(self.event.numel() as f64)?.mul(0.5)?)
    }
}
