//! Adafactor.

use super::options::options;
use super::rule::{expect, expect_not_negative, expect_real, expression};
use super::{Optimizer, Rule, Step};
use rustorch_tensor::{DType, Result, Tensor};

/// Steps that are scaled by the root of a mean of squared gradients, of which matrices keep only the means of rows and of columns, as
/// `torch.optim.Adafactor`. Shazeer, Stern: *Adafactor: Adaptive Learning Rates with Sublinear Memory Cost*, 2018.
///
/// Parameters must be real. Of one with two dimensions or more, the state has `row_var` (the last dimension is 1) and `col_var` (the last
/// but one is); of others it has `variance`.
pub type Adafactor = Optimizer<AdafactorOptions>;

options! {
    /// Options of [`Adafactor`], with PyTorch's defaults.
    AdafactorOptions {
        /// The greatest step relative to the parameter's root mean square, and the rate of the decay of weights: 1e-2.
        lr: f64 = 1e-2,
        /// The power of the count of steps by which the newest squares count: −0.8.
        beta2_decay: f64 = -0.8,
        /// The least divisor, and the least root mean square of a parameter that steps are relative to: `None`, which is the machine
        /// epsilon of the dtype in which the parameter is updated, and 1e-3.
        eps: (Option<f64>, f64) = (None, 1e-3),
        /// The root mean square from which on a step is clipped: 1.
        d: f64 = 1.0,
        /// How much weights decay, apart from their gradients: 0.
        weight_decay: f64 = 0.0,
        /// Whether the loss is to grow.
        maximize: bool = false,
    }
}

expression!(LERP, |[mean, new, share]| mean + (new - mean) * share);
expression!(LERP_SQUARE, |[mean, grad, share]| mean + (grad * grad - mean) * share);
expression!(FACTORED, |[grad, row, col, mean, eps, least]| {
    grad / (row * col / mean.maximum(eps)).maximum(least).sqrt()
});
expression!(WHOLE, |[grad, variance, least]| grad / variance.maximum(least).sqrt());
expression!(STEP, |[x, update, rate, length, least, clip]| {
    x - update * (rate * length.maximum(least) / clip.maximum(1.0))
});

/// The root of the mean of squares of a tensor, one of no dimensions on its device.
fn root_mean_square(x: &Tensor) -> Result<Tensor> {
    x.reshape([-1])?.norm(2.0, [0], false)?.div((x.numel().max(1) as f64).sqrt())
}

/// The mean of squares along a dimension, which becomes 1.
fn mean_of_squares(x: &Tensor, dim: usize) -> Result<Tensor> {
    x.norm(2.0, [dim as isize], true)?.square()?.div(x.dims()[dim] as f64)
}

impl Rule for AdafactorOptions {
    const NAME: &'static str = "Adafactor";

    fn check(&self) -> Result<()> {
        let eps = ("eps.0", self.eps.0.unwrap_or(0.0));
        let options = [("lr", self.lr), eps, ("eps.1", self.eps.1), ("weight_decay", self.weight_decay)];
        expect_not_negative(Self::NAME, &options)?;
        expect(Self::NAME, "beta2_decay", self.beta2_decay, self.beta2_decay <= 0.0, "0 or less")?;
        expect(Self::NAME, "d", self.d, self.d >= 1.0, "1 or more")
    }

    fn check_parameter(&self, name: &str, parameter: &Tensor) -> Result<()> {
        expect_real(Self::NAME, name, parameter)
    }

    fn state_shape(name: &str, parameter: &[usize]) -> Vec<usize> {
        let mut shape = parameter.to_vec();
        let n = shape.len();
        match name {
            "row_var" if n > 1 => shape[n - 1] = 1,
            "col_var" if n > 1 => shape[n - 2] = 1,
            _ => {}
        }
        shape
    }

    fn update(&self, step: &mut Step<'_>) -> Result<()> {
        step.prepare(self.maximize, 0.0)?;
        let t = step.count();
        let x = step.parameter().clone();
        let eps = self.eps.0.unwrap_or(match x.dtype() {
            DType::F64 => f64::EPSILON,
            _ => f64::from(f32::EPSILON),
        });
        let length = root_mean_square(&x)?;
        step.decay(self.lr, self.weight_decay)?;
        let share = step.operand(t.powf(self.beta2_decay))?;
        // Squared, since it is the root that has `eps` as its least value.
        let least = step.operand(eps * eps)?;
        let update = if x.ndim() > 1 {
            let (rows, columns) = (x.ndim() - 2, x.ndim() - 1);
            let (row, col) = (step.tensor("row_var", 0.0)?, step.tensor("col_var", 0.0)?);
            LERP.apply_into(&[&row, &mean_of_squares(step.grad(), columns)?, &share], &row)?;
            LERP.apply_into(&[&col, &mean_of_squares(step.grad(), rows)?, &share], &col)?;
            let mean = row.mean([-2], true)?;
            FACTORED.apply(&[step.grad(), &row, &col, &mean, &step.operand(eps)?, &least])?
        } else {
            let variance = step.tensor("variance", 0.0)?;
            LERP_SQUARE.apply_into(&[&variance, step.grad(), &share], &variance)?;
            WHOLE.apply(&[step.grad(), &variance, &least])?
        };
        let rate = step.operand(self.lr.min(t.powf(-0.5)))?;
        let clip = root_mean_square(&update)?.div(self.d)?;
        STEP.apply_into(&[&x, &update, &rate, &length, &step.operand(self.eps.1)?, &clip], &x)
    }
}
