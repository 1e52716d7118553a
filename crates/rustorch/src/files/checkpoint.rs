//! Checkpoints: all of a training in one file.

use super::{Error, Result, SafetensorsOptions, SharedTensors, save_safetensors_with};
use crate::{DType, Generator, Tensor};
use rustorch_core::PhiloxKey;
use rustorch_formats::safetensors::File;
use rustorch_nn::amp::{GradScaler, GradScalerState};
use rustorch_nn::optim::schedule::{Schedule, Scheduler, SchedulerState};
use rustorch_nn::optim::{OptimizerState, Stateful};
use rustorch_nn::{Module, StateDict};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The key of the metadata under which the checksums are: a line `name=crc32` for each tensor and text.
const CHECKSUMS: &str = "rustorch.crc32";

/// Models, optimizers, schedules, scalers, averages, generators and numbers in one safetensors file, from which a training goes on as if it had not stopped.
///
/// Models and optimizers are under names of your choice; their tensors are under those and the parameters' (`model.layers.0.weight`), so that
/// other programs can read them. Numbers are tensors of `F64`. Every tensor has a checksum. The file is written under a temporary name,
/// synchronized, and renamed: where that fails, an older one is as it was. What is added shares memory with the model until then.
///
/// ```
/// use rustorch::files::Checkpoint;
/// use rustorch::amp::{GradScaler, GradScalerOptions};
/// use rustorch::nn::{Linear, Module};
/// use rustorch::optim::{AdamW, AdamWOptions, Ema};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("checkpoint.safetensors");
/// let model = Linear::new(2, 1)?;
/// let optimizer = AdamW::new(&model, AdamWOptions::default())?;
/// let mut checkpoint = Checkpoint::new();
/// checkpoint.module("model", &model)?.optimizer("optimizer", &optimizer)?.number("step", 20.0)?;
/// let scaler = GradScaler::new(GradScalerOptions { init_scale: 1024.0, ..Default::default() })?;
/// checkpoint.scaler("scaler", &scaler)?.module("averages", &Ema::new(&model, 0.999)?)?;
/// checkpoint.save(&path)?;
///
/// // In another process:
/// let model = Linear::new(2, 1)?;
/// let mut optimizer = AdamW::new(&model, AdamWOptions::default())?;
/// let checkpoint = Checkpoint::load(&path)?;
/// checkpoint.load_module("model", &model)?;
/// checkpoint.load_optimizer("optimizer", &mut optimizer)?;
/// assert_eq!(checkpoint.load_number("step")?, 20.0);
/// let mut scaler = GradScaler::new(GradScalerOptions::default())?;
/// checkpoint.load_scaler("scaler", &mut scaler)?;
/// assert_eq!(scaler.get_scale(), 1024.0);
/// let averages = Ema::new(&model, 0.999)?;
/// checkpoint.load_module("averages", &averages)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Default)]
pub struct Checkpoint {
    tensors: BTreeMap<String, Tensor>,
    texts: BTreeMap<String, String>,
}

impl Checkpoint {
    /// One that has nothing yet.
    pub fn new() -> Checkpoint {
        Checkpoint::default()
    }

    /// Adds a module's parameters and persistent buffers.
    ///
    /// # Errors
    /// If the name is taken.
    pub fn module(&mut self, name: &str, module: &(impl Module + ?Sized)) -> Result<&mut Checkpoint> {
        module
            .state_dict()
            .into_iter()
            .try_for_each(|(path, tensor)| self.add(format!("{name}.{path}"), tensor))?;
        Ok(self)
    }

    /// Adds an optimizer's states and options.
    ///
    /// # Errors
    /// If the name is taken.
    pub fn optimizer(&mut self, name: &str, optimizer: &impl Stateful) -> Result<&mut Checkpoint> {
        let OptimizerState { parameters, groups } = optimizer.state_dict()?;
        for (parameter, state) in parameters {
            for (key, tensor) in state.tensors() {
                self.add(format!("{name}.state.{key}.{parameter}"), tensor.clone())?;
            }
            for (key, number) in state.numbers() {
                self.number(&format!("{name}.number.{key}.{parameter}"), number)?;
            }
        }
        for (i, (options, names)) in groups.into_iter().enumerate() {
            for (option, number) in options {
                self.number(&format!("{name}.group.{i}.{option}"), number)?;
            }
            if let Some(wrong) = names.iter().find(|name| name.contains('\n')) {
                let message = format!("the parameter's name {wrong:?} has a line break");
                return Err(crate::Error::argument("Checkpoint", message).into());
            }
            self.texts.insert(format!("{name}.group.{i}"), names.join("\n"));
        }
        Ok(self)
    }

