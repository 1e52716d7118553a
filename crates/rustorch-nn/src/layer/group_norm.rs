//! Normalization over groups of channels of each sample, and over neighbouring channels.

use super::options::{expect_groups, of_layer, options};
use crate::{ExtraRepr, Layer, Module, Parameter};
use rustorch_tensor::{Error, Result, Tensor};

options! {
    /// How a [`GroupNorm`] is made: the optional arguments of `torch.nn.GroupNorm` with their defaults.
    GroupNormOptions {
        /// What is added to the variance.
        eps: plain f64 = 1e-5;
        /// Whether it has a weight and a bias.
        affine: plain bool = true;
        /// Whether it has a bias beside the weight.
        bias: plain bool = true;
    }
}

/// `(x − mean) / √(variance + eps) · weight + bias` over groups of channels of each sample, as `torch.nn.GroupNorm`:
/// `[n, num_channels, ..]`.
///
/// Wu, He: *Group Normalization*, 2018.
///
/// ```
/// use rustorch_nn::{GroupNorm, Layer};
/// use rustorch_tensor::Tensor;
/// let y = GroupNorm::new(2, 4)?.forward(&Tensor::new([[1.0f32, 3.0, 9.0, 5.0]])?)?;
/// assert!(y.allclose(&Tensor::new([[-1.0f32, 1.0, 1.0, -1.0]])?, 1e-4, 0.0, false)?);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Debug, rustorch_macros::Module)]
#[module(extra_repr = Self::describe)]
pub struct GroupNorm {
    /// `[num_channels]`, ones at first.
    pub weight: Option<Parameter>,
    /// `[num_channels]`, zeros at first.
    pub bias: Option<Parameter>,
    #[module(repr = value)]
    num_groups: usize,
    #[module(repr = value)]
    num_channels: usize,
    #[module(repr)]
    eps: f64,
}

impl GroupNorm {
    /// A norm with a weight and a bias.
    ///
    /// # Errors
    /// If the channels are no multiple of the groups, or memory does not suffice.
    pub fn new(num_groups: usize, num_channels: usize) -> Result<GroupNorm> {
        GroupNorm::with(num_groups, num_channels, GroupNormOptions::default())
    }

    /// A norm.
    ///
    /// # Errors
    /// If the channels are no multiple of the groups, the dtype is none of floats, or memory does not suffice.
    pub fn with(num_groups: usize, num_channels: usize, options: GroupNormOptions) -> Result<GroupNorm> {
        expect_groups("GroupNorm", "num_channels", num_channels, num_groups)?;
        let parameter = |there, value| match there {
            true => Parameter::new(Tensor::full([num_channels], value, options.tensor)?).map(Some),
            false => Ok(None),
        };
        let weight = parameter(options.affine, 1.0)?;
        let bias = parameter(options.affine && options.bias, 0.0)?;
        Ok(GroupNorm { weight, bias, num_groups, num_channels, eps: options.eps })
    }

    fn describe(&self, extra: &mut ExtraRepr) {
        extra.named("affine", &self.weight.is_some()).named("bias", &self.bias.is_some());
    }
}

impl Layer for GroupNorm {
    #[rustorch_macros::observed]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        if x.dims().get(1) != Some(&self.num_channels) {
            let message = format!("takes [n, {}, ..]", self.num_channels);
            return Err(Error::shape(self.type_name(), message, [x.shape()]));
        }
        let weight = self.weight.as_ref().map(Parameter::tensor);
        let bias = self.bias.as_ref().map(Parameter::tensor);
        x.group_norm(self.num_groups, weight.as_ref(), bias.as_ref(), self.eps)
            .map_err(of_layer(self.type_name()))
    }
}

/// `x / (k + alpha · mean(x²))^beta`, where the mean is over `size` neighbouring channels, as `torch.nn.LocalResponseNorm`: `[n, c, ..]`.
///
/// Krizhevsky, Sutskever, Hinton: *ImageNet Classification with Deep Convolutional Neural Networks*, 2012.
///
/// ```
/// use rustorch_nn::{Layer, LocalResponseNorm};
/// use rustorch_tensor::Tensor;
/// let norm = LocalResponseNorm::new(1)?.alpha(3.0).beta(0.5);
/// let y = norm.forward(&Tensor::new([[[1.0f32], [4.0]]])?)?;
/// assert!(y.allclose(&Tensor::new([[[0.5f32], [4.0 / 7.0]]])?, 1e-6, 0.0, false)?);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Clone, Debug, rustorch_macros::Module)]
pub struct LocalResponseNorm {
    #[module(repr = value)]
    size: usize,
    #[module(repr)]
    alpha: f64,
    #[module(repr)]
    beta: f64,
    #[module(repr)]
    k: f64,
}

impl LocalResponseNorm {
    /// Over so many channels, with PyTorch's `alpha` 1e-4, `beta` 0.75 and `k` 1.
    ///
    /// # Errors
    /// If it is over none.
    pub fn new(size: usize) -> Result<LocalResponseNorm> {
        if size == 0 {
            return Err(Error::argument("LocalResponseNorm", "size must be at least 1"));
        }
        Ok(LocalResponseNorm { size, alpha: 1e-4, beta: 0.75, k: 1.0 })
    }

    /// The factor of the mean.
    #[must_use]
    pub fn alpha(self, alpha: f64) -> LocalResponseNorm {
        LocalResponseNorm { alpha, ..self }
    }

    /// The exponent.
    #[must_use]
    pub fn beta(self, beta: f64) -> LocalResponseNorm {
        LocalResponseNorm { beta, ..self }
    }

    /// What is added to the mean.
    #[must_use]
    pub fn k(self, k: f64) -> LocalResponseNorm {
        LocalResponseNorm { k, ..self }
    }
}

impl Layer for LocalResponseNorm {
    #[rustorch_macros::observed]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        if x.ndim() < 3 {
            return Err(Error::shape(self.type_name(), "takes [n, c, size..]", [x.shape()]));
        }
        let forward = || {
            let ends = [0, 0, (self.size / 2) as isize, ((self.size - 1) / 2) as isize];
            let squares = x.flatten(2, -1)?.square()?.pad(ends, 0)?;
            let mean = squares.unfold(1, self.size, 1)?.mean(-1, false)?;
            let divisor = mean.mul(self.alpha)?.add(self.k)?.pow(self.beta)?;
            x.div(&divisor.reshape(x.dims())?)
        };
        forward().map_err(of_layer(self.type_name()))
    }
}
