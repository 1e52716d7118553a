//! L-BFGS.

mod history;
mod line_search;
mod state;

use super::NamedParameters;
use super::options::{OptionValue, options};
use super::rule::{expect, expect_not_negative};
use crate::Parameter;
use history::{History, dot};
use line_search::{Point, strong_wolfe};
use rustorch_tensor::autograd::{enable_grad, no_grad};
use rustorch_tensor::{DType, Error, Result, Tensor, expect_eager};

const NAME: &str = "LBFGS";

/// How [`LBFGS`] chooses the length of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LineSearch {
    /// The learning rate is the length; the loss may grow.
    #[default]
    None,
    /// A search for a length that satisfies the strong Wolfe conditions.
    StrongWolfe,
}

/// The numbers 0 and 1, in the order above.
impl OptionValue for LineSearch {
    fn numbers(&self) -> Vec<(String, f64)> {
        vec![(String::new(), f64::from(*self as u8))]
    }

    fn set_number(&mut self, rest: &str, number: f64) -> bool {
        let both = [LineSearch::None, LineSearch::StrongWolfe];
        match both.into_iter().find(|search| f64::from(*search as u8) == number) {
            Some(search) if rest.is_empty() => *self = search,
            _ => return false,
        }
        true
    }
}

options! {
    /// Options of [`LBFGS`], with PyTorch's defaults.
    LBFGSOptions {
        /// Learning rate: 1.
        lr: f64 = 1.0,
        /// How many iterations a step has at most: 20.
        max_iter: usize = 20,
        /// After how many evaluations of the loss a step ends: `None`, which is 5/4 of `max_iter`.
        max_eval: Option<usize> = None,
        /// The largest element of a gradient at which a step ends: 1e-7.
        tolerance_grad: f64 = 1e-7,
        /// The change of the loss, or the largest of a parameter, at which a step ends: 1e-9.
        tolerance_change: f64 = 1e-9,
        /// How many changes of the gradient are remembered: 100.
        history_size: usize = 100,
        /// How the length of a step is chosen.
        line_search_fn: LineSearch = LineSearch::None,
        /// Whether the loss is to grow.
        maximize: bool = false,
    }
}

/// L-BFGS, as `torch.optim.LBFGS`: steps along the gradient times an approximation of the inverse Hessian by the last changes of the
/// gradient. Liu, Nocedal: *On the Limited Memory BFGS Method for Large Scale Optimization*, 1989. It evaluates the loss several times in a
/// step, and has one group of parameters.
///
/// ```
/// use rustorch_nn::Parameter;
/// use rustorch_nn::optim::{LBFGS, LBFGSOptions, LineSearch};
/// use rustorch_tensor::Tensor;
/// let x = Parameter::new(Tensor::new([3.0f64, -2.0])?)?;
/// let options = LBFGSOptions { line_search_fn: LineSearch::StrongWolfe, ..Default::default() };
/// let mut optimizer = LBFGS::new(vec![("x".to_owned(), x.clone())], options)?;
/// optimizer.step(|| {
///     x.zero_grad();
///     let loss = x.tensor().sub(1.0)?.square()?.sum_all()?;
///     loss.backward()?;
///     Ok(loss)
/// })?;
/// assert!(x.tensor().to_vec::<f64>()?.iter().all(|x| (x - 1.0).abs() < 1e-6));
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
pub struct LBFGS {
    /// The options, which may change between steps.
    pub options: LBFGSOptions,
    parameters: Vec<(String, Parameter)>,
    history: History,
}

/// A parameter as L-BFGS sees it: complex numbers are pairs.
fn real(x: &Tensor) -> Result<Tensor> {
    if x.dtype().is_complex() { x.detach().view_as_real() } else { Ok(x.detach()) }
}

/// A tensor's only number.
fn number(x: &Tensor) -> Result<f64> {
    Ok(x.item()?.to_f64())
}

/// The largest magnitude.
fn largest(x: &Tensor) -> Result<f64> {
    number(&x.abs()?.max_all()?)
}

impl LBFGSOptions {
    fn check(&self) -> Result<()> {
        let tolerances =
            [("tolerance_grad", self.tolerance_grad), ("tolerance_change", self.tolerance_change)];
        expect_not_negative(NAME, &[("lr", self.lr)])?;
        expect_not_negative(NAME, &tolerances)?;
        let size = self.history_size;
        expect(NAME, "history_size", size as f64, size > 0, "1 or more")
    }
}

impl LBFGS {
    /// An optimizer of all parameters of a module, or a list of them with their names.
    ///
    /// # Errors
    /// If there is no parameter, one stands twice, they differ in dtype or device or have 16 bits, or an option is out of its range.
    pub fn new(parameters: impl NamedParameters, options: LBFGSOptions) -> Result<LBFGS> {
        let parameters = parameters.into_named_parameters();
        options.check()?;
        let Some((first, of_first)) = parameters.first() else {
            return Err(Error::argument(NAME, "there are no parameters"));
        };
        let of_first = real(&of_first.tensor())?;
        for (i, (name, parameter)) in parameters.iter().enumerate() {
            if let Some((other, _)) =
                parameters[..i].iter().find(|(other, same)| other == name || same.is_same(parameter))
            {
                return Err(Error::argument(NAME, format!("the parameter `{name}` is `{other}`, too")));
            }
            let x = real(&parameter.tensor())?;
            if !matches!(x.dtype(), DType::F32 | DType::F64) {
                let message = format!("the parameter `{name}` is {}, it must have 32 or 64 bits", x.dtype());
                return Err(Error::argument(NAME, message));
            }
            if (x.dtype(), x.device()) != (of_first.dtype(), of_first.device()) {
                let message =
                    format!("the parameters `{first}` and `{name}` must have one dtype and one device");
                return Err(Error::argument(NAME, message));
            }
        }
        Ok(LBFGS { options, parameters, history: History::default() })
    }

