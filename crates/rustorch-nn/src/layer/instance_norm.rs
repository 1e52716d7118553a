//! Instance normalization.

use super::batch_norm::channel_norm;
use super::options::{expect_channels, of_layer, options, spatial_name};
use crate::{Buffer, ExtraRepr, Layer, Module, Parameter, Training};
use rustorch_tensor::{Result, Tensor, TensorOptions};

options! {
    /// How an [`InstanceNorm`] is made: the optional arguments of `torch.nn.InstanceNorm2d` with their defaults.
    InstanceNormOptions {
        /// What is added to the variance.
        eps: plain f64 = 1e-5;
        /// How far running statistics move towards those of the batch.
        momentum: plain f64 = 0.1;
        /// Whether it has a weight and a bias.
        affine: plain bool = false;
        /// Whether it has a bias beside the weight.
        bias: plain bool = true;
        /// Whether it keeps running statistics, which it uses outside of training.
        track_running_stats: plain bool = false;
    }
}

channel_norm! {
    /// `(x − mean) / √(variance + eps) · weight + bias` for each channel of each sample, as `torch.nn.InstanceNorm2d`:
    /// `[n, num_features, size..]` with `N` spatial dimensions, or without `n`.
    ///
    /// Mean and variance are those of the sample, unless it keeps running ones and does not train. As in PyTorch, it counts no batches.
    ///
    /// Ulyanov, Vedaldi, Lempitsky: *Instance Normalization: The Missing Ingredient for Fast Stylization*, 2016.
    ///
    /// ```
    /// use rustorch_nn::{InstanceNorm1d, Layer};
    /// use rustorch_tensor::Tensor;
    /// let y = InstanceNorm1d::new(2)?.forward(&Tensor::new([[[1.0f32, 3.0], [9.0, 5.0]]])?)?;
    /// assert!(y.allclose(&Tensor::new([[[-1.0f32, 1.0], [1.0, -1.0]]])?, 1e-4, 0.0, false)?);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    InstanceNorm, InstanceNormOptions, ["InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"],
    [InstanceNorm1d, InstanceNorm2d, InstanceNorm3d]
}

impl<const N: usize> Layer for InstanceNorm<N> {
    #[rustorch_macros::observed]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let name = self.type_name();
        expect_channels(name, x, self.num_features, N)?;
        let (running, (weight, bias)) = (self.running(), self.affine());
        let of_sample = self.training.get() || running.is_none();
        let norm = |x: &Tensor| {
            x.instance_norm(
                running.as_ref().map(|(mean, variance)| (mean, variance)),
                weight.as_ref(),
                bias.as_ref(),
                of_sample,
                self.options.momentum,
                self.options.eps,
            )
        };
        let y = if x.ndim() == N + 2 { norm(x) } else { x.unsqueeze(0).and_then(|x| norm(&x)?.squeeze(0)) };
        y.map_err(of_layer(name))
    }
}
