//! Batch, instance and group normalisation. Channels are dimension 1.

use crate::Tensor;
use crate::dispatch::{run_many, run_triple};
use rustorch_core::{BatchNorm, DType, Error, GroupNorm, Op, Result};
use smallvec::SmallVec;
use std::borrow::Cow;

/// Parameters of channels, as many as there are.
type Affine<'a> = SmallVec<[Cow<'a, Tensor>; 4]>;

impl Tensor {
    /// `(x − mean) / √(variance + eps) · weight + bias` for each channel of `[n, c, ..]`.
    ///
    /// In training, mean and variance are those of the batch, and `running`, if given, is moved towards them in place:
    /// `running ← (1 − momentum)·running + momentum·batch`, the variance being the unbiased one. Else they are `running`,
    /// a pair (mean, variance). All parameters have shape `[c]`; for 16-bit floats they may be `F32`.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let x = Tensor::new([[1.0f32, 10.0], [3.0, 10.0]])?;
    /// let (mean, var) = (Tensor::new([0.0f32, 0.0])?, Tensor::new([1.0f32, 1.0])?);
    /// let y = x.batch_norm(Some((&mean, &var)), None, None, true, 0.5, 1e-12)?;
    /// assert_eq!(y.to_vec::<f32>()?, [-1.0, 0.0, 1.0, 0.0]);
    /// assert_eq!(mean.to_vec::<f32>()?, [1.0, 5.0]);
    /// assert_eq!(var.to_vec::<f32>()?, [1.5, 0.5]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If there are no statistics to use, a channel has only one element in training, or shapes or dtypes do not fit.
    pub fn batch_norm(
        &self,
        running: Option<(&Tensor, &Tensor)>,
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        training: bool,
        momentum: f64,
        eps: f64,
    ) -> Result<Tensor> {
        let name = "batch_norm";
        if training {
            let [n, c] = self.batch_and_channels(name)?;
            let each = n * self.dims()[2..].iter().product::<usize>();
            if each == 1 {
                return Err(Error::shape(
                    name,
                    "one value for each channel has no variance; training needs more",
                    [self.shape()],
                ));
            }
            if let Some((mean, variance)) = running {
                expect_channels(name, self, c, [mean, variance])?;
            }
            let (y, mean, variance) = self.batch_norm_training(weight, bias, eps)?;
            // Of no elements there is nothing to learn.
            if let Some(running) = running.filter(|_| each != 0) {
                update(running, &mean, &variance, momentum, each)?;
            }
            return Ok(y);
        }
        let Some((mean, variance)) = running else {
            return Err(Error::argument(name, "needs a running mean and variance outside of training"));
        };
        let op = Op::BatchNorm(BatchNorm { training, eps });
        self.with_affine(&op, &[mean, variance], weight, bias, run_many)
    }

    /// [`batch_norm`](Self::batch_norm) by the batch's own statistics, which are returned, too: the result, the mean, and
    /// the variance divided by n, both `[c]` (in `F32` for 16-bit floats).
    ///
    /// # Errors
    /// If shapes or dtypes do not fit.
    pub fn batch_norm_training(
        &self,
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        eps: f64,
    ) -> Result<(Tensor, Tensor, Tensor)> {
        let op = Op::BatchNorm(BatchNorm { training: true, eps });
        let [y, mean, variance] = self.with_affine(&op, &[], weight, bias, run_triple)?;
        Ok((y, mean, variance))
    }

    /// `(x − mean) / √(variance + eps) · weight + bias` over groups of channels of each sample of `[n, c, ..]`; weight and
    /// bias have shape `[c]`.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let x = Tensor::new([[1.0f32, 3.0, 5.0, 5.0]])?;
    /// assert_eq!(x.group_norm(2, None, None, 1e-12)?.to_vec::<f32>()?, [-1.0, 1.0, 0.0, 0.0]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the channels do not fall into so many groups, all groups together are one element, or shapes or dtypes do not
    /// fit.
    pub fn group_norm(
        &self,
        num_groups: usize,
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        eps: f64,
    ) -> Result<Tensor> {
        let [n, c] = self.batch_and_channels("group_norm")?;
        let each = (n * c).checked_div(num_groups).unwrap_or(0) * self.dims()[2..].iter().product::<usize>();
        if each == 1 {
            return Err(Error::shape(
                "group_norm",
                "one value for each group has no variance",
                [self.shape()],
            ));
        }
        let op = Op::GroupNorm(GroupNorm { groups: num_groups, eps });
        self.with_affine(&op, &[], weight, bias, run_many)
    }

