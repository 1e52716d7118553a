//! Rates that fall where a measure no longer improves.

use super::rates;
use crate::optim::{Optimizer, Rule};
use rustorch_tensor::{Error, Result, expect_eager};

/// What improving is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlateauMode {
    /// The measure, such as a loss, falls.
    #[default]
    Min,
    /// The measure, such as an accuracy, rises.
    Max,
}

/// What the threshold is measured by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ThresholdMode {
    /// The best measure so far.
    #[default]
    Rel,
    /// Itself.
    Abs,
}

/// Multiplies the rates by a factor where a measure has not improved for a while, as `torch.optim.lr_scheduler.ReduceLROnPlateau`.
///
/// ```
/// use rustorch_nn::Linear;
/// use rustorch_nn::optim::schedule::ReduceLROnPlateau;
/// use rustorch_nn::optim::{SGD, SGDOptions};
/// let model = Linear::new(1, 1)?;
/// let optimizer = SGD::new(&model, SGDOptions { lr: 1.0, ..Default::default() })?;
/// let mut scheduler = ReduceLROnPlateau { patience: 1, ..Default::default() };
/// for loss in [3.0, 2.0, 2.0, 2.0] {
///     scheduler.step(loss, &optimizer)?;
/// }
/// assert_eq!(optimizer.groups()[0].options().lr, 0.1);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ReduceLROnPlateau {
    /// What improving is: a smaller measure.
    pub mode: PlateauMode,
    /// What the rates are multiplied by: 0.1.
    pub factor: f64,
    /// How many measures in a row may be no better: 10.
    pub patience: u64,
    /// By how much a better measure is better: 1e-4.
    pub threshold: f64,
    /// What the threshold is measured by: the best measure.
    pub threshold_mode: ThresholdMode,
    /// How many measures after a change do not count: 0.
    pub cooldown: u64,
    /// No rate becomes less than this: 0.
    pub min_lr: f64,
    /// A smaller change of the rate is none: 1e-8.
    pub eps: f64,
    /// The best measure so far.
    pub best: Option<f64>,
    /// How many measures since then were no better.
    pub num_bad_epochs: u64,
    /// How many measures from now on do not count.
    pub cooldown_counter: u64,
}

impl Default for ReduceLROnPlateau {
    fn default() -> ReduceLROnPlateau {
        ReduceLROnPlateau {
            mode: PlateauMode::Min,
            factor: 0.1,
            patience: 10,
            threshold: 1e-4,
            threshold_mode: ThresholdMode::Rel,
            cooldown: 0,
            min_lr: 0.0,
            eps: 1e-8,
            best: None,
            num_bad_epochs: 0,
            cooldown_counter: 0,
        }
    }
}

impl ReduceLROnPlateau {
    fn is_better(&self, measure: f64) -> bool {
        let Some(best) = self.best else { return !measure.is_nan() };
        match (self.mode, self.threshold_mode) {
            (PlateauMode::Min, ThresholdMode::Rel) => measure < best * (1.0 - self.threshold),
            (PlateauMode::Min, ThresholdMode::Abs) => measure < best - self.threshold,
            (PlateauMode::Max, ThresholdMode::Rel) => measure > best * (1.0 + self.threshold),
            (PlateauMode::Max, ThresholdMode::Abs) => measure > best + self.threshold,
        }
    }

    /// Takes a measure, and changes the rates if it is time.
    ///
    /// # Errors
    /// If the factor is not less than 1, or the optimizer has no learning rate.
    pub fn step<R: Rule>(&mut self, measure: f64, optimizer: &Optimizer<R>) -> Result<()> {
        expect_eager("scheduler.step")?;
        if self.factor.is_nan() || self.factor >= 1.0 {
            let message = format!("`factor` is {}, it must be less than 1", self.factor);
            return Err(Error::argument("ReduceLROnPlateau", message));
        }
        match self.is_better(measure) {
            true => (self.best, self.num_bad_epochs) = (Some(measure), 0),
            false => self.num_bad_epochs += 1,
        }
        if self.cooldown_counter > 0 {
            self.cooldown_counter -= 1;
            self.num_bad_epochs = 0;
        }
        if self.num_bad_epochs > self.patience {
            let rates = rates(optimizer)?;
            for (group, rate) in optimizer.groups().iter().zip(rates) {
                let new = (rate * self.factor).max(self.min_lr);
                if rate - new > self.eps {
                    group.set_rate(move || new)?;
                }
            }
            self.cooldown_counter = self.cooldown;
            self.num_bad_epochs = 0;
        }
        Ok(())
    }
}
