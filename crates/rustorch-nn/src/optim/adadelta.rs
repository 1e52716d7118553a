//! Adadelta.

use super::adam::running_squares;
use super::options::options;
use super::rule::{expect, expect_not_negative, expression};
use super::{Optimizer, Rule, Step};
use rustorch_tensor::Result;

/// Steps whose lengths follow those of the steps before, as `torch.optim.Adadelta`. Zeiler: *ADADELTA: An Adaptive Learning Rate
/// Method*, 2012.
pub type Adadelta = Optimizer<AdadeltaOptions>;

options! {
    /// Options of [`Adadelta`], with PyTorch's defaults.
    AdadeltaOptions {
        /// Learning rate: 1.
        lr: f64 = 1.0,
        /// How much of the running means of squares remains: 0.9.
        rho: f64 = 0.9,
        /// What is added below roots: 1e-6.
        eps: f64 = 1e-6,
        /// How much of each parameter is added to its gradient: 0.
        weight_decay: f64 = 0.0,
        /// Whether the loss is to grow.
        maximize: bool = false,
    }
}

expression!(DELTA, |[grad, squares, deltas, eps]| (deltas + eps).sqrt() / (squares + eps).sqrt() * grad);
expression!(STEP, |[x, delta, lr]| x - delta * lr);

impl Rule for AdadeltaOptions {
    const NAME: &'static str = "Adadelta";

    fn check(&self) -> Result<()> {
        let options = [("lr", self.lr), ("eps", self.eps), ("weight_decay", self.weight_decay)];
        expect_not_negative(Self::NAME, &options)?;
        expect(Self::NAME, "rho", self.rho, (0.0..=1.0).contains(&self.rho), "from 0 to 1")
    }

    fn update(&self, step: &mut Step<'_>) -> Result<()> {
        step.prepare(self.maximize, self.weight_decay)?;
        step.count();
        let squares = running_squares(step, "square_avg", self.rho)?;
        let deltas = step.tensor("acc_delta", 0.0)?;
        let delta = DELTA.apply(&[step.grad(), &squares, &deltas, &step.operand(self.eps)?])?;
        step.set_grad(delta);
        running_squares(step, "acc_delta", self.rho)?;
        let x = step.parameter();
        STEP.apply_into(&[x, step.grad(), &step.operand(self.lr)?], x)
    }
}
