//! Batch normalization.

use super::options::{of_layer, options, spatial_name};
use crate::module::Mode;
use crate::{Buffer, ExtraRepr, Layer, Module, Parameter, Training};
use rustorch_tensor::autograd::no_grad;
use rustorch_tensor::{Error, Result, Tensor, TensorOptions};

options! {
    /// How a [`BatchNorm`] is made: the optional arguments of `torch.nn.BatchNorm2d` with their defaults.
    BatchNormOptions {
        /// What is added to the variance.
        eps: plain f64 = 1e-5;
        /// How far running statistics move towards those of the batch; `None` makes them the mean over all batches.
        momentum: into Option<f64> = Some(0.1);
        /// Whether it has a weight and a bias.
        affine: plain bool = true;
        /// Whether it has a bias beside the weight.
        bias: plain bool = true;
        /// Whether it keeps running statistics; without, it takes those of the batch outside of training, too.
        track_running_stats: plain bool = true;
    }
}

/// A layer with an affine map and running statistics of channels, for batch and instance normalization.
macro_rules! channel_norm {
    ($(#[$doc:meta])* $norm:ident, $options:ident, $names:expr, [$one:ident, $two:ident, $three:ident]) => {
        $(#[$doc])*
        #[derive(Debug, rustorch_macros::Module)]
        #[module(type_name = spatial_name::<N>($names))]
        #[module(extra_repr = Self::describe)]
        pub struct $norm<const N: usize> {
            /// `[num_features]`, ones at first.
            pub weight: Option<Parameter>,
            /// `[num_features]`, zeros at first.
            pub bias: Option<Parameter>,
            /// `[num_features]`, zeros at first.
            pub running_mean: Option<Buffer>,
            /// `[num_features]`, ones at first: the variance with n − 1 in the divisor.
            pub running_var: Option<Buffer>,
            /// How many batches there were in training, an `I64` of no dimensions.
            pub num_batches_tracked: Option<Buffer>,
            training: Training,
            #[module(repr = value)]
            num_features: usize,
            #[module(skip)]
            options: $options,
        }

        #[doc = concat!("[`", stringify!($norm), "`] over sequences.")]
        pub type $one = $norm<1>;
        #[doc = concat!("[`", stringify!($norm), "`] over images.")]
        pub type $two = $norm<2>;
        #[doc = concat!("[`", stringify!($norm), "`] over volumes.")]
        pub type $three = $norm<3>;

        impl<const N: usize> $norm<N> {
            /// A norm of so many channels, with PyTorch's defaults.
            ///
            /// # Errors
            /// If memory does not suffice.
            pub fn new(num_features: usize) -> Result<Self> {
                Self::with(num_features, $options::default())
            }

            /// A norm of so many channels.
            ///
            /// # Errors
            /// If the dtype is none of floats, or memory does not suffice.
            pub fn with(num_features: usize, options: $options) -> Result<Self> {
                let tensor = options.tensor;
                let parameter = |there, value| match there {
                    true => Parameter::new(Tensor::full([num_features], value, tensor)?).map(Some),
                    false => Ok(None),
                };
                let buffer = |value| match options.track_running_stats {
                    true => {
                        let plain = tensor.requires_grad(false);
                        Tensor::full([num_features], value, plain).map(|x| Some(Buffer::new(&x)))
                    }
                    false => Ok(None),
                };
                let count = match options.track_running_stats {
                    true => {
                        let dtype = rustorch_tensor::DType::I64;
                        let integer = TensorOptions { dtype, requires_grad: false, ..tensor };
                        Some(Buffer::new(&Tensor::zeros((), integer)?))
                    }
                    false => None,
                };
                Ok($norm {
                    weight: parameter(options.affine, 1.0)?,
                    bias: parameter(options.affine && options.bias, 0.0)?,
                    running_mean: buffer(0.0)?,
                    running_var: buffer(1.0)?,
                    num_batches_tracked: count,
                    training: Training::default(),
                    num_features,
                    options,
                })
            }

            fn describe(&self, extra: &mut ExtraRepr) {
                let $options { eps, momentum, affine, track_running_stats, .. } = &self.options;
                extra.named("eps", eps).named("momentum", momentum).named("affine", affine);
                extra.named("bias", &self.bias.is_some()).named("track_running_stats", track_running_stats);
            }

            /// Running mean and variance, if it keeps them.
            fn running(&self) -> Option<(Tensor, Tensor)> {
                Some((self.running_mean.as_ref()?.tensor(), self.running_var.as_ref()?.tensor()))
            }

            /// Weight and bias.
            fn affine(&self) -> (Option<Tensor>, Option<Tensor>) {
                (self.weight.as_ref().map(Parameter::tensor), self.bias.as_ref().map(Parameter::tensor))
            }
        }
    };
}

pub(super) use channel_norm;

channel_norm! {
    /// `(x − mean) / √(variance + eps) · weight + bias` for each channel, as `torch.nn.BatchNorm2d`: `[n, num_features, size..]` with `N`
    /// spatial dimensions, for `BatchNorm1d` also `[n, num_features]`.
    ///
    /// While training, mean and variance are those of the batch, and the running ones move towards them by `momentum`; else they are the
    /// running ones.
    ///
    /// Ioffe, Szegedy: *Batch Normalization: Accelerating Deep Network Training by Reducing Internal Covariate Shift*, 2015.
    ///
    /// ```
    /// use rustorch_nn::{BatchNorm1d, Layer, Module};
    /// use rustorch_tensor::Tensor;
    /// let norm = BatchNorm1d::new(1)?;
    /// let x = Tensor::new([[1.0f32], [3.0]])?;
    /// assert!(norm.forward(&x)?.allclose(&Tensor::new([[-1.0f32], [1.0]])?, 1e-4, 0.0, false)?);
    /// norm.eval();
    /// // The running mean has moved from 0 to 0.2, the running variance from 1 to 1.1.
    /// let y = norm.forward(&x)?.to_vec::<f32>()?;
    /// assert!((y[0] - 0.8 / 1.1f32.sqrt()).abs() < 1e-4);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    BatchNorm, BatchNormOptions, ["BatchNorm1d", "BatchNorm2d", "BatchNorm3d"],
    [BatchNorm1d, BatchNorm2d, BatchNorm3d]
}

impl<const N: usize> BatchNorm<N> {
    /// The momentum of this batch, which is counted.
    fn count_batch(&self) -> Result<f64> {
        let Some(count) = &self.num_batches_tracked else { return Ok(0.0) };
        let count = count.tensor();
        no_grad(|| count.add_(1))?;
        match self.options.momentum {
            Some(momentum) if self.training.mode() != Mode::Cumulative => Ok(momentum),
            _ => Ok(1.0 / count.item()?.to_f64()),
        }
    }
}

impl<const N: usize> Layer for BatchNorm<N> {
    #[rustorch_macros::observed]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (name, channels) = (self.type_name(), self.num_features);
        let is_flat = N == 1 && x.ndim() == 2;
        if !(is_flat || x.ndim() == N + 2) || x.dims()[1] != channels {
            let lengths = ["l] or [n, c", "h, w", "d, h, w"][N - 1];
            let message = format!("takes [n, c, {lengths}] with c = {channels}");
            return Err(Error::shape(name, message, [x.shape()]));
        }
        let eps = self.options.eps;
        if eps.is_nan() || eps <= 0.0 {
            return Err(Error::argument(name, format!("eps must be positive, and is {eps}")));
        }
        let training = self.training.get();
        let running = self.running();
        let momentum = if training { self.count_batch()? } else { 0.0 };
        let (weight, bias) = self.affine();
        x.batch_norm(
            running.as_ref().map(|(mean, variance)| (mean, variance)),
            weight.as_ref(),
            bias.as_ref(),
            training || running.is_none(),
            momentum,
            self.options.eps,
        )
        .map_err(of_layer(name))
    }
}