    /// `(x − mean) / √(variance + eps) · weight + bias` for each channel of each sample of `[n, c, ..]`; parameters have
    /// shape `[c]`.
    ///
    /// With `use_input_stats`, mean and variance are those of the channel in the sample, and `running`, if given, is
    /// moved towards their means over the batch as by [`batch_norm`](Self::batch_norm). Else they are `running`.
    ///
    /// # Errors
    /// If there are no statistics to use, a channel of a sample has only one element, or shapes or dtypes do not fit.
    pub fn instance_norm(
        &self,
        running: Option<(&Tensor, &Tensor)>,
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        use_input_stats: bool,
        momentum: f64,
        eps: f64,
    ) -> Result<Tensor> {
        let name = "instance_norm";
        if !use_input_stats {
            return self.batch_norm(running, weight, bias, false, momentum, eps);
        }
        let [n, c] = self.batch_and_channels(name)?;
        let each: usize = self.dims()[2..].iter().product();
        if each == 1 {
            return Err(Error::shape(
                name,
                "one value for each channel of a sample has no variance",
                [self.shape()],
            ));
        }
        let Some((mean, variance)) = running.filter(|_| n * each != 0) else {
            // Groups of no channel there cannot be.
            let op = Op::GroupNorm(GroupNorm { groups: c.max(1), eps });
            return self.with_affine(&op, &[], weight, bias, run_many);
        };
        expect_channels(name, self, c, [mean, variance])?;
        // The channels of all samples as channels of one.
        let mut dims = self.dims().to_vec();
        dims[..2].copy_from_slice(&[1, n * c]);
        let repeat = |x: Option<&Tensor>| x.map(|x| x.repeat([n])).transpose();
        let (weight, bias) = (repeat(weight)?, repeat(bias)?);
        let (y, means, variances) =
            self.reshape(dims)?.batch_norm_training(weight.as_ref(), bias.as_ref(), eps)?;
        let over_batch = |x: Tensor| x.reshape([n, c])?.mean(0, false);
        update((mean, variance), &over_batch(means)?, &over_batch(variances)?, momentum, each)?;
        y.reshape_to(self.shape().clone())
    }

    fn batch_and_channels(&self, name: &'static str) -> Result<[usize; 2]> {
        match *self.dims() {
            [n, c, ..] => Ok([n, c]),
            _ => Err(Error::shape(name, "needs a batch and a channel dimension", [self.shape()])),
        }
    }

    /// Runs an operation on this tensor, statistics, weight and bias.
    fn with_affine<T>(
        &self,
        op: &Op,
        statistics: &[&Tensor],
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        run: impl FnOnce(&Op, &[&Tensor]) -> Result<T>,
    ) -> Result<T> {
        let mut affine: Affine<'_> = statistics.iter().copied().map(Cow::Borrowed).collect();
        match (weight, bias) {
            (None, Some(bias)) => affine.push(Cow::Owned(bias.ones_like()?)),
            _ => affine.extend(weight.map(Cow::Borrowed)),
        }
        affine.extend(bias.map(Cow::Borrowed));
        // Parameters of a 16-bit tensor meet in single precision.
        let narrow = |dtype| matches!(dtype, DType::F16 | DType::BF16);
        if narrow(self.dtype()) && affine.iter().any(|x| x.dtype() != self.dtype()) {
            for x in affine.iter_mut().filter(|x| x.dtype() == self.dtype()) {
                *x = Cow::Owned(x.to_dtype(DType::F32)?);
            }
        }
        let mut args: SmallVec<[&Tensor; 5]> = SmallVec::new();
        args.push(self);
        args.extend(affine.iter().map(|x| &**x));
        run(op, &args)
    }
}

/// Checks statistics that are about to be overwritten.
fn expect_channels(name: &'static str, x: &Tensor, channels: usize, statistics: [&Tensor; 2]) -> Result<()> {
    match statistics.iter().find(|s| s.dims() != [channels] || !s.dtype().is_float()) {
        None => Ok(()),
        Some(wrong) => Err(Error::shape(
            name,
            format!("running statistics must be floats of shape [{channels}]"),
            [x.shape(), wrong.shape()],
        )),
    }
}

/// Moves running statistics towards those of a batch of `n` elements for each channel. They are no part of the graph.
fn update(
    (mean, variance): (&Tensor, &Tensor),
    batch_mean: &Tensor,
    batch_variance: &Tensor,
    momentum: f64,
    n: usize,
) -> Result<()> {
    let towards = |running: &Tensor, batch: &Tensor| {
        let (running, batch) = (running.detach(), batch.detach());
        let wide = running.to_dtype(batch.dtype())?;
        running.copy_(&wide.mul(1.0 - momentum)?.add(&batch.mul(momentum)?)?)
    };
    towards(mean, batch_mean)?;
    towards(variance, &batch_variance.detach().mul(n as f64 / (n as f64 - 1.0))?)
}
