//! NAdam.

use super::adam::{check, running_mean, running_squares};
use super::options::options;
use super::rule::{expect_not_negative, expression};
use super::{Optimizer, Rule, Step};
use rustorch_tensor::Result;

/// Adam with Nesterov's momentum, as `torch.optim.NAdam`. Dozat: *Incorporating Nesterov Momentum into Adam*, 2016.
pub type NAdam = Optimizer<NAdamOptions>;

options! {
    /// Options of [`NAdam`], with PyTorch's defaults.
    NAdamOptions {
        /// Learning rate: 2e-3.
        lr: f64 = 2e-3,
        /// How much of the running means of gradients and of their squares remains: 0.9 and 0.999.
        betas: (f64, f64) = (0.9, 0.999),
        /// What is added to the divisor: 1e-8.
        eps: f64 = 1e-8,
        /// How much weights decay: 0.
        weight_decay: f64 = 0.0,
        /// How fast momentum grows to `betas.0`: 4e-3.
        momentum_decay: f64 = 4e-3,
        /// Whether weights decay apart from their gradients.
        decoupled_weight_decay: bool = false,
        /// Whether the loss is to grow.
        maximize: bool = false,
    }
}

expression!(STEP, |[x, grad, mean, squares, bias, eps, of_grad, of_mean]| x
    - (grad * of_grad + mean * of_mean) / ((squares / bias).sqrt() + eps));

impl Rule for NAdamOptions {
    const NAME: &'static str = "NAdam";

    fn check(&self) -> Result<()> {
        expect_not_negative(Self::NAME, &[("momentum_decay", self.momentum_decay)])?;
        check(Self::NAME, self.lr, self.betas, self.eps, self.weight_decay)
    }

    fn update(&self, step: &mut Step<'_>) -> Result<()> {
        let coupled = if self.decoupled_weight_decay { 0.0 } else { self.weight_decay };
        if self.decoupled_weight_decay {
            step.decay(self.lr, self.weight_decay)?;
        }
        step.prepare(self.maximize, coupled)?;
        let t = step.count();
        let momentum = |t: f64| self.betas.0 * (1.0 - 0.5 * 0.96f64.powf(t * self.momentum_decay));
        let (mu, next) = (momentum(t), momentum(t + 1.0));
        let product = step.number("mu_product", 1.0) * mu;
        step.set_number("mu_product", product);
        let mean = running_mean(step, "exp_avg", self.betas.0)?;
        let squares = running_squares(step, "exp_avg_sq", self.betas.1)?;
        let x = step.parameter();
        let numbers = [
            step.operand(1.0 - self.betas.1.powf(t))?,
            step.operand(self.eps)?,
            step.operand(self.lr * (1.0 - mu) / (1.0 - product))?,
            step.operand(self.lr * next / (1.0 - product * next))?,
        ];
        let [bias, eps, of_grad, of_mean] = &numbers;
        STEP.apply_into(&[x, step.grad(), &mean, &squares, bias, eps, of_grad, of_mean], x)
    }
}
