//! Power-average pooling.

use super::options::{ExpandingArray, of_layer, spatial, spatial_name};
use crate::{ExtraRepr, Layer, Module};
use rustorch_tensor::{AvgPoolOptions, Result, Tensor};

/// `(Σ xᵖ)^(1/p)` of each window, `p` being `norm_type`, as `torch.nn.LPPool2d`: `[n, c, size..] → [n, c, (size − kernel) / stride + 1, ..]`,
/// or without `n`. As in PyTorch, powers have signs: the root of a negative sum is NaN, and so is the gradient of a
/// window of zeros unless `p` is 1.
///
/// ```
/// use rustorch_nn::{LPPool1d, Layer};
/// use rustorch_tensor::Tensor;
/// let x = Tensor::new([[3.0f32, 4.0, 6.0, 8.0]])?;
/// assert_eq!(LPPool1d::new(2.0, 2).forward(&x)?.to_vec::<f32>()?, [5.0, 10.0]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Clone, Debug, rustorch_macros::Module)]
#[module(type_name = spatial_name::<N>(["LPPool1d", "LPPool2d", "LPPool3d"]))]
#[module(extra_repr = Self::describe)]
pub struct LPPool<const N: usize> {
    norm_type: f64,
    #[module(skip)]
    kernel_size: ExpandingArray<N>,
    #[module(skip)]
    stride: Option<ExpandingArray<N>>,
    ceil_mode: bool,
}

/// [`LPPool`] over `[n, c, l]`, or without `n`.
pub type LPPool1d = LPPool<1>;
/// [`LPPool`] over `[n, c, h, w]`, or without `n`.
pub type LPPool2d = LPPool<2>;
/// [`LPPool`] over `[n, c, d, h, w]`, or without `n`.
pub type LPPool3d = LPPool<3>;

impl<const N: usize> LPPool<N> {
    /// Windows of this size, one after the other.
    pub fn new(norm_type: f64, kernel_size: impl Into<ExpandingArray<N>>) -> LPPool<N> {
        LPPool { norm_type, kernel_size: kernel_size.into(), stride: None, ceil_mode: false }
    }

    /// The step from one window to the next.
    #[must_use]
    pub fn stride(self, stride: impl Into<ExpandingArray<N>>) -> LPPool<N> {
        LPPool { stride: Some(stride.into()), ..self }
    }

    /// Whether windows that reach beyond the end count: their mean stands for what is missing.
    #[must_use]
    pub fn ceil_mode(self, ceil_mode: bool) -> LPPool<N> {
        LPPool { ceil_mode, ..self }
    }

    fn describe(&self, extra: &mut ExtraRepr) {
        extra.named("norm_type", &self.norm_type).named("kernel_size", &self.kernel_size);
        extra.named("stride", &self.stride).named("ceil_mode", &self.ceil_mode);
    }
}

impl<const N: usize> Layer for LPPool<N> {
    #[rustorch_macros::observed]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let kernel = self.kernel_size.0;
        let options =
            AvgPoolOptions::new().stride(self.stride.unwrap_or(self.kernel_size).0).ceil_mode(self.ceil_mode);
        let forward = || {
            let powers = x.pow(self.norm_type)?;
            let means = spatial!(N, powers, avg_pool1d, avg_pool2d, avg_pool3d, (kernel, &options))?;
            // PyTorch's steps, which decide what becomes of negative sums and of gradients at zero.
            let sums =
                means.sign()?.mul(&means.abs()?.relu()?)?.mul(kernel.iter().product::<usize>() as f64)?;
            sums.pow(1.0 / self.norm_type)
        };
        forward().map_err(of_layer(self.type_name()))
    }
}
