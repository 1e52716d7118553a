//! Groups of named parameters, and the step over them.

use super::rule::{MASTER, compute_dtype};
use super::state::{OptimizerState, ParameterState};
use super::{Rule, Step};
use crate::{Module, Parameter};
use rustorch_tensor::autograd::no_grad;
use rustorch_tensor::{Error, Result, Tensor, expect_eager};
use std::collections::BTreeMap;

/// Parameters that an optimizer takes: a module's, or a list.
pub trait NamedParameters {
    /// Each with its name.
    fn into_named_parameters(self) -> Vec<(String, Parameter)>;
}

impl<M: Module + ?Sized> NamedParameters for &M {
    fn into_named_parameters(self) -> Vec<(String, Parameter)> {
        self.named_parameters()
    }
}

impl NamedParameters for Vec<(String, Parameter)> {
    fn into_named_parameters(self) -> Vec<(String, Parameter)> {
        self
    }
}

/// Parameters that share options.
pub struct Group<R> {
    /// Their options, which may change between steps.
    pub options: R,
    slots: Vec<Slot>,
}

/// A parameter and what is remembered of it.
struct Slot {
    name: String,
    parameter: Parameter,
    state: ParameterState,
}

impl<R> Group<R> {
    /// The names of its parameters.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.slots.iter().map(|slot| slot.name.as_str())
    }
}

/// An optimizer: named parameters in groups, changed by a [`Rule`] such as that of [`AdamW`](super::AdamW).
pub struct Optimizer<R: Rule> {
    groups: Vec<Group<R>>,
}

impl<R: Rule> Optimizer<R> {
    /// An optimizer of one group: all parameters of a module, or a list of them with their names.
    ///
    /// # Errors
    /// If there is no parameter, one stands twice, the rule does not change such a one, or an option is out of its range.
    pub fn new(parameters: impl NamedParameters, options: R) -> Result<Optimizer<R>> {
        Optimizer::with_groups(vec![(parameters.into_named_parameters(), options)])
    }

    /// An optimizer that asks for the options of each parameter by its name; those with equal options are a group.
    ///
    /// ```
    /// use rustorch_nn::Linear;
    /// use rustorch_nn::optim::{AdamW, AdamWOptions};
    /// let model = Linear::new(3, 2)?;
    /// let decayed = AdamWOptions { lr: 3e-4, weight_decay: 0.1, ..Default::default() };
    /// let optimizer = AdamW::by_name(&model, |name| match name.ends_with("bias") {
    ///     true => AdamWOptions { weight_decay: 0.0, ..decayed },
    ///     false => decayed,
    /// })?;
    /// assert!(optimizer.groups()[0].names().eq(["weight"]) && optimizer.groups()[1].names().eq(["bias"]));
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn by_name(parameters: impl NamedParameters, options: impl Fn(&str) -> R) -> Result<Optimizer<R>> {
        let mut groups: Vec<(Vec<(String, Parameter)>, R)> = Vec::new();
        for (name, parameter) in parameters.into_named_parameters() {
            let own = options(&name);
            match groups.iter_mut().find(|(_, options)| options.numbers() == own.numbers()) {
                Some((parameters, _)) => parameters.push((name, parameter)),
                None => groups.push((vec![(name, parameter)], own)),
            }
        }
        Optimizer::with_groups(groups)
    }

