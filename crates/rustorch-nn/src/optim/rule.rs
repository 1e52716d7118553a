//! What an optimizer does to one parameter.

use super::Options;
use super::fused::CapturedStep;
use super::state::ParameterState;
use rustorch_tensor::{DType, Error, Result, Tensor};

/// The tensor of a state that a parameter of 16 bits is the rounded value of.
pub(super) const MASTER: &str = "master_param";

/// Whether a step is the operation [`OptimizerStep`](rustorch_tensor::foreach::OptimizerStep) alone: what changes from step to step, but for
/// tensors, is the learning rate and a count, which are its operands. Only rules of this crate say so.
#[derive(Clone, Copy, Debug)]
pub struct Capturable(pub(super) bool);

/// How an optimizer changes a parameter by its gradient. To write one of your own, implement it for its options:
/// [`Optimizer`](super::Optimizer) brings groups, names, states and checkpoints.
///
/// ```
/// use rustorch_nn::optim::{Optimizer, Options, Rule, Step};
/// use rustorch_nn::Parameter;
/// use rustorch_tensor::{Result, Tensor};
///
/// /// Steps of one length, up or down.
/// #[derive(Clone, Debug, Default)]
/// struct SignOptions {
///     lr: f64,
/// }
///
/// impl Options for SignOptions {
///     fn numbers(&self) -> Vec<(String, f64)> {
///         vec![("lr".to_owned(), self.lr)]
///     }
///     fn set_number(&mut self, name: &str, number: f64) -> bool {
///         if name == "lr" {
///             self.lr = number;
///         }
///         name == "lr"
///     }
/// }
///
/// impl Rule for SignOptions {
///     const NAME: &'static str = "Sign";
///     fn update(&self, step: &mut Step<'_>) -> Result<()> {
///         step.parameter().sub_(&step.grad().sign()?.mul(self.lr)?)
///     }
/// }
///
/// let weight = Parameter::new(Tensor::new([1.0f32, 2.0])?)?;
/// let optimizer = Optimizer::new(vec![("weight".to_owned(), weight.clone())], SignOptions { lr: 0.5 })?;
/// weight.tensor().square()?.sum_all()?.backward()?;
/// optimizer.step()?;
/// assert_eq!(weight.tensor().to_vec::<f32>()?, [0.5, 1.5]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
pub trait Rule: Options {
    /// The optimizer's name.
    const NAME: &'static str;

    /// Whether its step may be part of a captured function.
    #[doc(hidden)]
    const IS_CAPTURABLE: Capturable = Capturable(false);

    /// Whether the options make sense.
    ///
    /// # Errors
    /// One that names an option that does not, and its range.
    fn check(&self) -> Result<()> {
        Ok(())
    }

    /// Whether the rule changes parameters such as this one.
    ///
    /// # Errors
    /// One that names the parameter and what it would have to be.
    fn check_parameter(&self, _name: &str, _parameter: &Tensor) -> Result<()> {
        Ok(())
    }

    /// The shape of a tensor that the state keeps, given its name and the parameter's shape, which it has unless the rule says otherwise.
    fn state_shape(_name: &str, parameter: &[usize]) -> Vec<usize> {
        parameter.to_vec()
    }

    /// Changes the parameter and its state.
    ///
    /// # Errors
    /// As operations on tensors.
    fn update(&self, step: &mut Step<'_>) -> Result<()>;

    /// Changes all parameters of a group that have a gradient: one after the other, unless the rule has an operation for all of them.
    ///
    /// # Errors
    /// As operations on tensors.
    fn update_all(&self, steps: &mut [Step<'_>]) -> Result<()> {
        steps.iter_mut().try_for_each(|step| step.in_compute_dtype(|step| self.update(step)))
    }
}

/// One parameter in one step of an optimizer, under `no_grad`. [`Rule::update`] sees floats of 32 or 64 bits: parameters of 16 bits are
/// updated as `F32` and rounded after that; complex numbers are pairs in a last dimension.
pub struct Step<'a> {
    pub(super) parameter: Tensor,
    pub(super) grad: Tensor,
    pub(super) state: &'a mut ParameterState,
    /// [`Rule::state_shape`].
    pub(super) state_shape: fn(&str, &[usize]) -> Vec<usize>,
    /// In a captured function.
    pub(super) captured: Option<CapturedStep<'a>>,
}

impl Step<'_> {
    /// The parameter, to be written in place.
    pub fn parameter(&self) -> &Tensor {
        &self.parameter
    }

    /// Its gradient, of the parameter's shape, dtype and device.
    pub fn grad(&self) -> &Tensor {
        &self.grad
    }

    /// What takes the gradient's place.
    pub fn set_grad(&mut self, grad: Tensor) {
        self.grad = grad;
    }

    /// Counts this step: 1 in the parameter's first.
    pub fn count(&mut self) -> f64 {
        let count = self.state.number("step", 0.0) + 1.0;
        self.state.set_number("step", count);
        count
    }

