//! Exponential averages of parameters, without a second model.

use super::average::{approach, copy, expect_decay};
use super::rule::compute_dtype;
use crate::{Buffer, Member, Module, Parameter};
use rustorch_tensor::autograd::no_grad;
use rustorch_tensor::{Error, Result, Tensor};

/// Exponential averages of a model's parameters: each [`update`](Self::update) makes them `decay · average + (1 − decay) · parameter`. They
/// start as the parameters are when it is made. Those of 16-bit parameters are `F32`: steps of an average are small.
///
/// It is a module whose state dict has the averages under the names of the parameters, so that checkpoints keep it. Where a model of averages
/// is wanted, such as one on another device, there is [`AveragedModel`](super::AveragedModel).
///
/// ```
/// use rustorch_nn::optim::Ema;
/// use rustorch_nn::Linear;
/// use rustorch_tensor::autograd::no_grad;
/// let model = Linear::new(1, 1)?;
/// no_grad(|| model.weight.tensor().fill_(1.0))?;
/// let ema = Ema::new(&model, 0.75)?;
/// no_grad(|| model.weight.tensor().fill_(5.0))?;
/// ema.update(&model)?;
/// let weight = || model.weight.tensor().to_vec::<f32>();
/// assert_eq!(ema.with_averages(&model, weight)?, [2.0]);
/// assert_eq!(weight()?, [5.0]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
pub struct Ema {
    decay: f64,
    averages: Vec<(String, Buffer)>,
}

impl Module for Ema {
    fn type_name(&self) -> &'static str {
        "Ema"
    }

    fn visit_members<'a>(&'a self, visit: &mut dyn FnMut(&str, Member<'a>)) {
        self.averages.iter().for_each(|(name, buffer)| visit(name, Member::Buffer(buffer)));
    }
}

impl Ema {
    /// Averages that start at the model's parameters.
    ///
    /// # Errors
    /// If the decay is not from 0 to 1, or memory does not suffice.
    pub fn new(model: &(impl Module + ?Sized), decay: f64) -> Result<Ema> {
        expect_decay("Ema", decay)?;
        let average = |(name, parameter): (String, Parameter)| {
            let x = parameter.tensor().detach();
            Ok((name, Buffer::new(&x.to_dtype(compute_dtype(x.dtype()))?.copy()?)))
        };
        let averages = model.named_parameters().into_iter().map(average).collect::<Result<_>>()?;
        Ok(Ema { decay, averages })
    }

    /// Moves the averages towards the model's parameters.
    ///
    /// # Errors
    /// If the model has others, or ones of other shapes; nothing is changed then.
    pub fn update(&self, model: &(impl Module + ?Sized)) -> Result<()> {
        let pairs = self.pairs(model)?;
        no_grad(|| {
            pairs.iter().try_for_each(|(average, x)| {
                let x = x.to_device(average.device())?.to_dtype(average.dtype())?;
                approach(average, &x, 1.0 - self.decay)
            })
        })
    }

    /// Copies the averages into the model's parameters.
    ///
    /// # Errors
    /// As [`update`](Self::update).
    pub fn copy_to(&self, model: &(impl Module + ?Sized)) -> Result<()> {
        let pairs = self.pairs(model)?;
        no_grad(|| pairs.iter().try_for_each(|(average, x)| copy(x, average)))
    }

    /// Runs a closure in which the model's parameters are the averages: to validate. After it, also where it errs, they are as before.
    ///
    /// # Errors
    /// The closure's, and as [`update`](Self::update).
    pub fn with_averages<T>(
        &self,
        model: &(impl Module + ?Sized),
        f: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let pairs = self.pairs(model)?;
        let before: Vec<Tensor> = pairs.iter().map(|(_, x)| x.copy()).collect::<Result<_>>()?;
        let result = self.copy_to(model).and_then(|()| f());
        no_grad(|| pairs.iter().zip(&before).try_for_each(|((_, x), before)| x.copy_(before)))?;
        result
    }

    /// Each average and the parameter of its name.
    fn pairs(&self, model: &(impl Module + ?Sized)) -> Result<Vec<(Tensor, Tensor)>> {
        let parameters = model.named_parameters();
        let names = |name: &String, x: &Tensor| format!("`{name}` {}", x.shape());
        let have: Vec<String> = parameters.iter().map(|(name, x)| names(name, &x.tensor())).collect();
        let own: Vec<String> = self.averages.iter().map(|(name, x)| names(name, &x.tensor())).collect();
        if have != own {
            let message = format!("the model has {}, the averages are {}", have.join(", "), own.join(", "));
            return Err(Error::argument("Ema", message));
        }
        let pair = |((_, average), (_, x)): (&(String, Buffer), (String, Parameter))| {
            (average.tensor(), x.tensor().detach())
        };
        Ok(self.averages.iter().zip(parameters).map(pair).collect())
    }
}
