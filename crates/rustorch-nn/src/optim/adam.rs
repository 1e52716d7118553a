//! Adam and AdamW.

use super::fused::FusedStep;
use super::options::options;
use super::rule::{Capturable, expect_below_one, expect_not_negative, expression};
use super::{Optimizer, Rule, Step};
use rustorch_tensor::foreach::OptimizerRule;
use rustorch_tensor::{Result, Tensor};

/// Adam, as `torch.optim.Adam`: steps along the running mean of gradients, divided by the root of that of their squares, both freed of
/// their bias towards zero. Kingma, Ba: *Adam: A Method for Stochastic Optimization*, 2015.
pub type Adam = Optimizer<AdamOptions>;

/// Adam with weights that decay apart from their gradients, as `torch.optim.AdamW`. Loshchilov, Hutter: *Decoupled Weight Decay
/// Regularization*, 2019.
pub type AdamW = Optimizer<AdamWOptions>;

options! {
    /// Options of [`Adam`], with PyTorch's defaults.
    AdamOptions {
        /// Learning rate: 1e-3.
        lr: f64 = 1e-3,
        /// How much of the running means of gradients and of their squares remains: 0.9 and 0.999.
        betas: (f64, f64) = (0.9, 0.999),
        /// What is added to the divisor: 1e-8.
        eps: f64 = 1e-8,
        /// How much weights decay: 0.
        weight_decay: f64 = 0.0,
        /// Whether to divide by the largest mean of squares so far (Reddi, Kale, Kumar: *On the Convergence of Adam and Beyond*, 2018).
        amsgrad: bool = false,
        /// Whether the loss is to grow.
        maximize: bool = false,
        /// Whether weights decay apart from their gradients, as in [`AdamW`].
        decoupled_weight_decay: bool = false,
    }
}

options! {
    /// Options of [`AdamW`], with PyTorch's defaults.
    AdamWOptions {
        /// Learning rate: 1e-3.
        lr: f64 = 1e-3,
        /// How much of the running means of gradients and of their squares remains: 0.9 and 0.999.
        betas: (f64, f64) = (0.9, 0.999),
        /// What is added to the divisor: 1e-8.
        eps: f64 = 1e-8,
        /// How much weights decay: 1e-2.
        weight_decay: f64 = 1e-2,
        /// Whether to divide by the largest mean of squares so far.
        amsgrad: bool = false,
        /// Whether the loss is to grow.
        maximize: bool = false,
    }
}

expression!(MEAN, |[mean, grad, rest]| mean + (grad - mean) * rest);
expression!(MEAN_OF_SQUARES, |[mean, grad, beta, rest]| mean * beta + grad * grad * rest);

/// The running mean of gradients: `mean ← beta · mean + (1 − beta) · grad`.
pub(super) fn running_mean(step: &mut Step<'_>, name: &'static str, beta: f64) -> Result<Tensor> {
    let mean = step.tensor(name, 0.0)?;
    MEAN.apply_into(&[&mean, step.grad(), &step.operand(1.0 - beta)?], &mean)?;
    Ok(mean)
}

/// The running mean of squares of gradients.
pub(super) fn running_squares(step: &mut Step<'_>, name: &'static str, beta: f64) -> Result<Tensor> {
    let squares = step.tensor(name, 0.0)?;
    let operands = [&squares, step.grad(), &step.operand(beta)?, &step.operand(1.0 - beta)?];
    MEAN_OF_SQUARES.apply_into(&operands, &squares)?;
    Ok(squares)
}

/// Whether the options that Adam and its kin share make sense.
pub(super) fn check(
    optimizer: &'static str,
    lr: f64,
    betas: (f64, f64),
    eps: f64,
    weight_decay: f64,
) -> Result<()> {
    expect_not_negative(optimizer, &[("lr", lr), ("eps", eps), ("weight_decay", weight_decay)])?;
    expect_below_one(optimizer, &[("betas.0", betas.0), ("betas.1", betas.1)])
}

impl Rule for AdamOptions {
    const NAME: &'static str = "Adam";
    const IS_CAPTURABLE: Capturable = Capturable(true);

    fn check(&self) -> Result<()> {
        check(Self::NAME, self.lr, self.betas, self.eps, self.weight_decay)
    }

    fn update(&self, step: &mut Step<'_>) -> Result<()> {
        self.update_all(std::slice::from_mut(step))
    }

    fn update_all(&self, steps: &mut [Step<'_>]) -> Result<()> {
        let AdamOptions { lr, betas, eps, weight_decay, amsgrad, maximize, decoupled_weight_decay } = *self;
        let (beta1, beta2) = betas;
        let rule = OptimizerRule::Adam { beta1, beta2, eps, amsgrad, decoupled_weight_decay };
        FusedStep { rule, lr, weight_decay, maximize, count: Some("step"), initial: 0.0 }.run(steps)
    }
}

impl Rule for AdamWOptions {
    const NAME: &'static str = "AdamW";
    const IS_CAPTURABLE: Capturable = Capturable(true);

    fn check(&self) -> Result<()> {
        check(Self::NAME, self.lr, self.betas, self.eps, self.weight_decay)
    }

    fn update(&self, step: &mut Step<'_>) -> Result<()> {
        self.update_all(std::slice::from_mut(step))
    }

    fn update_all(&self, steps: &mut [Step<'_>]) -> Result<()> {
        let AdamWOptions { lr, betas, eps, weight_decay, amsgrad, maximize } = *self;
        AdamOptions { lr, betas, eps, weight_decay, amsgrad, maximize, decoupled_weight_decay: true }
            .update_all(steps)
    }
}
