//! RAdam.

use super::adam::{check, running_mean, running_squares};
use super::options::options;
use super::rule::expression;
use super::{Optimizer, Rule, Step};
use rustorch_tensor::Result;

/// Adam that does not divide by the mean of squares before it knows enough of them, as `torch.optim.RAdam`. Liu et al.: *On the Variance
/// of the Adaptive Learning Rate and Beyond*, 2020.
pub type RAdam = Optimizer<RAdamOptions>;

options! {
    /// Options of [`RAdam`], with PyTorch's defaults.
    RAdamOptions {
        /// Learning rate: 1e-3.
        lr: f64 = 1e-3,
        /// How much of the running means of gradients and of their squares remains: 0.9 and 0.999.
        betas: (f64, f64) = (0.9, 0.999),
        /// What is added to the divisor: 1e-8.
        eps: f64 = 1e-8,
        /// How much weights decay: 0.
        weight_decay: f64 = 0.0,
        /// Whether weights decay apart from their gradients.
        decoupled_weight_decay: bool = false,
        /// Whether the loss is to grow.
        maximize: bool = false,
    }
}

expression!(PLAIN, |[x, mean, rate]| x - mean * rate);
expression!(RECTIFIED, |[x, mean, squares, rate, eps]| x - mean * rate / (squares.sqrt() + eps));

impl Rule for RAdamOptions {
    const NAME: &'static str = "RAdam";

    fn check(&self) -> Result<()> {
        check(Self::NAME, self.lr, self.betas, self.eps, self.weight_decay)
    }

    fn update(&self, step: &mut Step<'_>) -> Result<()> {
        let coupled = if self.decoupled_weight_decay { 0.0 } else { self.weight_decay };
        if self.decoupled_weight_decay {
            step.decay(self.lr, self.weight_decay)?;
        }
        step.prepare(self.maximize, coupled)?;
        let t = step.count();
        let mean = running_mean(step, "exp_avg", self.betas.0)?;
        let squares = running_squares(step, "exp_avg_sq", self.betas.1)?;
        let bias = |beta: f64| 1.0 - beta.powf(t);
        let rate = self.lr / bias(self.betas.0);
        // The length of the simple moving average that the running one stands for.
        let limit = 2.0 / (1.0 - self.betas.1) - 1.0;
        let length = limit - 2.0 * t * self.betas.1.powf(t) / bias(self.betas.1);
        let x = step.parameter();
        if length <= 5.0 {
            return PLAIN.apply_into(&[x, &mean, &step.operand(rate)?], x);
        }
        let rectified = (length - 4.0) * (length - 2.0) * limit / ((limit - 4.0) * (limit - 2.0) * length);
        let rate = step.operand(rate * (rectified * bias(self.betas.1)).sqrt())?;
        RECTIFIED.apply_into(&[x, &mean, &squares, &rate, &step.operand(self.eps)?], x)
    }
}
