//! Groups of named parameters, and the step over them.

use super::fused::{CapturedGroup, CapturedStep};
use super::rule::{MASTER, compute_dtype};
use super::state::{OptimizerState, ParameterState};
use super::{Options, Rule, Step};
use crate::{Module, Parameter};
use rustorch_tensor::autograd::no_grad;
use rustorch_tensor::{Error, HostState, Result, Tensor, expect_eager, guard, is_capturing};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

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
    options: HostState<Versioned<R>>,
    slots: Vec<Slot>,
    /// What is remembered of each.
    states: HostState<Vec<ParameterState>>,
}

/// Options, and how often they were changed by others than schedules of learning rates.
struct Versioned<R> {
    options: R,
    version: u64,
}

/// A parameter with its name.
struct Slot {
    name: String,
    parameter: Parameter,
}

impl<R: Options> Group<R> {
    fn new(parameters: Vec<(String, Parameter)>, options: R) -> Group<R> {
        let states = HostState::new(vec![ParameterState::default(); parameters.len()]);
        let slots = parameters.into_iter().map(|(name, parameter)| Slot { name, parameter }).collect();
        Group { options: HostState::new(Versioned { options, version: 0 }), slots, states }
    }

    /// The names of its parameters.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.slots.iter().map(|slot| slot.name.as_str())
    }

    /// Their options.
    pub fn options(&self) -> R {
        self.options.lock().options.clone()
    }

    /// Changes their options between steps.
    ///
    /// ```
    /// use rustorch_nn::Linear;
    /// use rustorch_nn::optim::{SGD, SGDOptions};
    /// let optimizer = SGD::new(&Linear::new(3, 2)?, SGDOptions { lr: 0.5, ..Default::default() })?;
    /// optimizer.groups()[0].set_options(|options| options.lr *= 0.5);
    /// assert_eq!(optimizer.groups()[0].options().lr, 0.25);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    pub fn set_options(&self, change: impl FnOnce(&mut R)) {
        // Not under the lock: the change may ask for options.
        let mut options = self.options();
        change(&mut options);
        let now = &mut *self.options.lock();
        (now.options, now.version) = (options, now.version + 1);
    }

    /// Sets the learning rate, in each run of the function that is being captured, if one is.
    pub(super) fn set_rate(&self, rate: impl Fn() -> f64 + Send + Sync + 'static) -> Result<()> {
        self.options.update_to(rate, |now, rate| _ = now.options.set_number("lr", rate))
    }

    /// Changes every parameter that has a gradient.
    fn step(&self) -> Result<()>
    where
        R: Rule,
    {
        let options = self.options();
        let rate = |dtype, device| self.options.operand((dtype, device), |now| lr(&now.options));
        let captured = is_capturing().then_some(CapturedGroup { states: &self.states, rate: &rate });
        if captured.is_some() {
            self.guard_options(&options);
        }
        let mut states = self.states.lock();
        let slots = self.slots.iter().zip(states.iter_mut()).enumerate();
        let mut steps: Vec<Step<'_>> = slots
            .filter_map(|(i, (slot, state))| {
                slot.step::<R>(state, captured.map(|group| CapturedStep { group, index: i }))
            })
            .collect::<Result<_>>()?;
        options.update_all(&mut steps)
    }

    /// A captured step has the options as they are, but for the learning rate.
    fn guard_options(&self, options: &R)
    where
        R: Rule,
    {
        let others = |options: &R| {
            let mut numbers = options.numbers();
            numbers.retain(|(name, _)| name != "lr");
            numbers
        };
        let seen = others(options);
        let version = AtomicU64::new(self.options.lock().version);
        self.options.guard(
            "an option of an optimizer (other than its learning rate, or out of its range)",
            move |now| {
                let is_same = now.version == version.load(Relaxed) || others(&now.options) == seen;
                if is_same {
                    version.store(now.version, Relaxed);
                }
                // One that is out of its range is the error of the step that is captured then.
                is_same && now.options.check().is_ok()
            },
        );
    }
}

fn lr(options: &impl Options) -> f64 {
    options.number("lr").unwrap_or(f64::NAN)
}

