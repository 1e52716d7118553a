//! RMSprop.

use super::fused::FusedStep;
use super::options::options;
use super::rule::{Capturable, expect_not_negative};
use super::{Optimizer, Rule, Step};
use rustorch_tensor::Result;
use rustorch_tensor::foreach::OptimizerRule;

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

impl Rule for RMSpropOptions {
    const NAME: &'static str = "RMSprop";
    const IS_CAPTURABLE: Capturable = Capturable(true);

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
        self.update_all(std::slice::from_mut(step))
    }

    fn update_all(&self, steps: &mut [Step<'_>]) -> Result<()> {
        let RMSpropOptions { lr, alpha, eps, weight_decay, momentum, centered, maximize } = *self;
        let rule = OptimizerRule::RmsProp { alpha, eps, momentum, centered };
        FusedStep { rule, lr, weight_decay, maximize, count: Some("step"), initial: 0.0 }.run(steps)
    }
}
