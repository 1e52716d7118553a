//! Optimizers that step by one operation, over all parameters of a group at once.

use super::rule::{MASTER, compute_dtype};
use super::{ParameterState, Step};
use rustorch_tensor::foreach::{OptimizerRule, OptimizerStep, optimizer_step_};
use rustorch_tensor::{DType, Device, Error, HostState, Result, Tensor, outside_capture};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// What the operation of an optimizer depends on beside tensors.
#[derive(Clone, Copy)]
pub(super) struct FusedStep {
    pub(super) rule: OptimizerRule,
    pub(super) lr: f64,
    pub(super) weight_decay: f64,
    pub(super) maximize: bool,
    /// The number of the state that counts steps. Without one, the first step is that before which there is no state.
    pub(super) count: Option<&'static str>,
    /// The states before the first step.
    pub(super) initial: f64,
}

/// What a step in a captured function refers to, so that each run finds what it is then.
#[derive(Clone, Copy)]
pub(super) struct CapturedGroup<'a> {
    /// What the optimizer remembers of the parameters of the group.
    pub(super) states: &'a HostState<Vec<ParameterState>>,
    /// The learning rate as an operand.
    pub(super) rate: &'a dyn Fn(DType, Device) -> Result<Tensor>,
}

/// One parameter of them.
#[derive(Clone, Copy)]
pub(super) struct CapturedStep<'a> {
    pub(super) group: CapturedGroup<'a>,
    /// Its index in the group.
    pub(super) index: usize,
}

