//! Adagrad.

use super::options::options;
use super::rule::{expect_not_negative, expression};
use super::{Optimizer, Rule, Step};
use rustorch_tensor::Result;

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

expression!(SUM, |[sum, grad]| sum + grad * grad);
expression!(STEP, |[x, grad, sum, rate, eps]| x - grad / (sum.sqrt() + eps) * rate);

impl Rule for AdagradOptions {
    const NAME: &'static str = "Adagrad";

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
        step.prepare(self.maximize, self.weight_decay)?;
        let t = step.count();
        let sum = step.tensor("sum", self.initial_accumulator_value)?;
        SUM.apply_into(&[&sum, step.grad()], &sum)?;
        let rate = step.operand(self.lr / (1.0 + (t - 1.0) * self.lr_decay))?;
        let x = step.parameter();
        STEP.apply_into(&[x, step.grad(), &sum, &rate, &step.operand(self.eps)?], x)
    }
}
