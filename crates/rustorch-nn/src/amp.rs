//! Mixed precision, as `torch.amp`: [`autocast`] chooses dtypes, [`GradScaler`] keeps small gradients of 16 bits from becoming zero.

use crate::optim::{Optimizer, Rule, alike, factor_beside};
use rustorch_tensor::autograd::no_grad;
#[doc(no_inline)]
pub use rustorch_tensor::autograd::{Autocast, autocast};
use rustorch_tensor::foreach::unscale_;
use rustorch_tensor::{DType, Error, Result, Tensor, expect_eager};
use std::collections::BTreeMap;

const NAME: &str = "GradScaler";

/// Options of [`GradScaler`], with PyTorch's defaults.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GradScalerOptions {
    /// The first scale: 65536.
    pub init_scale: f64,
    /// What the scale is multiplied with after [`growth_interval`](Self::growth_interval) finite steps: 2.
    pub growth_factor: f64,
    /// What it is multiplied with after a step with a NaN or an infinity: 0.5.
    pub backoff_factor: f64,
    /// After how many finite steps in a row it grows: 2000.
    pub growth_interval: u64,
    /// Whether losses are scaled at all: yes. If not, [`step`](GradScaler::step) is the optimizer's.
    pub enabled: bool,
}

impl Default for GradScalerOptions {
    fn default() -> GradScalerOptions {
        GradScalerOptions {
            init_scale: 65536.0,
            growth_factor: 2.0,
            backoff_factor: 0.5,
            growth_interval: 2000,
            enabled: true,
        }
    }
}

/// What a [`GradScaler`] remembers, with PyTorch's names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GradScalerState {
    /// The scale.
    pub scale: f64,
    /// [`GradScalerOptions::growth_factor`].
    pub growth_factor: f64,
    /// [`GradScalerOptions::backoff_factor`].
    pub backoff_factor: f64,
    /// [`GradScalerOptions::growth_interval`].
    pub growth_interval: u64,
    /// How many steps in a row were finite: PyTorch's `_growth_tracker`.
    pub growth_tracker: u64,
}

/// What was done with an optimizer since the last update.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Unscaled { finite: bool },
    Stepped { finite: bool },
}

/// Scales losses such that gradients of 16 bits do not become zero, as `torch.amp.GradScaler`: divides the gradients by the scale before the
/// step, skips steps whose gradients have a NaN or an infinity, and makes the scale smaller then, larger after many finite steps.
///
/// ```
/// use rustorch_nn::amp::{GradScaler, GradScalerOptions, autocast};
/// use rustorch_nn::optim::{SGD, SGDOptions, clip_grad_norm_};
/// use rustorch_nn::{Layer, Linear};
/// use rustorch_tensor::{DType, Tensor};
/// let model = Linear::new(4, 1)?;
/// let optimizer = SGD::new(&model, SGDOptions { lr: 0.1, ..Default::default() })?;
/// let mut scaler = GradScaler::new(GradScalerOptions::default())?;
/// let x = Tensor::ones([8, 4], DType::F32)?;
/// for _ in 0..3 {
///     optimizer.zero_grad();
///     let loss = autocast(DType::F16, || model.forward(&x)?.square()?.mean_all())??;
///     scaler.scale(&loss)?.backward()?;
///     // Before clipping; `step` does it where nothing is clipped.
///     if scaler.unscale_(&optimizer)? {
///         clip_grad_norm_(&model, 1.0, 2.0)?;
///     }
///     if !scaler.step(&optimizer)? {
///         println!("the scale {} was too large", scaler.get_scale());
///     }
///     scaler.update()?;
/// }
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
pub struct GradScaler {
    options: GradScalerOptions,
    scale: f32,
    growth_tracker: u64,
    /// By what tells an optimizer apart: its first parameter, which is no other's.
    stages: BTreeMap<usize, Stage>,
}

fn check(options: &GradScalerOptions) -> Result<()> {
    let GradScalerOptions { init_scale, growth_factor, backoff_factor, growth_interval, .. } = *options;
    let wrong = |name: &str, value: f64, range: &str| {
        Err(Error::argument(NAME, format!("the option `{name}` is {value}, it must be {range}")))
    };
    if !(init_scale > 0.0 && (init_scale as f32).is_finite()) {
        return wrong("init_scale", init_scale, "more than 0 and finite in f32");
    }
    if growth_factor.is_nan() || growth_factor <= 1.0 {
        return wrong("growth_factor", growth_factor, "more than 1");
    }
    if !(backoff_factor > 0.0 && backoff_factor < 1.0) {
        return wrong("backoff_factor", backoff_factor, "between 0 and 1");
    }
    if growth_interval == 0 {
        return wrong("growth_interval", 0.0, "at least 1");
    }
    Ok(())
}

impl GradScaler {
    /// A scaler with its first scale.
    ///
    /// # Errors
    /// If an option is out of its range.
    pub fn new(options: GradScalerOptions) -> Result<GradScaler> {
        check(&options)?;
        let scale = options.init_scale as f32;
        Ok(GradScaler { options, scale, growth_tracker: 0, stages: BTreeMap::new() })
    }

    /// A loss times the scale.
    ///
    /// # Errors
    /// As operations on tensors.
    pub fn scale(&self, loss: &Tensor) -> Result<Tensor> {
        if !self.options.enabled {
            return Ok(loss.clone());
        }
        expect_eager("GradScaler.scale")?;
        loss.mul(f64::from(self.scale))
    }