    /// A number that the state keeps; `first` before it is set.
    pub fn number(&self, name: &str, first: f64) -> f64 {
        self.state.number(name, first)
    }

    /// Sets a number that the state keeps.
    pub fn set_number(&mut self, name: &'static str, number: f64) {
        self.state.set_number(name, number);
    }

    /// Whether the state has a tensor of a name.
    pub fn has(&self, name: &str) -> bool {
        self.state.tensor(name).is_some()
    }

    /// A tensor that the state keeps, of the shape that [`Rule::state_shape`] gives it, to be written in place; `first` everywhere before
    /// it is.
    ///
    /// # Errors
    /// If memory does not suffice.
    pub fn tensor(&mut self, name: &'static str, first: f64) -> Result<Tensor> {
        let tensor = self.initial(name, first, self.parameter.dtype())?;
        if !self.has(name) {
            self.state.set_tensor(name, tensor.clone());
        }
        Ok(tensor)
    }

    /// A number as an operand beside the parameter: a tensor of no dimensions, so that an expression is the same in every step.
    ///
    /// # Errors
    /// If memory does not suffice.
    pub fn operand(&self, number: f64) -> Result<Tensor> {
        Tensor::full((), number, (self.parameter.dtype(), self.parameter.device()))
    }

    /// Negates the gradient if the loss is to grow, and adds the decay of weights that is one of the loss's terms.
    pub(super) fn prepare(&mut self, maximize: bool, weight_decay: f64) -> Result<()> {
        if maximize {
            self.grad = self.grad.neg()?;
        }
        if weight_decay != 0.0 {
            self.grad = self.grad.add(&self.parameter.mul(weight_decay)?)?;
        }
        Ok(())
    }

    /// Shrinks the parameter apart from its gradient (Loshchilov, Hutter: *Decoupled Weight Decay Regularization*, 2019).
    pub(super) fn decay(&self, lr: f64, weight_decay: f64) -> Result<()> {
        if weight_decay != 0.0 { self.parameter.mul_(1.0 - lr * weight_decay) } else { Ok(()) }
    }

    /// A tensor that the state keeps, or a new one for it, of a value everywhere.
    pub(super) fn initial(&self, name: &str, first: f64, dtype: DType) -> Result<Tensor> {
        if let Some(tensor) = self.state.tensor(name) {
            return Ok(tensor.clone());
        }
        let shape = (self.state_shape)(name, self.parameter.dims());
        Tensor::full(shape, first, (dtype, self.parameter.device()))
    }

    /// Runs an update on floats of 32 or 64 bits: for parameters of 16 bits on their master copies, which are rounded after that.
    fn in_compute_dtype(&mut self, update: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let dtype = compute_dtype(self.parameter.dtype());
        self.grad = self.grad.to_dtype(dtype)?;
        if dtype == self.parameter.dtype() {
            return update(self);
        }
        // What the parameter was set to since the last step counts, not what was remembered.
        let master = match self.state.tensor(MASTER) {
            Some(master)
                if master.to_dtype(self.parameter.dtype())?.allclose(&self.parameter, 0.0, 0.0, true)? =>
            {
                master.clone()
            }
            _ => self.parameter.to_dtype(dtype)?,
        };
        self.state.set_tensor(MASTER, master.clone());
        let parameter = std::mem::replace(&mut self.parameter, master.clone());
        update(self)?;
        parameter.copy_(&master)
    }
}

pub(super) use crate::expression::expression;

/// An error if an option is outside its range.
pub(super) fn expect(optimizer: &'static str, name: &str, value: f64, fits: bool, range: &str) -> Result<()> {
    match fits {
        true => Ok(()),
        false => {
            Err(Error::argument(optimizer, format!("the option `{name}` is {value}, it must be {range}")))
        }
    }
}

/// An error if an option is negative or NaN.
pub(super) fn expect_not_negative(optimizer: &'static str, options: &[(&str, f64)]) -> Result<()> {
    options.iter().try_for_each(|&(name, value)| expect(optimizer, name, value, value >= 0.0, "0 or more"))
}

/// An error if an option is not at least 0 and less than 1.
pub(super) fn expect_below_one(optimizer: &'static str, options: &[(&str, f64)]) -> Result<()> {
    let fits = |value: f64| (0.0..1.0).contains(&value);
    options
        .iter()
        .try_for_each(|&(name, value)| expect(optimizer, name, value, fits(value), "from 0 to less than 1"))
}

/// An error if a parameter is complex.
pub(super) fn expect_real(optimizer: &'static str, name: &str, parameter: &Tensor) -> Result<()> {
    match parameter.dtype().is_complex() {
        true => {
            let message = format!("the parameter `{name}` is {}, it must be real", parameter.dtype());
            Err(Error::argument(optimizer, message))
        }
        false => Ok(()),
    }
}

/// The dtype in which parameters of a dtype are updated.
pub(super) fn compute_dtype(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::BF16 => DType::F32,
        dtype => dtype,
    }
}
