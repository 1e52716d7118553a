//! What L-BFGS remembers as a state by the names of parameters: each has its part of all vectors.

use super::history::{Change, History, Last, dot};
use super::{LBFGS, NAME, real};
use crate::optim::{OptimizerState, Options, ParameterState, Stateful};
use rustorch_tensor::autograd::no_grad;
use rustorch_tensor::{Error, Result, Tensor};
use std::collections::{BTreeMap, BTreeSet};

/// PyTorch's names of the last direction, the gradient before it, and the changes of gradients and parameters, a row for each.
const LAST: [&str; 2] = ["d", "prev_flat_grad"];
const CHANGES: [&str; 2] = ["old_dirs", "old_stps"];
/// Those of the last length and of the scale of the inverse Hessian.
const LENGTH: &str = "t";
const SCALE: &str = "H_diag";

impl LBFGS {
    /// All that it remembers, with PyTorch's names: of each parameter its part of the last direction and of the changes.
    ///
    /// # Errors
    /// If memory does not suffice.
    pub fn state_dict(&self) -> Result<OptimizerState> {
        let names = self.parameters.iter().map(|(name, _)| name.clone()).collect();
        let mut state = OptimizerState { groups: vec![], ..Default::default() };
        state.groups.push((self.options.numbers().into_iter().collect(), names));
        let Some(last) = &self.history.last else { return Ok(state) };
        let mut vectors = vec![(LAST[0], last.direction.clone()), (LAST[1], last.grad.clone())];
        if !self.history.changes.is_empty() {
            let rows = |of: fn(&Change) -> &Tensor| {
                Tensor::stack(&self.history.changes.iter().map(of).cloned().collect::<Vec<_>>(), 0)
            };
            vectors
                .extend([(CHANGES[0], rows(|change| &change.y)?), (CHANGES[1], rows(|change| &change.s)?)]);
        }
        let mut start = 0;
        for (name, parameter) in &self.parameters {
            let len = real(&parameter.tensor())?.numel();
            let mut own = ParameterState::default();
            for (key, vector) in &vectors {
                own.set_tensor(key, vector.narrow(-1, start, len)?);
            }
            own.set_number(LENGTH, last.t);
            if let Some(scale) = self.history.scale {
                own.set_number(SCALE, scale);
            }
            state.parameters.insert(name.clone(), own);
            start += len;
        }
        Ok(state)
    }

    /// Takes over what another one remembered, by the names of parameters, in whatever order they were made. Tensors are copied.
    ///
    /// # Errors
    /// One that lists the names of parameters that only one side has, options that there are not, and shapes that differ; nothing is changed
    /// then.
    pub fn load_state_dict(&mut self, state: &OptimizerState) -> Result<()> {
        let mut wrong = Vec::new();
        let mut options = self.options;
        let mut names = BTreeSet::new();
        for (numbers, group) in &state.groups {
            names.extend(group.iter().map(String::as_str));
            for (name, &number) in numbers {
                if !options.set_number(name, number) {
                    wrong.push(format!("there is no option `{name}` that can be {number}"));
                }
            }
        }
        let own: BTreeSet<&str> = self.parameters.iter().map(|(name, _)| name.as_str()).collect();
        wrong.extend(own.difference(&names).map(|name| format!("`{name}` is missing")));
        wrong.extend(names.difference(&own).map(|name| format!("`{name}` is unexpected")));
        let history = self.history_of(state, &mut wrong)?;
        if !wrong.is_empty() {
            return Err(Error::argument(NAME, format!("this state does not fit: {}", wrong.join("; "))));
        }
        (self.options, self.history) = (options, history);
        Ok(())
    }

    /// The history that a state tells, of the parts of all parameters; notes what is wrong with them.
    fn history_of(&self, state: &OptimizerState, wrong: &mut Vec<String>) -> Result<History> {
        let Some(first) = state.parameters.values().next() else { return Ok(History::default()) };
        // All have as many changes as the first.
        let count = first.tensor(CHANGES[0]).and_then(|x| x.dims().first().copied());
        let mut parts: BTreeMap<&str, Vec<Tensor>> = BTreeMap::new();
        for (name, parameter) in &self.parameters {
            let Some(of_parameter) = state.parameters.get(name) else {
                wrong.push(format!("the state of `{name}` is missing"));
                continue;
            };
            let x = real(&parameter.tensor())?;
            for key in LAST.into_iter().chain(CHANGES.into_iter().filter(|_| count.is_some())) {
                let shape: Vec<usize> = match count {
                    Some(count) if CHANGES.contains(&key) => vec![count, x.numel()],
                    _ => vec![x.numel()],
                };
                match of_parameter.tensor(key) {
                    Some(part) if part.dims() == shape => {
                        let part = part.to_dtype(x.dtype())?.to_device(x.device())?;
                        parts.entry(key).or_default().push(part);
                    }
                    part => {
                        let have = part
                            .map_or_else(|| "is missing".to_owned(), |x| format!("has shape {}", x.shape()));
                        wrong.push(format!("`{key}` of `{name}` {have}, it must have {shape:?}"));
                    }
                }
            }
        }
        if !wrong.is_empty() {
            return Ok(History::default());
        }
        // A copy, also of one part.
        let vector = |key: &str| Tensor::cat(parts.get(key).map_or(&[][..], Vec::as_slice), -1)?.copy();
        no_grad(|| {
            let last =
                Last { direction: vector(LAST[0])?, t: first.number(LENGTH, 1.0), grad: vector(LAST[1])? };
            let mut history = History { last: Some(last), ..Default::default() };
            if let Some(count) = count {
                let (y, s) = (vector(CHANGES[0])?, vector(CHANGES[1])?);
                for i in 0..count as isize {
                    let (y, s) = (y.select(0, i)?, s.select(0, i)?);
                    let ro = 1.0 / dot(&y, &s)?;
                    history.changes.push_back(Change { y, s, ro });
                }
                history.scale = Some(first.number(SCALE, 1.0));
            }
            Ok(history)
        })
    }
}

impl Stateful for LBFGS {
    fn state_dict(&self) -> Result<OptimizerState> {
        LBFGS::state_dict(self)
    }

    fn load_state_dict(&mut self, state: &OptimizerState) -> Result<()> {
        LBFGS::load_state_dict(self, state)
    }
}