/// An optimizer: named parameters in groups, changed by a [`Rule`] such as that of [`AdamW`](super::AdamW).
pub struct Optimizer<R: Rule> {
    groups: Vec<Group<R>>,
    /// How many they are.
    count: Arc<AtomicUsize>,
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
        let mut optimizer = Optimizer { groups: Vec::new(), count: Arc::default() };
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
        self.groups.push(Group::new(parameters, options));
        self.count.store(self.groups.len(), Relaxed);
        Ok(())
    }

    /// The groups.
    pub fn groups(&self) -> &[Group<R>] {
        &self.groups
    }

    /// The parameters of all groups.
    pub fn named_parameters(&self) -> Vec<(String, Parameter)> {
        let slots = self.groups.iter().flat_map(|group| &group.slots);
        slots.map(|slot| (slot.name.clone(), slot.parameter.clone())).collect()
    }

    /// What is remembered of a parameter. Tensors share its memory.
    pub fn state(&self, name: &str) -> Option<ParameterState> {
        let at = |group: &Group<R>| group.slots.iter().position(|slot| slot.name == name);
        self.groups.iter().find_map(|group| Some(group.states.lock()[at(group)?].clone()))
    }

    /// Forgets the gradients of all parameters.
    pub fn zero_grad(&self) {
        self.groups.iter().flat_map(|group| &group.slots).for_each(|slot| slot.parameter.zero_grad());
    }

    /// Changes every parameter that has a gradient. In a captured function each run steps, by the learning rate that it finds.
    ///
    /// # Errors
    /// If an option is out of its range, or no module has one of the parameters any more: nothing is changed then. And as operations
    /// on tensors: some parameters may be changed then. In a captured function, if the optimizer's step is not one operation (those of SGD, Adam,
    /// AdamW, RMSprop and Adagrad are), or it is the second one.
    pub fn step(&self) -> Result<()> {
        if !R::IS_CAPTURABLE.0 {
            expect_eager("optimizer.step")?;
        }
        if is_capturing() {
            let (seen, count) = (self.groups.len(), Arc::clone(&self.count));
            guard("the number of groups of an optimizer", move || count.load(Relaxed) == seen);
        }
        for group in &self.groups {
            group.options().check()?;
            if let Some(slot) = group.slots.iter().find(|slot| slot.parameter.handles() == 1) {
                let message = format!(
                    "no module has the parameter `{}` any more: make the optimizer of the model that trains",
                    slot.name
                );
                return Err(Error::argument(R::NAME, message));
            }
        }
        no_grad(|| self.groups.iter().try_for_each(Group::step))
    }

    /// All that it remembers. Tensors share its memory; copy them to keep what they are now.
    pub fn state_dict(&self) -> OptimizerState {
        let mut state = OptimizerState::default();
        for group in &self.groups {
            let states = group.states.lock();
            let remembered = group.slots.iter().zip(&*states).filter(|(_, state)| !state.is_empty());
            state.parameters.extend(remembered.map(|(slot, state)| (slot.name.clone(), state.clone())));
            let names = group.names().map(str::to_owned).collect();
            state.groups.push((group.options().numbers().into_iter().collect(), names));
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
        for group in &self.groups {
            let mut own = group.options();
            let mut states = Vec::new();
            let mut first: Option<(&str, &BTreeMap<String, f64>)> = None;
            for slot in &group.slots {
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
        for (group, (options, states)) in self.groups.iter().zip(all) {
            group.set_options(|now| *now = options);
            *group.states.lock() = states;
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
    fn step<'a, R: Rule>(
        &self,
        state: &'a mut ParameterState,
        captured: Option<CapturedStep<'a>>,
    ) -> Option<Result<Step<'a>>> {
        let tensor = self.parameter.tensor();
        let grad = tensor.grad()?;
        let (parameter, grad) = match (Slot::real(&tensor), Slot::real(&grad)) {
            (Ok(parameter), Ok(grad)) => (parameter, grad),
            (Err(error), _) | (_, Err(error)) => return Some(Err(error)),
        };
        Some(Ok(Step { parameter, grad, state, state_shape: R::state_shape, captured }))
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