impl FusedStep {
    /// Runs the operation: once, unless parameters differ in dtype, device or step count.
    pub(super) fn run(&self, steps: &mut [Step<'_>]) -> Result<()> {
        let mut pending: Vec<Pending<'_, '_>> =
            steps.iter_mut().map(|step| self.pending(step)).collect::<Result<_>>()?;
        let mut noted = Vec::new();
        while let Some(first) = pending.first() {
            let (key, captured) = (first.key(), first.step.captured);
            let (own, others) = pending.into_iter().partition(|one| one.key() == key);
            let own = self.run_alike(own)?;
            pending = others;
            match captured {
                // Nothing is remembered of a step that failed.
                None => own.into_iter().for_each(|one| {
                    self.remember(one.step.state, one.count, &self.named(one.master, one.states));
                }),
                Some(step) => noted.push((step.group.states, own)),
            }
        }
        // What runs are to find is asked for before what they change is noted.
        noted.into_iter().try_for_each(|(states, own)| self.note_captured(states, own))
    }

    fn pending<'s, 'p>(&self, step: &'s mut Step<'p>) -> Result<Pending<'s, 'p>> {
        let dtype = compute_dtype(step.parameter.dtype());
        let master = match dtype == step.parameter.dtype() {
            true => None,
            false => Some(match step.state.tensor(MASTER) {
                Some(master) => master.clone(),
                None if step.captured.is_some() => {
                    let message = "the first step of 16-bit parameters makes their f32 copies, which a captured function cannot; step once before it \
                                   is captured";
                    return Err(Error::argument("optimizer.step", message));
                }
                None => step.parameter.to_dtype(dtype)?,
            }),
        };
        let count = self.count(step.state);
        // Runs of a captured function find what is made now.
        let names = self.rule.states().iter();
        let states = outside_capture(|| {
            names.map(|name| step.initial(name, self.initial, dtype)).collect::<Result<_>>()
        })?;
        Ok(Pending { step, count, master, states })
    }

    /// Which step the next one is, from 1.
    fn count(&self, state: &ParameterState) -> f64 {
        match self.count {
            Some(name) => state.number(name, 0.0) + 1.0,
            None if self.rule.states().iter().all(|name| state.tensor(name).is_some()) => 2.0,
            None => 1.0,
        }
    }

    fn run_alike<'s, 'p>(&self, pending: Vec<Pending<'s, 'p>>) -> Result<Vec<Pending<'s, 'p>>> {
        let Some(first) = pending.first() else { return Ok(pending) };
        let parameter = &first.step.parameter;
        let (dtype, device) = (compute_dtype(parameter.dtype()), parameter.device());
        let (lr, t) = match first.step.captured {
            None => {
                (Tensor::full((), self.lr, (dtype, device))?, Tensor::full((), first.count, (dtype, device))?)
            }
            Some(CapturedStep { group, index }) => {
                let step = *self;
                let count = move |states: &Vec<ParameterState>| step.count(&states[index]);
                ((group.rate)(dtype, device)?, group.states.operand((dtype, device), count)?)
            }
        };
        let op = OptimizerStep {
            rule: self.rule,
            weight_decay: self.weight_decay,
            maximize: self.maximize,
            master: first.master.is_some(),
        };
        let mut args = vec![&lr, &t];
        for one in &pending {
            args.extend([&one.step.parameter, &one.step.grad]);
            args.extend(one.master.iter().chain(&one.states));
        }
        optimizer_step_(&op, &args)?;
        drop(args);
        Ok(pending)
    }

    /// The tensors that a state keeps.
    fn named(&self, master: Option<Tensor>, states: Vec<Tensor>) -> Vec<(&'static str, Tensor)> {
        let master = master.into_iter().map(|master| (MASTER, master));
        master.chain(self.rule.states().iter().copied().zip(states)).collect()
    }

    fn remember(&self, state: &mut ParameterState, count: f64, tensors: &[(&'static str, Tensor)]) {
        if let Some(name) = self.count {
            state.set_number(name, count);
        }
        for (name, tensor) in tensors {
            if state.tensor(name).is_none() {
                state.set_tensor(name, tensor.clone());
            }
        }
    }

    /// Lets each run of the captured function remember its step, and refuse to run where it would be another operation: with states that
    /// were loaded or made elsewhere, or counts that differ.
    fn note_captured(
        &self,
        states: &HostState<Vec<ParameterState>>,
        pending: Vec<Pending<'_, '_>>,
    ) -> Result<()> {
        let step = *self;
        let own: Vec<(usize, Vec<(&'static str, Tensor)>)> = pending
            .into_iter()
            .filter_map(|one| Some((one.step.captured?.index, self.named(one.master, one.states))))
            .collect();
        let seen = own.clone();
        // The states that were made for the first step are those before it only once.
        let is_begun = Arc::new(AtomicBool::new(false));
        let begins = Arc::clone(&is_begun);
        states.guard("the state of an optimizer (loaded, or made by a step outside)", move |now| {
            let first = seen.first().map_or(0.0, |(index, _)| step.count(&now[*index]));
            seen.iter().all(|(index, tensors)| {
                let state = &now[*index];
                let is_first = tensors.iter().all(|(name, _)| state.tensor(name).is_none());
                let is_known = |(name, tensor): &(&str, Tensor)| {
                    state.tensor(name).is_some_and(|now| now.storage().same(tensor.storage()))
                };
                step.count(state).to_bits() == first.to_bits()
                    && (tensors.iter().all(is_known) || is_first && !is_begun.load(Relaxed))
            })
        });
        states.update(move |now| {
            begins.store(true, Relaxed);
            for (index, tensors) in &own {
                let state = &mut now[*index];
                step.remember(state, step.count(state), tensors);
            }
        })
    }
}

/// A parameter before its step.
struct Pending<'s, 'p> {
    step: &'s mut Step<'p>,
    /// Which step it is, from 1.
    count: f64,
    master: Option<Tensor>,
    states: Vec<Tensor>,
}

impl Pending<'_, '_> {
    /// What parameters of one operation have in common; the count by its bits, so that a NaN of a damaged state equals itself.
    fn key(&self) -> (DType, Device, u64) {
        (self.step.parameter.dtype(), self.step.parameter.device(), self.count.to_bits())
    }
}