    /// Adds how far a schedule is. The rates are in the optimizer's options.
    ///
    /// # Errors
    /// If the name is taken.
    pub fn scheduler<S: Schedule>(
        &mut self,
        name: &str,
        scheduler: &Scheduler<S>,
    ) -> Result<&mut Checkpoint> {
        let SchedulerState { step, base } = scheduler.state_dict();
        self.add(format!("{name}.step"), Tensor::new([step as i64])?)?;
        let base = Tensor::from_slice(&base, [base.len()])?;
        self.add(format!("{name}.base"), base)?;
        Ok(self)
    }

    /// Adds a gradient scaler's scale. Averages are modules: [`module`](Self::module) adds them.
    ///
    /// # Errors
    /// If the name is taken.
    pub fn scaler(&mut self, name: &str, scaler: &GradScaler) -> Result<&mut Checkpoint> {
        let GradScalerState { scale, growth_factor, backoff_factor, growth_interval, growth_tracker } =
            scaler.state_dict();
        let numbers = [scale, growth_factor, backoff_factor, growth_interval as f64, growth_tracker as f64];
        self.add(name.to_owned(), Tensor::new(numbers)?)?;
        Ok(self)
    }

    /// Adds where in its stream a generator is; that of the process is [`default_generator`](crate::default_generator).
    ///
    /// # Errors
    /// If the name is taken.
    pub fn generator(&mut self, name: &str, generator: &Generator) -> Result<&mut Checkpoint> {
        let PhiloxKey { seed, offset } = generator.state();
        self.add(name.to_owned(), Tensor::new([seed as i64, offset as i64])?)?;
        Ok(self)
    }

    /// Adds a number, such as that of the epoch.
    ///
    /// # Errors
    /// If the name is taken.
    pub fn number(&mut self, name: &str, number: f64) -> Result<&mut Checkpoint> {
        self.add(name.to_owned(), Tensor::new([number])?)?;
        Ok(self)
    }

    fn add(&mut self, name: String, tensor: Tensor) -> Result<()> {
        if self.tensors.contains_key(&name) {
            return Err(crate::Error::argument("Checkpoint", format!("there is a `{name}` already")).into());
        }
        self.tensors.insert(name, tensor.detach());
        Ok(())
    }

