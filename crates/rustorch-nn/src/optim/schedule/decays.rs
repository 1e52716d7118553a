//! Rates that are multiplied by a factor of the step.

use super::{Schedule, expect_steps};
use rustorch_tensor::{Error, Result};
use std::sync::{Mutex, PoisonError};

/// The first rate times a function of the step.
pub struct LambdaLR<F>(F);

impl<F: Fn(u64) -> f64> LambdaLR<F> {
    /// A rate with this factor.
    pub fn new(factor: F) -> LambdaLR<F> {
        LambdaLR(factor)
    }
}

impl<F: Fn(u64) -> f64 + Send + Sync> Schedule for LambdaLR<F> {
    fn rate(&self, step: u64, base: f64) -> f64 {
        base * (self.0)(step)
    }
}

/// The rate before times a function of the step, from step 1 on.
pub struct MultiplicativeLR<F> {
    factor: F,
    /// A step and the product of all factors up to it.
    last: Mutex<(u64, f64)>,
}

impl<F: Fn(u64) -> f64> MultiplicativeLR<F> {
    /// A rate that each step multiplies by this factor.
    pub fn new(factor: F) -> MultiplicativeLR<F> {
        MultiplicativeLR { factor, last: Mutex::new((0, 1.0)) }
    }
}

impl<F: Fn(u64) -> f64 + Send + Sync> Schedule for MultiplicativeLR<F> {
    fn rate(&self, step: u64, base: f64) -> f64 {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let (from, product) = if last.0 <= step { *last } else { (0, 1.0) };
        *last = (step, (from + 1..=step).fold(product, |product, step| product * (self.factor)(step)));
        base * last.1
    }
}

/// A rate that falls by a factor every so many steps.
#[derive(Clone, Copy, Debug)]
pub struct StepLR {
    step_size: u64,
    gamma: f64,
}

impl StepLR {
    /// Multiplies by `gamma` (PyTorch's default is 0.1) every `step_size` steps.
    ///
    /// # Errors
    /// If `step_size` is 0.
    pub fn new(step_size: u64, gamma: f64) -> Result<StepLR> {
        expect_steps("StepLR", "step_size", step_size)?;
        Ok(StepLR { step_size, gamma })
    }
}

impl Schedule for StepLR {
    fn rate(&self, step: u64, base: f64) -> f64 {
        base * self.gamma.powf((step / self.step_size) as f64)
    }
}

/// A rate that falls by a factor at given steps.
#[derive(Clone, Debug)]
pub struct MultiStepLR {
    milestones: Vec<u64>,
    gamma: f64,
}

impl MultiStepLR {
    /// Multiplies by `gamma` (PyTorch's default is 0.1) at each of the steps; at one that stands twice, twice.
    pub fn new(milestones: impl Into<Vec<u64>>, gamma: f64) -> MultiStepLR {
        MultiStepLR { milestones: milestones.into(), gamma }
    }
}

impl Schedule for MultiStepLR {
    fn rate(&self, step: u64, base: f64) -> f64 {
        let passed = self.milestones.iter().filter(|&&milestone| milestone <= step).count();
        base * self.gamma.powf(passed as f64)
    }
}

/// A rate that is smaller by a factor for the first steps.
#[derive(Clone, Copy, Debug)]
pub struct ConstantLR {
    factor: f64,
    total_iters: u64,
}

impl ConstantLR {
    /// The rate times `factor` (PyTorch's default is 1/3) for `total_iters` (5) steps.
    ///
    /// # Errors
    /// If the factor is not from 0 to 1.
    pub fn new(factor: f64, total_iters: u64) -> Result<ConstantLR> {
        expect_share("ConstantLR", "factor", factor)?;
        Ok(ConstantLR { factor, total_iters })
    }
}

impl Schedule for ConstantLR {
    fn rate(&self, step: u64, base: f64) -> f64 {
        if step < self.total_iters { base * self.factor } else { base }
    }
}

/// A rate that goes from one factor to another by equal steps.
#[derive(Clone, Copy, Debug)]
pub struct LinearLR {
    start_factor: f64,
    end_factor: f64,
    total_iters: u64,
}

impl LinearLR {
    /// From the rate times `start_factor` (PyTorch's default is 1/3) to the rate times `end_factor` (1) in `total_iters` (5) steps.
    ///
    /// # Errors
    /// If `start_factor` is 0, a factor is not from 0 to 1, or there is no step.
    pub fn new(start_factor: f64, end_factor: f64, total_iters: u64) -> Result<LinearLR> {
        expect_share("LinearLR", "start_factor", start_factor)?;
        expect_share("LinearLR", "end_factor", end_factor)?;
        expect_steps("LinearLR", "total_iters", total_iters)?;
        if start_factor == 0.0 {
            return Err(Error::argument("LinearLR", "`start_factor` is 0, it must be greater"));
        }
        Ok(LinearLR { start_factor, end_factor, total_iters })
    }
}

impl Schedule for LinearLR {
    fn rate(&self, step: u64, base: f64) -> f64 {
        let passed = step.min(self.total_iters) as f64 / self.total_iters as f64;
        base * (self.start_factor + (self.end_factor - self.start_factor) * passed)
    }
}

/// A rate that each step multiplies by one factor.
#[derive(Clone, Copy, Debug)]
pub struct ExponentialLR {
    gamma: f64,
}

impl ExponentialLR {
    /// Multiplies by `gamma` in each step.
    pub fn new(gamma: f64) -> ExponentialLR {
        ExponentialLR { gamma }
    }
}

impl Schedule for ExponentialLR {
    fn rate(&self, step: u64, base: f64) -> f64 {
        base * self.gamma.powf(step as f64)
    }
}

/// A rate that falls to 0 as a power of the steps that remain.
#[derive(Clone, Copy, Debug)]
pub struct PolynomialLR {
    total_iters: u64,
    power: f64,
}

impl PolynomialLR {
    /// To 0 in `total_iters` (PyTorch's default is 5) steps, by a `power` (1) of the share that remains.
    ///
    /// # Errors
    /// If there is no step.
    pub fn new(total_iters: u64, power: f64) -> Result<PolynomialLR> {
        expect_steps("PolynomialLR", "total_iters", total_iters)?;
        Ok(PolynomialLR { total_iters, power })
    }
}

impl Schedule for PolynomialLR {
    fn rate(&self, step: u64, base: f64) -> f64 {
        let passed = step.min(self.total_iters) as f64 / self.total_iters as f64;
        base * (1.0 - passed).powf(self.power)
    }
}

/// An error if a factor is not from 0 to 1.
fn expect_share(schedule: &'static str, name: &str, factor: f64) -> Result<()> {
    match (0.0..=1.0).contains(&factor) {
        true => Ok(()),
        false => Err(Error::argument(schedule, format!("`{name}` is {factor}, it must be from 0 to 1"))),
    }
}
