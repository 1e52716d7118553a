//! Schedules made of others.

use super::Schedule;
use rustorch_tensor::{Error, Result};

/// One schedule after another.
pub struct SequentialLR {
    /// Each with the step at which it starts.
    parts: Vec<(u64, Box<dyn Schedule>)>,
}

impl SequentialLR {
    /// Starts with a schedule.
    pub fn new(first: impl Schedule + 'static) -> SequentialLR {
        SequentialLR { parts: vec![(0, Box::new(first))] }
    }

    /// From a step on, another schedule, which begins with its own first step.
    ///
    /// # Errors
    /// If it would not start after the one before it.
    pub fn then(mut self, milestone: u64, schedule: impl Schedule + 'static) -> Result<SequentialLR> {
        let last = self.parts.last().map_or(0, |(start, _)| *start);
        if milestone <= last {
            let message = format!("a schedule would start at step {milestone}, the one before it at {last}");
            return Err(Error::argument("SequentialLR", message));
        }
        self.parts.push((milestone, Box::new(schedule)));
        Ok(self)
    }

    fn part(&self, step: u64) -> (u64, &dyn Schedule) {
        let place = self.parts.partition_point(|(start, _)| *start <= step) - 1;
        let (start, part) = &self.parts[place];
        (step - start, part.as_ref())
    }
}

impl Schedule for SequentialLR {
    fn rate(&self, step: u64, base: f64) -> f64 {
        let (step, part) = self.part(step);
        part.rate(step, base)
    }

    fn momentum(&self, step: u64) -> Option<f64> {
        let (step, part) = self.part(step);
        part.momentum(step)
    }
}

/// Several schedules at once: each has the rate of those before it for the optimizer's.
#[derive(Default)]
pub struct ChainedScheduler(Vec<Box<dyn Schedule>>);

impl ChainedScheduler {
    /// Starts with a schedule.
    pub fn new(first: impl Schedule + 'static) -> ChainedScheduler {
        ChainedScheduler(vec![Box::new(first)])
    }

    /// Adds a schedule.
    #[must_use]
    pub fn and(mut self, schedule: impl Schedule + 'static) -> ChainedScheduler {
        self.0.push(Box::new(schedule));
        self
    }
}

impl Schedule for ChainedScheduler {
    fn rate(&self, step: u64, base: f64) -> f64 {
        self.0.iter().fold(base, |rate, schedule| schedule.rate(step, rate))
    }

    fn momentum(&self, step: u64) -> Option<f64> {
        self.0.iter().rev().find_map(|schedule| schedule.momentum(step))
    }
}
