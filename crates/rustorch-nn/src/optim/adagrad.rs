//! Adagrad.

use super::fused::FusedStep;
use super::options::options;
use super::rule::{Capturable, expect_not_negative};
use super::{Optimizer, Rule, Step};
use rustorch_tensor::Result;
use rustorch_tensor::foreach::OptimizerRule;

/// Steps divided by the root of the sum of all squared gradients, as `torch.optim.Adagrad`. Duchi, Hazan, Singer: *Adaptive Subgradient
/// Methods for Online Learning and Stochastic Optimization*, 2011.
pub type Adagrad = Optimizer<AdagradOptions>;

options! {
    /// Options of [`Adagrad`], with PyTorch's defaults.
    AdagradOptions {
        /// Learning rate: 1e-2.
        lr: f64 = 1e-2,
        /// How fast the rate falls: it is divided by 1 + steps · lr_decay; 0.
        lr_decay: f64 = 0.0,
        /// How much of each parameter is added to its gradient: 0.
        weight_decay: f64 = 0.0,
        /// The sum of squares before the first step: 0.
        initial_accumulator_value: f64 = 0.0,
        /// What is added to the divisor: 1e-10.
        eps: f64 = 1e-10,
        /// Whether the loss is to grow.
        maximize: bool = false,
    }
}

impl Rule for AdagradOptions {
    const NAME: &'static str = "Adagrad";
    const IS_CAPTURABLE: Capturable = Capturable(true);

    fn check(&self) -> Result<()> {
        let options = [
            ("lr", self.lr),
            ("lr_decay", self.lr_decay),
            ("weight_decay", self.weight_decay),
            ("initial_accumulator_value", self.initial_accumulator_value),
            ("eps", self.eps),
        ];
        expect_not_negative(Self::NAME, &options)
    }

    fn update(&self, step: &mut Step<'_>) -> Result<()> {
        self.update_all(std::slice::from_mut(step))
    }

    fn update_all(&self, steps: &mut [Step<'_>]) -> Result<()> {
        let AdagradOptions { lr, lr_decay, weight_decay, initial_accumulator_value, eps, maximize } = *self;
        let rule = OptimizerRule::Adagrad { lr_decay, eps };
        let initial = initial_accumulator_value;
        FusedStep { rule, lr, weight_decay, maximize, count: Some("step"), initial }.run(steps)
    }
}
