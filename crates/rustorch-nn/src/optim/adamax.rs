//! Adamax.

use super::adam::{check, running_mean};
use super::options::options;
use super::rule::expression;
use super::{Optimizer, Rule, Step};
use rustorch_tensor::Result;

/// Adam with the largest of decaying gradients in place of the mean of squares, as `torch.optim.Adamax`:
/// `u ← max(betas.1 · u, |grad| + eps)`. Kingma, Ba: *Adam: A Method for Stochastic Optimization*, 2015, section 7.1.
pub type Adamax = Optimizer<AdamaxOptions>;

options! {
    /// Options of [`Adamax`], with PyTorch's defaults.
    AdamaxOptions {
        /// Learning rate: 2e-3.
        lr: f64 = 2e-3,
        /// How much of the running mean and of the largest gradient remains: 0.9 and 0.999.
        betas: (f64, f64) = (0.9, 0.999),
        /// What is added to the gradient's magnitude: 1e-8.
        eps: f64 = 1e-8,
        /// How much of each parameter is added to its gradient: 0.
        weight_decay: f64 = 0.0,
        /// Whether the loss is to grow.
        maximize: bool = false,
    }
}

expression!(LARGEST, |[u, grad, beta, eps]| (u * beta).maximum(grad.abs() + eps));
expression!(STEP, |[x, mean, u, rate]| x - mean / u * rate);

impl Rule for AdamaxOptions {
    const NAME: &'static str = "Adamax";

    fn check(&self) -> Result<()> {
        check(Self::NAME, self.lr, self.betas, self.eps, self.weight_decay)
    }

    fn update(&self, step: &mut Step<'_>) -> Result<()> {
        step.prepare(self.maximize, self.weight_decay)?;
        let t = step.count();
        let mean = running_mean(step, "exp_avg", self.betas.0)?;
        let u = step.tensor("exp_inf", 0.0)?;
        LARGEST.apply_into(&[&u, step.grad(), &step.operand(self.betas.1)?, &step.operand(self.eps)?], &u)?;
        let rate = step.operand(self.lr / (1.0 - self.betas.0.powf(t)))?;
        let x = step.parameter();
        STEP.apply_into(&[x, &mean, &u, &rate], x)
    }
}
