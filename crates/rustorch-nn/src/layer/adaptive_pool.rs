//! Pooling to an output size.

use super::options::{of_layer, spatial, spatial_name};
use super::pool::aliases;
use crate::{Layer, Module};
use rustorch_tensor::{Result, Sizes, Tensor};

aliases! {
    AdaptiveMaxPool: AdaptiveMaxPool1d AdaptiveMaxPool2d AdaptiveMaxPool3d;
    AdaptiveAvgPool: AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d;
}

/// The largest elements of windows that cover the argument, as many as the result has positions, as `torch.nn.AdaptiveMaxPool2d`:
/// `[n, c, size..] → [n, c, output_size..]`. An output size of −1 is the argument's: PyTorch's `None`.
///
/// ```
/// use rustorch_nn::{AdaptiveMaxPool2d, Layer};
/// use rustorch_tensor::Tensor;
/// let x = Tensor::new([[[1.0f32, 2.0, 3.0], [6.0, 5.0, 4.0]]])?;
/// assert_eq!(AdaptiveMaxPool2d::new([1, -1]).forward(&x)?.to_vec::<f32>()?, [6.0, 5.0, 4.0]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Clone, Debug, rustorch_macros::Module)]
#[module(type_name = spatial_name::<N>(["AdaptiveMaxPool1d", "AdaptiveMaxPool2d", "AdaptiveMaxPool3d"]))]
pub struct AdaptiveMaxPool<const N: usize> {
    #[module(skip, repr)]
    output_size: Sizes,
}

/// The means of windows that cover the argument, as many as the result has positions, as `torch.nn.AdaptiveAvgPool2d`:
/// `[n, c, size..] → [n, c, output_size..]`. An output size of −1 is the argument's: PyTorch's `None`.
///
/// ```
/// use rustorch_nn::{AdaptiveAvgPool1d, Layer};
/// use rustorch_tensor::Tensor;
/// let x = Tensor::new([[1.0f32, 2.0, 6.0]])?;
/// assert_eq!(AdaptiveAvgPool1d::new(2).forward(&x)?.to_vec::<f32>()?, [1.5, 4.0]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Clone, Debug, rustorch_macros::Module)]
#[module(type_name = spatial_name::<N>(["AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d"]))]
pub struct AdaptiveAvgPool<const N: usize> {
    #[module(skip, repr)]
    output_size: Sizes,
}

impl<const N: usize> AdaptiveMaxPool<N> {
    /// To an output size: one number for all spatial dimensions, or one for each.
    pub fn new(output_size: impl Into<Sizes>) -> AdaptiveMaxPool<N> {
        AdaptiveMaxPool { output_size: output_size.into() }
    }

    /// The result, and where in the flattened spatial dimensions the elements are (`I64`): PyTorch's `return_indices`.
    ///
    /// # Errors
    /// If the argument has another number of dimensions, or the output size has.
    #[rustorch_macros::observed]
    pub fn forward_with_indices(&self, x: &Tensor) -> Result<(Tensor, Tensor)> {
        let size = self.output_size.clone();
        spatial!(
            N,
            x,
            adaptive_max_pool1d_with_indices,
            adaptive_max_pool2d_with_indices,
            adaptive_max_pool3d_with_indices,
            (size)
        )
        .map_err(of_layer(self.type_name()))
    }
}

impl<const N: usize> Layer for AdaptiveMaxPool<N> {
    #[rustorch_macros::observed]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        Ok(self.forward_with_indices(x)?.0)
    }
}

impl<const N: usize> AdaptiveAvgPool<N> {
    /// To an output size: one number for all spatial dimensions, or one for each.
    pub fn new(output_size: impl Into<Sizes>) -> AdaptiveAvgPool<N> {
        AdaptiveAvgPool { output_size: output_size.into() }
    }
}

impl<const N: usize> Layer for AdaptiveAvgPool<N> {
    #[rustorch_macros::observed]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let size = self.output_size.clone();
        spatial!(N, x, adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d, (size))
            .map_err(of_layer(self.type_name()))
    }
}
