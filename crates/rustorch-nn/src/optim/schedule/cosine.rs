//! Rates that follow a cosine.

use super::{Schedule, expect_steps};
use rustorch_tensor::{Error, Result};
use std::f64::consts::PI;

/// A rate that falls to `eta_min` along half a cosine, and rises again after that. Loshchilov, Hutter: *SGDR*, 2017.
#[derive(Clone, Copy, Debug)]
pub struct CosineAnnealingLR {
    t_max: u64,
    eta_min: f64,
}

impl CosineAnnealingLR {
    /// Reaches `eta_min` (PyTorch's default is 0) after `t_max` steps.
    ///
    /// # Errors
    /// If there is no step.
    pub fn new(t_max: u64, eta_min: f64) -> Result<CosineAnnealingLR> {
        expect_steps("CosineAnnealingLR", "t_max", t_max)?;
        Ok(CosineAnnealingLR { t_max, eta_min })
    }
}

impl Schedule for CosineAnnealingLR {
    fn rate(&self, step: u64, base: f64) -> f64 {
        let passed = step as f64 / self.t_max as f64;
        self.eta_min + (base - self.eta_min) * (1.0 + (PI * passed).cos()) / 2.0
    }
}

/// A rate that falls along half a cosine and starts again, each time over more steps. Loshchilov, Hutter: *SGDR*, 2017.
#[derive(Clone, Copy, Debug)]
pub struct CosineAnnealingWarmRestarts {
    t_0: u64,
    t_mult: u64,
    eta_min: f64,
}

impl CosineAnnealingWarmRestarts {
    /// The first time over `t_0` steps, each other one `t_mult` (PyTorch's default is 1) times as long, down to `eta_min` (0).
    ///
    /// # Errors
    /// If there is no step, or `t_mult` is 0.
    pub fn new(t_0: u64, t_mult: u64, eta_min: f64) -> Result<CosineAnnealingWarmRestarts> {
        expect_steps("CosineAnnealingWarmRestarts", "t_0", t_0)?;
        expect_steps("CosineAnnealingWarmRestarts", "t_mult", t_mult)?;
        Ok(CosineAnnealingWarmRestarts { t_0, t_mult, eta_min })
    }
}

impl Schedule for CosineAnnealingWarmRestarts {
    fn rate(&self, step: u64, base: f64) -> f64 {
        let (mut passed, mut length) = (step, self.t_0);
        if self.t_mult == 1 {
            passed %= length;
        }
        while passed >= length {
            passed -= length;
            length = length.saturating_mul(self.t_mult);
        }
        let passed = passed as f64 / length as f64;
        self.eta_min + (base - self.eta_min) * (1.0 + (PI * passed).cos()) / 2.0
    }
}

/// A rate that rises, stays, and falls: all three linearly but the last, which is half a cosine. Hu et al.: *MiniCPM*, 2024.
#[derive(Clone, Copy, Debug)]
pub struct WarmupStableDecay {
    warmup: u64,
    stable: u64,
    decay: u64,
    final_factor: f64,
}

impl WarmupStableDecay {
    /// From 0 to the rate in `warmup` steps, there for `stable`, and down to the rate times `final_factor` in `decay` steps.
    ///
    /// ```
    /// use rustorch_nn::optim::schedule::{Schedule, WarmupStableDecay};
    /// let schedule = WarmupStableDecay::new(10, 100, 20, 0.1)?;
    /// let rates = [0, 5, 50, 120, 130, 500].map(|step| (schedule.rate(step, 2.0) * 100.0).round());
    /// assert_eq!(rates, [0.0, 100.0, 200.0, 110.0, 20.0, 20.0]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the factor is not from 0 to 1.
    pub fn new(warmup: u64, stable: u64, decay: u64, final_factor: f64) -> Result<WarmupStableDecay> {
        if !(0.0..=1.0).contains(&final_factor) {
            let message = format!("`final_factor` is {final_factor}, it must be from 0 to 1");
            return Err(Error::argument("WarmupStableDecay", message));
        }
        Ok(WarmupStableDecay { warmup, stable, decay, final_factor })
    }
}

impl Schedule for WarmupStableDecay {
    fn rate(&self, step: u64, base: f64) -> f64 {
        if step < self.warmup {
            return base * step as f64 / self.warmup as f64;
        }
        let passed = step.saturating_sub(self.warmup.saturating_add(self.stable));
        if passed == 0 {
            return base;
        }
        let left = if passed >= self.decay {
            0.0
        } else {
            (1.0 + (PI * passed as f64 / self.decay as f64).cos()) / 2.0
        };
        base * (self.final_factor + (1.0 - self.final_factor) * left)
    }
}
