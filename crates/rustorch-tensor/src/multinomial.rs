//! Draws from distributions that tensors describe: `multinomial`, `poisson`, `binomial`, logarithms of gamma draws.

use crate::dispatch::run;
use crate::distributions::check;
use crate::random::Generator;
use crate::{Tensor, default_generator};
use rustorch_core::{DType, Error, Op, Result, Sample, SampleKind, Shape};
use rustorch_runtime::DeviceGuard;

impl Generator {
    /// As [`Tensor::multinomial`].
    ///
    /// # Errors
    /// As there.
    pub fn multinomial(&self, weights: &Tensor, num_samples: usize, replacement: bool) -> Result<Tensor> {
        let name = "multinomial";
        if !weights.dtype().is_float() {
            return Err(Error::dtype(
                name,
                "weights must be floats; convert with to_dtype",
                [weights.dtype()],
            ));
        }
        let (rows, categories, shape) = match *weights.dims() {
            [categories] => (1, categories, Shape::new([num_samples].as_slice())?),
            [rows, categories] => (rows, categories, Shape::new([rows, num_samples].as_slice())?),
            _ => {
                let why = "weights must be a vector or rows of a matrix";
                return Err(Error::shape(name, why, [weights.shape()]));
            }
        };
        if num_samples == 0 || categories == 0 {
            return Err(Error::argument(
                name,
                format!("cannot draw {num_samples} of {categories} categories"),
            ));
        }
        if !replacement && num_samples > categories {
            let why = format!("cannot draw {num_samples} of {categories} categories without replacement");
            return Err(Error::argument(name, why));
        }
        let weights = weights.detach().to_dtype(DType::F64)?.reshape([rows, categories])?;
        let valid = weights.ge(0)?.logical_and(&weights.isfinite()?)?;
        check(name, "weights", "finite and not negative", &weights, &valid)?;
        let largest = weights.amax(-1, true)?;
        check(name, "the sum of a row's weights", "positive", &largest, &largest.gt(0)?)?;
        let _beside = DeviceGuard::beside(weights.storage());
        let drawn = if replacement {
            // No sum overflows.
            let sums = weights.div(&largest)?.cumsum(-1)?;
            let total = sums.narrow(-1, categories - 1, 1)?;
            // Below the total, also rounded, so that it lies before the sum of a category that has a weight.
            let places = self.rand([rows, num_samples], DType::F64)?.mul(&total)?;
            sums.searchsorted(&places, true)?
        } else {
            let positive = weights.gt(0)?.to_dtype(DType::I64)?.sum(-1, true)?;
            let rule = format!("{num_samples} or more to draw without replacement");
            let enough = positive.ge(num_samples as i64)?;
            check(name, "the number of a row's positive weights", &rule, &positive, &enough)?;
            // The order of exponential waiting times, of which weights are the rates, is that of draws without replacement. Weights 0 wait forever.
            let waits = self.rand([rows, categories], DType::F64)?.neg()?.log1p()?.neg()?;
            let logs =
                waits.log()?.sub(&weights.log()?)?.nan_to_num(f64::INFINITY, Some(f64::INFINITY), None)?;
            logs.topk(num_samples, -1, false)?.1
        };
        drawn.reshape_to(shape)
    }

    /// As [`Tensor::poisson`].
    ///
    /// # Errors
    /// As there.
    pub fn poisson(&self, rates: &Tensor) -> Result<Tensor> {
        check("poisson", "rates", "0 or positive", rates, &rates.ge(0)?)?;
        self.elements(SampleKind::Poisson, &[rates])
    }

    /// As [`Tensor::binomial`].
    ///
    /// # Errors
    /// As there.
    pub fn binomial(&self, counts: &Tensor, probs: &Tensor) -> Result<Tensor> {
        let whole = counts.ge(0)?.logical_and(&counts.eq(&counts.floor()?)?)?;
        check("binomial", "counts", "an integer from 0 on", counts, &whole)?;
        check("binomial", "probs", "from 0 to 1", probs, &probs.ge(0)?.logical_and(&probs.le(1)?)?)?;
        let shape = counts.shape().broadcast(probs.shape(), "binomial")?;
        self.elements(SampleKind::Binomial, &[&counts.broadcast_to(&shape)?, &probs.broadcast_to(&shape)?])
    }

    /// Logarithms of draws from gamma distributions of rate 1, of which the elements are the concentrations. They have the implicit gradient: that of a quantile.
    /// Draws of small concentrations, as 10⁻³, are often below the smallest positive number of the dtype, their logarithms are not.
    ///
    /// # Errors
    /// If a concentration is not positive, or the dtype is no float.
    pub fn log_gamma(&self, concentrations: &Tensor) -> Result<Tensor> {
        check("log_gamma", "concentrations", "positive", concentrations, &concentrations.gt(0)?)?;
        self.elements(SampleKind::LogGamma, &[concentrations])
    }

    fn elements<const N: usize>(
        &self,
        distribution: SampleKind,
        parameters: &[&Tensor; N],
    ) -> Result<Tensor> {
        let key = self.next_part(Sample::blocks(parameters[0].numel()));
        run(&Op::Sample(Sample { distribution, key }), parameters)
    }
}

/// From the process's own generator, which [`manual_seed`](crate::manual_seed) seeds.
impl Tensor {
    /// `num_samples` categories, 0 to k − 1, as `I64`, drawn with probabilities that are proportional to this vector of weights `[k]`, or to each row of
    /// `[n, k]`. A category is drawn once at most, unless with `replacement`. Results have no gradient.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let weights = Tensor::new([0.0f32, 10.0, 3.0, 0.0])?;
    /// assert!(weights.multinomial(20, true)?.to_vec::<i64>()?.iter().all(|i| [1, 2].contains(i)));
    /// let mut both = weights.multinomial(2, false)?.to_vec::<i64>()?;
    /// both.sort();
    /// assert_eq!(both, [1, 2]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the weights are no floats, negative or not finite, all of a row are 0, none are to be drawn, or fewer can be drawn than asked for.
    pub fn multinomial(&self, num_samples: usize, replacement: bool) -> Result<Tensor> {
        default_generator().multinomial(self, num_samples, replacement)
    }

    /// A draw from a Poisson distribution for each element, its rate, in the same dtype. It has no gradient.
    ///
    /// ```
    /// # use rustorch_tensor::{DType, Tensor};
    /// let mean = Tensor::full([10_000], 4.0, DType::F32)?.poisson()?.mean_all()?;
    /// assert!((mean.item_as::<f32>()? - 4.0).abs() < 0.1);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If a rate is negative, or the dtype is no float.
    pub fn poisson(&self) -> Result<Tensor> {
        default_generator().poisson(self)
    }

    /// A draw from a binomial distribution for each element: successes among so many trials, each of a probability. It has no gradient.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let counts = Tensor::new([10.0f32, 100.0])?;
    /// assert_eq!(counts.binomial(&Tensor::new([1.0f32, 0.0])?)?.to_vec::<f32>()?, [10.0, 0.0]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the shapes do not broadcast, a count is no integer from 0 on or a probability not from 0 to 1, or the dtypes are not one of floats.
    pub fn binomial(&self, probs: &Tensor) -> Result<Tensor> {
        default_generator().binomial(self, probs)
    }
}
