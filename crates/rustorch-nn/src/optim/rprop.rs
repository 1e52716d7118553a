//! Rprop.

use super::options::options;
use super::rule::{expect, expect_not_negative, expression};
use super::{Optimizer, Rule, Step};
use rustorch_tensor::Result;

/// Steps whose lengths grow while the gradient's sign stays and shrink when it changes, whatever the gradient's magnitude, as
/// `torch.optim.Rprop`. Riedmiller, Braun: *A Direct Adaptive Method for Faster Backpropagation Learning*, 1993.
pub type Rprop = Optimizer<RpropOptions>;

options! {
    /// Options of [`Rprop`], with PyTorch's defaults.
    RpropOptions {
        /// The length of the first step: 1e-2.
        lr: f64 = 1e-2,
        /// By what the length is multiplied when the sign changes and while it stays: 0.5 and 1.2.
        etas: (f64, f64) = (0.5, 1.2),
        /// The least and the greatest length: 1e-6 and 50.
        step_sizes: (f64, f64) = (1e-6, 50.0),
        /// Whether the loss is to grow.
        maximize: bool = false,
    }
}

expression!(LENGTH, |[length, grad, last, shrink, grow, least, most]| {
    let turn = grad * last;
    let factor = turn.gt(0).where_cond(grow, turn.lt(0).where_cond(shrink, 1.0));
    (length * factor).maximum(least).minimum(most)
});
// Where the sign changed, the parameter stays, and the next sign counts as new.
expression!(CONSIDERED, |[grad, last]| (grad * last).lt(0).where_cond(0.0, grad));
expression!(STEP, |[x, grad, length]| x - grad.sign() * length);

impl Rule for RpropOptions {
    const NAME: &'static str = "Rprop";

    fn check(&self) -> Result<()> {
        expect_not_negative(Self::NAME, &[("lr", self.lr)])?;
        let (shrink, grow) = self.etas;
        expect(Self::NAME, "etas.0", shrink, shrink > 0.0 && shrink < 1.0, "between 0 and 1")?;
        expect(Self::NAME, "etas.1", grow, grow > 1.0, "above 1")
    }

    fn update(&self, step: &mut Step<'_>) -> Result<()> {
        step.prepare(self.maximize, 0.0)?;
        step.count();
        let last = step.tensor("prev", 0.0)?;
        let length = step.tensor("step_size", self.lr)?;
        let numbers = [self.etas.0, self.etas.1, self.step_sizes.0, self.step_sizes.1];
        let [shrink, grow, least, most] = numbers.map(|number| step.operand(number));
        let operands = [&length, step.grad(), &last, &shrink?, &grow?, &least?, &most?];
        LENGTH.apply_into(&operands, &length)?;
        CONSIDERED.apply_into(&[step.grad(), &last], &last)?;
        let x = step.parameter();
        STEP.apply_into(&[x, &last, &length], x)
    }
}
