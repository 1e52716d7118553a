//! Rates that rise and fall, with momenta that fall and rise.

use super::{Schedule, expect_steps};
use rustorch_tensor::{Error, Result};
use std::f64::consts::PI;

/// How the height of the cycles of a [`CyclicLR`] changes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum CyclicMode {
    /// It stays.
    #[default]
    Triangular,
    /// Each is half as high as the one before.
    Triangular2,
    /// It is multiplied by this number in each step.
    ExpRange(f64),
}

/// A rate that goes from `base_lr` to `max_lr` and back, again and again, while momentum does the opposite. Smith: *Cyclical Learning Rates
/// for Training Neural Networks*, 2017. The rate that the optimizer had does not count.
#[derive(Clone, Copy, Debug)]
pub struct CyclicLR {
    /// The least rate.
    pub base_lr: f64,
    /// The greatest rate.
    pub max_lr: f64,
    /// How many steps it rises.
    pub step_size_up: u64,
    /// How many steps it falls.
    pub step_size_down: u64,
    /// How the height changes.
    pub mode: CyclicMode,
    /// The least and the greatest momentum, if that changes, too.
    pub momentum: Option<(f64, f64)>,
}

impl CyclicLR {
    /// Cycles of equal height, each 2 · `step_size` long, with PyTorch's momenta of 0.8 to 0.9.
    ///
    /// # Errors
    /// If there is no step.
    pub fn new(base_lr: f64, max_lr: f64, step_size: u64) -> Result<CyclicLR> {
        expect_steps("CyclicLR", "step_size", step_size)?;
        let (up, mode) = (step_size, CyclicMode::Triangular);
        Ok(CyclicLR {
            base_lr,
            max_lr,
            step_size_up: up,
            step_size_down: up,
            mode,
            momentum: Some((0.8, 0.9)),
        })
    }

    /// How far from the lower end to the upper.
    fn height(&self, step: u64) -> f64 {
        let (up, step) = (self.step_size_up as f64, step as f64);
        let total = up + self.step_size_down as f64;
        let cycle = (1.0 + step / total).floor();
        let x = 1.0 + step / total - cycle;
        let ratio = up / total;
        let height = if x <= ratio { x / ratio } else { (x - 1.0) / (ratio - 1.0) };
        match self.mode {
            CyclicMode::Triangular => height,
            CyclicMode::Triangular2 => height * 0.5f64.powf(cycle - 1.0),
            CyclicMode::ExpRange(gamma) => height * gamma.powf(step),
        }
    }
}

impl Schedule for CyclicLR {
    fn rate(&self, step: u64, _base: f64) -> f64 {
        self.base_lr + (self.max_lr - self.base_lr) * self.height(step)
    }

    fn momentum(&self, step: u64) -> Option<f64> {
        let (least, most) = self.momentum?;
        Some(most - (most - least) * self.height(step))
    }
}

/// One cycle: the rate rises to `max_lr` and falls to nearly nothing, while momentum does the opposite. Smith, Topin: *Super-Convergence*,
/// 2018. The rate that the optimizer had does not count; after `total_steps` the last one stays.
#[derive(Clone, Copy, Debug)]
pub struct OneCycleLR {
    /// The greatest rate.
    pub max_lr: f64,
    /// How many steps the cycle has.
    pub total_steps: u64,
    /// The share of steps in which the rate rises: 0.3.
    pub pct_start: f64,
    /// Whether rates lie on lines, not on cosines.
    pub linear: bool,
    /// The least and the greatest momentum, if that changes, too: 0.85 and 0.95.
    pub momentum: Option<(f64, f64)>,
    /// The first rate is `max_lr` divided by this: 25.
    pub div_factor: f64,
    /// The last rate is the first one divided by this: 10⁴.
    pub final_div_factor: f64,
    /// Whether the rate falls to the first one as fast as it rose, before it falls to the last.
    pub three_phase: bool,
}

impl OneCycleLR {
    /// A cycle with PyTorch's defaults.
    ///
    /// # Errors
    /// If there is no step, or the rate is not a positive number.
    pub fn new(max_lr: f64, total_steps: u64) -> Result<OneCycleLR> {
        expect_steps("OneCycleLR", "total_steps", total_steps)?;
        if max_lr.is_nan() || max_lr <= 0.0 {
            return Err(Error::argument("OneCycleLR", format!("`max_lr` is {max_lr}, it must be above 0")));
        }
        Ok(OneCycleLR {
            max_lr,
            total_steps,
            pct_start: 0.3,
            linear: false,
            momentum: Some((0.85, 0.95)),
            div_factor: 25.0,
            final_div_factor: 1e4,
            three_phase: false,
        })
    }

    /// The value at a step of what starts with `first`, has `peak` at the peak, and ends with `last`.
    fn at(&self, step: u64, first: f64, peak: f64, last: f64) -> f64 {
        let (total, start) = (self.total_steps as f64, self.pct_start);
        let end = (total - 1.0, last);
        let rise = (start * total - 1.0, peak);
        let fall = (2.0 * start * total - 2.0, first);
        let phases = if self.three_phase { vec![rise, fall, end] } else { vec![rise, end] };
        let step = (step as f64).min(total - 1.0);
        let mut from = (0.0, first);
        for (i, &to) in phases.iter().enumerate() {
            if step <= to.0 || i + 1 == phases.len() {
                let passed = (step - from.0) / (to.0 - from.0);
                return match self.linear {
                    true => (to.1 - from.1) * passed + from.1,
                    false => to.1 + (from.1 - to.1) / 2.0 * ((PI * passed).cos() + 1.0),
                };
            }
            from = to;
        }
        last
    }
}

impl Schedule for OneCycleLR {
    fn rate(&self, step: u64, _base: f64) -> f64 {
        let first = self.max_lr / self.div_factor;
        self.at(step, first, self.max_lr, first / self.final_div_factor)
    }

    fn momentum(&self, step: u64) -> Option<f64> {
        let (least, most) = self.momentum?;
        Some(self.at(step, most, least, most))
    }
}
