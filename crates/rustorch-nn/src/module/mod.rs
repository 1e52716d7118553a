//! What has parameters: the trait, and the walk over members by their paths.

mod observe;
mod part;
mod repr;
mod state_dict;
mod summary;
mod walk;

pub use observe::Outputs;
pub(crate) use observe::observe;
pub(crate) use part::Mode;
pub use part::{Part, Training};
pub(crate) use repr::display;
pub use repr::{ExtraRepr, Repr};
pub use state_dict::StateDict;
pub use summary::{Summary, SummaryRow};

use crate::{Buffer, Parameter};
use rustorch_tensor::{DType, IntoDevice, Result, Tensor};

/// A part of a module.
#[derive(Clone, Copy)]
pub enum Member<'a> {
    /// What it learns.
    Parameter(&'a Parameter),
    /// A tensor that it does not learn.
    Buffer(&'a Buffer),
    /// Whether it trains.
    Training(&'a Training),
    /// Another module.
    Module(&'a dyn Module),
}

/// A thing with parameters, as `torch.nn.Module`: a layer, a model.
///
/// `#[derive(Module)]` implements it. Names of parameters are PyTorch's: those of fields, joined by dots, with positions in lists.
///
/// ```
/// use rustorch_nn::{Layer, Linear, Module};
/// use rustorch_tensor::{DType, Result, Tensor};
///
/// #[derive(Module)]
/// struct Net {
///     hidden: Linear,
///     out: Linear,
/// }
///
/// impl Layer for Net {
///     fn forward(&self, x: &Tensor) -> Result<Tensor> {
///         self.out.forward(&self.hidden.forward(x)?.relu()?)
///     }
/// }
///
/// let net = Net { hidden: Linear::new(2, 8)?, out: Linear::new(8, 1)? };
/// let names: Vec<String> = net.named_parameters().into_iter().map(|(name, _)| name).collect();
/// assert_eq!(names, ["hidden.weight", "hidden.bias", "out.weight", "out.bias"]);
/// assert_eq!(net.num_parameters(), 33);
/// assert_eq!(
///     net.to_string(),
///     "Net(
///   (hidden): Linear(in_features=2, out_features=8, bias=True)
///   (out): Linear(in_features=8, out_features=1, bias=True)
/// )"
/// );
/// assert_eq!(net.forward(&Tensor::zeros([5, 2], DType::F32)?)?.dims(), [5, 1]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
pub trait Module {
    /// The name of its type, without path and generics.
    fn type_name(&self) -> &'static str;

    /// Calls a function with each direct member and its name, in the order of fields.
    fn visit_members<'a>(&'a self, visit: &mut dyn FnMut(&str, Member<'a>));

    /// What [`Display`](std::fmt::Display), which prints modules as PyTorch does, says of this one beside its children. `#[module(repr)]`
    /// before a field of a derived module says `field=value`, `#[module(repr = value)]` the value alone, and `#[module(extra_repr =
    /// function)]` before the type calls a function of the module and of this argument.
    ///
    /// ```
    /// use rustorch_nn::Module;
    /// #[derive(Module)]
    /// struct Scale {
    ///     #[module(repr)]
    ///     factor: f64,
    /// }
    /// assert_eq!(Scale { factor: 0.5 }.to_string(), "Scale(factor=0.5)");
    /// ```
    fn extra_repr(&self, _extra: &mut ExtraRepr) {}

    /// What tells it apart while it stays where it is, with its type; modules without a size share it with others.
    #[doc(hidden)]
    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Its parameters and those of all modules in it, by path. One that is reached by several paths has the first.
    fn named_parameters(&self) -> Vec<(String, Parameter)> {
        let mut seen = Vec::new();
        let mut all = Vec::new();
        walk::members(self, &mut |path, member| {
            if let Member::Parameter(parameter) = member
                && !seen.contains(&parameter.identity())
            {
                seen.push(parameter.identity());
                all.push((path.to_owned(), parameter.clone()));
            }
        });
        all
    }

    /// As [`named_parameters`](Self::named_parameters), of buffers.
    fn named_buffers(&self) -> Vec<(String, Buffer)> {
        let mut seen = Vec::new();
        let mut all = Vec::new();
        walk::members(self, &mut |path, member| {
            if let Member::Buffer(buffer) = member
                && !seen.contains(&buffer.identity())
            {
                seen.push(buffer.identity());
                all.push((path.to_owned(), buffer.clone()));
            }
        });
        all
    }

    /// The modules that it holds itself, by name.
    fn named_children(&self) -> Vec<(String, &dyn Module)> {
        let mut children = Vec::new();
        self.visit_members(&mut |name, member| {
            if let Member::Module(module) = member {
                children.push((name.to_owned(), module));
            }
        });
        children
    }

    /// Itself, with an empty path, and all modules in it by path, each before those in it.
    fn named_modules(&self) -> Vec<(String, &dyn Module)>
    where
        Self: Sized,
    {
        let mut modules = Vec::new();
        walk::modules(String::new(), self, &mut modules);
        modules
    }

    /// Calls a function with all modules in it, by path, then with itself: each after those in it. To start layers otherwise than they do:
    ///
    /// ```
    /// use rustorch_nn::{Linear, Module, Sequential};
    /// use rustorch_tensor::autograd::no_grad;
    /// let model = Sequential::new().push(Linear::new(2, 8)?).push(Linear::new(8, 1)?);
    /// model.apply(&mut |_, module| {
    ///     for (name, parameter) in module.named_parameters() {
    ///         if module.type_name() == "Linear" && name == "bias" {
    ///             no_grad(|| parameter.tensor().fill_(0.0))?;
    ///         }
    ///     }
    ///     Ok(())
    /// })?;
    /// assert_eq!(model.parameters()[1].tensor().to_vec::<f32>()?, [0.0; 8]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// The first one of the function, which is not called again.
    fn apply(&self, f: &mut dyn FnMut(&str, &dyn Module) -> Result<()>) -> Result<()>
    where
        Self: Sized,
    {
        walk::apply("", self, f)
    }

    /// Tells the parameters of which a function of the path says yes whether they require a gradient; those that do not forget the one
    /// they have and are frozen: optimizers leave them as they are. How many parameters were told.
    ///
    /// ```
    /// use rustorch_nn::{Linear, Module, Sequential};
    /// let model = Sequential::new().push(Linear::new(2, 8)?).push(Linear::new(8, 1)?);
    /// assert_eq!(model.requires_grad_(false, &|path| path.starts_with("0."))?, 2);
    /// assert!(!model.parameters()[0].tensor().requires_grad() && model.parameters()[2].tensor().requires_grad());
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::requires_grad_`].
    fn requires_grad_(&self, requires_grad: bool, which: &dyn Fn(&str) -> bool) -> Result<usize> {
        let all = self.named_parameters().into_iter();
        let chosen: Vec<Parameter> =
            all.filter(|(path, _)| which(path)).map(|(_, parameter)| parameter).collect();
        for parameter in &chosen {
            let tensor = parameter.tensor();
            tensor.requires_grad_(requires_grad)?;
            if !requires_grad {
                tensor.zero_grad();
            }
        }
        Ok(chosen.len())
    }

    /// The parameters without their names.
    fn parameters(&self) -> Vec<Parameter> {
        self.named_parameters().into_iter().map(|(_, parameter)| parameter).collect()
    }

    /// How many numbers it learns, shared ones counted once.
    fn num_parameters(&self) -> usize {
        self.parameters().iter().map(|parameter| parameter.tensor().numel()).sum()
    }

    /// Forgets the gradients of all parameters.
    fn zero_grad(&self) {
        self.parameters().iter().for_each(Parameter::zero_grad);
    }

    /// The names of parameters that require a gradient and have none: those that the last backward pass did not reach.
    fn params_without_grad(&self) -> Vec<String> {
        let without = |parameter: &Parameter| {
            let tensor = parameter.tensor();
            tensor.requires_grad() && tensor.grad().is_none()
        };
        let all = self.named_parameters().into_iter();
        all.filter(|(_, parameter)| without(parameter)).map(|(name, _)| name).collect()
    }

    /// Tells it and all modules in it that they train: dropout drops, batch normalization takes the statistics of the batch.
    fn train(&self) {
        walk::set_training(self, true);
    }

    /// Tells it and all modules in it that they do not train.
    fn eval(&self) {
        walk::set_training(self, false);
    }

    /// Moves parameters, their gradients and buffers to a device. They stay the parameters that optimizers hold.
    ///
    /// # Errors
    /// If there is no such device, or its memory does not suffice; what was moved before stays there.
    fn to_device(&self, device: impl IntoDevice) -> Result<()>
    where
        Self: Sized,
    {
        let device = device.into_device()?;
        walk::convert(self, &|x| x.to_device(device))
    }

    /// Converts parameters of floats, their gradients and buffers of floats to a dtype. They stay the parameters that optimizers hold.
    ///
    /// # Errors
    /// If the dtype is none of floats.
    fn to_dtype(&self, dtype: DType) -> Result<()>
    where
        Self: Sized,
    {
        walk::to_dtype(self, dtype)
    }

    /// Parameters and persistent buffers by PyTorch's names; see [`StateDict`].
    fn state_dict(&self) -> StateDict {
        StateDict::of(self)
    }

    /// Copies the tensors of a state dict into the parameters and buffers of their names, which have to be the same.
    ///
    /// # Errors
    /// One that lists all missing, unexpected and wrongly shaped entries; nothing is changed then.
    fn load_state_dict(&self, state: &StateDict) -> Result<()> {
        state.load(self, true)
    }
}

/// A module with a tensor as its argument and a tensor as its result.
pub trait Layer: Module {
    /// The result.
    ///
    /// # Errors
    /// If the argument does not fit, as the layer says.
    fn forward(&self, x: &Tensor) -> Result<Tensor>;

    /// Calls [`forward`](Self::forward) once and says what its layers did; see [`Summary`], also for modules of several arguments.
    ///
    /// # Errors
    /// Those of `forward`.
    fn summary(&self, x: &Tensor) -> Result<Summary>
    where
        Self: Sized,
    {
        Summary::of(self, || self.forward(x))
    }
}

impl<M: Module + ?Sized> Module for Box<M> {
    fn type_name(&self) -> &'static str {
        (**self).type_name()
    }

    fn extra_repr(&self, extra: &mut ExtraRepr) {
        (**self).extra_repr(extra);
    }

    fn address(&self) -> usize {
        (**self).address()
    }

    fn visit_members<'a>(&'a self, visit: &mut dyn FnMut(&str, Member<'a>)) {
        (**self).visit_members(visit);
    }
}

impl<L: Layer + ?Sized> Layer for Box<L> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        (**self).forward(x)
    }
}