    /// Writes the file.
    ///
    /// # Errors
    /// As [`save_safetensors`](super::save_safetensors); a file that was there is as it was then.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let mut checksums = String::new();
        for (name, tensor) in &self.tensors {
            checksums += &format!("{name}={:08x}\n", crc32fast::hash(&tensor.to_bytes()?));
        }
        for (name, text) in &self.texts {
            checksums += &format!("{name}={:08x}\n", crc32fast::hash(text.as_bytes()));
        }
        let mut metadata = self.texts.clone();
        metadata.insert(CHECKSUMS.to_owned(), checksums);
        let options = SafetensorsOptions { metadata, shared: SharedTensors::Alias, max_shard_bytes: None };
        save_safetensors_with(path, &self.tensors, &options).map(drop)
    }

    /// Reads a file, and checks every tensor of it.
    ///
    /// # Errors
    /// If it is no checkpoint, is truncated, or a tensor's bytes are not those that were saved: one that names it.
    pub fn load(path: impl AsRef<Path>) -> Result<Checkpoint> {
        let path = path.as_ref();
        let refuse = |what: String| Error::Checkpoint { path: path.to_owned(), what };
        let file = File::open(path)?;
        let mut texts = file.metadata().clone();
        let checksums = texts
            .remove(CHECKSUMS)
            .ok_or_else(|| refuse("it has no checksums: it is no checkpoint of RusTorch's".to_owned()))?;
        let mut tensors = super::load_safetensors(path)?;
        for line in checksums.lines() {
            let (name, sum) =
                line.rsplit_once('=').ok_or_else(|| refuse("its checksums are damaged".to_owned()))?;
            let found = match (tensors.get(name), texts.get(name)) {
                (Some(tensor), _) => crc32fast::hash(&tensor.to_bytes()?),
                (None, Some(text)) => crc32fast::hash(text.as_bytes()),
                (None, None) => return Err(refuse(format!("`{name}` is not in it"))),
            };
            if format!("{found:08x}") != sum {
                return Err(refuse(format!("`{name}` is damaged: its checksum is not {sum}")));
            }
        }
        let listed: BTreeSet<&str> =
            checksums.lines().filter_map(|line| Some(line.rsplit_once('=')?.0)).collect();
        // Names that the format adds for tensors that share memory are no tensors of the checkpoint, nor are its other texts.
        tensors.retain(|name, _| listed.contains(name.as_str()));
        texts.retain(|name, _| listed.contains(name.as_str()));
        Ok(Checkpoint { tensors, texts })
    }

    /// The tensors whose names begin with a name and a dot, without these.
    fn under<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (&'a str, &'a Tensor)> {
        self.tensors
            .iter()
            .filter_map(move |(path, tensor)| Some((path.strip_prefix(name)?.strip_prefix('.')?, tensor)))
    }

    fn tensor(&self, name: &str) -> Result<&Tensor> {
        let missing = || crate::Error::argument("Checkpoint", format!("it has no `{name}`"));
        Ok(self.tensors.get(name).ok_or_else(missing)?)
    }

    /// Loads a module's tensors, as [`Module::load_state_dict`].
    ///
    /// # Errors
    /// As there.
    pub fn load_module(&self, name: &str, module: &(impl Module + ?Sized)) -> Result<()> {
        let state: StateDict =
            self.under(name).map(|(path, tensor)| (path.to_owned(), tensor.clone())).collect();
        Ok(state.load(module, true)?)
    }

    /// Loads an optimizer's states and options, as [`Stateful::load_state_dict`].
    ///
    /// # Errors
    /// As there, or if there is none under this name.
    pub fn load_optimizer(&self, name: &str, optimizer: &mut impl Stateful) -> Result<()> {
        let mut state = OptimizerState::default();
        for (path, tensor) in self.under(name) {
            match path.split_once('.') {
                Some(("state", rest)) => {
                    let Some((key, parameter)) = rest.split_once('.') else { continue };
                    state.parameters.entry(parameter.to_owned()).or_default().set_tensor(key, tensor.clone());
                }
                Some(("number", rest)) => {
                    let Some((key, parameter)) = rest.split_once('.') else { continue };
                    state
                        .parameters
                        .entry(parameter.to_owned())
                        .or_default()
                        .set_number(key, number(tensor)?);
                }
                _ => {}
            }
        }
        while let Some(names) = self.texts.get(&format!("{name}.group.{}", state.groups.len())) {
            let prefix = format!("{name}.group.{}", state.groups.len());
            let options = self.under(&prefix).map(|(option, x)| Ok((option.to_owned(), number(x)?)));
            let names = names.lines().map(str::to_owned).collect();
            state.groups.push((options.collect::<Result<_>>()?, names));
        }
        if state.groups.is_empty() {
            return Err(crate::Error::argument("Checkpoint", format!("it has no optimizer `{name}`")).into());
        }
        Ok(optimizer.load_state_dict(&state)?)
    }

    /// Loads how far a schedule was.
    ///
    /// # Errors
    /// If there is none under this name, or it had another number of groups.
    pub fn load_scheduler<S: Schedule>(&self, name: &str, scheduler: &mut Scheduler<S>) -> Result<()> {
        let step = integers(self.tensor(&format!("{name}.step"))?, 1)?[0] as u64;
        let base = self.tensor(&format!("{name}.base"))?.to_dtype(DType::F64)?.to_vec::<f64>()?;
        Ok(scheduler.load_state_dict(&SchedulerState { step, base })?)
    }

    /// Loads a gradient scaler's scale.
    ///
    /// # Errors
    /// If there is none under this name, or its numbers are out of their ranges.
    pub fn load_scaler(&self, name: &str, scaler: &mut GradScaler) -> Result<()> {
        let numbers = self.tensor(name)?.to_dtype(DType::F64)?.to_vec::<f64>()?;
        let [scale, growth_factor, backoff_factor, growth_interval, growth_tracker] = *numbers.as_slice()
        else {
            let message = format!("`{name}` has {} numbers, a scaler has 5", numbers.len());
            return Err(crate::Error::argument("Checkpoint", message).into());
        };
        let (growth_interval, growth_tracker) = (growth_interval as u64, growth_tracker as u64);
        let state = GradScalerState { scale, growth_factor, backoff_factor, growth_interval, growth_tracker };
        Ok(scaler.load_state_dict(&state)?)
    }

    /// Sets a generator to where it was in its stream.
    ///
    /// # Errors
    /// If there is none under this name.
    pub fn load_generator(&self, name: &str, generator: &Generator) -> Result<()> {
        let state = integers(self.tensor(name)?, 2)?;
        generator.set_state(PhiloxKey { seed: state[0] as u64, offset: state[1] as u64 });
        Ok(())
    }

    /// A number.
    ///
    /// # Errors
    /// If there is none under this name.
    pub fn load_number(&self, name: &str) -> Result<f64> {
        number(self.tensor(name)?)
    }
}

fn number(x: &Tensor) -> Result<f64> {
    match *x.to_dtype(DType::F64)?.to_vec::<f64>()?.as_slice() {
        [number] => Ok(number),
        _ => Err(crate::Error::shape("Checkpoint", "a number is one element", [x.shape()]).into()),
    }
}

fn integers(x: &Tensor, count: usize) -> Result<Vec<i64>> {
    if x.dtype() != DType::I64 || x.numel() != count {
        let message = format!("{count} elements of i64 are expected");
        return Err(crate::Error::shape("Checkpoint", message, [x.shape()]).into());
    }
    Ok(x.to_vec::<i64>()?)
}