    /// Divides an optimizer's gradients by the scale, to clip or inspect them before [`step`](Self::step); whether they are finite. If not,
    /// that step will be skipped.
    ///
    /// # Errors
    /// If that was done since the last [`update`](Self::update), or gradients are `F16`, in which they may have become zero: parameters are to
    /// be `F32`, and [`autocast`] casts them.
    pub fn unscale_<R: Rule>(&mut self, optimizer: &Optimizer<R>) -> Result<bool> {
        if !self.options.enabled {
            return Ok(true);
        }
        let key = identity(optimizer)?;
        match self.stages.get(&key) {
            None => {}
            Some(Stage::Unscaled { .. }) => {
                return Err(Error::argument(NAME, "`unscale_` was called twice since the last `update`"));
            }
            Some(Stage::Stepped { .. }) => {
                return Err(Error::argument(NAME, "`unscale_` was called after `step`: call `update` first"));
            }
        }
        let parameters = optimizer.named_parameters();
        let grads = || parameters.iter().filter_map(|(name, parameter)| Some((name, parameter.grad()?)));
        if let Some((name, grad)) = grads().find(|(_, grad)| grad.dtype() == DType::F16) {
            let message =
                format!("the gradient of `{name}` is {}, it must be f32 to be unscaled", grad.dtype());
            return Err(Error::argument(NAME, message));
        }
        let inverse = (1.0 / f64::from(self.scale)) as f32;
        let mut finite = true;
        no_grad(|| -> Result<()> {
            let grads = grads().map(|(_, grad)| grad);
            for group in alike(grads, |grad| (grad.dtype(), grad.device()))? {
                let inverse = factor_beside(&group[0], f64::from(inverse))?;
                let found_inf = unscale_(&group.iter().collect::<Vec<_>>(), &inverse)?;
                finite &= found_inf.to_vec::<f32>()?[0] == 0.0;
            }
            Ok(())
        })?;
        self.stages.insert(key, Stage::Unscaled { finite });
        Ok(finite)
    }

    /// The optimizer's step with gradients divided by the scale, unless one has a NaN or an infinity; whether it stepped.
    ///
    /// # Errors
    /// If it stepped since the last [`update`](Self::update), and as [`Optimizer::step`] and [`unscale_`](Self::unscale_).
    pub fn step<R: Rule>(&mut self, optimizer: &Optimizer<R>) -> Result<bool> {
        if !self.options.enabled {
            return optimizer.step().map(|()| true);
        }
        let key = identity(optimizer)?;
        if !self.stages.contains_key(&key) {
            self.unscale_(optimizer)?;
        }
        match self.stages.get(&key) {
            Some(&Stage::Unscaled { finite }) => {
                if finite {
                    optimizer.step()?;
                }
                self.stages.insert(key, Stage::Stepped { finite });
                Ok(finite)
            }
            _ => Err(Error::argument(NAME, "`step` was called twice since the last `update`")),
        }
    }

    /// Sets the scale for the next step, by whether all optimizers' gradients were finite in this one.
    ///
    /// # Errors
    /// If no gradients were unscaled since the last update.
    pub fn update(&mut self) -> Result<()> {
        if !self.options.enabled {
            return Ok(());
        }
        let stages = std::mem::take(&mut self.stages);
        if stages.is_empty() {
            return Err(Error::argument(NAME, "`update` without a `step` or `unscale_` since the last one"));
        }
        let is_finite = |stage: &Stage| {
            matches!(stage, Stage::Unscaled { finite: true } | Stage::Stepped { finite: true })
        };
        if !stages.values().all(is_finite) {
            self.scale = (f64::from(self.scale) * self.options.backoff_factor) as f32;
            self.growth_tracker = 0;
            return Ok(());
        }
        self.growth_tracker += 1;
        if self.growth_tracker == self.options.growth_interval {
            let grown = (f64::from(self.scale) * self.options.growth_factor) as f32;
            // One that is infinite would make all gradients so.
            self.scale = if grown.is_finite() { grown } else { self.scale };
            self.growth_tracker = 0;
        }
        Ok(())
    }

    /// The scale: 1 if losses are not scaled.
    pub fn get_scale(&self) -> f64 {
        if self.options.enabled { f64::from(self.scale) } else { 1.0 }
    }

    /// What it remembers.
    pub fn state_dict(&self) -> GradScalerState {
        let GradScalerOptions { growth_factor, backoff_factor, growth_interval, .. } = self.options;
        let scale = f64::from(self.scale);
        let growth_tracker = self.growth_tracker;
        GradScalerState { scale, growth_factor, backoff_factor, growth_interval, growth_tracker }
    }

    /// Goes on where another one was.
    ///
    /// # Errors
    /// If a number is out of its range; nothing is changed then.
    pub fn load_state_dict(&mut self, state: &GradScalerState) -> Result<()> {
        let GradScalerState { scale, growth_factor, backoff_factor, growth_interval, growth_tracker } =
            *state;
        let options = GradScalerOptions { growth_factor, backoff_factor, growth_interval, ..self.options };
        check(&GradScalerOptions { init_scale: scale, ..options })?;
        self.options = options;
        self.scale = scale as f32;
        self.growth_tracker = growth_tracker;
        Ok(())
    }
}

/// What tells an optimizer apart.
fn identity<R: Rule>(optimizer: &Optimizer<R>) -> Result<usize> {
    let parameters = optimizer.named_parameters();
    let first = parameters.first().map(|(_, parameter)| parameter.identity());
    first.ok_or_else(|| Error::argument(NAME, "the optimizer has no parameters"))
}
