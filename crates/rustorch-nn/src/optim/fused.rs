//! Optimizers that step by one operation, over all parameters of a group at once.

use super::Step;
use super::rule::{MASTER, compute_dtype};
use rustorch_tensor::foreach::{OptimizerRule, OptimizerStep, optimizer_step_};
use rustorch_tensor::{DType, Device, Result, Tensor};

/// What the operation of an optimizer depends on beside tensors.
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

impl FusedStep {
    /// Runs the operation: once, unless parameters differ in dtype, device or step count.
    pub(super) fn run(&self, steps: &mut [Step<'_>]) -> Result<()> {
        let mut pending: Vec<Pending<'_, '_>> =
            steps.iter_mut().map(|step| self.pending(step)).collect::<Result<_>>()?;
        while let Some(first) = pending.first() {
            let key = first.key();
            let (own, others) = pending.into_iter().partition(|one| one.key() == key);
            self.run_alike(own)?;
            pending = others;
        }
        Ok(())
    }

    fn pending<'s, 'p>(&self, step: &'s mut Step<'p>) -> Result<Pending<'s, 'p>> {
        let dtype = compute_dtype(step.parameter.dtype());
        let master = match dtype == step.parameter.dtype() {
            true => None,
            false => Some(match step.state.tensor(MASTER) {
                Some(master) => master.clone(),
                None => step.parameter.to_dtype(dtype)?,
            }),
        };
        let names = self.rule.states();
        let count = match self.count {
            Some(name) => step.state.number(name, 0.0) + 1.0,
            None if names.iter().all(|name| step.has(name)) => 2.0,
            None => 1.0,
        };
        let states = names.iter().map(|name| step.initial(name, self.initial, dtype));
        let states = states.collect::<Result<_>>()?;
        Ok(Pending { step, count, master, states })
    }

    fn run_alike(&self, pending: Vec<Pending<'_, '_>>) -> Result<()> {
        let Some(first) = pending.first() else { return Ok(()) };
        let parameter = &first.step.parameter;
        let options = (compute_dtype(parameter.dtype()), parameter.device());
        let (lr, t) = (Tensor::full((), self.lr, options)?, Tensor::full((), first.count, options)?);
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
        // Nothing is remembered of a step that failed.
        for Pending { step, count, master, states } in pending {
            if let Some(name) = self.count {
                step.state.set_number(name, count);
            }
            let own = master.into_iter().map(|master| (MASTER, master));
            for (name, tensor) in own.chain(self.rule.states().iter().copied().zip(states)) {
                if !step.has(name) {
                    step.state.set_tensor(name, tensor);
                }
            }
        }
        Ok(())
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