    /// An optimizer of several groups.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_groups(groups: Vec<(Vec<(String, Parameter)>, R)>) -> Result<Optimizer<R>> {
        let mut optimizer = Optimizer { groups: Vec::new() };
        for (parameters, options) in groups {
            optimizer.add_group(parameters, options)?;
        }
        if optimizer.groups.is_empty() {
            return Err(Error::argument(R::NAME, "there is no group of parameters"));
        }
        Ok(optimizer)
    }

    /// Adds a group of parameters.
    ///
    /// # Errors
    /// As [`new`](Self::new). The optimizer is as before then.
    pub fn add_group(&mut self, parameters: impl NamedParameters, options: R) -> Result<()> {
        let parameters = parameters.into_named_parameters();
        options.check()?;
        if parameters.is_empty() {
            return Err(Error::argument(R::NAME, "a group has no parameters"));
        }
        parameters
            .iter()
            .try_for_each(|(name, parameter)| options.check_parameter(name, &parameter.tensor()))?;
        let own = self.groups.len();
        let mut seen: Vec<(usize, &str, &Parameter)> = Vec::new();
        for (i, group) in self.groups.iter().enumerate() {
            seen.extend(group.slots.iter().map(|slot| (i, slot.name.as_str(), &slot.parameter)));
        }
        for (name, parameter) in &parameters {
            if let Some((group, other, _)) =
                seen.iter().find(|(_, other, same)| *other == name || same.is_same(parameter))
            {
                return Err(Error::argument(
                    R::NAME,
                    format!("the parameter `{name}` of group {own} is `{other}` of group {group}, too"),
                ));
            }
            seen.push((own, name, parameter));
        }
        let slot = |(name, parameter)| Slot { name, parameter, state: ParameterState::default() };
        self.groups.push(Group { options, slots: parameters.into_iter().map(slot).collect() });
        Ok(())
    }

    /// The groups.
    pub fn groups(&self) -> &[Group<R>] {
        &self.groups
    }

    /// The groups, to change their options.
    pub fn groups_mut(&mut self) -> &mut [Group<R>] {
        &mut self.groups
    }

    /// The parameters of all groups.
    pub fn named_parameters(&self) -> Vec<(String, Parameter)> {
        let slots = self.groups.iter().flat_map(|group| &group.slots);
        slots.map(|slot| (slot.name.clone(), slot.parameter.clone())).collect()
    }

    /// What is remembered of a parameter.
    pub fn state(&self, name: &str) -> Option<&ParameterState> {
        let mut slots = self.groups.iter().flat_map(|group| &group.slots);
        slots.find(|slot| slot.name == name).map(|slot| &slot.state)
    }

    /// Forgets the gradients of all parameters.
    pub fn zero_grad(&self) {
        self.groups.iter().flat_map(|group| &group.slots).for_each(|slot| slot.parameter.zero_grad());
    }

    /// Changes every parameter that has a gradient.
    ///
    /// # Errors
    /// If an option is out of its range, or no module has one of the parameters any more: nothing is changed then. And as operations
    /// on tensors: some parameters may be changed then.
    pub fn step(&mut self) -> Result<()> {
        expect_eager("optimizer.step")?;
        for group in &self.groups {
            group.options.check()?;
            if let Some(slot) = group.slots.iter().find(|slot| slot.parameter.handles() == 1) {
                let message = format!(
                    "no module has the parameter `{}` any more: make the optimizer of the model that trains",
                    slot.name
                );
                return Err(Error::argument(R::NAME, message));
            }
        }
        no_grad(|| {
            for Group { options, slots } in &mut self.groups {
                let mut steps: Vec<Step<'_>> =
                    slots.iter_mut().filter_map(Slot::step::<R>).collect::<Result<_>>()?;
                options.update_all(&mut steps)?;
            }
            Ok(())
        })
    }

    /// All that it remembers. Tensors share its memory; copy them to keep what they are now.
    pub fn state_dict(&self) -> OptimizerState {
        let mut state = OptimizerState::default();
        for Group { options, slots } in &self.groups {
            let remembered = slots.iter().filter(|slot| !slot.state.is_empty());
            state.parameters.extend(remembered.map(|slot| (slot.name.clone(), slot.state.clone())));
            let names = slots.iter().map(|slot| slot.name.clone()).collect();
            state.groups.push((options.numbers().into_iter().collect(), names));
        }
        state
    }

    /// Takes over states and options by the names of parameters, in whatever order they were made. Its tensors are copied.
    ///
    /// # Errors
    /// One that lists the names of parameters that only one side has, shapes that differ, and parameters of one group whose options differ;
    /// nothing is changed then.
    pub fn load_state_dict(&mut self, state: &OptimizerState) -> Result<()> {
        let mut wrong = Vec::new();
        let mut options_of: BTreeMap<&str, &BTreeMap<String, f64>> = BTreeMap::new();
        for (options, names) in &state.groups {
            options_of.extend(names.iter().map(|name| (name.as_str(), options)));
        }
        let mut loaded = Vec::new();
        for Group { options, slots } in &self.groups {
            let mut own = options.clone();
            let mut states = Vec::new();
            let mut first: Option<(&str, &BTreeMap<String, f64>)> = None;
            for slot in slots {
                match options_of.remove(slot.name.as_str()) {
                    None => wrong.push(format!("`{}` is missing", slot.name)),
                    Some(numbers) => {
                        let (name, others) = *first.get_or_insert((&slot.name, numbers));
                        let differs =
                            |(option, number): &(&String, &f64)| others.get(*option) != Some(*number);
                        if let Some((option, number)) = numbers.iter().find(differs) {
                            let before = others.get(option).map_or_else(|| "none".to_owned(), f64::to_string);
                            wrong.push(format!(
                                "`{name}` and `{}` are in one group, their option `{option}` is {before} and {number}",
                                slot.name
                            ));
                            continue;
                        }
                        for (name, &number) in numbers {
                            if !own.set_number(name, number) {
                                wrong.push(format!("there is no option `{name}` that can be {number}"));
                            }
                        }
                    }
                }
                let new = state.parameters.get(&slot.name).cloned().unwrap_or_default();
                wrong.extend(slot.misfits::<R>(&new));
                states.push(new);
            }
            loaded.push((own, states));
        }
        wrong.extend(options_of.keys().map(|name| format!("`{name}` is unexpected")));
        if !wrong.is_empty() {
            return Err(Error::argument(R::NAME, format!("this state does not fit: {}", wrong.join("; "))));
        }
        let mut all = Vec::new();
        for (group, (options, states)) in self.groups.iter().zip(loaded) {
            let own = group.slots.iter().zip(states).map(|(slot, state)| slot.own(&state));
            all.push((options, own.collect::<Result<Vec<_>>>()?));
        }
        for (group, (options, states)) in self.groups.iter_mut().zip(all) {
            group.options = options;
            group.slots.iter_mut().zip(states).for_each(|(slot, state)| slot.state = state);
        }
        Ok(())
    }
}