    /// Forgets the gradients of all parameters.
    pub fn zero_grad(&self) {
        self.parameters.iter().for_each(|(_, parameter)| parameter.zero_grad());
    }

    /// Changes the parameters in up to `max_iter` iterations. The closure forgets gradients, computes the loss, calls `backward` and returns
    /// the loss; the first one is the result.
    ///
    /// # Errors
    /// If an option is out of its range, or no module has one of the parameters any more; the closure's; and as operations on tensors.
    pub fn step(&mut self, mut closure: impl FnMut() -> Result<Tensor>) -> Result<Tensor> {
        expect_eager("optimizer.step")?;
        self.options.check()?;
        if let Some((name, _)) = self.parameters.iter().find(|(_, parameter)| parameter.handles() == 1) {
            let message = format!(
                "no module has the parameter `{name}` any more: make the optimizer of the model that trains"
            );
            return Err(Error::argument(NAME, message));
        }
        no_grad(|| self.iterate(&mut closure))
    }

    /// The loss, its number to be made less, and the gradient of all parameters as one vector.
    fn evaluate(&self, closure: &mut dyn FnMut() -> Result<Tensor>) -> Result<(Tensor, f64, Tensor)> {
        let loss = enable_grad(closure)?;
        let mut parts = Vec::new();
        for (_, parameter) in &self.parameters {
            let x = parameter.tensor();
            let part = x.grad().map_or_else(|| real(&x)?.zeros_like(), |grad| real(&grad))?;
            parts.push(part.to_dtype(real(&x)?.dtype())?.reshape([-1])?);
        }
        let grad = if parts.len() == 1 { parts[0].copy()? } else { Tensor::cat(&parts, 0)? };
        let value = number(&loss)?;
        match self.options.maximize {
            true => Ok((loss, -value, grad.neg()?)),
            false => Ok((loss, value, grad)),
        }
    }

    /// Adds a multiple of a direction to the parameters.
    fn advance(&self, t: f64, direction: &Tensor) -> Result<()> {
        let mut start = 0;
        for (_, parameter) in &self.parameters {
            let x = real(&parameter.tensor())?;
            let part = direction.narrow(0, start, x.numel())?.reshape(x.dims())?;
            x.add_(&part.mul(t)?)?;
            start += x.numel();
        }
        Ok(())
    }

    /// Evaluates the loss away from the parameters, which are as before then.
    fn look(&self, closure: &mut dyn FnMut() -> Result<Tensor>, t: f64, direction: &Tensor) -> Result<Point> {
        let tensors = self.parameters.iter().map(|(_, parameter)| parameter.tensor().detach());
        let before = tensors.map(|x| Ok((x.copy()?, x))).collect::<Result<Vec<_>>>()?;
        self.advance(t, direction)?;
        let seen = self.evaluate(closure);
        before.iter().try_for_each(|(old, x)| x.copy_(old))?;
        let (_, loss, grad) = seen?;
        let slope = dot(&grad, direction)?;
        Ok(Point { t, loss, grad, slope })
    }

    fn iterate(&mut self, closure: &mut dyn FnMut() -> Result<Tensor>) -> Result<Tensor> {
        let options = self.options;
        let max_eval = options.max_eval.unwrap_or(options.max_iter * 5 / 4);
        let (first, mut loss, mut grad) = self.evaluate(closure)?;
        let mut evaluations = 1;
        if largest(&grad)? <= options.tolerance_grad {
            return Ok(first);
        }
        for iteration in 1..=options.max_iter {
            let mut t = match self.history.is_empty() {
                true => (1.0 / number(&grad.abs()?.sum_all()?)?).min(1.0) * options.lr,
                false => options.lr,
            };
            let direction = self.history.direction(&grad, options.history_size)?;
            self.history.set_last(&direction, t, &grad);
            let (before, slope) = (loss, dot(&grad, &direction)?);
            if slope > -options.tolerance_change {
                break;
            }
            match options.line_search_fn {
                LineSearch::StrongWolfe => {
                    let start = Point { t: 0.0, loss, grad, slope };
                    let most = max_eval.saturating_sub(evaluations);
                    let length = largest(&direction)?;
                    let mut look = |t| self.look(closure, t, &direction);
                    let (point, count) = strong_wolfe(&mut look, &start, t, length, most)?;
                    (t, loss, grad) = (point.t, point.loss, point.grad);
                    evaluations += count;
                    self.history.set_length(t);
                    self.advance(t, &direction)?;
                }
                LineSearch::None => {
                    self.advance(t, &direction)?;
                    // After the last iteration the next step evaluates the loss.
                    if iteration < options.max_iter {
                        (_, loss, grad) = self.evaluate(closure)?;
                        evaluations += 1;
                    }
                }
            }
            if evaluations >= max_eval
                || largest(&grad)? <= options.tolerance_grad
                || largest(&direction)? * t <= options.tolerance_change
                || (loss - before).abs() < options.tolerance_change
            {
                break;
            }
        }
        Ok(first)
    }
}
