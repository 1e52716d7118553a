//! Averaged stochastic gradient descent.

use super::options::options;
use super::rule::{expect_not_negative, expression};
use super::{Optimizer, Rule, Step};
use rustorch_tensor::Result;

/// Stochastic gradient descent that keeps the mean of its parameters (`ax` of [`state`](Optimizer::state)), as `torch.optim.ASGD`. Polyak,
/// Juditsky: *Acceleration of Stochastic Approximation by Averaging*, 1992.
pub type ASGD = Optimizer<ASGDOptions>;

options! {
    /// Options of [`ASGD`], with PyTorch's defaults.
    ASGDOptions {
        /// The first learning rate: 1e-2.
        lr: f64 = 1e-2,
        /// How much each step shrinks parameters, times the rate: 1e-4.
        lambd: f64 = 1e-4,
        /// The power by which the rate falls: 0.75.
        alpha: f64 = 0.75,
        /// After how many steps averaging starts: 1e6.
        t0: f64 = 1e6,
        /// How much of each parameter is added to its gradient: 0.
        weight_decay: f64 = 0.0,
        /// Whether the loss is to grow.
        maximize: bool = false,
    }
}

expression!(STEP, |[x, grad, keep, rate]| x * keep - grad * rate);
expression!(AVERAGE, |[ax, x, share]| ax + (x - ax) * share);

impl Rule for ASGDOptions {
    const NAME: &'static str = "ASGD";

    fn check(&self) -> Result<()> {
        expect_not_negative(Self::NAME, &[("lr", self.lr), ("weight_decay", self.weight_decay)])
    }

    fn update(&self, step: &mut Step<'_>) -> Result<()> {
        step.prepare(self.maximize, self.weight_decay)?;
        let t = step.count();
        let (rate, share) = (step.number("eta", self.lr), step.number("mu", 1.0));
        let x = step.parameter().clone();
        let operands = [&x, step.grad(), &step.operand(1.0 - self.lambd * rate)?, &step.operand(rate)?];
        STEP.apply_into(&operands, &x)?;
        let ax = step.tensor("ax", 0.0)?;
        match share == 1.0 {
            true => ax.copy_(&x)?,
            false => AVERAGE.apply_into(&[&ax, &x, &step.operand(share)?], &ax)?,
        }
        step.set_number("eta", self.lr / (1.0 + self.lambd * self.lr * t).powf(self.alpha));
        step.set_number("mu", 1.0 / (t - self.t0).max(1.0));
        Ok(())
    }
}
