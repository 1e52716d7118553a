//! Stochastic gradient descent.

use super::options::options;
use super::rule::{expect_not_negative, expression};
use super::{Optimizer, Rule, Step};
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

expression!(DIRECTION, |[buf, grad, momentum, rest]| buf * momentum + grad * rest);
expression!(STEP, |[x, direction, lr]| x - direction * lr);
expression!(AHEAD, |[x, grad, buf, momentum, lr]| x - (grad + buf * momentum) * lr);

impl Rule for SGDOptions {
    const NAME: &'static str = "SGD";

    fn check(&self) -> Result<()> {
        let options = [("lr", self.lr), ("momentum", self.momentum), ("weight_decay", self.weight_decay)];
        expect_not_negative(Self::NAME, &options)?;
        if self.nesterov && (self.momentum <= 0.0 || self.dampening != 0.0) {
            return Err(Error::argument(Self::NAME, "`nesterov` takes a momentum above 0 and no dampening"));
        }
        Ok(())
    }

    fn update(&self, step: &mut Step<'_>) -> Result<()> {
        step.prepare(self.maximize, self.weight_decay)?;
        let (x, lr) = (step.parameter().clone(), step.operand(self.lr)?);
        if self.momentum == 0.0 {
            return STEP.apply_into(&[&x, step.grad(), &lr], &x);
        }
        let momentum = step.operand(self.momentum)?;
        let first = !step.has("momentum_buffer");
        let buf = step.tensor("momentum_buffer", 0.0)?;
        match first {
            // The first direction is the gradient, undampened.
            true => buf.copy_(step.grad())?,
            false => {
                let rest = step.operand(1.0 - self.dampening)?;
                DIRECTION.apply_into(&[&buf, step.grad(), &momentum, &rest], &buf)?;
            }
        }
        match self.nesterov {
            true => AHEAD.apply_into(&[&x, step.grad(), &buf, &momentum, &lr], &x),
            false => STEP.apply_into(&[&x, &buf, &lr], &x),
        }
    }
}
