//! RMSprop.

use super::adam::{running_mean, running_squares};
use super::options::options;
use super::rule::{expect_not_negative, expression};
use super::{Optimizer, Rule, Step};
use rustorch_tensor::Result;

/// Steps divided by the root of the running mean of squared gradients, as `torch.optim.RMSprop`. Hinton: *Neural Networks for Machine
/// Learning*, lecture 6, 2012.
pub type RMSprop = Optimizer<RMSpropOptions>;

options! {
    /// Options of [`RMSprop`], with PyTorch's defaults.
    RMSpropOptions {
        /// Learning rate: 1e-2.
        lr: f64 = 1e-2,
        /// How much of the running mean of squares remains: 0.99.
        alpha: f64 = 0.99,
        /// What is added to the divisor: 1e-8.
        eps: f64 = 1e-8,
        /// How much of each parameter is added to its gradient: 0.
        weight_decay: f64 = 0.0,
        /// How much of the last direction remains: 0.
        momentum: f64 = 0.0,
        /// Whether to divide by the root of the variance, not of the mean of squares.
        centered: bool = false,
        /// Whether the loss is to grow.
        maximize: bool = false,
    }
}

expression!(DIRECTION, |[grad, squares, eps]| grad / (squares.sqrt() + eps));
expression!(CENTERED, |[grad, squares, mean, eps]| grad / ((squares - mean * mean).sqrt() + eps));
expression!(MOMENTUM, |[buf, direction, momentum]| buf * momentum + direction);
expression!(STEP, |[x, direction, lr]| x - direction * lr);

impl Rule for RMSpropOptions {
    const NAME: &'static str = "RMSprop";

    fn check(&self) -> Result<()> {
        let options = [
            ("lr", self.lr),
            ("eps", self.eps),
            ("momentum", self.momentum),
            ("weight_decay", self.weight_decay),
            ("alpha", self.alpha),
        ];
        expect_not_negative(Self::NAME, &options)
    }

    fn update(&self, step: &mut Step<'_>) -> Result<()> {
        step.prepare(self.maximize, self.weight_decay)?;
        step.count();
        let squares = running_squares(step, "square_avg", self.alpha)?;
        let eps = step.operand(self.eps)?;
        let mut direction = match self.centered {
            true => {
                let mean = running_mean(step, "grad_avg", self.alpha)?;
                CENTERED.apply(&[step.grad(), &squares, &mean, &eps])?
            }
            false => DIRECTION.apply(&[step.grad(), &squares, &eps])?,
        };
        if self.momentum > 0.0 {
            let buf = step.tensor("momentum_buffer", 0.0)?;
            MOMENTUM.apply_into(&[&buf, &direction, &step.operand(self.momentum)?], &buf)?;
            direction = buf;
        }
        let x = step.parameter();
        STEP.apply_into(&[x, &direction, &step.operand(self.lr)?], x)
    }
}