impl Slot {
    /// The tensor of the parameter as rules see it, before 16 bits become 32.
    fn real(x: &Tensor) -> Result<Tensor> {
        if x.dtype().is_complex() { x.detach().view_as_real() } else { Ok(x.detach()) }
    }

    /// The parameter in a step, if it has a gradient.
    fn step<R: Rule>(&mut self) -> Option<Result<Step<'_>>> {
        let tensor = self.parameter.tensor();
        let grad = tensor.grad()?;
        let (parameter, grad) = match (Slot::real(&tensor), Slot::real(&grad)) {
            (Ok(parameter), Ok(grad)) => (parameter, grad),
            (Err(error), _) | (_, Err(error)) => return Some(Err(error)),
        };
        Some(Ok(Step { parameter, grad, state: &mut self.state, state_shape: R::state_shape }))
    }

    /// What of a state is of another shape than the rule gives it.
    fn misfits<R: Rule>(&self, state: &ParameterState) -> Vec<String> {
        let Ok(own) = Slot::real(&self.parameter.tensor()) else { return Vec::new() };
        let tell = |(key, tensor): (&str, &Tensor)| {
            let shape = if key == MASTER { own.dims().to_vec() } else { R::state_shape(key, own.dims()) };
            let fits = tensor.dims() == shape;
            let wrong =
                || format!("`{key}` of `{}` has shape {}, it must be {shape:?}", self.name, tensor.shape());
            (!fits).then(wrong)
        };
        state.tensors().filter_map(tell).collect()
    }

    /// A copy of a state in the dtype and on the device of the parameter.
    fn own(&self, state: &ParameterState) -> Result<ParameterState> {
        let tensor = Slot::real(&self.parameter.tensor())?;
        let mut own = ParameterState::default();
        state.numbers().for_each(|(name, number)| own.set_number(name, number));
        for (name, from) in state.tensors() {
            let to = from.to_dtype(compute_dtype(tensor.dtype()))?.to_device(tensor.device())?;
            own.set_tensor(name, to.copy()?);
        }
        Ok(own)
    }
}
