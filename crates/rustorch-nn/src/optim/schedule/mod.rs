//! Schedules: learning rates that change from step to step.
//!
//! A schedule is a function of the step and of the rate that the optimizer had at first; a [`Scheduler`] counts steps and sets rates.
//!
//! ```
//! use rustorch_nn::Linear;
//! use rustorch_nn::optim::schedule::{CosineAnnealingLR, LinearLR, Scheduler, SequentialLR};
//! use rustorch_nn::optim::{AdamW, AdamWOptions};
//!
//! let optimizer = AdamW::new(&Linear::new(2, 2)?, AdamWOptions { lr: 1.0, ..Default::default() })?;
//! // Ten steps of warm-up, then a cosine.
//! let schedule = SequentialLR::new(LinearLR::new(0.1, 1.0, 10)?)
//!     .then(10, CosineAnnealingLR::new(100, 0.0)?)?;
//! let scheduler = Scheduler::new(schedule, &optimizer)?;
//! assert_eq!(optimizer.groups()[0].options().lr, 0.1);
//! for _ in 0..60 {
//!     // optimizer.step()?;
//!     scheduler.step(&optimizer)?;
//! }
//! assert!((optimizer.groups()[0].options().lr - 0.5).abs() < 1e-12);
//! # Ok::<(), rustorch_tensor::Error>(())
//! ```

mod composed;
mod cosine;
mod cycles;
mod decays;
mod plateau;

pub use composed::{ChainedScheduler, SequentialLR};
pub use cosine::{CosineAnnealingLR, CosineAnnealingWarmRestarts, WarmupStableDecay};
pub use cycles::{CyclicLR, CyclicMode, OneCycleLR};
pub use decays::{
    ConstantLR, ExponentialLR, LambdaLR, LinearLR, MultiStepLR, MultiplicativeLR, PolynomialLR, StepLR,
};
pub use plateau::{PlateauMode, ReduceLROnPlateau, ThresholdMode};

use super::{Group, Optimizer, Rule};
use rustorch_tensor::{Error, HostState, Result, expect_eager};
use std::sync::Arc;

/// The learning rate as a function of the step.
pub trait Schedule: Send + Sync {
    /// The rate at a step, the first of which is 0, of a group whose rate was `base` before there was a schedule.
    fn rate(&self, step: u64, base: f64) -> f64;

    /// The momentum at a step (of optimizers like Adam the first of the betas), if the schedule sets it.
    fn momentum(&self, _step: u64) -> Option<f64> {
        None
    }
}

impl<S: Schedule + ?Sized> Schedule for Box<S> {
    fn rate(&self, step: u64, base: f64) -> f64 {
        (**self).rate(step, base)
    }

    fn momentum(&self, step: u64) -> Option<f64> {
        (**self).momentum(step)
    }
}

/// A schedule at work on an optimizer: it counts steps and sets the rates of all groups.
pub struct Scheduler<S> {
    schedule: Arc<S>,
    state: HostState<SchedulerState>,
}

/// What a [`Scheduler`] remembers, beside what its schedule was made of.
#[derive(Clone, Debug, PartialEq)]
pub struct SchedulerState {
    /// How many steps there were.
    pub step: u64,
    /// The rate of each group before there was a schedule.
    pub base: Vec<f64>,
}

/// The learning rate of each group.
fn rates<R: Rule>(optimizer: &Optimizer<R>) -> Result<Vec<f64>> {
    let rate = |group: &Group<R>| {
        let rate = group.options().number("lr");
        rate.ok_or_else(|| Error::argument(R::NAME, "it has no option `lr` to schedule"))
    };
    optimizer.groups().iter().map(rate).collect()
}

impl<S> Scheduler<S> {
    /// What it remembers.
    pub fn state_dict(&self) -> SchedulerState {
        self.state.lock().clone()
    }

    /// Goes on where another one was. The rates themselves are in the optimizer's state.
    ///
    /// # Errors
    /// If the state has another number of groups.
    pub fn load_state_dict(&mut self, state: &SchedulerState) -> Result<()> {
        let now = &mut *self.state.lock();
        if state.base.len() != now.base.len() {
            let message =
                format!("the state has {} groups, the optimizer {}", state.base.len(), now.base.len());
            return Err(Error::argument("Scheduler", message));
        }
        now.clone_from(state);
        Ok(())
    }
}

impl<S: Schedule + 'static> Scheduler<S> {
    /// Sets the rates of the first step.
    ///
    /// # Errors
    /// If the optimizer has no learning rate, or the schedule sets a momentum that it has not.
    pub fn new<R: Rule>(schedule: S, optimizer: &Optimizer<R>) -> Result<Scheduler<S>> {
        let state = HostState::new(SchedulerState { step: 0, base: rates(optimizer)? });
        let scheduler = Scheduler { schedule: Arc::new(schedule), state };
        scheduler.apply(optimizer)?;
        Ok(scheduler)
    }

    /// Sets the rates of the next step. In a captured function each run does, when it has ended well: call it behind the optimizer's step.
    ///
    /// # Errors
    /// If the optimizer has another number of groups than at first; in a captured function, if the schedule sets momenta.
    pub fn step<R: Rule>(&self, optimizer: &Optimizer<R>) -> Result<()> {
        let next = self.state.lock().step + 1;
        if self.schedule.momentum(next).is_some() {
            expect_eager("scheduler.step of a schedule that sets momenta")?;
        }
        // Some schedules set them from a later step on.
        let schedule = Arc::clone(&self.schedule);
        let holds = move |now: &SchedulerState| schedule.momentum(now.step + 1).is_none();
        self.state.guard("whether a schedule sets momenta", holds);
        self.state.update(|state| state.step += 1)?;
        self.apply(optimizer)
    }

    fn apply<R: Rule>(&self, optimizer: &Optimizer<R>) -> Result<()> {
        let SchedulerState { step, base } = self.state_dict();
        if optimizer.groups().len() != base.len() {
            let message = format!(
                "the optimizer has {} groups, it had {} when it got its schedule",
                optimizer.groups().len(),
                base.len()
            );
            return Err(Error::argument("Scheduler", message));
        }
        let momentum = self.schedule.momentum(step);
        for (i, group) in optimizer.groups().iter().enumerate() {
            let (schedule, state) = (Arc::clone(&self.schedule), self.state.clone());
            // As many bases as groups, also after a state was loaded.
            group.set_rate(move || {
                let SchedulerState { step, base } = state.lock().clone();
                schedule.rate(step, base[i])
            })?;
            let Some(momentum) = momentum else { continue };
            let mut is_set = false;
            group.set_options(|options| {
                is_set = options.set_number("betas.0", momentum) || options.set_number("momentum", momentum);
            });
            if !is_set {
                return Err(Error::argument(R::NAME, "it has neither `momentum` nor `betas` to schedule"));
            }
        }
        Ok(())
    }
}

/// An error if a number of steps is 0.
fn expect_steps(schedule: &'static str, name: &str, steps: u64) -> Result<()> {
    match steps {
        0 => Err(Error::argument(schedule, format!("`{name}` must be at least 1"))),
        _ => Ok(()),
    }
}
