//! What optimizers remember of parameters, by name.

use super::{Optimizer, Rule};
use rustorch_tensor::{Result, Tensor};
use std::collections::BTreeMap;

/// What an optimizer remembers of one parameter: running means and counts, with PyTorch's names.
#[derive(Clone, Default)]
pub struct ParameterState {
    numbers: BTreeMap<String, f64>,
    tensors: BTreeMap<String, Tensor>,
}

impl ParameterState {
    /// Its numbers by name.
    pub fn numbers(&self) -> impl Iterator<Item = (&str, f64)> {
        self.numbers.iter().map(|(name, &number)| (name.as_str(), number))
    }

    /// Its tensors by name. Those of complex parameters have pairs of real numbers in a last dimension.
    pub fn tensors(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.tensors.iter().map(|(name, tensor)| (name.as_str(), tensor))
    }

    /// The tensor of a name.
    pub fn tensor(&self, name: &str) -> Option<&Tensor> {
        self.tensors.get(name)
    }

    /// The number of a name, or what it is before it is set.
    pub fn number(&self, name: &str, first: f64) -> f64 {
        self.numbers.get(name).copied().unwrap_or(first)
    }

    /// Sets a number.
    pub fn set_number(&mut self, name: &str, number: f64) {
        match self.numbers.get_mut(name) {
            Some(place) => *place = number,
            None => _ = self.numbers.insert(name.to_owned(), number),
        }
    }

    /// Sets a tensor.
    pub fn set_tensor(&mut self, name: &str, tensor: Tensor) {
        self.tensors.insert(name.to_owned(), tensor);
    }

    /// Whether there is nothing to remember.
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty() && self.tensors.is_empty()
    }
}

/// All that an optimizer remembers, and its groups' options: what a checkpoint keeps of it.
#[derive(Clone, Default)]
pub struct OptimizerState {
    /// By the parameter's name. A parameter that never had a gradient has no entry.
    pub parameters: BTreeMap<String, ParameterState>,
    /// The options of each group by name, and the names of its parameters.
    pub groups: Vec<(BTreeMap<String, f64>, Vec<String>)>,
}

/// An optimizer whose state a checkpoint keeps.
pub trait Stateful {
    /// All that it remembers.
    ///
    /// # Errors
    /// If memory does not suffice.
    fn state_dict(&self) -> Result<OptimizerState>;

    /// Takes over what another one remembered, by the names of parameters.
    ///
    /// # Errors
    /// One that lists all that does not fit; nothing is changed then.
    fn load_state_dict(&mut self, state: &OptimizerState) -> Result<()>;
}

impl<R: Rule> Stateful for Optimizer<R> {
    fn state_dict(&self) -> Result<OptimizerState> {
        Ok(Optimizer::state_dict(self))
    }

    fn load_state_dict(&mut self, state: &OptimizerState) -> Result<()> {
        Optimizer::load_state_dict(self, state)
    }
}
