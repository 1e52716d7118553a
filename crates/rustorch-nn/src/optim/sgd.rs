//! Stochastic gradient descent.

use super::fused::FusedStep;
use super::options::options;
use super::rule::{Capturable, expect_not_negative};
use super::{Optimizer, Rule, Step};
use rustorch_tensor::foreach::OptimizerRule;
use rustorch_tensor::{Error, Result};

/// Stochastic gradient descent, with momentum if asked for, as `torch.optim.SGD`: `buf ← momentum · buf + (1 − dampening) · grad`,
/// `param ← param − lr · buf`; Nesterov's looks ahead: `param ← param − lr · (grad + momentum · buf)`.
pub type SGD = Optimizer<SGDOptions>;

options! {
    /// Options of [`SGD`], with PyTorch's defaults.
    SGDOptions {
        /// Learning rate: 1e-3.
        lr: f64 = 1e-3,
        /// How much of the last direction remains: 0.
        momentum: f64 = 0.0,
        /// How much less of the gradient counts beside the last direction: 0.
        dampening: f64 = 0.0,
        /// How much of each parameter is added to its gradient: 0.
        weight_decay: f64 = 0.0,
        /// Whether to look ahead, which takes momentum without dampening.
        nesterov: bool = false,
        /// Whether the loss is to grow.
        maximize: bool = false,
    }
}

impl Rule for SGDOptions {
    const NAME: &'static str = "SGD";
    const IS_CAPTURABLE: Capturable = Capturable(true);

    fn check(&self) -> Result<()> {
        let options = [("lr", self.lr), ("momentum", self.momentum), ("weight_decay", self.weight_decay)];
        expect_not_negative(Self::NAME, &options)?;
        if self.nesterov && (self.momentum <= 0.0 || self.dampening != 0.0) {
            return Err(Error::argument(Self::NAME, "`nesterov` takes a momentum above 0 and no dampening"));
        }
        Ok(())
    }

    fn update(&self, step: &mut Step<'_>) -> Result<()> {
        self.update_all(std::slice::from_mut(step))
    }

    fn update_all(&self, steps: &mut [Step<'_>]) -> Result<()> {
        let SGDOptions { lr, momentum, dampening, weight_decay, nesterov, maximize } = *self;
        let rule = OptimizerRule::Sgd { momentum, dampening, nesterov };
        // PyTorch's states have no count: in the first step there is no buffer.
        FusedStep { rule, lr, weight_decay, maximize, count: None, initial: 0.0 }.run(steps)
    }
}
